"""The value a participant gives: f at the position it acts from, scaled to the range of f over its region.

Where f is constant on a region there is nothing to tell, and the scaled value is 1/2.

Knows boxes, functions and doubles. Knows no participants and no noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..functions import BoundedFunction, check_values

__all__ = ["UnitValues", "unit_value", "unit_values"]


class UnitValues(NamedTuple):
    """Values of f at points, scaled to [0, 1] by the range of f over their boxes.

    Attributes
    ----------
    unit : float64[n]
    low, width : float64[n]
        The range that each was scaled by: f = low + unit * width.
    """

    unit: Floats
    low: Floats
    width: Floats


def unit_values(f: BoundedFunction, points: Floats, boxes: Floats, *, of: npt.ArrayLike | None = None) -> UnitValues:
    """Scale f at points to the unit interval; 1/2 where f is constant on the box.

    Parameters
    ----------
    points : float64[n, d]
    boxes : float64[m, 2, d]
    of : int[n], optional
        Which box each point is in; one box per point if left out.

    Examples
    --------
    >>> from semilocal.functions import coordinate
    >>> boxes = np.array([[[0.0, 0.0], [0.5, 1.0]]])
    >>> unit_values(coordinate(0), np.array([[0.125, 0.3]]), boxes).unit.tolist()
    [0.25]
    """
    checked = check_values(f, points, boxes, of=of)
    ranges = checked.ranges if of is None else checked.ranges[np.asarray(of)]
    low, width = ranges[:, 0], ranges[:, 1] - ranges[:, 0]
    unit = np.divide(checked.values - low, width, out=np.full(len(low), 0.5), where=width > 0)
    return UnitValues(np.clip(unit, 0.0, 1.0, out=unit), low, width)  # the division may round past an end


def unit_value(value: float, low: float, high: float) -> float:
    """A value clipped to a range and scaled to [0, 1]; 1/2 where the range is one number.

    Examples
    --------
    >>> unit_value(3.0, 1.0, 5.0), unit_value(9.0, 1.0, 5.0), unit_value(1.0, 1.0, 1.0)
    (0.5, 1.0, 0.5)
    """
    return 0.5 if high <= low else min(max((value - low) / (high - low), 0.0), 1.0)
