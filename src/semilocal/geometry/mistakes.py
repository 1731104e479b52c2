"""What probably went wrong when positions do not fit a box: swapped axes, another unit, or longitudes to 360.

And what cannot be a box in degrees.

Knows how people mix up axes and units. What it says never tells where anybody is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import Floats

if TYPE_CHECKING:
    from .box import Box

__all__ = ["FEWEST", "degrees_words", "mistake_words"]

# Strays may fit after an exchange by chance. If each of them does as often as not, all of ten do once in a thousand.
FEWEST = 10
_MOST = 0.9  # share that must lie inside after a swap or a turn; advice about a swap needs most of them
_DEGREES = 360.0
_LONGITUDE = re.compile(r"(?<![a-z])(lon|lng|long|longitude)(?![a-z])")
_LATITUDE = re.compile(r"(?<![a-z])(lat|latitude)(?![a-z])")
_METRES = 1e4  # coordinates of map projections are larger, but for a corner of their map
# Axes that may be degrees or metres: lon, pickup_latitude, x0, utm_y. Others, such as euros, have units of their own.
_OF_MAPS = re.compile(r"(?<![a-z])(lon|lng|long|longitude|lat|latitude|x|y|east|easting|north|northing)(?![a-z])")


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
