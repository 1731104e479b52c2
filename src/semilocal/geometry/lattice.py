"""Positions that were rounded before anybody counted them, and boxes as their lattice sees them.

Coordinates rounded to multiples of a step all lie on the lines of a lattice. Where cells are about as small as the
step, a cell has one line or two, and what a side of a box takes of it is a matter of lines, not of lengths. By lengths
all cells along the side would err alike. So boxes are measured by how many lines lie before their sides; in this
measure people lie evenly again. The step is a public fact about the data.

Polygons are measured by area, whatever the step. Knows lengths. Knows no cells, counts or positions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Floats, is_number, shown
from ..errors import InvalidInput
from .box import Box

__all__ = ["BETWEEN", "NOT_ROUNDED", "ON_A_LINE", "Lattice"]

ON_A_LINE = 1e-6  # steps; a side so close to a line is on it: 0.01 is not a float
BETWEEN = 1e-6  # lines that the room of a step counts for beside its own, so that no cell is flat
_MOST_LINES = 1e10  # that are told apart: far more than any file has


class Lattice(NamedTuple):
    """Lines at the multiples of a step along each axis; no steps at all if positions are not rounded."""

    steps: tuple[float, ...] = ()

    @staticmethod
    def of(rounding: Any, box: Box) -> Lattice:
        """From one step for all axes or one for each; none if it is 0 or left out."""
        if rounding is None or (is_number(rounding) and rounding == 0):
            return NOT_ROUNDED
        steps = tuple(rounding) if hasattr(rounding, "__iter__") else (rounding,) * box.dimensions
        if len(steps) != box.dimensions or not all(
            is_number(step) and max(abs(low), abs(high)) / _MOST_LINES <= step <= high - low
            for step, low, high in zip(steps, box.lower, box.upper, strict=True)
        ):
            raise InvalidInput(
                f"rounding must be the step that coordinates are multiples of, at most a side of the domain and not "
                f"below {1 / _MOST_LINES:.0e} of its coordinates, or one per axis ({box.dimensions}); 0 for none; "
                f"got {shown(rounding)}"
            )
        return Lattice(tuple(float(step) for step in steps))

    def measure(self, corners: Floats) -> Floats:
        """How many lines lie before each coordinate, and a trifle for the room between them: float64[..., d]."""
        if not self.steps:
            return corners
        return np.stack([self.along(axis, corners[..., axis]) for axis in range(len(self.steps))], axis=-1)

    def along(self, axis: int, places: Floats) -> Floats:
        """The same for coordinates on one axis."""
        if not self.steps:
            return places
        steps = places / self.steps[axis]
        lines = steps - ON_A_LINE
        np.ceil(lines, out=lines)
        steps *= BETWEEN
        lines += steps
        return np.asarray(lines)


NOT_ROUNDED = Lattice()
