"""Releases on a finished run: what people want to know, with its error and its cost."""

from __future__ import annotations

from .counts import CountsRelease, counts
from .points import PointsRelease, quantize, resample
from .values import MeanRelease, ValuesRelease, mean, values

__all__ = [
    "CountsRelease",
    "MeanRelease",
    "PointsRelease",
    "ValuesRelease",
    "counts",
    "mean",
    "quantize",
    "resample",
    "values",
]
