"""Columns that name people are recognised, and repeats are refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal.errors import InvalidInput
from semilocal.simulation.person_columns import COMMAND, check_rows_are_people, count_filled, person_columns


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


def test_repeats_are_refused_and_nobody_is_no_person() -> None:
    check(id=[1, 2, 3], user=[-1, -1, 4])
    with pytest.raises(InvalidInput, match=r"'user'.*lose epsilon for each.*--user.*--rows-are-people"):
        check(id=[1, 2, 3], user=[1, 2, 1])
