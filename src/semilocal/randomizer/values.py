"""Mechanisms for one number: a value in [0, 1] becomes an integer of a finite alphabet.

The guarantee is pure local differential privacy: for any two values in [0, 1] and any output, the probabilities differ
by a factor of at most e^epsilon, with no delta. Outputs are integers, thresholds are integers, and ``probabilities``
gives the exact weights, so that this can be enumerated.

Both mechanisms are a *window* that slides over outputs in a row. Every output owns ``low`` words, whatever the input.
The other words fill a window of ``covered`` outputs, which starts at a place that grows with the input; they add at
most ``step`` words to an output. ``low + step <= e^epsilon low`` holds in integers: that is the proof of epsilon.
(Left-over words, fewer than the window has outputs, go to the last output, whatever the input: that only brings its
probabilities closer together.) A window that starts between two outputs covers the first and the last of them in part.
That is randomised rounding: between whole starts all probabilities are linear in the start, and so are the means.

A window is the best there is: among all probabilities between ``low`` and ``e^epsilon low`` with a given mean, the
smallest variance has the high ones on an interval. What is left to choose is where the outputs lie. Any layout is
private. Ours are antisymmetric around 0: from the middle outwards, outputs whose spacing starts at 1 and shrinks as
sqrt(1 - bend t²); a gap; and an end block, as wide as the window, with a spacing of its own. A linear program that
minimises the worst-case variance over all unbiased mechanisms finds this shape; three numbers describe it well.

Biases. The input is put on a public grid, which moves it by at most 2^-21. Integer thresholds add less than 2^-30.
Nothing else is biased.

Knows values and words. Knows no functions, regions, crowds or participants: the caller maps the range of its function
over a region to [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, Words, as_floats, is_number
from ..errors import InvalidInput
from .base import exp_below

MIN_EPSILON, MAX_EPSILON = 0.01, 16.0
GRID = 1 << 20
BUCKETS = 1 << 14
_PER_BUCKET = GRID // BUCKETS
_BITS = 48  # of a word; the other 16 leave room for products in 64 bits
_BLOCK = 1 << 14  # values at a time: temporaries stay in the processor's cache


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

    def pick(self, positions: Integers, drawn: Words) -> Words:
        """The outputs for inputs int[n] on the grid and uniform words uint64[n] below ``share``."""
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


class Layout(NamedTuple):
    """Numbers of outputs and spacings; spacings in hundredths of the one in the middle."""

    outputs: int
    window: int
    end: int
    gap: int
    bend: int


class Mechanism(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """A sliding window over outputs; take one of the subclasses, or :func:`best`.

    ``epsilon`` bounds the loss of one release: the log of the largest ratio of the probabilities of an output under two
    values. Adjacent are any two values in [0, 1]; delta is 0.
    """

    epsilon: float

    def __post_init__(self) -> None:
        value: Any = self.epsilon
        if not (
            (is_number(value) or isinstance(value, np.integer | np.floating)) and MIN_EPSILON <= value <= MAX_EPSILON
        ):
            raise InvalidInput(
                f"the epsilon of one value must be a number in [{MIN_EPSILON}, {MAX_EPSILON}]; got {value!r}; "
                "with less nothing is learned, with more nothing is protected"
            )
        msgspec.structs.force_setattr(self, "epsilon", float(value))

    @property
    def thresholds(self) -> Window:
        """Its thresholds."""
        raise NotImplementedError

    @property
    def total(self) -> int:
        """The sum of :meth:`probabilities`, the same for every input."""
        return 1 << _BITS

    @property
    def alphabet(self) -> range:
        """All integers that can be released; each of them can come from every input."""
        return range(len(self.thresholds.values))

    def probabilities(self, unit: float) -> list[int]:
        """Return how many of the ``total`` values of the entropy give each integer of the alphabet."""
        return self.thresholds.weights(_on_grid(unit))

    def release(self, unit: npt.ArrayLike, words: Words) -> Integers:
        """Release many values in [0, 1], float[n], each with the loss ``epsilon``: integers of the alphabet, int64[n].

        ``words`` uint64[n] are independent and uniform, used here and never again.
        """
        values = _unit(unit)
        if not isinstance(words, np.ndarray) or words.dtype != np.uint64 or words.shape != values.shape:
            got = f"{words.dtype} {words.shape}" if isinstance(words, np.ndarray) else type(words).__name__
            raise InvalidInput(
                f"words must be a uint64 array of shape {values.shape}; got {got}; draw them with "
                f"rng.integers(0, 2**64, size={len(values)}, dtype=numpy.uint64)"
            )
        reports = np.empty(len(values), dtype=np.int64)
        for first in range(0, len(values), _BLOCK):
            block = slice(first, first + _BLOCK)
            reports[block] = self._pick(np.rint(values[block] * GRID).astype(np.int64), words[block])
        return reports

    def _pick(self, positions: Integers, words: Words) -> Integers:
        return self.thresholds.pick(positions, words >> np.uint64(64 - _BITS)).astype(np.int64)

    def release_one(self, unit: float, entropy: bytes) -> int:
        """Release one value with the result of :meth:`release` for the same word: 8 bytes, big-endian, keyed."""
        if not isinstance(entropy, bytes) or len(entropy) != 8:
            got = f"{len(entropy)} bytes" if isinstance(entropy, bytes) else type(entropy).__name__
            raise InvalidInput(f"entropy must be 8 bytes; got {got}")
        return int(self.release([unit], np.frombuffer(entropy, dtype=">u8").astype(np.uint64))[0])

    def decode(self, reports: npt.ArrayLike) -> Floats:
        """Return unbiased estimates of the values, float[n]; single ones may lie far outside [0, 1]."""
        array = np.asarray(reports)
        if array.dtype.kind not in "iu" and array.size:
            raise InvalidInput(f"reports must be integers of {self.alphabet}; got dtype {array.dtype}")
        outside = (array < self.alphabet.start) | (array >= self.alphabet.stop)
        if outside.any():
            raise InvalidInput(
                f"reports must be integers of {self.alphabet}; got {array[outside][0]} and {outside.sum() - 1} more "
                "outside; they come from another mechanism or were changed: leave them out"
            )
        return self.thresholds.values[array.astype(np.int64)]

    def variance(self, unit: npt.ArrayLike) -> Floats:
        """Return the variance of the decoded value, float[n], over the randomness of the mechanism."""
        inputs = np.rint(_unit(unit) * GRID) / GRID
        knots, first, second = self._moments
        return np.asarray(np.interp(inputs, knots, second) - np.interp(inputs, knots, first) ** 2)

    @cached_property
    def worst_variance(self) -> float:
        """The largest variance of the decoded value, over all inputs."""
        _, first, second = self._moments
        return peak_variance(first, second)

    @cached_property
    def _moments(self) -> tuple[Floats, Floats, Floats]:
        """Inputs between which probabilities are linear; mean and mean square of (decoded value - 1/2) there."""
        return self.thresholds.knots, self.thresholds.moment(1), self.thresholds.moment(2)


class TwoPoint(Mechanism, frozen=True, tag="two-point"):
    """The two-point mechanism of Duchi, Jordan and Wainwright (2013): one bit."""

    @cached_property
    def thresholds(self) -> Window:
        return Window.build(self.epsilon, 1 << _BITS, covered=1, pattern=np.array([-1.0, 1.0]), knots=[0, BUCKETS])


class SlidingWindow(Mechanism, frozen=True, tag="sliding-window"):
    """A window over unevenly spaced outputs: the default for bounded values.

    Any layout is private; the layout decides the variance alone. :meth:`tuned` picks one whose worst-case variance
    is within a few per cent of the smallest that any unbiased mechanism of the same epsilon reaches (found by
    linear programming; the tests have its optima).

    Parameters
    ----------
    epsilon : float
        Loss of one release.
    outputs, window : int
        Size of the alphabet (even, at most 2048), and how many outputs the window covers (at most half of them).
    end, gap, bend : int
        Spacings in hundredths of the one in the middle: of the last ``window`` outputs on both sides, of the gap
        before them, and by how much the squared spacing shrinks from the middle to the gap (0 to 99).
    """

    outputs: int
    window: int
    end: int
    gap: int
    bend: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (
            all(type(value) is int for value in self.layout)
            and 1 <= self.window <= self.outputs // 2 <= 1024
            and self.outputs % 2 == 0
            and 0 <= self.end <= 10_000
            and 1 <= self.gap <= 10_000
            and 0 <= self.bend <= 99
        ):
            raise InvalidInput(
                "a layout has integers: outputs even and at most 2048, window in [1, outputs / 2], end in [0, 10000], "
                f"gap in [1, 10000], bend in [0, 99]; got {self.layout}; SlidingWindow.tuned(epsilon) chooses for you"
            )
        if np.diff(self._knots).min() < 1:
            raise InvalidInput(f"{self.layout} is finer than {BUCKETS} buckets allow; take fewer outputs")

    @classmethod
    def tuned(cls, epsilon: float) -> SlidingWindow:
        """Choose the layout with the smallest worst-case variance, out of a list of good ones."""
        return cls(epsilon, *suited(TwoPoint(epsilon).epsilon))

    @property
    def layout(self) -> Layout:
        """What places the outputs."""
        return Layout(self.outputs, self.window, self.end, self.gap, self.bend)

    @property
    def _knots(self) -> Integers:
        """The buckets at which the window starts at 0, 1, 2, … whole outputs; symmetric."""
        sums = window_sums(outputs_of(self.layout), self.window)
        lower = np.rint((1 + sums[: len(sums) // 2]) * (BUCKETS / 2)).astype(np.int64)
        return np.concatenate([lower, [BUCKETS // 2] * (len(sums) % 2), BUCKETS - lower[::-1]])

    @cached_property
    def thresholds(self) -> Window:
        pattern, knots = outputs_of(self.layout), self._knots
        # Whole starts were put at whole buckets. Moving the outputs a little puts the means exactly there again:
        # outputs a window apart form a chain, its differences follow from the knots, its middle stays.
        steps = (knots[1:] - knots[:-1]) * (2 / BUCKETS)
        for first in range(self.window):
            old = pattern[first :: self.window]
            new = np.concatenate([[0.0], np.cumsum(steps[first :: self.window])])
            pattern[first :: self.window] = new + (old[0] + old[-1] - new[-1]) / 2
        return Window.build(self.epsilon, 1 << _BITS, covered=self.window, pattern=pattern, knots=knots.tolist())


AnyMechanism: TypeAlias = TwoPoint | SlidingWindow


def best(epsilon: float) -> AnyMechanism:
    """Return the mechanism with the smallest worst-case variance at this epsilon (delta 0, any two values adjacent).

    That keeps the error of a mean over a crowd small, whatever its values are. Up to about epsilon = 0.17 it is the one
    bit of :class:`TwoPoint`, then a :class:`SlidingWindow`.

    Examples
    --------
    >>> best(0.1).alphabet
    range(0, 2)
    """
    return _best(TwoPoint(epsilon).epsilon)


@lru_cache(maxsize=256)
def _best(epsilon: float) -> AnyMechanism:
    candidates: tuple[AnyMechanism, ...] = (TwoPoint(epsilon), SlidingWindow.tuned(epsilon))
    return min(candidates, key=lambda mechanism: mechanism.worst_variance)


def _on_grid(unit: float) -> int:
    """The step of the public grid, 0 to 2^20, that is nearest to a value in [0, 1]."""
    return round(float(_unit([unit])[0]) * GRID)


def _unit(values: Any) -> Floats:
    array = as_floats(values, "values", infinite=True)
    if array.ndim != 1:
        raise InvalidInput(f"values must have shape (n,); got {array.shape}")
    wrong = ~((array >= 0.0) & (array <= 1.0))  # true for NaN too
    if wrong.any():
        first = int(np.argmax(wrong))
        raise InvalidInput(
            f"values must be in [0, 1]; {int(wrong.sum())} of {len(array)} are not, the first at index {first}: "
            f"{array[first]}; map the range of the function over the region to [0, 1] first"
        )
    return array


# -- where the outputs lie, and which layout suits an epsilon ----------------------------------------------------------


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
    """Return where the outputs lie, float[outputs], scaled so that the last window sums to 1."""
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
