"""Names of the command line."""

from __future__ import annotations

from .areas import outside_words

__all__ = ["outside_words"]
