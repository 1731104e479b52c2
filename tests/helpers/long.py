"""How often a long test repeats: briefly in the suite, long with SEMILOCAL_LONG=1, in slices with SEMILOCAL_TIMES=N.

A slice has a seed of its own (SEMILOCAL_LONG_SEED), so that many slices are not one slice many times; each prints
what it counted (``pytest -s`` shows it), and a long run that is stopped has lost one slice.
"""

from __future__ import annotations

import os

SEED = int(os.environ.get("SEMILOCAL_LONG_SEED", "0"))


def times(usual: int, long: int) -> int:
    """How often to repeat."""
    usual = long if os.environ.get("SEMILOCAL_LONG") == "1" else usual
    return int(os.environ.get("SEMILOCAL_TIMES", usual))
