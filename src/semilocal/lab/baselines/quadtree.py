"""A quadtree under local differential privacy from a single round of reports.

Knows the scheme in the style of Alptekin, Balioglu, Gursoy (2025): one collection at the finest level, sums
passed up, and branches that are mostly noise cut back.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ...arrays import as_integer, as_number
from ...errors import InvalidInput
from ...geometry.box import Box
from ...hierarchy import ROOT, Quadtree
from ...protocol.promise import Guarantee
from .boxes import BoxCounts
from .consistency import project_to_total, share_out
from .counted_tree import check_people, deepest
from .oracles import UnaryEncoding, best_oracle, estimate, variance
from .results import SpatialCounts

__all__ = ["ldp_quadtree"]

MOST_BITS = 20


def ldp_quadtree(
    points: npt.ArrayLike,
    box: Box,
    *,
    epsilon: float,
    rng: np.random.Generator,
    height: int | None = None,
    cut: float = 1.0,
    nonnegative: bool = True,
) -> SpatialCounts:
    """Counts in the leaves of a quadtree, from one report per participant about its cell at the finest level.

    Parameters
    ----------
    points : array_like, shape (n, d)
    box : Box
        Each division halves every axis.
    epsilon : float
        The loss of each participant, all of it spent on one report.
    rng : numpy.random.Generator
    height : int, optional
        Depth of the finest level, at most 20 / d. If left out, the deepest one at which an average cell still
        holds as many people as the noise of a cell's estimate (a public rule: it looks at n and epsilon
        alone).
    cut : float
        A branch whose estimate is below ``cut`` standard deviations of its noise becomes one leaf; 0 keeps
        the grid.
    nonnegative : bool
        Move the leaf counts to the nearest non-negative ones that add up to n. It costs no privacy and biases
        sparse areas upwards; the result is then marked ``uncertain``.

    Returns
    -------
    SpatialCounts
        epsilon-locally differentially private; trusts nobody. Counts add up to n, which is public.
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    if not (math.isfinite(cut) and cut >= 0):
        raise InvalidInput(f"cut must be a number of standard deviations, at least 0; got {cut!r}")
    positions = check_people(points, box)
    people = len(positions)
    most = min(deepest(box), MOST_BITS // box.dimensions)
    chosen = default_height(people, box.dimensions, epsilon, most) if height is None else height
    tree = Quadtree(box, as_integer(chosen, "height", low=1, high=most))
    number = tree.fanout**tree.max_depth
    first = tree.span([ROOT])[0]
    holders = np.bincount((tree.codes(positions) - first).astype(np.int64), minlength=number)
    oracle = best_oracle(number, epsilon=epsilon)
    finest = estimate(oracle, oracle.draw_tally(holders, rng=rng), people)
    noise = float(variance(oracle, 0.0, reporting=people, people=people))

    sums = [finest]
    while len(sums[0]) > 1:
        sums.insert(0, sums[0].reshape(-1, tree.fanout).sum(axis=1))
    places, values, merged = [], [], []
    going = np.array([0])
    for depth, level_sums in enumerate(sums):
        inside = number // len(level_sums)  # cells of the finest level in each cell of this one
        stops = (level_sums[going] < cut * math.sqrt(noise * inside)) & (cut > 0)
        if depth == 0 or depth == tree.max_depth:
            stops[:] = depth > 0
        leaves = going[stops]
        places.append(tree.ancestors(first + (leaves * inside).astype(np.uint64), depth))
        values.append(level_sums[leaves])
        merged.append(np.full(len(leaves), inside))
        going = (going[~stops, None] * tree.fanout + np.arange(tree.fanout)).ravel()

    cells, counts = np.concatenate(places), np.concatenate(values)
    share = np.maximum(counts, 0.0) / people
    spread = np.concatenate(merged) * noise + variance(oracle, share, reporting=people, people=people) - noise
    counts = project_to_total(counts, people) if nonnegative else share_out(counts, spread, people)
    regions = BoxCounts(tree.boxes(cells), counts, variances=spread, uncertain=nonnegative)
    return SpatialCounts(regions, Guarantee.plain("nobody", epsilon))


def default_height(people: int, dimensions: int, epsilon: float, most: int) -> int:
    """Deepest level at which an average cell holds as many people as one standard deviation of noise, at least 1."""
    noise = variance(UnaryEncoding(2, epsilon), 0.0, reporting=people, people=people)
    levels = math.log2(max(people / math.sqrt(float(noise)), 1.0)) / dimensions
    return int(min(max(levels, 1), most))
