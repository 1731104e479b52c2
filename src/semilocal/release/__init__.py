"""Releases on a finished run: what people want to know, with its error and its cost."""

from __future__ import annotations

from .count_release import CountsRelease, counts
from .point_release import PointsRelease, quantize, resample
from .value_release import MeanRelease, ValuesRelease, mean, values

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
