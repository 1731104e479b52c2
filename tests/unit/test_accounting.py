"""The ledger adds up exactly, refuses to overspend, and never shows only the smaller number."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import semilocal as sl
from semilocal.accounting import INSIDE, Entry, Ledger
from semilocal.arrays import exact
from semilocal.errors import BudgetExceeded, InvalidInput

UNIT = sl.Box((0,), (1,))


def task(**options: object) -> sl.Task:
    given = {"epsilon": 0.1, "delta": 1e-6, "k": 20, "max_trims": 2} | options
    return sl.Task.build(UNIT, **given)  # type: ignore[arg-type]


def test_losses_are_the_decimal_numbers_that_were_written() -> None:
    assert exact(0.1) + exact(0.2) == Fraction(3, 10)
    assert 0.1 + 0.2 != 0.3  # what floats would have said
    assert exact(1) == 1
    assert exact(Fraction(1, 3)) == Fraction(1, 3)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), True, "one"])
def test_what_is_no_finite_number_cannot_be_spent(wrong: object) -> None:
    with pytest.raises(InvalidInput, match="finite number"):
        Ledger().spend("mean", wrong)  # type: ignore[arg-type]


def test_a_run_costs_one_report_and_one_more_per_move() -> None:
    ledger = Ledger.of(task())
    assert ledger.epsilon == Fraction(1, 10)
    assert ledger.epsilon_worst == Fraction(3, 10)
    assert [ledger.loss(moves) for moves in range(3)] == [Fraction(1, 10), Fraction(2, 10), Fraction(3, 10)]
    assert ledger.delta == Fraction(1, 10**6)
    for moves in (-1, 3):
        with pytest.raises(InvalidInput, match="from 0 to 2"):
            ledger.loss(moves)


def test_rule_all_costs_everybody_the_same() -> None:
    ledger = Ledger.of(task(rule="all", max_trims=0))
    assert ledger.epsilon == ledger.epsilon_worst == Fraction(1, 10)


def test_two_releases_on_one_run_add_up() -> None:
    rng = np.random.default_rng(1)
    points = rng.random((500, 1))
    run = sl.simulate(points, task(epsilon=1.0), rng=rng)
    first = sl.release.mean(run, points, sl.functions.coordinate(0), epsilon=0.3, rng=rng)
    second = sl.release.values(run, points, sl.functions.squared_norm(), epsilon=0.4, rng=rng, ledger=first.spent)
    assert second.spent.epsilon == Fraction(17, 10)
    assert second.spent.epsilon_worst == Fraction(37, 10)
    assert len(second.spent.entries) == 3
    assert first.spent.epsilon == Fraction(13, 10)  # a ledger is a value: the first one has not changed


def test_a_second_run_on_the_same_people_adds_losses_and_deltas() -> None:
    total = Ledger.of(task()).spend("mean", 0.2).partition(task(epsilon=0.5, delta=2e-6, max_trims=1))
    assert total.epsilon == Fraction(8, 10)
    assert total.epsilon_worst == Fraction(3, 10) + Fraction(2, 10) + Fraction(10, 10)
    assert total.delta == Fraction(3, 10**6)
    # Moved twice in the first run and as often as the second can move.
    assert total.loss(2) == total.epsilon_worst
    assert Ledger.of(task()) + Ledger().spend("mean", 0.2) == Ledger.of(task()).spend("mean", 0.2)


def test_a_delta_is_a_probability_however_many_runs_there_are() -> None:
    total = Ledger()
    for _ in range(30):
        total = total.partition(task(delta=0.05))
    assert total.delta == 1


def test_a_rule_without_a_crowd_has_delta_one() -> None:
    assert Ledger.of(task(rule="each", max_trims=0)).delta == 1


def test_the_cap_holds_for_whoever_loses_most() -> None:
    ledger = Ledger.of(task(), cap=0.5).spend("mean", 0.2)  # worst case 0.3 + 0.2
    assert ledger.epsilon_worst == ledger.cap
    with pytest.raises(BudgetExceeded, match=r"0\.5 is spent and the cap is 0\.5"):
        ledger.spend("one more", 0.001)
    with pytest.raises(BudgetExceeded):
        Ledger.of(task(), cap=0.29)
    loose, strict = Ledger(cap=Fraction(9)).spend("a", 0.2), Ledger(cap=Fraction(1, 2)).spend("b", 0.2)
    assert (loose + strict).cap == Fraction(1, 2)
    with pytest.raises(BudgetExceeded):
        loose + strict + Ledger().spend("c", 0.2)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7, 1.1, 2.3])
@pytest.mark.parametrize("max_trims", [2, 5, 6])
def test_rounding_of_a_divided_budget_does_not_exceed_the_cap(epsilon: float, max_trims: int) -> None:
    divided = task(epsilon=epsilon, max_trims=max_trims, accounting="uniform")
    assert float(Ledger.of(divided, cap=epsilon).epsilon_worst) == pytest.approx(epsilon, rel=1e-12)


def test_nothing_negative_is_spent() -> None:
    with pytest.raises(InvalidInput, match="not be negative"):
        Ledger().spend("mean", -0.1)


def test_table_and_sentences_show_both_losses_adjacency_and_delta() -> None:
    ledger = Ledger.of(task(), cap=2).spend("mean of x", 0.25)
    table, words = str(ledger), ledger.sentences()
    lines = table.splitlines()
    assert lines[0].split("  ")[0] == "spent on"
    for heading in ("never moved", "worst case", "delta (crowd)", "adjacency"):
        assert heading in lines[0]
    assert all(INSIDE in line for line in lines[2:4])
    total = lines[-1]
    for part in ("total", "0.35", "0.55", "1e-06", INSIDE):
        assert part in total
    for part in ("0.35", "0.55", INSIDE, "delta = 1e-06", "0.1 per move", "never moved", "cap is 2", "1.45 is left"):
        assert part in words


def test_an_entry_knows_its_own_bounds() -> None:
    entry = Entry("run", Fraction(1), Fraction(1, 2), 4)
    assert entry.worst == 3
    assert entry.loss(4) == entry.worst
    with pytest.raises(InvalidInput):
        entry.loss(5)
