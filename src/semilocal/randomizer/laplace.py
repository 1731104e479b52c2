"""Discrete Laplace noise on a one-hot vector, and what it shares with the paper's float noise.

Knows one cell's children. Knows no tree, rounds, messages or positions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, Words
from ._tails import chernoff_margin
from ._weights import discrete_curve, laplace_chances, laplace_thresholds, laplace_weights
from .base import Answer, Randomizer, check_parameters, check_vector

__all__ = ["DiscreteLaplace", "LaplaceNoise"]


class LaplaceNoise(Randomizer, frozen=True):
    """What the two Laplace randomizers share: a noisy number for every child, in units of 1 / ``unit``."""

    @property
    def words(self) -> int:
        """64-bit words of entropy one report takes."""
        return self.fanout

    @property
    def unit(self) -> int:
        """Integer that stands for one participant in reports and tallies."""
        raise NotImplementedError

    def margin_of(self, responders: npt.ArrayLike, *, delta: float) -> Floats:
        """What the summed noise of a child exceeds with probability at most delta, in participants: float64[m]."""
        raise NotImplementedError

    def tally(self, reports: Integers, groups: Integers, size: int) -> Integers:
        """Sums of reports per group: int64[size, fanout]."""
        out = np.zeros((size, self.fanout), dtype=np.int64)
        np.add.at(out, groups, reports)
        return out

    def estimate(self, tally: npt.ArrayLike, responders: npt.ArrayLike) -> Floats:
        """Unbiased estimates of the number of responders in each child: float64[m, fanout]."""
        return np.asarray(tally, dtype=np.float64) / self.unit

    def threshold(self, responders: npt.ArrayLike, *, k: int, delta: float) -> Integers:
        """Smallest tally entry with which a child passes the crowd test: int64[m]."""
        size = np.asarray(responders)
        bound = np.ceil((k - 1 + self.margin_of(size, delta=delta)) * self.unit).astype(np.int64)
        return np.where(size >= k, bound, np.iinfo(np.int64).max)


class DiscreteLaplace(LaplaceNoise, frozen=True, tag="discrete-laplace"):
    """Adds discrete Laplace noise of scale 2 / epsilon to every entry of the one-hot vector of the child.

    A move changes two entries by one each, so each entry may cost epsilon / 2. Entries are clamped to a finite
    alphabet far out in the tail, which is the same for both values of an entry and therefore costs nothing.

    Parameters
    ----------
    epsilon : float
        True loss of one report, 0.001 to 40.
    fanout : int
        Number of children, 2 to 256.
    """

    epsilon: float
    fanout: int

    def __post_init__(self) -> None:
        check_parameters(self)

    @property
    def alphabet(self) -> tuple[Integers, tuple[int, ...]]:
        """Values an entry can take and their integer weights out of 2**64 when the entry's true value is 0.

        When it is 1, value y has the weight of 1 - y.
        """
        return laplace_chances(self.epsilon)[0], laplace_weights(self.epsilon)

    @property
    def unit(self) -> int:
        """Integer that stands for one participant in reports and tallies."""
        return 1

    def answers(self, children: Integers, words: Words) -> Integers:
        """Reports of many participants from their entropy: int64[n, fanout]."""
        values = self.alphabet[0]
        noisy = values[np.searchsorted(laplace_thresholds(self.epsilon), words, side="right")]
        rows = np.arange(len(children))
        noisy[rows, children] = 1 - noisy[rows, children]
        return noisy

    def draw_tally(self, counts: npt.ArrayLike, rng: np.random.Generator) -> Integers:
        """Tallies of whole cells, exact in distribution: int64[m, fanout]."""
        count = np.asarray(counts, dtype=np.int64)
        values, chances = laplace_chances(self.epsilon)
        chances = chances / chances.sum()
        zeros = count.sum(axis=1, keepdims=True) - count
        return np.asarray(rng.multinomial(zeros, chances) @ values + rng.multinomial(count, chances) @ (1 - values))

    def margin_of(self, responders: npt.ArrayLike, *, delta: float) -> Floats:
        """Chernoff's bound with the exact moment generating function of the clamped noise: float64[m]."""
        return chernoff_margin(responders, discrete_curve(self.epsilon), delta=delta)

    def check_answer(self, answer: Answer) -> None:
        """Refuse an answer that no participant can have given."""
        low, high = (int(value) for value in self.alphabet[0][[0, -1]])
        check_vector(answer, self.fanout, low, high)
