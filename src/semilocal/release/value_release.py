"""Names of the command line."""

from __future__ import annotations

from .means import Mean as MeanRelease

__all__ = ["MeanRelease"]
