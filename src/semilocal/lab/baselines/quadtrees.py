"""Quadtrees that follow people: PrivTree, heat maps, and the authors' published code.

Positions are sorted along the tree, so every cell is one range of them; a rule decides which cells are divided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from ...arrays import Floats, Integers, as_integer, as_number, short_repr
from ...errors import InvalidInput
from ...functions import BoundedFunction, check_values
from ...geometry.box import Box
from ...hierarchy import MAX_BITS, ROOT, BinaryTree, Cells, Quadtree
from ...pooled.estimate import split_mean, spread_inside
from ...pooled.play import siblings
from ...protocol.promise import Guarantee
from .boxes import SpatialCounts
from .releases import MeanEstimate, ReleasedPoints, check_people

TREE_SHARE = 0.5  # of epsilon that PrivTree spends on its structure


def deepest(box: Box) -> int:
    """The deepest quadtree over this box whose cells floats can still tell apart, at most 30 levels."""
    for depth in range(min(30, MAX_BITS // box.dimensions), 1, -1):
        try:
            Quadtree(box, depth)
        except InvalidInput:
            continue
        return depth
    return 1


def quadtree_of(box: Box, max_depth: int | None) -> Quadtree:
    """A quadtree with so many levels, or as many as there can be."""
    most = deepest(box)
    return Quadtree(box, most if max_depth is None else as_integer(max_depth, "max_depth", low=1, high=most))


class CountedTree:
    """Positions sorted along the paths of a quadtree, so that every cell is one range of them."""

    def __init__(self, tree: Quadtree, positions: Floats) -> None:
        self.tree = tree
        self._codes = np.sort(tree.codes(positions))

    def count(self, cells: Cells) -> Integers:
        """Exact number of positions in each cell: int64[m]."""
        first, last = self.tree.span(cells)
        return np.searchsorted(self._codes, last, side="right") - np.searchsorted(self._codes, first, side="left")


def privtree(
    points: npt.ArrayLike, box: Box, *, epsilon: float, rng: np.random.Generator, max_depth: int | None = None
) -> SpatialCounts:
    """Counts in the leaves of a private quadtree (Zhang, Xiao, Xie, SIGMOD 2016).

    A node splits if its count, less a penalty that grows with its depth, stays positive under Laplace noise whose scale
    does not depend on the height of the tree; the counts of the leaves are released with separate noise. They are not
    cut at zero. Half of epsilon buys the structure: noise of scale ``(2b - 1) / ((b - 1) epsilon_tree)``, b = 2^d, a
    penalty per level of ``scale × ln b``, threshold 0.

    Parameters
    ----------
    max_depth : int, optional
        Nodes of this depth are never split (a public rule, so it costs nothing). By default as deep as 60 bits of path
        and the precision of the coordinates allow, at most 30: only positions shared by many people reach it.

    Returns
    -------
    SpatialCounts
        epsilon-differentially private with a trusted curator, if one participant is added or removed; moving one
        participant is a removal and an addition, hence 2 epsilon.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> result = privtree(rng.random((1000, 2)) * 0.1, Box((0, 0), (1, 1)), epsilon=1.0, rng=rng)
    >>> abs(result.query([[[0, 0], [0.1, 0.1]]])[0] - 1000) < 200
    np.True_
    """
    tree, leaves, counts = _privtree(points, box, epsilon, rng, max_depth)
    guarantee = Guarantee.plain("curator", 2 * epsilon, presence=epsilon)
    return SpatialCounts(tree.boxes(leaves), counts, guarantee)


def privtree_settled(
    points: npt.ArrayLike, box: Box, *, epsilon: float, rng: np.random.Generator, max_depth: int | None = None
) -> SpatialCounts:
    """PrivTree's published leaf counts with the pooled tree's estimator: it tells tree and estimator apart.

    The same numbers are published, with the same guarantee. Sums over halves are made consistent with N (which is
    public) from the root down, every half gets its posterior mean (:func:`semilocal.pooled.estimate.split_mean`), and
    people are spread inside leaves by the densities of the neighbours.
    """
    tree, leaves, counts = _privtree(points, box, epsilon, rng, max_depth)
    deepest_leaf = max(int(tree.depth(leaves).max()), 1) * box.dimensions
    halves = BinaryTree(box, deepest_leaf)  # its cells are numbered as the quadtree's
    leaves, counts = leaves[order := np.argsort(tree.span(leaves)[0])], counts[order]
    noise = np.full(len(leaves), 2 / (epsilon * (1 - TREE_SHARE)) ** 2)
    settled = _settled(halves, leaves, counts, noise, len(np.asarray(points)))
    deeper, cells, spread = spread_inside(halves, leaves, settled)
    guarantee = Guarantee.plain("curator", 2 * epsilon, presence=epsilon)
    return SpatialCounts(deeper.boxes(cells), spread, guarantee)


def _privtree(
    points: npt.ArrayLike, box: Box, epsilon: float, rng: np.random.Generator, max_depth: int | None
) -> tuple[Quadtree, Cells, Floats]:
    """The tree, its leaves, and their noisy counts."""
    epsilon = as_number(epsilon, "epsilon", positive=True)
    positions = check_people(points, box)
    tree = quadtree_of(box, max_depth)
    scale = (2 * tree.fanout - 1) / ((tree.fanout - 1) * epsilon * TREE_SHARE)
    penalty = scale * math.log(tree.fanout)

    counted, leaves, exact = CountedTree(tree, positions), [], []
    cells = np.array([ROOT], dtype=np.uint64)
    for depth in range(tree.max_depth + 1):
        counts = counted.count(cells)
        goes_on = np.zeros(len(cells), dtype=bool)
        if depth < tree.max_depth:
            biased = np.maximum(counts - depth * penalty, -penalty)
            goes_on = biased + rng.laplace(0.0, scale, len(counts)) > 0
        leaves.append(cells[~goes_on])
        exact.append(counts[~goes_on])
        cells = tree.children(cells[goes_on])
        if not len(cells):
            break
    noisy = np.concatenate(exact) + rng.laplace(0.0, 1 / (epsilon * (1 - TREE_SHARE)), sum(map(len, exact)))
    return tree, np.concatenate(leaves), noisy


def _settled(tree: BinaryTree, leaves: Cells, counts: Floats, variances: Floats, people: int) -> Floats:
    """Estimates of the leaves of a tree of halves, not negative, that add up to the number of people: float64[m]."""
    depths = tree.depth(leaves)
    known = []  # cells of a depth whose parents were halved, with what is below them; deepest first
    cells, sums, spread = np.empty(0, dtype=np.uint64), np.empty(0), np.empty(0)
    for depth in range(int(depths.max()), 0, -1):
        mine = depths == depth
        cells = np.concatenate((cells, leaves[mine]))
        sums, spread = np.append(sums, counts[mine]), np.append(spread, variances[mine])
        order = np.argsort(cells)  # siblings stand side by side
        cells, sums, spread = cells[order], sums[order], spread[order]
        known.append((cells, sums, spread))
        cells, sums, spread = tree.parent(cells[::2]), sums[::2] + sums[1::2], spread[::2] + spread[1::2]
    found = np.full(len(leaves), float(people))
    parents, above = np.array([ROOT], dtype=np.uint64), np.array([float(people)])
    for cells, sums, spread in reversed(known):
        total = above[np.searchsorted(parents, tree.parent(cells[::2]))]
        share = spread[::2] / (spread[::2] + spread[1::2])
        first = split_mean(total, sums[::2] + share * (total - sums[::2] - sums[1::2]), share * spread[1::2])
        parents, above = cells, siblings(first, total - first)
        place = np.minimum(np.searchsorted(cells, leaves), len(cells) - 1)
        found = np.where(cells[place] == leaves, above[place], found)
    return found


def heatmap(
    points: npt.ArrayLike, box: Box, *, epsilon: float, rng: np.random.Generator, max_depth: int = 10
) -> SpatialCounts:
    """A heat map by secure aggregation, level by level (Bagdasaryan, Kairouz et al., PoPETs 2022).

    In every round all participants send a one-hot vector of the current leaves with their part of the noise, and the
    server learns the sum alone, with discrete Laplace noise. Crowded leaves are divided. Half of epsilon is for rounds
    that divide, evenly; the last round counts the leaves that are there with all that is left, when nothing was divided
    or the tree has its full depth of ``max_depth`` levels.

    A leaf is divided if its people, less 1.96 standard errors, are at least 4 of the standard errors that its four
    children would have in a last round: then an even child stands out of the noise. The paper leaves the threshold and
    the parts of epsilon to the user; these are not tuned.

    Returns
    -------
    SpatialCounts
        epsilon-differentially private for everybody who sees all sums, if one participant is added or removed; 2
        epsilon for any move; N is public. Secure aggregation is trusted, and that devices add their part of the noise.
    """
    left = as_number(epsilon, "epsilon", positive=True)
    positions = check_people(points, box)
    tree = quadtree_of(box, max_depth)
    counted = CountedTree(tree, positions)
    each = left / (2 * max(tree.max_depth - 1, 1))
    leaves = tree.children(np.array([ROOT], dtype=np.uint64))
    for _ in range(tree.max_depth - 1):
        noisy = counted.count(leaves) + _discrete_laplace(each, len(leaves), rng)
        left -= each
        sure = noisy - 1.96 * math.sqrt(_variance(each))
        divided = (sure >= tree.fanout * math.sqrt(_variance(left))) & (tree.depth(leaves) < tree.max_depth)
        if not divided.any():
            break
        leaves = np.concatenate((leaves[~divided], tree.children(leaves[divided])))
    counts = counted.count(leaves) + _discrete_laplace(left, len(leaves), rng)
    note = "secure aggregation takes the place of the second server; all devices add a part of the noise"
    guarantee = Guarantee.plain("two-servers", 2 * epsilon, presence=epsilon, notes=(note,))
    return SpatialCounts(tree.boxes(leaves), counts.astype(np.float64), guarantee)


def _discrete_laplace(epsilon: float, size: int, rng: np.random.Generator) -> Integers:
    """P(j) in proportion to exp(-epsilon |j|), the sum of everybody's parts."""
    one, other = rng.geometric(-math.expm1(-epsilon), (2, size))
    return np.asarray(one - other)


def _variance(epsilon: float) -> float:
    """Of discrete Laplace noise."""
    return 0.5 / math.sinh(epsilon / 2) ** 2


# -- what the authors' published code does -----------------------------------------------------------------------------
#
# A cell asks its people for a one-hot vector of their child with Laplace noise of scale 1/epsilon on every entry. A
# child goes on if its noisy count reaches k + Δ. A child that fails is a leaf at once, however few people are in it: no
# k-anonymity. The margin Δ takes the *estimated* size of the cell, where the paper takes the number of responders.


@dataclass(frozen=True, eq=False)
class PublishedRegions:
    """Regions, the people in them, and the releases of the published code about them."""

    box: Box
    boxes: Floats  # float64[m, 2, d]: lower and upper corners
    crowds: Integers  # int64[m]: people in each region
    regions: npt.NDArray[np.int32]  # int32[n]: row of each participant's region
    guarantee: Guarantee  # of the regions alone; every release states its own

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.boxes)

    def counts(self, *, epsilon: float, rng: np.random.Generator) -> SpatialCounts:
        """Counts of people, each with Laplace noise of scale (longest side of the region) / epsilon; none below zero.

        The noise buys nothing: crowds are public, and no position changes them. So the guarantee is that of the
        regions.
        """
        epsilon = as_number(epsilon, "epsilon", positive=True)
        scale = (self.boxes[:, 1] - self.boxes[:, 0]).max(axis=1) / epsilon
        people = self.crowds.astype(np.float64)
        noisy = np.maximum(people + scale * _laplace_sums(people, rng), 0.0)
        return SpatialCounts(self.boxes, noisy, self.guarantee)

    def values(
        self, points: npt.ArrayLike, f: BoundedFunction, *, epsilon: float, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Everybody's value of f with Laplace noise of scale (range of f over the region) / epsilon.

        ``points`` are the participants in their order. Gives the noisy values and the scales of their noise,
        float64[n].
        """
        epsilon = as_number(epsilon, "epsilon", positive=True)
        values, ranges = check_values(f, points, self.boxes, of=self.regions)
        scales = ((ranges[:, 1] - ranges[:, 0]) / epsilon)[self.regions]
        return values + scales * rng.laplace(size=len(values)), scales

    def mean(
        self, points: npt.ArrayLike, f: BoundedFunction, *, epsilon: float, rng: np.random.Generator
    ) -> MeanEstimate:
        """Mean of the noisy values: the loss of the regions and epsilon, between two positions inside a region."""
        noisy, scales = self.values(points, f, epsilon=epsilon, rng=rng)
        stderr = math.sqrt(2 * float(np.sum(scales**2))) / len(noisy)
        return MeanEstimate(float(np.mean(noisy)), stderr, self.with_release("values", epsilon))

    def centres(self) -> ReleasedPoints:
        """Everybody at the middle of their region (SLDP-Quantization): it costs nothing beyond the regions."""
        return ReleasedPoints(self.boxes.mean(axis=1)[self.regions], self.guarantee)

    def draws(self, *, epsilon: float, rng: np.random.Generator) -> ReleasedPoints:
        """Everybody at a Laplace draw around that middle, of scale side / epsilon on each axis (SLDP-Split).

        A draw does not look at the position, so epsilon is no cost: the guarantee is that of the regions.
        """
        epsilon = as_number(epsilon, "epsilon", positive=True)
        sides = (self.boxes[:, 1] - self.boxes[:, 0])[self.regions]
        drawn = self.centres().points + rng.laplace(size=sides.shape) * sides / epsilon
        return ReleasedPoints(self.box.nearest(drawn).points, self.guarantee)

    def with_release(self, what: str, epsilon: float) -> Guarantee:
        """The guarantee of the regions and of one more release."""
        before = self.guarantee
        return msgspec.structs.replace(
            before, epsilon=(before.epsilon or 0.0) + epsilon, releases=(*before.releases, (what, epsilon))
        )


def published(
    points: npt.ArrayLike,
    box: Box,
    *,
    epsilon: float,
    delta: float,
    k: int,
    max_depth: int | None = None,
    rng: np.random.Generator,
) -> PublishedRegions:
    """Regions by the published code's rule.

    Parameters
    ----------
    epsilon : float
        As the code writes it: Laplace noise of scale 1/epsilon on every entry of a report.
    delta : float
        Of the printed margin Δ = (sqrt(2 s x) + 6 x) / epsilon, x = ln(1/delta), s the estimated size of the cell.
    k : int
        What a child's noisy count has to exceed by Δ to go on.
    max_depth : int, optional
        As deep as the coordinates allow (at most 30) if left out.

    Returns
    -------
    PublishedRegions
        2 epsilon between two positions inside a region (delta = 0): a move changes two entries of a report. No crowd is
        kept: a region may hold one person, or nobody.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> regions = published(rng.random((4000, 2)), Box((0, 0), (1, 1)), epsilon=1.0, delta=0.05, k=20, rng=rng)
    >>> int(regions.crowds.sum()), regions.guarantee.epsilon, regions.guarantee.k
    (4000, 2.0, 0)
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    if not 0 < delta < 1:
        raise InvalidInput(f"delta must lie strictly between 0 and 1; got {delta!r}")
    k = as_integer(k, "k", low=1)
    positions = check_people(points, box)
    tree = quadtree_of(box, max_depth)
    counted = CountedTree(tree, positions)
    budget = math.log(1 / delta)
    leaves = []
    cells, people = np.array([ROOT], dtype=np.uint64), np.array([len(positions)])
    estimates = people.astype(np.float64)
    for _ in range(tree.max_depth):
        children = tree.children(cells)
        inside = counted.count(children)
        # every member of a cell adds noise to the entry of every child
        noise = _laplace_sums(np.repeat(people, tree.fanout).astype(np.float64), rng) / epsilon
        noisy = inside + noise
        margin = (np.sqrt(2 * np.maximum(estimates, 0.0) * budget) + 6 * budget) / epsilon
        goes_on = noisy >= k + np.repeat(margin, tree.fanout)
        leaves.append(children[~goes_on])
        cells, people, estimates = children[goes_on], inside[goes_on], noisy[goes_on]
        if not len(cells):
            break
    regions = np.concatenate([*leaves, cells])
    first = tree.span(regions)[0]
    order = np.argsort(first)
    regions, first = regions[order], first[order]
    return PublishedRegions(
        box=box,
        boxes=tree.boxes(regions),
        crowds=counted.count(regions),
        regions=(np.searchsorted(first, tree.codes(positions), side="right") - 1).astype(np.int32),
        guarantee=Guarantee(
            trust="nobody",
            adjacency="inside",
            epsilon=2 * epsilon,
            notes=("A region may hold fewer than k participants, even one: a failing child is left behind.",),
        ),
    )


def _laplace_sums(people: Floats, rng: np.random.Generator) -> Floats:
    """For each number n the sum of n Laplace draws of scale 1: the difference of two Gamma(n) draws."""
    return rng.standard_gamma(people) - rng.standard_gamma(people)
