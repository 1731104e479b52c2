"""The public domain: an axis-parallel box that all positions live in, and what probably went wrong if they do not.

Knows bounds, the validation of points, and how people mix up axes and units. What it says never tells where anybody is.
Knows no cells and no participants.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, as_floats, cut_repr, is_integer, plain, shown
from ..errors import InvalidInput, OutsideDomain, is_plain, printable

MAX_DIMENSIONS = 8
MAX_NAME = 200  # characters of the name of an axis
# Strays may fit after an exchange by chance. If each of them does as often as not, all of ten do once in a thousand.
FEWEST = 10
_MOST = 0.9  # share that must lie inside after a swap or a turn; advice about a swap needs most of them
_DEGREES = 360.0
_LONGITUDE = re.compile(r"(?<![a-z])(lon|lng|long|longitude)(?![a-z])")
_LATITUDE = re.compile(r"(?<![a-z])(lat|latitude)(?![a-z])")
_METRES = 1e4  # coordinates of map projections are larger, but for a corner of their map
# Axes that may be degrees or metres: lon, pickup_latitude, x0, utm_y. Others, such as euros, have units of their own.
_OF_MAPS = re.compile(r"(?<![a-z])(lon|lng|long|longitude|lat|latitude|x|y|east|easting|north|northing)(?![a-z])")
# One of these is there: frames and series, geopandas, Arrow's interfaces, lazy frames, DuckDB relations.
_MARKS = (
    "columns", "column_names", "crs", "to_numpy", "__arrow_c_stream__", "__dataframe__", "collect", "fetch_arrow_table",
)  # fmt: skip


class Clipped(NamedTuple):
    """Points after clipping and how many of them were moved."""

    points: Floats
    moved: int


class Box(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An axis-parallel box with 1 to 8 dimensions.

    Parameters
    ----------
    lower, upper : sequence of float
        Bounds per axis, finite, ``lower < upper``. Both ends belong to the box.
    names : sequence of str, optional
        One name per axis; ``x0, x1, …`` if left out.

    Examples
    --------
    >>> box = Box((-10, -10), (10, 10), names=("x", "y"))
    >>> box.dimensions
    2
    >>> box.clip([[0.0, 12.0]]).moved
    1
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    names: tuple[str, ...] = ()

    __repr__ = cut_repr

    def __post_init__(self) -> None:
        lower = tuple(_number(value, "lower") for value in _sequence(self.lower, "lower"))
        upper = tuple(_number(value, "upper") for value in _sequence(self.upper, "upper"))
        names = tuple(_sequence(self.names, "names")) or tuple(f"x{axis}" for axis in range(len(lower)))
        if not 1 <= len(lower) <= MAX_DIMENSIONS:
            raise InvalidInput(f"a box has 1 to {MAX_DIMENSIONS} dimensions; lower has {len(lower)} values")
        if len(upper) != len(lower):
            raise InvalidInput(f"lower has {len(lower)} values and upper {len(upper)}; give one of each per axis")
        if not all(isinstance(name, str) and 0 < len(name) <= MAX_NAME and is_plain(name) for name in names):
            got = printable(repr(names)) if all(isinstance(name, str) for name in names) else shown(names)
            raise InvalidInput(
                f"names must be strings of 1 to {MAX_NAME} characters without control characters; got {got}"
            )
        if len(names) != len(lower) or len(set(names)) != len(names):
            raise InvalidInput(f"names must be {len(lower)} different strings, one per axis; got {names!r}")
        for name, low, high in zip(names, lower, upper, strict=True):
            if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(high - low) and low < high):
                raise InvalidInput(
                    f"axis {name!r} needs finite lower < upper; got [{low}, {high}]. A box is its lower corner, all "
                    "axes in their order, and then its upper corner"
                )
        if words := degrees_words(names, lower, upper):
            raise InvalidInput(words)
        msgspec.structs.force_setattr(self, "lower", lower)
        msgspec.structs.force_setattr(self, "upper", upper)
        msgspec.structs.force_setattr(self, "names", names)

    @classmethod
    def world(cls) -> Box:
        """The whole Earth in degrees, axes lon and lat."""
        return cls((-180.0, -90.0), (180.0, 90.0), names=("lon", "lat"))

    @property
    def dimensions(self) -> int:
        """Number of axes."""
        return len(self.lower)

    def check(self, points: npt.ArrayLike) -> Floats:
        """Return the points as float64[n, d], or refuse them.

        Parameters
        ----------
        points : array_like, shape (n, d), or data frame
            For one dimension, shape (n,) is taken as (n, 1). Of a frame (pandas, polars, Arrow, DuckDB, geopandas)
            the columns with the names of the axes are taken; see :func:`semilocal.geometry.frames.frame_points`.

        Raises
        ------
        InvalidInput
            If the shape is wrong or the values are not numbers.
        OutsideDomain
            If any point is outside the box or not finite, with how many, the first index and the likely mistake.
        """
        array = self.shaped(points)
        if self.holds(array):
            return array
        self._refuse_infinite(array)
        inside = self.inside(array)
        what = (
            f"{int(np.count_nonzero(~inside))} of {len(array)} points lie outside the domain {self}, the first at "
            f"index {int(np.argmin(inside))}"
        )
        if mistake := mistake_words(array, self):
            raise OutsideDomain(f"{what}. {mistake}")
        raise OutsideDomain(f"{what}; take a larger box, remove them, or move them with Box.clip(points)")

    def inside(self, points: Floats) -> Flags:
        """Which points float64[n, d] are inside: bool[n]. None that is NaN or infinite is."""
        found = np.ones(len(points), dtype=bool)
        for column, low, high in zip(points.T, self.lower, self.upper, strict=True):
            found &= (column >= low) & (column <= high)
        return found

    def holds(self, points: Floats) -> bool:
        """Whether all points float64[n, d] are inside; none that is NaN or infinite is."""
        columns = zip(points.T, self.lower, self.upper, strict=True)
        return not len(points) or all(column.min() >= low and column.max() <= high for column, low, high in columns)

    def clip(self, points: npt.ArrayLike) -> Clipped:
        """Move points outside to the nearest point of the box, and say how many were moved.

        Refuses points that are not finite, for they have no nearest point; and all if the axes look swapped or the unit
        looks wrong: nearly everybody would be moved to an edge or a corner.
        """
        array = self.shaped(points)
        self._refuse_infinite(array)
        clipped = self.nearest(array)
        if clipped.moved and (mistake := mistake_words(array, self, fewest=FEWEST)):
            raise OutsideDomain(
                f"{clipped.moved} of {len(array)} points lie outside the domain {self}; none was moved. {mistake}"
            )
        return clipped

    def nearest(self, points: Floats) -> Clipped:
        """The nearest points of the box, whatever the points float64[n, d] are: for draws, which may lie anywhere."""
        clipped = np.clip(points, self.lower, self.upper)
        return Clipped(clipped, int(np.count_nonzero((clipped != points).any(axis=1))))

    def grid(self, parts: Sequence[int]) -> Floats:
        """Cells of an even grid, the last axis fastest: float64[cells, 2, d].

        Parameters
        ----------
        parts : sequence of int
            Number of equal parts of each axis.

        Examples
        --------
        >>> Box((0,), (1,)).grid([2]).tolist()
        [[[0.0], [0.5]], [[0.5], [1.0]]]
        """
        parts = tuple(map(plain, _sequence(parts, "parts")))
        whole = all(is_integer(part) for part in parts)
        if not whole or len(parts) != self.dimensions or min(parts) < 1:
            got = tuple(parts) if whole else shown(parts)  # other numbers may be positions
            raise InvalidInput(f"a grid has {self.dimensions} positive whole numbers, one per axis; got {got}")
        axes = zip(self.lower, self.upper, parts, strict=True)
        # As the edges of cells are computed: a grid of halves cuts no cell.
        edges = [low + (high - low) * (np.arange(part + 1) / part) for low, high, part in axes]
        for edge, high in zip(edges, self.upper, strict=True):
            edge[-1] = high
        corners = [np.meshgrid(*(edge[side] for edge in edges), indexing="ij") for side in (slice(-1), slice(1, None))]
        return np.stack([np.stack([axis.ravel() for axis in corner], axis=1) for corner in corners], axis=1)

    def __str__(self) -> str:
        axes = zip(self.names, self.lower, self.upper, strict=True)
        return " × ".join(f"{name} [{low:g}, {high:g}]" for name, low, high in axes)

    def shaped(self, points: npt.ArrayLike) -> Floats:
        """Return the points as float64[n, d], or refuse them if they have another shape; they may be outside."""
        if isinstance(points, str) or hasattr(points, "__fspath__"):
            raise InvalidInput(
                "points must be an array or a data frame; got the name of a file: read it with pandas or polars first, "
                "or see semilocal.engines.open_source"
            )
        array = as_floats(_numbers_of(points, self), "points", infinite=True)
        if array.ndim == 1 and (self.dimensions == 1 or array.size == 0):
            array = array.reshape(-1, self.dimensions)
        if array.ndim != 2 or array.shape[1] != self.dimensions:
            raise InvalidInput(f"points must have shape (n, {self.dimensions}); got {array.shape}")
        return array

    @staticmethod
    def _refuse_infinite(array: Floats) -> None:
        finite = np.isfinite(array).all(axis=1)
        if not finite.all():
            first = int(np.argmin(finite))
            raise OutsideDomain(
                f"{int(np.count_nonzero(~finite))} of {len(array)} points are NaN or infinite, the first at index "
                f"{first}; remove them first"
            )


def is_frame(points: Any) -> bool:
    """Whether something has named columns, a CRS, or is one column: not an array or a list."""
    if isinstance(points, np.ndarray | list | tuple | dict) or np.isscalar(points):
        return False
    # Of the class: a lazy frame would have to find its columns.
    return any(hasattr(type(points), mark) for mark in _MARKS)


def _numbers_of(points: Any, box: Box) -> Any:
    """Arrays and lists as they are; of a data frame, the columns with the names of the axes."""
    if not is_frame(points):
        return points
    from .frames import frame_points

    return frame_points(points, box)[0]


def _sequence(value: Any, name: str) -> tuple[Any, ...]:
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise InvalidInput(f"{name} must be a sequence with one value per axis; got {value!r}")
    return tuple(value)


def _number(value: Any, name: str) -> float:
    try:
        if isinstance(value, str | bytes | bool):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} must hold numbers; got {shown(value)}") from None


# -- what probably went wrong ------------------------------------------------------------------------------------------


def mistake_words(points: Floats, box: Box, *, exchange: str = "Exchange the two columns", fewest: int = 1) -> str:
    """What probably went wrong with points float64[n, d] that lie outside, and what to do; empty if nothing is known.

    ``exchange`` says what to do about swapped axes. So many as ``fewest`` points must be there to call axes swapped or
    turned: one for advice, ``FEWEST`` where points are refused for it.
    """
    if not len(points) or box.dimensions != 2 or float(box.inside(points).mean()) >= 0.5:
        return ""  # all these mistakes put most of them outside
    fitting = float(box.inside(points[:, ::-1]).mean())
    if len(points) >= fewest and (fitting >= _MOST or (fewest == 1 and fitting > 0.5)):
        first, second = box.names
        return f"The axes look swapped: {first} and {second} fit after an exchange of the two. {exchange}"
    turned = points.copy()
    for axis, name in enumerate(box.names):
        if _LONGITUDE.search(name.lower()):
            column = points[:, axis]
            turned[:, axis] += _DEGREES * ((column < box.lower[axis]) * 1 - (column > box.upper[axis]))
    if len(points) >= fewest and float(box.inside(turned).mean()) >= _MOST:
        return (
            "The longitudes look counted from 0 to 360 where the box counts from -180 to 180, or the reverse: they fit "
            "after 360 is subtracted or added. Convert them, or give the box as they are"
        )
    if not all(_OF_MAPS.search(name.lower()) for name in box.names):
        return ""
    large, sizes = float(np.abs([box.lower, box.upper]).max()), np.abs(points).max(axis=1)
    if large <= _DEGREES and float((sizes > _METRES).mean()) > 0.5:
        return (
            "The positions look like metres of a map projection, and the box like degrees. Convert the positions to "
            "longitude and latitude, or give the box in metres"
        )
    if large > 10 * _DEGREES and float(sizes.max()) <= _DEGREES:
        return (
            "The positions look like degrees, and the box like metres or another large unit. Give the box in degrees, "
            "or convert the positions"
        )
    return ""


def degrees_words(names: Sequence[str], lower: Sequence[float], upper: Sequence[float]) -> str:
    """Which bounds cannot be longitudes or latitudes in degrees, and what to do; empty if all can.

    Longitudes count from -180 to 180 or from 0 to 360.
    """
    longitudes, latitudes = ([bool(axis.search(name.lower())) for name in names] for axis in (_LONGITUDE, _LATITUDE))
    if not (any(longitudes) and any(latitudes)):  # one alone may be something else
        return ""
    for name, low, high, is_longitude, is_latitude in zip(names, lower, upper, longitudes, latitudes, strict=True):
        beyond = low < -180 or high > _DEGREES or (low < 0 and high > 180)
        if (is_latitude and (low < -90 or high > 90)) or (is_longitude and beyond):
            allowed = "-90 to 90" if is_latitude else "-180 to 180, or from 0 to 360"
            west = "south, west, north, east" if latitudes[0] else "west, south, east, north"
            return (
                f"axis {name!r} is in degrees from {allowed}; got [{low:g}, {high:g}]. Bounds are the lower corner and "
                f"then the upper one: {west}. If the axes are no degrees, call them x and y"
            )
    return ""
