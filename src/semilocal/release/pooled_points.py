"""Names of the command line."""

from __future__ import annotations

from .points import Points as PooledPoints
from .points import pooled_points

__all__ = ["PooledPoints", "pooled_points"]
