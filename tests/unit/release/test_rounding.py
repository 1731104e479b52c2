"""The step that positions were rounded to is found in what is public, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.geometry.index import count_points
from semilocal.release import _rounding
from semilocal.release._lattice import NOT_ROUNDED, Lattice
from semilocal.release._rounding import Divisions, divisions_of, likely_lattice, possible_lattice
from semilocal.release._tree import Tree
from semilocal.release._visitors import Divided, divided

LINE = sl.Box((0.0,), (1.0,))
UNIT = sl.Box((0.0, 0.0), (1.0, 1.0))
COLUMNS = np.arange(128) / 128


def halved(share: Floats) -> Divisions:
    """128 cells in a row with 50 people each, of whom such a share is in the first half."""
    size = np.full(len(COLUMNS), 50.0)
    return Divisions(0, np.stack([COLUMNS, COLUMNS + 1 / 256, COLUMNS + 1 / 128]), size, size * share, size)


def towns(step: float, rng: np.random.Generator) -> Floats:
    """20,000 people in thirty towns, by multiples of a step."""
    centres = rng.random((30, 2))[rng.integers(0, 30, 20_000)]
    drawn = np.clip(rng.normal(centres, 0.02), 0.0, 0.99)
    return np.asarray(np.round(drawn / step) * step if step else drawn)


@pytest.mark.parametrize("trust", ["curator", "two-servers", "nobody"])
@pytest.mark.parametrize("step", [0.02, 0.01])
def test_rounded_towns_are_answered_as_if_their_step_were_given(trust: Any, step: float) -> None:
    """Planted bug: no step is looked for. Seeded, so that there is no chance in it."""
    rng = np.random.default_rng(4)
    points = towns(step, rng)
    crowd: Any = {"k": 20, "delta": 0.05} if trust == "nobody" else {}
    result = sl.counts(points, UNIT, epsilon=4.0, trust=trust, rng=rng, **crowd)
    lower = rng.uniform(0.0, 0.9, (100, 2))
    boxes = np.stack([lower, lower + 0.1], axis=1)
    found, given, none = (result.query(boxes, rounding=known).value for known in (None, step, 0))
    assert (found == given).all()
    truth = count_points(points, boxes)
    assert np.sum((found - truth) ** 2) < np.sum((none - truth) ** 2)


@pytest.mark.parametrize("trust", ["curator", "nobody"])
def test_towns_that_are_not_rounded_are_left_alone(trust: Any) -> None:
    """False alarm 1e-4 by Markov's inequality, and seeded: none."""
    rng = np.random.default_rng(5)
    crowd: Any = {"k": 20, "delta": 0.05} if trust == "nobody" else {}
    result = sl.counts(towns(0.0, rng), UNIT, epsilon=4.0, trust=trust, rng=rng, **crowd)
    boxes = [[[0.303, 0.304], [0.456, 0.457]]]
    assert result.query(boxes).value == result.query(boxes, rounding=0).value


def alarms() -> int:
    """How often, of 300 times, a step is found where all people of a cell are in one half, by the toss of a coin."""
    rng = np.random.default_rng(6)
    tosses = rng.integers(0, 2, (300, len(COLUMNS))).astype(np.float64)
    return sum(likely_lattice([halved(share)], LINE) != NOT_ROUNDED for share in tosses)


def test_the_most_uneven_divisions_are_hardly_ever_taken_for_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.03 of 300 are expected at most; four or more have a chance of 4e-8. Planted bug: no evidence is asked for."""
    assert alarms() < 4
    monkeypatch.setattr(_rounding, "FALSE_ALARM", 100.0)
    assert alarms() > 20


@pytest.mark.parametrize("step", [0.005, 0.01, 0.02])
def test_the_step_itself_is_found_and_not_a_part_of_it(step: float) -> None:
    places = np.round(np.arange(0.0, 0.9999, step), 6)
    depths = []
    for cells in (64, 128, 256):
        edges = np.arange(2 * cells + 1) / (2 * cells)
        people = 20.0 * np.diff(np.searchsorted(places, edges))
        sides = np.stack([edges[:-1:2], edges[1::2], edges[2::2]])
        depths.append(Divisions(0, sides, people[::2] + people[1::2], people[::2], np.ones(cells)))
    assert likely_lattice(depths, LINE) == Lattice((step,))


def test_trees_whose_cells_are_not_halved_say_nothing() -> None:
    rng = np.random.default_rng(7)
    task = sl.Task.build(UNIT, epsilon=4.0, delta=0.05, k=20, tree="quad")
    result = sl.release.counts(sl.simulate(towns(0.02, rng), task, rng=rng))
    assert not list(divisions_of(Tree.of(result.partition)))
    assert result.query([[[0.3, 0.3], [0.5, 0.5]]]).value == result.query([[[0.3, 0.3], [0.5, 0.5]]], rounding=0).value


# -- steps that leave no trace ---------------------------------------------------------------------------------------


def row(side: float, share: Floats | float, *, people: float = 400.0) -> Divisions:
    """Cells of a side in a row, of whose people such a share is in the first half; a noise of 5 people."""
    places = np.arange(0.0, 1.0 - side / 2, side)
    size = np.full(len(places), people)
    noise = np.full(len(places), 25.0)
    return Divisions(0, np.stack([places, places + side / 2, places + side]), size, size * share, noise)


def test_decimals_are_possible_until_divisions_exclude_them() -> None:
    """Halves of two lines hold one each, as even people do: 0.01 is possible. Of 0.1 cells without a line tell."""
    even = row(0.02, 0.5)
    assert possible_lattice([even], LINE, 0.01).steps == (0.01,)
    # Cells of 1.5 lines have one or two. Even people exclude the step, people on its lines do not.
    places = row(0.015, 0.5).sides
    lines = np.ceil(places / 0.01 - 1e-6)
    on_lines = row(0.015, (lines[1] - lines[0]) / (lines[2] - lines[0]))
    assert possible_lattice([row(0.015, 0.5)], LINE, 0.01).steps == (0.001,)
    assert possible_lattice([on_lines], LINE, 0.01).steps == (0.01,)
    # Where people lie so unevenly anyway, or noise hides it, even divisions exclude nothing.
    assert possible_lattice([row(0.015, 0.5, people=15.0)], LINE, 0.01).steps != (0.001,)
    assert possible_lattice([], LINE, 0.01) == NOT_ROUNDED
    # Exact divisions of people who lie evenly but for chance tell lines of 0.001 apart, too.
    exact = row(0.015, 0.5)._replace(noise=np.zeros(67))
    assert possible_lattice([exact], LINE, 0.0) == NOT_ROUNDED


def ringed(step: float, rng: np.random.Generator) -> Floats:
    """20,000 people around a circle, by multiples of a step."""
    angle, radius = rng.uniform(0, 2 * np.pi, 20_000), rng.normal(0.3, 0.04, 20_000)
    drawn = np.clip(0.5 + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1), 0.0, 0.999)
    return np.asarray(np.round(drawn / step) * step if step else drawn)


@pytest.mark.parametrize("trust", ["curator", "two-servers"])
def test_intervals_allow_for_decimals_that_leave_no_trace(trust: Any) -> None:
    """0.01 is about half a final cell. Planted bug: no such step is taken for possible. Seeded."""
    rng = np.random.default_rng(8)
    for step, widest in ((0.01, 4.0), (0.0, 1.25)):
        points = ringed(step, rng)
        result = sl.counts(points, UNIT, epsilon=2.0, trust=trust, rng=rng)
        lower = rng.uniform(0.1, 0.7, (400, 2))
        boxes = np.stack([lower, lower + rng.uniform(0.02, 0.15, (400, 2))], axis=1)
        truth = count_points(points, boxes)
        free, sure = result.query(boxes), result.query(boxes, rounding=0)
        held, held_sure = (
            np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])) for ends in (free.interval(), sure.interval())
        )
        assert (free.value == sure.value).all()
        assert (free.stderr >= sure.stderr).all()
        assert held >= 0.92
        assert np.mean(free.stderr) <= widest * np.mean(sure.stderr)
        assert (held_sure < 0.85) == (step > 0)


def test_what_is_exact_stays_exact_if_decimals_are_possible() -> None:
    rng = np.random.default_rng(9)
    result = sl.counts(ringed(0.01, rng), UNIT, epsilon=1.0, trust="curator", rng=rng)
    everything = result.query([[[0.0, 0.0], [1.0, 1.0]]])
    assert (everything.value[0], everything.stderr[0]) == (20_000, 0.0)


def test_the_last_rounds_of_regions_exclude_decimals_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions are divided by estimates, and are the narrowest cells. Seeded. Planted bug: only splits are looked at."""
    rng = np.random.default_rng(10)
    task = sl.Task.build(UNIT, epsilon=1.0, delta=0.05, k=20)
    runs = [sl.release.counts(sl.simulate(ringed(step, rng), task, rng=rng)) for step in (0.0, 0.01)]
    assert runs[0]._possible_lattice.steps < (0.01, 0.01)
    assert 0.01 in (*runs[1]._found_lattice.steps, *runs[1]._possible_lattice.steps)
    real = divided

    def splits(tree: Tree, found: Any) -> Any:
        some = real(tree, found)
        rows = ~tree.is_region[some.cells]
        return Divided(some.cells[rows], some.people[rows], some.estimates[rows], some.noise[rows])

    monkeypatch.setattr(_rounding, "divided", splits)
    assert sl.release.counts(runs[0].partition)._possible_lattice.steps == (0.01, 0.01)
