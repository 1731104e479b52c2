"""Where people are: the joint estimate against a matrix form and the truth, the density inside pieces, and clipping."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import semilocal as sl
from semilocal import functions
from semilocal.hierarchy import tables
from semilocal.hierarchy.base import Hierarchy
from semilocal.protocol import clip
from semilocal.protocol.clip import clips, cut_off
from semilocal.protocol.column import read_column
from semilocal.protocol.estimate import PRIOR, STEPS, Pieces, Walls, estimate, parts_of
from semilocal.protocol.partition import Away, Partition
from semilocal.randomizer.values import best
from semilocal.testing import unit_box

Floats = npt.NDArray[np.float64]
P = 0.75


def prototype(lower: int, upper: int, walls: list[tuple[int, int, int]], prior: float = PRIOR) -> Floats:
    """Shares by the matrix of all walls and pieces: another program for the same numbers."""
    cuts, asked, yes = (np.array(column, dtype=float) for column in zip(*walls, strict=True))
    edges = np.concatenate([[lower], cuts, [upper]])
    length = np.diff(edges) / (upper - lower)
    law = np.where(np.arange(len(length))[None, :] > np.arange(len(cuts))[:, None], P, 1 - P)
    shares = 0.5 / len(length) + 0.5 * length
    for _ in range(STEPS):
        right = law @ shares
        shares = shares * ((yes / right) @ law) + shares * (((asked - yes) / (1 - right)) @ (1 - law)) + prior * length
        shares /= shares.sum()
    return shares


def columns(regions: list[list[tuple[int, int, int]]]) -> Walls:
    rows = [wall for walls in regions for wall in walls]
    first = np.concatenate([[0], np.cumsum([len(walls) for walls in regions])])
    cuts = np.array([row[0] for row in rows], dtype=np.uint64)
    return Walls(first, cuts, np.array([row[1] for row in rows], int), np.array([row[2] for row in rows], int))


def random_walls(rng: np.random.Generator, count: int) -> list[tuple[int, int, int]]:
    cuts = np.sort(rng.choice(np.arange(1, 1000), count, replace=False))
    asked = rng.integers(1, 200, count)
    return [(int(cut), int(n), int(rng.integers(0, n + 1))) for cut, n in zip(cuts, asked, strict=True)]


def test_it_is_the_prototype_s_estimate() -> None:
    rng = np.random.default_rng(3)
    regions = [random_walls(rng, count) for count in (1, 2, 3, 8, 1, 25, 2)]
    size = len(regions)
    found = estimate(np.zeros(size, np.uint64), np.full(size, 1000, np.uint64), columns(regions), P)
    for row, walls in enumerate(regions):
        own = found.share[found.first[row] : found.first[row + 1]]
        assert own == pytest.approx(prototype(0, 1000, walls), abs=1e-12)
        assert own.sum() == pytest.approx(1.0)
        assert found.lower[found.first[row]] == 0
        assert found.upper[found.first[row + 1] - 1] == 1000


def test_a_region_has_the_same_bits_alone_and_among_others() -> None:
    rng = np.random.default_rng(4)
    regions = [random_walls(rng, int(count)) for count in rng.integers(1, 12, 300)]
    ends = np.zeros(300, np.uint64), np.full(300, 1000, np.uint64)
    together = estimate(*ends, columns(regions), P)
    for row in (0, 17, 299):
        alone = estimate(ends[0][:1], ends[1][:1], columns([regions[row]]), P)
        assert alone.share.tolist() == together.share[together.first[row] : together.first[row + 1]].tolist()


def test_true_shares_are_found() -> None:
    """50,000 answers about each of three walls: the standard error of a share is below 0.006; 9 of them: 1e-18."""
    rng, true = np.random.default_rng(7), np.array([0.1, 0.5, 0.15, 0.25])
    walls = []
    for row, cut in enumerate((100, 400, 900)):
        above = true[row + 1 :].sum()
        walls.append((cut, 50_000, int(rng.binomial(50_000, 1 - P + (2 * P - 1) * above))))
    ends = np.zeros(1, np.uint64), np.full(1, 1000, np.uint64)
    found = estimate(*ends, columns([walls]), P, steps=500).share
    assert np.abs(found - true).max() < 9 * 0.006
    backwards = estimate(*ends, columns([[(cut, n, n - yes) for cut, n, yes in walls]]), P).share  # planted: sides
    assert np.abs(backwards - true).max() > 9 * 0.006


# -- inside pieces people are denser beside crowds; every piece keeps its people ---------------------------------------

TREES: dict[str, Hierarchy] = {
    "line": sl.BinaryTree(sl.Box((0,), (1,)), 12),
    "plane": sl.BinaryTree(sl.Box((0, 0), (1, 1)), 16),
    "quad": sl.Quadtree(sl.Box((0, 0), (1, 1)), 8),
    "sphere": sl.SphereTree(20),
    "labels": tables.from_cuts("code", [range(65)]),
}


def pieces(tree: Hierarchy, cuts: list[float], share: list[float]) -> Pieces:
    """One region, the whole domain, with these cuts (as shares of the order) and people."""
    low, high = tree.ends
    codes = np.array([low + int((high - low) * cut) for cut in cuts], dtype=np.uint64)
    none = np.zeros(len(codes), dtype=np.int64)
    walls = Walls(np.array([0, len(codes)]), codes, none, none)
    found = estimate(np.array([low], dtype=np.uint64), np.array([high], dtype=np.uint64), walls, 0.75)
    return found._replace(share=np.array(share))


@pytest.mark.parametrize("name", TREES)
def test_parts_are_cells_that_fill_the_pieces_and_keep_their_people(name: str) -> None:
    tree = TREES[name]
    given = pieces(tree, [0.25, 0.4, 0.77], [0.1, 0.6, 0.3, 0.0])
    found = parts_of(tree, given, np.array([1_000.0]))
    first, last = tree.span(found.cells)
    low, high = tree.ends
    assert first[0] == low
    assert np.array_equal(first[1:], last[:-1] + np.uint64(1))
    assert last[-1] + np.uint64(1) == high
    assert ((first >= given.lower[found.piece]) & (last < given.upper[found.piece])).all()
    assert np.bincount(found.piece, found.share) == pytest.approx(np.ones(4))
    assert (found.share >= 0).all()


def test_people_are_denser_beside_a_crowd() -> None:
    """A sparse half beside a crowded one. Planted: an even density, and people on the far side."""
    tree = TREES["line"]
    found = parts_of(tree, pieces(tree, [0.5], [0.95, 0.05]), np.array([1_000.0]))
    sparse = found.share[found.piece == 1]
    assert len(sparse) == 4
    assert sparse[0] > 0.4
    assert (np.diff(sparse) <= 1e-12).all()


# -- values are clipped to where the people of a region are, by public numbers alone ------------------------------

X = functions.coordinate(0)


def line(asked: int, yes: int, *, wall: float = 0.25, crowd: int = 1_000) -> Partition:
    """The unit line as one region with one wall; so many say that they are above it."""
    task = sl.Task.build(unit_box(1), epsilon=1.0)
    low, high = task.hierarchy.ends
    cut = np.array([low + int((high - low) * wall)], dtype=np.uint64)
    walls = Walls(np.array([0, 1]), cut, np.array([asked]), np.array([yes])) if asked else Walls.none(1)
    lower, upper = (np.array([code], dtype=np.uint64) for code in (low, high))
    return Partition(task, lower, upper, np.array([crowd]), np.array([0]), walls, Away.nobody())


def test_nothing_is_cut_where_nobody_answered_or_values_are_their_own() -> None:
    assert clips(line(0, 0), X, 1.0).tolist() == [[0.0, 1.0]]
    age = read_column([3.0, 5.0], (0, 100), name="age")
    assert clips(line(1_000, 500), age, 1.0).tolist() == [[0.0, 100.0]]


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_range_is_the_best_of_a_finer_grid(epsilon: float) -> None:
    """Oracle: the same cost at all pairs of 200 ends. The chosen one costs at most 2 % more."""
    partition = line(600, 260)
    held, noise = clip._held(partition, X), best(epsilon).worst_variance / 1_000
    clumped = 1.0 / (1.0 + partition.strength)

    def side(end: float, sign: float) -> float:
        mean, spread = held.off(np.array([end]), sign)
        return float(mean[0] ** 2 + clumped * spread[0])

    ends = np.linspace(0, 1, 201)
    above, below = (np.array([side(end, sign) for end in ends]) for sign in (1.0, -1.0))
    cost = noise * (ends[None] - ends[:, None]) ** 2 + below[:, None] + above[None]
    cost[ends[None] < ends[:, None]] = np.inf
    low, high = clips(partition, X, epsilon)[0].tolist()
    chosen = noise * (high - low) ** 2 + side(low, -1.0) + side(high, 1.0)
    assert chosen <= 1.02 * cost.min()
    assert noise > 1.02 * cost.min()  # planted: all of the region's range


def test_what_is_cut_off_is_the_mean_over_an_even_density() -> None:
    """Oracle: people who lie evenly in a region without answers."""
    partition, places = line(0, 0), (np.arange(100_000) + 0.5) / 100_000
    found = cut_off(partition, X, np.array([[0.3, 0.6]]))
    assert found.above[0] == pytest.approx(np.maximum(places - 0.6, 0).mean(), rel=1e-3)
    assert found.below[0] == pytest.approx(np.maximum(0.3 - places, 0).mean(), rel=1e-3)
    spread = np.maximum(places - 0.6, 0).var() + np.maximum(0.3 - places, 0).var()
    assert found.variance[0] == pytest.approx(spread / 2, rel=1e-3)  # without answers the prior has one person
