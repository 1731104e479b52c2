"""Columns that name people are recognised, and repeats are refused with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.errors import InvalidInput
from semilocal.simulation.people import COMMAND, check_rows_are_people, count_filled, person_columns
from semilocal.testing import unit_box
from tests.helpers.commands import UNIT, refused, write_people


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
