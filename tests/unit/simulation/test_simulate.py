"""Simulations: one call plays everybody, at once or from secrets."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.geometry.box import Box
from semilocal.hierarchy.ranks import SortedCodes
from semilocal.protocol.messages import Report
from semilocal.protocol.task import Task
from semilocal.simulation.population import Played, play
from semilocal.simulation.simulate import LOST, simulate

BOX = Box((0, 0), (1, 1))


def people(count: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).beta(2, 5, (count, 2))


def test_who_drops_out_keeps_the_last_announced_region() -> None:
    rng = np.random.default_rng(8)
    task = Task.build(BOX, epsilon=4.0, delta=0.05, k=5)
    points = people(300)
    run = simulate(points, task, secrets=[rng.bytes(32) for _ in points], dropout=0.02, rng=rng)
    lost = run.regions == LOST
    assert 0 < np.count_nonzero(lost) < 300
    stayed = int(run.partition.away.people.sum())
    assert run.partition.crowds.sum() + stayed == sum(
        isinstance(event, Report) and event.round == 1 for event in run.events
    )
    assert np.array_equal(run.regions[~lost], run.partition.locate(points)[~lost])


def test_bad_arguments_are_refused() -> None:
    task, rng = Task.build(BOX, epsilon=1.0), np.random.default_rng(1)
    with pytest.raises(InvalidInput, match="rng is needed"):
        simulate(people(30), task)
    with pytest.raises(InvalidInput, match="give secrets"):
        simulate(people(30), task, rng=rng, dropout=0.1)
    with pytest.raises(InvalidInput, match="one per participant"):
        simulate(people(30), task, secrets=[bytes(32)] * 29)
    with pytest.raises(InvalidInput, match="must be 32 bytes"):
        simulate(people(30), task, secrets=[bytes(31)] * 30)
    with pytest.raises(InvalidInput, match=r"must be a semilocal\.Task"):
        simulate(people(30), "task", rng=rng)  # type: ignore[arg-type]
    with pytest.raises(OutsideDomain):
        simulate([[2.0, 0.5]] * 30, task, rng=rng)
    with pytest.raises(InvalidInput, match="dropout"):
        simulate(people(30), task, rng=rng, dropout=1.0)


# -- a whole crowd at once ---------------------------------------------------------------------------------------------


def played(task: Task) -> Played:
    rng = np.random.default_rng(1)
    codes = np.sort(task.hierarchy.codes(rng.beta(2, 5, (4000, 2))))
    return play(task, SortedCodes(codes), rng)


def test_regions_are_what_the_splits_leave() -> None:
    out = played(Task.build(BOX, epsilon=2.0))
    assert np.array_equal(np.sort(out.splits.cut), out.lower[1:])
    assert np.all(np.diff(out.splits.rounds) >= 0)
    assert np.all((out.splits.lower < out.splits.cut) & (out.splits.cut < out.splits.upper))
    assert out.rounds >= out.splits.rounds.max()


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_walls_lie_inside_and_nobody_answers_more_than_allowed_inside_a_region(epsilon: float) -> None:
    task = Task.build(BOX, epsilon=epsilon)
    out = played(task)
    region = np.repeat(np.arange(len(out.lower)), np.diff(out.walls.first))
    assert np.all((out.walls.cuts > out.lower[region]) & (out.walls.cuts < out.upper[region]))
    assert np.all((out.walls.yes >= 0) & (out.walls.yes <= out.walls.asked))
    inside = np.bincount(region, out.walls.asked, minlength=len(out.lower))
    assert np.all(inside <= task.answers * (out.stop - out.start))
    assert inside.sum() > 0.5 * task.answers * 4000


def test_a_crowd_that_forgets_books_is_noticed() -> None:
    """A planted bug: people who answered inside their region are asked again, so that walls have more answers."""
    task = Task.build(BOX, epsilon=1.0)
    out = played(Task(**{name: getattr(task, name) for name in task.__struct_fields__} | {"answers": 64}))
    region = np.repeat(np.arange(len(out.lower)), np.diff(out.walls.first))
    inside = np.bincount(region, out.walls.asked, minlength=len(out.lower))
    assert np.any(inside > out.stop - out.start)


@pytest.mark.parametrize("rule", ["cut", "all"])
def test_no_run_takes_more_rounds_than_the_task_allows(rule: str) -> None:
    for rounds in (3, 4, 6, 20):
        task = Task.build(BOX, epsilon=4.0, rule=rule, max_rounds=rounds)  # type: ignore[arg-type]
        out = played(task)
        assert out.rounds <= rounds
        assert len(out.lower) == 1 or rounds >= 4
    assert len(out.lower) > 1
