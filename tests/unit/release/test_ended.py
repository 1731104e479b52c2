"""What last rounds say about unevenness, given that they made regions."""

from __future__ import annotations

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.protocol.rule import decide, frontier_at
from semilocal.release._ended import Ended, Left
from semilocal.release._tree import Tree
from semilocal.release._visitors import divided, population
from semilocal.testing import unit_box
from tests.helpers.release_runs import run_of

PEOPLE, NOISE = 200.0, 14.0**2
LAW = np.array([0.05, 0.3])  # what it says of half of the cells each


def ended(left: Floats, share: float, *, cut: bool = True) -> tuple[Ended, float]:
    """Last rounds of cells with the same people, those that end a path; and how many do."""
    rng, cells = np.random.default_rng(71), 40_000
    kind = np.arange(cells) % 2
    luck = PEOPLE * share * (1.0 - share)
    variance = NOISE + luck + left[kind] * (PEOPLE - 1.0) * luck
    first = PEOPLE * share + rng.normal(0.0, 1.0, cells) * np.sqrt(variance)
    smaller, least, most = np.minimum(first, PEOPLE - first), 8.0, 60.0
    kept = np.flatnonzero((smaller >= least) & (smaller < most))
    people, noise = (np.full(len(kept), number) for number in (PEOPLE, NOISE))
    limits = (least, most) if cut else (-np.inf, np.inf)
    ends = (np.full(len(kept), limit) for limit in limits)
    return Ended(np.arange(len(kept)), people, first[kept], noise, LAW[kind[kept]], *ends), len(kept) / cells


@pytest.mark.parametrize("share", [0.5, 0.4])
@pytest.mark.parametrize("left", [(0.02, 0.12), (0.04, 0.04), (0.01, 0.36)])
def test_unevenness_is_that_of_all_cells_though_only_regions_are_seen(left: tuple[float, float], share: float) -> None:
    """Multiples of the first, no and the second power of the law. Seeded; other seeds give 0.8 to 1.2 times the truth.

    Planted: as if nobody had chosen, which gives 1.1 to 18 times.
    """
    truth = np.array(left)
    seen, kept = ended(truth, share)
    assert 0.02 < kept < 0.9
    even = np.full(len(seen.rows), share)
    assert seen.left(even).clumped(LAW) == pytest.approx(truth, rel=0.3)
    unaware = ended(truth, share, cut=False)[0].left(even).clumped(LAW)
    assert unaware != pytest.approx(truth, rel=0.3)


def test_slopes_that_are_wrong_leave_more() -> None:
    seen, _ = ended(np.array([0.01, 0.06]), 0.4)
    right, flat = (seen.left(np.full(len(seen.rows), share)).clumped(LAW) for share in (0.4, 0.5))
    assert (right < 0.9 * flat).all()


def test_without_regions_slopes_explain_nothing_with_one_chance_in_two() -> None:
    nothing, law = np.empty(0), np.array([0.01, 0.3, 1.0])
    left = Ended(np.empty(0, dtype=np.int64), *(nothing for _ in range(6))).left(nothing)
    assert left.chance.max() == pytest.approx(0.5)
    only = np.where(left.chance == left.chance.max(), left.chance, 0.0)
    assert Left(only).clumped(law) == pytest.approx(law / 2)
    assert (left.clumped(law) > 0.6 * law).all()


@pytest.mark.parametrize("regions", [1, 16, 200])
def test_people_who_are_all_on_one_side_are_as_uneven_as_can_be(regions: int) -> None:
    """No TRIM is left. Planted: no limit below, so that a normal law has halves with fewer people than none."""
    people, noise, law = (np.full(regions, number) for number in (300.0, 17.0**2, 0.985))
    errors = np.random.default_rng(75).normal(0.0, 17.0, 2 * regions)
    sides = np.where(np.arange(regions) % 2, errors[errors < 26.6][:regions], 300.0 - errors[errors < 26.6][:regions])
    limits = np.full(regions, -2.0 * 17.0), np.full(regions, 26.6)
    seen, even = Ended(np.arange(regions), people, sides, noise, law, *limits), np.full(regions, 0.5)
    assert seen.left(even).clumped(law[:1]) > 0.75
    if regions > 1:
        assert seen._replace(least=np.full(regions, -np.inf)).left(even).clumped(law[:1]) < 0.5


def test_the_limits_are_those_of_the_rule() -> None:
    """A tally on either side of a limit has another verdict, in regions without visitors."""
    task = sl.Task.build(unit_box(2), epsilon=1.0, delta=0.05, k=20)
    rng = np.random.default_rng(72)
    run = sl.simulate(rng.normal(0.5, 0.05, (20_000, 2)).clip(0, 1), task, rng=rng)
    tree = Tree.of(run.partition)
    found = population(tree)
    found = found._replace(people=np.where(tree.is_region, tree.acting, found.people))  # nobody visits
    some = divided(tree, found)
    cells = some.cells[tree.is_region[some.cells]]
    halves = np.full((len(cells), 2), 0.25) * tree.acting[cells, None]
    seen = Ended.of(tree, found, cells, halves, np.ones(len(cells)))
    assert len(seen.rows) == len(cells) > 50
    checked = 0
    for row, limits in zip(cells.tolist(), zip(seen.least.tolist(), seen.most.tolist(), strict=True), strict=True):
        size = int(tree.acting[row])
        tallies = np.array([[tally, size - tally] for tally in range(size + 1)])
        many = [np.full(len(tallies), number) for number in (tree.cells[row], size)]
        ruling = decide(task, frontier_at(many[0]), many[1], tallies)
        smaller = ruling.estimates.min(axis=1)
        split, trimmed = ruling.kept.all(axis=1), ruling.trimmed
        assert np.array_equal(split, smaller >= limits[1]) or not np.isfinite(limits[1])
        assert not trimmed[smaller >= limits[0]].any() or not np.isfinite(limits[0])
        checked += int(split.any()) + int(trimmed.any())
    assert checked > 50


def test_lists_of_regions_may_be_long() -> None:
    points, run = run_of(2, seed=74)
    tree = Tree.of(run.partition)
    found = population(tree)
    cells = np.repeat(np.flatnonzero(tree.is_region), 400)
    seen = Ended.of(tree, found, cells, np.full((len(cells), 2), 10.0), np.ones(len(cells)))
    assert len(points) > 100
    assert 1_000 < len(seen.rows) <= 1 << 11
