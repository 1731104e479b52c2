"""Laplace noise on a one-hot vector: discrete, which devices take, and the paper's float noise, to compare with.

Knows one cell's children. Knows no tree, rounds, messages or positions.
"""

from __future__ import annotations

import decimal
import math
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, Words, is_number
from ..errors import InvalidInput
from .base import WORD, Answer, Randomizer, check_epsilon, check_fanout, check_parameters, check_vector, exp_below

_EDGE_MASS = 2.0**-44  # discrete Laplace: clamp where the remaining tail has about this mass
_LEAST_MASS = 2.0**-60  # discrete Laplace: the rarest value has at least about this mass, a few words
_FIXED_POINT = 1 << 20  # units per one, so that the paper's float noise still adds up exactly


class LaplaceNoise(Randomizer, frozen=True):
    """What the two Laplace randomizers share: a noisy number for every child, in units of 1 / ``unit``."""

    @property
    def words(self) -> int:
        return self.fanout

    @property
    def unit(self) -> int:
        """Integer that stands for one participant in reports and tallies."""
        raise NotImplementedError

    def margin_of(self, responders: npt.ArrayLike, *, delta: float) -> Floats:
        """What the summed noise of a child exceeds with probability at most delta, in participants: float64[m]."""
        raise NotImplementedError

    def threshold(self, responders: npt.ArrayLike, *, k: int, delta: float) -> Integers:
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
        return 1

    def answers(self, children: Integers, words: Words) -> Integers:
        values = self.alphabet[0]
        noisy = values[np.searchsorted(laplace_thresholds(self.epsilon), words, side="right")]
        rows = np.arange(len(children))
        noisy[rows, children] = 1 - noisy[rows, children]
        return noisy

    def draw_tally(self, counts: npt.ArrayLike, rng: np.random.Generator) -> Integers:
        count = np.asarray(counts, dtype=np.int64)
        values, chances = laplace_chances(self.epsilon)
        chances = chances / chances.sum()
        zeros = count.sum(axis=1, keepdims=True) - count
        return np.asarray(rng.multinomial(zeros, chances) @ values + rng.multinomial(count, chances) @ (1 - values))

    def margin_of(self, responders: npt.ArrayLike, *, delta: float) -> Floats:
        """Chernoff's bound with the exact moment generating function of the clamped noise: float64[m]."""
        return chernoff_margin(responders, discrete_curve(self.epsilon), delta=delta)

    def check_answer(self, answer: Answer) -> None:
        low, high = (int(value) for value in self.alphabet[0][[0, -1]])
        check_vector(answer, self.fanout, low, high)


class PaperLaplace(LaplaceNoise, frozen=True, tag="paper-laplace"):
    """The paper's randomizer: float Laplace noise on every entry of the one-hot vector. For simulation only.

    Its true loss is 2 / scale, because a move changes two entries; with the paper's scale 1 / epsilon that is
    2 epsilon. Float noise leaks through rounding, so devices refuse it. Noise is put on a fixed-point grid of
    2**-20 so that tallies are integers all the same.

    Parameters
    ----------
    scale : float
        Scale of the Laplace noise.
    fanout : int
        Number of children, 2 to 256.
    margin : {"chernoff", "paper"}
        ``"paper"`` is the printed margin (sqrt(2 n x) + 6 x) * scale with x = log(1/delta), and its threshold
        k + margin; it is too small for small delta. ``"chernoff"`` holds.
    """

    scale: float
    fanout: int
    margin: Literal["chernoff", "paper"] = "chernoff"

    def __post_init__(self) -> None:
        if not (is_number(self.scale) and math.isfinite(self.scale) and self.scale > 0):
            raise InvalidInput(f"scale must be a positive number; got {self.scale!r}")
        check_epsilon(2.0 / self.scale, "2 / scale")
        check_fanout(self.fanout)
        msgspec.structs.force_setattr(self, "scale", float(self.scale))
        if self.margin not in ("chernoff", "paper"):
            raise InvalidInput(f"margin must be 'chernoff' or 'paper'; got {self.margin!r}")

    @property
    def epsilon(self) -> float:
        """True loss of one report between any two children."""
        return 2.0 / self.scale

    @property
    def simulation_only(self) -> bool:
        return True

    @property
    def unit(self) -> int:
        return _FIXED_POINT

    def answers(self, children: Integers, words: Words) -> Integers:
        """Reports of many participants from their entropy, in units of 2**-20: int64[n, fanout]."""
        # 52 bits, so that half a step more is still exact and never rounds up to 1, whose logarithm is infinite.
        uniform = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52 - 0.5
        noise = -self.scale * np.sign(uniform) * np.log1p(-2.0 * np.abs(uniform))
        noisy = np.rint(noise * _FIXED_POINT).astype(np.int64)
        noisy[np.arange(len(children)), children] += _FIXED_POINT
        return noisy

    def draw_tally(self, counts: npt.ArrayLike, rng: np.random.Generator) -> Integers:
        """Tallies of whole cells, distributed as the reports' sums up to their rounding to 2**-20: int64[m, fanout]."""
        count = np.asarray(counts, dtype=np.int64)
        size = np.broadcast_to(count.sum(axis=1, keepdims=True), count.shape).astype(np.float64)
        noise = self.scale * (rng.standard_gamma(size) - rng.standard_gamma(size))
        return count * _FIXED_POINT + np.rint(noise * _FIXED_POINT).astype(np.int64)

    def margin_of(self, responders: npt.ArrayLike, *, delta: float) -> Floats:
        """What the summed noise of a child exceeds with probability at most delta: float64[m].

        With ``margin="paper"`` the printed formula instead, which exceeds delta for small delta.
        """
        if self.margin == "chernoff":
            return chernoff_margin(responders, laplace_curve(self.scale), delta=delta)
        budget = math.log(1.0 / delta)
        size = np.maximum(np.asarray(responders, dtype=np.float64), 0.0)
        return np.asarray(self.scale * (np.sqrt(2.0 * size * budget) + 6.0 * budget))

    def threshold(self, responders: npt.ArrayLike, *, k: int, delta: float) -> Integers:
        if self.margin == "chernoff":
            return super().threshold(responders, k=k, delta=delta)
        bound = (k + self.margin_of(responders, delta=delta)) * _FIXED_POINT
        return np.ceil(bound).astype(np.int64)

    def check_answer(self, answer: Answer) -> None:
        bound = int((self.scale * 40 + 1) * _FIXED_POINT)
        check_vector(answer, self.fanout, -bound, bound)


# -- weights of the discrete noise, out of one word; no ratio exceeds what epsilon allows ------------------------------


@lru_cache(maxsize=64)
def laplace_weights(epsilon: float) -> tuple[int, ...]:
    """Weights of -edge … edge + 1 for a true 0: falling pairs whose ratio never exceeds e**(epsilon / 2)."""
    with decimal.localcontext() as context:
        context.prec = 60
        growth = exp_below(decimal.Decimal(epsilon) / 2)
        decay = 1 / growth
        deepest = math.floor(-math.log(_LEAST_MASS) / (epsilon / 2)) - 1  # beyond it, a weight would be no word at all
        edge = min(math.ceil(-math.log(_EDGE_MASS) / (epsilon / 2)), deepest)
        near, far = [], []  # pairs of y <= 0 and 1 - y >= 1
        mass = WORD * (1 - decay) / (1 + decay)
        for i in range(edge + 1):
            weight = mass * decay**i
            last = i == edge
            below = int(weight / (1 - decay) if last else weight)
            above = int(weight * decay / (1 - decay) if last else weight * decay)
            far.append(above)
            near.append(min(below, int(above * growth)))
        left = WORD - sum(near) - sum(far)
        # The rounding left over goes to 0 and 1 alike, which can only bring their ratio closer to one.
        near[0] += left // 2
        far[0] += left - left // 2
    return tuple(reversed(near)) + tuple(far)


@lru_cache(maxsize=64)
def laplace_chances(epsilon: float) -> tuple[Integers, Floats]:
    """The values of an entry and their chances when its true value is 0."""
    weights = laplace_weights(epsilon)
    edge = len(weights) // 2 - 1
    values, chances = np.arange(-edge, edge + 2), np.array([weight / WORD for weight in weights])
    values.flags.writeable = chances.flags.writeable = False
    return values, chances


@lru_cache(maxsize=64)
def laplace_thresholds(epsilon: float) -> Words:
    """Sums of the weights: a word below the first gives the first value, and so on."""
    total, thresholds = 0, []
    for weight in laplace_weights(epsilon)[:-1]:
        total += weight
        thresholds.append(total)
    return np.array(thresholds, dtype=np.uint64)


# -- Chernoff's bound --------------------------------------------------------------------------------------------------


class ChernoffCurve(NamedTuple):
    """Log moment generating function of one noise term on a grid, and where each grid point is best."""

    exponent: Floats  # float64[g]: grid of exponents, ascending, positive
    log_mgf: Floats  # float64[g]: log E exp(exponent * noise) of one term
    # float64[g]: ``exponent * derivative - log_mgf``: a sum of n terms has its best exponent where n * balance =
    # log(1/delta)
    balance: Floats


def chernoff_margin(sizes: npt.ArrayLike, curve: ChernoffCurve, *, delta: float) -> Floats:
    """Margin that a sum of ``sizes`` float[m] independent noise terms exceeds with probability at most delta.

    Any exponent of the grid gives a valid bound; the best neighbours are tried, so the result is valid for every grid
    and tight for a fine one.
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


def _exponents(limit: float) -> Floats:
    """A grid of exponents below ``limit``, fine near both ends."""
    return limit * np.unique(np.concatenate([np.geomspace(1e-5, 0.9, 1000), 1.0 - np.geomspace(1e-6, 0.1, 200)]))


@lru_cache(maxsize=64)
def laplace_curve(scale: float) -> ChernoffCurve:
    """Of a Laplace variable."""
    exponent = _exponents(1.0 / scale)
    square = (scale * exponent) ** 2
    log_mgf = -np.log1p(-square)
    return ChernoffCurve(exponent, log_mgf, 2.0 * square / (1.0 - square) - log_mgf)


@lru_cache(maxsize=64)
def discrete_curve(epsilon: float) -> ChernoffCurve:
    """Of one entry of a discrete Laplace report."""
    values, chances = laplace_chances(epsilon)
    moments = chances * values
    exponent = _exponents(epsilon / 2)
    log_mgf, slope = np.empty_like(exponent), np.empty_like(exponent)
    for i, power in enumerate(exponent):
        # An entry of 0 has the noise, an entry of 1 its negative; the larger of the two bounds both.
        for sign in (1.0, -1.0):
            growth = np.expm1(sign * power * values)
            excess = float(np.sum(chances * growth))
            if sign > 0 or np.log1p(excess) > log_mgf[i]:
                log_mgf[i] = np.log1p(excess)
                slope[i] = sign * np.sum(moments * (1.0 + growth)) / (1.0 + excess)
    return ChernoffCurve(exponent, log_mgf, np.maximum.accumulate(exponent * slope - log_mgf))
