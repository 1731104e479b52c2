"""Names of the command line."""

from __future__ import annotations

from .counts import Counts as CountsRelease

__all__ = ["CountsRelease"]
