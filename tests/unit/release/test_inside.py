"""Where in a region people live: what slopes explain is no longer uncertain, and nothing else is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.release import _inside
from semilocal.release._inside import Inside
from semilocal.release._lattice import Lattice
from semilocal.release._law import UNKNOWN, Law
from semilocal.release._tree import Tree
from semilocal.release._visitors import population
from semilocal.release._walk import Walk
from semilocal.simulation import synthetic
from semilocal.testing import unit_box
from tests.helpers.release_runs import run_of


@pytest.mark.parametrize("fanout", [2, 4])
def test_slopes_take_their_share_of_what_the_law_says(fanout: int) -> None:
    """Nothing without slopes, one half if they explain as much as the law says; by depths, on average over cells."""
    law = Law(np.repeat(UNKNOWN.chance, 4, axis=0), np.ones(4), 0.0, np.zeros(4))
    depths, people = np.array([1, 1, 3, 3, 3]), np.full(5, 70.0)
    clumped = law.spread(depths, people, fanout).clumped
    assert _inside._beyond(law, depths, people, np.zeros(5), fanout).clumped == pytest.approx(clumped)
    explained = (fanout - 1) * clumped * np.array([0.0, 2.0, 9.0, 0.0, 0.0])
    found = _inside._beyond(law, depths, people, explained, fanout)
    assert found.clumped == pytest.approx(clumped / [2, 2, 4, 4, 4])


@pytest.mark.parametrize(
    ("dimensions", "options"), [(1, {}), (2, {}), (3, {}), (2, {"tree": "quad"}), (3, {"tree": "quad"})]
)
def test_cells_know_along_which_axes_they_are_divided(dimensions: int, options: dict[str, Any]) -> None:
    """Oracle: a quadtree halves all axes, a binary tree one after the other."""
    task = sl.Task.build(unit_box(dimensions), epsilon=1.0, delta=0.05, k=20, **options)
    points = np.random.default_rng(3).random((3_000, dimensions))
    tree = Tree.of(sl.simulate(points, task, rng=np.random.default_rng(4)).partition)
    found = _inside._halved(tree, np.arange(8))
    expected = np.ones((8, dimensions)) if options else np.arange(8)[:, None] % dimensions == np.arange(dimensions)
    assert np.array_equal(found, expected)


def test_slopes_tell_nothing_about_cells_with_one_line_of_a_lattice() -> None:
    _, run = run_of(2, seed=63)
    tree = Tree.of(run.partition)
    boxes = np.array([[[0.0, 0.0], [1.0, 5.0]], [[0.0, 0.0], [4.0, 2.0]], [[0.0, 0.0], [0.0, 3.0]]])
    assert _inside._reach(tree, boxes).tolist() == [1.0, 1.0, 1.0]
    assert _inside._reach(tree.on(Lattice((0.1, 0.1))), boxes).tolist() == [0.0, 0.5, 0.0]


def test_where_density_is_smooth_less_is_uncertain_and_where_it_is_even_nothing_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unevenness that is left, over all that the law says. Seeded. Planted: nothing is taken off."""

    def left(points: Any, box: sl.Box) -> float:
        task = sl.Task.build(box, epsilon=2.0, delta=0.05, k=20)
        tree = Tree.of(sl.simulate(points, task, rng=np.random.default_rng(64)).partition)
        walk = Walk.of(tree, population(tree))
        cells = np.flatnonzero(tree.is_region)
        law = walk.found.law.spread(tree.depths[cells] + 1, walk.found.people[cells] / 2, 2).clumped
        return float(walk.inside.spread.clumped[cells].sum() / law.sum())

    rng, wide = np.random.default_rng(65), sl.Box((-10, -10), (10, 10))
    smooth = synthetic.truncated_gaussian(20_000, rng, box=wide, scale=1.5)
    assert left(smooth, wide) < 0.75
    assert left(rng.random((20_000, 2)), unit_box(2)) > 0.9
    monkeypatch.setattr(_inside, "_beyond", lambda law, depths, people, _, fanout: law.spread(depths, people, fanout))
    assert left(smooth, wide) == 1.0


def test_steeper_slopes_are_trusted_if_the_last_rounds_say_so() -> None:
    """Regions of a steep town are steeper than their neighbours suggest. Density never falls below zero. Seeded."""
    rng, wide = np.random.default_rng(66), sl.Box((-10, -10), (10, 10))
    points = synthetic.truncated_gaussian(20_000, rng, box=wide, scale=1.5)
    task = sl.Task.build(wide, epsilon=1.0, delta=0.05, k=20)
    tree = Tree.of(sl.simulate(points, task, rng=rng).partition)
    found = population(tree)
    given = np.zeros((len(tree.cells), 2))
    given[tree.is_region] = Walk.of(tree, found).inside.slopes[tree.is_region]
    gentle = Inside.of(tree, found, given / 4.0).slopes  # trusted: at the most twice as steep as given
    assert np.abs(gentle).max() == pytest.approx(np.abs(given).max() / 2.0)
    assert (np.abs(Inside.of(tree, found, 4.0 * given).slopes) <= 1.0).all()
