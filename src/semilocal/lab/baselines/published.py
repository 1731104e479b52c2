"""What the authors' published code does: a quadtree in which every child goes on by itself, and what it releases.

A cell asks its people for a one-hot vector of their child with Laplace noise of scale 1/epsilon on every entry. A child
goes on if its noisy count reaches k + Δ. A child that fails is a leaf at once, however few people are in it: no
k-anonymity. The margin Δ takes the *estimated* size of the cell, where the paper takes the number of responders.

Knows that algorithm. For simulation only: the person who runs it holds all positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from ...arrays import Floats, Integers, as_integer, as_number, short_repr
from ...functions import BoundedFunction, check_values
from ...geometry.box import Box
from ...hierarchy import ROOT
from ...protocol.promise import Guarantee
from .boxes import BoxCounts
from .counted_tree import CountedTree, check_people, check_share, quadtree_of
from .results import MeanEstimate, ReleasedPoints, SpatialCounts

__all__ = ["PublishedRegions", "published"]


@dataclass(frozen=True, eq=False)
class PublishedRegions:
    """Regions, the people in them, and the releases of the published code about them.

    Attributes
    ----------
    box : Box
        The public domain.
    boxes : float64[m, 2, d]
        Lower and upper corners of the regions.
    crowds : int64[m]
        People in each region.
    estimates : float64[m]
        What the last round said about them; n for the whole domain.
    regions : int32[n]
        Row of each participant's region.
    guarantee : Guarantee
        Of the regions alone. Every release states its own.
    """

    box: Box
    boxes: Floats
    crowds: Integers
    estimates: Floats
    regions: npt.NDArray[np.int32]
    guarantee: Guarantee

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
        counted = BoxCounts(self.boxes, noisy, variances=2 * people * scale**2, uncertain=True)
        return SpatialCounts(counted, self.guarantee)

    def values(
        self, points: npt.ArrayLike, f: BoundedFunction, *, epsilon: float, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Everybody's value of f with Laplace noise of scale (range of f over the region) / epsilon.

        Parameters
        ----------
        points : array_like, shape (n, d)
            The participants, in their order.

        Returns
        -------
        values, scales : float64[n]
            The noisy values, and the scale of each one's noise.
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
        return MeanEstimate(float(np.mean(noisy)), stderr, "normal", self.with_release("values", epsilon))

    def centres(self) -> ReleasedPoints:
        """Everybody at the middle of their region (SLDP-Quantization): it costs nothing beyond the regions."""
        return ReleasedPoints(self.boxes.mean(axis=1)[self.regions], 0, self.guarantee)

    def draws(self, *, epsilon: float, rng: np.random.Generator) -> ReleasedPoints:
        """Everybody at a Laplace draw around that middle, of scale side / epsilon on each axis (SLDP-Split).

        A draw does not look at the position, so epsilon is no cost: the guarantee is that of the regions.
        """
        epsilon = as_number(epsilon, "epsilon", positive=True)
        sides = (self.boxes[:, 1] - self.boxes[:, 0])[self.regions]
        drawn = self.centres().points + rng.laplace(size=sides.shape) * sides / epsilon
        inside = self.box.nearest(drawn)
        return ReleasedPoints(inside.points, inside.moved, self.guarantee)

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
    points : array_like, shape (n, d)
    box : Box
        Each division halves every axis.
    epsilon : float
        As the code writes it: Laplace noise of scale 1/epsilon on every entry of a report.
    delta : float
        Of the printed margin Δ = (sqrt(2 s x) + 6 x) / epsilon, x = ln(1/delta), s the estimated size of the cell.
    k : int
        What a child's noisy count has to exceed by Δ to go on.
    max_depth : int, optional
        As deep as the coordinates allow (at most 30) if left out.
    rng : numpy.random.Generator

    Returns
    -------
    PublishedRegions
        2 epsilon between two positions inside a region (delta = 0): a move changes two entries of a report. No crowd
        is kept: a region may hold one person, or nobody.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> regions = published(rng.random((4000, 2)), Box((0, 0), (1, 1)), epsilon=1.0, delta=0.05, k=20, rng=rng)
    >>> int(regions.crowds.sum()), regions.guarantee.epsilon, regions.guarantee.k
    (4000, 2.0, 0)
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    check_share(delta, "delta")
    k = as_integer(k, "k", low=1)
    positions = check_people(points, box)
    tree = quadtree_of(box, max_depth)
    counted = CountedTree(tree, positions)
    budget = math.log(1 / delta)
    leaves, leaf_estimates = [], []
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
        leaf_estimates.append(noisy[~goes_on])
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
        estimates=np.concatenate([*leaf_estimates, estimates])[order],
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
