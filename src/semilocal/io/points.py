"""Positions read from a file, and put into a public box.

Which column belongs to which axis, and what is wrong when positions do not fit. It drops and repairs nothing. Messages
name the place in the file, the axis and how many, never where anybody is: see :mod:`semilocal.engines.files`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np

from ..arrays import Floats, Integers, on_all_cores, short_repr, sort_on_all_cores
from ..engines.files import TableFile, open_file
from ..errors import InvalidInput, OutsideDomain
from ..geometry.box import Box, mistake_words
from ..geometry.places import LATITUDE
from ..geometry.units import is_geographic
from ..hierarchy.base import Hierarchy
from ..hierarchy.ranks import SortedCodes


@dataclass(frozen=True, eq=False)
class Table:
    """Positions and the other columns that were asked for; arrays are finite and read-only."""

    points: Floats  # float64[n, d], in the order of the file
    names: tuple[str, ...]  # the d columns that the points came from, as the file spells them
    path: Path
    values: Mapping[str, Floats] = field(default_factory=lambda: MappingProxyType({}))  # float64[n] each
    # int64[n] each: equal content has equal codes, an empty cell has -1
    labels: Mapping[str, Integers] = field(default_factory=lambda: MappingProxyType({}))

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.points)

    def place(self, row: int) -> str:
        """Where a row is in the file, for messages: its line, row or feature."""
        return open_file(self.path).place(row)


def read_points(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    values: Sequence[str] = (),
    labels: Sequence[str] | Callable[[Sequence[str]], Sequence[str]] = (),
    words: Mapping[str, float] | None = None,
    row_is: str = "position",
) -> Table:
    """Read positions, n ≥ 1, and other columns on request.

    Files are ``.csv``, ``.tsv``, ``.txt`` (with a header line; comma, semicolon or tab), ``.parquet`` (columns of
    numbers, or the points of a GeoParquet file), ``.geojson`` or ``.json`` (a FeatureCollection of Points: longitude
    first); text may end in ``.gz``. Empty lines of a CSV file are skipped; everything else counts. What is wrong is
    refused with the file, the line, row or feature, and what to do.

    ``columns`` are those of the axes, longitude before latitude. Left out, one called lon, lng, long, longitude or x,
    and one called lat, latitude or y, is taken if there is exactly one. ``values`` are other numeric columns (or
    properties), ``labels`` columns of any content to read as codes; a callable chooses them out of all columns. With
    ``words`` positions are words, which these numbers stand for; others are refused. ``row_is`` is for the message
    about a file that has no rows.
    """
    path = Path(path)
    if columns is not None and not columns:
        raise InvalidInput("columns is empty; name at least one column")
    file = _opened(path)
    names = _choose(file, columns)
    others = [file.spelled(name) for name in values]
    coded = [file.spelled(name) for name in (labels(file.columns) if callable(labels) else labels)]
    stand = [] if words is None else [_stand_for(file, name, words) for name in names]
    wanted = list(dict.fromkeys([*(names if words is None else ()), *others]))
    numbers, codes = file.read(wanted, coded)
    numbers.setflags(write=False)
    if not (numbers.shape[1] if words is None else len(stand[0])):
        raise InvalidInput(f"{path}: has no {file.row_word}s; there must be at least one {row_is}")
    read = dict(zip(wanted, numbers, strict=True))
    ends = on_all_cores(lambda column: (column.min(), column.max()), list(read.values()))  # NaN is both
    for (name, column), both in zip(read.items(), ends, strict=True):
        if not np.isfinite(both).all():
            row = int(np.argmin(np.isfinite(column)))
            file.refuse(row, f"column {name!r} is NaN or infinite", "every position and value must be finite")
    points = numbers[: len(names)].T if words is None else np.column_stack(stand)  # every column stays in one piece
    points.setflags(write=False)
    return Table(
        points, tuple(names), path, MappingProxyType({name: read[name] for name in others}),
        MappingProxyType(dict(zip(coded, codes, strict=True))),
    )  # fmt: skip


def read_located(path: Path, columns: Sequence[str], tree: Hierarchy) -> SortedCodes | None:
    """The deepest cells of all positions in a file, in the order of the tree: 8 bytes of a position are kept.

    The numbers of the whole file are never in memory together. None if there is no row, anything is wrong with one, or
    the file is better read line by line; :func:`read_points` says why.
    """
    file = open_file(path)
    if not file.in_batches():
        return None
    start, parts = 0, [np.empty(0, dtype=np.uint64)]
    try:
        for batch in file.rows(columns, ()).batches(columns):
            numbers = file.numbers(batch, columns, start)
            parts.append(tree.codes(np.stack(numbers).T))  # every column stays in one piece
            start += len(batch)
    except InvalidInput:
        return None
    codes = np.concatenate(parts)
    sort_on_all_cores(codes)
    return SortedCodes(codes) if start else None


def choose_columns(
    path: Path, *, columns: Sequence[str] | None = None, values: Sequence[str] = ()
) -> tuple[list[str], tuple[str, ...], tuple[str, ...]]:
    """The columns that hold the positions and values of a file, as it spells them, and all columns that it has.

    Parameters are those of :func:`read_points`.
    """
    file = _opened(path)
    names = _choose(file, columns)
    return names, tuple(map(file.spelled, values)), file.columns


def _opened(path: Path) -> TableFile:
    if not path.is_file():
        other = "is a pipe or a device, not a file" if path.exists() else "no such file"
        raise InvalidInput(f"{path}: {'is a folder, not a file' if path.is_dir() else other}; check the path")
    return open_file(path)


def _choose(file: TableFile, columns: Sequence[str] | None) -> list[str]:
    names = [file.recognised(axis) for axis in (0, 1)] if columns is None else [file.spelled(name) for name in columns]
    if len(set(names)) != len(names):
        raise InvalidInput(f"{file.path}: the same column is named twice ({', '.join(names)}); name different columns")
    return names


def _stand_for(file: TableFile, name: str, words: Mapping[str, float]) -> Floats:
    """The numbers that stand for the words of a column."""
    (texts,) = file.texts([name])
    found = np.array([words.get(str(text).strip(), np.nan) for text in texts])
    unknown = np.isnan(found)
    if unknown.any():
        file.refuse(
            int(np.argmax(unknown)), f"column {name!r} holds no leaf of the table ({np.count_nonzero(unknown):,} such)",
            "correct it, or remove the row",
        )  # fmt: skip
    return found


# -- positions in a public box ---------------------------------------------------------------------------------------


MOST_CLIPPED = 0.1  # share of the rows that may be moved to the edge


def fit(table: Table, box: Box, *, clip: bool = False) -> Floats:
    """The points inside a box, float64[n, d]; refused with the first place outside and the likely mistake.

    With ``clip``, points outside move to the nearest edge, but not more than a tenth of them.
    """
    if box.holds(table.points):
        return table.points
    clipped, moved = box.nearest(table.points)
    mistake = mistake_words(table.points, box)
    share = moved / len(table)
    if clip and share <= MOST_CLIPPED and not mistake:
        return clipped
    row = int(np.argmax((clipped != table.points).any(axis=1)))
    what = f"{table.path}: {moved:,} of {len(table):,} positions lie outside {box}, the first in {table.place(row)}"
    if mistake:
        raise OutsideDomain(f"{what}. {mistake}")
    if clip:
        raise OutsideDomain(
            f"{what}; --clip moves at most a tenth of them, more would change the result. Take a larger public box"
        )
    edge = ", or move them to the edge with --clip" if share <= MOST_CLIPPED else ""
    raise OutsideDomain(f"{what}; take a larger public box, or remove them{edge}")


def read_for_box(
    path: str | Path, box: Box, *, labels: Sequence[str] | Callable[[Sequence[str]], Sequence[str]] = (),
    values: Sequence[str] = (), words: Mapping[str, float] | None = None,
) -> Table:  # fmt: skip
    """Positions of a file with the columns in the order of the box's axes; they may lie outside.

    Columns with the names of the axes are taken; else, in two dimensions, the columns for longitude and latitude (or
    x and y), longitude first unless the axes say otherwise. Other parameters are those of :func:`read_points`.
    """
    try:
        return read_points(path, columns=list(box.names), labels=labels, values=values, words=words)
    except InvalidInput:
        if box.dimensions != 2:
            raise
    table = read_points(path, labels=labels, values=values)
    if is_geographic(box) and box.names[0].lower() in LATITUDE:
        return dataclasses.replace(table, points=table.points[:, ::-1], names=table.names[::-1])
    return table
