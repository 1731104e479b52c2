"""Laws of errors: the one place where a confidence level is checked and becomes a number of standard errors."""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, is_number, require

__all__ = [
    "Asker", "Counted", "CutOff", "above_mean", "check_level", "ends_for_both", "mean_above_zero", "standard_errors",
]  # fmt: skip

_STEPS = 4  # each halves by how much a level is too high, but where ends reach from cut to cut
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
    middle, error
        Mean and standard deviation of the whole laws; errors are above 0.
    below, above
        How far below and above the middle the laws are cut off. Standard errors, not negative; infinite where a law is
        not cut off.
    under, over
        Which part of the whole laws that leaves out on each side.
    """

    middle: Floats
    error: Floats
    below: Floats
    above: Floats
    under: Floats
    over: Floats

    @staticmethod
    def between(least: float, most: Floats, middle: Floats, error: Floats) -> CutOff:
        """Laws that are cut off at numbers; those of middles outside are cut off at their middles."""
        from scipy.special import ndtr  # loaded at first use: it takes a while

        with np.errstate(over="ignore"):  # infinitely many standard errors away
            below, above = np.maximum(middle - least, 0.0) / error, np.maximum(most - middle, 0.0) / error
        return CutOff(middle, error, below, above, ndtr(-below), ndtr(-above))

    def lower_end(self, level: Floats) -> Floats:
        """Lower ends of the shortest intervals: float64[m].

        An interval that reaches to where a law ends below spends all of its error above, and the other way round. The
        higher the level, the farther they reach.

        Examples
        --------
        >>> middle, level = np.array([9.0, 1.96, 0.5, 0.0]), np.full(4, 0.95)
        >>> laws = CutOff.between(0.0, np.full(4, np.inf), middle, np.ones(4))
        >>> (middle - laws.lower_end(level)).round(2).tolist(), (laws.upper_end(level) - middle).round(2).tolist()
        ([1.96, 1.79, 0.5, 0.0], [1.96, 1.79, 1.82, 1.96])
        """
        return np.asarray(self.middle - self._reach(level, self.under, self.over, self.below))

    def upper_end(self, level: Floats) -> Floats:
        """Upper ends of the same intervals: float64[m]."""
        return np.asarray(self.middle + self._reach(level, self.over, self.under, self.above))

    def part_below(self, end: Floats) -> Floats:
        """Which part of the laws lies below ends: float64[m]."""
        return self._beyond((end - self.middle) / self.error, self.under)

    def part_above(self, end: Floats) -> Floats:
        """Which part of the laws lies above ends: float64[m]."""
        return self._beyond((self.middle - end) / self.error, self.over)

    def _reach(self, level: Floats, here: Floats, there: Floats, most: Floats) -> Floats:
        """How far the intervals reach to a side, given what is cut off on this and on the other one, and where."""
        from scipy.special import ndtri  # loaded at first use: it takes a while

        half = (here + there + (1.0 - level) * (1.0 - here - there)) / 2.0
        outside = np.maximum(half + np.minimum(half - there, 0.0), here)
        return np.asarray(np.minimum(-ndtri(outside), most) * self.error)

    def _beyond(self, away: Floats, cut: Floats) -> Floats:
        from scipy.special import ndtr  # loaded at first use: it takes a while

        mass = np.maximum(1.0 - self.under - self.over, np.finfo(float).tiny)
        return np.asarray(np.maximum(ndtr(away) - cut, 0.0) / mass)


class Asker(NamedTuple):
    """What somebody who asks expects: laws of the smallest and of the largest middle that may be right."""

    fewer: CutOff
    more: CutOff

    def missed(self, low: Floats, high: Floats) -> Floats:
        """Which part of the laws lies outside ends at the most, whatever the middle: float64[m]."""
        return self.fewer.part_below(low) + self.more.part_above(high)


def ends_for_both(level: float, anybody: Asker, knowing: Asker) -> tuple[Floats, Floats]:
    """Ends that hold numbers with a level for two who ask: float64[m] each.

    They reach as far as the shortest intervals of both at one level, the lowest that will do. Two intervals of 95 %
    hold more than that together: few of the numbers that one of them has beyond the own ends lie beyond the other's.
    (Where they reach from cut to cut, a higher level is taken than the lowest.)

    Parameters
    ----------
    level : float
    anybody, knowing : Asker
        The second one meets numbers the oftener the larger they are.

    Examples
    --------
    >>> wide, ones, farther = np.full(2, np.inf), np.ones(2), np.array([0.0, 9.0])
    >>> laws = [CutOff.between(-np.inf, wide, middle, ones) for middle in (0 * ones, farther)]
    >>> [ends.round(2).tolist() for ends in ends_for_both(0.95, *(Asker(law, law) for law in laws))]
    [[-1.96, -1.66], [1.96, 10.66]]
    """
    alone = np.full(len(anybody.fewer.error), level)
    low, high = _around(anybody, knowing, alone)
    for _ in range(_STEPS):
        # No more is missed in addition than the level falls by, so this does not go too far.
        spare = 1.0 - level - np.maximum(anybody.missed(low, high), knowing.missed(low, high))
        alone = np.maximum(alone - np.maximum(spare, 0.0), 0.0)  # all middles stay inside
        low, high = _around(anybody, knowing, alone)
    return low, high


def _around(anybody: Asker, knowing: Asker, level: Floats) -> tuple[Floats, Floats]:
    low = np.minimum(anybody.fewer.lower_end(level), knowing.fewer.lower_end(level))
    return low, np.maximum(anybody.more.upper_end(level), knowing.more.upper_end(level))


def above_mean(level: float, mean: Floats) -> Floats:
    """How far above their means numbers reach that are not negative, in standard deviations, one-sided: float64[m].

    Parameters
    ----------
    level : float
    mean : float64[m]
        Of gamma laws, in standard deviations; above 0 and finite.

    Examples
    --------
    >>> above_mean(0.95, np.array([0.5, 1.0, 100.0])).round(2).tolist()
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


class Counted(NamedTuple):
    """Answers to q queries: float64[q] each.

    ``value`` is what is told; from ``fewer`` to ``more`` people are expected, with ``variance``. There cannot be more
    than ``most``. ``noise`` is as in :class:`semilocal.release.boxes.CountAnswers`.
    """

    value: Floats
    variance: Floats
    fewer: Floats
    more: Floats
    most: Floats
    noise: Floats
