"""The ledger adds up exactly, refuses to overspend, and never shows only the smaller number."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.accounting import Entry, Ledger
from semilocal.arrays import exact
from semilocal.errors import BudgetExceeded, InvalidInput
from semilocal.protocol.plan import Plan
from semilocal.service.results import campaign_promise

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


def test_a_run_costs_one_report_inside_and_one_more_per_trim_for_the_moved() -> None:
    ledger = Ledger.of(task())
    assert ledger.epsilon == Fraction(1, 10)
    assert ledger.epsilon_worst == Fraction(3, 10)
    assert ledger.delta == exact(task().delta)


def test_a_run_settles_the_trims_that_its_paths_had_which_are_public() -> None:
    rng = np.random.default_rng(1)
    points = np.concatenate([rng.random((2_000, 1)) * 0.2, [[0.9]]])  # one far away: some paths have a TRIM
    run = sl.simulate(points, task(epsilon=1.0), rng=rng)
    most = int(run.partition.path_trims.max())
    assert most in (1, 2)
    other = task(epsilon=0.5)
    ledger = Ledger.of(run.task).spend("mean", 0.2).partition(other).settle(run.partition)
    assert [entry.trims for entry in ledger.entries] == [most, 0, other.max_trims]
    assert ledger.entries[0].worst == 1 + most
    with pytest.raises(InvalidInput, match="one partition"):
        ledger.guarantee(run.partition)
    said = Ledger.of(run.task).spend("mean", 0.2).guarantee(run.partition)
    assert said.epsilon == pytest.approx(1.2)
    assert said.moved == pytest.approx(1.2 + most)
    assert f"at most {most} in this run" in said.text()
    # one person in the sparse part or not: the promise is a function of the transcript, not of who was moved
    assert "0.9" not in said.text()


def test_values_without_a_partition_are_local_privacy_over_the_whole_domain() -> None:
    rng = np.random.default_rng(1)
    result = sl.mean(
        rng.random((50, 1)), sl.functions.coordinate(0), UNIT, epsilon=1.0, trust="nobody", delta=1e-6, k=20, rng=rng
    )
    said = result.spent.guarantee(result.partition)
    assert said.adjacency == "anywhere"
    assert said.anywhere == said.epsilon == 1.0


def test_where_people_dropped_out_the_smallest_crowd_is_the_one_that_is_told() -> None:
    rng = np.random.default_rng(1)
    points = rng.random((20_000, 2))
    dropping = sl.Task.build(sl.Box((0, 0), (1, 1)), epsilon=2.0, delta=1e-6, k=50)
    run = sl.simulate(points, dropping, rng=rng, dropout=0.5)
    smallest = int(run.partition.crowds.min())
    assert 0 < smallest < 50
    counted = sl.release.counts(run)
    for words in (
        counted.guarantee.sentence(), counted.guarantee.text(), counted.spent.sentences(),
        campaign_promise(run.partition, Plan(dropping.id, ())).sentence(),
    ):  # fmt: skip
        assert f"k = {smallest} participants are published in a region ({smallest - 1} others)" in words


def test_a_ledger_that_does_not_hold_the_run_is_refused() -> None:
    """Regions that are public would be released as "epsilon = 0 anywhere"."""
    rng = np.random.default_rng(1)
    points = rng.random((2_000, 1))
    run, x = sl.simulate(points, task(epsilon=1.0), rng=rng), sl.functions.coordinate(0)
    small = sl.simulate(points, task(epsilon=1.0, k=1_500), rng=rng)
    assert len(small.partition) == 1
    for ledger in (Ledger(), Ledger().spend("other", 0.5), Ledger.of(task(epsilon=0.5))):
        for refused in (
            lambda ledger=ledger: sl.release.counts(run, ledger=ledger),
            lambda ledger=ledger: sl.release.counts(small, ledger=ledger),  # everybody answered once, for nothing
            lambda ledger=ledger: sl.release.quantize(run, points, ledger=ledger),
            lambda ledger=ledger: sl.release.mean(run, points, x, epsilon=1.0, rng=rng, ledger=ledger),
        ):
            with pytest.raises(InvalidInput, match=r"does not hold the run.*ledger\.partition\(task\)"):
                refused()
    with pytest.raises(InvalidInput, match="does not hold the run"):
        Ledger().guarantee(run.partition)


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
    assert with_map.sentences().count("with any two values of fare from 0 to 2") == 2  # inside, and moved


def test_buckets_that_a_person_named_tell_positions_apart() -> None:
    bucket = Ledger().spend("counts", 0.5, bucket=True)
    two = (bucket + bucket).spend("mean", 1, anywhere=True).sentences()
    assert two == (
        "epsilon = 2 (delta = 0) between any two positions of one person inside all public buckets that they named; of "
        "this, epsilon = 1 (delta = 0) between any two positions of one person anywhere in the domain."
    )
    with_regions = (Ledger.of(task()) + bucket).sentences()
    assert with_regions.count("and inside the public bucket that they named") == 2  # inside, and moved


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
    assert second.spent.epsilon_worst == Fraction(17, 10) + int(run.partition.path_trims.max())
    assert len(second.spent.entries) == 3
    assert first.spent.epsilon == Fraction(13, 10)  # a ledger is a value: the first one has not changed


def test_settling_a_second_run_of_a_task_keeps_what_the_first_one_cost() -> None:
    rng, asked = np.random.default_rng(1), task(epsilon=1.0)
    run, other = (sl.simulate(points, asked, rng=rng) for points in (np.full((500, 1), 0.1), rng.random((500, 1))))
    most, fewer = (int(found.partition.path_trims.max()) for found in (run, other))
    assert most > fewer
    both = Ledger.of(asked).settle(run.partition).partition(asked).settle(other.partition)
    assert [entry.trims for entry in both.entries] == [most, fewer]


def test_a_second_run_on_the_same_people_adds_losses_but_not_crowds() -> None:
    second = task(epsilon=0.5, delta=2e-6, max_trims=1)
    total = Ledger.of(task()).spend("mean", 0.2).partition(second)
    assert total.epsilon == Fraction(8, 10)
    assert total.epsilon_worst == Fraction(3, 10) + Fraction(2, 10) + Fraction(10, 10)
    # two crowds of k say nothing about how many share both regions: a sum of deltas would claim that they do
    assert total.delta == max(exact(task().delta), exact(second.delta))
    assert "Crowds do not compose" in total.sentences()
    assert "compose" not in Ledger.of(task()).sentences()
    assert Ledger.of(task()) + Ledger().spend("mean", 0.2) == Ledger.of(task()).spend("mean", 0.2)


def test_several_runs_promise_nothing_for_positions_inside_only_one_of_the_regions() -> None:
    for second in (task(epsilon=0.5), task()):  # the same task again makes another partition
        words = Ledger.of(task()).partition(second).sentences()
        assert "between any two positions inside all regions that were published for a participant" in words
        assert "for a position that was moved, against any position inside all of these regions" in words
        assert "inside a participant's published region" not in words


def test_a_rule_without_a_crowd_has_delta_one() -> None:
    assert Ledger.of(task(rule="each", max_trims=0)).delta == 1


def test_the_cap_holds_for_the_larger_loss() -> None:
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


def test_table_and_sentences_show_both_losses_adjacencies_and_deltas() -> None:
    ledger = Ledger.of(task(), cap=2).spend("mean of x", 0.25)
    lines, words = str(ledger).splitlines(), ledger.sentences()
    for heading in ("spent on", "epsilon inside", "epsilon moved", "delta (crowd)"):
        assert heading in lines[0]
    total = next(line for line in lines if line.startswith("total"))
    assert total.split() == ["total", "0.35", "0.55"]
    assert lines[-1] == words
    assert "epsilon = 0.35 (delta = 0) between any two positions inside a participant's published region" in words
    assert "at most 0.55 (delta = 0) for a moved position against any position inside" in words
    delta = task().delta
    assert (
        f"k = 20 participants are published in a region (19 others), except with probability delta = {delta:g}" in words
    )
    for part in ("cap is 2", "1.45 is left"):
        assert part in words
    assert "moved" not in Ledger.of(task(rule="all", max_trims=0)).sentences()


def test_an_entry_knows_its_own_bounds() -> None:
    assert Entry("run", Fraction(1), Fraction(1, 2), 4).worst == 3


def test_a_person_with_several_rows_loses_and_risks_that_many_times_as_much() -> None:
    one = Ledger.of(task(), cap=exact(0.3)).times(1)
    several = one.times(3)
    assert (several.epsilon, several.epsilon_worst) == (3 * one.epsilon, 3 * one.epsilon_worst)
    assert several.epsilon_worst == 9 * exact(0.1)  # a report and two TRIMs, three times
    assert (several.delta, several.rows) == (3 * exact(1e-6), 3)
    assert one.times(10**7).delta == 1, "a chance is at most 1"
