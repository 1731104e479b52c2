"""The ledger never lets reserved and spent amounts exceed a cap, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from operator import add

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semilocal.arrays import exact
from semilocal.device.budget import Budget
from semilocal.errors import BudgetExceeded, InvalidInput, SemilocalError

A, B = bytes(32), bytes(31) + b"\x01"


def test_ten_tenths_fill_a_cap_of_one_exactly_and_the_eleventh_is_refused() -> None:
    ledger = Budget("1")
    for number in range(10):
        ledger = ledger.reserve(bytes([number]) * 32, 0.1)
    assert ledger.left == 0
    with pytest.raises(BudgetExceeded, match="cap of this vault is 1"):
        ledger.reserve(b"x" * 32, 1e-12)
    # planted bug: in floats the same ten tenths leave something over (added one by one: sum() is exact since 3.12)
    assert 1.0 - reduce(add, [0.1] * 10) > 0


def test_a_task_is_reserved_once_and_its_worst_case_cannot_change() -> None:
    ledger = Budget().reserve(A, 1.0)
    assert ledger.reserve(A, 1.0) is ledger
    with pytest.raises(InvalidInput, match="another worst case"):
        ledger.reserve(A, 0.5)


def test_caps_cannot_be_set_below_what_is_reserved() -> None:
    ledger = Budget().reserve(A, 3.0)
    assert ledger.with_cap(3).left == 0
    with pytest.raises(BudgetExceeded):
        ledger.with_cap("2.999999999999999999")


@pytest.mark.parametrize("amount", ["-1", -0.5, "nan", float("nan"), float("inf"), "1/0", "one"])
def test_amounts_that_are_no_amounts_are_refused(amount: float | str) -> None:
    with pytest.raises(InvalidInput):
        exact(amount)


amounts = st.decimals(min_value=0, max_value=3, places=3).map(str)


@given(
    cap=amounts,
    steps=st.lists(st.tuples(st.sampled_from(["reserve", "spend", "settle"]), st.integers(0, 4), amounts), max_size=30),
)
def test_no_sequence_of_operations_exceeds_the_cap(cap: str, steps: list[tuple[str, int, str]]) -> None:
    """Against a model with plain fractions: what may still be lost plus what was lost stays within the cap."""
    ledger = Budget(str(Fraction(cap)))
    reserved: dict[int, Fraction] = {}
    spent: dict[int, Fraction] = {}
    settled: set[int] = set()
    for kind, number, amount in steps:
        task, value = bytes([number]) * 32, Fraction(amount)
        try:
            if kind == "reserve":
                ledger = ledger.reserve(task, amount)
                reserved.setdefault(number, value)
            elif kind == "spend":
                ledger = ledger.spend(task, amount)
                assert number in reserved
                assert number not in settled
                assert value <= reserved[number]
                spent[number] = value
            else:
                ledger = ledger.settle(task)
                settled.add(number)
        except SemilocalError:
            pass
        worst = sum((spent.get(n, Fraction(0)) if n in settled else reserved[n] for n in reserved), Fraction(0))
        assert worst <= Fraction(cap)
        assert ledger.charged == worst
