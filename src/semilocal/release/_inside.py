"""Where in a region its people live.

They divide among the region's children as the last round estimates, pulled towards what the neighbours suggest: where
the cells on one side of a region hold more people than those on the other, its density is taken to be a slope, an
exponential one (geometry/slopes.py). How far such slopes can be trusted is measured on the run's own divisions, and so
is how unevenly people lie (_law.py).

What slopes explain is no longer uncertain. The law says how unevenly cells of a depth and size divide, slopes included.
Last rounds say how far regions divide from what slopes suggest (_ended.py): little in smooth towns, nearly as far as
from even halves in real villages and streets. The children of regions do the same. In trimmed parts slopes leave all:
people there live near the cut, which is steeper than any slope. Children of a region have the slope in common; what is
left differs from child to child.

Knows a tree and its population. Knows no queries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Floats, Integers
from ..geometry.slopes import between
from ._ended import Ended
from ._tree import Tree
from ._visitors import Population, divided
from .spread import Spread, share_left

__all__ = ["Inside", "alike", "overlap"]

_MOST_TRUST = 2.0  # times what neighbours suggest: a region is one because it is steeper than most cells


def alike(fanout: int) -> float:
    """Correlation of what is left uncertain in two children of a region.

    Between -0.02 and 0.27 for two children in files of real positions (bench/RESULTS.md). Of four, pairs have -0.3
    to 0.8: the most is taken.
    """
    return 0.25 if fanout == 2 else 1.0


def overlap(lower: Floats, upper: Floats, boxes: Floats, slopes: Floats) -> Floats:
    """Share of the people of boxes between corners: float64[m].

    Parameters
    ----------
    lower, upper : float64[m, d]
    boxes : float64[m, 2, d]
    slopes : float64[m, d]
        Along each axis (:mod:`semilocal.geometry.slopes`).
    """
    share = np.ones(len(boxes))
    for axis in range(boxes.shape[2]):
        begin, end = boxes[:, 0, axis], boxes[:, 1, axis]
        first = (np.minimum(np.maximum(lower[:, axis], begin), end) - begin) / (end - begin)
        last = (np.minimum(np.maximum(upper[:, axis], begin), end) - begin) / (end - begin)
        share *= between(first, last, slopes[:, axis])
    return share


@dataclass(frozen=True, eq=False)
class Inside:
    """The insides of regions and trimmed parts, for a tree of n cells.

    Attributes
    ----------
    slopes : float64[n, d]
        See :func:`overlap`.
    boxes : float64[n, fanout, 2, d]
        Boxes of the children of regions; copies of the region where it has none.
    shares : float64[n, fanout]
        Share of the region's people there by its slopes alone; 1 for copies.
    people : float64[n, fanout]
        Who live there, by slopes and estimates.
    noise : float64[n]
        Variance of each of them.
    spread : Spread
        How unevenly people lie in the children of regions, beyond slopes, and in trimmed parts; of each cell.
    """

    slopes: Floats
    boxes: Floats
    shares: Floats
    people: Floats
    noise: Floats
    spread: Spread

    @staticmethod
    def of(tree: Tree, found: Population, slopes: Floats) -> Inside:
        """Divide regions with slopes that are trusted as far as the last round's estimates agree with them."""
        hierarchy, (number, fanout) = tree.partition.task.hierarchy, tree.children.shape
        regions = np.flatnonzero(tree.is_region)
        boxes = np.repeat(tree.boxes[:, None], fanout, axis=1)
        halved = regions[hierarchy.depth(tree.cells[regions]) < hierarchy.max_depth]
        below = hierarchy.boxes(hierarchy.children(tree.cells[halved]))
        boxes[halved] = tree.lattice.measure(below).reshape(boxes[halved].shape)
        known, estimates, noise = _last_round(tree, found)
        total, even = found.people[known], 1.0 / fanout
        doubt = noise + total**2 * even * (1.0 - even) / (fanout + 1.0)  # if all divisions were equally likely
        suggested = total[:, None] * (_expected(_shares(tree, boxes, slopes, known)) - even)
        strength = float(np.sum(suggested**2 / doubt[:, None]))
        agreement = float(np.sum(suggested * (estimates - total[:, None] * even) / doubt[:, None]))
        trust = min(max(agreement / strength, 0.0), _MOST_TRUST) if strength > 0 else 0.0
        trusted = trust * slopes
        shares, people, errors = np.ones((number, fanout)), np.zeros((number, fanout)), np.zeros(number)
        shares[regions] = _shares(tree, boxes, trusted, regions)
        filled, unknown = np.full((number, fanout), 0.0), np.full(number, np.inf)
        filled[known], unknown[known] = estimates, noise
        # As if slopes explained nothing: where one is wrong, only its region's own estimate says so.
        spread = found.law.spread(tree.depths[regions], found.people[regions], fanout)
        people[regions], errors[regions] = spread.divide(
            found.people[regions], filled[regions], unknown[regions], _expected(shares[regions])
        )
        suggested, left = _expected(shares[known]), np.zeros(number)
        law = found.law.spread(tree.depths[regions] + 1, found.people[regions] / fanout, fanout).clumped
        if fanout == 2:
            left[regions] = Ended.of(tree, found, known, estimates, noise).left(suggested[:, 0]).clumped(law)
        else:
            flat = _expected(_shares(tree, boxes, np.zeros(slopes.shape), known))  # not even on some lattices
            left[regions] = share_left(total, estimates, noise, flat, suggested) * law
        parts = tree.is_part
        left[parts] = found.law.spread(tree.depths[parts], found.people[parts], fanout).clumped
        return Inside(trusted, boxes, shares, people, errors, Spread.of(left, fanout))


def _last_round(tree: Tree, found: Population) -> tuple[Integers, Floats, Floats]:
    """Regions whose children were asked for; who live in each child; the variance of these estimates."""
    some = divided(tree, found)
    last = tree.is_region[some.cells]
    return some.cells[last], some.estimates[last], some.noise[last]


def _shares(tree: Tree, boxes: Floats, slopes: Floats, regions: Integers) -> Floats:
    """Shares of the children of regions: float64[m, fanout]."""
    columns = [
        overlap(boxes[regions, child, 0], boxes[regions, child, 1], tree.boxes[regions], slopes[regions])
        for child in range(boxes.shape[1])
    ]
    return np.stack(columns, axis=1)


def _expected(shares: Floats) -> Floats:
    """The same, adding up to 1 also where a region has copies of itself for children."""
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))
