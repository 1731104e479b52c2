"""Grids, DAWA and heat maps: the published rules, the budgets that they spend, the laws of what they add."""

from __future__ import annotations

import itertools
import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import kstest, laplace

from semilocal.errors import InvalidInput
from semilocal.geometry.box import Box
from semilocal.lab.baselines import GridCounts, agrid, dawa, heatmap, identity, ugrid
from semilocal.lab.baselines.boxes import SpatialCounts, earth_movers_distance
from semilocal.lab.baselines.dawa import cheapest_partition, deviations
from semilocal.lab.index import count_points
from semilocal.protocol.promise import Guarantee
from semilocal.simulation.synthetic import clusters

Floats = npt.NDArray[np.float64]
UNIT = Box((0.0, 0.0), (1.0, 1.0))


class Heard:
    """Stands in for a generator: gives its draws, or none, and writes down what was asked for."""

    def __init__(self, seed: int | None) -> None:
        self.rng = np.random.default_rng(seed or 0)
        self.silent = seed is None
        self.asked: list[tuple[float, Floats]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rng, name)

    def laplace(self, loc: float, scale: float, size: int | tuple[int, ...]) -> Floats:
        drawn = np.zeros(size) if self.silent else self.rng.laplace(loc, scale, size)
        self.asked.append((scale, drawn))
        return drawn

    def geometric(self, p: float, size: tuple[int, int]) -> npt.NDArray[np.int64]:
        drawn = np.ones(size, dtype=np.int64) if self.silent else self.rng.geometric(p, size)
        self.asked.append((p, drawn.astype(np.float64)))
        return drawn


def heard(seed: int | None) -> tuple[Heard, np.random.Generator]:
    stand_in = Heard(seed)
    return stand_in, cast(np.random.Generator, cast(Any, stand_in))


# -- answers and distances --------------------------------------------------------------------------------------------


def test_a_grid_answers_as_its_cells_do() -> None:
    rng = np.random.default_rng(1)
    x, y = np.sort(rng.random(6)), np.sort(rng.random(5))
    counts, guarantee = rng.normal(20, 30, (5, 4)), Guarantee.plain("curator", None)
    cells = [[[x[i], y[j]], [x[i + 1], y[j + 1]]] for i in range(5) for j in range(4)]
    one = SpatialCounts(np.array(cells), counts.ravel(), guarantee)
    queries = np.sort(rng.uniform(-0.2, 1.2, (300, 2, 2)), axis=1)
    queries[0] = [[-np.inf, -np.inf], [np.inf, np.inf]]
    assert GridCounts((x, y), counts, guarantee).query(queries) == pytest.approx(one.query(queries), abs=1e-9)


def test_the_earth_mover_s_distance_is_known_on_a_line_and_for_a_shift() -> None:
    rng = np.random.default_rng(2)
    one, other = np.zeros((2, 7, 7))
    one[3], other[3] = rng.random((2, 7))
    shares = one[3] / one[3].sum() - other[3] / other[3].sum()
    assert earth_movers_distance(one, other) == pytest.approx(np.abs(np.cumsum(shares)).sum() / 7)
    shifted = np.zeros((8, 8))
    shifted[2:6, 3:8] = block = rng.random((4, 5))
    start = np.zeros((8, 8))
    start[1:5, :5] = 3 * block  # totals do not matter
    assert earth_movers_distance(start, shifted) == pytest.approx(4 / 8)  # one step down, three to the right
    assert earth_movers_distance(start, start) == pytest.approx(0.0)
    with pytest.raises(InvalidInput, match="square"):
        earth_movers_distance(np.ones((2, 3)), np.ones((2, 3)))


# -- grids ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("people", "epsilon", "cells"), [(10_000, 0.1, 10), (100_000, 0.1, 32), (1_000, 1.0, 10), (3, 0.1, 1)]
)
def test_a_uniform_grid_is_as_fine_as_published(people: int, epsilon: float, cells: int) -> None:
    points = np.random.default_rng(3).random((people, 2))
    result = ugrid(points, UNIT, epsilon=epsilon, rng=heard(None)[1])
    assert result.counts.shape == (cells, cells)
    assert result.counts.ravel().tolist() == count_points(points, boxes_of(result)).tolist()


def boxes_of(grid: GridCounts) -> Floats:
    (x, y) = grid.edges
    return np.array([[[a, c], [b, d]] for a, b in itertools.pairwise(x) for c, d in itertools.pairwise(y)])


def test_the_noise_of_a_cell_is_laplace() -> None:
    """Kolmogorov-Smirnov at 1e-6: that is its false-alarm rate. A scale that is off by a fifth must be caught."""
    rng = np.random.default_rng(4)
    points = clusters(3_000, rng)
    noisy, exact = (identity(points, UNIT, epsilon=0.5, rng=one).counts for one in (rng, heard(None)[1]))
    noise = noisy - exact
    assert kstest(noise.ravel(), laplace(scale=2.0).cdf).pvalue > 1e-6
    assert kstest(noise.ravel(), laplace(scale=2.4).cdf).pvalue < 1e-6


def test_an_adaptive_grid_is_least_squares_over_its_two_levels() -> None:
    """Every cell against a general solver, with the published weights; halved weights must not pass."""
    points, epsilon = clusters(20_000, np.random.default_rng(5)), 1.0
    stand_in, rng = heard(6)
    result = agrid(points, UNIT, epsilon=epsilon, rng=rng)
    (first, above), *below = stand_in.asked
    assert 1 / first + 1 / below[0][0] == pytest.approx(epsilon)
    edges = np.linspace(0, 1, 13)  # ceil(sqrt(20,000 / 10) / 4) = 12
    assert len(above) == 144
    first_exact = np.histogram2d(points[:, 0], points[:, 1], (edges, edges))[0].ravel()
    start, wrong = 0, 0
    for cell, (scale, noise) in enumerate(below):
        parts = max(math.ceil(math.sqrt(max(first_exact[cell] + above[cell], 0) * 0.5 * epsilon / 5)), 1)
        assert len(noise) == parts**2
        mine = slice(start, start + len(noise))
        start += len(noise)
        told = count_points(points, np.where(result.boxes[mine] == 1.0, 1.1, result.boxes[mine])) + noise
        for weight in (1.0, 0.5):
            rows = np.vstack([np.ones(len(noise)) * weight / first, np.eye(len(noise)) / scale])
            wanted = np.append((first_exact[cell] + above[cell]) * weight / first, told / scale)
            solved = np.linalg.lstsq(rows, wanted)[0]
            if weight == 1.0:
                assert result.counts[mine] == pytest.approx(solved, abs=1e-6)
            else:
                wrong += not np.allclose(result.counts[mine], solved, atol=1e-3)
    assert start == len(result)
    assert wrong > 100


# -- DAWA -------------------------------------------------------------------------------------------------------------


def test_deviations_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(7)
    for n in (2, 3, 16, 37):
        for values in (rng.integers(0, 4, n), rng.integers(0, 1000, n) ** 2, np.full(n, 3)):
            for length, found in deviations(values.astype(np.float64)):
                windows = np.lib.stride_tricks.sliding_window_view(values, length)
                expected = np.abs(windows - windows.mean(axis=1, keepdims=True)).sum(axis=1)
                assert found == pytest.approx(expected, abs=1e-6 * max(values.max(), 1))


def test_the_partition_is_the_cheapest_of_all() -> None:
    """All partitions of eight cells into 1, 2, 4 or 8; the greedy choice, a planted bug, is dearer somewhere."""
    rng = np.random.default_rng(8)

    def partitions(start: int) -> list[list[tuple[int, int]]]:
        if start == 8:
            return [[]]
        return [
            [(start, power), *rest]
            for power in range(4)
            if start + 2**power <= 8
            for rest in partitions(start + 2**power)
        ]

    every, greedy_dearer = partitions(0), 0
    for _ in range(40):
        costs = [rng.random(8 - 2**power + 1) * 2**power for power in range(4)]
        starts = cheapest_partition(costs).tolist()
        spent = sum(costs[(end - start).bit_length() - 1][start] for start, end in itertools.pairwise([*starts, 8]))
        best = min(sum(costs[power][start] for start, power in one) for one in every)
        assert spent == pytest.approx(best)
        at, greedy = 0, 0.0
        while at < 8:
            power = min((p for p in range(4) if at + 2**p <= 8), key=lambda p: costs[p][at] / 2**p)
            greedy, at = greedy + costs[power][at], at + 2**power
        greedy_dearer += greedy > best + 1e-9
    assert greedy_dearer > 0


def test_dawa_spends_its_epsilon_and_finds_that_people_are_even() -> None:
    even = (np.stack(np.divmod(np.repeat(np.arange(32 * 32), 50), 32), axis=1) + 0.5) / 32
    stand_in, rng = heard(10)
    result = dawa(even, UNIT, epsilon=0.1, rng=rng, max_depth=5)
    costs = [scale for scale, drawn in stand_in.asked[:9]]
    assert costs[:2] == pytest.approx([(2 - 1 / length - 1 / 1024) / 0.025 for length in (2, 4)])
    levels = stand_in.asked[10:]
    assert sum(1 / scale for scale, _ in levels) == pytest.approx(0.075)
    assert result.counts.sum() == pytest.approx(51_200)
    alone = identity(even, UNIT, epsilon=0.1, rng=rng, max_depth=5)
    assert np.abs(result.counts - 50).mean() < np.abs(alone.counts - 50).mean() / 4
    assert "authors" in result.guarantee.notes[0]


# -- heat maps --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crowd", [5, 3_000])
def test_a_heat_map_spends_its_epsilon_whatever_it_divides(crowd: int) -> None:
    points = 0.3 * np.random.default_rng(11).random((crowd, 2))
    stand_in, rng = heard(12)
    result = heatmap(points, UNIT, epsilon=0.7, rng=rng, max_depth=6)
    budgets = [-math.log1p(-p) for p, _ in stand_in.asked]
    assert sum(budgets) == pytest.approx(0.7)
    assert budgets[:-1] == pytest.approx([0.07] * (len(budgets) - 1))
    assert len(budgets) == (6 if crowd == 3_000 else 2)
    assert stand_in.asked[-1][1].shape == (2, len(result))
    assert (result.guarantee.epsilon, result.guarantee.anywhere) == (0.7, 1.4)


def test_without_noise_a_heat_map_divides_crowds_and_counts_everybody() -> None:
    points = np.concatenate([np.full((900, 2), 0.1), np.full((20, 2), 0.9)])
    result = heatmap(points, UNIT, epsilon=1.0, rng=heard(None)[1], max_depth=4)
    assert result.counts.tolist() == count_points(points, result.boxes).tolist()
    assert result.counts.sum() == 920
    sides = result.boxes[:, 1, 0] - result.boxes[:, 0, 0]
    held = {count: side for count, side in zip(result.counts.tolist(), sides.tolist(), strict=True) if count}
    assert held == {900.0: 1 / 16, 20.0: 1 / 2}
