"""The laws behind the randomizers: integer weights of their answers, out of one word, and tails of their noise.

Weights round to the private side: no ratio exceeds what epsilon allows. Knows numbers only.
"""

from __future__ import annotations

import decimal
import math
from functools import lru_cache

import numpy as np

from ..arrays import Floats, Integers, Words
from ._tails import ChernoffCurve

__all__ = [
    "WORD", "discrete_curve", "exp_below", "laplace_chances", "laplace_curve", "laplace_thresholds",
    "laplace_weights", "response_weights",
]  # fmt: skip

WORD = 1 << 64
_EDGE_MASS = 2.0**-44  # discrete Laplace: clamp where the remaining tail has about this mass
_LEAST_MASS = 2.0**-60  # discrete Laplace: the rarest value has at least about this mass, a few words


# -- integer weights, computed with 60 digits so that every platform gets the same ------------------------------


def exp_below(value: float | decimal.Decimal) -> decimal.Decimal:
    """e**value in 60 digits, below the true one by at most one part in 10**55: every device gets the same integers."""
    with decimal.localcontext() as context:
        context.prec, context.rounding = 60, decimal.ROUND_DOWN
        return decimal.Decimal(value).exp() * (1 - decimal.Decimal(10) ** -55)


@lru_cache(maxsize=256)
def response_weights(epsilon: float, fanout: int) -> tuple[int, int]:
    """Weights of the true child and of each other one: their ratio never exceeds e**epsilon."""
    with decimal.localcontext() as context:
        context.prec = 60
        other = int((WORD / (exp_below(epsilon) + fanout - 1)).to_integral_value(decimal.ROUND_CEILING))
    return WORD - (fanout - 1) * other, other


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


# -- Chernoff curves ---------------------------------------------------------------------------------------------


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
