"""Exact variances of sums over a pooled tree, from the chain of its errors: what releases are compared with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from semilocal.pooled.estimate import Estimates


def variance_of(estimates: Estimates, weights: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Variances of weighted sums of ``estimates.unbiased``: float64[q], from weights of shape (q, m)."""
    rows = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    assert rows.shape[1:] == (len(estimates.counts),)
    tree = estimates.tree
    total, below = np.zeros(len(rows)), np.zeros((len(rows), 0))
    levels = list(zip(tree.levels, tree.final_places, estimates.shares, estimates.spreads, strict=True))
    for level, place, share, spread in reversed(levels):
        level_weights = np.empty((len(rows), len(level.opened)))
        level_weights[:, ~level.opened] = rows[:, place]
        first, second = below[:, 0::2], below[:, 1::2]
        total += ((first - second) ** 2) @ spread
        level_weights[:, level.opened] = share * first + (1 - share) * second
        below = level_weights
    return total
