"""The k-anonymous quadtree publishes exact counts, none of them below k, and promises nothing more."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.geometry.box import Box
from semilocal.lab.baselines import kanonymous_quadtree
from semilocal.lab.index import count_points

Floats = npt.NDArray[np.float64]
UNIT = Box((0.0, 0.0), (1.0, 1.0))


def recursion(points: Floats, low: Floats, high: Floats, k: int, depth: int) -> list[Any]:
    middle = (low + high) / 2
    parts = []
    for child in range(4):
        upper = np.array([child & 1, child >> 1], dtype=bool)
        mine = points[((points >= middle) == upper).all(axis=1)]
        parts.append((mine, np.where(upper, middle, low), np.where(upper, high, middle)))
    sizes = [len(mine) for mine, _, _ in parts]
    if depth == 0 or min(sizes) < k:
        return [(low.tolist(), high.tolist(), len(points))]
    return [leaf for part in parts for leaf in recursion(*part, k, depth - 1)]


@pytest.mark.parametrize("k", [1, 5, 20])
def test_it_is_the_recursion_in_its_docstring(k: int) -> None:
    points = np.random.default_rng(k).beta(1.0, 2.0, (600, 2))
    result = kanonymous_quadtree(points, UNIT, k=k, max_depth=6)
    expected = recursion(points, np.zeros(2), np.ones(2), k, 6)
    found = zip(result.boxes[:, 0].tolist(), result.boxes[:, 1].tolist(), strict=True)
    assert sorted(found) == sorted((low, high) for low, high, _ in expected)
    assert np.array_equal(result.counts, count_points(points, result.boxes))
    assert result.counts.min() >= k
    assert result.counts.sum() == 600


def test_answers_to_its_own_cells_are_exact() -> None:
    points = np.random.default_rng(0).random((5000, 2))
    result = kanonymous_quadtree(points, UNIT, k=20)
    assert np.array_equal(result.query(result.boxes), count_points(points, result.boxes))
    assert result.counts.min() >= 20


def test_people_at_one_place_do_not_recurse_for_ever() -> None:
    assert kanonymous_quadtree(np.full((50, 2), 0.3), UNIT, k=20).counts.tolist() == [50.0]


def test_it_promises_no_differential_privacy() -> None:
    guarantee = kanonymous_quadtree([[0.5, 0.5]], UNIT, k=1, max_depth=1).guarantee
    assert guarantee.epsilon is None
    assert guarantee.anywhere is None
    assert "no differential privacy" in str(guarantee)
    assert "k-anonymity only" in str(guarantee)


def test_bad_arguments_are_refused() -> None:
    for k in (0, -1, 2.0, True):
        with pytest.raises(InvalidInput, match="k must"):
            kanonymous_quadtree([[0.5, 0.5]], UNIT, k=k)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="at least k"):
        kanonymous_quadtree([[0.5, 0.5]], UNIT, k=2)
    with pytest.raises(OutsideDomain):
        kanonymous_quadtree([[1.5, 0.5]], UNIT, k=1)
