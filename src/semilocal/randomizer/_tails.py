"""Tail probabilities behind the crowd tests: thresholds that hold, for many cells at once.

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

from ..arrays import Flags, Floats, Integers

__all__ = ["ChernoffCurve", "chernoff_margin", "two_binomial_reaches", "two_binomial_threshold"]


_GUARD = 1e-6  # relative slack left for float rounding in computed tails
_DROPPED = 1e-8  # relative to delta: mass of the small binomial that is counted as failing instead of summed
_KNOWN_SIZES = 1 << 15  # thresholds of fewer responders than this are remembered
_TERMS = 1 << 18  # of the tails that are searched at once
_MANY = 16  # sizes: then more of the smallest will be asked for, and are found at once
_FILLED = 1 << 14  # terms that this may cost


class _Window(NamedTuple):
    """Upper tail and mass of small binomials on the values that matter, from the largest down; one or m columns."""

    largest: Integers
    length: Integers  # how many values matter
    tail: Floats  # float64[w, m], tail[i] = P(X >= largest - i), 0 from the length on
    mass: Floats  # float64[w, m], mass[i] = P(X = largest - i), 0 from the length on
    dropped: Floats  # P(X > largest)


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
    asked = np.asarray(sizes, dtype=np.int64)
    table = _known_thresholds(members, p_in, p_out, delta)
    out = np.where(asked < len(table), table[np.minimum(asked, len(table) - 1)], 0)
    new = np.flatnonzero(out == 0)
    if len(new):
        unique = np.unique(asked[new])
        window = _window(members, p_in, delta)
        if len(unique) >= _MANY:
            unique = np.union1d(unique, members + 1 + np.arange(_FILLED // len(window.tail)))
        at_once = max(_TERMS // len(window.tail), 1)
        parts = [unique[begin : begin + at_once] for begin in range(0, len(unique), at_once)]
        found = np.concatenate([_search_thresholds(part, members, p_in, p_out, window, delta) for part in parts])
        end = int(np.searchsorted(unique, len(table)))
        table[unique[:end]] = found[:end]
        out[new] = found[np.searchsorted(unique, asked[new])]
    return out


@lru_cache(maxsize=64)
def _known_thresholds(members: int, p_in: float, p_out: float, delta: float) -> Integers:
    """Thresholds of small sizes that were asked for, 0 for the others: rounds ask for the same sizes again."""
    return np.zeros(_KNOWN_SIZES, dtype=np.int64)


def _search_thresholds(
    unique: Integers, members: int, p_in: float, p_out: float, window: _Window, delta: float
) -> Integers:
    """Thresholds of different sizes: int64[m]."""
    allowed = delta * (1.0 - _GUARD)
    fails = np.full(len(unique), -1, dtype=np.int64)  # largest count known to be too likely
    holds = unique + 1  # smallest count known to be unlikely enough
    tried = np.minimum(_guess(unique, members, p_in, p_out, delta), unique)
    open_ = np.flatnonzero(holds > fails + 1)
    while len(open_):
        count = tried[open_]
        below, at, above = _tails(count, unique[open_] - members, p_out, window, delta=delta)
        fails[open_] = np.where(at > allowed, count, np.where(below > allowed, count - 1, fails[open_]))
        holds[open_] = np.where(at <= allowed, count, np.where(above <= allowed, count + 1, holds[open_]))
        tried[open_] = np.clip(np.where(at > allowed, count + 2, count - 2), fails[open_] + 1, holds[open_] - 1)
        open_ = open_[holds[open_] > fails[open_] + 1]
    return holds


def two_binomial_reaches(
    counts: Integers, sizes: Integers, members: Integers, p_in: float, p_out: float, *, delta: float
) -> Flags:
    """Whether each count is at least the threshold of its size and its members: bool[m].

    Parameters are those of :func:`two_binomial_threshold`, with one number of members for each size.
    """
    out = np.zeros(len(counts), dtype=bool)
    order = np.argsort(members, kind="stable")  # windows of one width beside each other
    widest = _reach(int(members.max(initial=0)), delta)
    at_once = max(int(_TERMS // (2.0 * widest + 3.0)), 1)
    for rows in (order[begin : begin + at_once] for begin in range(0, len(order), at_once)):
        own = members[rows]
        tails = _tails(counts[rows], sizes[rows] - own, p_out, _windows(own, p_in, delta), delta=delta)[1]
        out[rows] = tails <= delta * (1.0 - _GUARD)
    return out


@lru_cache(maxsize=64)
def _window(members: int, p_in: float, delta: float) -> _Window:
    found = _windows(np.array([members]), p_in, delta)
    for column in found:
        column.flags.writeable = False
    return found


def _windows(members: Integers, p_in: float, delta: float) -> _Window:
    reach = _reach(members, delta)
    first = np.maximum(np.floor(members * p_in - reach), 0).astype(np.int64)
    last = np.minimum(np.ceil(members * p_in + reach), members).astype(np.int64)
    values = first + np.arange(int((last - first).max(initial=0)) + 1)[:, None]
    upper = _binomial_tail(values + 1, members, p_in)  # P(X > value)
    tail = np.concatenate([_binomial_tail(values[:1], members, p_in), upper[:-1]])
    largest = np.argmax(upper <= delta * _DROPPED, axis=0)
    # Below this point P(X >= value) is taken as 1, which only makes the result larger.
    smallest = np.count_nonzero(tail > 1.0 - delta * _DROPPED, axis=0)
    length = largest - np.minimum(smallest, largest) + 1
    span = np.arange(int(length.max(initial=1)))[:, None]
    place, column = np.maximum(largest - span, 0), np.arange(len(members))
    mass = _binomial_mass(values, members, p_in)
    tail, mass = (np.where(span < length, array[place, column], 0.0) for array in (tail, mass))
    return _Window(first + largest, length, tail, mass, upper[largest, column])


def _reach(members: npt.ArrayLike, delta: float) -> Floats:
    """Hoeffding: farther than this from its mean a sum lies with less chance than what is dropped anyway."""
    return np.sqrt(np.asarray(members) * (math.log(1.0 / (delta * _DROPPED)) / 2.0))


def _tails(
    count: Integers, others: Integers, p_out: float, window: _Window, *, delta: float
) -> tuple[Floats, Floats, Floats]:
    """P(S >= count - 1), P(S >= count), P(S >= count + 1) for S = X + Bin(others, p_out).

    The middle one is an upper bound, tight to the window; the first is at most, the last at least the truth plus
    the window's slack, so that both may be trusted when they settle a search.

    Sums P(Y = y) P(X >= count - y) upwards in y; all terms are positive. What lies above the window enters through
    one incomplete beta function, what lies far below the mean of Y (where its mass might underflow) as dropped mass.
    """
    lowest = count - window.largest
    mean = others * p_out
    # Chernoff: Y falls below this with probability at most delta * _DROPPED.
    bottom = np.ceil(mean - np.sqrt(2.0 * mean * math.log(1.0 / (delta * _DROPPED)))).astype(np.int64)
    start = np.maximum(lowest, np.maximum(bottom, 0))
    first, beside = _binomial_mass(np.stack([start, lowest - 1]), others, p_out)
    y = lowest + np.arange(len(window.tail))[:, None]
    masses = _masses(y, start, first, others, p_out)
    at = (masses * window.tail).sum(axis=0)
    equal = (masses * window.mass).sum(axis=0)  # X = count - y
    # X = count - 1 - y; also the term where X = largest and Y = lowest - 1.
    one_below = (masses[:-1] * window.mass[1:]).sum(axis=0) + beside * window.mass[0]
    at += _binomial_tail(lowest + window.length, others, p_out)
    at += window.dropped + np.where((start > lowest) & (start > 0), delta * _DROPPED, 0.0)
    return at + one_below, at, np.maximum(at - equal, 0.0)


def _masses(y: Integers, start: Integers, first: Floats, others: Integers, p_out: float) -> Floats:
    """P(Bin(others, p_out) = y) for ascending rows of y, from the first one at ``start``; 0 below it. float64[w, m]."""
    counted = y >= start
    odds = p_out / (1.0 - p_out)
    ratios = np.where(counted, odds * np.maximum(others - y, 0) / np.maximum(y + 1.0, 1.0), 1.0)
    out = np.concatenate([first[None], ratios[:-1]])
    np.multiply.accumulate(out, axis=0, out=out)
    out *= counted
    return out


def _binomial_mass(value: Integers, size: Integers, p: float) -> Floats:
    """P(Bin(size, p) = value) by Loader's saddle-point form, which loses no digits for large sizes."""
    inside = (value >= 0) & (value <= size)
    n = size.astype(np.float64)
    v = np.where(inside, value, 0).astype(np.float64)
    whole, part, rest = _stirling_rest(np.stack(np.broadcast_arrays(n, v, n - v)))
    log = whole - part - rest
    log -= _deviance(v, n * p) + _deviance(n - v, n * (1.0 - p))
    return np.where(inside, np.exp(log), 0.0)


def _stirling_rest(x: Floats) -> Floats:
    """log x! - (x log x - x)."""
    from scipy.special import gammaln, xlogy

    large = np.maximum(x, 16.0)
    square = large * large
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / square) / square) / square) / large
    small = np.minimum(x, 16.0)
    return np.asarray(
        np.where(x < 16.0, gammaln(small + 1) - xlogy(small, small) + small, 0.5 * np.log(2 * np.pi * large) + series)
    )


def _deviance(x: Floats, mean: Floats) -> Floats:
    """x log(x / mean) + mean - x, without cancellation near the mean."""
    from scipy.special import xlog1py

    positive = np.maximum(mean, 1e-300)
    return np.asarray(xlog1py(x, (x - positive) / positive) - (x - positive))


def _binomial_tail(value: Integers, size: Integers, p: float) -> Floats:
    """P(Bin(size, p) >= value)."""
    from scipy.special import betainc

    inside = (value >= 1) & (value <= size)
    v = np.where(inside, value, 1).astype(np.float64)
    n = np.where(inside, size, 1).astype(np.float64)
    return np.where(inside, betainc(v, n - v + 1, p), np.where(value <= 0, 1.0, 0.0))


def _guess(size: Integers, members: int, p_in: float, p_out: float, delta: float) -> Integers:
    """A first guess by the normal quantile with the correction for skewness."""
    from scipy.special import ndtri

    others = size - members
    in_var, out_var = p_in * (1 - p_in), p_out * (1 - p_out)
    variance = members * in_var + others * out_var
    third = members * in_var * (1 - 2 * p_in) + others * out_var * (1 - 2 * p_out)
    z = -float(ndtri(delta))
    spread = np.sqrt(np.maximum(variance, 1e-12))
    guess = members * p_in + others * p_out + z * spread + (z * z - 1) * third / (6 * np.maximum(variance, 1e-12))
    return np.asarray(np.clip(np.ceil(guess + 0.5), 0, size + 1), dtype=np.int64)


class ChernoffCurve(NamedTuple):
    """Log moment generating function of one noise term on a grid, and where each grid point is best.

    Attributes
    ----------
    exponent : float64[g]
        Grid of exponents, ascending, positive.
    log_mgf : float64[g]
        log E exp(exponent * noise) of one term.
    balance : float64[g]
        ``exponent * derivative - log_mgf``: a sum of n terms has its best exponent where n * balance = log(1/delta).
    """

    exponent: Floats
    log_mgf: Floats
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
