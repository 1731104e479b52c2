"""How often a long test repeats: briefly in the suite, long with SEMILOCAL_LONG=1, in slices with SEMILOCAL_TIMES=N.

A slice has a seed of its own (SEMILOCAL_LONG_SEED), so that many slices are not one slice many times; each prints
what it counted (``pytest -s`` shows it), and a long run that is stopped has lost one slice.
"""

from __future__ import annotations

import os

__all__ = ["SEED", "times"]

SEED = int(os.environ.get("SEMILOCAL_LONG_SEED", "0"))


def times(usual: int, long: int) -> int:
    """How often to repeat."""
    given = os.environ.get("SEMILOCAL_TIMES")
    if given is not None:
        return int(given)
    return long if os.environ.get("SEMILOCAL_LONG") == "1" else usual
