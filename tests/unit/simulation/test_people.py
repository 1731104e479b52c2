"""Rows are drawn so that no person counts more often than the promise says; columns that name people are recognised."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import semilocal as sl
from semilocal import draw_rows
from semilocal.arrays import Integers
from semilocal.errors import InvalidInput
from semilocal.simulation.people import COMMAND, check_rows_are_people, count_filled, person_columns
from semilocal.testing import unit_box
from tests.helpers.commands import UNIT, refused, write_people

PEOPLE = 6_000


def owners() -> Integers:
    """Person i has 1, 2 or 3 rows, scattered over the file."""
    users = np.repeat(np.arange(PEOPLE), 1 + np.arange(PEOPLE) % 3)
    return np.random.default_rng(1).permutation(users)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_everybody_has_at_most_so_many_rows_and_at_least_one(rows: int) -> None:
    users = owners()
    drawn = draw_rows(users, rows_per_user=rows, rng=np.random.default_rng(2))
    assert (np.diff(drawn) > 0).all()
    kept = np.bincount(users[drawn], minlength=PEOPLE)
    assert kept.tolist() == np.minimum(np.bincount(users), rows).tolist()


@pytest.mark.parametrize("rows", [3, 17, 100])
def test_each_of_many_rows_is_as_likely_whatever_the_key(rows: int) -> None:
    """Chi-square over 60 keys and 100 people; false alarm 1e-7."""
    users = np.repeat(np.arange(100), rows)
    found = np.zeros(rows)
    for seed in range(60):
        found += np.bincount(draw_rows(users, rng=np.random.default_rng([seed, rows])) % rows, minlength=rows)
    always_the_first = np.where(np.arange(rows) == 0, 6000, 0)  # a planted bug
    for counts, fair in ((found, True), (always_the_first, False)):
        assert (np.sum((counts - 6000 / rows) ** 2) * rows / 6000 < chi2.isf(1e-7, rows - 1)) == fair


def test_names_are_people_too_and_a_generator_repeats() -> None:
    users = ["ann", "bob", "ann", "cid", "bob"]
    one, two = (draw_rows(users, rng=np.random.default_rng(5)).tolist() for _ in range(2))
    assert one == two
    assert len(one) == 3


@pytest.mark.parametrize(
    ("users", "options", "words"),
    [
        ([1, 2], {"rows": 3}, "users must be 3, one per row"),
        ([[1, 2]], {}, "one per row"),
        ([1.0, math.nan], {}, "NaN"),
        ([1, 2], {"rows_per_user": 0}, "from 1 to 1000"),
        ([1, 2], {"rows_per_user": 1.5}, "must be an integer"),
        ([1, 2], {"rows_per_user": "2"}, "must be an integer"),
    ],
)
def test_wrong_users_are_refused(users: object, options: dict[str, int], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        draw_rows(users, rng=np.random.default_rng(1), **options)  # type: ignore[arg-type]


# -- columns that name people ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["user", "User", "uid", "user_id", "userId", "USER ID", "device", "device-id", "taxi", "TAXI_ID", "id", "person",
     "driver_no", "customer", "member_hash", "imei", "phone_number", "phone", "phone_id", "vehicle id", "participant",
     "uuid", "ad_id", "advertiser_id", "MAID", "idfa", "android id", "hashed_id", "mmsi", "email", "e-mail",
     "ip_address", "MAC address", "passengerId", "household_id",
     "user_uuid", "deviceUID", "hashed_device_id", "anon_user_id", "participant code", "GAID", "pseudonym"],
)  # fmt: skip
def test_columns_that_name_people_are_recognised(name: str) -> None:
    assert person_columns(["lon", name, "lat"]) == [name]


@pytest.mark.parametrize("name", ["lon", "lat", "time", "speed", "idle", "grid", "trip", "area", "usage", "width",
    "passengers", "households", "residents", "trucks", "android", "aid", "fluid", "paid", "zip", "ship", "n_users",
    "fluid_id", "area_code", "phone_code", "phoneCode"])  # fmt: skip
def test_other_columns_are_not(name: str) -> None:
    assert person_columns([name]) == []


def check(**labels: list[int]) -> None:
    check_rows_are_people("f.csv", {name: count_filled(np.array(codes)) for name, codes in labels.items()}, COMMAND)


@pytest.mark.parametrize("trust", ["nobody", "curator", "two-servers"])
def test_the_refusal_says_what_several_rows_cost_with_this_trust(
    trust: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where somebody is trusted there are no crowds, and the noise grows in place of the loss."""
    names = [0, 1, 1]
    path = write_people(tmp_path / "people.csv", np.full((3, 2), 0.5), user=names)
    told = refused(capsys, "partition", path, *UNIT, "--trust", trust, "--epsilon", "1")
    frame = pytest.importorskip("pandas").DataFrame({"x0": [0.5] * 3, "x1": [0.5] * 3, "user": names})
    with pytest.raises(InvalidInput) as error:
        sl.counts(frame, unit_box(2), epsilon=1.0, trust=trust)
    for words, option in ((told, "--rows-per-user M"), (str(error.value), "rows_per_user=M")):
        nobody = trust == "nobody"
        assert f"{option} with a promise M times weaker" in words if nobody else f"{option} and M times" in words
        assert ("crowd" in words) == nobody


def test_repeats_are_refused_and_nobody_is_no_person() -> None:
    check(id=[1, 2, 3], user=[-1, -1, 4])
    with pytest.raises(InvalidInput, match=r"'user'.*lose epsilon for each.*--user.*--rows-are-people"):
        check(id=[1, 2, 3], user=[1, 2, 1])
