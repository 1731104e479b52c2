"""Values beside places: integers on a public grid, one noisy sum per cell, and the means that these give.

A value y lies on a grid between two limits of its cell, rounded at random so that sums keep their expectation. What is
added up is ``2 y - lower - upper``, an integer of at most the cell's width w either way. A person who changes their
value changes one sum by at most 2 w; one who moves to another cell changes two sums by at most their w. Noise of the
rate ``epsilon / (2 w)`` makes the loss of either at most epsilon (PROOF.md).

Where the grid comes from depends on who adds up. A curator knows everybody's cell and takes a fine grid over the
range in each (:func:`cell_grids`). Devices of two servers round before anybody knows their cell: one coarse grid over
the whole range, of which every cell uses a part (:func:`shared_grid`).

Knows values, ranges and noise. Knows no positions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, Words
from . import noise

SCALE = 1 << 24  # steps of a curator's grid: rounding adds at most 1/4 step^2 per report, noise at least SCALE^2
VALUE_BITS = 10  # of a value that devices send in shares


class ValueGrid(NamedTuple):
    """The grid of each cell: integer y stands for the value ``low + step * y``."""

    low: Floats  # float64[m]
    step: Floats  # float64[m]
    limits: Integers  # int64[m, 2], smallest and largest y of people in the cell; they differ

    @property
    def widths(self) -> Integers:
        """From the smallest to the largest y: int64[m], at least 1."""
        return np.asarray(self.limits[:, 1] - self.limits[:, 0])


class Means(NamedTuple):
    """Means of cells and their standard errors, float64[m] each."""

    value: Floats
    stderr: Floats


def cell_grids(ranges: Floats, *, steps: int = SCALE) -> ValueGrid:
    """A grid of its own for every cell, over the range float64[m, 2] of its values."""
    width = ranges[:, 1] - ranges[:, 0]
    return ValueGrid(ranges[:, 0], width / steps, np.tile(np.array([0, steps]), (len(ranges), 1)))


def shared_grid(ranges: Floats, low: float, high: float, *, bits: int = VALUE_BITS) -> ValueGrid:
    """One grid of ``2^bits - 1`` steps from low to high for all cells, each with the part that its range in float64[m,
    2] needs.
    """
    steps = (1 << bits) - 1
    ends = scaled(ranges, low, high - low, steps)
    limits = np.stack([np.floor(ends[:, 0]), np.ceil(ends[:, 1])], axis=1).astype(np.int64)
    point = limits[:, 0] == limits[:, 1]  # a constant on a step of the grid: give it one step, inside the grid
    limits[point, 1] = np.minimum(limits[point, 0] + 1, steps)
    limits[point, 0] = limits[point, 1] - 1
    m = len(ranges)
    return ValueGrid(np.full(m, float(low)), np.full(m, (high - low) / steps), limits)


def round_values(values: Floats, low: npt.ArrayLike, width: npt.ArrayLike, steps: int, draws: Words) -> Integers:
    """Values as integers from 0 to ``steps``, up or down at random so that the expectation is kept: int64[n].

    The grid begins at ``low`` and is ``width`` wide, for each or for all; a value outside becomes the end next to it.
    ``draws`` are uniform words uint64[n].
    """
    place = scaled(values, low, width, steps)
    lower = np.floor(place)
    up = (draws >> np.uint64(11)).astype(np.float64) * 2.0**-53 < place - lower
    return lower.astype(np.int64) + up


def add_up(steps: Integers, cells: Integers, grid: ValueGrid) -> Integers:
    """Exact sums of ``2 y - lower - upper`` per cell, int64[m], from the integers y, int64[n], and the cell that each
    goes into.
    """
    sums = np.zeros(len(grid.limits), dtype=np.int64)
    np.add.at(sums, cells, 2 * steps - grid.limits.sum(axis=1)[cells])
    return sums


def sum_rate(epsilon: Fraction, width: int, max_reports: int) -> Fraction:
    """Rate of the noise of a cell's sum: all reports of a person change it by at most 2 w each."""
    return epsilon / (2 * int(width) * max_reports)


def sum_noise(widths: Integers, epsilon: Fraction, max_reports: int, words: noise.Words) -> Integers:
    """One party's noise for the sums of cells with these widths, from a stream of words each: int64[m].

    ``epsilon`` is the loss of all sums together for any change of one person's place and value (pure).
    """
    out = np.zeros(len(widths), dtype=np.int64)
    for width in np.unique(widths).tolist():
        which = np.flatnonzero(widths == width)

        def those(rows: Integers, start: int, count: int, which: Integers = which) -> Words:
            return words(which[rows], start, count)

        once = np.ones(len(which), dtype=np.int64)
        out[which] = noise.draw(sum_rate(epsilon, width, max_reports), once, those)
    return out


def means_of(
    sums: Integers, grid: ValueGrid, people: Floats, doubt: Floats, *, epsilon: Fraction, max_reports: int, noises: int
) -> Means:
    """The means that noisy sums int64[m] of :func:`add_up` give; the middle of the range where nobody is expected.

    ``people`` are the reports of each cell and ``doubt`` the variance of that, 0 where the number is public:
    float64[m]. Every sum has ``noises`` draws of :func:`sum_noise`.
    """
    widths, number = grid.widths.astype(np.float64), np.maximum(people, 1.0)
    offset = np.clip(sums / (2 * widths * number), -0.5, 0.5)
    loud = {
        width: float(noise.variance(sum_rate(epsilon, width, max_reports), 1)) for width in set(grid.widths.tolist())
    }
    noisy = noises * np.array([loud[width] for width in grid.widths.tolist()])
    rounding = np.where(people > 0, number, 0.0)  # 2 y is off by at most 1, with variance at most 1
    error = np.sqrt((noisy + rounding) / (2 * widths) ** 2 + offset**2 * doubt) / number
    middle = grid.limits.mean(axis=1)
    return Means(grid.low + grid.step * (middle + offset * widths), np.minimum(error, 1.0) * widths * grid.step)


def scaled(values: Floats, low: npt.ArrayLike, width: npt.ArrayLike, steps: int) -> Floats:
    """Where values lie between the ends of a grid, in steps; the middle of a grid without width."""
    low, width = np.asarray(low, dtype=np.float64), np.asarray(width, dtype=np.float64)
    unit = np.divide(
        values - low, width, out=np.full(values.shape, 0.5), where=np.broadcast_to(width > 0, values.shape)
    )
    return np.asarray(np.clip(unit, 0.0, 1.0) * steps)
