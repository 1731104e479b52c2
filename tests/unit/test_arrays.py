"""Work on all cores, and numbers of Arrow."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal.arrays import arrow_values, on_all_cores, sort_on_all_cores


def test_pieces_of_work_come_back_in_order_and_a_fault_is_raised() -> None:
    assert on_all_cores(lambda number: number * number, range(50)) == [number * number for number in range(50)]
    assert on_all_cores(abs, []) == []
    with pytest.raises(ZeroDivisionError):
        on_all_cores(lambda number: 1 // number, [2, 1, 0, 3])


def test_numbers_of_arrow_are_those_that_it_shows() -> None:
    arrow = pytest.importorskip("pyarrow")
    column = arrow.chunked_array([[1.5, 2.5, 3.5], [], [4.5]])
    for some in (column, column.slice(1, 3), column.chunk(0).slice(1), column.slice(0, 0)):
        assert arrow_values(some).tolist() == some.to_pylist()
    assert arrow_values(arrow.array([1, 2], arrow.int32())).dtype == np.int32
    with pytest.raises(ValueError, match="1 values are missing"):
        arrow_values(arrow.array([1.0, None]))


@pytest.mark.parametrize("size", [0, 5, 1 << 19, (1 << 20) + 3])
def test_sorting_on_all_cores_sorts(size: int) -> None:
    values = np.random.default_rng(2).integers(0, 1 << 12, size, dtype=np.uint32)
    expected = np.sort(values)
    sort_on_all_cores(values)
    assert np.array_equal(values, expected)
