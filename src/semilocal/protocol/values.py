"""The value a participant gives: the position it acts from, and f there, scaled to the range of f over its region.

One answer for devices, simulations and planners to both questions:

- cells are half-open, and so is the region that a participant was moved into: it gives f at the nearest point that is
  *in* the region, which is the double just below an upper edge (unless that is the upper edge of the domain);
- where f is constant on a region there is nothing to tell, and the scaled value is 1/2.

Knows cells, functions and doubles. Knows no participants and no noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..functions import BoundedFunction, check_values
from .task import Task

__all__ = ["UnitValues", "nearest_inside", "unit_values"]


def nearest_inside(task: Task, points: Floats, boxes: Floats) -> Floats:
    """The points of half-open cells that are nearest to the given points: float64[n, d].

    A point that is in its cell comes back unchanged.

    Parameters
    ----------
    points : float64[n, d]
    boxes : float64[n, 2, d]
        The box of a cell for each point, as ``task.hierarchy.boxes`` gives it.

    Examples
    --------
    >>> from semilocal import Box, Task
    >>> task = Task.build(Box((0,), (1,)), epsilon=1.0, delta=0.05, k=20)
    >>> nearest_inside(task, np.array([[0.9], [0.9]]), task.hierarchy.boxes([2, 3])).tolist()
    [[0.49999999999999994], [0.9]]
    """
    upper = boxes[:, 1]
    last = np.where(upper == task.box.upper, upper, np.nextafter(upper, -np.inf))
    return np.clip(points, boxes[:, 0], last)


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
