"""Frequency oracles: every participant holds one of ``size`` items and randomises it; the server estimates counts.

Knows two randomizers, their exact loss, and how to draw the sum of many reports without drawing each one.
Knows no geometry. (Wang, Blocki, Li, Jha, USENIX Security 2017, compare these and others.)

The sums are exact in distribution, not approximations:

* optimised unary encoding sends one bit per item, each flipped independently, so the number of ones at an
  item is a sum of two binomials, and items are independent given the true counts;
* generalised randomized response keeps the true item with probability ``true - other`` and else draws one
  uniformly, so the tally is what was kept plus a uniform multinomial.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...arrays import Floats, Integers, as_number
from ...errors import InvalidInput

__all__ = ["GeneralizedResponse", "Oracle", "UnaryEncoding", "best_oracle", "estimate", "variance"]


class Oracle(Protocol):
    """What the tree baselines need of a randomizer over ``size`` items."""

    @property
    def size(self) -> int: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def true(self) -> float:
        """Probability that a report supports the true item."""

    @property
    def other(self) -> float:
        """Probability that a report supports a given other item."""

    def draw_tally(self, counts: Integers, *, rng: np.random.Generator) -> Integers:
        """How many reports support each item, int64[size], if ``counts`` participants hold it."""


@dataclass(frozen=True)
class UnaryEncoding:
    """Optimised unary encoding: the true item's bit is one with probability 1/2, others with 1/(e^epsilon + 1).

    Two inputs differ in two bits. With q = 1/(e^epsilon + 1) the largest ratio of a report's probabilities is
    (1/2)/q at the one times (1 - q)/(1/2) at the other: (1 - q)/q = e^epsilon.
    """

    size: int
    epsilon: float

    @property
    def true(self) -> float:
        """Probability that a report supports the true item."""
        return 0.5

    @property
    def other(self) -> float:
        """Probability that a report supports a given other item."""
        return math.exp(-self.epsilon) / (1 + math.exp(-self.epsilon))

    def draw_tally(self, counts: Integers, *, rng: np.random.Generator) -> Integers:
        """Reports that support each item: int64[size]."""
        holders = _counts(counts, self.size)
        others = holders.sum() - holders
        tally: Integers = rng.binomial(holders, self.true) + rng.binomial(others, self.other)
        return tally


@dataclass(frozen=True)
class GeneralizedResponse:
    """Randomized response over all items: the true one is e^epsilon times as likely as any other."""

    size: int
    epsilon: float

    @property
    def true(self) -> float:
        """Probability that a report supports the true item."""
        return 1 / (1 + (self.size - 1) * math.exp(-self.epsilon))

    @property
    def other(self) -> float:
        """Probability that a report supports a given other item."""
        return math.exp(-self.epsilon) * self.true

    def draw_tally(self, counts: Integers, *, rng: np.random.Generator) -> Integers:
        """Reports that support each item: int64[size]."""
        holders = _counts(counts, self.size)
        kept = rng.binomial(holders, self.true - self.other)
        return kept + rng.multinomial(holders.sum() - kept.sum(), np.full(self.size, 1 / self.size))


def best_oracle(size: int, *, epsilon: float) -> Oracle:
    """The one of the two with the smaller variance: plain response for few items, unary encoding for many.

    Examples
    --------
    >>> best_oracle(4, epsilon=1.0)
    GeneralizedResponse(size=4, epsilon=1.0)
    >>> best_oracle(400, epsilon=1.0)
    UnaryEncoding(size=400, epsilon=1.0)
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    if size < 1:
        raise InvalidInput(f"size must be at least 1; got {size!r}")
    small = (size - 2) * math.exp(-epsilon) < 3
    return GeneralizedResponse(size, epsilon) if small else UnaryEncoding(size, epsilon)


def estimate(oracle: Oracle, tally: Integers, people: int) -> Floats:
    """Unbiased number of holders of each item among ``people`` reports: float64[size]."""
    holders = (tally - people * oracle.other) / (oracle.true - oracle.other)
    return np.asarray(holders, dtype=np.float64)


def variance(oracle: Oracle, share: npt.ArrayLike, *, reporting: int, people: int) -> Floats:
    """Variance of ``estimate × people / reporting``, the count of an item among all people.

    Parameters
    ----------
    oracle : Oracle
    share : array_like
        Share of the people who hold the item (true or estimated).
    reporting, people : int
        ``reporting`` of the ``people`` were drawn at random and reported. The variance is that of the
        randomizer and of drawing them without replacement.
    """
    inside = np.clip(np.asarray(share, dtype=np.float64), 0.0, 1.0)
    true, other = oracle.true, oracle.other
    noise = (inside * true * (1 - true) + (1 - inside) * other * (1 - other)) / (true - other) ** 2
    drawing = inside * (1 - inside) * (people - reporting) / max(people - 1, 1)
    spread: Floats = (noise + drawing) * (people**2 / reporting)
    return spread


def _counts(counts: Integers, size: int) -> Integers:
    array = np.asarray(counts)
    if array.shape != (size,) or array.dtype.kind not in "iu" or (array < 0).any():
        raise InvalidInput(f"counts must be {size} non-negative integers; got {array.dtype}{array.shape}")
    return array.astype(np.int64)
