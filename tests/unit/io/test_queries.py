"""Queries keep what they are called; grids are even."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from semilocal import Box
from semilocal.errors import InvalidInput
from semilocal.hierarchy.tables import from_labels
from semilocal.io.queries import grid_queries, read_queries

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


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_without_areas_is_refused_with_what_areas_are(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"areas.{kind}"
    if kind == "csv":
        path.write_text("name,x0,y0\nOld town,0,0\n")
    else:
        pytest.importorskip("pyarrow")
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table({"name": ["Old town"], "x0": [0.0], "y0": [0.0]}), path)
    words = "no column 'x1'.*boxes .columns x0, y0, x1, y1, or x_lower, .*polygons .*geojson"
    with pytest.raises(InvalidInput, match=words):
        read_queries(path, BOX)


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


DEGREES = Box((-10, 40), (10, 60), names=("lon", "lat"))
TRIANGLE = [[0, 50], [4, 50], [0, 54], [0, 50]]


def saved(path: Path, features: list[dict[str, object]], **more: object) -> Path:
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features, **more}))
    return path


def feature(ring: list[list[int]], **properties: object) -> dict[str, object]:
    geometry = {"type": "Polygon", "coordinates": [ring]}
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def test_polygons_of_a_geojson_file_come_with_names_and_boxes_around_them(tmp_path: Path) -> None:
    pytest.importorskip("shapely")
    queries = read_queries(saved(tmp_path / "q.geojson", [feature(TRIANGLE, name="a", people=3)]), DEGREES)
    assert queries.shapes is not None
    assert queries.areas is queries.shapes
    assert queries.boxes.tolist() == [[[0, 50], [4, 54]]]
    assert queries.properties == {"name": ["a"], "people": [3]}
    assert queries.geometries(DEGREES)[0]["type"] == "Polygon"
    turned = Box((40, -10), (60, 10), names=("lat", "lon"))
    assert read_queries(tmp_path / "q.geojson", turned).boxes.tolist() == [[[50, 0], [54, 4]]]


def test_rectangles_are_boxes_and_need_no_other_package(tmp_path: Path) -> None:
    ring = [[0, 50], [4, 50], [4, 54], [0, 54], [0, 50]]
    path = saved(tmp_path / "q.geojson", [feature(ring)])
    queries = read_queries(path, DEGREES)
    assert (queries.shapes, queries.boxes.tolist()) == (None, [[[0, 50], [4, 54]]])
    assert queries.geometries(DEGREES) == [{"type": "Polygon", "coordinates": [ring]}]
    turned = read_queries(path, Box((40, -10), (60, 10), names=("lat", "lon")))
    assert turned.boxes.tolist() == [[[50, 0], [54, 4]]]
    assert turned.geometries(Box((40, -10), (60, 10), names=("lat", "lon")))[0]["coordinates"] == [ring]


@pytest.mark.parametrize(
    ("features", "more", "words"),
    [
        ([feature([[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]])], {}, "polygon 0 is invalid"),
        ([feature(TRIANGLE), {"type": "Feature", "geometry": None}], {}, "Polygon or MultiPolygon; got None"),
        ([], {}, "has no features"),
        ([3], {}, "FeatureCollection of polygons"),
        ([feature(TRIANGLE)], {"crs": {"properties": {"name": "urn:ogc:def:crs:EPSG::3857"}}}, "EPSG::3857.*convert"),
    ],
)
def test_bad_polygons_of_a_file_are_refused_with_the_file(
    tmp_path: Path, features: list[dict[str, object]], more: dict[str, object], words: str
) -> None:
    pytest.importorskip("shapely")
    with pytest.raises(InvalidInput, match=f"q.geojson.*{words}"):
        read_queries(saved(tmp_path / "q.geojson", features, **more), DEGREES)


@pytest.mark.parametrize("head", ["x0,y0,x1,y1", "lon_lower,lat_lower,lon_upper,lat_upper,name", "label"])
def test_a_file_with_a_header_alone_has_no_queries(tmp_path: Path, head: str) -> None:
    path = tmp_path / "areas.csv"
    path.write_text(head + "\n")
    tree = from_labels("ICD", [("heart", "I21"), ("heart", "I25")]) if head == "label" else None
    box = Box((0, 0), (1, 1), names=("lon", "lat")) if tree is None else tree.box
    with pytest.raises(InvalidInput, match=r"areas.csv: has no data lines; there must be at least one query"):
        read_queries(path, box, tree)
