"""Where in a region people live: what slopes explain is no longer uncertain, and nothing else is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.release import _inside
from semilocal.release._ended import Ended, Left
from semilocal.release._inside import Inside
from semilocal.release._lattice import Lattice
from semilocal.release._tree import Tree
from semilocal.release._visitors import population
from semilocal.release._walk import Walk
from semilocal.release.spread import share_left
from semilocal.simulation import synthetic
from semilocal.testing import unit_box
from tests.helpers.release_runs import run_of


@pytest.mark.parametrize("noise", [0.0, 50.0**2])
def test_what_slopes_leave_is_what_is_left_of_the_variance(noise: float) -> None:
    """Shares lie 0.2 from even by slopes and 0.1 by chance: a fifth of the unevenness is left. Noise is taken out.

    With noise a cell errs by 0.21, 20,000 of them by 0.0015: 0.02 is thirteen standard errors. Planted: noise left in.
    """
    rng, cells, people = np.random.default_rng(62), 20_000, 1_000.0
    steep, rest = rng.choice([-0.2, 0.2], cells), rng.choice([-0.1, 0.1], cells)
    first = people * (0.5 + steep + rest) + rng.normal(0.0, 1.0, cells) * math.sqrt(noise)
    estimates = np.stack([first, people - first], axis=1)
    flat, sloped = np.full((cells, 2), 0.5), np.stack([0.5 + steep, 0.5 - steep], axis=1)
    total, errors = np.full(cells, people), np.full(cells, noise)
    assert share_left(total, estimates, errors, flat, sloped) == pytest.approx(0.2, abs=0.02)
    assert share_left(total, estimates, errors, flat, flat) == 1.0
    assert share_left(total, estimates, errors, flat, sloped[:, ::-1]) == 1.0  # slopes the wrong way explain nothing
    if noise:
        assert share_left(total, estimates, 0.0 * errors, flat, sloped) > 0.2 + 0.02


def test_nothing_is_taken_off_where_nothing_was_asked() -> None:
    nobody, halves = np.empty(0), np.empty((0, 2))
    assert share_left(nobody, halves, nobody, halves, halves) == 1.0


@pytest.mark.parametrize("fanout", [2, 4])
@pytest.mark.parametrize("share", [0.25, 1.0])
def test_slopes_leave_their_share_in_children_of_regions_and_all_in_trimmed_parts(
    fanout: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = synthetic.clusters(20_000, np.random.default_rng(67))
    task = sl.Task.build(unit_box(2), epsilon=2.0, delta=0.05, k=20, tree="binary" if fanout == 2 else "quad")
    tree = Tree.of(sl.simulate(points, task, rng=np.random.default_rng(68)).partition)
    found = population(tree)
    regions, parts = np.flatnonzero(tree.is_region), np.flatnonzero(tree.is_part)
    law = found.law.spread(tree.depths[regions] + 1, found.people[regions] / fanout, fanout).clumped
    trimmed = found.law.spread(tree.depths[parts], found.people[parts], fanout).clumped
    assert len(regions) > 20
    assert len(parts) > 5
    monkeypatch.setattr(Left, "clumped", lambda _, law: share * law)
    monkeypatch.setattr(_inside, "share_left", lambda *_: share)
    clumped = Inside.of(tree, found, np.zeros((len(tree.cells), 2))).spread.clumped
    assert clumped[regions] == pytest.approx(law * share)
    assert clumped[parts] == pytest.approx(trimmed)


def test_lines_of_a_lattice_are_not_taken_for_clumps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halves of a region that hold one line and two of them are not even without any slope: that is expected."""
    given: list[Floats] = []

    def watched(_: Ended, share: Floats) -> Left:
        given.append(share)
        return Left(np.ones((1, 1)))

    monkeypatch.setattr(Ended, "left", watched)
    monkeypatch.setattr(Left, "clumped", lambda _, law: law)
    _, run = run_of(2, seed=63)
    for lattice in (Lattice((0.03, 0.03)), Lattice(())):
        tree = Tree.of(run.partition).on(lattice)
        Inside.of(tree, population(tree), np.zeros((len(tree.cells), 2)))
    lines, even = given
    assert np.allclose(even, 0.5)
    assert not np.allclose(lines, 0.5)


def test_lines_of_a_lattice_are_not_taken_for_slopes_of_quadtrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: flat quarters are even, so that lines explain something."""
    given: list[tuple[Any, ...]] = []

    def watched(*some: Any) -> float:
        given.append(some)
        return 1.0

    monkeypatch.setattr(_inside, "share_left", watched)
    _, run = run_of(2, seed=63, tree="quad")
    tree = Tree.of(run.partition).on(Lattice((0.03, 0.03)))
    Inside.of(tree, population(tree), np.zeros((len(tree.cells), 2)))
    ((*_, flat, suggested),) = given
    assert np.array_equal(flat, suggested)
    assert not np.allclose(flat, 0.25)


def test_where_density_is_smooth_slopes_leave_little_and_where_people_lie_in_clumps_most(
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
    assert left(smooth, wide) < 0.3
    assert left(synthetic.towns(20_000, rng), unit_box(2)) > 0.6
    monkeypatch.setattr(Left, "clumped", lambda _, law: law)
    assert left(smooth, wide) == 1.0


def test_steeper_slopes_are_trusted_if_the_last_rounds_say_so() -> None:
    """Regions of a steep town are steeper than their neighbours suggest. Steeper ones are trusted less. Seeded."""
    rng, wide = np.random.default_rng(66), sl.Box((-10, -10), (10, 10))
    points = synthetic.truncated_gaussian(20_000, rng, box=wide, scale=1.5)
    task = sl.Task.build(wide, epsilon=1.0, delta=0.05, k=20)
    tree = Tree.of(sl.simulate(points, task, rng=rng).partition)
    found = population(tree)
    given = np.zeros((len(tree.cells), 2))
    given[tree.is_region] = Walk.of(tree, found).inside.slopes[tree.is_region]
    gentle = Inside.of(tree, found, given / 4.0).slopes  # trusted: at the most twice as steep as given
    assert np.abs(gentle).max() == pytest.approx(np.abs(given).max() / 2.0)
    steep = Inside.of(tree, found, 4.0 * given).slopes
    assert 0.1 * np.abs(given).max() < np.abs(steep).max() < 2.0 * np.abs(given).max()
