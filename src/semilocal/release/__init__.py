"""Releases on a finished run or a public transcript: what people want to know, with its error and its cost."""

from __future__ import annotations

from .count_release import CountsRelease, counts
from .point_release import PointsRelease, quantize, resample
from .value_release import MeanRelease, ValuesRelease, collected_mean, mean, region_values, values

__all__ = [
    "CountsRelease",
    "MeanRelease",
    "PointsRelease",
    "ValuesRelease",
    "collected_mean",
    "counts",
    "mean",
    "quantize",
    "region_values",
    "resample",
    "values",
]
