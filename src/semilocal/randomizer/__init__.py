"""Local randomizers: what a report says, its true epsilon, and the exact test behind a crowd."""

from __future__ import annotations

from .base import Randomizer
from .laplace import DiscreteLaplace, PaperLaplace
from .response import RandomizedResponse

__all__ = ["DiscreteLaplace", "PaperLaplace", "RandomizedResponse", "Randomizer"]
