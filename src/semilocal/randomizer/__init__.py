"""Local randomizers: what a report says, its true epsilon, and the exact test behind a crowd."""

from __future__ import annotations

from .base import RandomizedResponse, Randomizer
from .laplace import DiscreteLaplace, PaperLaplace

__all__ = ["DiscreteLaplace", "PaperLaplace", "RandomizedResponse", "Randomizer"]
