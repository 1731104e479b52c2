"""Laws of errors: the one place where a confidence level is checked and becomes a number of standard errors."""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, is_number, require

__all__ = ["CutOff", "above_mean", "check_level", "ends_for_both", "mean_above_zero", "standard_errors"]

_STEPS = 4  # each halves at least by how much a level is higher than it must be
_FAR = 38.0  # standard errors beyond which floats have no density left


def check_level(level: float, *, certain: bool = False) -> None:
    """Refuse what is not a level of confidence.

    Parameters
    ----------
    level : float
    certain : bool
        Whether 1 is one, too: a region holds positions with certainty.
    """
    number = is_number(level) or isinstance(level, np.floating | np.integer)
    good = number and (0.0 < level < 1.0 or (certain and level == 1.0))
    allowed = "a number above 0 and at most 1" if certain else "a number strictly between 0 and 1"
    require(good, "level", f"{allowed}, such as 0.95", level)


def standard_errors(level: float) -> float:
    """Half the width of a two-sided normal interval, in standard errors.

    Examples
    --------
    >>> round(standard_errors(0.95), 2)
    1.96
    """
    check_level(level)
    return NormalDist().inv_cdf(0.5 + level / 2)


class CutOff(NamedTuple):
    """Normal laws of m numbers that are cut off at both sides: float64[m] each.

    Attributes
    ----------
    fewer, more
        Between these the middles lie; ends hold for both.
    error
        Standard deviations of the whole laws, above 0.
    below, above
        Where the laws are cut off: how far below ``fewer`` and above ``more``. Standard errors, not negative; infinite
        where a law is not cut off.
    under, over
        Which part of the whole laws that leaves out on each side.
    """

    fewer: Floats
    more: Floats
    error: Floats
    below: Floats
    above: Floats
    under: Floats
    over: Floats

    @staticmethod
    def between(least: float, most: Floats, fewer: Floats, more: Floats, error: Floats) -> CutOff:
        """Laws that are cut off at numbers; those of middles outside are cut off at their middles."""
        from scipy.special import ndtr  # loaded at first use: it takes a while

        below, above = np.maximum(fewer - least, 0.0) / error, np.maximum(most - more, 0.0) / error
        return CutOff(fewer, more, error, below, above, ndtr(-below), ndtr(-above))

    def shortest(self, level: Floats) -> tuple[Floats, Floats]:
        """Ends of the shortest intervals: float64[m] each.

        An interval that reaches to where a law ends below spends all of its error above, and the other way round. The
        higher the level, the farther they reach.

        Examples
        --------
        >>> middles, ones = np.array([9.0, 1.96, 0.5, 0.0]), np.ones(4)
        >>> low, high = CutOff.between(0.0, np.full(4, np.inf), middles, middles, ones).shortest(np.full(4, 0.95))
        >>> (middles - low).round(2).tolist(), (high - middles).round(2).tolist()
        ([1.96, 1.79, 0.5, 0.0], [1.96, 1.79, 1.82, 1.96])
        """
        from scipy.special import ndtri  # loaded at first use: it takes a while

        half = (self.under + self.over + (1.0 - level) * (1.0 - self.under - self.over)) / 2.0
        lower = np.maximum(half + np.minimum(half - self.over, 0.0), self.under)
        upper = np.maximum(half + np.minimum(half - self.under, 0.0), self.over)
        return (
            np.asarray(self.fewer - np.minimum(-ndtri(lower), self.below) * self.error),
            np.asarray(self.more + np.minimum(-ndtri(upper), self.above) * self.error),
        )

    def missed(self, low: Floats, high: Floats) -> Floats:
        """Which part of the laws lies outside ends: float64[m]."""
        from scipy.special import ndtr  # loaded at first use: it takes a while

        outside = np.maximum(ndtr((low - self.fewer) / self.error) - self.under, 0.0)
        outside += np.maximum(ndtr((self.more - high) / self.error) - self.over, 0.0)
        return np.asarray(outside / np.maximum(1.0 - self.under - self.over, np.finfo(float).tiny))


def ends_for_both(level: float, one: CutOff, other: CutOff) -> tuple[Floats, Floats, Floats]:
    """Ends that hold numbers with a level whichever of two laws they have, and the level of each law alone: float64[m].

    They reach as far as the shortest intervals of both laws at one level, the lowest that will do. Two intervals of
    95 % hold more than that together: few of the numbers that one law has beyond its own ends lie beyond the other's.
    (Where they reach from cut to cut, a higher level is taken than the lowest; never a lower one.)

    Parameters
    ----------
    level : float
    one, other : CutOff
        The law of numbers, and that of the same numbers for somebody who meets them the oftener the larger they are.

    Examples
    --------
    >>> none, wide = np.zeros(2), np.full(2, np.inf)
    >>> laws = [CutOff.between(-np.inf, wide, middle, middle, none + 1) for middle in (none, np.array([0.0, 9.0]))]
    >>> [ends.round(2).tolist() for ends in ends_for_both(0.95, *laws)]
    [[-1.96, -1.66], [1.96, 10.66], [0.95, 0.9]]
    """
    alone = np.full(len(one.error), level)
    low, high = _around(one, other, alone)
    for _ in range(_STEPS):
        # Such laws miss no more in addition than the level falls by, so this does not go too far.
        spare = 1.0 - level - np.maximum(one.missed(low, high), other.missed(low, high))
        alone = np.maximum(alone - np.maximum(spare, 0.0), 0.0)  # both middles stay inside
        low, high = _around(one, other, alone)
    return low, high, alone


def _around(one: CutOff, other: CutOff, level: Floats) -> tuple[Floats, Floats]:
    (low, high), (lower, higher) = one.shortest(level), other.shortest(level)
    return np.minimum(low, lower), np.maximum(high, higher)


def above_mean(level: Floats, mean: Floats) -> Floats:
    """How far above their means numbers reach that are not negative, in standard deviations, one-sided: float64[m].

    Parameters
    ----------
    level : float64[m]
    mean : float64[m]
        Of gamma laws, in standard deviations; above 0 and finite.

    Examples
    --------
    >>> above_mean(np.full(3, 0.95), np.array([0.5, 1.0, 100.0])).round(2).tolist()
    [1.92, 2.0, 1.65]
    """
    from scipy.special import gammaincinv  # loaded at first use: it takes a while

    shape = np.maximum(mean**2, 1e-300)  # squares of very small numbers would vanish
    return np.asarray(gammaincinv(shape, level) / mean - mean)


def mean_above_zero(middle: Floats, error: Floats) -> Floats:
    """Mean of normal laws cut off at zero: float64[m].

    Parameters
    ----------
    middle, error : float64[m]
        Mean and standard deviation of the whole laws, not negative; a law without error is left as it is.

    Examples
    --------
    >>> mean_above_zero(np.array([0.0, 3.0, 3.0]), np.array([1.0, 1.0, 0.0])).round(3).tolist()
    [0.798, 3.004, 3.0]
    """
    if not error.any():
        return middle
    from scipy.special import ndtr  # loaded at first use: it takes a while

    away = np.divide(middle, error, out=np.full(len(middle), np.inf), where=middle < _FAR * error)
    return np.asarray(middle + error * np.exp(-0.5 * away**2) / (np.sqrt(2.0 * np.pi) * ndtr(away)))
