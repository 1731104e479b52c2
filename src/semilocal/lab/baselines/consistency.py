"""Making noisy counts of a tree agree: children add up to their parent, at the least squared error.

Knows trees as parallel arrays and Gaussian-like estimates with variances. Knows no geometry and no mechanism.

Two passes give the exact weighted least-squares solution (Hay et al., VLDB 2010, for equal variances; here
any): on the way up a node's own estimate and the sum of its children are averaged with inverse variances as
weights; on the way down what a parent gained is handed to its children in proportion to their variances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...arrays import Floats, Integers
from ...errors import InvalidInput

__all__ = ["Consistent", "make_consistent", "project_to_total", "share_out"]


class Consistent(NamedTuple):
    """Estimates that agree, and their variances: float64[m] each."""

    values: Floats
    variances: Floats


def make_consistent(parents: Integers, depths: Integers, values: Floats, variances: Floats) -> Consistent:
    """Best linear unbiased estimates of all nodes from independent estimates of some.

    Parameters
    ----------
    parents : int64[m]
        Index of the parent, -1 for the root (node 0).
    depths : int64[m]
        Depth of each node, root 0.
    values, variances : float64[m]
        Independent unbiased estimates. Variance ``inf`` marks a node without one, 0 one that is known
        exactly. Every leaf needs a finite variance.
    """
    has_child = np.zeros(len(parents), dtype=bool)
    has_child[parents[1:]] = True
    if not np.isfinite(variances[~has_child]).all() or np.isnan(variances).any() or (variances < 0).any():
        raise InvalidInput("variances must be non-negative, and finite at every leaf of the tree")
    up, spread = np.where(np.isfinite(variances), values, 0.0), variances.astype(np.float64)
    below, below_spread = np.zeros(len(parents)), np.zeros(len(parents))
    levels = [np.flatnonzero(depths == depth) for depth in range(int(depths.max()) + 1)]
    for nodes in reversed(levels):
        inner = nodes[has_child[nodes]]
        own, theirs = spread[inner], below_spread[inner]
        with np.errstate(invalid="ignore"):
            weight = np.where(np.isinf(own), 0.0, np.where(own == 0, 1.0, theirs / (own + theirs)))
        up[inner] = weight * up[inner] + (1 - weight) * below[inner]
        spread[inner] = np.where(np.isinf(own), theirs, weight * np.where(np.isinf(own), 0.0, own))
        if nodes[0] != 0:
            np.add.at(below, parents[nodes], up[nodes])
            np.add.at(below_spread, parents[nodes], spread[nodes])
    for nodes in levels[1:]:
        above = parents[nodes]
        part = np.divide(spread[nodes], below_spread[above], out=np.zeros(len(nodes)), where=below_spread[above] > 0)
        gained = up[above] - below[above]
        gained_spread = spread[above] - below_spread[above]
        up[nodes] += part * gained
        spread[nodes] += part**2 * gained_spread
    return Consistent(up, np.maximum(spread, 0.0))


def project_to_total(values: Floats, total: float) -> Floats:
    """The nearest non-negative numbers with the given sum ("norm-sub" in the LDP literature).

    Examples
    --------
    >>> project_to_total(np.array([5.0, -3.0, 1.0]), 4.0).tolist()
    [4.0, 0.0, 0.0]
    """
    if total < 0 or not len(values):
        raise InvalidInput(f"total must not be negative and values not empty; got {total} for {len(values)} values")
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1]) if total > 0 else 0
    nearest: Floats = np.maximum(values - excess[last], 0.0)
    return nearest


def share_out(values: Floats, variances: Floats, total: float) -> Floats:
    """The nearest numbers with the given sum, where nearness is measured in standard deviations.

    Examples
    --------
    >>> share_out(np.array([5.0, 3.0]), np.array([1.0, 3.0]), 12.0).tolist()
    [6.0, 6.0]
    """
    missing = total - float(np.sum(values))
    return values + missing * variances / float(np.sum(variances))
