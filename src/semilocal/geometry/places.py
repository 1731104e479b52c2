"""Named public boxes, and bounds given as text.

Knows fixed constants in WGS84 degrees and how to read four numbers. Knows no data: bounds taken from
the positions themselves would reveal where the outermost participants are.
"""

from __future__ import annotations

import math
from types import MappingProxyType

from ..errors import InvalidInput
from .box import MAX_DIMENSIONS, Box

__all__ = ["LATITUDE", "LONGITUDE", "PLACES", "named_box", "parse_bounds", "parse_numbers"]

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


def parse_bounds(text: str, *, names: tuple[str, ...] = ()) -> Box:
    """Return the box that a text describes: a place, or the lower corner and then the upper corner.

    Parameters
    ----------
    text : str
        A key of `PLACES`, or ``"x0,y0,x1,y1"``; 2d numbers give a box with d dimensions.
    names : tuple of str, optional
        Names of the axes where numbers are given.

    Examples
    --------
    >>> print(parse_bounds("-10,-10,10,10", names=("x", "y")))
    x [-10, 10] × y [-10, 10]
    >>> parse_bounds("world").upper
    (180.0, 90.0)
    """
    if "," not in text:
        return named_box(text)
    numbers = parse_numbers(text, "bounds")
    if len(numbers) % 2 or not 1 <= len(numbers) // 2 <= MAX_DIMENSIONS:
        raise InvalidInput(
            f"bounds {text!r} hold {len(numbers)} numbers; give the lower corner and then the upper corner, "
            "'x0,y0,x1,y1', or the name of a place"
        )
    half = len(numbers) // 2
    return Box(numbers[:half], numbers[half:], names=names)


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
