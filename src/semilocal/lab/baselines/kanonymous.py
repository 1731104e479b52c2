"""A quadtree with exact counts and at least k people per published cell: what is often done today.

Knows k-anonymity. Adds no noise and promises no differential privacy.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...arrays import Flags, Integers, as_integer
from ...errors import InvalidInput
from ...geometry.box import Box
from ...hierarchy import Cells
from ...protocol.promise import Guarantee
from .boxes import BoxCounts
from .counted_tree import CountedTree, check_people, quadtree_of
from .results import SpatialCounts

__all__ = ["kanonymous_quadtree"]


def kanonymous_quadtree(
    points: npt.ArrayLike, box: Box, *, k: int, rule: str = "all", max_depth: int | None = None
) -> SpatialCounts:
    """Divide cells while enough people are in them; publish exact counts.

    Parameters
    ----------
    points : array_like, shape (n, d)
        At least k.
    box : Box
    k : int
        At least 1.
    rule : {"all", "suppress"}
        ``"all"`` divides a cell if every child holds at least k people, so every count is published.
        ``"suppress"`` divides it if any child does. Cells with fewer than k are then withheld; those in them, whose
        number follows from n, are shared equally among the withheld cells (a guess: the result is marked
        ``uncertain``).
    max_depth : int, optional
        As deep as the coordinates allow (at most 30) if left out.

    Returns
    -------
    SpatialCounts
        No differential privacy: anyone who knows all other positions reads off the last one's cell. A curator sees all.

    Examples
    --------
    >>> corners = [[0.1, 0.1], [0.1, 0.9], [0.9, 0.1], [0.9, 0.9]]
    >>> kanonymous_quadtree(corners, Box((0, 0), (1, 1)), k=1).counts.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    k = as_integer(k, "k", low=1)
    if rule not in ("all", "suppress"):
        raise InvalidInput(f"rule must be 'all' or 'suppress'; got {rule!r}")
    positions = check_people(points, box)
    if len(positions) < k:
        raise InvalidInput(f"points must hold at least k = {k} positions; got {len(positions)}")
    tree = quadtree_of(box, max_depth)
    counted = CountedTree(tree, positions)

    def splits(depth: int, cells: Cells, counts: Integers) -> Flags:
        children = counted.count(tree.children(cells)).reshape(len(cells), -1)
        decisive = children.min(axis=1) if rule == "all" else children.max(axis=1)
        return np.asarray(decisive >= k)

    leaves, exact = counted.grow(splits)
    withheld = exact < k
    counts = exact.astype(np.float64)
    note = f"k-anonymity only: every published count is at least {k}."
    if withheld.any():
        counts[withheld] = exact[withheld].mean()
    regions = BoxCounts(
        tree.boxes(leaves), counts, variances=np.where(withheld, k**2 / 12, 0.0), uncertain=bool(withheld.any())
    )
    return SpatialCounts(regions, Guarantee.plain("curator", None, k=k, notes=(note,)))
