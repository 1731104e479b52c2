"""Exact thresholds of the crowd test: how many answers show that k people are on one side of a cut.

Knows numbers only: how many may be asked, how many are asked, k, epsilon and a level. Knows no regions or messages.

The test (a hypothesis test with an exact null law). ``askable`` people may be asked, k - 1 of them are on the side, and
``asked`` of them are drawn. h of the drawn are on the side, h hypergeometric. T answers name the side,
T = Bin(h, p) + Bin(asked - h, q), p and q being the chances with which a response is really drawn. The threshold is the
smallest t with P(T >= t) <= level. A missing answer names no side, so t is for the asked.

Method. With K = min(k - 1, asked) the law of T is that of B + G. B = Bin(asked - K, q); G has the generating function
``sum_h P(h) (q + p z)^h (p + q z)^(K - h)``, a fixed matrix times P(h). Then P(T >= t) = sum_j P(G = j) P(B >= t - j).

Rounding, proven. Let u = 2^-53. All terms are positive, so relative errors add up and are never magnified:

- A binomial over s + 1 values is made by ratios from its mode. A step costs 6u (its chances are rounded too), so a
  weight has an error of 6su, the sum 7su, a quotient (13s + 1)u, a sum of quotients (14s + 1)u.
- The hypergeometric over w + 1 values costs 4u a step: (9w + 1)u after division.
- The polynomial adds (8w + 2)u with the matrix (Horner's scheme) and a product. Made by halves, it multiplies each half
  by a binomial over at most w / 2 + 1 values: 14 w / 2 for this, w / 2 for the sums, and the same for halves of halves,
  with a matrix of less than 32 rows in the end: (15w + 300)u.
- Where k is large, a factor (q + p z)^a is split off: a binomial over s' + 1 values and a product, (14s' + 2)u.
- The last sum of w + s' + 1 products adds (w + s' + 1)u.

Together at most (18w + 15s' + 14s + 7)u, or (26w + 15s' + 14s + 300)u by halves, where w is 512 or more. ``tail``
multiplies by 1 + 28 (w + s' + s + 1) u, which also covers the terms of second order and the multiplication itself. By
Hoeffding's bound values with less than 1e-70 in all are left out of a law, and what underflows is smaller; 1e-60 is
added for both. So ``tail`` is never below the truth, and a threshold never too small. ``tail`` exceeds the truth by at
most twice the bound: 4e-11 of it for 10^5 asked and k = 20, 4e-7 for the largest numbers that are allowed. All sums are
made in a fixed order: a row gives the same bits alone and among others (k up to 513).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, as_column, as_integer, as_integers, require
from ..errors import InvalidInput
from ..randomizer.base import RandomizedResponse

SLACK = 1e-6
"""A device accepts a published t if its own tail is at most (1 + SLACK) times the level: above any rounding."""

_UNIT = 28 * 2.0**-53  # relative error for each value of a law
_TINY = 1e-60  # absolute error: what is left out or underflows
_REACH = math.log(1e70) / 2.0  # Hoeffding: farther than sqrt(n * _REACH) from its mean lies 1e-70 on each side
_LEAST = 1e-50  # the smallest level: _TINY is nothing beside it
_MOST = 1 << 40  # people
_WIDE = 512  # values of h for which the matrix is kept; beyond, laws are made one by one
_SHORT = 32  # values of h whose part of such a law is not halved again
_TERMS = 1 << 20  # of the sums that are made at once
_REMEMBERED = 1 << 18  # thresholds of one k and epsilon
_POWERS = 10 ** np.arange(14)
_AT_ONCE = 5  # of these numbers
_FIRST, _GROWTH = 8, 1.15  # the numbers of people that ``needed`` tries


def level(delta: float, failed: int) -> float:
    """Level of the next question of a region in which w = ``failed`` questions did not split: delta / ((w + 1)(w + 2)).

    Examples
    --------
    >>> level(0.5, 0), level(0.75, 1)
    (0.25, 0.125)
    """
    return float(levels(delta, np.array([as_integer(failed, "failed", low=0)]))[0])


def levels(delta: float, failed: Integers) -> Floats:
    """The levels of many questions: int64[m] to float64[m]."""
    require(0.0 < delta < 1.0, "delta", "above 0 and below 1", delta)
    return np.asarray(delta / ((failed + 1.0) * (failed + 2.0)))


def tail(askable: int, asked: int, k: int, epsilon: float, t: int) -> float:
    """Upper bound on P(T >= t) when k - 1 of the askable are on the side (all, if there are fewer).

    ``epsilon`` is that of one answer. Never below the truth; above it by less than 4e-7 of it (the rounding that the
    module proves), and 2e-60.

    Examples
    --------
    >>> round(tail(60, 40, 20, 1.0, 25), 4)
    0.0036
    """
    as_integer(k, "k", low=1, high=_MOST)
    askable = as_integer(askable, "askable", low=0, high=_MOST)
    asked = as_integer(asked, "asked", low=0, high=askable)
    t = as_integer(t, "t", low=0)
    return float(_law(np.array([askable]), np.array([asked]), k, epsilon).tail(np.array([t]))[0])


def threshold(askable: int, asked: int, k: int, epsilon: float, level: float) -> int:
    """Smallest t with P(T >= t) <= level; ``asked + 1`` if there is none.

    Examples
    --------
    >>> threshold(400, 80, 20, 1.0, 0.025)
    32
    """
    return int(thresholds([askable], [asked], k, epsilon, [level])[0])


def thresholds(askable: npt.ArrayLike, asked: npt.ArrayLike, k: int, epsilon: float, levels: npt.ArrayLike) -> Integers:
    """Thresholds of many questions, the same as one by one: int64[m]. Levels are from 1e-50 to 1."""
    known = _known(k, epsilon)
    people, drawn, bounds = _columns(k, askable, asked, levels)
    return known.recall(
        (people, drawn, bounds), lambda missing: _search(missing[0], missing[1], missing[2], k, epsilon)
    )


def passing(
    t: npt.ArrayLike,
    asked: npt.ArrayLike,
    epsilon: float,
    share: npt.ArrayLike,
    *,
    heard: npt.ArrayLike = 0,
    said: npt.ArrayLike = 0,
) -> Floats:
    """Chance that both sides reach t, by the normal approximation: quality, not safety. float64[m].

    ``share`` is that of the right side; ``heard`` answers are in, of which ``said`` name the right side.
    """
    from scipy.special import ndtr

    p, q = _chances(epsilon)
    size, least, right = (np.asarray(column, dtype=np.float64) for column in (asked, t, share))
    left = size - np.asarray(heard, dtype=np.float64)
    mean = np.asarray(said, dtype=np.float64) + left * (right * p + (1.0 - right) * q)
    spread = np.sqrt(np.maximum(left, 1.0) * (p * q))
    both = ndtr((size - least + 0.5 - mean) / spread) - ndtr((least - 0.5 - mean) / spread)
    return np.asarray(np.maximum(both, 0.0))


def needed(
    askable: npt.ArrayLike, k: int, epsilon: float, levels: npt.ArrayLike, *, share: float = 0.35, chance: float = 0.85
) -> Integers:
    """How many to ask in each region so that a side with this share passes with this chance: int64[m].

    Tries 8, 10, 12, ... (each about 1.15 times the one before); all askable if no number is enough. From 400 on
    ``askable`` is rounded down to two digits for this choice, so that there are fewer cases.
    """

    def find(missing: list[npt.NDArray[Any]]) -> Integers:
        people, bounds = missing
        found = np.zeros(len(people), dtype=np.int64)  # no number is enough
        waiting, ladder = np.arange(len(people)), _sizes()
        while len(waiting):
            sizes = np.array([*islice(ladder, _AT_ONCE)])
            case, step = np.nonzero(people[waiting, None] > sizes)
            at, size = waiting[case], sizes[step]
            counts = _search(people[at], size, bounds[at], k, epsilon)
            enough = passing(counts, size, epsilon, share) >= chance
            found[at[enough][::-1]] = size[enough][::-1]  # the smallest one that is enough
            waiting = waiting[(found[waiting] == 0) & (people[waiting] > sizes[-1])]
        return found

    people, _, bounds = _columns(k, askable, askable, levels)
    sizes = _known(k, epsilon, share, chance).recall((_rounded(people), bounds), find)
    return np.where(sizes > 0, sizes, people)


# -- what is asked for, and what is remembered -----------------------------------------------------------------------


def _columns(
    k: int, askable: npt.ArrayLike, asked: npt.ArrayLike, levels: npt.ArrayLike
) -> tuple[Integers, Integers, Floats]:
    """The checked columns."""
    as_integer(k, "k", low=1, high=_MOST)
    bounds = as_column(levels, "levels", np.size(askable))
    people, drawn = (
        as_integers(values, name, (len(bounds),), limit=_MOST)
        for values, name in ((askable, "askable"), (asked, "asked"))
    )
    good = (drawn >= 0) & (drawn <= people)
    if not good.all():
        i = int(np.argmin(good))
        raise InvalidInput(f"asked must be from 0 to askable; got {drawn[i]} of {people[i]}")
    good = (bounds >= _LEAST) & (bounds < 1.0)
    if not good.all():
        raise InvalidInput(f"a level must be from {_LEAST:g} to below 1; got {bounds[int(np.argmin(good))]}")
    return people, drawn, bounds


class _Known:
    """What was found before, by case."""

    def __init__(self) -> None:
        self._found: dict[tuple[int | float, ...], int] = {}

    def __len__(self) -> int:
        return len(self._found)

    def recall(
        self, columns: Sequence[npt.NDArray[Any]], find: Callable[[list[npt.NDArray[Any]]], Integers]
    ) -> Integers:
        """What is known of the cases; what is not is found first. Several threads may do this at once."""
        place = np.zeros(len(columns[0]), dtype=np.int64)
        for column in columns:
            values, number = np.unique(column, return_inverse=True)
            place = np.unique(place * len(values) + number, return_inverse=True)[1]
        first = np.empty(int(place.max(initial=-1)) + 1, dtype=np.int64)
        first[place] = np.arange(len(place))
        cases = list(zip(*(column[first].tolist() for column in columns), strict=True))
        known = self._found
        answers = np.array([known.get(case, -1) for case in cases], dtype=np.int64)
        missing = np.flatnonzero(answers < 0)
        if len(missing):
            answers[missing] = find([column[first[missing]] for column in columns])
            if len(known) + len(missing) > _REMEMBERED:
                known.clear()
            known.update(zip([cases[i] for i in missing.tolist()], answers[missing].tolist(), strict=True))
        return answers[place]


@lru_cache(maxsize=64)
def _known(k: int, epsilon: float, share: float = 0.0, chance: float = 0.0) -> _Known:
    return _Known()


def _rounded(askable: Integers) -> Integers:
    """Rounded down to two digits from 400 on."""
    digit = 10 ** np.maximum(np.searchsorted(_POWERS, askable, side="right") - 2, 0)
    return np.where(askable >= 400, askable // digit * digit, askable)


def _sizes() -> Iterator[int]:
    size = _FIRST
    while True:
        yield size
        size = int(size * _GROWTH) + 1


# -- the search ------------------------------------------------------------------------------------------------------


def _search(askable: Integers, asked: Integers, levels: Floats, k: int, epsilon: float) -> Integers:
    """Thresholds of n questions: int64[n]."""
    widths = np.minimum(k - 1, asked) + 1
    out = np.empty(len(askable), dtype=np.int64)
    for width in np.unique(widths).tolist():
        own = np.flatnonzero(widths == width)
        at_once = max(1, _TERMS // width) if width <= _WIDE + 1 else 1
        for begin in range(0, len(own), at_once):
            rows = own[begin : begin + at_once]
            law, bound = _law(askable[rows], asked[rows], k, epsilon), levels[rows]
            # Rounding keeps order, so the computed tail falls with t as the true one does.
            low, high = np.zeros(len(rows), dtype=np.int64), asked[rows] + 1
            while (low < high).any():
                middle = (low + high) // 2
                rare = law.tail(middle) <= bound
                low, high = np.where(rare, low, middle + 1), np.where(rare, middle, high)
            out[rows] = high
    return out


# -- the laws --------------------------------------------------------------------------------------------------------


class _Binomial(NamedTuple):
    """A binomial on the values that matter, from ``first`` on."""

    first: int
    mass: Floats  # float64[s + 1]
    tail: Floats  # float64[s + 2], tail[i] = P(at least first + i), 0 at the end


class _Law(NamedTuple):
    """The law of T for n questions, as G + B."""

    first: Integers  # int64[n], of G and B together
    mass: Floats  # float64[n, w], P(G = j)
    upper: Floats  # the tails of all B, one after the other
    start: Integers  # int64[n]
    size: Integers  # int64[n]

    def tail(self, t: Integers) -> Floats:
        """Upper bounds on P(T >= t), one t a row: float64[n]."""
        width = self.mass.shape[1]
        place = (t - self.first)[:, None] - np.arange(width)
        np.clip(place, 0, self.size[:, None] - 1, out=place)
        place += self.start[:, None]
        terms = self.mass * self.upper[place]
        grown = 1.0 + _UNIT * (width + self.size)
        return np.asarray(np.minimum(np.cumsum(terms, axis=1)[:, -1] * grown + _TINY, 1.0))


def _law(askable: Integers, asked: Integers, k: int, epsilon: float) -> _Law:
    """The law of T for questions with the same ``min(k - 1, asked)``; one only if k is above ``_WIDE + 1``."""
    p, q = _chances(epsilon)
    most = min(k - 1, int(asked[0]))
    if most > _WIDE:
        return _large_law(int(askable[0]), int(asked[0]), k, epsilon)
    drawn, matrix = _drawn(askable, asked, k, 0, most), _matrix(epsilon, most)
    mass = drawn[:, :1] * matrix[0]
    for h in range(1, most + 1):
        mass += drawn[:, h, None] * matrix[h]
    sizes, row = np.unique(asked - most, return_inverse=True)
    laws = [_binomial(size, q, p) for size in sizes.tolist()]
    size = np.array([len(law.tail) for law in laws])
    start = np.cumsum(size) - size
    first = np.array([law.first for law in laws])
    return _Law(first[row], mass, np.concatenate([law.tail for law in laws]), start[row], size[row])


@lru_cache(maxsize=64)
def _large_law(count: int, drawn_now: int, k: int, epsilon: float) -> _Law:
    """The law of T for one question with many people on the side."""
    p, q = _chances(epsilon)
    inside = min(k - 1, count)
    most = min(k - 1, drawn_now)
    mean, reach = drawn_now * inside / count, math.sqrt(min(drawn_now, inside) * _REACH) + 1.0
    low = max(0, drawn_now + inside - count, math.floor(mean - reach))
    high = min(most, math.ceil(mean + reach))
    surely, others = _binomial(low, p, q), _binomial(drawn_now - high, q, p)
    drawn = _drawn(np.array([count]), np.array([drawn_now]), k, low, high)[0]
    mass = np.convolve(_mixture(drawn, epsilon), surely.mass)
    begin = np.array([surely.first + others.first])
    return _Law(begin, mass[None], others.tail, np.array([0]), np.array([len(others.tail)]))


@lru_cache(maxsize=256)
def _chances(epsilon: float) -> tuple[float, float]:
    """Chance that an answer is true, and that it is not, as devices draw it; each rounded once."""
    return RandomizedResponse(epsilon, 2).probabilities


def _drawn(askable: Integers, asked: Integers, k: int, low: int, high: int) -> Floats:
    """P(h of the drawn are on the side) for h = low … high: float64[n, high - low + 1]."""
    count, asked = askable[:, None].astype(np.float64), asked[:, None]
    inside = np.minimum(count, k - 1)
    h = np.arange(low, high, dtype=np.float64)
    more = (inside - h) * (asked - h)
    less = (h + 1.0) * (count - inside - asked + h + 1.0)  # at most 0 below the least h that is possible
    mode = np.floor_divide((asked + 1) * (inside + 1.0), count + 2.0)
    mode = np.clip(mode, np.maximum(low, asked + inside - count), high) - low
    return _outward(more / np.maximum(less, 1.0), np.maximum(less, 0.0) / np.maximum(more, 1.0), mode)


@lru_cache(maxsize=1024)
def _binomial(size: int, yes: float, no: float) -> _Binomial:
    """Bin(size, yes), where no = 1 - yes."""
    reach = math.sqrt(size * _REACH) + 1.0
    first, last = max(0, math.floor(size * yes - reach)), min(size, math.ceil(size * yes + reach))
    i = np.arange(first, last, dtype=np.float64)
    ratio = (yes / no) * ((size - i) / (i + 1.0)), (no / yes) * ((i + 1.0) / (size - i))
    mode = np.array([[min(size, math.floor((size + 1) * yes)) - float(first)]])
    mass = _outward(ratio[0][None], ratio[1][None], mode)[0]
    upper = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
    mass.flags.writeable = upper.flags.writeable = False
    return _Binomial(first, mass, upper)


def _outward(up: Floats, down: Floats, mode: Floats) -> Floats:
    """Laws float64[n, w + 1] from the ratios of neighbours, from the mode (float64[n, 1]) outward.

    Used are ``up``, P(i + 1) / P(i), from the mode on and ``down``, P(i) / P(i + 1), below it: ratios of at most 1.
    """
    i = np.arange(up.shape[1])
    out = np.ones((len(up), up.shape[1] + 1))
    np.cumprod(np.where(i >= mode, up, 1.0), axis=1, out=out[:, 1:])
    out[:, :-1] *= np.cumprod(np.where(i < mode, down, 1.0)[:, ::-1], axis=1)[:, ::-1]
    out /= np.cumsum(out, axis=1)[:, -1:]
    return out


@lru_cache(maxsize=64)
def _matrix(epsilon: float, size: int) -> Floats:
    """Row h: the law of Bin(h, p) + Bin(size - h, q), by Horner's scheme. float64[size + 1, size + 1]."""
    p, q = _chances(epsilon)
    out, power = np.zeros((size + 1, size + 1)), np.zeros(size + 1)
    out[size, 0] = power[0] = 1.0
    for h in range(size - 1, -1, -1):
        for row, same, next_one in ((out, q, p), (power, p, q)):
            shifted = next_one * row[..., : size - h]
            row[..., : size - h + 1] *= same
            row[..., 1 : size - h + 1] += shifted
        out[h] += power
    out.flags.writeable = False
    return out


def _mixture(weights: Floats, epsilon: float) -> Floats:
    """sum_h weights[h] times the law of Bin(h, p) + Bin(w - h, q), halves by themselves: float64[w + 1]."""
    size = len(weights) - 1
    if size < _SHORT:
        return np.asarray(weights @ _matrix(epsilon, size))
    (p, q), half = _chances(epsilon), (size + 1) // 2
    out = np.zeros(size + 1)
    for part, others in ((weights[:half], _binomial(size + 1 - half, q, p)), (weights[half:], _binomial(half, p, q))):
        law = np.convolve(_mixture(part, epsilon), others.mass)
        out[others.first : others.first + len(law)] += law
    return out
