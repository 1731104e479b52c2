"""What a simulation promises: the protocol's rounds for everybody at once, with every participant accounted for.

The oracle follows one participant at a time through the public verdicts, in plain Python.
"""

from __future__ import annotations

import tracemalloc
import warnings
from collections import Counter
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from semilocal import Box, Closed, Curator, Query, Report, Run, Task, simulate
from semilocal.errors import InvalidInput, NoCrowdWarning, OutsideDomain
from semilocal.protocol.curator import count_reports
from semilocal.protocol.keys import move_entropy
from semilocal.testing import secrets_of

Floats = npt.NDArray[np.float64]
SQUARE = Box((0, 0), (1, 1))

# -- the oracle ----------------------------------------------------------------------------------------------------


def follow(
    task: Task, verdicts: dict[int, tuple[int, ...]], code: int, secret: bytes | None
) -> tuple[list[int] | None, int]:
    """The cells that a participant answers for, its region last, and how often it is moved.

    Without a secret nobody can tell where a moved participant goes: then there is no path.
    """
    fanout, depth = task.hierarchy.fanout, task.hierarchy.max_depth
    cell, path, moves = 1, [1], 0
    while cell in verdicts:
        kept, below = verdicts[cell], fanout ** (depth - len(path))
        own = code // below % fanout
        if own not in kept:
            if task.rule == "each":
                return [*path, cell * fanout + own], moves
            if not kept:
                return path, moves
            moves += 1
            if secret is None:
                return None, moves
            word = int.from_bytes(move_entropy(secret, task.id, len(path), cell), "big")
            place, within = divmod(word * len(kept) * below >> 64, below)
            own = kept[place]
            code = (cell * fanout + own) * below + within
        cell = cell * fanout + own
        path.append(cell)
    return path, moves


def check_run(run: Run, points: Floats, secrets: list[bytes] | None = None) -> None:
    """Every promise about a run without dropout, against the oracle."""
    task, partition = run.task, run.partition
    moved = run.moves > 0
    assert (partition.locate(points) == np.where(moved, -1, run.regions)).all()
    assert (partition.locate(run.acting(points)) == run.regions).all()
    assert np.sort(run.moved.participants).tolist() == np.flatnonzero(moved).tolist()
    assert (partition.crowds == np.bincount(run.regions, minlength=len(partition))).all()
    assert partition.crowds.sum() == len(points)
    held = run.regions >= 0
    trims = run.partition.path_trims[run.regions[held]]
    assert (run.losses[held] == (1 + trims) * task.epsilon).all()  # public, whoever was moved
    assert (run.moves[held] <= trims).all()
    assert sum(run.move_shares.values()) == pytest.approx(1)
    verdicts = {
        int(cell): tuple(np.flatnonzero(kept).tolist())
        for played in run.rounds
        if played.number <= task.max_rounds
        for cell, kept in zip(played.cells, played.kept, strict=True)
    }
    codes = task.hierarchy.codes(points).tolist()
    answered: Counter[int] = Counter()
    for person, code in enumerate(codes):
        path, moves = follow(task, verdicts, code, None if secrets is None else secrets[person])
        assert (moves > 0) == moved[person]
        if path is not None:
            assert run.moves[person] == moves
            assert partition.cells[run.regions[person]] == path[-1]
            answered.update(path)
    for before, played in pairwise(run.rounds):  # whoever does not end goes on
        goes_on = before.responders[before.kept.any(axis=1)].sum() if task.rule != "each" else played.responders.sum()
        assert played.responders.sum() == goes_on
    for played in run.rounds:
        counts = [answered[int(cell)] for cell in played.cells]
        if secrets is None and moved.any():
            assert (played.responders >= counts).all()
        else:
            assert played.responders.tolist() == counts
        assert (np.diff(played.cells.astype(object)) > 0).all()


@cache
def shape(name: str, d: int = 2) -> Floats:
    rng = np.random.default_rng(7)
    shapes = {
        "uniform": rng.random((300, d)),
        "cluster": np.concatenate([np.full((250, d), 0.3) + rng.normal(0, 1e-3, (250, d)), rng.random((9, d))]),
        "line": np.repeat(rng.random((200, 1)), d, axis=1),
        "duplicates": np.full((300, d), 0.7),
        "on edges": rng.integers(0, 9, (400, d)) / 8,
        "upper corner": np.full((200, d), 1.0),
        "all on one edge": np.concatenate([np.full((200, 1), 0.5), rng.random((200, d - 1))], axis=1),
    }
    return np.asarray(np.clip(shapes[name], 0, 1), dtype=np.float64)


TASKS: dict[str, dict[str, Any]] = {
    "binary trim": {"max_depth": 9},
    "binary all": {"rule": "all"},
    "binary each": {"rule": "each", "max_depth": 6},
    "quad trim": {"tree": "quad", "max_depth": 5},
    "quad each": {"tree": "quad", "rule": "each", "max_depth": 3},
    "laplace": {"randomizer": "discrete-laplace", "epsilon": 8.0, "max_depth": 6},
    "roll call": {"max_depth": 12, "max_rounds": 3},
    "no trims": {"max_trims": 0},
    "one trim": {"max_trims": 1, "max_depth": 9},
}


def task_of(name: str, d: int = 2) -> Task:
    return Task.build(Box((0,) * d, (1,) * d), **{"epsilon": 3.0, "delta": 0.05, "k": 10, **TASKS[name]})


@pytest.mark.parametrize("detail", ["tallies", "reports"])
@pytest.mark.parametrize("name", TASKS)
def test_everybody_ends_where_the_public_verdicts_lead(name: str, detail: Any) -> None:
    moved = 0
    for place in ("uniform", "cluster", "line", "on edges"):
        secrets = secrets_of(len(shape(place))) if detail == "reports" else None
        run = simulate(shape(place), task_of(name), rng=np.random.default_rng(3), detail=detail, secrets=secrets)
        check_run(run, shape(place), secrets)
        moved += int(run.moves.sum())
        assert run.moves.max() <= run.task.max_trims
    assert (moved > 0) == (run.task.max_trims > 0)


@pytest.mark.parametrize("d", [1, 3, 4])
@pytest.mark.parametrize("name", ["binary trim", "quad trim"])
def test_everybody_ends_where_the_verdicts_lead_in_other_dimensions(name: str, d: int) -> None:
    for place in ("cluster", "on edges"):
        run = simulate(shape(place, d), task_of(name, d), rng=np.random.default_rng(4))
        check_run(run, shape(place, d))


@pytest.mark.parametrize("place", ["duplicates", "upper corner", "all on one edge"])
@pytest.mark.parametrize("name", TASKS)
def test_points_that_all_share_a_place_or_an_edge_are_fine(name: str, place: str) -> None:
    run = simulate(shape(place), task_of(name), rng=np.random.default_rng(5))
    check_run(run, shape(place))
    if place != "all on one edge":
        assert len(np.unique(run.regions)) == 1


@pytest.mark.parametrize("place", ["uniform", "cluster"])
def test_paths_too_long_to_share_a_word_with_the_index_are_sorted_as_well(place: str) -> None:
    task = Task.build(SQUARE, epsilon=3.0, delta=0.05, k=10, max_depth=60, max_rounds=12)
    assert task.hierarchy.path_bits + 9 > 64  # type: ignore[union-attr]
    check_run(simulate(shape(place), task, rng=np.random.default_rng(6)), shape(place))


def test_the_paper_s_and_the_published_algorithms_run() -> None:
    points = shape("cluster")
    for task in (
        Task.paper(SQUARE, epsilon=8.0, delta=0.05, k=10, max_depth=5),
        Task.published(SQUARE, epsilon=8.0, delta=0.05, k=10, max_depth=5),
    ):
        check_run(simulate(points, task, rng=np.random.default_rng(7)), points)
        check_run(simulate(points, task, rng=np.random.default_rng(7), detail="reports"), points)


# -- small crowds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 2, 19])
@pytest.mark.parametrize("detail", ["tallies", "reports"])
@pytest.mark.parametrize("options", [{}, {"rule": "all"}, {"tree": "quad"}, {"randomizer": "discrete-laplace"}])
def test_fewer_than_k_participants_share_the_whole_domain_and_are_warned(
    size: int, detail: Any, options: dict[str, Any]
) -> None:
    task = Task.build(SQUARE, epsilon=40.0, delta=0.4, k=20, **options)
    points = np.random.default_rng(0).random((size, 2))
    with pytest.warns(NoCrowdWarning, match=rf"{size} participants? (is|are) fewer than k = 20"):
        run = simulate(points, task, rng=np.random.default_rng(1), detail=detail)
    assert run.partition.cells.tolist() == [1]
    assert run.partition.crowds.tolist() == [size]
    assert run.partition.boxes.tolist() == [[[0, 0], [1, 1]]]
    assert run.regions.tolist() == [0] * size
    assert run.moves.tolist() == [0] * size
    assert len(run.losses) == size
    assert run.move_shares == {0: 1.0}
    check_run(run, points)


@pytest.mark.parametrize("rule", ["all", "trim"])
def test_exactly_k_participants_stay_together_and_are_not_warned(rule: Any) -> None:
    task = Task.build(SQUARE, epsilon=2.0, delta=0.05, k=30, rule=rule)
    points = np.random.default_rng(0).random((30, 2))
    for seed in range(20):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run = simulate(points, task, rng=np.random.default_rng(seed))
        assert run.partition.crowds.tolist() == [30]
        check_run(run, points)


# -- one report each -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_single_reports_add_up_to_the_tallies_and_a_curator_takes_them(name: str) -> None:
    task = task_of(name)
    run = simulate(shape("cluster"), task, rng=np.random.default_rng(8), detail="reports")
    curator = Curator(task)
    events = iter(run.events)
    assert next(events) == task
    for played in run.rounds:
        query = next(events)
        assert query == curator.query()
        assert isinstance(query, Query)
        reports: list[Report] = []
        while isinstance(event := next(events), Report):
            curator.check(event)
            reports.append(event)
        assert isinstance(event, Closed)
        responders, tally = count_reports(curator, reports)
        assert (responders == played.responders).all()
        assert (tally == played.tally).all()
        assert curator.close(responders, tally) == event
        assert len({report.pseudonym for report in reports}) == len(reports) == responders.sum()
    assert curator.finished
    assert next(events, None) is None


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    task = task_of("binary trim")
    first, again, other = (simulate(shape("uniform"), task, rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert list(first.events) == list(again.events)
    assert (first.regions == again.regions).all()
    assert list(first.events) != list(other.events)


def test_the_order_of_participants_does_not_matter() -> None:
    task, points = task_of("binary trim"), shape("cluster")
    order = np.random.default_rng(9).permutation(len(points))
    first = simulate(points, task, rng=np.random.default_rng(1))
    second = simulate(points[order], task, rng=np.random.default_rng(1))
    assert list(first.events) == list(second.events)
    assert (first.regions[order] == second.regions).all()
    assert (first.moves[order] == second.moves).all()


def test_progress_is_told_every_round() -> None:
    told: list[tuple[int, int]] = []
    run = simulate(
        shape("uniform"), task_of("binary trim"), rng=np.random.default_rng(1), progress=lambda *a: told.append(a)
    )
    widths = [len(played.cells) for played in run.rounds]
    assert told == list(zip(range(1, len(widths) + 1), [*widths[1:], 0], strict=True))


def test_points_are_not_changed() -> None:
    points = shape("uniform").copy()
    simulate(points, task_of("binary trim"), rng=np.random.default_rng(1))
    assert (points == shape("uniform")).all()


# -- dropout -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("detail", ["tallies", "reports"])
@pytest.mark.parametrize("name", TASKS)
def test_the_lost_have_no_region_and_crowds_are_those_who_remain(name: str, detail: Any) -> None:
    task, points = task_of(name), shape("cluster")
    run = simulate(points, task, rng=np.random.default_rng(10), detail=detail, dropout=0.1)
    lost = run.regions == -1
    assert 0 < lost.sum() < len(points)
    assert (run.partition.crowds == np.bincount(run.regions[~lost], minlength=len(run.partition))).all()
    assert (run.partition.locate(run.acting(points))[~lost] == run.regions[~lost]).all()
    totals = [int(played.responders.sum()) for played in run.rounds]
    assert totals == sorted(totals, reverse=True)
    assert totals[0] < len(points)
    if detail == "reports":
        asked = set(range(len(points)))
        for played in run.rounds:
            assert played.reports is not None
            who = played.reports.participants.tolist()
            assert len(set(who)) == len(who)  # nobody answers twice,
            assert set(who) <= asked  # and nobody comes back
            asked = set(who)
            assert np.bincount(played.reports.rows, minlength=len(played.cells)).tolist() == played.responders.tolist()


def test_the_share_lost_per_round_is_the_one_asked_for() -> None:
    """One round of 20,000: |lost - 2,000| > 260 has probability below 1e-9 (Hoeffding: 2 exp(-2 * 260**2 / 20000))."""
    task = Task.build(SQUARE, epsilon=1.0, delta=0.05, k=20_000, rule="all", max_depth=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoCrowdWarning)
        run = simulate(np.random.default_rng(0).random((20_000, 2)), task, rng=np.random.default_rng(11), dropout=0.1)
    assert len(run.rounds) == 1
    lost = int((run.regions == -1).sum())
    assert abs(lost - 2000) <= 260
    assert abs(lost * 1.3 - 2000) > 260  # the planted bug, a share a third too large, would be seen


def test_everybody_may_be_lost() -> None:
    run = simulate(shape("uniform"), task_of("binary trim"), rng=np.random.default_rng(1), dropout=0.999999)
    assert (run.regions == -1).all()
    assert run.partition.crowds.tolist() == [0]


# -- arguments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rng": None}, "rng is needed"),
        ({"rng": 7}, r"rng must be a numpy\.random\.Generator"),
        ({"rng": np.random.RandomState(7)}, r"rng must be a numpy\.random\.Generator"),
        ({"detail": "all"}, "detail must be 'tallies' or 'reports'; got 'all'"),
        ({"dropout": 1.0}, "dropout must be a share from 0 to below 1; got 1.0"),
        ({"dropout": -0.1}, "dropout must be a share"),
        ({"dropout": float("nan")}, "dropout must be a share"),
        ({"secrets": [bytes(32)] * 300}, "secrets derive single reports"),
        ({"secrets": [bytes(32)] * 299, "detail": "reports"}, "secrets must be one per participant: 300; got 299"),
        ({"secrets": [bytes(32)] * 300, "detail": "reports", "rng": None, "dropout": 0.1}, "rng is needed"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        simulate(shape("uniform"), task_of("binary trim"), **{"rng": np.random.default_rng(1), **options})


def test_points_that_are_not_in_the_domain_are_refused() -> None:
    task = task_of("binary trim")
    with pytest.raises(OutsideDomain, match="1 of 2 points lie outside"):
        simulate([[0.5, 0.5], [0.5, 1.5]], task, rng=np.random.default_rng(1))
    with pytest.raises(OutsideDomain, match="1 of 1 points are NaN"):
        simulate([[0.5, float("nan")]], task, rng=np.random.default_rng(1))
    with pytest.raises(InvalidInput, match=r"shape \(n, 2\)"):
        simulate([0.5], task, rng=np.random.default_rng(1))


# -- what it must reach --------------------------------------------------------------------------------------------


def gaussian() -> tuple[Box, Floats]:
    box = Box((-10, -10), (10, 10))
    points = box.clip(np.random.default_rng(2024).normal(0, 1.5, (64_000, 2))).points
    return box, points


def test_the_first_experiment_has_hundreds_of_regions_with_our_defaults_and_hardly_any_with_the_paper_s() -> None:
    box, points = gaussian()
    ours = simulate(points, Task.build(box, epsilon=1.0, delta=0.05, k=20), rng=np.random.default_rng(1))
    assert ours.task.accounting == "core"
    assert len(ours.partition) >= 300
    assert ours.partition.share_below_k <= 0.05 * (1 + ours.moves.mean())
    theirs = simulate(points, Task.paper(box, epsilon=1.0, delta=0.05, k=20), rng=np.random.default_rng(1))
    assert len(theirs.partition) <= 10


@pytest.mark.slow
def test_a_million_participants_take_at_most_80_bytes_each() -> None:
    points = np.random.default_rng(0).normal(0.5, 0.1, (10**6, 2))
    box = Box((-2, -2), (3, 3))
    task = Task.build(box, epsilon=1.0, delta=1e-6, k=20)
    simulate(points[:1000], task, rng=np.random.default_rng(1))  # tables that stay are made once
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        run = simulate(points, task, rng=np.random.default_rng(1))
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert run.partition.crowds.sum() == 10**6
    assert peak / 10**6 <= 80
