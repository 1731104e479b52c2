"""The server's machine: takes only what belongs to the open round, and its state is a fold over the closings."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from semilocal import Closed, Curator, Query, Report, Task
from semilocal.errors import DeviceViolation, InvalidInput
from semilocal.protocol.curator import count_reports
from semilocal.protocol.messages import encode
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
