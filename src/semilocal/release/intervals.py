"""Normal intervals: the one place where a confidence level becomes a number of standard errors.

scipy.special is loaded at first use, as in tails.py.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..errors import InvalidInput

__all__ = ["not_negative", "standard_errors"]


def standard_errors(level: float) -> float:
    """Half the width of a two-sided normal interval, in standard errors.

    Examples
    --------
    >>> round(standard_errors(0.95), 2)
    1.96
    """
    if not 0.0 < level < 1.0:
        raise InvalidInput(f"level must lie strictly between 0 and 1; got {level!r}")
    return NormalDist().inv_cdf(0.5 + level / 2)


def not_negative(estimate: npt.ArrayLike, stderr: npt.ArrayLike, level: float) -> tuple[Floats, Floats]:
    """Shortest interval that holds a number which cannot be negative, given a normal estimate of it.

    The estimate itself may be negative. The interval is the shortest with probability ``level`` if all numbers from
    zero up were equally likely before; it never is empty. If the number is zero, it covers it with probability
    1 / (1 + 1 - level), a little more than ``level``.

    Parameters
    ----------
    estimate, stderr : array_like, shape (n,)
    level : float

    Returns
    -------
    low, high : float64[n]

    Examples
    --------
    >>> low, high = not_negative([-1.0, 0.0, 1.0, 4.0], [1.0, 1.0, 1.0, 1.0], 0.95)
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([0.0, 0.0, 0.0, 2.04], [1.41, 1.96, 2.73, 5.96])
    """
    from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

    standard_errors(level)  # refuses what is no level
    scale = np.asarray(stderr, dtype=np.float64)
    mean = np.asarray(estimate, dtype=np.float64) / np.where(scale > 0, scale, 1.0)
    both = ndtri((1.0 + level * ndtr(mean)) / 2)
    one = -ndtri_exp(np.log1p(-level) + log_ndtr(mean))  # in logarithms: an estimate may lie far below zero
    cut = mean < both
    low, high = np.where(cut, 0.0, mean - both) * scale, (mean + np.where(cut, one, both)) * scale
    known = np.maximum(estimate, 0.0)
    return np.where(scale > 0, low, known), np.where(scale > 0, np.maximum(high, 0.0), known)
