"""Consistent trees are the weighted least-squares solution, and projections are nearest points."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize

from semilocal.lab.baselines.ldp_trees import make_consistent, project_to_total

Floats = npt.NDArray[np.float64]


def random_tree(rng: np.random.Generator, nodes: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    parents, depths = [-1], [0]
    while len(parents) < nodes:
        leaf = int(rng.choice(sorted(set(range(len(parents))) - set(parents))))
        for _ in range(int(rng.integers(2, 5))):
            parents.append(leaf)
            depths.append(depths[leaf] + 1)
    return np.array(parents), np.array(depths)


def least_squares(parents: npt.NDArray[np.int64], values: Floats, variances: Floats) -> Floats:
    """Dense oracle: every node is a sum of leaves; solve the normal equations of the measured nodes."""
    leaves = sorted(set(range(len(parents))) - set(parents.tolist()))
    design = np.zeros((len(parents), len(leaves)))
    for column, leaf in enumerate(leaves):
        node = leaf
        while node >= 0:
            design[node, column] = 1.0
            node = int(parents[node])
    measured = np.isfinite(variances)
    weight = 1 / np.maximum(variances[measured], 1e-7)  # an exact node has a very large weight
    normal = design[measured].T @ (weight[:, None] * design[measured])
    solution = np.linalg.solve(normal, design[measured].T @ (weight * values[measured]))
    return np.asarray(design @ solution)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("exact_root", [True, False])
def test_two_passes_solve_the_least_squares_problem(seed: int, exact_root: bool) -> None:
    rng = np.random.default_rng(seed)
    parents, depths = random_tree(rng, 40)
    values, variances = rng.normal(100, 30, len(parents)), rng.uniform(0.5, 20, len(parents))
    inner = np.unique(parents[1:])
    variances[rng.choice(inner, len(inner) // 2)] = np.inf
    if exact_root:
        variances[0] = 0.0
    given = variances.copy()
    result = make_consistent(parents, depths, values, variances)
    expected = least_squares(parents, values, variances)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)
    assert np.array_equal(variances, given)
    sums = np.zeros(len(parents))
    np.add.at(sums, parents[1:], result[1:])
    np.testing.assert_allclose(sums[inner], result[inner], rtol=1e-9)
    if exact_root:
        assert result[0] == values[0]


@pytest.mark.parametrize("seed", range(5))
def test_projection_is_the_nearest_point_of_the_simplex(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, total = rng.normal(1, 5, 6), float(rng.uniform(0.5, 20))
    nearest = project_to_total(values, total)
    assert nearest.min() >= 0
    assert nearest.sum() == pytest.approx(total)
    found = minimize(
        lambda x: np.sum((x - values) ** 2),
        np.full(6, total / 6),
        jac=lambda x: 2 * (x - values),
        bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda x: np.sum(x) - total, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(nearest, found.x, atol=1e-5)
