"""Reading positions: every format gives the same points, and every fault is named with its place."""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semilocal import BinaryTree, Box
from semilocal.arrays import Floats
from semilocal.engines.arrow import open_files
from semilocal.errors import InvalidInput, MissingExtra, OutsideDomain
from semilocal.geometry.places import named_box
from semilocal.io.points import fit, read_for_box, read_located, read_points
from semilocal.simulation.people import person_columns

TEXT = "user,lat,lon,score\n1,48.1,11.5,3\n2,-33.9,151.2,4.5\n"
POINTS = [[11.5, 48.1], [151.2, -33.9]]
PRIVATE = "13.377713,52.516271"


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def geojson(*features: Any) -> str:
    return json.dumps({"type": "FeatureCollection", "features": list(features)})


def feature(*position: Any, **properties: Any) -> dict[str, Any]:
    return {"type": "Feature", "geometry": {"type": "Point", "coordinates": list(position)}, "properties": properties}


def parquet(path: Path, **columns: Any) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), path)
    return path


def test_all_formats_give_the_same_points_longitude_first(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "a.csv", TEXT),
        write(tmp_path / "a.csv.gz", gzip.compress(TEXT.encode())),
        write(tmp_path / "a.tsv", TEXT.replace(",", "\t")),
        write(tmp_path / "semicolons.csv", TEXT.replace(",", ";")),
        write(tmp_path / "bom.csv", b"\xef\xbb\xbf" + TEXT.replace("user,lat,lon", "LAT,user,Lon").encode()),
        write(tmp_path / "crlf.csv", TEXT.replace("\n", "\r\n")),
        write(tmp_path / "blank.csv", TEXT.replace("\n2", "\n\n2") + "\n\n"),
        write(tmp_path / "quoted.csv", 'name,lat,lon,score\n"a,\n""b""",48.1,"11.5",3\nc,-33.9,151.2,4.5\n'),
        parquet(tmp_path / "a.parquet", lat=[48.1, -33.9], lon=[11.5, 151.2], score=[3.0, 4.5]),
        write(tmp_path / "a.geojson", geojson(feature(11.5, 48.1, score=3), feature(151.2, -33.9, 12.0, score=4.5))),
    ]
    for path in files:
        if path.name == "bom.csv":  # the first two columns changed places there
            assert read_points(path).points[:, 0].tolist() == [11.5, 151.2]
            continue
        table = read_points(path, values=["score"])
        assert table.points.tolist() == POINTS, path.name
        assert table.values["score"].tolist() == [3, 4.5], path.name
        assert table.points.dtype == np.float64
        assert len(table) == 2


def test_columns_can_be_named_in_any_case_and_any_number(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "A,b,c\n1,2,3\n")
    assert read_points(path, columns=["a", "c"]).points.tolist() == [[1, 3]]
    table = read_points(path, columns=["c", "A", "b"])
    assert table.points.tolist() == [[3, 1, 2]]
    assert table.names == ("c", "A", "b")


@pytest.mark.parametrize(
    ("name", "text", "options", "parts"),
    [
        ("a.csv", "", {}, ["is empty", "first line must name"]),
        ("a.csv", "lat,lon\n", {}, ["has no data lines"]),
        ("a.csv", "1.5,2.5\n3,4\n", {}, ["line 1", "numbers, not names"]),
        ("a.csv", "lat,lon,lat\n1,2,3\n", {}, ["line 1", "'lat' is there twice"]),
        ("a.csv", TEXT, {"columns": ["longitude", "lat"]}, ["no column 'longitude'", "'user', 'lat', 'lon', 'score'"]),
        ("a.csv", "a,b\n1,2\n", {}, ["lon, lng", "'a', 'b'"]),
        ("a.csv", "id,geometry\n1,POINT\n", {}, ["lon, lng", "write longitude and latitude as columns"]),
        ("a.csv", f"anna,{PRIVATE}\nbob,13.4,52.5\n", {}, ["lon, lng", "is there a first line with names?"]),
        (
            "a.csv",
            f"anna,{PRIVATE}\n",
            {"columns": ["lon", "lat"]},
            ["no column 'lon'", "is there a first line with names?"],
        ),
        ("a.csv", f"{PRIVATE},anna,{PRIVATE}\n", {}, ["line 1", "there twice"]),
        ("a.csv", "lat,lon,x\n1,2,3\n", {}, ["'lon', 'x' could all be the x column"]),
        ("a.csv", "lat,lon\n1,2\n\n3,north\n", {}, ["line 4", "'lon' is not a number"]),
        ("a.csv", "lat;lon\n1;2\n3,5;4\n", {}, ["line 3", "'lat' has a decimal comma; write numbers with a point"]),
        ("a.csv", "lat,lon\n1,2\n3,\n", {}, ["line 3", "'lon' is empty"]),
        ("a.csv", "lat,lon\n1,2\n3\n", {}, ["line 3", "1 cells, the header 2"]),
        ("a.csv", "lat,lon\n1,2\n3,4,5\n", {}, ["line 3", "3 cells, the header 2"]),
        ("a.csv", 'n,lat,lon\n"a\nb",1,2\nc,3,nan\n', {}, ["line 4", "'lon' is NaN", "finite"]),
        ("a.csv", "lat,lon\n1,inf\n", {}, ["line 2", "inf"]),
        ("a.csv", 'lat,lon\n1,"2\n', {}, ["line 2", "not CSV"]),
        ("a.csv", "lat,lon\n1,2\n", {"columns": ["lon", "lon"]}, ["named twice"]),
        ("a.csv", "lat,lon\n1,2\n", {"columns": []}, ["columns is empty"]),
        ("a.csv", "lat,lon\n1,2\n", {"values": ["score"]}, ["no column 'score'"]),
        ("a.dat", "lat,lon\n1,2\n", {}, ["cannot tell the format"]),
        ("a.gz", "lat,lon\n1,2\n", {}, ["cannot tell the format"]),
        ("a.csv.gz", f"{PRIVATE}\n", {}, ["gzip data is damaged", "Not a gzipped file"]),
        ("a.geojson.gz", f"{PRIVATE}\n", {}, ["Not a gzipped file"]),
        ("a.csv", gzip.compress(b"x,y\n1,2\n", mtime=0), {}, ["is compressed with gzip; call it", "a.csv.gz"]),
        ("a.geojson", geojson({"geometry": f"POINT ({PRIVATE})"}), {}, ["feature 0: the geometry is not one"]),
        ("a.geojson", geojson({"geometry": {"type": PRIVATE}}), {}, ["feature 0: the geometry is not one"]),
        ("a.geojson", '{"type":\n nonsense}', {}, ["line 2", "not JSON"]),
        ("a.geojson", "[]", {}, ["FeatureCollection", "a list"]),
        ("a.geojson", '{"type": "Feature"}', {}, ["FeatureCollection", "type 'Feature'"]),
        ("a.geojson", geojson(), {}, ["has no features"]),
        ("a.geojson", geojson(feature(1, 2), feature(1)), {}, ["feature 1", "[longitude, latitude]"]),
        ("a.geojson", geojson(feature(1, 2), feature("1", 2)), {}, ["feature 1", "not two numbers"]),
        ("a.geojson", geojson({"geometry": {"type": "LineString"}}), {}, ["feature 0", "'LineString'"]),
        ("a.geojson", geojson({"geometry": None}), {}, ["feature 0", "None"]),
        ("a.geojson", geojson(7), {}, ["feature 0", "must be a Point"]),
        (
            "a.geojson",
            geojson(feature(1, 2, s=1), feature(1, 2, s="x")),
            {"values": ["s"]},
            ["feature 1", "'s' is not a number"],
        ),
        ("a.parquet", "no parquet at all", {}, ["is not a Parquet file"]),
    ],
)
def test_faults_name_file_place_and_fix(
    tmp_path: Path, name: str, text: str | bytes, options: dict[str, Any], parts: list[str]
) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(InvalidInput) as caught:
        read_points(path, **options)
    for part in parts:
        assert part in str(caught.value)
    for private in ("anna", *PRIVATE.split(",")):
        assert private not in str(caught.value)
    if "not both" not in parts and "columns is empty" not in parts:
        assert str(path) in str(caught.value)


def test_a_damaged_gzip_is_named_wherever_it_breaks(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows = "\n".join(f"{x},{y}" for x, y in rng.random((20_000, 2)))
    whole = gzip.compress(f"lat,lon\n{rows}\n".encode())
    for length in (5, 40, len(whole) // 2, len(whole) - 4):
        with pytest.raises(InvalidInput, match="gzip data is damaged"):
            read_points(write(tmp_path / "a.csv.gz", whole[:length]))


def test_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    early = write(tmp_path / "early.csv", b"lat,lon,caf\xe9\n1,2,3\n")
    late = write(tmp_path / "late.csv", b"lat,lon,name\n" + b"1,2,abc\n" * 50_000 + b"1,2,\xe9\n")
    for path in (early, late):
        with pytest.raises(InvalidInput, match="not UTF-8"):
            read_points(path)


def test_a_parquet_file_whose_rows_are_damaged_is_named(tmp_path: Path) -> None:
    """The end of the file is whole, so it opens; what Arrow says of the rows names no file."""
    path = parquet(tmp_path / "a.parquet", x=list(np.linspace(0, 0.9, 500)), y=list(np.linspace(0, 0.9, 500)))
    path.write_bytes(path.read_bytes()[:50] + bytes(3000) + path.read_bytes()[3050:])
    with pytest.raises(InvalidInput, match=r"a\.parquet: is damaged"):
        read_points(path)
    with pytest.raises(InvalidInput, match=r"a\.parquet: is damaged"):
        open_files(path, ["x", "y"], Box((0, 0), (1, 1))).histogram(BinaryTree(Box((0, 0), (1, 1)), 4), 4)


def test_parquet_faults_name_the_row_and_the_type(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"row 1: column 'lon' is empty"):
        read_points(parquet(tmp_path / "null.parquet", lat=[1.0, 2.0], lon=[1.0, None]))
    with pytest.raises(InvalidInput, match=r"row 2: column 'lat' is NaN"):
        read_points(parquet(tmp_path / "nan.parquet", lat=[1.0, 2.0, float("nan")], lon=[1, 2, 3]))
    with pytest.raises(InvalidInput, match=r"'lat' holds string, not numbers"):
        read_points(parquet(tmp_path / "text.parquet", lat=["1"], lon=[1.0]))
    with pytest.raises(InvalidInput, match="has no rows"):
        read_points(parquet(tmp_path / "none.parquet", lat=np.empty(0), lon=np.empty(0)))


def geoparquet(path: Path, shapes: Any, crs: str | None = "EPSG:4326", **columns: Any) -> Path:
    geopandas = pytest.importorskip("geopandas")
    encoding = columns.pop("encoding", "WKB")
    geopandas.GeoDataFrame(columns, geometry=shapes, crs=crs).to_parquet(path, geometry_encoding=encoding)
    return path


@pytest.mark.parametrize("encoding", ["WKB", "geoarrow"])
def test_points_of_geoparquet_are_read_in_memory_and_in_batches(tmp_path: Path, encoding: str) -> None:
    shapely = pytest.importorskip("shapely")
    path = geoparquet(tmp_path / "a.parquet", shapely.points(POINTS), score=[3.0, 4.5], encoding=encoding)
    table = read_points(path, values=["score"])
    assert table.points.tolist() == POINTS
    assert table.names == ("longitude", "latitude")
    assert table.values["score"].tolist() == [3, 4.5]
    source = open_files(path, ["longitude", "latitude"], Box.world(), values=["score"])
    assert np.concatenate(list(source.batches("score"))).tolist() == [[*POINTS[0], 3.0], [*POINTS[1], 4.5]]
    located = read_located(path, ["longitude", "latitude"], BinaryTree(Box.world(), 40))
    assert located is not None
    assert located.codes.tolist() == sorted(BinaryTree(Box.world(), 40).codes(np.array(POINTS)).tolist())


def test_other_geometries_are_refused_with_their_row(tmp_path: Path) -> None:
    shapely = pytest.importorskip("shapely")
    none = geoparquet(tmp_path / "none.parquet", [shapely.Point(1, 2), None])
    with pytest.raises(InvalidInput, match="row 1: the geometry is not a Point; correct or remove it"):
        read_points(none)
    with pytest.raises(InvalidInput, match="row 1: the geometry is not a Point"):
        open_files(none, ["longitude", "latitude"], Box.world()).check()
    area = geoparquet(tmp_path / "area.parquet", [shapely.box(0, 0, 1, 1)])
    with pytest.raises(InvalidInput, match="'geometry' is not read"):
        read_points(area)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.parquet", "x")
    for name in ("pyarrow", "pyarrow.csv", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"semilocal\[parquet\]"):
        read_points(path)


def test_folder_or_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a folder"):
        read_points(tmp_path)
    with pytest.raises(InvalidInput, match="no such file"):
        read_points(tmp_path / "a.csv")
    os.mkfifo(tmp_path / "b.csv")
    with pytest.raises(InvalidInput, match="is a pipe or a device, not a file"):
        read_points(tmp_path / "b.csv")


def test_random_tables_survive_the_way_through_the_csv_module(tmp_path: Path) -> None:
    """Oracle: what csv.writer wrote is read back bit for bit, whatever stands in the other columns."""
    rng = np.random.default_rng(11)
    words = ["", "a,b", 'say "x"', "two\nlines", "ü", ";;;", "\t"]
    for _ in range(30):
        n = int(rng.integers(1, 40))
        points = rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-300, 300, size=(n, 2))
        path = tmp_path / "a.csv"
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(["note", "y", "remark, long", "x"])
            for x, y in points.tolist():
                writer.writerow([words[rng.integers(7)], repr(y), words[rng.integers(7)], repr(x)])
        assert np.array_equal(read_points(path).points, points)


def test_labels_are_codes_in_all_formats_and_an_empty_one_is_nobody(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "a.csv", "lat,lon,who\n1,2,ann\n1,2,\n1,2,bob\n1,2,ann\n"),
        parquet(tmp_path / "a.parquet", lat=[1.0] * 4, lon=[2.0] * 4, who=["ann", None, "bob", "ann"]),
        write(
            tmp_path / "a.geojson",
            geojson(feature(2, 1, who="ann"), feature(2, 1), feature(2, 1, who="bob"), feature(2, 1, who="ann")),
        ),
    ]
    for path in files:
        codes = read_points(path, labels=lambda columns: [name for name in columns if name == "who"]).labels["who"]
        assert codes[0] == codes[3] != codes[2]
        assert codes.tolist().count(-1) == 1
        assert codes[1] == -1


def test_whose_feature_it_is_may_stand_in_any_feature_or_beside_the_properties(tmp_path: Path) -> None:
    path = tmp_path / "a.geojson"
    path.write_text(geojson(feature(1, 2), feature(1, 2, user="ann"), feature(1, 2, user="ann")))
    assert read_points(path, labels=person_columns).labels["user"].tolist() == [-1, 1, 1]
    path.write_text(geojson({**feature(1, 2), "id": 7}, {**feature(1, 2), "id": 7}))
    assert read_points(path, labels=person_columns).labels["id"].tolist() == [1, 1]


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
