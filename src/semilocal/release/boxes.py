"""Names of the command line."""

from __future__ import annotations

from .answers import Answers

__all__ = ["Answers"]
