"""The datasets of the experiments: load, sample, describe.

Knows the catalogue, a data folder and the package's own sample. Knows no mechanism, no figure and no network. Nothing
is left out in silence: what a loader drops stands in the notes of the result.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...arrays import Floats, Integers
from ...errors import InvalidInput
from ...geometry.box import Box
from ...io.points import read_points
from .catalogue import CATALOGUE, Dataset, Variant, dataset
from .originals import read_geolife, read_porto, read_snap

__all__ = [
    "TABLE_SIDE", "VARIABLE", "FileStatus", "Positions", "data_folder", "describe", "load", "sample_people",
    "sample_users", "sha256_of", "status", "table", "tables",
]  # fmt: skip

VARIABLE = "SEMILOCAL_DATA"
SHIPPED = "california_housing"
GEOLIFE_FOLDERS = ("geolife", "Geolife Trajectories 1.3", ".")
TABLES = "dpbench/tables2d.npz"
TABLE_SIDE = 128  # cells per axis of a table of DPBench, after it was aggregated
READERS = {"snap": read_snap, "porto": read_porto, "geolife": read_geolife}  # what homes hand out


@dataclass(frozen=True, eq=False)
class Positions:
    """A dataset in memory."""

    name: str
    points: Floats  # float64[n, 2], longitude and latitude in degrees, read-only, inside `box`
    box: Box  # the public domain: a constant of the catalogue, not taken from the points
    path: Path
    notes: tuple[str, ...]  # which variant it is, and what was left out
    fingerprint: str  # of the points' SHA-256: a parameter that tells results on other data apart


@dataclass(frozen=True)
class FileStatus:
    """Whether a dataset is there: the variant found, its size, and whether it is the known file."""

    name: str
    path: Path | None = None
    bytes: int = 0
    state: str = "not there"


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
            f"{name} is not in {where}: no {files}; 'semilocal data describe {name}' says where to get it; or name "
            "another folder"
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


def status(folder: str | Path | None = None) -> list[FileStatus]:
    """What is on disk, one entry per dataset. Files with a known checksum are checked against it."""
    return [_status(entry, folder) for entry in CATALOGUE.values()]


def describe(name: str, folder: str | Path | None = None) -> str:
    """Where a dataset comes from, its terms, its checksums and what is on disk: a text of a few lines."""
    entry, state = dataset(name), _status(dataset(name), folder)
    rows = [("columns", ", ".join(entry.columns))]
    for variant in entry.variants:
        rows += [
            ("file", variant.file + (f", {variant.rows:,} rows" if variant.rows else "")),
            ("", variant.note),
            ("", f"domain {variant.box}"),
        ]
        rows += [("", f"from {variant.url}")] if variant.url else []
        rows += [("", f"sha256 {variant.sha256}")] if variant.sha256 else []
    rows += [("home", entry.home), ("terms", entry.terms), ("cite", entry.citation)]
    if entry.by_hand:
        rows.append(("by hand", entry.by_hand))
    rows.append(("on disk", state.state + (f": {state.path}, {state.bytes:,} bytes" if state.path else "")))
    return "\n".join([f"{entry.name}: {entry.title}", *(f"  {what:<9}  {text}" for what, text in rows)])


@functools.lru_cache(maxsize=4)
def _read(name: str, variant: Variant, path: Path, _changed: int, _size: int) -> Positions:
    notes = [f"{path.name}: {variant.note}"]
    if _check(path, variant) == "differs":
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


def _status(entry: Dataset, folder: str | Path | None) -> FileStatus:
    has_folder = entry.name == SHIPPED or folder is not None or bool(os.environ.get(VARIABLE))
    found = _find(entry, folder) if has_folder else None
    if found is None:
        return FileStatus(entry.name) if has_folder else FileStatus(entry.name, state="no data folder named")
    path, variant = found
    if path.is_dir():
        files = list(path.glob("Data/*/Trajectory/*.plt"))
        return FileStatus(entry.name, path, sum(file.stat().st_size for file in files), f"{len(files):,} trajectories")
    words = {"same": "there, checksum verified", "differs": "there, but the checksum differs", "unknown": "there"}
    return FileStatus(entry.name, path, path.stat().st_size, words[_check(path, variant)])


def _check(path: Path, variant: Variant) -> str:
    if variant.sha256 is None:
        return "unknown"
    return "same" if sha256_of(path) == variant.sha256 else "differs"


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file as 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
