"""The server's machine: takes only what belongs to the open round, and its state is a fold over the closings."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest

from semilocal import Closed, Curator, Query, Report, Task
from semilocal.errors import DeviceViolation, InvalidInput
from semilocal.protocol.curator import count_reports
from semilocal.protocol.messages import ValueClosed, ValueQuery, ValueReport, encode
from semilocal.protocol.plan import Plan, Release
from semilocal.randomizer.values.mechanisms import DiscreteLaplaceValue, TwoPoint
from semilocal.testing import cluster, participants_at, play, unit_box
from tests.helpers.pair import closed as close_round
from tests.helpers.pair import opened

TASK = Task.build(unit_box(2), epsilon=4.0, delta=0.05, k=3, max_depth=4, max_rounds=3, tau=0.4)
LAPLACE = Task.build(unit_box(1), epsilon=8.0, delta=0.05, k=3, randomizer="discrete-laplace", max_depth=3)


def report(task: Task, number: int, /, **changes: Any) -> Report:
    answer = 0 if task is TASK else (1, 0)
    legal = Report(task.id, 1, number.to_bytes(16, "big"), 1, answer)
    return msgspec.structs.replace(legal, **changes)


@pytest.mark.parametrize(
    ("changes", "token"),
    [
        ({"task": bytes(32)}, "other-task"),
        ({"round": 2}, "other-round"),
        ({"round": 65536}, "other-round"),
        ({"cell": 2}, "unknown-cell"),
        ({"cell": 2**64 - 1}, "unknown-cell"),
        ({"answer": None}, "bad-answer"),
        ({"answer": 2}, "bad-answer"),
        ({"answer": -1}, "bad-answer"),
        ({"answer": 2**64 - 1}, "bad-answer"),
        ({"answer": ()}, "bad-answer"),
        ({"answer": (0, 1)}, "bad-answer"),
    ],
)
def test_check_refuses_what_does_not_belong_to_the_open_round(changes: dict[str, Any], token: str) -> None:
    curator = Curator(TASK)
    before = curator.query()
    curator.check(report(TASK, 1))
    with pytest.raises(DeviceViolation) as caught:
        curator.check(report(TASK, 1, **changes))
    assert caught.value.token == token
    assert curator.query() == before
    curator.check(report(TASK, 1))


@pytest.mark.parametrize("answer", [1, None, (), (1,), (1, 0, 0), (10**9, 0), (0, -(2**63))])
def test_check_refuses_vectors_outside_the_alphabet(answer: Any) -> None:
    curator = Curator(LAPLACE)
    curator.check(report(LAPLACE, 1))
    with pytest.raises(DeviceViolation, match="bad-answer"):
        curator.check(report(LAPLACE, 1, answer=answer))


def test_check_refuses_everything_when_finished() -> None:
    curator = Curator(TASK)
    curator.close([1], [[1, 0]])
    assert curator.finished
    assert curator.query() is None
    for number in (1, 2):
        with pytest.raises(DeviceViolation, match="other-round"):
            curator.check(report(TASK, 1, round=number))


@pytest.mark.parametrize(
    ("responders", "tally"),
    [
        ([10], [[5, 6]]),
        ([10], [[11, -1]]),
        ([-1], [[0, -1]]),
        ([10], [[10]]),
        ([10], [[5, 5, 0]]),
        ([10], [5, 5]),
        ([10, 10], [[5, 5]]),
        ([10], [[5, 5], [5, 5]]),
        (10, [[5, 5]]),
        ([], []),
        ([10.0], [[5, 5]]),
        ([10], [[5.0, 5.0]]),
        ([10], [[4.5, 5.5]]),
        ([True], [[1, 0]]),
        (["10"], [["5", "5"]]),
        ([10], [[5], [5, 5]]),
        ([10], None),
        ([2**33], [[2**33, 0]]),
        ([2**63], [[2**63, 0]]),
        ([2**70], [[2**70, 0]]),
        ([2**64 - 2], [[2**63 - 1, 2**63 - 1]]),
        ([float("nan")], [[0, 0]]),
    ],
)
def test_close_refuses_sums_that_no_reports_have_and_changes_nothing(responders: Any, tally: Any) -> None:
    curator = Curator(TASK)
    before = curator.query()
    with pytest.raises(InvalidInput):
        curator.close(responders, tally)
    assert curator.query() == before
    assert curator.close([10], [[5, 5]]).responders == (10,)


def test_close_takes_no_transposed_tally() -> None:
    """Two children and three cells have six sums either way; the wrong way round is refused, not reshaped."""
    curator = Curator(Task.build(unit_box(1), epsilon=4.0, delta=0.05, k=3, tree="binary", max_depth=3, tau=0.4))
    curator.close([200], [[100, 100]])
    curator.close([100, 100], [[50, 50], [97, 3]])
    assert len(opened(curator).cells) == 3
    with pytest.raises(InvalidInput, match=r"tally must be integers of shape \(3, 2\)"):
        curator.close([10, 10, 10], [[5, 5, 5], [5, 5, 5]])
    curator.close([10, 10, 10], [[5, 5], [5, 5], [5, 5]])


def test_a_roll_call_takes_presence_only() -> None:
    task = Task.build(unit_box(1), epsilon=4.0, delta=0.05, k=3, max_depth=2, max_rounds=1)
    curator = Curator(task)
    assert not Curator(task).roll_call
    curator.close([100], [[50, 50]])
    assert curator.roll_call
    with pytest.raises(DeviceViolation, match="bad-answer"):
        curator.check(Report(task.id, 2, bytes(16), 2, 0))
    curator.check(Report(task.id, 2, bytes(16), 2, None))
    with pytest.raises(InvalidInput):
        curator.close([50, 50], [[25, 25], [25, 25]])
    closed = close_round(curator, [50, 49], np.empty((2, 0), dtype=np.int64))
    assert (closed.tally, closed.kept) == (((), ()), ((), ()))
    assert curator.finished
    with pytest.raises(InvalidInput, match="finished"):
        curator.close([50, 49], np.empty((2, 0), dtype=np.int64))


@cache
def events() -> list[Any]:
    return play(TASK, participants_at(TASK, cluster(60, 2))).events


def test_replay_equals_live_after_every_event() -> None:
    history = events()
    for length in range(len(history) + 1):
        replayed = Curator.replay(TASK, history[:length])
        live = Curator(TASK)
        for event in history[:length]:
            if isinstance(event, Closed):
                live.close(event.responders, event.tally)
        assert (replayed.round, replayed.finished, replayed.query()) == (live.round, live.finished, live.query())
        for one, other in zip(replayed.frontier, live.frontier, strict=True):
            np.testing.assert_array_equal(one, other)
    queries = [event for event in history if isinstance(event, Query)]
    prefixes = [history[: history.index(query)] for query in queries]
    assert [Curator.replay(TASK, prefix).query() for prefix in prefixes] == queries


def test_closing_the_same_round_twice_gives_the_same_bytes() -> None:
    """A server that crashed between closing and storing replays, closes again, and publishes nothing new."""
    history = events()
    for place, event in enumerate(history):
        if isinstance(event, Closed):
            first, second = (Curator.replay(TASK, history[:place]) for _ in range(2))
            assert encode(first.close(event.responders, event.tally)) == encode(event)
            assert encode(second.close(event.responders, event.tally)) == encode(event)
            assert first.query() == second.query()


def test_replay_refuses_closings_that_do_not_follow() -> None:
    closings = [event for event in events() if isinstance(event, Closed)]
    assert len(closings) >= 3
    first, second = closings[:2]
    flipped = tuple(() if children else (0, 1) for children in first.kept)
    bad = [
        [msgspec.structs.replace(first, kept=flipped)],
        [msgspec.structs.replace(first, round=2)],
        [msgspec.structs.replace(first, task=bytes(32))],
        [msgspec.structs.replace(first, responders=(first.responders[0] + 1,))],
        [second],
        [first, first],
        [*closings, closings[-1]],
        [first, *closings[2:]],
    ]
    for history in bad:
        with pytest.raises(InvalidInput):
            Curator.replay(TASK, history)


def test_counting_is_a_sum_in_any_order() -> None:
    """Compared with a plain loop; parts add up to the whole; permutations change nothing."""
    for task in (TASK, LAPLACE):
        history = play(task, participants_at(task, cluster(60, task.box.dimensions))).events
        rounds: dict[int, list[Report]] = {}
        for event in history:
            if isinstance(event, Report):
                rounds.setdefault(event.round, []).append(event)
        for query in (event for event in history if isinstance(event, Query)):
            curator = Curator.replay(task, history[: history.index(query)])
            reports = rounds[query.round]
            size, sums = count_reports(curator, reports)
            expected = {cell: [0] * task.randomizer.fanout for cell in query.cells}
            for one in reports:
                if isinstance(one.answer, int):
                    expected[one.cell][one.answer] += 1
                elif one.answer is not None:
                    expected[one.cell] = [a + b for a, b in zip(expected[one.cell], one.answer, strict=True)]
            assert size.tolist() == [sum(one.cell == cell for one in reports) for cell in query.cells]
            if query.round <= task.max_rounds:
                assert sums.tolist() == [expected[cell] for cell in query.cells]
            else:
                assert sums.shape == (len(query.cells), 0)
            rng = np.random.default_rng(5)
            for _ in range(5):
                mixed = [reports[place] for place in rng.permutation(len(reports))]
                for got, same in zip(count_reports(curator, mixed), (size, sums), strict=True):
                    np.testing.assert_array_equal(got, same)
                parts = [count_reports(curator, part) for part in (mixed[:7], mixed[7:20], mixed[20:], [])]
                np.testing.assert_array_equal(sum(part[0] for part in parts), size)
                np.testing.assert_array_equal(sum(part[1] for part in parts), sums)


def test_counting_refuses_a_pseudonym_that_reports_twice() -> None:
    for second in (report(TASK, 1), report(TASK, 1, answer=1)):
        with pytest.raises(DeviceViolation) as caught:
            count_reports(Curator(TASK), [report(TASK, 2), report(TASK, 1), second])
        assert caught.value.token == "reported-twice"


@pytest.mark.parametrize("cell", [2, 3, 2**64 - 1])
def test_counting_refuses_a_cell_that_was_not_asked_about(cell: int) -> None:
    with pytest.raises(DeviceViolation) as caught:
        count_reports(Curator(TASK), [report(TASK, 2), report(TASK, 1, cell=cell)])
    assert caught.value.token == "unknown-cell"


def test_nobody_answers() -> None:
    curator = Curator(TASK)
    size, sums = count_reports(curator, [])
    closed = close_round(curator, size, sums)
    assert (closed.responders, closed.tally, closed.kept) == ((0,), ((0, 0),), ((),))
    assert curator.finished


# -- regions and rounds of values ------------------------------------------------------------------------------------

RULES = [
    Task.build(unit_box(2), epsilon=6.0, delta=0.05, k=3, max_depth=4, max_rounds=3, tau=0.4, rule=rule)
    for rule in ("all", "trim", "each")
]


@pytest.mark.parametrize("task", RULES, ids=lambda task: task.rule)
def test_regions_know_the_last_report_that_leads_to_them(task: Task) -> None:
    """Compared with every participant's own way: where it ended, and which report was its last."""
    played = play(task, participants_at(task, cluster(80, 2)))
    curator = Curator.replay(task, played.events)
    last: dict[bytes, tuple[int, int]] = {}
    for event in played.events:
        if isinstance(event, Report):
            last[event.pseudonym] = (event.round, event.cell)
    plan = Plan(task.id, (Release("mean", TwoPoint(1.0), "coordinate", (0.0,)),))
    asking = Curator.replay(task, played.events, plan)
    regions = curator.regions
    assert asking.paths == dict(
        zip(regions.cells.tolist(), zip(regions.rounds.tolist(), regions.last.tolist(), strict=True), strict=True)
    )
    for person in played.participants:
        assert person.region is not None
        assert asking.paths[person.region] == last[person.pseudonym]
    if task.rule != "each":
        crowds = [sum(p.region == cell for p in played.participants) for cell in regions.cells.tolist()]
        assert regions.crowds.tolist() == crowds
        assert asking.expected == 80
    assert np.all(np.diff(regions.cells.astype(np.int64)) > 0)
    with pytest.raises(InvalidInput, match="still open"):
        _ = Curator(task).regions


@pytest.mark.parametrize("task", RULES, ids=lambda task: task.rule)
def test_expected_counts_those_whose_cell_goes_on(task: Task) -> None:
    played = play(task, participants_at(task, cluster(80, 2)))
    assert Curator(task).expected is None
    curator = Curator(task)
    for closing in played.closings[:-1]:
        curator.follow(closing)
        reports = [event for event in played.events if isinstance(event, Report) and event.round == curator.round]
        assert curator.expected is not None
        assert curator.expected >= len(reports)
        assert task.rule == "each" or curator.expected == len(reports)


PLAN = Plan(TASK.id, (Release("mean", TwoPoint(1.0), "coordinate", (0.0,)), Release("counts"),
                      Release("values", DiscreteLaplaceValue(2.0, 4), "coordinate", (1.0,))))  # fmt: skip


@cache
def campaign() -> list[Any]:
    return play(TASK, participants_at(TASK, cluster(60, 2), plan=PLAN), plan=PLAN).events


def values() -> tuple[Curator, Plan, list[Any]]:
    """A curator that asks for the first of two values, its plan, and a whole play."""
    history = campaign()
    return Curator.replay(TASK, [event for event in history if isinstance(event, Closed)], PLAN), PLAN, history


def test_a_campaign_replayed_equals_the_live_one_after_every_closing() -> None:
    _, plan, history = values()
    live = Curator(TASK, plan)
    for place, event in enumerate(history):
        if isinstance(event, Query | ValueQuery):
            assert Curator.replay(TASK, history[:place], plan).query() == live.query() == event
        elif isinstance(event, Report | ValueReport):
            live.check(event)
        elif isinstance(event, Closed | ValueClosed):
            reports = [one for one in history[:place] if isinstance(one, Report | ValueReport)]
            assert live.close(*count_reports(live, [one for one in reports if one.round == event.round])) == event
    assert live.finished
    assert live.query() is None
    with pytest.raises(InvalidInput, match="finished"):
        live.close([], [])
    for event in history[-1:]:
        with pytest.raises(InvalidInput, match="finished"):
            live.follow(event)


@pytest.mark.parametrize(
    ("changes", "token"),
    [
        ({"task": bytes(32)}, "other-task"), ({"round": 1}, "other-round"), ({"cell": 1}, "unknown-cell"),
        ({"answer": 2}, "bad-answer"), ({"answer": -1}, "bad-answer"),
    ],
)  # fmt: skip
def test_check_refuses_values_that_do_not_belong_to_the_open_round(changes: dict[str, Any], token: str) -> None:
    curator, _, _ = values()
    legal = ValueReport(TASK.id, curator.round, bytes(16), int(curator.regions.cells[0]), 0)
    assert curator.check(legal) == (curator.regions.rounds[0], curator.regions.last[0])
    with pytest.raises(DeviceViolation) as caught:
        curator.check(msgspec.structs.replace(legal, **changes))
    assert caught.value.token == token


def test_kinds_of_reports_do_not_mix() -> None:
    curator, _, _ = values()
    with pytest.raises(DeviceViolation, match="wrong-kind"):
        curator.check(Report(TASK.id, curator.round, bytes(16), int(curator.regions.cells[0]), 0))
    with pytest.raises(DeviceViolation, match="wrong-kind"):
        Curator(TASK).check(ValueReport(TASK.id, 1, bytes(16), 1, 0))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda size, lines: (size + 1, lines),
        lambda size, lines: (size[:-1], lines),
        lambda size, lines: (size, lines[:, :2]),
        lambda size, lines: (size, lines[::-1]),
        lambda size, lines: (size, lines - [0, 1, 0]),
        lambda size, lines: (size, lines + np.array([1000, 0, 0])),
        lambda size, lines: (size * 0, lines * [1, 1, 0]),
        lambda size, lines: (2 * size, np.concatenate([lines, lines])),
        lambda size, lines: (size, lines.astype(float)),
        lambda size, lines: (size, None),
    ],
)
def test_close_refuses_counts_that_no_values_have_and_changes_nothing(spoil: Any) -> None:
    curator, _, history = values()
    reports = [one for one in history if isinstance(one, ValueReport) and one.round == curator.round]
    size, lines = count_reports(curator, reports)
    before = curator.query()
    with pytest.raises(InvalidInput):
        curator.close(*spoil(size, lines))
    assert curator.query() == before
    curator.close(size, lines)


def test_follow_refuses_closings_of_values_that_do_not_follow_and_changes_nothing() -> None:
    curator, _, history = values()
    honest = next(event for event in history if isinstance(event, ValueClosed))
    bad: list[Any] = [
        msgspec.structs.replace(honest, task=bytes(32)),
        msgspec.structs.replace(honest, round=honest.round + 1),
        msgspec.structs.replace(honest, plan=bytes(32)),
        msgspec.structs.replace(honest, index=2),
        msgspec.structs.replace(honest, cells=(1, *honest.cells[1:])),
        msgspec.structs.replace(honest, counts=(((7, 1),), *honest.counts[1:])),
        next(event for event in history if isinstance(event, Closed)),
    ]
    for closing in bad:
        before = curator.query()
        with pytest.raises(InvalidInput):
            curator.follow(closing)
        assert curator.query() == before
    curator.follow(honest)
    with pytest.raises(InvalidInput, match="other kind"):
        Curator(TASK).follow(msgspec.structs.replace(honest, round=1))


def test_a_fork_goes_on_by_itself() -> None:
    curator = Curator(TASK)
    other = curator.fork()
    other.close([100], [[50, 50]])
    assert (curator.round, other.round) == (1, 2)
    assert curator.paths == {1: (0, 0)}
    assert other.paths == {2: (1, 1), 3: (1, 1)}


def test_a_plan_of_another_task_is_refused() -> None:
    with pytest.raises(InvalidInput, match="another task"):
        Curator(TASK, Plan(LAPLACE.id))
