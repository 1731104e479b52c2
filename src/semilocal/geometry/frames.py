"""Positions and other columns out of data frames: pandas, polars (also lazy), Arrow, DuckDB, geopandas.

Columns are matched by the names of the domain's axes. Everything is read in one go, because a lazy frame may give its
rows in another order the next time. Messages name columns and rows, never what stands there. Knows names of axes. Knows
no participants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..errors import InvalidInput, listed_columns, optional
from .box import Box, is_frame
from .places import DEGREES, LATITUDE, LONGITUDE
from .units import check_crs, latitude_first


def frame_points(frame: Any, box: Box, others: Sequence[str] = ()) -> tuple[Floats, list[npt.NDArray[Any]]]:
    """Positions in the order of a domain's axes, float64[n, d], and ``others``, further columns of the same rows.

    Of a data frame, or a series for one dimension, the columns are taken that are called like the axes; longitude and
    latitude in any usual spelling. A GeoDataFrame or GeoSeries gives the points of its geometry instead; its CRS must
    fit.
    """
    if hasattr(frame, "crs"):
        return _geometry_points(frame, box), frame_columns(frame, others) if others else []
    frame = _with_index(frame)
    table = _opened(frame, allow_series=True, pass_through=True)
    if table is frame:
        raise InvalidInput(f"points must be an array or a data frame; got {type(frame).__name__}")
    if isinstance(table, _narwhals().Series):
        if box.dimensions != 1 or others:
            raise InvalidInput(f"one column is one dimension; the domain has {box.dimensions}; give a frame")
        return _numbers(table, table.name or box.names[0])[:, None], []
    names = table.collect_schema().names()
    axes = [_column_for(axis, names) for axis in box.names]
    found = _columns(table, [*axes, *others], names)
    points = np.column_stack([_numbers(column, column.name) for column in found[: len(axes)]])
    return points, [_content(column) for column in found[len(axes) :]]


def is_axis(name: str, box: Box) -> bool:
    """Whether a column of this name would be taken for an axis."""
    return any(name == axis or name.lower() in _usual(axis) for axis in box.names)


def degree_names(frame: Any) -> tuple[str, ...]:
    """The columns of a frame that are called like longitude and latitude, or those of a CRS in degrees; else none."""
    if getattr(getattr(frame, "crs", None), "is_geographic", False):
        return DEGREES
    names = column_names(frame) if is_frame(frame) else []
    found = [[name for name in names if name.lower() in usual] for usual in (LONGITUDE, LATITUDE)]
    return (found[0][0], found[1][0]) if [*map(len, found)] == [1, 1] else ()


def axes_in_order(names: Sequence[str], box: Box) -> list[str]:
    """The columns of the axes, in their order; the columns as they are if they are not called like the axes."""
    try:
        return [_column_for(axis, names) for axis in box.names]
    except InvalidInput:
        return list(names)


def frame_columns(frame: Any, names: Sequence[str]) -> list[npt.NDArray[Any]]:
    """Columns of any content without gaps."""
    table = _opened(_with_index(frame))
    return [_content(column) for column in _columns(table, names, table.collect_schema().names())]


def column_names(frame: Any) -> list[str]:
    """The names of a frame's columns and of its index; none of a series, or of what is not a frame that we know."""
    frame = _with_index(frame)
    table = _opened(frame, allow_series=True, pass_through=True)
    if table is frame or isinstance(table, _narwhals().Series):
        return []
    return [name for name in table.collect_schema().names() if isinstance(name, str)]


def count_content(frame: Any, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """How many rows of each column hold something, and how many different things: gaps and blank text do not count."""
    if not names:
        return {}
    table = _opened(_with_index(frame))
    found = {}
    for name, column in zip(names, _columns(table, names, table.collect_schema().names()), strict=True):
        filled = column.drop_nulls()
        if filled.dtype == _narwhals().String:
            filled = filled.str.strip_chars()
            filled = filled.filter(filled != "")
        found[name] = len(filled), filled.n_unique()
    return found


def check_index(frame: Any, column: Any, name: str) -> None:
    """Refuse a column that is not part of a frame if both have an index and it is not the same.

    By their places or by their labels: only those who give them know which rows belong together. What has no index
    (arrays, lists, polars, Arrow) is always taken by its place. ``name`` is that of the option.
    """
    ours, theirs = _index_of(frame), _index_of(column)
    if ours is None or theirs is None or len(ours) != len(theirs) or ours.equals(theirs):
        return
    raise InvalidInput(
        f"{name} has another index than the points, or the same in another order, so it is not clear which rows belong "
        f"together; put it into the frame and name the column ({name}='...'), or leave out its index "
        f"({name}.to_numpy()) if both have the same rows in the same order"
    )


def _index_of(data: Any) -> Any:
    """The index of a pandas frame or series; a list has a method of this name."""
    index = getattr(data, "index", None)
    return index if hasattr(index, "equals") else None


def _with_index(frame: Any) -> Any:
    """A pandas frame with the named levels of its index as columns: they may say whose row it is."""
    levels = getattr(getattr(frame, "index", None), "names", None)
    if levels is None or not hasattr(frame, "columns"):
        return frame
    named = [name for name in levels if isinstance(name, str) and name not in frame.columns]
    return frame.reset_index(level=named) if named else frame


def _opened(frame: Any, **named: Any) -> Any:
    narwhals = _narwhals()
    try:
        return narwhals.from_native(frame, **named)
    except narwhals.exceptions.DuplicateError:
        raise InvalidInput("two columns of the frame have the same name; rename or drop one of them") from None


def _narwhals() -> Any:
    return optional("narwhals", "frames")


def _columns(table: Any, wanted: Sequence[str], names: Sequence[str]) -> list[Any]:
    missing = [name for name in wanted if name not in names]
    if missing:
        raise InvalidInput(f"the frame has no column {missing[0]!r}; it has {listed_columns(names)}")
    chosen = table.select(*dict.fromkeys(wanted))
    chosen = chosen.collect() if hasattr(chosen, "collect") else chosen
    return [chosen[name] for name in wanted]


def _column_for(axis: str, names: Sequence[str]) -> str:
    """The column of an axis: its name, in any case, or another usual spelling of longitude or latitude."""
    if axis in names:
        return axis
    found = [name for name in names if isinstance(name, str) and name.lower() in _usual(axis)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInput(
            f"{listed_columns(found)} could all be the axis {axis!r}; leave one, or name the axis like it"
        )
    raise InvalidInput(
        f"the frame has no column for the axis {axis!r}; it has {listed_columns(names)}; rename the columns, or name "
        "the axes of the box like them: Box(lower, upper, names=...)"
    )


def _usual(axis: str) -> tuple[str, ...]:
    """Spellings of an axis, in small letters."""
    return next((some for some in (LONGITUDE, LATITUDE) if axis.lower() in some), (axis.lower(),))


def _numbers(column: Any, name: str) -> Floats:
    if not column.dtype.is_numeric():
        raise InvalidInput(f"column {name!r} holds {column.dtype}, not numbers; convert it first")
    _refuse_gaps(column, name)
    return np.asarray(column.cast(_narwhals().Float64).to_numpy(), dtype=np.float64)


def _content(column: Any) -> npt.NDArray[Any]:
    _refuse_gaps(column, column.name)
    return np.asarray(column.to_numpy())


def _refuse_gaps(column: Any, name: str) -> None:
    gaps = np.asarray(column.is_null().to_numpy(), dtype=bool)
    if gaps.any():
        raise InvalidInput(
            f"column {name!r} is empty in {int(np.count_nonzero(gaps)):,} of {len(gaps):,} rows, the first is row "
            f"{int(np.argmax(gaps))}; remove such rows first"
        )


def _geometry_points(frame: Any, box: Box) -> Floats:
    """Positions of a GeoDataFrame or GeoSeries of points."""
    import shapely

    if box.dimensions != 2:
        raise InvalidInput(f"geometries have two dimensions; the domain has {box.dimensions}")
    check_crs(frame.crs, box, what="the points")
    shapes = np.asarray(frame.geometry.values, dtype=object)
    wrong = (shapely.get_type_id(shapes) != 0) | shapely.is_empty(shapes)
    if wrong.any():
        row = int(np.argmax(wrong))
        empty = "empty " if shapely.is_empty(shapes[row]) else ""
        kind = "missing" if shapes[row] is None else f"{empty}{shapes[row].geom_type}"
        raise InvalidInput(f"the geometry of row {row} is {kind}, not a Point; correct or remove it")
    points = np.asarray(shapely.get_coordinates(shapes), dtype=np.float64)
    return points[:, ::-1] if latitude_first(box) else points
