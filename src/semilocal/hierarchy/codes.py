"""Public names of cells: geohashes over the whole Earth in degrees, quadkeys over Web Mercator.

Both are paths that halve longitude and latitude in turns, whatever the order of the cells of a tree. Knows boxes. Knows
no participants.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..geometry.box import Box
from .base import Cells, Hierarchy
from .dyadic import BoxTree

__all__ = ["cell_names", "geohashes", "quadkeys"]

_BASE32 = np.array(list("0123456789bcdefghjkmnpqrstuvwxyz"))
_DIGITS = np.array(list("0123"))


def cell_names(hierarchy: Hierarchy, cells: Cells) -> dict[str, npt.NDArray[Any]]:
    """Columns ``geohash`` or ``quadkey`` of cells uint64[m], where the tree's cells have such names; else none."""
    if not isinstance(hierarchy, BoxTree):
        return {}
    bounds = hierarchy.box.lower, hierarchy.box.upper
    if bounds == (Box.world().lower, Box.world().upper):
        return {"geohash": geohashes(hierarchy, cells)}
    if hierarchy.box == Box.mercator():
        return {"quadkey": quadkeys(hierarchy, cells)}
    return {}


def geohashes(tree: BoxTree, cells: npt.ArrayLike) -> npt.NDArray[np.str_]:
    """The longest geohash that holds each cell of a tree over ``Box.world()``: str[m].

    A character stands for five halvings, the first of longitude. So a ``BinaryTree``'s cells of depth 10, 20, … *are*
    geohashes; others are parts of the one that is given. The root is the empty text.

    Examples
    --------
    >>> from semilocal.hierarchy import BinaryTree
    >>> tree = BinaryTree(Box.world(), max_depth=26)
    >>> geohashes(tree, tree.locate([[-5.6, 42.6]], 26)).tolist()
    ['ezs42']
    """
    return _texts(tree, cells, 5, lambda groups: _BASE32[groups])


def quadkeys(tree: BoxTree, cells: npt.ArrayLike) -> npt.NDArray[np.str_]:
    """The longest quadkey that holds each cell of a tree over ``Box.mercator()``: str[m].

    A digit stands for one level of a ``Quadtree``, two of a ``BinaryTree``. Its rows are counted from the north.

    Examples
    --------
    >>> from semilocal.hierarchy import Quadtree
    >>> tree = Quadtree(Box.mercator(), max_depth=3)
    >>> quadkeys(tree, tree.locate([[-5e6, 5e6], [5e6, -5e6]], 1)).tolist()
    ['0', '3']
    """
    # Our bits are east and north; a quadkey's digit is east + 2 * south.
    return _texts(tree, cells, 2, lambda groups: _DIGITS[(groups >> 1) + 2 * (1 - (groups & 1))])


def _texts(tree: BoxTree, cells: npt.ArrayLike, size: int, letters: Any) -> npt.NDArray[np.str_]:
    """One letter per group of ``size`` bits that all of the cell has, longitude and latitude in turns."""
    lower, upper = tree.tick_bounds(cells)
    longest = 2 * tree.tick_bits // size
    out = np.full((len(lower), max(longest, 1)), "", dtype="<U1")
    same, group = np.ones(len(lower), dtype=bool), np.zeros(len(lower), dtype=np.int64)
    for place in range(longest * size):
        axis, shift = place % 2, tree.tick_bits - 1 - place // 2
        same &= lower[:, axis] >> shift == upper[:, axis] >> shift
        group = 2 * group + (lower[:, axis] >> shift & 1)
        if place % size == size - 1:
            out[same, place // size] = letters(group[same])
            group[:] = 0
    return np.ascontiguousarray(out).view(f"<U{out.shape[1]}")[:, 0]
