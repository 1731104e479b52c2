"""What a closing of values says: decoded values per region, and means with their worst-case standard error.

A function of public messages alone. Knows no participants.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Floats
from .messages import ValueClosed
from .plan import Plan
from .task import Task

__all__ = ["ValueEstimate", "estimate_mean", "region_values"]


class ValueEstimate(NamedTuple):
    """A mean over participants, with a bound on its standard error: the mechanism's worst case over their regions."""

    mean: float
    stderr: float
    responders: int


def region_values(closed: ValueClosed, plan: Plan, *, task: Task) -> list[tuple[Floats, list[int]]]:
    """Per region the decoded values float64[r] of the outputs that were reported, and how often each was."""
    mechanism = plan.releases[closed.index].mechanism
    assert mechanism is not None
    out = []
    for (low, high), row in zip(_ranges(closed, plan, task), closed.counts, strict=True):
        decoded = mechanism.decode([output for output, _ in row])
        out.append((low + (high - low) * decoded, [count for _, count in row]))
    return out


def estimate_mean(closed: ValueClosed, plan: Plan, *, task: Task) -> tuple[ValueEstimate, list[ValueEstimate]]:
    """The mean over everybody who answered, and one per region (in the order of ``closed.cells``).

    Unbiased for positions inside their regions; a moved participant counts where it was moved to.
    """
    mechanism = plan.releases[closed.index].mechanism
    assert mechanism is not None
    regions, total, error, size = [], 0.0, 0.0, 0
    rows = region_values(closed, plan, task=task)
    for (low, high), (values, counts) in zip(_ranges(closed, plan, task), rows, strict=True):
        number = sum(counts)
        mean = float(np.array(counts, dtype=np.float64) @ values) / number
        variance = float((high - low) ** 2 * mechanism.worst_variance)
        regions.append(ValueEstimate(mean, (variance / number) ** 0.5, number))
        total, error, size = total + mean * number, error + variance * number, size + number
    if not size:
        return ValueEstimate(float("nan"), float("inf"), 0), regions
    return ValueEstimate(total / size, error**0.5 / size, size), regions


def _ranges(closed: ValueClosed, plan: Plan, task: Task) -> Floats:
    """Range of the function over each region: float64[m, 2]."""
    if not closed.cells:
        return np.empty((0, 2))
    boxes = task.hierarchy.boxes(np.array(closed.cells, dtype=np.uint64))
    return plan.releases[closed.index].build().range_over(boxes)
