"""Datasets in the layout of their public homes: SNAP check-ins, Porto's zip, GeoLife's folders.

Knows the formats of the originals and turns them into positions or into plain CSV files. Knows no HTTP. Whatever is
left out is counted by reason, and the counts are returned.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...arrays import Floats
from ...errors import InvalidInput
from ...io import progress
from ...io.files import replacing

__all__ = ["PORTO_TRIPS", "Converted", "convert_porto", "convert_snap", "read_geolife"]

PORTO_TRIPS = 7_732  # the first two days, 2013-07-01 00:00 to 2013-07-02 16:17 UTC
PLT_HEADER = 6  # lines
PLT_COMMAS = 6  # in each line after the header
FAULT = "position outside latitude ±90 or longitude ±180"


class Converted(NamedTuple):
    """What came out of an original: how many rows, and how many were left out for which reason."""

    rows: int
    dropped: dict[str, int]


def convert_snap(original: Path, target: Path, *, show: bool = False) -> Converted:
    """Turn SNAP's check-ins, ``loc-*_totalCheckins.txt.gz``, into a CSV with user, latitude, longitude.

    The original has user, time, latitude, longitude and place, separated by tabs. Kept is every check-in with a
    possible position, in the original order and spelling. Left out and counted: lines without a position, positions at
    exactly (0, 0) (the mark for "no position" there), and impossible positions. The target appears only when it is
    complete.
    """
    dropped: Counter[str] = Counter()

    def rows(stream: Iterable[str]) -> Iterator[tuple[str, ...]]:
        for number, line in enumerate(progress.track(stream, original.name, show=show), start=1):
            user, _, latitude, longitude = [*line.rstrip("\r\n").split("\t"), "", "", "", ""][:4]
            try:
                where = float(latitude or "nan"), float(longitude or "nan")
            except ValueError:
                raise InvalidInput(
                    f"{original}, line {number}: {latitude!r}, {longitude!r} is not a position; this is not SNAP's "
                    "file of check-ins"
                ) from None
            if not (latitude and longitude):
                dropped["line without a position"] += 1
            elif where == (0.0, 0.0):
                dropped["position at exactly (0, 0)"] += 1
            elif not (abs(where[0]) <= 90 and abs(where[1]) <= 180):
                dropped[FAULT] += 1
            else:
                yield user, latitude, longitude

    try:
        with gzip.open(original, "rt", encoding="utf-8", newline="") as stream:
            count = _write_csv(target, ("user", "latitude", "longitude"), rows(stream))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInput(f"{original}: the gzip data is damaged ({error}); delete it and fetch again") from None
    return Converted(count, dropped)


def convert_porto(original: Path, target: Path, *, trips: int = PORTO_TRIPS, show: bool = False) -> Converted:
    """Turn the first trips of the Porto training file into a CSV with taxi, trip, latitude, longitude.

    The original is UCI's zip (``train.csv.zip`` inside) or ``train.csv.zip`` itself (``train.csv`` inside). Trip
    numbers are the place in that file, from 0. Trips with an empty polyline have no positions; they are counted as left
    out. The target appears only when it is complete.
    """
    dropped: Counter[str] = Counter()

    def rows(stream: Iterable[str]) -> Iterator[tuple[str | int, ...]]:
        table = csv.DictReader(stream)
        if not {"TAXI_ID", "POLYLINE"} <= set(table.fieldnames or ()):
            raise InvalidInput(
                f"{original}: train.csv has the columns {table.fieldnames}; TAXI_ID and POLYLINE are needed"
            )
        for trip in progress.track(range(trips), original.name, show=show):
            row = next(table, None)
            if row is None:
                raise InvalidInput(
                    f"{original}: train.csv ends after {trip} trips; {trips} are needed; get the whole file"
                )
            polyline = json.loads(row["POLYLINE"])
            if not polyline:
                dropped["trip with an empty polyline"] += 1
            for longitude, latitude in polyline:
                yield row["TAXI_ID"], trip, *(repr(round(float(degrees), 6)) for degrees in (latitude, longitude))

    try:
        archive = zipfile.ZipFile(original)
        if "train.csv" not in archive.namelist() and "train.csv.zip" in archive.namelist():
            archive = zipfile.ZipFile(archive.open("train.csv.zip"))
        packed = archive.open("train.csv")
    except (zipfile.BadZipFile, KeyError) as error:
        raise InvalidInput(f"{original}: is not the zip with train.csv ({error}); delete it and get it again") from None
    with io.TextIOWrapper(packed, encoding="utf-8", newline="") as stream:
        count = _write_csv(target, ("taxi", "trip", "latitude", "longitude"), rows(stream))
    return Converted(count, dropped)


def _write_csv(target: Path, header: tuple[str, ...], rows: Iterable[tuple[str | int, ...]]) -> int:
    """Write a gzip-compressed CSV whose bytes depend on the rows alone; return how many rows."""
    with replacing(target) as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
        text = io.TextIOWrapper(packed, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        count = sum(1 for row in rows if writer.writerow(row))
        text.flush()
    return count


def read_geolife(folder: Path, *, show: bool = False) -> tuple[Floats, dict[str, int]]:
    """GeoLife in its original layout, ``Data/<user>/Trajectory/<start>.plt``: longitude and latitude, float64[n, 2].

    By user, trajectory and time; with how many points were left out, by reason. The published data has one, with
    latitude 400.17.
    """
    files = sorted(folder.glob("Data/*/Trajectory/*.plt"))
    if not files:
        raise InvalidInput(
            f"{folder}: holds no Data/<user>/Trajectory/*.plt; name the folder that GeoLife was unpacked to"
        )
    points = np.concatenate([_read_plt(path) for path in progress.track(files, "GeoLife", show=show)])
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
