"""How unevenly people lie is one number for each depth, which divisions estimate without bias."""

from __future__ import annotations

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.release.prior import Halved, told_together
from semilocal.release.public import clumped, pieces_of

TREE = sl.BinaryTree(sl.Box((0, 0), (1, 1)), 8)


def divisions(rng: np.random.Generator, chance: float, number: int) -> Halved:
    """Cells of 5 to 200 people who divide by a Beta-binomial law and are seen with noise."""
    size, a = rng.integers(5, 200, number), (1.0 / chance - 1.0) / 2.0
    first = rng.binomial(size, rng.beta(a, a, number))
    noise = rng.uniform(0.0, 30.0, number)
    half = first - size / 2.0 + rng.normal(0.0, np.sqrt(noise))
    nothing, last = np.zeros(number), np.ones(number, dtype=bool)
    return Halved(np.ones(number, dtype=np.uint64), size.astype(float), nothing, 2.0 * half, noise, last)


@pytest.mark.parametrize("chance", [0.02, 0.2, 0.6])
def test_divisions_estimate_the_chance_without_bias(chance: float) -> None:
    """20,000 cells: within five standard errors (false alarm 6e-7). Planted: noise is not taken out."""
    some = divisions(np.random.default_rng(1), chance, 20_000)
    found, error = some.uneven(TREE)
    weight = 1.0 / (1.0 / 12.0 + error) ** 2
    off = 5.0 * float(np.sqrt(weight**2 @ (found - chance) ** 2) / weight.sum())
    assert abs(told_together(found, error) - chance) < off + 1e-4
    planted = told_together(some._replace(noise=np.zeros(len(found))).uneven(TREE)[0], error)
    assert planted > chance + off


def test_noisy_divisions_count_less_and_none_leave_ignorance() -> None:
    both = np.array([0.0, 1.0])
    assert told_together(both, np.array([0.0, 9.0])) < told_together(both, np.zeros(2))
    assert told_together(np.empty(0), np.empty(0)) == pytest.approx(1.0 / 3.0)
    assert told_together(np.full(1_000, -1.0), np.zeros(1_000)) == 0.0


def places(number: int, people: int, rng: np.random.Generator) -> Floats:
    return np.repeat(rng.random((number, 2)), people // number, axis=0)


def test_walls_tell_even_people_from_clumps() -> None:
    """20,000 even people, and the same in 400 places: four runs each. Planted: the strength of the estimate's prior.

    The latter takes two people of a piece for together in fewer than half of the cases where most are.
    """
    task = sl.Task.build(sl.Box((0, 0), (1, 1)), epsilon=4.0, delta=0.05, k=20)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        even, few = (sl.simulate(points, task, rng=rng).partition for points in (
            rng.random((20_000, 2)), places(400, 20_000, rng)))  # fmt: skip
        assert clumped(even, pieces_of(even)[0]) < 0.03
        pieces, strength = pieces_of(few)
        assert clumped(few, pieces) > 1.0 / (1.0 + strength)
