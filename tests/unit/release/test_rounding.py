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
from semilocal.release._rounding import Divisions, divisions_of, likely_lattice
from semilocal.release._tree import Tree

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
