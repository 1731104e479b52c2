"""Randomized response: the default randomizer.

Knows one cell's children. Knows no tree, rounds, messages or positions.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, Integers, Words, is_integer, over_columns
from ..errors import InvalidInput
from ._tails import two_binomial_reaches, two_binomial_threshold
from ._weights import WORD, response_weights
from .base import Answer, Randomizer, check_parameters

__all__ = ["RandomizedResponse"]

_SLACK = 1e-4  # beyond what rounding, and the guard of the exact test, can change


class RandomizedResponse(Randomizer, frozen=True, tag="randomized-response"):
    """Tells the true child with probability e^epsilon / (e^epsilon + fanout - 1), else one of the others.

    The default: a report is one small integer, a liar moves an estimate by at most 1 / (p - p0), and the crowd
    test is exact.

    Parameters
    ----------
    epsilon : float
        True loss of one report, 0.001 to 40.
    fanout : int
        Number of children, 2 to 256.

    Examples
    --------
    >>> RandomizedResponse(1.0, 4).respond(2, bytes(8))
    2
    >>> round(RandomizedResponse(1.0, 2).variance(), 2), round(RandomizedResponse(1.0, 4).variance(), 2)
    (0.92, 1.6)
    """

    epsilon: float
    fanout: int

    def __post_init__(self) -> None:
        check_parameters(self)

    @property
    def words(self) -> int:
        """64-bit words of entropy one report takes."""
        return 1

    @property
    def weights(self) -> tuple[int, int]:
        """Integer weights out of 2**64 of the true child and of each other child; their ratio is <= e^epsilon."""
        return response_weights(self.epsilon, self.fanout)

    @property
    def probabilities(self) -> tuple[float, float]:
        """Chance of reporting the true child, and of reporting a given other child."""
        true, other = self.weights
        return true / WORD, other / WORD

    def answers(self, children: Integers, words: Words) -> Integers:
        """Reports of many participants from their entropy: int64[n]."""
        true, other = self.weights
        word = words[:, 0]
        beyond = np.maximum(word, np.uint64(true)) - np.uint64(true)
        skipped = (beyond // np.uint64(other)).astype(np.int64)
        skipped += skipped >= children
        return np.where(word < np.uint64(true), children, skipped)

    def tally(self, reports: Integers, groups: Integers, size: int) -> Integers:
        """Number of reports per group and child: int64[size, fanout]."""
        flat = np.bincount(groups * self.fanout + reports, minlength=size * self.fanout)
        return flat.reshape(size, self.fanout).astype(np.int64)

    def draw_tally(self, counts: npt.ArrayLike, rng: np.random.Generator) -> Integers:
        """Tallies of whole cells, exact in distribution: int64[m, fanout]."""
        count = np.asarray(counts, dtype=np.int64)
        p, p0 = self.probabilities
        if self.fanout == 2:
            stay = rng.binomial(count, p)
            return stay + (count - stay)[:, ::-1]
        out = np.zeros_like(count)
        for child in range(self.fanout):
            chances = np.full(self.fanout, p0)
            chances[child] = p
            out += rng.multinomial(count[:, child], chances / chances.sum())
        return out

    def estimate(self, tally: npt.ArrayLike, responders: npt.ArrayLike) -> Floats:
        """Unbiased estimates of the number of responders in each child: float64[m, fanout]."""
        p, p0 = self.probabilities
        expected = np.asarray(responders, dtype=np.float64)[:, None] * p0
        return np.asarray((np.asarray(tally, dtype=np.float64) - expected) / (p - p0))

    def variance(self, share: float = 0.0, *, members: int = 1) -> float:
        """Variance of an estimated number of responders, per responder of the cell."""
        p, p0 = self.probabilities
        inside, outside = p + (members - 1) * p0, members * p0
        return (share * inside * (1 - inside) + (1 - share) * outside * (1 - outside)) / ((p - p0) * (p - p0))

    def threshold(self, responders: npt.ArrayLike, *, k: int, delta: float) -> Integers:
        """Smallest c with P(Bin(k-1, p) + Bin(n-k+1, p0) >= c) <= delta, by the exact tail: int64[m].

        With fewer than k responders nothing passes. Fewer members than k - 1 pass even more rarely.
        """
        size = np.asarray(responders, dtype=np.int64)
        p, p0 = self.probabilities
        exact = two_binomial_threshold(np.maximum(size, k), k - 1, p, p0, delta=delta)
        return np.where(size >= k, exact, size + 1)

    def passes(self, tally: npt.ArrayLike, responders: npt.ArrayLike, *, k: int, delta: float) -> Flags:
        """The crowd test: bool[m, fanout]; only cells with a child near its threshold need the exact one."""
        sums, size = np.asarray(tally), np.asarray(responders, dtype=np.int64)
        surely, maybe = self._bounds(size, k, delta)
        out: Flags = sums >= surely[:, None]
        near = (size < k) | over_columns(np.logical_or, (sums >= maybe[:, None]) & ~out)
        rows = np.flatnonzero(near)
        out[rows] = super().passes(sums[rows], size[rows], k=k, delta=delta)
        return out

    def proves(self, tally: Integers, responders: Integers, crowds: Integers, *, delta: float) -> Flags:
        """The crowd test of single children, each with a crowd of its own: bool[m]."""
        surely, maybe = self._bounds(responders, crowds, delta)
        out: Flags = (responders >= crowds) & (tally >= surely)
        near = np.flatnonzero((responders >= crowds) & (tally >= maybe) & ~out)
        own = tally[near], responders[near], crowds[near] - 1
        out[near] = two_binomial_reaches(*own, *self.probabilities, delta=delta)
        return out

    def _bounds(self, responders: Integers, crowds: int | Integers, delta: float) -> tuple[Floats, Floats]:
        """From which tally on a child passes surely, and below which it does not: float64[m] each.

        By Hoeffding's bound a sum of n reports exceeds its mean by sqrt(n log(1 / delta) / 2) with probability at most
        delta; and it reaches its mean, rounded down, in more than half of all cases, where the threshold is above.
        """
        p, p0 = self.probabilities
        mean = np.asarray((crowds - 1) * p + (responders - crowds + 1) * p0, dtype=np.float64)
        return mean + np.sqrt(np.maximum(responders, 0) * (0.5 * math.log(1.0 / delta) + _SLACK)), mean

    def possible(self, tally: Integers, responders: Integers) -> Flags:
        """Whether a tally can be the sum of that many reports: bool[m]."""
        return np.asarray(over_columns(np.logical_and, tally >= 0) & (over_columns(np.add, tally) == responders))

    def check_answer(self, answer: Answer) -> None:
        """Refuse an answer that no participant can have given."""
        if not is_integer(answer) or not 0 <= answer < self.fanout:
            raise InvalidInput(f"an answer is an integer from 0 to {self.fanout - 1}; got {answer!r}")
