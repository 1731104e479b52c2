"""A window that slides over outputs in a row: integer weights, and the proof of their epsilon.

Knows words, thresholds and weights. Where the outputs lie is an argument. Knows no entropy.

Every output owns ``low`` words, whatever the input. The other words fill a window of ``window`` outputs, which
starts at a place that grows with the input; they add at most ``step`` words to an output. So each output has
between ``low`` and ``low + step`` words, and because ``low + step <= e^epsilon low`` holds in integers, no two
inputs give an output with probabilities further apart than e^epsilon. (Left-over words, fewer than the window has
outputs, go to the last output, whatever the input: that only brings its probabilities closer together.)

A window that starts between two outputs covers the first and the last of them in part. That is randomised
rounding: between whole starts all probabilities are linear in the start, and so are the means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ...arrays import Floats, Integers, Words
from .._weights import exp_below
from ._layout import window_sums

__all__ = ["BUCKETS", "GRID", "Window"]

GRID = 1 << 20
BUCKETS = 1 << 14
_PER_BUCKET = GRID // BUCKETS


class Window(NamedTuple):
    """Thresholds of one sliding window; make it with :meth:`build`."""

    share: int  # words it distributes, at most 2^48
    window: int  # outputs it covers
    low: int  # words of every output, whatever the input
    step: int  # words it adds to an output that it covers
    floor: int  # words that do not depend on the input: share - window * step
    starts: Words  # its start at the buckets, counted in words; shape (BUCKETS + 1,)
    rises: Words  # by how much the start grows within the bucket
    values: Floats  # what an output decodes to
    knots: Floats  # inputs for which it starts at 0, 1, 2, … whole outputs

    @classmethod
    def build(
        cls, epsilon: float, share: int, *, window: int, pattern: Floats, corners: Sequence[tuple[int, int]]
    ) -> Window:
        """Choose the integers for a loss of at most epsilon.

        Parameters
        ----------
        epsilon : float
            Log of the largest ratio of the probabilities of an output under two inputs.
        share : int
            Words to distribute.
        window : int
            Outputs that the window covers.
        pattern : float array, shape (outputs,)
            Where the outputs lie: antisymmetric, the last window sums to 1.
        corners : sequence of (bucket, output)
            Where the window starts, on straight lines between the corners.
        """
        outputs = len(pattern)
        growth = Fraction(exp_below(epsilon))
        # Rounded up, so that share - outputs * low <= window * (growth - 1) * low, and step <= (growth - 1) * low.
        low = math.ceil(share / (outputs + window * (growth - 1)))
        step = (share - outputs * low) // window
        levels = _levels(corners, step)
        edges, places = np.array(corners, dtype=np.float64).T
        return cls(
            share=share,
            window=window,
            low=low,
            step=step,
            floor=share - window * step,
            starts=levels,
            rises=np.diff(levels, append=levels[-1:]),
            values=0.5 + pattern * (share / (2 * step)),
            knots=np.interp(np.arange(outputs - window + 1), places, edges) / BUCKETS,
        )

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
        end = start + self.window * self.step
        for output in range(start // self.step, -(-end // self.step)):
            weights[output] += min(end, (output + 1) * self.step) - max(start, output * self.step)
        return weights

    def moment(self, power: int) -> Floats:
        """Return the mean of a power of (decoded value - 1/2) at the knots."""
        values = (self.values - 0.5) ** power
        fixed = self.low * float(values.sum()) + (self.floor - self.low * len(values)) * float(values[-1])
        return np.asarray((fixed + self.step * window_sums(values, self.window)) / self.share)

    def _start(self, position: int) -> int:
        bucket, within = divmod(position, _PER_BUCKET)
        return int(self.starts[bucket]) + int(self.rises[bucket]) * within // _PER_BUCKET


def _levels(corners: Sequence[tuple[int, int]], step: int) -> Words:
    """Where the window starts at each bucket, in words, rounded down: ``height * i // width`` on every line."""
    buckets, outputs = np.array(corners, dtype=np.int64).T
    widths = np.diff(buckets)
    line = np.repeat(np.arange(len(widths)), widths)
    i = np.arange(len(line)) - buckets[line]
    # The product would not fit into 64 bits; whole and rest of height / width times i do.
    whole, rest = np.divmod(np.diff(outputs) * step, widths)
    levels = outputs[line] * step + whole[line] * i + rest[line] * i // widths[line]
    return np.append(levels, outputs[-1] * step).astype(np.uint64)
