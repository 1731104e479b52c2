"""Least squares over the tree: the same as solving the whole system, with exact errors; then nothing below zero."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal import Box
from semilocal.arrays import Floats
from semilocal.hierarchy import BinaryTree
from semilocal.pooled import PooledTask, Tree, estimate, noise, replay, spread_inside
from semilocal.pooled.estimate import split_mean
from tests.helpers.pooled_runs import seeded
from tests.helpers.pooled_variance import variance_of


def solved(tree: Tree) -> tuple[Floats, Floats]:
    """Solution and covariance of the weighted least-squares problem, from one dense system."""
    task, size = tree.task, len(tree.cells)
    first = task.hierarchy.span(tree.cells)[0]
    rows, values, variances = [], [], []

    def inside(cell: int) -> Floats:
        low, high = task.hierarchy.span(np.array([cell], dtype=np.uint64))
        return ((first >= low) & (first <= high)).astype(float)

    for level, numbers in zip(tree.levels, tree.differences, strict=False):
        spread = task.noises * noise.variance(task.unit, level.price[level.opened])
        for cell, number, variance in zip(level.cells[level.opened].tolist(), numbers, spread, strict=True):
            rows.append(inside(2 * cell) - inside(2 * cell + 1))
            values.append(number)
            variances.append(variance)
    rows += list(np.eye(size))
    values += tree.counts.tolist()
    variances += (task.noises * noise.variance(task.unit, tree.units)).tolist()
    design, weight = np.array(rows), 1 / np.array(variances)
    # Counts add up to N: the last cell is N less the others.
    free = np.vstack([np.eye(size - 1), -np.ones((1, size - 1))])
    fixed = np.zeros(size)
    fixed[-1] = tree.people
    reduced = design @ free
    covariance = np.linalg.inv(reduced.T @ (weight[:, None] * reduced))
    best = covariance @ (reduced.T @ (weight * (np.array(values) - design @ fixed)))
    return free @ best + fixed, free @ covariance @ free.T


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("trust", ["curator", "two-servers"])
def test_two_passes_solve_the_whole_system(seed: int, trust: str) -> None:
    rng = np.random.default_rng(seed)
    task = PooledTask.build(Box((0, 0), (1, 1)), epsilon=3.0, trust=trust)  # type: ignore[arg-type]
    tree = replay(seeded(task, np.clip(rng.normal(0.4, 0.1, (800, 2)), 0, 1), seed))
    assert 20 < len(tree.cells) < 300
    found = estimate(tree)
    values, covariance = solved(tree)
    np.testing.assert_allclose(found.unbiased, values, atol=1e-7)
    np.testing.assert_allclose(found.variances, np.diag(covariance), rtol=1e-8, atol=1e-9)
    weights = rng.random((7, len(values))) * (rng.random((7, len(values))) < 0.3)
    expected = np.einsum("qi,ij,qj->q", weights, covariance, weights)
    np.testing.assert_allclose(variance_of(found, weights), expected, rtol=1e-8, atol=1e-9)
    assert variance_of(found, np.ones(len(values)))[0] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_released_counts_are_not_negative_and_add_up_everywhere(seed: int) -> None:
    rng = np.random.default_rng(seed)
    task = PooledTask.build(Box((0, 0), (1, 1)), epsilon=0.5, trust="two-servers")
    found = estimate(replay(seeded(task, rng.random((5000, 2)) ** 9, seed)))
    assert (found.unbiased < 0).any()
    assert (found.counts >= 0).all()
    assert found.counts.sum() == pytest.approx(5000)
    assert found.unbiased.sum() == pytest.approx(5000)


def test_without_negative_numbers_nothing_is_changed() -> None:
    task = PooledTask.build(Box((0,), (1,)), epsilon=80.0, trust="curator", max_depth=3)
    found = estimate(replay(seeded(task, np.linspace(0, 1, 400), 0)))
    assert (found.unbiased > 1).all()
    np.testing.assert_allclose(found.counts, found.unbiased, atol=1e-9)


@pytest.mark.parametrize(
    ("parent", "first", "variance"), [(100, 50, 4), (100, 2, 9), (20, -6, 16), (20, 27, 16), (3, 1, 400)]
)
def test_a_split_is_the_posterior_mean_by_numerical_integration(parent: float, first: float, variance: float) -> None:
    """A quarter at each end, a half uniform between; the likelihood is normal."""
    x = np.linspace(0, parent, 200_001)
    density = np.exp(-((x - first) ** 2) / (2 * variance))
    inside, moment = np.trapezoid(density, x) / parent / 2, np.trapezoid(x * density, x) / parent / 2
    low, high = density[0] / 4, density[-1] / 4
    expected = (moment + high * parent) / (inside + low + high)
    found = split_mean(np.array([parent * 1.0]), np.array([first * 1.0]), np.array([variance * 1.0]))
    assert found[0] == pytest.approx(expected, rel=1e-4)
    mirrored = split_mean(np.array([parent * 1.0]), np.array([parent - first * 1.0]), np.array([variance * 1.0]))
    assert found[0] + mirrored[0] == pytest.approx(parent)


def test_a_split_stays_between_nobody_and_all_for_any_numbers() -> None:
    rng = np.random.default_rng(3)
    parent = np.append(np.exp(rng.uniform(-20, 25, 4_000)), np.zeros(100))
    first = parent * rng.normal(0.5, 1, 4_100) + rng.normal(0, 1, 4_100) * np.exp(rng.uniform(-10, 20, 4_100))
    found = split_mean(parent, first, np.exp(rng.uniform(-30, 40, 4_100)))
    assert ((found >= 0) & (found <= parent)).all()


def grid(tree: BinaryTree, depth: int) -> np.ndarray:
    return np.arange(1 << depth, 2 << depth, dtype=np.uint64)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_every_cell_keeps_its_count(dimensions: int) -> None:
    tree = BinaryTree(Box((0,) * dimensions, (1,) * dimensions), 6)
    cells = grid(tree, 6)
    counts = np.random.default_rng(1).exponential(5, len(cells)) * (np.arange(len(cells)) % 3 > 0)
    deeper, parts, shares = spread_inside(tree, cells, counts)
    assert deeper.max_depth == 8
    assert (shares >= 0).all()
    np.testing.assert_allclose(np.bincount((parts >> np.uint64(2)).astype(int))[cells], 4)
    np.testing.assert_allclose(shares.reshape(-1, 4).sum(axis=1), counts, atol=1e-12)


def test_an_even_map_stays_even() -> None:
    tree = BinaryTree(Box((0, 0), (1, 1)), 6)
    shares = spread_inside(tree, grid(tree, 6), np.full(64, 8.0))[2]
    np.testing.assert_allclose(shares, 2.0)


def test_an_exponential_slope_is_followed() -> None:
    tree = BinaryTree(Box((0,), (1,)), 5)
    counts = np.exp2(np.arange(32.0))
    halves = spread_inside(tree, grid(tree, 5), counts, halvings=1)[2].reshape(-1, 2)
    ratio = halves[4:-4, 1] / halves[4:-4, 0]
    np.testing.assert_allclose(ratio, 2**0.5)


def test_cells_too_narrow_for_floats_stay_whole() -> None:
    tree = BinaryTree(Box((1e6,), (1e6 + 1e-6,)), 10)
    same = spread_inside(tree, grid(tree, 10), np.ones(1024), halvings=40)
    assert same[0] is tree
    assert len(same[2]) == 1024
