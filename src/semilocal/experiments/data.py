"""The sample that ships with the package, under its older name; see :mod:`semilocal.datasets`."""

from __future__ import annotations

from ..datasets import california_housing

__all__ = ["california_housing"]
