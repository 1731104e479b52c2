"""Names of the command line."""

from __future__ import annotations

from .means import Mean as PooledMean
from .means import pooled_mean

__all__ = ["PooledMean", "pooled_mean"]
