"""The datasets' loaders under their public name."""

from __future__ import annotations

from .datasets.load import california_housing

__all__ = ["california_housing"]
