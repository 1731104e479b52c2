"""Randomized response: the default randomizer, and its exact crowd test for rule "all".

The test rounds to the private side: a threshold may be one too large, never one too small. scipy.special is loaded at
first use: importing it takes longer than the rest of the core.

Knows one cell's children. Knows no tree, rounds, messages or positions.
"""

from __future__ import annotations

import decimal
import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, Words, is_integer
from ..errors import InvalidInput
from .base import WORD, Answer, Randomizer, check_parameters, exp_below

__all__ = ["RandomizedResponse", "two_binomial_threshold"]

_GUARD = 1e-6  # relative slack left for float rounding in computed tails
_DROPPED = 1e-8  # relative to delta: mass of the small binomial that is counted as failing instead of summed
_TERMS = 1 << 18  # of the tails that are searched at once


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
        return 1

    @property
    def weights(self) -> tuple[int, int]:
        """Integer weights out of 2**64 of the true child and of each other child; their ratio is <= e^epsilon."""
        return _weights(self.epsilon, self.fanout)

    @property
    def probabilities(self) -> tuple[float, float]:
        """Chance of reporting the true child, and of reporting a given other child."""
        true, other = self.weights
        return true / WORD, other / WORD

    def answers(self, children: Integers, words: Words) -> Integers:
        true, other = self.weights
        word = words[:, 0]
        beyond = np.maximum(word, np.uint64(true)) - np.uint64(true)
        skipped = (beyond // np.uint64(other)).astype(np.int64)
        skipped += skipped >= children
        return np.where(word < np.uint64(true), children, skipped)

    def tally(self, reports: Integers, groups: Integers, size: int) -> Integers:
        flat = np.bincount(groups * self.fanout + reports, minlength=size * self.fanout)
        return flat.reshape(size, self.fanout).astype(np.int64)

    def draw_tally(self, counts: npt.ArrayLike, rng: np.random.Generator) -> Integers:
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

    def threshold(self, responders: npt.ArrayLike, *, k: int, delta: float) -> Integers:
        """Smallest c with P(Bin(k-1, p) + Bin(n-k+1, p0) >= c) <= delta, by the exact tail: int64[m].

        With fewer than k responders nothing passes. Fewer members than k - 1 pass even more rarely.
        """
        size = np.asarray(responders, dtype=np.int64)
        p, p0 = self.probabilities
        exact = two_binomial_threshold(np.maximum(size, k), k - 1, p, p0, delta=delta)
        return np.where(size >= k, exact, size + 1)

    def check_answer(self, answer: Answer) -> None:
        if not is_integer(answer) or not 0 <= answer < self.fanout:
            raise InvalidInput(f"an answer is an integer from 0 to {self.fanout - 1}; got {answer!r}")


@lru_cache(maxsize=256)
def _weights(epsilon: float, fanout: int) -> tuple[int, int]:
    """Weights of the true child and of each other one: their ratio never exceeds e**epsilon."""
    with decimal.localcontext() as context:
        context.prec = 60
        other = int((WORD / (exp_below(epsilon) + fanout - 1)).to_integral_value(decimal.ROUND_CEILING))
    return WORD - (fanout - 1) * other, other


def two_binomial_threshold(sizes: npt.ArrayLike, members: int, p_in: float, p_out: float, *, delta: float) -> Integers:
    """Smallest count c with P(Bin(members, p_in) + Bin(size - members, p_out) >= c) <= delta: int64[m].

    ``sizes`` int[m] are numbers of responders, at least ``members``, of whom so many are in the child (k - 1 in the
    crowd test). A member is counted with chance ``p_in``, above ``p_out``, that of another responder. ``size + 1``
    where no count is that unlikely.
    """
    different, place = np.unique(np.asarray(sizes, dtype=np.int64), return_inverse=True)
    values, chances = _inside(members, p_in, delta)
    at_once = max(_TERMS // len(values), 1)
    # A larger group's threshold is no smaller: every second one is found between its neighbours, coarse to fine.
    found = np.append(0, different + 1)
    step = 1 << len(different).bit_length()
    while step := step // 2:
        own = np.arange(step, len(found), 2 * step)
        size, beyond = different[own - 1], np.where(own + step < len(found), own + step, own)
        low, high = found[own - step], np.minimum(found[beyond], size + 1)  # high is known to be unlikely enough
        while len(rows := np.flatnonzero(low < high)[:at_once]):
            middle = (low[rows] + high[rows]) // 2
            upper = _binomial_tail(middle[:, None] - values, (size[rows] - members)[:, None], p_out)
            rare = upper @ chances + 2.0 * delta * _DROPPED <= delta * (1.0 - _GUARD)
            low[rows[~rare]], high[rows[rare]] = middle[~rare] + 1, middle[rare]
        found[own] = high
    return found[1 + place]


@lru_cache(maxsize=64)
def _inside(members: int, p: float, delta: float) -> tuple[Integers, Floats]:
    """Values of Bin(members, p) that matter, and their chances: what is left out has less than 2 _DROPPED delta."""
    from scipy.special import gammaln, xlog1py, xlogy

    reach = math.sqrt(members * math.log(1.0 / (delta * _DROPPED)) / 2.0)  # Hoeffding's bound
    first, last = max(math.floor(members * p - reach), 0), min(math.ceil(members * p + reach), members)
    x = np.arange(first, last + 1)
    ways = gammaln(members + 1.0) - gammaln(x + 1.0) - gammaln(members - x + 1.0)
    chances = np.exp(ways + xlogy(x, p) + xlog1py(members - x, -p))
    x.flags.writeable = chances.flags.writeable = False
    return x, chances


def _binomial_tail(value: Integers, size: Integers, p: float) -> Floats:
    """P(Bin(size, p) >= value)."""
    from scipy.special import betainc

    inside = (value >= 1) & (value <= size)
    v = np.where(inside, value, 1).astype(np.float64)
    n = np.where(inside, size, 1).astype(np.float64)
    return np.where(inside, betainc(v, n - v + 1, p), np.where(value <= 0, 1.0, 0.0))
