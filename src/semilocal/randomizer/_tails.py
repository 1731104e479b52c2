"""Tail probabilities behind the crowd test of rule "all": thresholds that hold, for many cells at once.

Knows sums of independent random numbers. Knows no cells, participants or messages.
All results round to the private side: a threshold may be one too large, never one too small.

scipy.special is loaded at first use: importing it takes longer than the rest of the core.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers

__all__ = ["ChernoffCurve", "chernoff_margin", "two_binomial_threshold"]


_GUARD = 1e-6  # relative slack left for float rounding in computed tails
_DROPPED = 1e-8  # relative to delta: mass of the small binomial that is counted as failing instead of summed
_TERMS = 1 << 18  # of the tails that are searched at once


def two_binomial_threshold(sizes: npt.ArrayLike, members: int, p_in: float, p_out: float, *, delta: float) -> Integers:
    """Smallest count c with P(Bin(members, p_in) + Bin(size - members, p_out) >= c) <= delta.

    Parameters
    ----------
    sizes : int[m]
        Number of responders, each at least ``members``.
    members : int
        How many of them are in the child (``k - 1`` in the crowd test).
    p_in, p_out : float
        Chance that a member, or another responder, is counted; ``p_in > p_out``.
    delta : float
        Largest allowed tail.

    Returns
    -------
    int64[m]
        Thresholds; ``size + 1`` where no count is that unlikely.
    """
    different, place = np.unique(np.asarray(sizes, dtype=np.int64), return_inverse=True)
    values, chances = _inside(members, p_in, delta)
    at_once = max(_TERMS // len(values), 1)
    thresholds = np.empty_like(different)
    for begin in range(0, len(different), at_once):
        size = different[begin : begin + at_once]
        low, high = np.zeros_like(size), size + 1  # bisection: high is known to be unlikely enough
        while np.any(low < high):
            middle = (low + high) // 2
            upper = _binomial_tail(middle[:, None] - values, (size - members)[:, None], p_out)
            rare = upper @ chances + 2.0 * delta * _DROPPED <= delta * (1.0 - _GUARD)
            low, high = np.where(rare, low, middle + 1), np.where(rare, middle, high)
        thresholds[begin : begin + at_once] = high
    return thresholds[place]


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


class ChernoffCurve(NamedTuple):
    """Log moment generating function of one noise term on a grid, and where each grid point is best."""

    exponent: Floats  # float64[g]: grid of exponents, ascending, positive
    log_mgf: Floats  # float64[g]: log E exp(exponent * noise) of one term
    # float64[g]: ``exponent * derivative - log_mgf``: a sum of n terms has its best exponent where n * balance =
    # log(1/delta)
    balance: Floats


def chernoff_margin(sizes: npt.ArrayLike, curve: ChernoffCurve, *, delta: float) -> Floats:
    """Margin that a sum of ``size`` independent noise terms exceeds with probability at most delta.

    Any exponent of the grid gives a valid bound; the best neighbours are tried, so the result is valid for every
    grid and tight for a fine one.

    Parameters
    ----------
    sizes : float[m]
        Number of terms, at least 0.
    """
    size = np.asarray(sizes, dtype=np.float64)
    budget = float(np.log(1.0 / delta))
    with np.errstate(divide="ignore"):
        wanted = np.searchsorted(curve.balance, np.where(size > 0, budget / np.maximum(size, 1e-300), np.inf))
    best = np.full(size.shape, np.inf)
    for shift in (-1, 0, 1):
        i = np.clip(wanted + shift, 0, len(curve.exponent) - 1)
        best = np.minimum(best, (size * curve.log_mgf[i] + budget) / curve.exponent[i])
    return np.where(size > 0, best, 0.0)
