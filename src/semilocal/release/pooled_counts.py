"""Names of the command line."""

from __future__ import annotations

from .counts import Counts as PooledCounts
from .counts import pooled_counts, run_pooled

__all__ = ["PooledCounts", "pooled_counts", "run_pooled"]
