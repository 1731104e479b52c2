"""Datasets in the layout of their public homes: SNAP check-ins, Porto's zip, GeoLife's folders.

Knows the formats of the originals and turns them into positions or into plain CSV files. Knows no HTTP.
Whatever is left out is counted by reason, and the counts are returned.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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
    dropped: Mapping[str, int]


def convert_snap(original: Path, target: Path, *, show: bool = False) -> Converted:
    """Turn SNAP's check-ins, ``loc-*_totalCheckins.txt.gz``, into a CSV with user, latitude, longitude.

    The original has user, time, latitude, longitude and place, separated by tabs. Kept is every check-in with a
    possible position, in the original order and spelling. Left out and counted: lines without a position, positions at
    exactly (0, 0) (the mark for "no position" there), and impossible positions. The target appears only when it is
    complete.
    """
    dropped: Counter[str] = Counter()

    def rows(stream: Iterable[str]) -> Iterator[tuple[str, str, str]]:
        for number, line in enumerate(progress.track(stream, original.name, show=show), start=1):
            cells = line.rstrip("\r\n").split("\t")
            if len(cells) < 4 or not cells[2] or not cells[3]:
                dropped["line without a position"] += 1
                continue
            try:
                latitude, longitude = float(cells[2]), float(cells[3])
            except ValueError:
                raise InvalidInput(
                    f"{original}, line {number}: {cells[2]!r}, {cells[3]!r} is not a position; this is not "
                    "SNAP's file of check-ins"
                ) from None
            if latitude == 0 and longitude == 0:
                dropped["position at exactly (0, 0)"] += 1
            elif not (abs(latitude) <= 90 and abs(longitude) <= 180):
                dropped[FAULT] += 1
            else:
                yield cells[0], cells[2], cells[3]

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
    out.
    """
    dropped: Counter[str] = Counter()

    def rows(stream: Iterable[str]) -> Iterator[tuple[str, int, str, str]]:
        table = csv.DictReader(stream)
        if not {"TAXI_ID", "POLYLINE"} <= set(table.fieldnames or ()):
            raise InvalidInput(
                f"{original}: train.csv has the columns {table.fieldnames}; TAXI_ID and POLYLINE are needed"
            )
        seen = 0
        numbers = progress.track(range(trips), original.name, show=show)
        for trip, row in zip(numbers, table, strict=False):
            seen += 1
            polyline = json.loads(row["POLYLINE"], parse_float=str, parse_int=str)
            if not polyline:
                dropped["trip with an empty polyline"] += 1
            for longitude, latitude in polyline:
                yield row["TAXI_ID"], trip, _six_decimals(latitude), _six_decimals(longitude)
        if seen < trips:
            raise InvalidInput(f"{original}: train.csv ends after {seen} trips; {trips} are needed; get the whole file")

    with _open_train(original) as stream:
        count = _write_csv(target, ("taxi", "trip", "latitude", "longitude"), rows(stream))
    return Converted(count, dropped)


def read_geolife(folder: Path, *, show: bool = False) -> tuple[Floats, Mapping[str, int]]:
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
    possible = (np.abs(points[:, 0]) <= 180) & (np.abs(points[:, 1]) <= 90)
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
        rows = np.loadtxt(io.BytesIO(body), delimiter=",", usecols=(0, 1), ndmin=2, comments=None)
    except ValueError:
        rows = np.empty((0, 2))
    if len(rows) * PLT_COMMAS != body.count(b",") or not np.isfinite(rows).all():
        raise InvalidInput(f"{path}: a line is not 'latitude,longitude,0,altitude,days,date,time'; get the file again")
    return np.ascontiguousarray(rows[:, ::-1], dtype=np.float64)


def _six_decimals(number: str) -> str:
    return repr(round(float(number), 6))


def _open_train(original: Path) -> io.TextIOWrapper:
    """Open train.csv, wherever in the zip it is."""
    try:
        archive = zipfile.ZipFile(original)
        if "train.csv" not in archive.namelist() and "train.csv.zip" in archive.namelist():
            archive = zipfile.ZipFile(archive.open("train.csv.zip"))
        return io.TextIOWrapper(archive.open("train.csv"), encoding="utf-8", newline="")
    except (zipfile.BadZipFile, KeyError) as error:
        raise InvalidInput(f"{original}: is not the zip with train.csv ({error}); delete it and get it again") from None


def _write_csv(target: Path, header: tuple[str, ...], rows: Iterable[tuple[str | int, ...]]) -> int:
    """Write a gzip-compressed CSV whose bytes depend on the rows alone; return how many rows."""
    count = 0
    with replacing(target) as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
        text = io.TextIOWrapper(packed, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        for row in rows:
            writer.writerow(row)
            count += 1
        text.flush()
    return count
