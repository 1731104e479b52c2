"""Positions read from a file: CSV (also .gz), Parquet or GeoJSON.

Knows formats, column names, and how to say what is wrong with a file and where. Must not know the domain, nor
anything that is done with the points; it drops and repairs nothing.
"""

from __future__ import annotations

import array
import contextlib
import csv
import gzip
import io
import itertools
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from ..arrays import Floats, is_number
from ..errors import InvalidInput, MissingExtra

__all__ = ["Table", "read_points"]

X_NAMES = ("lon", "lng", "long", "longitude", "x")
Y_NAMES = ("lat", "latitude", "y")
LONGEST_HEADER = 1_000_000  # characters


@dataclass(frozen=True, eq=False)
class Table:
    """Positions and the other columns that were asked for.

    Attributes
    ----------
    points : float64[n, d]
        Finite positions in the order of the file, read-only.
    names : tuple of str
        The d columns that the points came from, as the file spells them.
    path : Path
        The file.
    values : mapping of str to float64[n]
        The columns asked for with `values`; finite, read-only.
    """

    points: Floats
    names: tuple[str, ...]
    path: Path
    values: Mapping[str, Floats] = field(default_factory=lambda: MappingProxyType({}))

    def __len__(self) -> int:
        return len(self.points)

    def place(self, row: int) -> str:
        """Where a row is in the file, for messages: its line, row or feature."""
        return _source(self.path).place(row)


def read_points(
    path: str | Path,
    *,
    x: str | None = None,
    y: str | None = None,
    columns: Sequence[str] | None = None,
    values: Sequence[str] = (),
) -> Table:
    """Read positions, and other numeric columns on request.

    Parameters
    ----------
    path : str or Path
        ``.csv``, ``.tsv``, ``.txt`` (with a header line; comma, semicolon or tab), ``.parquet``, ``.geojson``
        or ``.json`` (a FeatureCollection of Points: longitude first, by the rule of GeoJSON; a third number,
        the height, is not read). The text formats may end in ``.gz``.
    x, y : str, optional
        Names of the two columns, longitude and latitude for positions on Earth. Left out, a column called
        lon, lng, long, longitude or x, and one called lat, latitude or y, is taken if there is exactly one.
    columns : sequence of str, optional
        The columns of points with any number of dimensions, instead of `x` and `y`.
    values : sequence of str
        Other numeric columns (for GeoJSON: properties) to read along.

    Returns
    -------
    Table
        Points as float64[n, d], n ≥ 1. Empty lines of a CSV file are skipped; everything else counts.

    Raises
    ------
    InvalidInput
        With the file, the line, row or feature, and what to do: no such file, an empty file, a missing
        column, a line with too few or too many cells, a cell that is no number, NaN or infinity.
    MissingExtra
        For Parquet without pyarrow.
    """
    path = Path(path)
    if columns is not None and (x is not None or y is not None):
        raise InvalidInput("give either x and y, or columns; not both")
    if columns is not None and not columns:
        raise InvalidInput("columns is empty; name at least one column")
    if not path.is_file():
        raise InvalidInput(f"{path}: {'is a folder, not a file' if path.is_dir() else 'no such file'}; check the path")
    source = _source(path)
    names = _choose(source, x=x, y=y, columns=columns)
    others = [_spelled(source, name) for name in values]
    wanted = list(dict.fromkeys([*names, *others]))
    read = dict(zip(wanted, source.read(wanted), strict=True))
    if not len(read[names[0]]):
        raise InvalidInput(f"{path}: has no {source.row_word}s; there must be at least one position")
    for name, column in read.items():
        finite = np.isfinite(column)
        if not finite.all():
            row = int(np.argmin(finite))
            source.refuse(row, f"column {name!r} is {column[row]}", "every position and value must be finite")
        column.setflags(write=False)
    points = np.column_stack([read[name] for name in names])
    points.setflags(write=False)
    return Table(points, tuple(names), path, MappingProxyType({name: read[name] for name in others}))


class _Source:
    """One open question to a file: which columns there are, and their numbers."""

    row_word = "row"
    columns: tuple[str, ...] = ()

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, wanted: list[str]) -> list[Floats]:
        raise NotImplementedError

    def refuse(self, row: int, what: str, fix: str) -> NoReturn:
        raise InvalidInput(f"{self.path}, {self.place(row)}: {what}; {fix}")

    def place(self, row: int) -> str:
        return f"{self.row_word} {row}"


class _CsvFile(_Source):
    row_word = "data line"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with self._rows() as rows:
            header = next(rows, None)
        if header is None:
            raise InvalidInput(f"{path}: is empty; the first line must name the columns")
        names = tuple(name.strip() for name in header)
        if all(_is_number(name) for name in names):
            raise InvalidInput(
                f"{path}, line 1: holds numbers, not names; put a line with the column names before them"
            )
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise InvalidInput(f"{path}, line 1: column {repeated[0]!r} is there twice; rename one of them")
        self.columns = names

    def read(self, wanted: list[str]) -> list[Floats]:
        width = len(self.columns)
        places = [self.columns.index(name) for name in wanted]
        found = [array.array("d") for _ in wanted]
        jobs = [(store.append, place) for store, place in zip(found, places, strict=True)]
        with self._rows() as rows:
            next(rows)
            for row in rows:
                if len(row) != width:
                    self._refuse_line(rows.line_num, f"has {len(row)} cells, the header {width}", "mend that line")
                try:
                    for append, place in jobs:
                        append(float(row[place]))
                except ValueError:
                    name, cell = self.columns[place], row[place]
                    what = (
                        f"column {name!r} is empty"
                        if not cell.strip()
                        else f"column {name!r} is {cell[:60]!r}, not a number"
                    )
                    self._refuse_line(
                        rows.line_num, what, "mend the cell, leave the line out, or choose another column"
                    )
        return [np.frombuffer(store, dtype=np.float64) if store else np.empty(0) for store in found]

    def place(self, row: int) -> str:
        with self._rows() as rows:  # only on the way to an error: lines are not remembered while reading
            next(itertools.islice(rows, row + 1, None))
            return f"line {rows.line_num}"

    def _refuse_line(self, line: int, what: str, fix: str) -> NoReturn:
        raise InvalidInput(f"{self.path}, line {line}: {what}; {fix}")

    @contextlib.contextmanager
    def _rows(self) -> Iterator[_Rows]:
        with _open_text(self.path) as stream:
            rows = _Rows(stream, _delimiter(self.path, stream))
            try:
                yield rows
            except csv.Error as error:
                self._refuse_line(rows.line_num, f"is no CSV ({error})", "mend that line")
            except UnicodeDecodeError as error:
                raise InvalidInput(f"{self.path}: is not UTF-8 text ({error.reason}); save it as UTF-8") from None
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise InvalidInput(f"{self.path}: the gzip data is damaged ({error}); get the file again") from None


class _Rows:
    """csv.reader without the empty lines, with the number of the line it is at."""

    def __init__(self, stream: io.TextIOBase, delimiter: str) -> None:
        self._reader = csv.reader(stream, delimiter=delimiter, strict=True)
        self._filled = filter(None, self._reader)

    def __iter__(self) -> Iterator[list[str]]:
        return self._filled

    def __next__(self) -> list[str]:
        return next(self._filled)

    @property
    def line_num(self) -> int:
        return self._reader.line_num


class _ParquetFile(_Source):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise MissingExtra("pyarrow", "experiments") from None
        self._arrow: Any = pyarrow
        try:
            self._file: Any = pyarrow.parquet.ParquetFile(path)
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise InvalidInput(f"{path}: is no Parquet file ({str(error).splitlines()[0]}); check the file") from None
        self.columns = tuple(self._file.schema_arrow.names)

    def read(self, wanted: list[str]) -> list[Floats]:
        types = self._arrow.types
        schema = self._file.schema_arrow
        for name in wanted:
            kind = schema.field(name).type
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
                raise InvalidInput(f"{self.path}: column {name!r} holds {kind}, not numbers; choose another column")
        table = self._file.read(columns=wanted)
        found = []
        for name in wanted:
            column = table.column(name)
            if column.null_count:
                row = int(np.argmax(column.is_null().to_numpy()))
                self.refuse(row, f"column {name!r} is empty", "leave such rows out before you go on")
            found.append(np.array(column.cast("float64").to_numpy(), dtype=np.float64))
        return found


class _GeoJsonFile(_Source):
    row_word = "feature"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            with _open_text(path) as stream:
                content = json.load(stream)
        except json.JSONDecodeError as error:
            raise InvalidInput(f"{path}, line {error.lineno}: is no JSON ({error.msg}); mend the file") from None
        except (UnicodeDecodeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InvalidInput(f"{path}: cannot be read as UTF-8 text ({error}); get the file again") from None
        features = content.get("features") if isinstance(content, dict) else None
        if not isinstance(features, list) or content.get("type") != "FeatureCollection":
            raise InvalidInput(f"{path}: must be a GeoJSON FeatureCollection of Points; got {_kind(content)}")
        self._features = features
        properties = features[0].get("properties") if features and isinstance(features[0], dict) else None
        others = [str(name) for name in properties or {} if name not in ("longitude", "latitude")]
        self.columns = ("longitude", "latitude", *others)

    def read(self, wanted: list[str]) -> list[Floats]:
        found = [np.empty(len(self._features)) for _ in wanted]
        for row, feature in enumerate(self._features):
            position = self._position(row, feature)
            for store, name in zip(found, wanted, strict=True):
                if name in ("longitude", "latitude"):
                    store[row] = position[("longitude", "latitude").index(name)]
                else:
                    value = (feature.get("properties") or {}).get(name)
                    if not is_number(value):
                        self.refuse(
                            row,
                            f"property {name!r} is {value!r}, not a number",
                            "mend it or leave the feature out",
                        )
                    store[row] = value
        return found

    def _position(self, row: int, feature: Any) -> Sequence[float]:
        geometry = feature.get("geometry") if isinstance(feature, dict) else None
        if not isinstance(geometry, dict) or geometry.get("type") != "Point":
            got = geometry.get("type") if isinstance(geometry, dict) else geometry
            self.refuse(row, f"the geometry is {got!r}", "every feature must be a Point")
        position = geometry.get("coordinates")
        if not isinstance(position, list) or len(position) < 2 or not all(map(is_number, position)):
            self.refuse(row, f"the coordinates are {position!r}", "give [longitude, latitude]")
        return position


_READERS: Mapping[str, type[_Source]] = MappingProxyType(
    {
        ".csv": _CsvFile,
        ".tsv": _CsvFile,
        ".txt": _CsvFile,
        ".parquet": _ParquetFile,
        ".geojson": _GeoJsonFile,
        ".json": _GeoJsonFile,
    }
)


def _source(path: Path) -> _Source:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else (suffixes or [""])[-1]
    if kind not in _READERS:
        raise InvalidInput(f"{path}: cannot tell the format from the name; use .csv, .csv.gz, .parquet or .geojson")
    return _READERS[kind](path)


def _choose(source: _Source, *, x: str | None, y: str | None, columns: Sequence[str] | None) -> list[str]:
    if columns is not None:
        names = [_spelled(source, name) for name in columns]
    else:
        names = [
            _recognised(source, X_NAMES, "x") if x is None else _spelled(source, x),
            _recognised(source, Y_NAMES, "y") if y is None else _spelled(source, y),
        ]
    if len(set(names)) != len(names):
        raise InvalidInput(
            f"{source.path}: the same column is named twice ({', '.join(names)}); name different columns"
        )
    return names


def _spelled(source: _Source, name: str) -> str:
    if name in source.columns:
        return name
    same = [column for column in source.columns if column.lower() == name.lower()]
    if len(same) == 1:
        return same[0]
    raise InvalidInput(f"{source.path}: has no column {name!r}; it has {_listed(source.columns)}")


def _recognised(source: _Source, usual: tuple[str, ...], axis: str) -> str:
    found = [column for column in source.columns if column.lower() in usual]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InvalidInput(
            f"{source.path}: no column is called {', '.join(usual[:-1])} or {usual[-1]}; name the {axis} "
            "column out of "
            f"{_listed(source.columns)}"
        )
    raise InvalidInput(f"{source.path}: {_listed(found)} could all be the {axis} column; name the one you mean")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")


@contextlib.contextmanager
def _open_text(path: Path) -> Iterator[io.TextIOWrapper]:
    with contextlib.ExitStack() as stack:
        raw: Any = stack.enter_context(path.open("rb"))
        if path.suffix.lower() == ".gz":
            raw = stack.enter_context(gzip.GzipFile(fileobj=raw))
        yield stack.enter_context(io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""))


def _delimiter(path: Path, stream: io.TextIOWrapper) -> str:
    """Return the delimiter of the header line, and leave the stream at its start."""
    try:
        first = stream.readline(LONGEST_HEADER)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInput(f"{path}: the gzip data is damaged ({error}); get the file again") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: is not UTF-8 text ({error.reason}); save it as UTF-8") from None
    stream.seek(0)
    return max(",;\t", key=first.count)


def _kind(content: Any) -> str:
    return f"type {content.get('type')!r}" if isinstance(content, dict) else f"a {type(content).__name__}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
