"""Randomized response: the default randomizer.

Knows one cell's children. Knows no tree, rounds, messages or positions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, Words, is_integer
from ..errors import InvalidInput
from ._tails import two_binomial_threshold
from ._weights import WORD, response_weights
from .base import Answer, Randomizer, check_parameters

__all__ = ["RandomizedResponse"]


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

    def threshold(self, responders: npt.ArrayLike, *, k: int, delta: float) -> Integers:
        """Smallest c with P(Bin(k-1, p) + Bin(n-k+1, p0) >= c) <= delta, by the exact tail: int64[m].

        With fewer than k responders nothing passes. Fewer members than k - 1 pass even more rarely.
        """
        size = np.asarray(responders, dtype=np.int64)
        p, p0 = self.probabilities
        exact = two_binomial_threshold(np.maximum(size, k), k - 1, p, p0, delta=delta)
        return np.where(size >= k, exact, size + 1)

    def check_answer(self, answer: Answer) -> None:
        """Refuse an answer that no participant can have given."""
        if not is_integer(answer) or not 0 <= answer < self.fanout:
            raise InvalidInput(f"an answer is an integer from 0 to {self.fanout - 1}; got {answer!r}")
