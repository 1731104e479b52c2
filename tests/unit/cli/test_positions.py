"""Numbers of a position go to the right axes, and the owner is told which."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from semilocal import Box
from semilocal.cli.positions import describe, parse_position, points_for
from semilocal.errors import InvalidInput, OutsideDomain

LON_LAT = Box((-123, 37), (-121, 38), names=("longitude", "latitude"))
LAT_LON = Box((37, -123), (38, -121), names=("lat", "lon"))
PLAIN = Box((0, 10), (1, 11), names=("x", "y"))
LINE = Box((0,), (1,), names=("height",))


@pytest.mark.parametrize(
    ("text", "box", "expected"),
    [
        ("37.77,-122.42", LON_LAT, (-122.42, 37.77)),
        ("37.77, -122.42", LAT_LON, (37.77, -122.42)),
        ("longitude=-122.42,latitude=37.77", LON_LAT, (-122.42, 37.77)),
        ("latitude=37.77, longitude=-122.42", LON_LAT, (-122.42, 37.77)),
        ("0.5,10.5", PLAIN, (0.5, 10.5)),
        ("y=10.5,x=0.5", PLAIN, (0.5, 10.5)),
        ("0.25", LINE, (0.25,)),
    ],
)
def test_numbers_go_to_the_axes_that_people_mean(text: str, box: Box, expected: tuple[float, ...]) -> None:
    assert parse_position(text, box) == expected


@pytest.mark.parametrize("text", ["", "1", "1,2,3", "a,b", "x=0.5,z=10.5", "x=0.5,x=0.6", "x=0.5,10.5", "0.5;10.5"])
def test_positions_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="position must"):
        parse_position(text, PLAIN)


@pytest.mark.parametrize(("text", "box"), [("-122.42,37.77", LON_LAT), ("nan,0", LON_LAT), ("10.5,0.5", PLAIN)])
def test_a_position_outside_says_which_axis_got_which_number(text: str, box: Box) -> None:
    with pytest.raises(OutsideDomain, match=rf"{box.names[0]} = .*{box.names[1]} = .*name them: --position"):
        parse_position(text, box)


def test_what_was_understood_is_said() -> None:
    assert describe((-122.42, 37.77), LON_LAT) == "longitude = -122.42, latitude = 37.77"


def test_points_of_a_file_come_in_the_order_of_the_axes(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("lat,lon\n37.5,-122\n37.25,-121.5\n39,-122\n")
    expected = np.array([[-122, 37.5], [-121.5, 37.25]])
    with pytest.raises(OutsideDomain, match="1 of 3"):
        points_for(str(path), LON_LAT)
    points, said = points_for(str(path), LON_LAT, drop_outside=True)
    assert points.tolist() == expected.tolist()
    assert "1 outside the domain were dropped" in said
    swapped, _ = points_for(str(path), LAT_LON, drop_outside=True)
    assert swapped.tolist() == expected[:, ::-1].tolist()
    by_usual_names, _ = points_for(str(path), Box((-123, 37), (-121, 38)), drop_outside=True)
    assert by_usual_names.tolist() == expected.tolist()
    with pytest.raises(InvalidInput, match="height"):
        points_for(str(path), LINE)
