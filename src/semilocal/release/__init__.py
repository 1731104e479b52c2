"""Releases on a finished run or a public transcript: what people want to know, with its error and its cost."""

from __future__ import annotations

from .counts import Counts, counts
from .means import Mean, Means, Values, collected_mean, mean, region_values, values
from .points import Points, quantize

__all__ = [
    "Counts", "Mean", "Means", "Points", "Values", "collected_mean", "counts", "mean", "quantize", "region_values",
    "values",
]  # fmt: skip
