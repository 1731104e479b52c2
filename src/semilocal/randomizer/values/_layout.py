"""Layouts of a sliding window mechanism: where its outputs lie, and which layout suits an epsilon.

Knows spacings and variances in real numbers. Knows no entropy. Any layout is private, because the
weights of the outputs do not depend on where they lie (see ``mechanisms.py``).

A layout is antisymmetric around 0. From the middle outwards: outputs whose spacing starts at 1 and shrinks as
sqrt(1 - bend t²); a gap; and an end block, as wide as the window, with a spacing of its own. A linear program that
minimises the worst-case variance over all unbiased mechanisms finds this shape; three numbers describe it well.
Small epsilon: no middle, two blocks. Large epsilon: a long middle and hardly a gap.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...arrays import Floats

__all__ = ["Layout", "outputs_of", "peak_variance", "suited", "window_sums"]


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
