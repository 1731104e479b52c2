"""Names of the command line."""

from __future__ import annotations

from .points import Points as PointsRelease
from .points import centres, quantize

__all__ = ["PointsRelease", "centres", "quantize"]
