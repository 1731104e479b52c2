"""The ledger adds up exactly, refuses to overspend, and does not add up crowds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.accounting import Ledger
from semilocal.arrays import exact
from semilocal.errors import BudgetExceeded, InvalidInput
from semilocal.protocol.estimate import Walls
from semilocal.protocol.partition import Away, Partition

UNIT = sl.Box((0,), (1,))


def task(**options: object) -> sl.Task:
    given = {"epsilon": 0.1, "delta": 1e-6, "k": 20} | options
    return sl.Task.build(UNIT, **given)  # type: ignore[arg-type]


def partition(task: sl.Task, *crowds: int, walls: Walls | None = None) -> Partition:
    """A map of so many regions of equal length."""
    lower, upper = task.hierarchy.ends
    ends = np.linspace(lower, upper, len(crowds) + 1).astype(np.uint64)
    none = np.zeros(len(crowds), dtype=np.int64)
    walls = Walls.none(len(crowds)) if walls is None else walls
    return Partition(task, ends[:-1], ends[1:], np.array(crowds), none, walls, Away.nobody())


def wall(task: sl.Task) -> Walls:
    """One region with one wall, about which 30 answered."""
    one = np.array([30])
    return Walls(np.array([0, 1]), np.array([sum(task.hierarchy.ends) // 2], dtype=np.uint64), one, one // 2)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), True, "one"])
def test_what_is_no_finite_number_cannot_be_spent(wrong: object) -> None:
    with pytest.raises(InvalidInput, match="finite number"):
        Ledger().spend("mean", wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("rule", ["cut", "all"])
def test_a_run_costs_everybody_its_epsilon(rule: str, epsilon: float) -> None:
    ledger = Ledger.of(task(rule=rule, epsilon=epsilon))
    assert ledger.epsilon == exact(epsilon)
    assert ledger.epsilon_anywhere is None  # regions are public
    assert ledger.delta == exact(task().delta)


def test_a_ledger_promises_what_was_spent_on_one_partition() -> None:
    asked, other = task(epsilon=1.0), task(epsilon=0.5)
    found = partition(asked, 25, 40)
    said = Ledger.of(asked).spend("mean", 0.2).guarantee(found)
    assert said.epsilon == pytest.approx(1.2)
    assert (said.k, said.smallest, said.releases) == (20, 25, (("mean", 0.2),))
    with pytest.raises(InvalidInput, match="one partition"):
        Ledger.of(asked).partition(other).guarantee(found)


def test_values_without_a_partition_are_local_privacy_over_the_whole_domain() -> None:
    nothing = partition(task(epsilon=1.0), 50)  # one region, and nobody answered
    said = Ledger().spend("mean", 1.0, anywhere=True).guarantee(nothing)
    assert said.adjacency == "anywhere"
    assert said.anywhere == said.epsilon == 1.0


def test_where_fewer_than_k_took_part_they_are_the_crowd() -> None:
    asked = task()
    found = partition(asked, 12)
    assert Ledger.of(asked).settle(found).entries[0].k == 12
    assert "12 in it except with probability 1e-06" in Ledger.of(asked).settle(found).sentences()
    away = Away(found.lower, found.upper, np.array([9]))
    assert Ledger.of(asked).settle(replace(found, away=away)).entries[0].k == 20  # who is away is on the roster


def test_a_ledger_that_does_not_hold_the_run_is_refused() -> None:
    """Regions that are public would be released as "epsilon = 0 anywhere"."""
    asked, everybody = task(epsilon=1.0), task(epsilon=1.0, rule="all")
    for found in (partition(asked, 25, 25), partition(asked, 60, walls=wall(asked)), partition(everybody, 30)):
        for ledger in (Ledger(), Ledger().spend("other", 0.5), Ledger.of(task(epsilon=0.5))):
            with pytest.raises(InvalidInput, match=r"does not hold the run.*ledger\.partition\(task\)"):
                ledger.settle(found)
            with pytest.raises(InvalidInput, match="does not hold the run"):
                ledger.guarantee(found)


@pytest.mark.parametrize("trust", ["nobody", "curator"])
def test_a_ledger_names_the_values_that_a_loss_is_about(trust: Any) -> None:
    rng = np.random.default_rng(1)
    points, fares = rng.random((500, 1)), rng.random(500)
    asked = {"trust": trust, "rng": rng} | ({"delta": 1e-6, "k": 20} if trust == "nobody" else {})
    found = sl.mean(points, UNIT, value=fares, range=(0, 2), epsilon=1.0, **asked)
    said = "epsilon = 1 (delta = 0) between any two positions of one person anywhere in the domain, with any two values"
    assert found.spent.epsilon_anywhere == 1
    assert found.spent.sentences() == f"{said} of value from 0 to 2."
    with_map = Ledger.of(task()).spend("mean of fare", 0.5, own="fare from 0 to 2")
    assert with_map.sentences().count("with any two values of fare from 0 to 2") == 1


def test_buckets_that_a_person_named_tell_positions_apart() -> None:
    bucket = Ledger().spend("counts", 0.5, bucket=True)
    two = (bucket + bucket).spend("mean", 1, anywhere=True).sentences()
    assert two == (
        "epsilon = 2 (delta = 0) between any two positions of one person inside all public buckets that they named; of "
        "this, epsilon = 1 (delta = 0) between any two positions of one person anywhere in the domain."
    )
    with_regions = (Ledger.of(task()) + bucket).sentences()
    assert with_regions.count("and inside the public bucket that they named") == 1


def test_settling_a_second_run_of_a_task_keeps_what_the_first_one_had() -> None:
    asked = task(epsilon=1.0)
    both = Ledger.of(asked).settle(partition(asked, 12)).partition(asked).settle(partition(asked, 15))
    assert [entry.k for entry in both.entries] == [12, 15]


def test_a_second_run_on_the_same_people_adds_losses_but_not_crowds() -> None:
    second = task(epsilon=0.5, delta=2e-6)
    total = Ledger.of(task()).spend("mean", 0.2).partition(second)
    assert total.epsilon == Fraction(8, 10)
    # two crowds of k say nothing about how many share both regions: a sum of deltas would claim that they do
    assert total.delta == max(exact(task().delta), exact(second.delta))
    assert "Crowds do not compose" in total.sentences()
    assert "compose" not in Ledger.of(task()).sentences()
    assert Ledger.of(task()) + Ledger().spend("mean", 0.2) == Ledger.of(task()).spend("mean", 0.2)


def test_several_runs_promise_nothing_for_places_in_only_one_of_the_regions() -> None:
    for second in (task(epsilon=0.5), task()):  # the same task again makes another partition
        words = Ledger.of(task()).partition(second).sentences()
        assert "between any two places inside all of one's regions" in words
        assert "any two places of one's region" not in words


def test_a_run_without_a_crowd_has_delta_one() -> None:
    paper = Ledger.of(sl.Task.paper(UNIT, epsilon=0.1, delta=0.05, k=20))
    assert paper.delta == 1
    assert "No crowd is promised." in paper.sentences()


def test_the_cap_holds_for_the_sum() -> None:
    ledger = Ledger.of(task(), cap=0.3).spend("mean", 0.2)
    assert ledger.epsilon == ledger.cap
    with pytest.raises(BudgetExceeded, match=r"0\.3 is spent and the cap is 0\.3"):
        ledger.spend("one more", 0.001)
    with pytest.raises(BudgetExceeded):
        Ledger.of(task(), cap=0.09)
    loose, strict = Ledger(cap=Fraction(9)).spend("a", 0.2), Ledger(cap=Fraction(1, 2)).spend("b", 0.2)
    assert (loose + strict).cap == Fraction(1, 2)
    with pytest.raises(BudgetExceeded):
        loose + strict + Ledger().spend("c", 0.2)


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 2.3, 5.1, 6.9, 11.3])
def test_rounding_of_a_divided_epsilon_does_not_exceed_the_cap(epsilon: float) -> None:
    assert float(Ledger.of(task(epsilon=epsilon), cap=epsilon).epsilon) == pytest.approx(epsilon, rel=1e-12)


def test_nothing_negative_is_spent() -> None:
    with pytest.raises(InvalidInput, match="not be negative"):
        Ledger().spend("mean", -0.1)


def test_table_and_sentences_show_losses_adjacencies_and_deltas() -> None:
    ledger = Ledger.of(task(), cap=2).spend("mean of x", 0.25)
    lines, words = str(ledger).splitlines(), ledger.sentences()
    for heading in ("spent on", "epsilon", "delta (crowd)"):
        assert heading in lines[0]
    total = next(line for line in lines if line.startswith("total"))
    assert total.split() == ["total", "0.35"]
    assert lines[-1] == words
    assert "epsilon = 0.35 (delta = 0) between any two places of one's region" in words
    assert "20 in it except with probability 1e-06" in words
    for part in ("cap is 2", "1.65 is left"):
        assert part in words
    assert "delta (crowd)" not in str(Ledger().spend("counts", 1, anywhere=True))


def test_a_person_with_several_rows_loses_and_risks_that_many_times_as_much() -> None:
    one = Ledger.of(task(), cap=exact(0.3)).times(1)
    several = one.times(3)
    assert several.epsilon == 3 * one.epsilon == 3 * exact(0.1)
    assert (several.delta, several.rows) == (3 * exact(1e-6), 3)
    assert one.times(10**7).delta == 1, "a chance is at most 1"


def test_the_crowd_of_each_expense_counts_its_own_rows() -> None:
    asked = task(epsilon=1.0)
    both = Ledger.of(asked).times(3) + Ledger.of(task())
    assert "20 rows in it, of at least 7 people," in both.sentences()
    assert "20 in it except" in both.sentences()
    several = Ledger.of(asked).times(3)
    for spent in (several + Ledger().spend("mean", 0.5), Ledger().spend("mean", 0.5) + several):  # in any order
        found = spent.guarantee(partition(asked, 25, 40))
        assert found.rows == 3
        assert found.epsilon == pytest.approx(float(spent.epsilon)) == pytest.approx(3.5)
