"""A window that slides over outputs in a row: integer weights, the proof of their epsilon, and where outputs lie.

Knows words, thresholds and weights. Knows no entropy.

Every output owns ``low`` words, whatever the input. The other words fill a window of ``window`` outputs, which
starts at a place that grows with the input; they add at most ``step`` words to an output. So each output has
between ``low`` and ``low + step`` words, and because ``low + step <= e^epsilon low`` holds in integers, no two
inputs give an output with probabilities further apart than e^epsilon. (Left-over words, fewer than the window has
outputs, go to the last output, whatever the input: that only brings its probabilities closer together.)

A window that starts between two outputs covers the first and the last of them in part. That is randomised
rounding: between whole starts all probabilities are linear in the start, and so are the means.

Any layout of the outputs is private, because their weights do not depend on where they lie. A layout is antisymmetric
around 0. From the middle outwards: outputs whose spacing starts at 1 and shrinks as sqrt(1 - bend t²); a gap; and an
end block, as wide as the window, with a spacing of its own. A linear program that minimises the worst-case variance
over all unbiased mechanisms finds this shape; three numbers describe it well. Small epsilon: no middle, two blocks.
Large epsilon: a long middle and hardly a gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers, Words
from ._weights import exp_below

__all__ = ["BUCKETS", "GRID", "Layout", "Window", "outputs_of", "peak_variance", "suited", "window_sums"]

GRID = 1 << 20
BUCKETS = 1 << 14
_PER_BUCKET = GRID // BUCKETS


class Window(NamedTuple):
    """Thresholds of one sliding window; make it with :meth:`build`."""

    share: int  # words it distributes, at most 2^48
    covered: int  # outputs it covers
    low: int  # words of every output, whatever the input
    step: int  # words it adds to an output that it covers
    floor: int  # words that do not depend on the input: share - covered * step
    starts: Words  # its start at the buckets, counted in words; shape (BUCKETS + 1,)
    rises: Words  # by how much the start grows within the bucket
    values: Floats  # what an output decodes to
    knots: Floats  # inputs for which it starts at 0, 1, 2, … whole outputs

    @classmethod
    def build(cls, epsilon: float, share: int, *, covered: int, pattern: Floats, knots: Sequence[int]) -> Window:
        """Choose the integers for a loss of at most epsilon.

        ``pattern`` says where the outputs lie: antisymmetric, the last window sums to 1. ``knots`` are the buckets at
        which the window starts at whole outputs; between them it moves on straight lines.
        """
        outputs = len(pattern)
        growth = Fraction(exp_below(epsilon))
        # Rounded up, so that share - outputs * low <= covered * (growth - 1) * low, and step <= (growth - 1) * low.
        low = math.ceil(share / (outputs + covered * (growth - 1)))
        step = (share - outputs * low) // covered
        levels = _levels(np.array(knots, dtype=np.int64), step)
        return cls(
            share, covered, low, step, share - covered * step, levels, np.diff(levels, append=levels[-1:]),
            0.5 + pattern * (share / (2 * step)), np.array(knots) / BUCKETS,
        )  # fmt: skip

    def pick(self, position: int, drawn: int) -> int:
        """Return the output for an input on the grid and a uniform word below ``share``."""
        if drawn < self.floor:
            return min(drawn // self.low, len(self.values) - 1)
        return (self._start(position) + drawn - self.floor) // self.step

    def pick_many(self, positions: Integers, drawn: Words) -> Words:
        """Do what :meth:`pick` does, for many inputs int[n] and words uint64[n]."""
        bucket = positions // _PER_BUCKET
        within = (positions - bucket * _PER_BUCKET).astype(np.uint64)
        start = self.starts[bucket] + self.rises[bucket] * within // np.uint64(_PER_BUCKET)
        floor, last = np.uint64(self.floor), np.uint64(len(self.values) - 1)
        anywhere = np.minimum(drawn // np.uint64(self.low), last)
        inside = (start + (drawn - floor)) // np.uint64(self.step)
        return np.asarray(np.where(drawn < floor, anywhere, inside))

    def weights(self, position: int) -> list[int]:
        """Return how many of the ``share`` words give each output."""
        weights = [self.low] * len(self.values)
        weights[-1] += self.floor - self.low * len(self.values)
        start = self._start(position)
        end = start + self.covered * self.step
        for output in range(start // self.step, -(-end // self.step)):
            weights[output] += min(end, (output + 1) * self.step) - max(start, output * self.step)
        return weights

    def moment(self, power: int) -> Floats:
        """Return the mean of a power of (decoded value - 1/2) at the knots."""
        values = (self.values - 0.5) ** power
        fixed = self.low * float(values.sum()) + (self.floor - self.low * len(values)) * float(values[-1])
        return np.asarray((fixed + self.step * window_sums(values, self.covered)) / self.share)

    def _start(self, position: int) -> int:
        bucket, within = divmod(position, _PER_BUCKET)
        return int(self.starts[bucket]) + int(self.rises[bucket]) * within // _PER_BUCKET


def _levels(knots: Integers, step: int) -> Words:
    """Where the window starts at each bucket, in words, rounded down: ``step * i // width`` between two knots."""
    widths = np.diff(knots)
    line = np.repeat(np.arange(len(widths)), widths)
    i = np.arange(len(line)) - knots[line]
    # The product would not fit into 64 bits; whole and rest of step / width times i do.
    whole, rest = np.divmod(step, widths)
    levels = line * step + whole[line] * i + rest[line] * i // widths[line]
    return np.append(levels, len(widths) * step).astype(np.uint64)


# -- where the outputs lie, and which layout suits an epsilon ----------------------------------------------------------


class Layout(NamedTuple):
    """Numbers of outputs and spacings; spacings in hundredths of the one in the middle."""

    outputs: int
    window: int
    end: int
    gap: int
    bend: int


# Window, end, gap and bend, found by minimising the worst-case variance at epsilon from 0.25 to 14.
_GOOD = (
    (8, 4, 200, 0),
    (8, 8, 200, 0),
    (8, 13, 200, 0),
    (8, 19, 200, 0),
    (11, 160, 2000, 0),
    (7, 440, 4500, 0),
    (10, 274, 4600, 0),
    (11, 54, 1380, 7),
    (9, 23, 610, 0),
    (9, 43, 530, 0),
    (10, 28, 340, 60),
    (8, 37, 200, 74),
    (7, 31, 146, 99),
    (8, 24, 138, 99),
    (8, 38, 138, 88),
    (7, 40, 102, 77),
    (6, 40, 70, 80),
    (4, 53, 60, 76),
)


def outputs_of(layout: Layout) -> Floats:
    """Return where the outputs lie, float[outputs], scaled so that the last window sums to 1.

    Examples
    --------
    >>> outputs_of(Layout(6, 2, end=100, gap=100, bend=0)).round(3).tolist()
    [-0.625, -0.375, -0.125, 0.125, 0.375, 0.625]
    """
    middle = layout.outputs // 2 - layout.window
    spacing = np.empty(layout.outputs // 2)
    spacing[:middle] = np.sqrt(1 - layout.bend / 100 * (np.arange(middle) / max(middle, 1)) ** 2)
    spacing[middle] = layout.gap / 100
    spacing[middle + 1 :] = layout.end / 100
    spacing[0] /= 2  # the middle of the layout lies between two outputs
    upper = np.cumsum(spacing)
    last = np.cumsum(upper[-layout.window :])[-1]  # one after the other: the order decides the rounding
    return np.asarray(np.concatenate([-upper[::-1], upper]) / last)


def window_sums(values: Floats, window: int) -> Floats:
    """Return the sums over all windows of whole outputs, float[outputs - window + 1]."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(sums[window:] - sums[:-window])


def peak_variance(first: Floats, second: Floats) -> float:
    """Return the largest ``second - first²`` on the polygon through the given first and second moments."""
    # Between two corners it is a concave parabola: look at its top, or at the end nearest to it.
    rise, lift = np.diff(first), np.diff(second)
    top = np.clip((lift / (2 * rise) - first[:-1]) / rise, 0.0, 1.0)
    return float(np.max(second[:-1] + top * lift - (first[:-1] + top * rise) ** 2))


@lru_cache(maxsize=256)
def suited(epsilon: float) -> Layout:
    """Return the layout, out of some hundred good ones, with the smallest worst-case variance."""
    return min(
        (
            Layout(outputs, window, end, gap, bend)
            for window, end, gap, bend in _GOOD
            for outputs in _sizes(epsilon, window)
        ),
        key=lambda layout: _worst_variance(epsilon, layout),
    )


def _sizes(epsilon: float, window: int) -> range:
    # The best size grows as e^{epsilon / 3}: the window narrows as fast as stray outputs get rare.
    wide = window * math.exp(epsilon / 3)
    largest = min(max(round(1.1 * wide), 3 * window), 800)
    smallest = max(2 * window, largest // 2)
    pace = max(1, largest // 100)
    return range(smallest - smallest % 2, largest + 1, 2 * pace)


def _worst_variance(epsilon: float, layout: Layout) -> float:
    values, extra = outputs_of(layout), math.expm1(epsilon)
    low = 1 / (layout.outputs + layout.window * extra)
    first = low * extra * window_sums(values, layout.window)
    second = low * (np.sum(values**2) + extra * window_sums(values**2, layout.window))
    return peak_variance(first, second) / (2 * float(first[-1])) ** 2
