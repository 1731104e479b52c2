"""Queries keep what they are called; grids are even."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from semilocal import Box, SphereTree
from semilocal.errors import InvalidInput
from semilocal.hierarchy.tables import from_labels
from semilocal.io.points import read_points
from semilocal.io.queries import grid_queries, label_queries, read_queries
from semilocal.io.trees import label_tree, read_tree

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


PATHS = [["heart", "I20-I25", "I20"], ["heart", "I20-I25", "I21"], ["heart", "I63"], ["lung", "J18"], ["lung", "J44"]]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "icd.json"
    path.write_text(json.dumps({"name": "code", "paths": PATHS}))
    return path


def written(folder: Path, text: str) -> Path:
    path = folder / "rows.csv"
    path.write_text(text)
    return path


def test_labels_stand_for_their_leaves(tmp_path: Path, table: Path) -> None:
    tree = label_tree(str(table))
    assert tree is not None
    file = written(tmp_path, "who,code,cost\na, J44 ,3\nb,I20,4\na,I63,5\n")
    found = read_points(file, columns=["code"], values=["cost"], labels=["who"], words=tree.leaves)
    assert found.points.tolist() == tree.positions(["J44", "I20", "I63"]).tolist()
    assert found.values["cost"].tolist() == [3, 4, 5]
    codes = found.labels["who"].tolist()
    assert codes[0] == codes[2] != codes[1]
    assert read_points(file, columns=["code"], words=tree.leaves).points.shape == (3, 1)


@pytest.mark.parametrize("label", ["X99", "heart", ""])
def test_a_label_that_is_no_leaf_is_refused_with_its_line_and_not_repeated(
    tmp_path: Path, table: Path, label: str
) -> None:
    tree = label_tree(str(table))
    assert tree is not None
    with pytest.raises(InvalidInput, match="line 3: column 'code' holds no leaf of the table") as caught:
        read_points(written(tmp_path, f"code,n\nI20,1\n{label},1\n"), columns=["code"], words=tree.leaves)
    assert not label or label not in str(caught.value).replace(str(tmp_path), "")


def test_only_a_table_with_labels_is_one(tmp_path: Path) -> None:
    cuts = tmp_path / "age.json"
    cuts.write_text(json.dumps({"name": "age", "cuts": [[0, 18, 65, 120]]}))
    assert [label_tree(text) for text in (str(cuts), "world", "sphere", None)] == [None] * 4


def test_questions_about_labels_of_any_depth(tmp_path: Path, table: Path) -> None:
    tree = label_tree(str(table))
    assert tree is not None
    asked = read_queries(written(tmp_path, "label,note\nheart,a\nI21,b\n"), tree.box, tree)
    assert asked.named
    assert asked.boxes[:, :, 0].tolist() == [[0, 3], [1, 2]]
    assert dict(asked.properties) == {"label": ["heart", "I21"], "note": ["a", "b"]}
    with pytest.raises(InvalidInput, match="line 3: 'J99' is not a label of 'code'"):
        read_queries(written(tmp_path, "code\nheart\nJ99\n"), tree.box, tree)
    every = label_queries(tree)
    assert every.properties["label"][:3] == ["code", "heart", "lung"]
    assert every.boxes[0, :, 0].tolist() == [0, 5]


def test_the_sphere_and_tables_are_read_and_boxes_are_left_to_others(tmp_path: Path) -> None:
    cuts, paths = tmp_path / "age.json", tmp_path / "code.JSON"
    cuts.write_text('{"name": "age", "cuts": [[0, 18, 120], [0, 6, 18, 65, 120]]}')
    paths.write_text('{"name": "code", "paths": [["a", "a1"], ["a", "a2"], ["b"]]}')
    assert read_tree("sphere") == SphereTree(40)
    for path, leaves in ((cuts, 4), (paths, 3)):
        tree = read_tree(str(path))
        assert tree is not None
        assert tree.box.upper == (120.0 if leaves == 4 else 3.0,)
    assert read_tree("world") is None
    assert read_tree("0,0,1,1") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2]", "not a table"),
        ('{"name": "x"}', "one of them"),
        ('{"name": "x", "cuts": [[0, 1, 2]], "paths": [["a"], ["b"]]}', "one of them"),
        ('{"name": "x", "cuts": [[0, 2, 1]]}', "overlap"),
        ('{"name": "x", "cuts": [[0, 1, 2]], "colour": "red"}', "not a table"),
        ('{"name": "x", "paths": [["a", "b"], ["c", "b"]]}', "row 1: 'b'"),
        ("{", "not a table"),
    ],
)
def test_a_file_that_is_no_table_is_refused_by_its_name(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=words) as refused:
        read_tree(str(path))
    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidInput, match=r"missing\.json: No such file"):
        read_tree("missing.json")
