"""A whole crowd at once plays what the curator plays with devices."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal.geometry.box import Box
from semilocal.hierarchy.ranks import SortedCodes
from semilocal.protocol.task import Task
from semilocal.simulation.population import Played, play

BOX = Box((0, 0), (1, 1))


def played(task: Task, people: int = 4000, seed: int = 1) -> Played:
    rng = np.random.default_rng(seed)
    codes = np.sort(task.hierarchy.codes(rng.beta(2, 5, (people, 2))))
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


def test_nobody_and_one_person_stay_in_the_whole_domain() -> None:
    task = Task.build(BOX, epsilon=1.0)
    for people in (0, 1):
        out = played(task, people)
        assert len(out.lower) == 1
        assert out.stop[0] == people
