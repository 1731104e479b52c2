"""Originals in the layout of their homes become positions, and everything left out is counted."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import zipfile
from pathlib import Path

import pytest

from semilocal.errors import InvalidInput
from semilocal.lab.experiments.data import read_geolife, read_porto, read_snap

SHARED = Path(os.environ.get("SEMILOCAL_DATA") or Path(__file__).parents[4] / "shared" / "data")
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


def test_geolife_without_faults_drops_nothing(tmp_path: Path) -> None:
    plt(tmp_path, "000", "1", row(90, -180), row(-90, 180))
    points, dropped = read_geolife(tmp_path)
    assert len(points) == 2
    assert dropped == {}


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
