"""What every baseline checks before it starts.

Knows what arguments may look like. Knows no mechanism.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..errors import InvalidInput
from ..functions import BoundedFunction, check_values
from ..geometry.box import Box

__all__ = ["check_depth", "check_epsilon", "check_people", "evaluate"]


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


def evaluate(points: npt.ArrayLike, f: BoundedFunction, box: Box) -> Evaluated:
    """Values at the points and the range over the whole box; a value outside the stated range is refused."""
    values, ranges = check_values(f, check_people(points, box), [[box.lower, box.upper]])
    return Evaluated(values, float(ranges[0, 0]), float(ranges[0, 1]))
