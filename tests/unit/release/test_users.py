"""One-call jobs are about people: users choose the rows, and the promise to a person counts all of them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import semilocal as sl
from semilocal.errors import BudgetExceeded, InvalidInput

BOX = sl.Box((0, 0), (1, 1))
POINTS = np.random.default_rng(1).beta(2, 5, (3_000, 2))
USERS = np.arange(3_000) % 1_000  # three rows each
F = sl.functions.coordinate(0)
JOBS: dict[str, Callable[..., Any]] = {
    "counts": lambda **named: sl.counts(POINTS, BOX, trust="nobody", **named),
    "points": lambda **named: sl.points(POINTS, BOX, trust="nobody", **named),
    "mean": lambda **named: sl.mean(POINTS, F, BOX, trust="nobody", **named),
    "values": lambda **named: sl.values(POINTS, F, BOX, **named),
}


def job(name: str, **named: Any) -> Any:
    return JOBS[name](**({"epsilon": 4.0, "delta": 0.01, "k": 20, "rng": np.random.default_rng(2)} | named))


@pytest.mark.parametrize("name", JOBS)
def test_one_row_of_each_person_takes_part(name: str) -> None:
    result = job(name, users=USERS)
    assert int(result.partition.crowds.sum()) == 1_000
    assert float(result.spent.epsilon) == pytest.approx(4.0)
    assert result.guarantee.rows == 1
    assert result.counted == "1,000 people, one row each of 3,000"


def test_of_how_many_rows_is_shown_and_not_saved(tmp_path: Path) -> None:
    """The number of rows is in no transcript. Planted bug: it is a field that is saved."""
    counts = job("counts", users=USERS)
    assert "of 1,000 people, one row each of 3,000" in str(counts.query([0, 0, 1, 1]))
    assert "<b>1,000 people, one row each of 3,000</b>" in counts._repr_html_()
    assert "3,000" not in counts._repr_html_().partition("<iframe")[2], "the map may be passed on"
    counts.save(tmp_path / "map.json")
    assert "of_rows" not in (tmp_path / "map.json").read_text(encoding="utf-8")
    assert sl.load(tmp_path / "map.json").counted == "1,000 people"


@pytest.mark.parametrize("name", JOBS)
def test_with_several_rows_the_promise_to_a_person_counts_them_all(name: str) -> None:
    one, two = job(name, users=USERS), job(name, users=USERS, rows_per_user=2)
    assert int(two.partition.crowds.sum()) == 2_000
    assert float(two.spent.epsilon) == pytest.approx(8.0)
    assert two.guarantee.rows == 2
    assert two.guarantee.epsilon == pytest.approx(2 * one.guarantee.epsilon)
    assert two.guarantee.delta == pytest.approx(2 * one.guarantee.delta)
    assert "rows" in two.guarantee.explain()
    assert two.spent.rows == 2


def test_the_cap_is_for_the_person() -> None:
    worst = float(sl.Ledger.of(job("counts").partition.task).epsilon)
    assert job("counts", users=USERS, rows_per_user=2, cap=2.01 * worst).spent.cap == pytest.approx(
        Fraction(2.01 * worst)
    )
    with pytest.raises(BudgetExceeded):
        job("counts", users=USERS, rows_per_user=2, cap=1.99 * worst)


def test_what_a_mask_hides_is_not_counted() -> None:
    hidden = np.zeros(len(POINTS), dtype=bool)
    hidden[7] = True
    with pytest.raises(InvalidInput, match="points must be an array of numbers: some of them are masked"):
        sl.counts(np.ma.array(POINTS, mask=np.column_stack([hidden, hidden])), BOX, epsilon=1.0, trust="curator")
    assert sl.counts(np.ma.array(POINTS, mask=False), BOX, epsilon=1.0, trust="curator").participants == 3_000
    with pytest.raises(InvalidInput, match="value: some values are masked"):
        sl.mean(POINTS, BOX, value=np.ma.array(USERS, mask=hidden), range=(0, 999), epsilon=1.0, trust="curator")
    for users in (np.ma.array(USERS, mask=hidden), np.where(hidden, np.datetime64("NaT", "s"), USERS.astype("M8[s]"))):
        with pytest.raises(InvalidInput, match="users must not be NaN or masked"):
            job("counts", users=users)


@pytest.mark.parametrize("trust", ["nobody", "curator"])
def test_rows_per_user_is_a_whole_number_under_its_own_name(trust: Any) -> None:
    def count(rows: Any) -> float:
        return float(sl.counts(POINTS, BOX, epsilon=1.0, trust=trust, users=USERS, rows_per_user=rows).total)

    assert count(np.int64(2)) == 2_000
    for rows in ("2", None, 0, 2.0, True):
        with pytest.raises(InvalidInput, match="rows_per_user must be an integer from 1 to 1000"):
            count(rows)


@pytest.mark.parametrize("points", [POINTS, POINTS.tolist()])
def test_a_message_shows_no_position_where_arguments_are_mixed_up(points: Any) -> None:
    place, box, seven = str(POINTS[0, 0])[:6], cast(Any, BOX), cast(Any, 7)
    calls: list[Callable[..., Any]] = [
        lambda **named: sl.counts(box, points, **named),
        lambda **named: sl.points(box, points, **named),
        lambda **named: sl.mean(box, F, points, **named),
        lambda **named: sl.counts(POINTS, BOX, rng=points, **named),
        lambda **named: sl.counts(POINTS, BOX, k=points, **named),
    ]
    for call in calls:
        with pytest.raises(InvalidInput) as refused:
            call(epsilon=1.0, trust="nobody")
        assert place not in str(refused.value)
    with pytest.raises(InvalidInput, match=r"rng must be a numpy.random.Generator; got 7"):
        sl.counts(POINTS, BOX, epsilon=1.0, trust="curator", rng=seven)


@pytest.mark.parametrize("trust", ["nobody", "curator"])
def test_settings_may_be_numbers_of_numpy(trust: Any) -> None:
    settings: dict[str, Any] = {"epsilon": np.int64(2), "cap": np.float32(100)}
    if trust == "nobody":
        settings |= {"k": np.int64(20), "delta": np.float32(0.125)}
    found = sl.counts(POINTS, BOX, trust=trust, **settings)
    assert found.spent.epsilon == 2
