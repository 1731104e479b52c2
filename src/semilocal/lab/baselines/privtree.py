"""PrivTree (Zhang, Xiao, Xie, SIGMOD 2016): an adaptive quadtree by a trusted curator.

Knows the published algorithm. A node splits if its count, less a penalty that grows with its depth, stays
positive under Laplace noise whose scale does not depend on the height of the tree; the counts of the leaves
are released with separate noise.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ...arrays import Flags, Integers, as_number
from ...geometry.box import Box
from ...hierarchy import Cells
from ...protocol.promise import Guarantee
from .boxes import BoxCounts
from .counted_tree import CountedTree, check_people, check_share, quadtree_of
from .results import SpatialCounts

__all__ = ["privtree"]


def privtree(
    points: npt.ArrayLike,
    box: Box,
    *,
    epsilon: float,
    rng: np.random.Generator,
    tree_share: float = 0.5,
    nonnegative: bool = False,
    max_depth: int | None = None,
) -> SpatialCounts:
    """Counts in the leaves of a private quadtree.

    Parameters
    ----------
    points : array_like, shape (n, d)
    box : Box
        The public domain; each split halves every axis (fanout b = 2^d).
    epsilon : float
        Total; ``tree_share`` of it buys the structure (noise scale ``(2b - 1) / ((b - 1) epsilon_tree)``,
        penalty per level ``scale × ln b``, threshold 0), the rest the leaf counts (noise scale ``1 /
        epsilon_counts``).
    rng : numpy.random.Generator
    tree_share : float
        Strictly between 0 and 1.
    nonnegative : bool
        Set negative leaf counts to zero, as users of PrivTree do. It costs no privacy and biases sparse areas
        upwards; the result is then marked ``uncertain``.
    max_depth : int, optional
        Nodes of this depth are never split (a public rule, so it costs nothing). By default as deep as 60
        bits of path and the precision of the coordinates allow, at most 30: only positions shared by many
        people reach it.

    Returns
    -------
    SpatialCounts
        epsilon-differentially private with a trusted curator, if one participant is added or removed; moving
        one participant is a removal and an addition, hence 2 epsilon.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> result = privtree(rng.random((1000, 2)) * 0.1, Box((0, 0), (1, 1)), epsilon=1.0, rng=rng)
    >>> abs(result.query([[[0, 0], [0.1, 0.1]]]).value[0] - 1000) < 200
    np.True_
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    check_share(tree_share, "tree_share")
    positions = check_people(points, box)
    tree = quadtree_of(box, max_depth)
    scale = (2 * tree.fanout - 1) / ((tree.fanout - 1) * epsilon * tree_share)
    penalty = scale * math.log(tree.fanout)
    counted = CountedTree(tree, positions)

    def splits(depth: int, cells: Cells, counts: Integers) -> Flags:
        biased = np.maximum(counts - depth * penalty, -penalty)
        return np.asarray(biased + rng.laplace(0.0, scale, len(counts)) > 0)

    leaves, exact = counted.grow(splits)
    noise = 1 / (epsilon * (1 - tree_share))
    counts = exact + rng.laplace(0.0, noise, len(exact))
    if nonnegative:
        counts = np.maximum(counts, 0.0)
    regions = BoxCounts(tree.boxes(leaves), counts, variances=np.full(len(leaves), 2 * noise**2), uncertain=nonnegative)
    return SpatialCounts(regions, Guarantee.plain("curator", 2 * epsilon, presence=epsilon))
