"""What a box is: a named place, or bounds as numbers or text.

Knows fixed constants in WGS84 degrees and how to read four numbers. Knows no data: bounds taken from
the positions themselves would reveal where the outermost participants are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..arrays import as_numbers, shown
from ..errors import InvalidInput
from ..words import number_of
from .box import MAX_DIMENSIONS, Box

_WANTED = "give the lower corner and then the upper corner, 'x0,y0,x1,y1', or the name of a place"

DEGREES = ("longitude", "latitude")
LONGITUDE = ("lon", "lng", "long", "longitude")  # usual spellings of the axes
LATITUDE = ("lat", "latitude")

# (west, south, east, north) in degrees, rounded outward from the published outline of each place.
PLACES = MappingProxyType(
    {
        "world": (-180.0, -90.0, 180.0, 90.0),
        "africa": (-26.0, -35.0, 60.0, 38.0),
        "asia": (25.0, -12.0, 180.0, 82.0),
        "australia": (112.0, -44.0, 155.0, -9.0),
        "europe": (-25.0, 34.0, 45.0, 72.0),
        "north-america": (-170.0, 7.0, -50.0, 84.0),
        "south-america": (-93.0, -56.0, -32.0, 13.0),
        "usa": (-125.0, 24.0, -66.0, 50.0),  # the contiguous states
        "california": (-124.5, 32.5, -114.1, 42.1),
        "germany": (5.8, 47.2, 15.1, 55.1),
        "portugal": (-9.6, 36.9, -6.1, 42.2),  # the mainland
        "beijing": (115.0, 39.0, 117.6, 41.1),
        "london": (-0.55, 51.25, 0.35, 51.7),
        "los-angeles": (-118.7, 33.7, -118.1, 34.4),
        "new-york": (-74.3, 40.4, -73.6, 41.0),
        "porto": (-8.8, 41.0, -8.4, 41.35),
        "san-francisco": (-122.6, 37.6, -122.3, 37.9),
        "tokyo": (139.4, 35.4, 140.0, 35.9),
    }
)


def named_box(name: str) -> Box:
    """Return the public box of a place, axes longitude and latitude in degrees.

    Parameters
    ----------
    name : str
        A key of `PLACES`, in any case; blanks and underscores count as hyphens.

    Examples
    --------
    >>> print(named_box("california"))
    longitude [-124.5, -114.1] × latitude [32.5, 42.1]
    >>> named_box("New York") == named_box("new-york")
    True
    """
    key = str(name).strip().lower().replace(" ", "-").replace("_", "-")
    if key not in PLACES:
        names = ", ".join(PLACES)
        raise InvalidInput(f"no box is named {name!r}; there are {names}; or give the bounds as 'x0,y0,x1,y1'")
    west, south, east, north = PLACES[key]
    return Box((west, south), (east, north), names=DEGREES)


def as_box(given: Any, *, names: Sequence[str] = ()) -> Box:
    """Return the box that somebody means: a place, or the lower corner and then the upper one. All that asks is here.

    Parameters
    ----------
    given : Box, str, or 2d numbers
        A `Box` as it is; a key of `PLACES`; ``"x0,y0,x1,y1"`` or ``(x0, y0, x1, y1)``, in degrees west, south, east,
        north. 2d numbers give a box with d dimensions.
    names : sequence of str, optional
        What the axes are called instead, of a place, too.

    Examples
    --------
    >>> print(as_box("-10,-10,10,10", names=("x", "y")))
    x [-10, 10] × y [-10, 10]
    >>> as_box((-180, -90, 180, 90)).upper == as_box("world").upper
    True
    """
    if isinstance(given, Box):
        return given
    if isinstance(given, str) and "," not in given:
        lower, upper, own = (named := named_box(given)).lower, named.upper, named.names
    else:
        numbers = parse_numbers(given, "bounds") if isinstance(given, str) else _as_corners(given)
        half, own = len(numbers) // 2, ()
        if len(numbers) % 2 or not 1 <= half <= MAX_DIMENSIONS:
            raise InvalidInput(f"bounds {given!r} hold {number_of(len(numbers), 'number')}; {_WANTED}")
        lower, upper = numbers[:half], numbers[half:]
    if names and len(names) != len(lower):
        raise InvalidInput(
            f"the box {given} is for {number_of(len(lower), 'column')}, and {number_of(len(names), 'column')} were "
            f"named ({', '.join(names)}); name as many, or give the lower corner and then the upper corner"
        )
    return Box(lower, upper, names=tuple(names) or own)


def _as_corners(given: Any) -> tuple[float, ...]:
    """Numbers in one row, or a refusal that says what a box is."""
    if not isinstance(given, list | tuple | np.ndarray) or np.ndim(given) != 1:
        raise InvalidInput(
            f"box must be a semilocal.Box, the name of a place, or numbers: {_WANTED}; got {shown(given)}"
        )
    return as_numbers(given, "bounds")


def parse_numbers(text: str, what: str) -> tuple[float, ...]:
    """Finite numbers with commas between them.

    Parameters
    ----------
    text : str
    what : str
        How to call them in a message.

    Examples
    --------
    >>> parse_numbers("-10, 2.5", "corner")
    (-10.0, 2.5)
    """
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"{what} must be numbers with commas between them, such as -1.5,2; got {text!r}") from None
    if not all(map(math.isfinite, numbers)):
        raise InvalidInput(f"{what} must be finite numbers; got {text!r}")
    return numbers
