"""Local randomizers: what a report says, its true epsilon, and the exact test behind a crowd."""

from __future__ import annotations

from .response import DiscreteLaplace, PaperLaplace, RandomizedResponse, Randomizer

__all__ = ["DiscreteLaplace", "PaperLaplace", "RandomizedResponse", "Randomizer"]
