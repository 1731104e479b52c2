"""Datasets in the layout of their public homes: SNAP check-ins, Porto's zip, GeoLife's folders.

Each reader gives longitude and latitude, float64[n, 2], and how many rows were left out, by reason. Knows no HTTP.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import zipfile
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

from ...arrays import Floats
from ...errors import InvalidInput

__all__ = ["PORTO_TRIPS", "read_geolife", "read_porto", "read_snap"]

PORTO_TRIPS = 7_732  # the first two days, 2013-07-01 00:00 to 2013-07-02 16:17 UTC
PLT_HEADER = 6  # lines
PLT_COMMAS = 6  # in each line after the header
FAULT = "position outside latitude ±90 or longitude ±180"


def read_snap(path: Path) -> tuple[Floats, dict[str, int]]:
    """SNAP's check-ins, ``loc-*_totalCheckins.txt.gz``: user, time, latitude, longitude and place, between tabs.

    In the original order. Left out are lines without a position, positions at exactly (0, 0) (the mark for "no
    position" there), and impossible ones.
    """
    dropped: Counter[str] = Counter()
    points: list[tuple[float, float]] = []
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
            for number, line in enumerate(stream, start=1):
                latitude, longitude = [*line.rstrip("\r\n").split("\t"), "", "", "", ""][2:4]
                if not (latitude and longitude):
                    dropped["line without a position"] += 1
                    continue
                try:
                    where = float(longitude), float(latitude)
                except ValueError:
                    raise InvalidInput(
                        f"{path}, line {number}: {latitude!r}, {longitude!r} is not a position; this is not SNAP's "
                        "file of check-ins"
                    ) from None
                if where == (0.0, 0.0):
                    dropped["position at exactly (0, 0)"] += 1
                elif abs(where[0]) > 180 or abs(where[1]) > 90:
                    dropped[FAULT] += 1
                else:
                    points.append(where)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInput(f"{path}: the gzip data is damaged ({error}); get the file again") from None
    return np.array(points).reshape(-1, 2), dict(dropped)


def read_porto(path: Path, trips: int = PORTO_TRIPS) -> tuple[Floats, dict[str, int]]:
    """The first trips of the Porto training file, in UCI's zip (``train.csv.zip`` inside).

    Trips with an empty polyline have no positions; they are counted as left out.
    """
    parts, empty = [], 0
    try:
        with (
            zipfile.ZipFile(path) as outer, zipfile.ZipFile(outer.open("train.csv.zip")) as inner,
            io.TextIOWrapper(inner.open("train.csv"), encoding="utf-8", newline="") as stream,
        ):  # fmt: skip
            table = csv.DictReader(stream)
            if "POLYLINE" not in (table.fieldnames or ()):
                raise InvalidInput(f"{path}: train.csv has the columns {table.fieldnames}; POLYLINE is needed")
            for row in itertools.islice(table, trips):
                parts.append(np.array(json.loads(row["POLYLINE"]), dtype=np.float64).reshape(-1, 2).round(6))
                empty += not len(parts[-1])
    except (zipfile.BadZipFile, KeyError) as error:
        raise InvalidInput(f"{path}: is not the zip with train.csv ({error}); get it again") from None
    if len(parts) < trips:
        raise InvalidInput(f"{path}: train.csv ends after {len(parts)} trips; {trips} are needed; get the whole file")
    return np.concatenate(parts), {"trip with an empty polyline": empty} if empty else {}


def read_geolife(folder: Path) -> tuple[Floats, dict[str, int]]:
    """GeoLife in its original layout, ``Data/<user>/Trajectory/<start>.plt``: longitude and latitude, float64[n, 2].

    By user, trajectory and time; with how many points were left out, by reason. The published data has one, with
    latitude 400.17.
    """
    files = sorted(folder.glob("Data/*/Trajectory/*.plt"))
    if not files:
        raise InvalidInput(
            f"{folder}: holds no Data/<user>/Trajectory/*.plt; name the folder that GeoLife was unpacked to"
        )
    points = np.concatenate([_read_plt(path) for path in files])
    possible = (np.abs(points) <= [180, 90]).all(axis=1)
    wrong = int(np.count_nonzero(~possible))
    return points[possible], {FAULT: wrong} if wrong else {}


def _read_plt(path: Path) -> Floats:
    """Longitude and latitude, float64[n, 2]."""
    parts = path.read_bytes().split(b"\n", PLT_HEADER)
    if len(parts) <= PLT_HEADER:
        raise InvalidInput(f"{path}: has fewer than the {PLT_HEADER} header lines of a .plt file; get the file again")
    body = parts[-1]
    if not body.strip():
        return np.empty((0, 2))
    try:
        rows = np.loadtxt(io.BytesIO(body), delimiter=",", usecols=(1, 0), ndmin=2, comments=None)
    except ValueError:
        rows = np.empty((0, 2))
    if len(rows) * PLT_COMMAS != body.count(b",") or not np.isfinite(rows).all():
        raise InvalidInput(f"{path}: a line is not 'latitude,longitude,0,altitude,days,date,time'; get the file again")
    return rows
