"""What last rounds say about unevenness, given that they made regions."""

from __future__ import annotations

import numpy as np
import pytest

import semilocal as sl
from semilocal.protocol.rule import decide, frontier_at
from semilocal.release._ended import Ended
from semilocal.release._tree import Tree
from semilocal.release._visitors import divided, population
from semilocal.testing import unit_box
from tests.helpers.release_runs import run_of

PEOPLE, NOISE, CLUMPED = 200.0, 14.0**2, 0.3


def ended(multiple: float, share: float, *, cut: bool) -> tuple[Ended, float]:
    """Last rounds of cells with the same people and law, those that end a path; and how many do."""
    rng, cells = np.random.default_rng(71), 60_000
    luck = PEOPLE * share * (1.0 - share)
    variance = NOISE + luck + multiple * CLUMPED * (PEOPLE - 1.0) * luck
    first = PEOPLE * share + rng.normal(0.0, 1.0, cells) * np.sqrt(variance)
    smaller, least, most = np.minimum(first, PEOPLE - first), 8.0, 60.0
    kept = first[(smaller >= least) & (smaller < most)]
    columns = (np.full(len(kept), number) for number in (PEOPLE, NOISE, CLUMPED))
    people, noise, clumped = columns
    limits = (least, most) if cut else (-np.inf, np.inf)
    ends = (np.full(len(kept), limit) for limit in limits)
    return Ended(np.arange(len(kept)), people, kept, noise, clumped, *ends), len(kept) / cells


@pytest.mark.parametrize(("multiple", "share"), [(0.1, 0.5), (0.5, 0.5), (0.2, 0.4)])
def test_unevenness_is_that_of_all_cells_though_only_regions_are_seen(multiple: float, share: float) -> None:
    """Within 30 %: the standard errors are 0.2, 2.7 and 6 % (20 other seeds), so a right one fails with 6e-7 at most.

    Planted: as if nobody had chosen, which gives 7.4, 2.2 and 2.6 times as much.
    """
    seen, kept = ended(multiple, share, cut=True)
    assert 0.05 < kept < 0.9
    even = np.full(len(seen.rows), share)
    assert seen.unevenness(even) == pytest.approx(multiple, rel=0.3)
    assert ended(multiple, share, cut=False)[0].unevenness(even) > 1.6 * multiple


def test_slopes_leave_the_ratio_of_what_is_left_and_what_was_there() -> None:
    seen, _ = ended(0.1, 0.4, cut=True)
    flat, sloped = np.full(len(seen.rows), 0.5), np.full(len(seen.rows), 0.4)
    left = seen.share_left(flat, sloped)
    assert left == pytest.approx(seen.unevenness(sloped) / seen.unevenness(flat))
    assert 0.0 < left < 0.7
    assert seen.share_left(sloped, flat) == 1.0  # slopes that are worse than none explain nothing


def test_without_regions_nothing_is_explained() -> None:
    nothing = np.empty(0)
    ended = Ended(np.empty(0, dtype=np.int64), *(nothing for _ in range(6)))
    assert ended.share_left(nothing, nothing) == 1.0


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
