"""People who lie along slopes: densities that change exponentially along each axis of a box.

A slope is the logarithm of the density at the lower end of a side over that at the upper end: 0 is even. Densities of
several axes multiply. Places are given as shares of a side, from 0 to 1.

Knows sides and slopes. Knows no counts.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Floats

__all__ = ["between", "left_of_edges", "slope_between", "up_to"]

_EVEN = 2.0**-60  # as good as 0, and may be divided by
_STEEPEST = 2.0  # by neighbours: in the middle as steep as a straight line that ends at nobody
_GENTLE = 1e-4  # nearly a straight line: the closed form loses digits, and a line is off by less than 1e-9


def slope_between(before: Floats, own: Floats, after: Floats) -> Floats:
    """Slope of a cell whose neighbours of its size hold so many people: float64[m].

    The cell and the neighbour before it, against the cell and the neighbour after it: exact if density is exponential
    all the way, but never beyond 2 and -2. Steeper ones are seen where a town ends in the neighbour.

    Parameters
    ----------
    before, own, after : float64[m]
        Not negative; ``own`` above 0.

    Examples
    --------
    >>> slope_between(np.array([4.0]), np.array([2.0]), np.array([1.0])).round(6).tolist()  # half as many each time
    [0.693147]
    """
    return np.asarray(np.clip(np.log((before + own) / (after + own)), -_STEEPEST, _STEEPEST))


def up_to(place: Floats, slope: Floats) -> Floats:
    """Share of the people below a place of a side; exactly 0 and 1 at its ends, and the place itself without a slope.

    Parameters
    ----------
    place, slope : float64[m]

    Examples
    --------
    >>> up_to(np.array([0.5, 0.5, 1.0]), np.array([0.0, 2.0, 9.0])).round(4).tolist()
    [0.5, 0.7311, 1.0]
    """
    falls = np.where(np.abs(slope) < _EVEN, -_EVEN, -slope)
    return np.asarray(np.expm1(falls * place) / np.expm1(falls))


def between(first: Floats, last: Floats, slope: Floats) -> Floats:
    """Share of the people between two places of a side; 0 if they cross: float64[m]."""
    return np.asarray(up_to(np.maximum(first, last), slope) - up_to(first, slope))


def left_of_edges(start: Floats, stop: Floats, slopes: Floats) -> Floats:
    """What directed edges add to the share of the people inside their ring (Green's theorem): float64[m].

    Parameters
    ----------
    start, stop : float64[2, m]
        Both ends, on the first and the second axis. Rings around people run counter-clockwise.
    slopes : float64[2, m]
    """
    # Along the steeper axis the closed form is the more exact one. Changing the axes turns rings around.
    steeper = np.abs(slopes[1]) > np.abs(slopes[0])
    (x, y), (to_x, to_y), (across, up) = (np.where(steeper, pair[::-1], pair) for pair in (start, stop, slopes))
    gentle = np.abs(across) < _GENTLE
    out = np.where(gentle, _straight(x, y, to_x, to_y, across, up), 0.0)
    some = np.flatnonzero(~gentle)
    out[some] = _exponential(*(number[some] for number in (x, y, to_x, to_y, across, up)))
    return np.asarray(np.where(steeper, -out, out))


def _exponential(x: Floats, y: Floats, to_x: Floats, to_y: Floats, across: Floats, up: Floats) -> Floats:
    """The integral of ``up_to(x) * density(y)`` along edges."""
    along = np.exp(-across * x - up * y) * _mean_of_fall(across * (to_x - x) + up * (to_y - y))
    level = np.exp(-up * y) * _mean_of_fall(up * (to_y - y))
    return np.asarray((to_y - y) * (level - along) / (-np.expm1(-across) * _mean_of_fall(up)))


def _straight(x: Floats, y: Floats, to_x: Floats, to_y: Floats, across: Floats, up: Floats) -> Floats:
    """The same for straight lines in place of exponential ones: a cubic, for which Simpson's rule is exact."""

    def inner(x: Floats, y: Floats) -> Floats:
        return np.asarray(x * (1.0 + across / 2.0 * (1.0 - x)) * (1.0 + up / 2.0 * (1.0 - 2.0 * y)))

    ends = inner(x, y) + inner(to_x, to_y) + 4.0 * inner((x + to_x) / 2.0, (y + to_y) / 2.0)
    return np.asarray((to_y - y) * ends / 6.0)


def _mean_of_fall(fall: Floats) -> Floats:
    """The mean of exp(-fall * t) for t from 0 to 1."""
    falls = np.where(np.abs(fall) < _EVEN, _EVEN, fall)
    return np.asarray(-np.expm1(-falls) / falls)
