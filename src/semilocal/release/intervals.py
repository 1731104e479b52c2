"""The one place where a confidence level becomes a number of standard errors."""

from __future__ import annotations

from statistics import NormalDist

from ..errors import InvalidInput

__all__ = ["standard_errors"]


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
