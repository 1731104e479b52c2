"""What every baseline checks before it starts.

Knows what arguments may look like. Knows no mechanism.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy.typing as npt

from ..arrays import Floats
from ..errors import InvalidInput
from ..functions import BoundedFunction, check_values
from ..geometry.box import Box

__all__ = ["check_people", "check_share", "evaluate"]


class Evaluated(NamedTuple):
    """Values of a function, and the bounds that the domain alone implies."""

    values: Floats
    low: float
    high: float


def check_people(points: npt.ArrayLike, box: Box) -> Floats:
    """Return the positions as float64[n, d], at least one and all inside the box, or refuse them."""
    array = box.check(points)
    if not len(array):
        raise InvalidInput("points must hold at least one position; got none")
    return array


def check_share(share: float, name: str) -> None:
    """Refuse a share of the budget or of the people that leaves nothing for the rest."""
    if not 0 < share < 1:
        raise InvalidInput(f"{name} must lie strictly between 0 and 1; got {share!r}")


def evaluate(points: npt.ArrayLike, f: BoundedFunction, box: Box) -> Evaluated:
    """Values at the points and the range over the whole box; a value outside the stated range is refused."""
    values, ranges = check_values(f, check_people(points, box), [[box.lower, box.upper]])
    return Evaluated(values, float(ranges[0, 0]), float(ranges[0, 1]))
