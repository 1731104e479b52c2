"""Means of people's own values: every mode of trust, one range for all, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal import release
from semilocal.errors import InvalidInput
from semilocal.hierarchy.tables import from_labels
from semilocal.pooled import PooledTask
from semilocal.pooled.values import add_up, shared_grid, sum_rate
from semilocal.release.means import cell_means, pooled_mean

BOX = sl.Box((0, 0), (1, 1))
RNG = np.random.default_rng(11)
POINTS = RNG.beta(2, 5, (20_000, 2))
FARE = RNG.gamma(4.0, 5.0, 20_000).clip(0, 100)
TRUSTS = ("curator", "two-servers", "nobody")


def fare_mean(trust: Any, **changes: Any) -> Any:
    options: dict[str, Any] = {"value": FARE, "range": (0, 100), "epsilon": 2.0, "rng": np.random.default_rng(3)}
    return sl.mean(POINTS, BOX, trust=trust, **(options | changes))


@pytest.mark.parametrize("trust", TRUSTS)
def test_the_mean_of_a_column_is_the_people_s_mean(trust: str) -> None:
    """Six standard errors: 2e-9. Values of people's own are not clipped."""
    found = fare_mean(trust)
    assert abs(found.value - FARE.mean()) < 6 * found.stderr
    low, high = found.interval(0.999999)
    assert 0 <= low <= found.value <= high <= 100
    assert found.stderr < 2.0


@pytest.mark.parametrize("trust", TRUSTS)
def test_the_promise_names_the_value_and_its_range(trust: str) -> None:
    promise = fare_mean(trust).guarantee
    assert "with any two values of value from 0 to 100" in promise.sentence()
    assert "own value" in promise.explain()
    assert sl.mean(POINTS, sl.functions.coordinate(0), BOX, epsilon=2.0, trust=trust).guarantee.own == ""  # type: ignore[arg-type]


def test_the_error_of_two_servers_is_that_of_two_noises() -> None:
    """Also with the coarser grid of devices: rounding adds 1 % of the noise here."""
    noise = np.sqrt(2.0) * 100 / (20_000 * 2.0)
    assert fare_mean("curator").stderr == pytest.approx(noise, rel=1e-3)
    assert fare_mean("two-servers").stderr == pytest.approx(np.sqrt(2.0) * noise, rel=1e-2)


def fare_per_cell(trust: Any) -> Any:
    return sl.cell_means(
        POINTS, BOX, value=FARE, range=(0, 100), epsilon=4.0, trust=trust, max_depth=4, rng=np.random.default_rng(5)
    )


@pytest.mark.parametrize("trust", ["curator", "two-servers"])
def test_means_of_a_column_per_cell_hold_the_truth(trust: str) -> None:
    """Six standard errors for every cell with people: 2e-9 each."""
    found = fare_per_cell(trust)
    cells = found.partition.locate(POINTS)
    number = np.bincount(cells, minlength=len(found.partition))
    sums = np.bincount(cells, FARE, minlength=len(found.partition))
    some = (number >= 200) & (found.partition.crowds >= 200)
    assert some.sum() >= 5
    assert (np.abs(found.value - sums / np.maximum(number, 1))[some] <= 6 * found.stderr[some]).all()
    assert "with any two values of value" in found.guarantee.sentence()


def test_moved_people_keep_their_values_so_that_means_of_public_regions_add_up_to_the_mean() -> None:
    """Six standard errors: 2e-9."""
    found = fare_per_cell("nobody")
    crowds = found.partition.crowds
    assert len(crowds) >= 5
    error = np.sqrt(np.nansum((crowds * found.stderr) ** 2)) / crowds.sum()
    assert abs(np.nansum(crowds * found.value) / crowds.sum() - FARE.mean()) < 6 * error
    assert "with any two values of value" in found.guarantee.sentence()


@pytest.mark.parametrize("trust", TRUSTS)
def test_users_keep_their_own_values(trust: str) -> None:
    """One person with half of all rows, all at the top of the range, counts once."""
    users = np.arange(20_000)
    users[:10_000] = 0
    values = np.where(users == 0, 100.0, 10.0)
    found = fare_mean(trust, value=values, users=users)
    assert found.participants == 10_001
    assert abs(found.value - (100 + 10 * 10_000) / 10_001) < 6 * found.stderr


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value": np.where(np.arange(20_000) == 17, 100.5, FARE)}, "value: 1 of 20,000 .* first in row 17;"),
        ({"value": np.where(np.arange(20_000) == 9, np.nan, FARE)}, "missing or outside .* row 9;"),
        ({"value": FARE[:-1]}, "19999 values; got 20000 points"),
        ({"value": FARE[:-1], "users": np.arange(20_000)}, "19999 values; got 20000 points"),
        ({"value": FARE.astype(str)}, "must be numbers, one per row"),
        ({"range": None}, "needs its public range"),
        ({"range": (100, 0)}, "smallest first"),
        ({"range": (0, float("inf"))}, "finite"),
        ({"range": 5}, "two numbers"),
        ({"value": None}, "range belongs to value"),
    ],
)
def test_bad_columns_are_refused_with_the_row(trust: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        fare_mean(trust, **changes)
    assert "100.5" not in str(caught.value)  # somebody's value


def test_a_function_and_a_value_are_not_given_together() -> None:
    with pytest.raises(InvalidInput, match="not both"):
        sl.mean(POINTS, sl.functions.coordinate(0), BOX, value=FARE, range=(0, 100), epsilon=1.0, trust="curator")
    with pytest.raises(InvalidInput, match="the box with value and range"):
        sl.mean(POINTS, BOX, epsilon=1.0, trust="curator")


def test_the_name_of_a_series_is_the_name_of_the_value() -> None:
    pandas = pytest.importorskip("pandas")
    found = fare_mean("curator", value=pandas.Series(FARE, name="fare"))
    assert found.own == "fare from 0 to 100"


def largest_loss(halved: int = 1) -> float:
    """Over all pairs of a cell and a value: noise of the rate r makes a change by c cost exactly r c."""
    epsilon, reports = Fraction(3), 2
    grid = shared_grid(np.array([[0.0, 1.0], [0.0, 0.3], [0.5, 0.5]]), 0.0, 1.0, bits=3)
    rates = [float(halved * sum_rate(epsilon, width, reports)) for width in grid.widths.tolist()]
    places = [(cell, y) for cell in range(3) for y in range(grid.limits[cell, 0], grid.limits[cell, 1] + 1)]
    sums = {place: add_up(np.full(reports, place[1]), np.full(reports, place[0]), grid) for place in places}
    return float(max(np.abs(sums[a] - sums[b]) @ rates for a, b in product(places, places)))


def test_the_loss_of_sums_on_one_grid_is_epsilon_for_any_change_of_place_and_value() -> None:
    """Cells with ranges of different width. Planted: noise of half the size."""
    assert largest_loss() == pytest.approx(3.0, rel=1e-12)
    assert largest_loss(2) == pytest.approx(6.0, rel=1e-12)


TREE = from_labels("ICD", [("heart", "I21"), ("heart", "I25"), ("lung", "J18"), ("lung", "J44")])
PEOPLE = np.repeat(list(TREE.leaves.values()), 500)[:, None]
NUMBER = sl.functions.coordinate(0)
SHARE = sl.functions.indicator(TREE.box)
REFUSED = "positions are labels of 'ICD', which have no coordinates; ask for counts, or for the mean of a value"
CALLS: dict[str, Any] = {"mean": sl.mean, "cell_means": sl.cell_means}


@pytest.mark.parametrize("f", [NUMBER, SHARE])
@pytest.mark.parametrize("trust", ["nobody", "two-servers", "curator"])
@pytest.mark.parametrize("call", CALLS)
def test_labels_have_no_mean(call: str, trust: str, f: Any) -> None:
    with pytest.raises(InvalidInput, match=REFUSED):
        CALLS[call](PEOPLE, f, hierarchy=TREE, epsilon=1.0, trust=trust)


def test_labels_have_no_values() -> None:
    with pytest.raises(InvalidInput, match=REFUSED):
        sl.values(PEOPLE, NUMBER, hierarchy=TREE, epsilon=1.0)


def test_every_release_refuses_a_function_of_labels_by_itself() -> None:
    rng = np.random.default_rng(1)
    run = sl.simulate(PEOPLE, sl.Task.build(hierarchy=TREE, epsilon=1.0, delta=0.01, k=20), rng=rng)
    task = PooledTask.build(hierarchy=TREE, epsilon=1.0, trust="curator")
    counted = sl.counts(PEOPLE, hierarchy=TREE, epsilon=1.0, trust="curator")
    for refused in (
        lambda: release.mean(run, PEOPLE, NUMBER, epsilon=1.0, rng=rng),
        lambda: release.values(run, PEOPLE, NUMBER, epsilon=1.0, rng=rng),
        lambda: pooled_mean(task, PEOPLE, NUMBER),
        lambda: cell_means(counted, PEOPLE, NUMBER, epsilon=1.0),
    ):
        with pytest.raises(InvalidInput, match=REFUSED):
            refused()


@pytest.mark.parametrize("trust", ["nobody", "two-servers", "curator"])
def test_values_of_people_with_labels_have_a_mean(trust: Any) -> None:
    ages = np.tile([20.0, 60.0], len(PEOPLE) // 2)
    found = sl.mean(PEOPLE, None, hierarchy=TREE, value=ages, range=(0, 100), epsilon=4.0, trust=trust)
    assert abs(found.value - 40) < 7 * found.stderr  # 1e-11
