"""Trees under plain local privacy: a kd-tree and AHEAD, from one report per participant.

A frequency oracle is a randomizer over ``size`` items: every participant holds one of them and randomises it, and the
server estimates counts (Wang, Blocki, Li, Jha, USENIX Security 2017, compare these and others). The sum of many reports
is drawn without drawing each one, exactly in distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...arrays import Floats, Integers, as_integer, as_number
from ...errors import InvalidInput
from ...geometry.box import Box
from ...hierarchy import ROOT, Quadtree
from ...protocol.promise import Guarantee
from .boxes import SpatialCounts
from .quadtrees import CountedTree, deepest
from .releases import check_people

MOST_HEIGHT = 14  # of a kd-tree
TREE_SHARE = 0.5  # of the participants of a kd-tree who report for the medians


@dataclass(frozen=True)
class Oracle:
    """A randomizer over ``size`` items, whose loss is epsilon.

    Generalised randomized response: the true item is e^epsilon times as likely as any other. Or optimised unary
    encoding: the true item's bit is one with probability 1/2, others with q = 1/(e^epsilon + 1). Two inputs differ in
    two bits: the largest ratio is (1/2)/q at the one times (1 - q)/(1/2) at the other, (1 - q)/q = e^epsilon.
    """

    size: int
    epsilon: float
    unary: bool

    @property
    def true(self) -> float:
        """The chance that a report supports the item that is held."""
        return 0.5 if self.unary else 1 / (1 + (self.size - 1) * math.exp(-self.epsilon))

    @property
    def other(self) -> float:
        """The chance that it supports another one."""
        small = math.exp(-self.epsilon)
        return small / (1 + small) if self.unary else small * self.true

    def draw_tally(self, counts: Integers, *, rng: np.random.Generator) -> Integers:
        """How many reports support each item, int64[size], if ``counts`` participants hold it."""
        people = int(counts.sum())
        if self.unary:  # bits are flipped independently: a sum of two binomials, independent of other items
            return np.asarray(rng.binomial(counts, self.true) + rng.binomial(people - counts, self.other))
        # a report keeps its item with probability true - other, and else draws one uniformly
        kept = rng.binomial(counts, self.true - self.other)
        return kept + rng.multinomial(people - kept.sum(), np.full(self.size, 1 / self.size))


def best_oracle(size: int, *, epsilon: float) -> Oracle:
    """The one of the two with the smaller variance: plain response for few items, unary encoding for many.

    Examples
    --------
    >>> best_oracle(4, epsilon=1.0).unary, best_oracle(400, epsilon=1.0).unary
    (False, True)
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    return Oracle(size, epsilon, unary=(size - 2) * math.exp(-epsilon) >= 3)


def estimate(oracle: Oracle, tally: Integers, people: int) -> Floats:
    """Unbiased number of holders of each item among ``people`` reports: float64[size]."""
    return np.asarray((tally - people * oracle.other) / (oracle.true - oracle.other), dtype=np.float64)


def variance(oracle: Oracle, share: npt.ArrayLike, *, reporting: int, people: int) -> Floats:
    """Variance of ``estimate × people / reporting``, the count of an item that a share of the people hold: float64[s].

    ``reporting`` of the ``people`` were drawn at random and reported: the randomizer's variance, and that of drawing
    them without replacement.
    """
    inside = np.clip(np.asarray(share, dtype=np.float64), 0.0, 1.0)
    true, other = oracle.true, oracle.other
    noise = (inside * true * (1 - true) + (1 - inside) * other * (1 - other)) / (true - other) ** 2
    drawing = inside * (1 - inside) * (people - reporting) / max(people - 1, 1)
    spread: Floats = (noise + drawing) * (people**2 / reporting)
    return spread


# -- counts that agree -----------------------------------------------------------------------------------------------


def make_consistent(parents: Integers, depths: Integers, values: Floats, variances: Floats) -> Floats:
    """Best linear unbiased estimates of all nodes, float64[m], from independent estimates of some.

    Two passes give the weighted least-squares solution (Hay et al., VLDB 2010, for equal variances; here any): on the
    way up a node's own estimate and the sum of its children are averaged with inverse variances as weights; on the way
    down what a parent gained is handed to its children in proportion to their variances.

    Node 0 is the root, with parent -1 and depth 0. Variance ``inf`` marks a node without an estimate, 0 one that is
    known exactly. Every leaf needs a finite variance.
    """
    has_child = np.zeros(len(parents), dtype=bool)
    has_child[parents[1:]] = True
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
        up[nodes] += part * (up[above] - below[above])
    return up


def project_to_total(values: Floats, total: float) -> Floats:
    """The nearest non-negative numbers with the given sum ("norm-sub" in the LDP literature).

    Examples
    --------
    >>> project_to_total(np.array([5.0, -3.0, 1.0]), 4.0).tolist()
    [4.0, 0.0, 0.0]
    """
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1]) if total > 0 else 0
    nearest: Floats = np.maximum(values - excess[last], 0.0)
    return nearest


# -- a kd-tree: medians from histograms of the participants' buckets -----------------------------------------------


def ldp_kdtree(
    points: npt.ArrayLike, box: Box, *, epsilon: float, rng: np.random.Generator, height: int = 6, buckets: int = 16
) -> SpatialCounts:
    """Counts in the 2^height leaves of a kd-tree, from one report per participant; medians from noisy histograms.

    Parameters
    ----------
    height : int
        Levels, 1 to 14, with fewer levels than participants. Axes are divided in turn, the first one first.
    buckets : int
        Equal parts of a cell along its axis, 2 to 256; a cell is divided at the edge nearest to its estimated median.
        Half of the participants report (cell, bucket) for the medians, the others their leaf.

    Returns
    -------
    SpatialCounts
        epsilon-locally differentially private; trusts nobody. Counts are the nearest non-negative ones that add up to
        n, which is public.

    Notes
    -----
    In the style of Alptekin, Balioglu, Gursoy (2025), with two choices of our own. The participants are dealt out at
    random to the levels and report once with the whole epsilon, instead of everybody reporting at every level with
    epsilon / height: noise then grows with the height instead of its square. And the counts of the leaves come from a
    group of their own instead of being passed down from the histograms that chose the medians, where a median always
    seems to halve the people. Together they lower the error on clusters by 30 to 56 %.
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    height = as_integer(height, "height", low=1, high=MOST_HEIGHT)
    if as_integer(buckets, "buckets", low=1, high=256) < 2:
        raise InvalidInput("buckets must be at least 2: one bucket has no median")
    positions = check_people(points, box)
    people = len(positions)
    asked = min(max(round(TREE_SHARE * people), height), people - 1)
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
        at = edges[np.arange(len(boxes)), median_edge(histogram)]
        boxes = np.repeat(boxes, 2, axis=0)  # the lower half first
        boxes[::2, 1, axis] = boxes[1::2, 0, axis] = at

    counted = order[asked:]
    holders = np.bincount(locate(positions[counted], boxes), minlength=len(boxes))
    oracle = best_oracle(len(holders), epsilon=epsilon)
    share = estimate(oracle, oracle.draw_tally(holders, rng=rng), len(counted)) / len(counted)
    return SpatialCounts(boxes, project_to_total(share * people, people), Guarantee.plain("nobody", epsilon))


def median_edge(histogram: Floats) -> Integers:
    """Number of the inner edge (1 … buckets - 1) that comes nearest to halving each row; negative bars count as 0."""
    below = np.cumsum(np.maximum(histogram, 0.0), axis=1)
    nearest: Integers = np.argmin(np.abs(below[:, :-1] - below[:, -1:] / 2), axis=1)
    return nearest + 1


def locate(positions: Floats, boxes: Floats) -> Integers:
    """Which leaf of the tree holds each position.

    Leaves stand in the order of the tree: at every level a position is compared with the lower side of the right half.
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


# -- AHEAD: a tree that goes on where people are -------------------------------------------------------------------


def ahead(
    points: npt.ArrayLike, box: Box, *, epsilon: float, rng: np.random.Generator, depth: int = 10
) -> SpatialCounts:
    """Counts in the leaves of an adaptive quadtree, from one report per participant (Du et al., CCS 2021).

    The participants are dealt out at random to the layers of the tree, everyone reports once with the whole epsilon,
    and a cell is divided for the next layer only if its estimated share exceeds the threshold that balances noise
    against unevenness.

    Parameters
    ----------
    depth : int
        Layers, and groups of participants; at most as many as people. A cell goes on if its estimated share exceeds
        sqrt((B + 1) × variance of a layer's estimates), B = 2^d; cells that do not are asked about again in every later
        layer, and may go on then.

    Returns
    -------
    SpatialCounts
        epsilon-locally differentially private; trusts nobody. Counts are the nearest non-negative ones that add up to
        n, which is public.

    Notes
    -----
    The frequency oracle of each layer is the better one of optimised unary encoding (as published) and randomized
    response. All estimates of a cell are averaged, and the tree is made consistent by weighted least squares, which
    includes the published bottom-up averaging. Non-negativity comes last, on the leaves: imposed on every layer as
    well, it raises the error on clusters by 17 to 47 % for epsilon 0.5 to 3.
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    positions = check_people(points, box)
    people = len(positions)
    tree = Quadtree(box, as_integer(depth, "depth", low=1, high=deepest(box)))
    if people < depth:
        raise InvalidInput(f"ahead needs at least one participant per layer, {depth}; got {people}")

    cells = np.array([ROOT], dtype=np.uint64)
    parents, depths = np.array([-1]), np.array([0])
    weight, weighted = np.array([0.0]), np.array([0.0])  # of the estimates of each cell
    leaves, dividing = np.array([], dtype=np.int64), np.array([0])
    for group in np.array_split(rng.permutation(people), depth):
        new = len(cells) + np.arange(len(dividing) * tree.fanout)
        above = np.repeat(dividing, tree.fanout)
        cells = np.concatenate((cells, tree.children(cells[dividing])))
        parents, depths = np.concatenate((parents, above)), np.concatenate((depths, depths[above] + 1))
        weight, weighted = (np.concatenate((old, np.zeros(len(new)))) for old in (weight, weighted))
        leaves = np.concatenate((np.setdiff1d(leaves, dividing), new))

        oracle = best_oracle(len(leaves), epsilon=epsilon)
        counts = CountedTree(tree, positions[group]).count(cells[leaves])
        share = estimate(oracle, oracle.draw_tally(counts, rng=rng), len(group)) / len(group)
        # Weights must not depend on the estimates, or small ones would be trusted more: take an average
        # cell's.
        precision = 1 / variance(oracle, 1 / len(leaves), reporting=len(group), people=people)
        weight[leaves] += precision
        weighted[leaves] += precision * share * people
        noise = variance(oracle, 0.0, reporting=len(group), people=people) / people**2
        threshold = math.sqrt((tree.fanout + 1) * float(noise))
        dividing = leaves[(share > threshold) & (depths[leaves] < tree.max_depth)]

    weight[0], weighted[0] = 1.0, people
    spread = 1 / weight
    spread[0] = 0.0  # the number of participants is public
    agreed = make_consistent(parents, depths, values=weighted / weight, variances=spread)
    final = project_to_total(agreed[leaves], people)
    return SpatialCounts(tree.boxes(cells[leaves]), final, Guarantee.plain("nobody", epsilon))
