"""How long the sides of boxes are: in units of the axes, or in kilometres where the axes are longitude and latitude.

Knows names of axes and the size of a degree. Knows no positions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats
from .box import Box
from .places import LATITUDE, LONGITUDE

__all__ = ["KILOMETRES_PER_DEGREE", "at_least", "is_geographic", "lengths_words", "side_unit", "sides"]

KILOMETRES_PER_DEGREE = 111.32  # along a meridian, and along the equator
_ROUNDING = 1e-9  # edges and cosines are rounded: a side that is short by no more counts as long enough


def is_geographic(box: Box) -> bool:
    """Whether the axes are called longitude and latitude, in any order and any usual spelling."""
    names = [name.lower() for name in box.names]
    return len(names) == 2 and any(n in LATITUDE for n in names) and any(n in LONGITUDE for n in names)


def side_unit(box: Box) -> str:
    """The unit of :func:`sides`, for people: "km", or nothing where the axes have units of their own."""
    return "km" if is_geographic(box) else ""


def sides(boxes: npt.ArrayLike, domain: Box) -> Floats:
    """Length of the sides of boxes, shape (n, 2, d), inside a domain: float64[n, d].

    In units of the axes, or in kilometres in a geographic domain: a degree of longitude is taken at the middle of
    the box.

    Examples
    --------
    >>> sides([[[0, 0], [1, 2]]], Box((0, 0), (9, 9)))
    array([[1., 2.]])
    >>> sides([[[0, 59], [1, 61]]], Box((-180, -90), (180, 90), names=("lon", "lat"))).round(1)
    array([[ 55.7, 222.6]])
    """
    corners = np.asarray(boxes, dtype=np.float64)
    found = np.asarray(corners[:, 1] - corners[:, 0])
    if not is_geographic(domain):
        return found
    latitude = next(axis for axis, name in enumerate(domain.names) if name.lower() in LATITUDE)
    found = found * KILOMETRES_PER_DEGREE
    found[:, 1 - latitude] *= np.cos(np.radians(corners[:, :, latitude].mean(axis=1)))
    return found


def at_least(lengths: npt.ArrayLike, least: tuple[float, ...]) -> Flags:
    """Whether no side is shorter than allowed: bool[n].

    Parameters
    ----------
    lengths : array_like, shape (n, d)
        As :func:`sides` or a hierarchy gives them.
    least : tuple of float
        One length per axis, or one for all; empty for no limit.

    Examples
    --------
    >>> at_least([[1, 2], [1, 0.5]], (1.0,)).tolist()
    [True, False]
    """
    return np.asarray((np.asarray(lengths) >= np.array(least or (0.0,)) * (1 - _ROUNDING)).all(axis=1))


def lengths_words(lengths: Floats) -> str:
    """Lengths as people write them.

    Examples
    --------
    >>> lengths_words(np.array([0.25, 1.0])), lengths_words(np.array([921.2, 1068.7]))
    ('0.25 x 1', '921 x 1,069')
    """
    return " x ".join(f"{length:,.0f}" if 1e3 <= length < 1e9 else f"{length:.3g}" for length in lengths.tolist())
