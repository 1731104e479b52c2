"""Value mechanisms: one number in the unit interval becomes one integer of a small alphabet.

Knows which outputs there are and how words choose among them. Knows no functions, regions, crowds or participants.

The guarantee of all of them is pure local differential privacy: for any two values in [0, 1] and any output, the
probabilities differ by a factor of at most e^epsilon, with no delta. Outputs are integers, thresholds are integers,
and ``probabilities`` gives the exact weights, so that this can be enumerated.

Two points (Duchi, Jordan and Wainwright 2013), the piecewise mechanism (Wang et al. 2019) and our default are one
construction, a window that slides over outputs in a row (``_window.py``). A window is the best there is: among all
probabilities between ``low`` and ``e^epsilon low`` with a given mean, the smallest variance has the high ones on an
interval. What is left to choose is where the outputs lie.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from ...arrays import Floats, Integers, Words
from ...errors import InvalidInput
from .._weights import exp_below
from ._window import BUCKETS, GRID, Layout, Window, outputs_of, suited, window_sums
from .base import MAX_EPSILON, MIN_EPSILON, Mechanism, on_grid

__all__ = [
    "GRID", "MAX_EPSILON", "MIN_EPSILON", "AnyMechanism", "DiscreteLaplaceValue", "Hybrid", "Mechanism",
    "Piecewise", "SlidingWindow", "TwoPoint", "best",
]  # fmt: skip

_BITS = 48  # of a word; the other 16 leave room for products in 64 bits


class Windows(Mechanism, frozen=True):
    """One or more sliding windows with an alphabet each; which of them acts does not depend on the input."""

    @property
    def parts(self) -> tuple[Window, ...]:
        raise NotImplementedError

    @property
    def words(self) -> int:
        return 1

    @property
    def total(self) -> int:
        return 1 << _BITS

    @property
    def alphabet(self) -> range:
        return range(sum(len(part.values) for part in self.parts))

    @cached_property
    def _values(self) -> Floats:
        return np.concatenate([part.values for part in self.parts])

    @cached_property
    def moments(self) -> tuple[Floats, Floats, Floats]:
        knots = np.unique(np.concatenate([part.knots for part in self.parts]))
        first, second = np.zeros(len(knots)), np.zeros(len(knots))
        for part in self.parts:
            first += part.share / self.total * np.interp(knots, part.knots, part.moment(1))
            second += part.share / self.total * np.interp(knots, part.knots, part.moment(2))
        return knots, first, second

    def probabilities(self, unit: float) -> list[int]:
        position = on_grid(unit)
        return [weight for part in self.parts for weight in part.weights(position)]

    def _pick(self, position: int, words: tuple[int, ...]) -> int:
        drawn, before = words[0] >> (64 - _BITS), 0
        for part in self.parts[:-1]:
            if drawn < part.share:
                return before + part.pick(position, drawn)
            drawn, before = drawn - part.share, before + len(part.values)
        return before + self.parts[-1].pick(position, drawn)

    def _pick_many(self, positions: Integers, words: Words) -> Integers:
        drawn = words[:, 0] >> np.uint64(64 - _BITS)
        reports = self.parts[0].pick_many(positions, drawn).astype(np.int64)
        used, before = self.parts[0].share, len(self.parts[0].values)
        for part in self.parts[1:]:
            mine = drawn >= np.uint64(used)
            reports[mine] = before + part.pick_many(positions[mine], drawn[mine] - np.uint64(used)).astype(np.int64)
            used, before = used + part.share, before + len(part.values)
        return reports


class TwoPoint(Windows, frozen=True, tag="two-point"):
    """The two-point mechanism of Duchi, Jordan and Wainwright (2013): one bit.

    Examples
    --------
    >>> mechanism = TwoPoint(1.0)
    >>> mechanism.alphabet
    range(0, 2)
    >>> mechanism.release_one(0.25, bytes(8))
    0
    >>> mechanism.decode([0, 1]).round(3).tolist()
    [-0.582, 1.582]
    """

    @cached_property
    def parts(self) -> tuple[Window, ...]:
        return (_even(self.epsilon, 1 << _BITS, outputs=2, window=1),)


class Piecewise(Windows, frozen=True, tag="piecewise"):
    """The piecewise mechanism of Wang et al. (2019) on a grid so fine that the window spans 32 outputs."""

    @cached_property
    def parts(self) -> tuple[Window, ...]:
        return (_piecewise(self.epsilon, 1 << _BITS),)


class Hybrid(Windows, frozen=True, tag="hybrid"):
    """The hybrid mechanism of Wang et al. (2019): piecewise with probability 1 - e^(-epsilon/2), else two points.

    Up to epsilon = 0.61, where the mixture does not pay, it is the two-point mechanism.
    """

    @cached_property
    def parts(self) -> tuple[Window, ...]:
        if self.epsilon <= 0.61:
            return TwoPoint(self.epsilon).parts
        with localcontext(prec=60):  # whatever context the caller has
            share = int((1 << _BITS) * (1 - 1 / exp_below(self.epsilon / 2)))
        rest = _even(self.epsilon, (1 << _BITS) - share, outputs=2, window=1)
        return (_piecewise(self.epsilon, share), rest)


class SlidingWindow(Windows, frozen=True, tag="sliding-window"):
    """A window over unevenly spaced outputs: the default for bounded values.

    Any layout is private; the layout decides the variance alone. :meth:`tuned` picks one whose worst-case variance
    is within a few per cent of the smallest that any unbiased mechanism of the same epsilon reaches (found by
    linear programming, which the tests repeat).

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
        """Choose the layout with the smallest worst-case variance, out of a list of good ones.

        Examples
        --------
        >>> SlidingWindow.tuned(4.0).worst_variance < 0.6 * Piecewise(4.0).worst_variance
        True
        """
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
    def parts(self) -> tuple[Window, ...]:
        pattern, knots = outputs_of(self.layout), self._knots
        # Whole starts were put at whole buckets. Moving the outputs a little puts the means exactly there again:
        # outputs a window apart form a chain, its differences follow from the knots, its middle stays.
        steps = (knots[1:] - knots[:-1]) * (2 / BUCKETS)
        for first in range(self.window):
            old = pattern[first :: self.window]
            new = np.concatenate([[0.0], np.cumsum(steps[first :: self.window])])
            pattern[first :: self.window] = new + (old[0] + old[-1] - new[-1]) / 2
        corners = [(int(knot), start) for start, knot in enumerate(knots)]
        return (Window.build(self.epsilon, 1 << _BITS, window=self.window, pattern=pattern, corners=corners),)


class DiscreteLaplaceValue(Mechanism, frozen=True, tag="discrete-laplace"):
    """Discrete Laplace noise on a public grid of ``steps + 1`` points over the unit interval.

    The value goes to one of its two neighbours on the grid, at random so that the mean is kept, and from there a
    discrete Laplace number of steps. What would leave a wide interval stays at its end; every output can come from
    every input. This is the Laplace mechanism made safe, kept for comparison: :func:`best` has less variance.

    Parameters
    ----------
    epsilon : float
        Loss of one release.
    steps : int
        Steps of the grid, 1 to 1024.
    """

    steps: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.steps) is not int or not 1 <= self.steps <= 1024:
            raise InvalidInput(f"steps must be an integer in [1, 1024]; got {self.steps!r}")

    @property
    def words(self) -> int:
        return 2

    @property
    def total(self) -> int:
        return GRID << 64

    @cached_property
    def _noise(self) -> list[int]:
        """How many of 2^64 words mean -reach, …, reach steps; the ends stand for all that lies beyond."""
        with localcontext(prec=50):
            factor = (Decimal(-self.epsilon * (1 - 2.0**-12)) / self.steps).exp()
            tail, tails = (1 << 64) * factor / (1 + factor), []
            # Integers are off by at most one: a weight of 2^14 / epsilon by epsilon / 2^14 of itself, the ratio of
            # two by less than the epsilon / 2^12 that was put aside.
            while tail * (1 - factor) > 2**14 / Decimal(self.epsilon):
                tails.append(int(tail))
                tail *= factor
        upper = [outer - inner for outer, inner in pairwise([*tails, 0])]
        return [*reversed(upper), (1 << 64) - 2 * sum(upper), *upper]

    @cached_property
    def _thresholds(self) -> Words:
        return np.cumsum(np.array(self._noise[:-1], dtype=np.uint64), dtype=np.uint64)

    @property
    def _reach(self) -> int:
        return len(self._noise) // 2

    @property
    def alphabet(self) -> range:
        # From 0 and from `steps` alike, all of it is within reach.
        return range(self.steps - self._reach, self._reach + 1)

    @cached_property
    def _values(self) -> Floats:
        return np.arange(self.alphabet.start, self.alphabet.stop) / self.steps

    @cached_property
    def moments(self) -> tuple[Floats, Floats, Floats]:
        chance = np.array(self._noise, dtype=np.float64) / 2.0**64
        noise = np.arange(-self._reach, self._reach + 1)
        moments = [
            [chance @ value, chance @ value**2]
            for cell in range(self.steps + 1)
            for value in [np.clip(cell + noise, self.alphabet.start, self.alphabet.stop - 1) / self.steps - 0.5]
        ]
        first, second = np.array(moments).T
        return np.arange(self.steps + 1) / self.steps, first, second

    def probabilities(self, unit: float) -> list[int]:
        cell, above = divmod(on_grid(unit) * self.steps, GRID)
        below = self._weights(cell)
        if not above:
            return [GRID * weight for weight in below]
        both = zip(below, self._weights(cell + 1), strict=True)
        return [(GRID - above) * low + above * high for low, high in both]

    def _weights(self, cell: int) -> list[int]:
        """How many of 2^64 words lead from a point of the grid to each output."""
        first = self.steps - cell  # the noise that leads to the first output
        last = first + len(self.alphabet) - 1
        return [sum(self._noise[: first + 1]), *self._noise[first + 1 : last], sum(self._noise[last:])]

    def _pick(self, position: int, words: tuple[int, ...]) -> int:
        return int(self._pick_many(np.array([position]), np.array([words], dtype=np.uint64))[0])

    def _pick_many(self, positions: Integers, words: Words) -> Integers:
        cells, above = np.divmod(positions * self.steps, GRID)
        cells += (words[:, 1] >> np.uint64(44)).astype(np.int64) < above
        noise = np.searchsorted(self._thresholds, words[:, 0], side="right") - self._reach
        return np.clip(cells + noise, self.alphabet.start, self.alphabet.stop - 1)


AnyMechanism: TypeAlias = TwoPoint | Piecewise | Hybrid | SlidingWindow | DiscreteLaplaceValue


def best(epsilon: float) -> TwoPoint | Piecewise | Hybrid | SlidingWindow:
    """Return the mechanism with the smallest worst-case variance at this epsilon (delta 0, any two values adjacent).

    That keeps the error of a mean over a crowd small, whatever its values are. Up to about epsilon = 0.17 it is the
    one bit of :class:`TwoPoint`, then a :class:`SlidingWindow`. Laplace noise has about twice the variance at
    small epsilon and many times as much at large epsilon; it is not looked at.

    Examples
    --------
    >>> best(0.1).alphabet
    range(0, 2)
    >>> mechanism, rng = best(2.0), np.random.default_rng(5)
    >>> words = rng.integers(0, 2**64, size=(10_000, mechanism.words), dtype=np.uint64)
    >>> estimates = mechanism.decode(mechanism.release(np.full(10_000, 0.3), words))
    >>> bool(abs(estimates.mean() - 0.3) < 5 * (mechanism.worst_variance / 10_000) ** 0.5)
    True
    """
    return _best(TwoPoint(epsilon).epsilon)


@lru_cache(maxsize=256)
def _best(epsilon: float) -> TwoPoint | Piecewise | Hybrid | SlidingWindow:
    candidates: tuple[TwoPoint | Piecewise | Hybrid | SlidingWindow, ...] = (
        TwoPoint(epsilon),
        SlidingWindow.tuned(epsilon),
        Hybrid(epsilon),
        Piecewise(epsilon),
    )
    return min(candidates, key=lambda mechanism: mechanism.worst_variance)


def _even(epsilon: float, share: int, *, outputs: int, window: int) -> Window:
    starts = outputs - window
    pattern: Floats = (2 * np.arange(outputs, dtype=np.float64) - (outputs - 1)) / (window * starts)
    return Window.build(epsilon, share, window=window, pattern=pattern, corners=[(0, 0), (BUCKETS, starts)])


def _piecewise(epsilon: float, share: int) -> Window:
    window = 32
    with localcontext(prec=60):
        outputs = round(window * (1 + exp_below(epsilon / 2)))
    return _even(epsilon, share, outputs=outputs, window=window)
