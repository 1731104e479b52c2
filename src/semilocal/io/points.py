"""Positions read from a file: CSV (also .gz), Parquet or GeoJSON.

Knows column names. Knows no domain. It drops and repairs nothing. Messages
name the place in the file, never what stands there: it may be somebody's position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np

from ..arrays import Floats, Integers, on_all_cores, short_repr
from ..errors import InvalidInput, listed_columns
from ..geometry.places import LATITUDE, LONGITUDE
from .sources import TableFile, open_source

__all__ = ["Table", "choose_columns", "read_points"]

X_NAMES = (*LONGITUDE, "x")
Y_NAMES = (*LATITUDE, "y")


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
    labels : mapping of str to int64[n]
        The columns asked for with `labels`: equal content has equal codes, an empty cell has -1.
    """

    points: Floats
    names: tuple[str, ...]
    path: Path
    values: Mapping[str, Floats] = field(default_factory=lambda: MappingProxyType({}))
    labels: Mapping[str, Integers] = field(default_factory=lambda: MappingProxyType({}))

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.points)

    def place(self, row: int) -> str:
        """Where a row is in the file, for messages: its line, row or feature."""
        return open_source(self.path).place(row)


def read_points(
    path: str | Path,
    *,
    x: str | None = None,
    y: str | None = None,
    columns: Sequence[str] | None = None,
    values: Sequence[str] = (),
    labels: Sequence[str] | Callable[[Sequence[str]], Sequence[str]] = (),
    words: Mapping[str, float] | None = None,
    row_is: str = "position",
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
    labels : sequence of str, or callable
        Columns of any content to read along as codes; a callable chooses them out of all columns of the file.
    words : mapping of str to float, optional
        The positions are words, and these are the numbers that stand for them; others are refused. Not for GeoJSON.
    row_is : str
        What a row is, for the message about a file that has none.

    Returns
    -------
    Table
        Points as float64[n, d], n ≥ 1. Empty lines of a CSV file are skipped; everything else counts.

    Raises
    ------
    InvalidInput
        With the file, the line, row or feature, and what to do: no such file, an empty file, a missing
        column, a line with too few or too many cells, a cell that is not a number, NaN or infinity.
    MissingExtra
        For Parquet without pyarrow.
    """
    path = Path(path)
    if columns is not None and (x is not None or y is not None):
        raise InvalidInput("give either x and y, or columns; not both")
    if columns is not None and not columns:
        raise InvalidInput("columns is empty; name at least one column")
    if not path.is_file():
        other = "is a pipe or a device, not a file" if path.exists() else "no such file"
        raise InvalidInput(f"{path}: {'is a folder, not a file' if path.is_dir() else other}; check the path")
    source = open_source(path)
    names = _choose(source, x=x, y=y, columns=columns)
    others = [_spelled(source, name) for name in values]
    coded = [_spelled(source, name) for name in (labels(source.columns) if callable(labels) else labels)]
    stand = [] if words is None else [_stand_for(source, name, words) for name in names]
    wanted = list(dict.fromkeys([*(names if words is None else ()), *others]))
    numbers, codes = source.read(wanted, coded)
    numbers.setflags(write=False)
    if not (numbers.shape[1] if words is None else len(stand[0])):
        raise InvalidInput(f"{path}: has no {source.row_word}s; there must be at least one {row_is}")
    read = dict(zip(wanted, numbers, strict=True))
    ends = on_all_cores(lambda column: (column.min(), column.max()), list(read.values()))  # NaN is both
    for (name, column), both in zip(read.items(), ends, strict=True):
        if not np.isfinite(both).all():
            row = int(np.argmin(np.isfinite(column)))
            source.refuse(row, f"column {name!r} is NaN or infinite", "every position and value must be finite")
    points = numbers[: len(names)].T if words is None else np.column_stack(stand)  # every column stays in one piece
    points.setflags(write=False)
    return Table(
        points, tuple(names), path, MappingProxyType({name: read[name] for name in others}),
        MappingProxyType(dict(zip(coded, codes, strict=True))),
    )  # fmt: skip


def choose_columns(
    path: Path, *, x: str | None = None, y: str | None = None, columns: Sequence[str] | None = None,
    values: Sequence[str] = (),
) -> tuple[list[str], tuple[str, ...], tuple[str, ...]]:  # fmt: skip
    """The columns that hold the positions and values of a file, as it spells them, and all columns that it has.

    Parameters are those of :func:`read_points`.
    """
    if columns is not None and (x is not None or y is not None):
        raise InvalidInput("give either x and y, or columns; not both")
    source = open_source(path)
    names = _choose(source, x=x, y=y, columns=columns)
    return names, tuple(_spelled(source, name) for name in values), source.columns


def _choose(source: TableFile, *, x: str | None, y: str | None, columns: Sequence[str] | None) -> list[str]:
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


def _stand_for(source: TableFile, name: str, words: Mapping[str, float]) -> Floats:
    """The numbers that stand for the words of a column."""
    (texts,) = source.texts([name])
    found = np.array([words.get(str(text).strip(), np.nan) for text in texts])
    unknown = np.isnan(found)
    if unknown.any():
        source.refuse(
            int(np.argmax(unknown)), f"column {name!r} holds no leaf of the table ({np.count_nonzero(unknown):,} such)",
            "correct it, or remove the row",
        )  # fmt: skip
    return found


def _spelled(source: TableFile, name: str) -> str:
    if name in source.columns:
        return name
    same = [column for column in source.columns if column.lower() == name.lower()]
    if len(same) == 1:
        return same[0]
    raise InvalidInput(f"{source.path}: has no column {name!r}; it has {listed_columns(source.columns)}")


def _recognised(source: TableFile, usual: tuple[str, ...], axis: str) -> str:
    found = [column for column in source.columns if column.lower() in usual]
    if len(found) == 1:
        return found[0]
    if not found:
        fix = f"name the {axis} column out of {listed_columns(source.columns)}"
        if "geometry" in source.columns:
            fix = "points of 'geometry' are not read: write longitude and latitude as columns, or save as .geojson"
        raise InvalidInput(f"{source.path}: no column is called {', '.join(usual[:-1])} or {usual[-1]}; {fix}")
    raise InvalidInput(f"{source.path}: {listed_columns(found)} could all be the {axis} column; name the one you mean")
