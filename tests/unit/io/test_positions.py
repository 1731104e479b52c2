"""Positions that do not fit: the likely mistake is named, nobody's position is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semilocal import Box
from semilocal.arrays import Floats
from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.geometry.places import named_box
from semilocal.io.points import fit, read_for_box, read_points

CITY = named_box("california")
LON_LAT = Box((-123, 37), (-121, 38), names=("longitude", "latitude"))


def lon_lat(count: int = 500) -> Floats:
    rng = np.random.default_rng(1)
    return np.column_stack([rng.uniform(-124, -115, count), rng.uniform(33, 42, count)])


def file_of(tmp_path: Path, points: Floats) -> Path:
    path = tmp_path / "people.csv"
    path.write_text("lon,lat\n" + "".join(f"{x!r},{y!r}\n" for x, y in points.tolist()))
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda points: points[:, ::-1], "axes look swapped"),
        (lambda points: points * 111_000.0, "look like metres"),
        (lambda points: points + np.array([30, 0]), "take a larger public box"),
    ],
)
@pytest.mark.parametrize("clip", [False, True])
def test_swapped_axes_and_metres_are_named(tmp_path: Path, change: Any, words: str, clip: bool) -> None:
    points = change(lon_lat())
    with pytest.raises(OutsideDomain) as caught:
        fit(read_points(file_of(tmp_path, points)), CITY, clip=clip)
    text = str(caught.value)
    assert words in text.replace("Take", "take")
    assert "in line 2" in text
    assert clip or "--clip" not in text  # more than a tenth: it would be refused, too
    for number in points[0]:
        assert f"{number:.4f}"[:7] not in text


def test_clip_moves_at_most_a_tenth(tmp_path: Path) -> None:
    points = lon_lat()
    points[:50, 1] = 45.0
    clipped = fit(read_points(file_of(tmp_path, points)), CITY, clip=True)
    assert np.count_nonzero((clipped != points).any(axis=1)) == 50
    assert CITY.inside(clipped).all()
    points[:51, 1] = 45.0
    with pytest.raises(OutsideDomain, match="at most a tenth"):
        fit(read_points(file_of(tmp_path, points)), CITY, clip=True)


def test_points_of_a_file_come_in_the_order_of_the_axes(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("lat,lon\n37.5,-122\n37.25,-121.5\n39,-122\n")
    expected: list[list[float]] = [[-122, 37.5], [-121.5, 37.25], [-122, 39]]
    assert read_for_box(path, LON_LAT).points.tolist() == expected
    swapped = Box((37, -123), (38, -121), names=("lat", "lon"))
    assert read_for_box(path, swapped).points.tolist() == [point[::-1] for point in expected]
    latitude_first = Box((37, -123), (38, -121), names=("latitude", "longitude"))
    table = read_for_box(path, latitude_first)
    assert table.points.tolist() == [point[::-1] for point in expected]
    assert table.names == ("lat", "lon")
    assert read_for_box(path, Box((-123, 37), (-121, 38))).points.tolist() == expected
    with pytest.raises(InvalidInput, match="height"):
        read_for_box(path, Box((0,), (1,), names=("height",)))
