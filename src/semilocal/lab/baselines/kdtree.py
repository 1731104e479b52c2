"""A kd-tree under local differential privacy: medians from noisy histograms, level by level.

Knows the scheme in the style of Alptekin, Balioglu, Gursoy (2025), with two choices of our own. The
participants are dealt out at random to the levels and report once with the whole epsilon, instead of
everybody reporting at every level with epsilon / height: noise then grows with the height instead of its
square. And the counts of the leaves come from a group of their own instead of being passed down from the
histograms that chose the medians, where a median always seems to halve the people. On the clustered
experiment (height 6, 40 paired runs) the two together lower the mean relative error from 8.9 to 3.9 at 20 000
people and epsilon 1 and from 10.9 to 7.6 at 5 000 and 0.5; at 5 000 and 0.1 they make no difference that
shows. Most of the gain is due to the second choice.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...arrays import Floats, Integers, as_integer, as_number
from ...errors import InvalidInput
from ...geometry.box import Box
from ...protocol.promise import Guarantee
from .boxes import BoxCounts
from .consistency import project_to_total, share_out
from .counted_tree import check_people, check_share
from .oracles import best_oracle, estimate, variance
from .results import SpatialCounts

__all__ = ["ldp_kdtree", "locate", "median_edge"]


MOST_HEIGHT = 14


def ldp_kdtree(
    points: npt.ArrayLike,
    box: Box,
    *,
    epsilon: float,
    rng: np.random.Generator,
    height: int = 6,
    buckets: int = 16,
    tree_share: float = 0.5,
    nonnegative: bool = True,
) -> SpatialCounts:
    """Counts in the 2^height leaves of a kd-tree, from one report per participant.

    Parameters
    ----------
    points : array_like, shape (n, d)
        Enough for one per group: more than ``height``.
    box : Box
        Axes are divided in turn, the first one first.
    epsilon : float
        The loss of each participant.
    rng : numpy.random.Generator
    height : int
        Levels, 1 to 14.
    buckets : int
        Equal parts of a cell along its axis, 2 to 256; a cell is divided at the edge nearest to its estimated
        median.
    tree_share : float
        Share of the participants who report (cell, bucket) for the medians; the others report their leaf.
    nonnegative : bool
        Move the leaf counts to the nearest non-negative ones that add up to n. It costs no privacy and biases
        sparse areas upwards; the result is then marked ``uncertain``.

    Returns
    -------
    SpatialCounts
        epsilon-locally differentially private; trusts nobody. Counts add up to n, which is public.
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    height = as_integer(height, "height", low=1, high=MOST_HEIGHT)
    if as_integer(buckets, "buckets", low=1, high=256) < 2:
        raise InvalidInput("buckets must be at least 2: one bucket has no median")
    check_share(tree_share, "tree_share")
    positions = check_people(points, box)
    people = len(positions)
    asked = min(max(round(tree_share * people), height), people - 1)
    if asked < height:
        raise InvalidInput(f"ldp_kdtree needs more than height = {height} participants; got {people}")
    order = rng.permutation(people)

    boxes = np.array([[box.lower, box.upper]])
    for level, group in enumerate(np.array_split(order[:asked], height)):
        axis = level % box.dimensions
        edges = np.linspace(boxes[:, 0, axis], boxes[:, 1, axis], buckets + 1, axis=1)
        cell = locate(positions[group], boxes)
        bucket = (positions[group, axis, None] >= edges[cell, 1:-1]).sum(axis=1)
        holders = np.bincount(cell * buckets + bucket, minlength=len(boxes) * buckets)
        oracle = best_oracle(len(holders), epsilon=epsilon)
        histogram = estimate(oracle, oracle.draw_tally(holders, rng=rng), len(group)).reshape(-1, buckets)
        boxes = _divide(boxes, axis, edges, median_edge(histogram))

    counted = order[asked:]
    holders = np.bincount(locate(positions[counted], boxes), minlength=len(boxes))
    oracle = best_oracle(len(holders), epsilon=epsilon)
    share = estimate(oracle, oracle.draw_tally(holders, rng=rng), len(counted)) / len(counted)
    counts, spread = share * people, variance(oracle, share, reporting=len(counted), people=people)
    counts = project_to_total(counts, people) if nonnegative else share_out(counts, spread, people)
    regions = BoxCounts(boxes, counts, variances=spread, uncertain=nonnegative)
    return SpatialCounts(regions, Guarantee.plain("nobody", epsilon))


def median_edge(histogram: Floats) -> Integers:
    """Number of the inner edge (1 … buckets - 1) that comes nearest to halving each row; negative bars count as 0."""
    below = np.cumsum(np.maximum(histogram, 0.0), axis=1)
    nearest: Integers = np.argmin(np.abs(below[:, :-1] - below[:, -1:] / 2), axis=1)
    return nearest + 1


def _divide(boxes: Floats, axis: int, edges: Floats, chosen: Integers) -> Floats:
    """Two boxes per box, the lower one first."""
    at = edges[np.arange(len(boxes)), chosen]
    halves = np.repeat(boxes, 2, axis=0)
    halves[::2, 1, axis] = at
    halves[1::2, 0, axis] = at
    return halves


def locate(positions: Floats, boxes: Floats) -> Integers:
    """Which leaf of the tree holds each position.

    The leaves stand in the order of the tree, so a position goes down by comparing with the lower side of the
    right half at every level.
    """
    place = np.zeros(len(positions), dtype=np.int64)
    step = len(boxes) // 2
    level = 0
    while step:
        axis = level % boxes.shape[2]
        place += step * (positions[:, axis] >= boxes[place + step, 0, axis])
        step //= 2
        level += 1
    return place
