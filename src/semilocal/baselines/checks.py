"""What every baseline checks before it starts.

Knows what arguments may look like. Knows no mechanism.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..domain import Box
from ..errors import InvalidInput

__all__ = ["RangedFunction", "check_depth", "check_epsilon", "check_people", "evaluate"]

Floats = npt.NDArray[np.float64]


class RangedFunction(Protocol):
    """A real function of a position that knows its range over a box."""

    def __call__(self, points: Floats, /) -> Floats:
        """Values float64[n] at points float64[n, d]."""

    def range_over(self, boxes: Floats, /) -> Floats:
        """Lower and upper bound of the values in each box: float64[m, 2] for boxes float64[m, 2, d]."""


class Evaluated(NamedTuple):
    """Values of a function, and the bounds that the domain alone implies."""

    values: Floats
    low: float
    high: float


def check_epsilon(epsilon: float) -> float:
    """Return epsilon as a float, or refuse it."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float, np.integer, np.floating)):
        raise InvalidInput(f"epsilon must be a positive number; got {epsilon!r}")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InvalidInput(f"epsilon must be positive and finite; got {epsilon!r}")
    return float(epsilon)


def check_people(points: npt.ArrayLike, box: Box) -> Floats:
    """Return the positions as float64[n, d], at least one and all inside the box, or refuse them."""
    array = box.check(points)
    if not len(array):
        raise InvalidInput("points must hold at least one position; got none")
    return array


def check_depth(name: str, depth: int, most: int) -> int:
    """Return a depth between 1 and ``most``, or refuse it."""
    if isinstance(depth, bool) or not isinstance(depth, (int, np.integer)) or not 1 <= depth <= most:
        raise InvalidInput(f"{name} must be an integer from 1 to {most}; got {depth!r}")
    return int(depth)


def evaluate(points: npt.ArrayLike, f: RangedFunction, box: Box) -> Evaluated:
    """Values at the points and the range over the whole box; a value outside the stated range is refused."""
    positions = check_people(points, box)
    if not callable(f) or not hasattr(f, "range_over"):
        raise InvalidInput(
            f"f must be a function that knows its range over a box (with range_over), such as "
            f"semilocal.functions.squared_norm(); got {f!r}"
        )
    values = np.asarray(f(positions), dtype=np.float64)
    bounds = np.asarray(f.range_over(np.array([[box.lower, box.upper]])), dtype=np.float64)
    if values.shape != (len(positions),) or bounds.shape != (1, 2):
        raise InvalidInput(
            f"f must return one value per point and range_over one pair per box; got shapes {values.shape} and "
            f"{bounds.shape}"
        )
    low, high = float(bounds[0, 0]), float(bounds[0, 1])
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise InvalidInput(f"f needs a finite range over the domain; range_over gave [{low}, {high}]")
    inside = (values >= low) & (values <= high)
    if not inside.all():
        raise InvalidInput(
            f"{int(np.count_nonzero(~inside))} values of f lie outside the range [{low}, {high}] it states for the "
            f"domain, the first {values[int(np.argmin(inside))]}; correct its range_over"
        )
    return Evaluated(values, low, high)
