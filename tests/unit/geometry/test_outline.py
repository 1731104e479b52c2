"""Outlines of rectangles put together: their area, their turns, holes, and corners that touch."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal.arrays import Integers
from semilocal.geometry.outline import rings


def outlines(region: Integers, lower: Integers, upper: Integers) -> list[list[Integers]]:
    found = rings(region, lower, upper)
    return [[np.array(ring) for ring in own] for own in found.of(found.points)]  # type: ignore[arg-type]


def area(ring: Integers) -> float:
    x, y = ring.T
    return float((x[:-1] * y[1:] - x[1:] * y[:-1]).sum() / 2)


def test_where_corners_touch_no_ring_touches_itself() -> None:
    squares = np.array([(x, y) for x in range(3) for y in range(3) if (x, y) not in {(1, 1), (2, 0)}])
    (found,) = outlines(np.zeros(len(squares), dtype=np.int64), squares, squares + 1)
    assert [area(ring) for ring in found] == [8.0, -1.0]
    for ring in found:
        points = ring[:-1].tolist()
        assert len({tuple(point) for point in points}) == len(points)


@pytest.mark.parametrize("seed", range(5))
def test_any_rectangles_have_outlines_of_their_area_without_points_on_straight_lines(seed: int) -> None:
    rng = np.random.default_rng(seed)
    taken, region, lower, upper = np.zeros((40, 40, 20), dtype=bool), [], [], []
    for _ in range(600):
        which, low = int(rng.integers(20)), rng.integers(0, 36, 2)
        high = low + rng.integers(1, 5, 2)
        where = taken[low[0] : high[0], low[1] : high[1], which]
        if not where.any():
            where[:] = True
            region.append(which)
            lower.append(low)
            upper.append(high)
    found = outlines(np.array(region), np.array(lower), np.array(upper))
    for which, own in enumerate(found):
        assert sum(map(area, own)) == taken[:, :, which].sum()
        for ring in own:
            steps = np.diff(ring, axis=0)
            assert ((steps != 0).sum(axis=1) == 1).all()
            assert (np.flatnonzero(steps)[1:] % 2 != np.flatnonzero(steps)[:-1] % 2).all()  # upright and level in turn
            assert (ring[0] == ring[-1]).all()
