"""Datasets: found, checked, read in the layout of their homes, sampled; nothing is dropped without a note."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from semilocal.datasets import california_housing
from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.geometry.places import named_box
from semilocal.lab.experiments import data
from semilocal.lab.experiments.data import CATALOGUE, dataset, read_geolife, read_porto, read_snap

SHARED = Path(os.environ.get("SEMILOCAL_DATA") or Path(__file__).parents[4] / "shared" / "data")
REAL = [name for name, entry in CATALOGUE.items() if name != "geolife" and (SHARED / entry.variants[0].file).exists()]


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(data.VARIABLE, raising=False)


def put(folder: Path, file: str, *rows: tuple[float, float]) -> Path:
    """A small file in a data folder; rows are latitude, longitude."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "user,latitude,longitude\n" + "".join(f"1,{lat},{lon}\n" for lat, lon in rows)
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_the_shipped_sample_is_the_real_file() -> None:
    points, values = california_housing()
    assert points.shape == (20_640, 2)
    # known figures of the original (Pace and Barry 1997)
    assert round(float(values.mean()), 3) == 206_855.817
    named_box("california").check(points)
    positions = data.load("california_housing")
    assert np.array_equal(positions.points, points)
    assert not any("differs" in note for note in positions.notes)


@pytest.mark.parametrize("name", REAL)
def test_real_files_have_the_documented_rows_and_lie_in_their_box(name: str) -> None:
    positions = data.load(name, SHARED)
    variant = dataset(name).variants[0]
    assert len(positions.points) == variant.rows
    assert positions.box == variant.box
    assert not any("differs" in note for note in positions.notes)
    # strictly inside: scaled positions are below 1, so half-open boxes miss nobody at the border
    assert (positions.points > variant.box.lower).all()
    assert (positions.points < variant.box.upper).all()


def test_every_entry_says_what_a_user_must_know() -> None:
    for name, entry in CATALOGUE.items():
        assert entry.home.startswith("https://")
        assert entry.terms
        assert entry.citation
        assert any(variant.url for variant in entry.variants) or entry.by_hand or name == data.SHIPPED
        assert {"latitude", "longitude"} <= set(entry.columns)


def test_the_folder_comes_from_the_caller_or_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "gowalla.csv.gz", (30.25, -97.75))
    with pytest.raises(InvalidInput, match=data.VARIABLE):
        data.load("gowalla")
    assert data.load("gowalla", tmp_path).points.tolist() == [[-97.75, 30.25]]
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    assert data.load("gowalla").path == tmp_path / "gowalla.csv.gz"
    monkeypatch.setenv(data.VARIABLE, str(tmp_path / "gowalla.csv.gz"))
    with pytest.raises(InvalidInput, match="is a file"):
        data.load("gowalla")


def test_a_missing_dataset_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"get it from https://snap\.stanford\.edu.*terms: research use"):
        data.load("gowalla", tmp_path)
    with pytest.raises(InvalidInput, match=r"get it from https://.*another folder"):
        data.load("geolife", tmp_path)
    with pytest.raises(InvalidInput, match="there are california_housing, gowalla"):
        data.load("atlantis", tmp_path)


def test_an_unknown_file_is_read_with_a_note(tmp_path: Path) -> None:
    put(tmp_path, "gowalla.csv.gz", (30.25, -97.75))
    assert any("checksum differs" in note for note in data.load("gowalla", tmp_path).notes)


def test_the_whole_of_snap_is_used_where_the_subset_is_not_there(tmp_path: Path) -> None:
    rows = b"7\tt\t-80.0\t179.0\tp\n7\tt\t0.0\t0.0\tp\n"
    (tmp_path / "loc-gowalla_totalCheckins.txt.gz").write_bytes(gzip.compress(rows))
    positions = data.load("gowalla", tmp_path)
    assert positions.box == named_box("world")
    assert positions.points.tolist() == [[179.0, -80.0]]
    assert "all of SNAP's check-ins" in positions.notes[0]
    assert positions.notes[2] == "position at exactly (0, 0): 1 left out"
    put(tmp_path, "gowalla.csv.gz", (30.25, -97.75))
    assert data.load("gowalla", tmp_path).path.name == "gowalla.csv.gz"


def test_positions_outside_the_box_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "porto.csv.gz", (41.1, -8.6), (41.1, 8.6))
    with pytest.raises(OutsideDomain, match="1 of 2"):
        data.load("porto", tmp_path)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = put(tmp_path, "gowalla.csv.gz", (30.25, -97.75))
    first = data.load("gowalla", tmp_path)
    assert data.load("gowalla", tmp_path) is first
    put(tmp_path, "gowalla.csv.gz", (30.25, -97.5))
    os.utime(path, ns=(1, 1))
    second = data.load("gowalla", tmp_path)
    assert second.points.tolist() == [[-97.5, 30.25]]
    assert second.fingerprint != first.fingerprint


def test_geolife_counts_what_lies_outside_beijing(tmp_path: Path) -> None:
    folder = tmp_path / "geolife" / "Data" / "000" / "Trajectory"
    folder.mkdir(parents=True)
    rows = ["39.9,116.4", "40.0,116.3", "400.17,116.4", "47.6,-122.3"]
    body = "".join(f"{one},0,492,39744.12,2008-10-23,02:53:04\r\n" for one in rows)
    (folder / "1.plt").write_text("h\n" * 6 + body)
    for where in (tmp_path, tmp_path / "geolife"):
        positions = data.load("geolife", where)
        assert positions.points.tolist() == [[116.4, 39.9], [116.3, 40.0]]
        assert any("latitude" in note and "1 left out" in note for note in positions.notes)
        assert any(note.startswith("point outside") and ": 1 left out" in note for note in positions.notes)


def test_a_sample_is_a_set_of_rows_scaled_by_the_public_box(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = [(float(lat), float(lon)) for lat, lon in zip(rng.uniform(39, 42, 50), rng.uniform(-9, -8, 50), strict=True)]
    put(tmp_path, "porto.csv.gz", *rows)
    everyone = data.sample_users("porto", 50, np.random.default_rng(1), folder=tmp_path)
    box = data.load("porto", tmp_path).box
    back = everyone * (np.array(box.upper) - box.lower) + box.lower
    assert np.allclose(np.sort(back[:, 1]), np.sort([lat for lat, _ in rows]), rtol=0, atol=1e-12)
    one = data.sample_users("porto", 7, np.random.default_rng(2), folder=tmp_path)
    same = data.sample_users("porto", 7, np.random.default_rng(2), folder=tmp_path)
    other = data.sample_users("porto", 7, np.random.default_rng(3), folder=tmp_path)
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert len({tuple(point) for point in one}) == 7  # without replacement
    for n in (0, 51):
        with pytest.raises(InvalidInput, match="between 1 and the 50"):
            data.sample_users("porto", n, rng, folder=tmp_path)


@pytest.mark.skipif(not SHARED.exists(), reason="needs the real files")
def test_a_damaged_real_file_is_seen(tmp_path: Path) -> None:
    (tmp_path / "extra").mkdir()
    copy = Path(shutil.copyfile(SHARED / "extra" / "gowalla_nyc.csv.gz", tmp_path / "extra" / "gowalla_nyc.csv.gz"))
    content = bytearray(copy.read_bytes())
    content[len(content) // 2] ^= 1
    copy.write_bytes(content)
    with pytest.raises(InvalidInput, match="gowalla_nyc"):
        data.load("gowalla_nyc", tmp_path)


HEADER = "Geolife trajectory\nWGS 84\nAltitude is in Feet\nReserved 3\n0,2,255,My Track,0,0,2,8421376\n0\n"


def plt(folder: Path, user: str, start: str, *rows: str, end: str = "\r\n") -> Path:
    path = folder / "Data" / user / "Trajectory" / f"{start}.plt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((HEADER.replace("\n", end) + "".join(row + end for row in rows)).encode())
    return path


def row(latitude: float | str, longitude: float | str) -> str:
    return f"{latitude},{longitude},0,492,39744.1201851852,2008-10-23,02:53:04"


def test_geolife_folders_are_read_by_user_and_time_and_the_impossible_point_is_counted(tmp_path: Path) -> None:
    plt(tmp_path, "001", "20081024", row(40.1, 116.5))
    plt(tmp_path, "000", "20081023", row(39.984702, 116.318417), row(400.166666666667, 116.4), row(39.9, 116.3))
    plt(tmp_path, "000", "20081022", row(39.5, 116.1), end="\n")
    plt(tmp_path, "000", "20081025")
    (tmp_path / "Data" / "000" / "labels.txt").write_text("no trajectory")
    points, dropped = read_geolife(tmp_path)
    assert points.tolist() == [[116.1, 39.5], [116.318417, 39.984702], [116.3, 39.9], [116.5, 40.1]]
    assert list(dropped.values()) == [1]


@pytest.mark.parametrize("bad", ["39.9,116.3", row("north", 116), row("nan", 116), row(1, 2) + ",7", "39.9,11"])
def test_geolife_faults_name_the_file(tmp_path: Path, bad: str) -> None:
    path = plt(tmp_path, "000", "1", row(39.9, 116.3), bad)
    with pytest.raises(InvalidInput) as caught:
        read_geolife(tmp_path)
    assert f"{path}: a line is not" in str(caught.value)


def test_geolife_elsewhere_says_what_layout_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"Data/<user>/Trajectory"):
        read_geolife(tmp_path)
    (tmp_path / "Data" / "000" / "Trajectory").mkdir(parents=True)
    (tmp_path / "Data" / "000" / "Trajectory" / "1.plt").write_text("short\n")
    with pytest.raises(InvalidInput, match="header lines"):
        read_geolife(tmp_path)


def test_snap_keeps_the_order_and_counts_what_it_leaves_out(tmp_path: Path) -> None:
    lines = [
        "7\t2010-10-19T23:55:27Z\t30.2359091167\t-97.7951395833\t22847",
        "7\t2010-10-18T22:17:43Z\t0.0\t0.0\t00000000000000000000000000000000",
        "7\t2010-10-17T23:42:03Z\t0\t-97.5\t1",
        "5\t\t\t\t",
        "5",
        "3\t2010-10-17T19:26:05Z\t110.5\t-97.7\t1",
        "3\t2010-10-17T19:26:05Z\t10.5\t-197.7\t1",
        "3\t2010-10-16T18:50:42Z\t-90\t180\t9410",
    ]
    original = tmp_path / "loc.txt.gz"
    original.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    points, dropped = read_snap(original)
    assert points.tolist() == [[-97.7951395833, 30.2359091167], [-97.5, 0.0], [180.0, -90.0]]
    assert sorted(dropped.values()) == [1, 2, 2]


def test_snap_refuses_what_is_no_file_of_checkins(tmp_path: Path) -> None:
    original = tmp_path / "loc.txt.gz"
    original.write_bytes(gzip.compress(b"1\tt\t2\t3\tp\nuser\ttime\tlatitude\tlongitude\tplace\n"))
    with pytest.raises(InvalidInput, match="line 2"):
        read_snap(original)
    original.write_bytes(gzip.compress(b"1\tt\t2\t3\tp\n" * 9)[:-9])
    with pytest.raises(InvalidInput, match="damaged"):
        read_snap(original)


def train(trips: list[tuple[str, list[tuple[float, float]]]]) -> bytes:
    """train.csv.zip as Porto's home has it: polylines as JSON, longitude first."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["TRIP_ID", "CALL_TYPE", "TAXI_ID", "MISSING_DATA", "POLYLINE"])
    for number, (taxi, line) in enumerate(trips):
        writer.writerow([number, "C", taxi, "False", json.dumps([list(point) for point in line])])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("train.csv", text.getvalue())
    return packed.getvalue()


def outer(path: Path, inner: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
        archive.writestr("train.csv.zip", inner)
    return path


TRIPS = [("20000001", [(-8.618643, 41.141412), (-8.6, 41.0)]), ("20000002", []), ("20000003", [(-8.5, 41.1)])]


def test_the_first_trips_of_porto_are_read_and_empty_ones_counted(tmp_path: Path) -> None:
    points, dropped = read_porto(outer(tmp_path / "uci.zip", train([*TRIPS, ("9", [(0.0, 0.0)])])), trips=3)
    assert points.tolist() == [[-8.618643, 41.141412], [-8.6, 41.0], [-8.5, 41.1]]
    assert list(dropped.values()) == [1]


def test_porto_refuses_a_short_or_foreign_zip(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="ends after 3 trips"):
        read_porto(outer(tmp_path / "short.zip", train(TRIPS)), trips=4)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("train.csv", "a,b\n1,2\n")
    with pytest.raises(InvalidInput, match="POLYLINE"):
        read_porto(outer(tmp_path / "foreign.zip", packed.getvalue()), trips=1)
    (tmp_path / "no.zip").write_text("no zip")
    with pytest.raises(InvalidInput, match="not the zip"):
        read_porto(tmp_path / "no.zip")
