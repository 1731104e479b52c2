"""Laws of errors: the one place where a confidence level is checked and becomes a number of standard errors."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from ..arrays import Floats, is_number, require

__all__ = ["above_mean", "check_level", "mean_above_zero", "shortest", "standard_errors"]

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


def shortest(level: float, below: Floats, above: Floats) -> tuple[Floats, Floats]:
    """How far the shortest intervals of normal laws that are cut off reach below and above the middle: float64[m] each.

    An interval that reaches to where a law ends below spends all of its error above, and the other way round. The
    higher the level, the farther they reach.

    Parameters
    ----------
    level : float
    below, above : float64[m]
        Where the laws are cut off. All numbers are standard errors, not negative; infinite where a law is not cut off.

    Examples
    --------
    >>> low, high = shortest(0.95, np.array([np.inf, 1.96, 0.5, 0.0]), np.full(4, np.inf))
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([1.96, 1.79, 0.5, 0.0], [1.96, 1.79, 1.82, 1.96])
    """
    from scipy.special import ndtr, ndtri  # loaded at first use: it takes a while

    check_level(level)
    under, over = ndtr(-below), ndtr(-above)  # what is cut off
    missed = (1.0 - level) * (1.0 - under - over)
    even = -ndtri((under + over + missed) / 2.0)
    return (
        np.minimum(np.where(even > above, -ndtri(under + missed), even), below),
        np.minimum(np.where(even > below, -ndtri(over + missed), even), above),
    )


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

    check_level(level)
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
