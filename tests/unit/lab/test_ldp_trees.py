"""Trees under local privacy: exact oracles, consistent counts, one report each, and totals that agree."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize

from semilocal.geometry.box import Box
from semilocal.lab.baselines import SpatialCounts, ahead, ldp_kdtree, ldp_trees
from semilocal.lab.baselines.boxes import count_points
from semilocal.lab.baselines.ldp_trees import Oracle, best_oracle, estimate, make_consistent, project_to_total, variance

EPSILONS = [0.1, 0.5, 1.0, 3.0, 8.0]


def report_probabilities(oracle: Oracle, item: int) -> dict[tuple[int, ...], float]:
    """Every possible report of a holder of ``item`` with its probability; a report is the set of supported items."""
    if not oracle.unary:
        unit = [tuple(int(i == j) for j in range(oracle.size)) for i in range(oracle.size)]
        return {unit[i]: oracle.true if i == item else oracle.other for i in range(oracle.size)}
    chance = [oracle.true if i == item else oracle.other for i in range(oracle.size)]
    return {
        bits: math.prod(c if bit else 1 - c for bit, c in zip(bits, chance, strict=True))
        for bits in product((0, 1), repeat=oracle.size)
    }


def tally_probabilities(oracle: Oracle, holders: list[int]) -> dict[tuple[int, ...], float]:
    """Exact joint distribution of the tally, by convolving one participant after the other."""
    result = {(0,) * oracle.size: 1.0}
    for item, number in enumerate(holders):
        for _ in range(number):
            added: defaultdict[tuple[int, ...], float] = defaultdict(float)
            for tally, chance in result.items():
                for report, part in report_probabilities(oracle, item).items():
                    added[tuple(a + b for a, b in zip(tally, report, strict=True))] += chance * part
            result = dict(added)
    return result


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("unary", [False, True])
def test_the_loss_of_a_report_is_exactly_epsilon(unary: bool, size: int, epsilon: float) -> None:
    """By enumeration of all reports under all pairs of items."""
    oracle = Oracle(size, epsilon, unary)
    tables = [report_probabilities(oracle, item) for item in range(size)]
    for table in tables:
        assert sum(table.values()) == pytest.approx(1.0, rel=1e-12)
    worst = max(a[report] / b[report] for a in tables for b in tables for report in a)
    assert math.log(worst) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("unary", [False, True])
def test_estimates_are_unbiased_with_the_stated_variance(unary: bool, epsilon: float) -> None:
    """By enumeration: all groups of 2 out of 4 people, all reports of each group."""
    oracle, people = Oracle(3, epsilon, unary), [0, 0, 1, 2]
    mean, square, groups = np.zeros(3), np.zeros(3), list(combinations(people, 2))
    for group in groups:
        holders = [group.count(item) for item in range(3)]
        for tally, chance in tally_probabilities(oracle, holders).items():
            value = estimate(oracle, np.array(tally), 2) * 4 / 2
            mean += chance * value / len(groups)
            square += chance * value**2 / len(groups)
    np.testing.assert_allclose(mean, [2, 1, 1], rtol=1e-9, atol=1e-9)
    stated = variance(oracle, np.array([2, 1, 1]) / 4, reporting=2, people=4)
    np.testing.assert_allclose(square - mean**2, stated, rtol=1e-7)


@pytest.mark.parametrize("epsilon", [*EPSILONS, 500.0, 5000.0])
def test_the_better_oracle_is_chosen(epsilon: float) -> None:
    for size in (2, 3, 5, 9, 20, 60, 300, 10**5):
        chosen, rivals = best_oracle(size, epsilon=epsilon), [Oracle(size, epsilon, unary) for unary in (False, True)]
        spreads = [float(variance(rival, 0.0, reporting=10, people=10)) for rival in rivals]
        assert float(variance(chosen, 0.0, reporting=10, people=10)) <= min(spreads) * (1 + 1e-12)


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


Baseline = Callable[..., SpatialCounts]
UNIT = Box((0.0, 0.0), (1.0, 1.0))
ODD = Box((-3.0, 10.0), (5.0, 11.0))
TREES: list[Baseline] = [ahead, ldp_kdtree]


def crowd(rng: np.random.Generator, n: int, box: Box = UNIT) -> Floats:
    """Half of the people in a tight cluster, half spread out."""
    low, high = np.asarray(box.lower), np.asarray(box.upper)
    tight = 0.3 + 0.05 * rng.random((n // 2, len(low)))
    wide = rng.random((n - n // 2, len(low)))
    return np.asarray(low + np.concatenate((tight, wide)) * (high - low))


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, int]]:
    """Writes down (epsilon, participants) of every round of reports."""
    seen: list[tuple[float, int]] = []
    draw = ldp_trees.Oracle.draw_tally

    def record(self: Any, counts: Any, *, rng: Any) -> Any:
        seen.append((self.epsilon, int(counts.sum())))
        return draw(self, counts, rng=rng)

    monkeypatch.setattr(ldp_trees.Oracle, "draw_tally", record)
    return seen


def spread_evenly(values: Floats, total: float) -> Floats:
    """In place of the nearest non-negative counts: unbiased ones."""
    return np.asarray(values + (total - values.sum()) / len(values))


@pytest.mark.parametrize("tree", TREES)
def test_everyone_reports_exactly_once_with_the_whole_epsilon(tree: Baseline, reports: list[tuple[float, int]]) -> None:
    rng = np.random.default_rng(0)
    result = tree(crowd(rng, 3001), UNIT, epsilon=0.7, rng=rng)
    assert sum(people for _, people in reports) == 3001
    assert {epsilon for epsilon, _ in reports} == {0.7}
    assert result.guarantee.epsilon == result.guarantee.anywhere == 0.7
    assert "local DP" in str(result.guarantee)


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("box", [UNIT, ODD, Box((0.0,), (2.0,)), Box((0.0,) * 3, (1.0, 2.0, 3.0))])
def test_leaves_tile_the_domain_and_hold_everybody(tree: Baseline, box: Box) -> None:
    rng = np.random.default_rng(1)
    result = tree(crowd(rng, 4000, box), box, epsilon=1.0, rng=rng)
    sides = result.boxes[:, 1] - result.boxes[:, 0]
    assert sides.prod(axis=1).sum() == pytest.approx(np.prod(np.subtract(box.upper, box.lower)))
    assert (result.boxes[:, 0] >= box.lower).all()
    assert (result.boxes[:, 1] <= box.upper).all()
    assert result.query([[box.lower, box.upper]])[0] == pytest.approx(4000, rel=1e-9)
    assert result.counts.sum() == pytest.approx(4000, rel=1e-9)
    assert result.counts.min() >= 0


def test_ahead_without_privacy_finds_the_crowd_and_its_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """At epsilon 60 only the dealing out into 4 layers is random: leaves are within 6 standard errors of the truth.

    One layer, a quarter of the people, gives a count with at most three times its variance under Poisson's law. About
    10^2 leaves: false-alarm rate below 1e-6 by the normal tail (2e-9 each).
    """
    rng = np.random.default_rng(5)
    points = crowd(rng, 40_000)
    monkeypatch.setattr(ldp_trees, "project_to_total", spread_evenly)
    result = ahead(points, UNIT, epsilon=60.0, rng=rng, depth=4)
    truth = count_points(points, result.boxes)
    z = (result.counts - truth) / np.sqrt(3 * (truth + 1.0))
    assert np.abs(z).max() < 6
    sides = result.boxes[:, 1, 0] - result.boxes[:, 0, 0]
    assert sides.min() == 0.5**4


def test_ahead_divides_the_crowded_and_leaves_the_empty_alone() -> None:
    rng = np.random.default_rng(6)
    points = 0.2 * rng.random((30_000, 2))
    result = ahead(points, UNIT, epsilon=2.0, rng=rng)
    sides = (result.boxes[:, 1] - result.boxes[:, 0]).max(axis=1)
    far = (result.boxes[:, 0] >= 0.5).all(axis=1)
    assert sides[far].max() == 0.5
    assert result.query([[[0.0, 0.0], [0.25, 0.25]]])[0] > 25_000


def test_a_kdtree_without_privacy_halves_the_people() -> None:
    rng = np.random.default_rng(8)
    points = rng.random((40_000, 2))
    result = ldp_kdtree(points, UNIT, epsilon=60.0, rng=rng, height=3, buckets=128)
    np.testing.assert_allclose(count_points(points, result.boxes), 5000, rtol=0.1)
