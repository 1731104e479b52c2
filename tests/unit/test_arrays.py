"""Sorting with the order that values had before."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal.arrays import sort_with_order


@pytest.mark.parametrize("spread", [1, 3, 1 << 10, 1 << 45, 1 << 60])
@pytest.mark.parametrize("size", [0, 1, 2, 1000, 70_000])
def test_a_sort_with_order_is_a_stable_argsort_however_few_bits_fit(spread: int, size: int) -> None:
    rng = np.random.default_rng([spread, size])
    lowest, highest = 1 << 60, (1 << 61) - 1
    values = np.uint64(lowest) + rng.integers(0, spread, size=size, dtype=np.uint64)
    values[size // 2 :] += np.uint64(highest - lowest - spread + 1)  # both ends of the range
    order = np.argsort(values, kind="stable")
    found, places = sort_with_order(values.copy(), lowest, highest)
    assert np.array_equal(found, values[order])
    assert np.array_equal(places, order)
