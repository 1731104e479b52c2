"""The datasets of the experiments: what they are (``catalogue.toml``), and how they are found, read and sampled.

Datasets are read as CSV, or in the layout of their public homes: SNAP check-ins, Porto's zip, GeoLife's folders. Knows
a data folder and the package's own sample. Knows no mechanism, no figure and no network. Nothing is left out in
silence: what a reader drops stands in the notes of the result.
"""

from __future__ import annotations

import csv
import functools
import gzip
import hashlib
import importlib.resources
import io
import itertools
import json
import os
import tomllib
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import msgspec
import numpy as np

from ...arrays import Floats, Integers
from ...errors import InvalidInput
from ...geometry.box import Box
from ...geometry.places import DEGREES, named_box
from ...io.points import read_points

VARIABLE = "SEMILOCAL_DATA"
SHIPPED = "california_housing"
GEOLIFE_FOLDERS = ("geolife", "Geolife Trajectories 1.3", ".")
TABLES = "dpbench/tables2d.npz"
TABLE_SIDE = 128  # cells per axis of a table of DPBench, after it was aggregated
PORTO_TRIPS = 7_732  # the first two days, 2013-07-01 00:00 to 2013-07-02 16:17 UTC
PLT_HEADER = 6  # lines
PLT_COMMAS = 6  # in each line after the header
FAULT = "position outside latitude ±90 or longitude ±180"


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One file (or folder) that a dataset can be read from."""

    file: str  # its path inside the data folder
    place: str | tuple[float, float, float, float] = msgspec.field(name="box")  # or west, south, east, north
    note: str  # how it differs from the original
    rows: int | None = None  # None where it depends on what the home holds today
    layout: Literal["csv", "snap", "porto", "geolife"] = "csv"
    url: str = ""  # where it comes from as it is
    sha256: str | None = None

    @property
    def box(self) -> Box:
        """The public domain of an experiment on it, in degrees."""
        if isinstance(self.place, str):
            return named_box(self.place)
        return Box(self.place[:2], self.place[2:], names=DEGREES)


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset: the variants in order of preference, its home, its terms, whom to cite."""

    name: str
    title: str
    columns: tuple[str, ...]
    variants: tuple[Variant, ...]
    home: str
    terms: str
    citation: str
    by_hand: str = ""


def dataset(name: str) -> Dataset:
    """Return the entry of a dataset, or say which there are.

    Examples
    --------
    >>> dataset("porto").columns
    ('taxi', 'trip', 'latitude', 'longitude')
    """
    if name not in CATALOGUE:
        raise InvalidInput(f"no dataset is called {name!r}; there are {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


_TOML = tomllib.loads((importlib.resources.files(__package__) / "catalogue.toml").read_text(encoding="utf-8"))
CATALOGUE: Mapping[str, Dataset] = MappingProxyType(
    {entry.name: entry for entry in msgspec.convert(_TOML["dataset"], tuple[Dataset, ...])}
)


@dataclass(frozen=True, eq=False)
class Positions:
    """A dataset in memory."""

    name: str
    points: Floats  # float64[n, 2], longitude and latitude in degrees, read-only, inside `box`
    box: Box  # the public domain: a constant of the catalogue, not taken from the points
    path: Path
    notes: tuple[str, ...]  # which variant it is, and what was left out
    fingerprint: str  # of the points' SHA-256: a parameter that tells results on other data apart


def data_folder(folder: str | Path | None = None) -> Path:
    """The data folder: the one given, or the one that SEMILOCAL_DATA names."""
    named = folder if folder is not None else os.environ.get(VARIABLE)
    if not named:
        raise InvalidInput(f"no data folder is known; give one (--data FOLDER) or set {VARIABLE}")
    path = Path(named).expanduser()
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"the data folder {path} is a file; name a folder")
    return path


def load(name: str, folder: str | Path | None = None) -> Positions:
    """All positions of a dataset; California Housing needs no folder.

    Of several variants the first that is present is read; ``Positions.notes`` says which. A dataset that was read stays
    in memory (the last four), as long as its file does not change. One that is not there is refused, with the way to
    get it.
    """
    entry = dataset(name)
    found = _find(entry, folder)
    if found is None:
        where = data_folder(folder)
        files = " or ".join(variant.file for variant in entry.variants)
        raise InvalidInput(
            f"{name} is not in {where}: no {files}; get it from {entry.home} (terms: {entry.terms}), or name another "
            f"folder{'. ' + entry.by_hand if entry.by_hand else ''}"
        )
    path, variant = found
    changed = path.stat()
    return _read(entry.name, variant, path, changed.st_mtime_ns, changed.st_size)


def tables(folder: str | Path | None = None) -> tuple[Path, tuple[str, ...]]:
    """The file with the tables of DPBench, and their names; refused if it is not there, with the way to get it."""
    path = data_folder(folder) / TABLES
    if not path.is_file():
        raise InvalidInput(
            f"the tables of DPBench are not in {path.parent.parent}: no {TABLES}; make it from the 2-D tables of "
            "github.com/dpcomp-org/dpcomp_core (dpcomp_core/datafiles/2D), every table as an array of 256 x 256 counts "
            "under its name, with numpy.savez_compressed"
        )
    with np.load(path) as found:
        return path, tuple(sorted(found.files))


def table(name: str, folder: str | Path | None = None) -> Floats:
    """A table of DPBench, aggregated to 128 x 128 cells: counts, float64[128, 128]."""
    path, names = tables(folder)
    if name not in names:
        raise InvalidInput(f"{path} has no table {name!r}; there are {', '.join(names)}")
    with np.load(path) as found:
        counts = np.asarray(found[name], dtype=np.float64)
    parts = 2 * TABLE_SIDE
    if counts.shape != (parts, parts) or not counts.sum() > 0 or counts.min() < 0:
        raise InvalidInput(f"{path}: {name} must hold {parts} x {parts} counts; got {counts.shape}")
    return np.asarray(counts.reshape(TABLE_SIDE, 2, TABLE_SIDE, 2).sum(axis=(1, 3)))


def sample_users(name: str, n: int, rng: np.random.Generator, *, folder: str | Path | None = None) -> Floats:
    """The positions of one trial: n rows without replacement, scaled from the public box to [0, 1]²: float64[n, 2].

    Every row drawn counts as one participant, as in the paper: most datasets have fewer people than N.
    """
    source = load(name, folder)
    if not 1 <= n <= len(source.points):
        raise InvalidInput(f"n must be between 1 and the {len(source.points)} positions of {name}; got {n}")
    chosen = rng.choice(len(source.points), size=n, replace=False, shuffle=False)
    return _scaled(source, chosen)


def sample_people(name: str, n: int, rng: np.random.Generator, *, folder: str | Path | None = None) -> Floats:
    """One row at random of each of n different people, as :func:`sample_users`; the dataset needs a column ``user``."""
    source = load(name, folder)
    people = _people(source)
    order = rng.permutation(len(people))
    _, first = np.unique(people[order], return_index=True)  # one row per person, each of theirs equally likely
    if not 1 <= n <= len(first):
        raise InvalidInput(f"n must be between 1 and the {len(first)} people of {name}; got {n}")
    chosen = order[rng.choice(first, size=n, replace=False, shuffle=False)]
    return _scaled(source, chosen)


def _scaled(source: Positions, chosen: Integers) -> Floats:
    lower, upper = np.array(source.box.lower), np.array(source.box.upper)
    return np.asarray((source.points[chosen] - lower) / (upper - lower))


@functools.lru_cache(maxsize=4)
def _people(source: Positions) -> Integers:
    """Which person each row belongs to."""
    if "user" not in dataset(source.name).columns:
        raise InvalidInput(f"{source.name} does not tell which rows belong to one person")
    return read_points(source.path, columns=["longitude", "latitude"], labels=["user"]).labels["user"]


@functools.lru_cache(maxsize=4)
def _read(name: str, variant: Variant, path: Path, _changed: int, _size: int) -> Positions:
    notes = [f"{path.name}: {variant.note}"]
    if variant.sha256 and variant.sha256 != sha256_of(path):
        notes.append(f"{path} is not the known file: its checksum differs")
    if variant.layout == "csv":
        points = variant.box.check(read_points(path, columns=["longitude", "latitude"]).points)
    else:
        points, dropped = READERS[variant.layout](path)
        inside = ((points >= variant.box.lower) & (points <= variant.box.upper)).all(axis=1)
        if outside := len(points) - int(np.count_nonzero(inside)):
            dropped[f"point outside {variant.box}"] = outside
            points = points[inside]
        notes += [f"{reason}: {count:,} left out" for reason, count in dropped.items()]
    if not len(points):
        raise InvalidInput(f"{path}: holds no position inside {variant.box}; check the folder")
    points.setflags(write=False)
    fingerprint = hashlib.sha256(np.ascontiguousarray(points).tobytes()).hexdigest()[:12]
    return Positions(name, points, variant.box, path, tuple(notes), fingerprint)


def _find(entry: Dataset, folder: str | Path | None) -> tuple[Path, Variant] | None:
    """The first variant that is present, and where."""
    if entry.name == SHIPPED:
        # A wheel is unpacked when it is installed: the sample is a real file.
        return Path(str(importlib.resources.files("semilocal") / "data" / entry.variants[0].file)), entry.variants[0]
    where = data_folder(folder)
    for variant in entry.variants:
        if variant.layout == "geolife":
            for inside in GEOLIFE_FOLDERS:
                if next((where / inside).glob("Data/*/Trajectory/*.plt"), None) is not None:
                    return where / inside, variant
        elif (where / variant.file).is_file():
            return where / variant.file, variant
    return None


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file as 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# -- the layouts of public homes ---------------------------------------------------------------------------------------


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


READERS = {"snap": read_snap, "porto": read_porto, "geolife": read_geolife}
