"""Laws of errors: the one place where a confidence level is checked and becomes a number of standard errors."""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, is_number, require

__all__ = ["Counted", "check_level", "mean_above_zero", "standard_errors"]

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
