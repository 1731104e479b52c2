"""Queries keep what they are called; grids are even; boxes outside the domain are counted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from semilocal import Box
from semilocal.errors import InvalidInput
from semilocal.io.queries import Queries, grid_queries, read_queries

BOX = Box((0, 0), (1, 2), names=("x", "y"))


def test_other_columns_of_a_csv_come_back_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text('district,x0,y0,x1,y1,code\n"Old, town",0,0,1,1,007\nHarbour,0,1,1,2,\n')
    queries = read_queries(path, BOX)
    assert queries.boxes.tolist() == [[[0, 0], [1, 1]], [[0, 1], [1, 2]]]
    assert queries.properties == {"district": ["Old, town", "Harbour"], "code": ["007", ""]}


def test_properties_and_ids_of_features_come_back(tmp_path: Path) -> None:
    ring = [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]
    geometry = {"type": "Polygon", "coordinates": [ring]}
    features = [
        {"type": "Feature", "id": 7, "geometry": geometry, "properties": {"name": "park"}},
        {"type": "Feature", "geometry": geometry, "properties": None},
    ]
    path = tmp_path / "q.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    assert read_queries(path, BOX).properties == {"name": ["park", None], "id": [7, None]}


def test_boxes_outside_the_domain_are_counted() -> None:
    boxes = np.array([[[0, 0], [1, 1]], [[0.5, 0], [3, 1]], [[5, 5], [6, 6]], [[-1, -1], [2, 3]]], dtype=float)
    assert Queries(boxes).outside(BOX) == (2, 1)


def test_a_grid_covers_the_domain_once() -> None:
    cells = grid_queries("2x4", BOX).boxes
    assert len(cells) == 8
    assert np.prod(cells[:, 1] - cells[:, 0], axis=1).sum() == pytest.approx(2.0)
    assert cells[1].tolist() == [[0.0, 0.5], [0.5, 1.0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("8", "2 positive whole numbers such as 32x32"),
        ("0x4", "positive"),
        ("axb", "positive"),
        ("8x8x8", "positive"),
        ("100000x100000", "10,000,000,000 cells; at most 10,000,000"),
    ],
)
def test_bad_grids_are_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        grid_queries(text, BOX)
