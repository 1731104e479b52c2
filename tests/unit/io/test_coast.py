"""Coastlines: inside the domain, without jumps, from our data or from a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from semilocal.errors import InvalidInput
from semilocal.geometry.box import Box
from semilocal.geometry.places import named_box
from semilocal.io.plots import coast, lines_json, read_basemap
from semilocal.testing import unit_box


def test_the_coast_of_a_place_is_near_it_and_passes_a_known_point() -> None:
    box = named_box("california")
    lines = coast(box)
    points = np.concatenate(lines)
    assert np.abs(points - [-122.5, 37.8]).sum(axis=1).min() < 0.3  # the Golden Gate
    assert points[:, 0].min() > -127
    assert sum(map(len, lines)) < 1000


def test_no_line_crosses_the_date_line() -> None:
    assert max(np.abs(np.diff(line[:, 0])).max() for line in coast(named_box("world"))) < 180


def test_data_that_is_not_on_the_globe_has_no_coast() -> None:
    assert coast(unit_box()) == []


def test_a_file_takes_the_place_of_the_coast(tmp_path: Path) -> None:
    path = tmp_path / "map.geojson"
    ring = [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.1]]
    far = {"type": "Feature", "geometry": {"type": "LineString", "coordinates": [[5, 5], [6, 6]]}}
    near = {"type": "Feature", "geometry": {"type": "MultiPolygon", "coordinates": [[ring]]}}
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [far, near]}))
    assert [line.tolist() for line in coast(unit_box(), path)] == [ring]
    assert lines_json(coast(unit_box(), path), unit_box())[0][:2] == [0.1, 0.1]


def test_lines_of_a_file_may_be_long_where_axes_are_no_degrees(tmp_path: Path) -> None:
    path = tmp_path / "floor.geojson"
    path.write_text(json.dumps({"type": "LineString", "coordinates": [[0, 5], [1000, 5]]}))
    assert [line.tolist() for line in coast(Box((0, 0), (1000, 10)), path)] == [[[0, 5], [1000, 5]]]
    assert coast(unit_box(3), path) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"type": "Point", "coordinates": [0, 0]}',
        '{"type": "LineString", "coordinates": 3}',
        '{"type": "LineString", "coordinates": [[0, 1], [NaN, 2]]}',
    ],
)
def test_a_file_without_lines_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.geojson"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"bad\.geojson"):
        read_basemap(path)
