"""The one place where a confidence level is checked, and becomes a number of standard errors."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from ..arrays import is_number, require

__all__ = ["check_level", "standard_errors"]


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
