"""The joint estimate against the matrix form of local.md's prototype, and against the likelihood itself."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from semilocal.protocol.estimate import PRIOR, STEPS, Walls, estimate

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
