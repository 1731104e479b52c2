"""Keys: cells of a box tree as integers that an engine can compute, and back.

A key holds the ticks of a cell on all axes, axis 0 highest, each with the bits that the path has there. It names the
same cell as its path along the curve. Engines group rows by key, because finding the place on the curve in SQL costs
more than everything else; here the groups get it.

Knows the bits of cells. Knows no participants, counts or randomness.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

import numpy as np

from ..arrays import Integers
from ..errors import InvalidInput
from ..hierarchy.base import Cells, Hierarchy
from ..hierarchy.dyadic import BinaryTree, BoxTree

__all__ = ["axis_bits", "cells_of_keys", "coarser_parts", "fits_keys", "keys_of_cells", "whole_levels"]

_PART = 1 << 20  # cells at a time


def fits_keys(tree: Hierarchy) -> TypeGuard[BoxTree]:
    """Whether an engine can name the cells of a tree: boxes whose deepest ones are halved as often on every axis.

    Then every depth with whole levels of the curve is a grid, and its cells are numbers on the axes.
    """
    return isinstance(tree, BoxTree) and tree.path_bits % tree.box.dimensions == 0


def whole_levels(tree: Hierarchy, depth: int) -> int:
    """The smallest depth from this one on at which the cells are a grid; the same for trees that have no keys."""
    if not fits_keys(tree):
        return depth
    step = max(tree.box.dimensions // tree.level_bits, 1)
    return -(-depth // step) * step


def axis_bits(tree: BoxTree, bits: int) -> tuple[int, ...]:
    """How many of the first ``bits`` bits of a path belong to each axis, where that is as many on every axis.

    Examples
    --------
    >>> from semilocal import BinaryTree, Box
    >>> axis_bits(BinaryTree(Box((0, 0), (1, 1)), 20), 6)
    (3, 3)
    """
    if not 0 <= bits <= tree.path_bits or bits % tree.box.dimensions:
        raise InvalidInput(
            f"bits must be 0 to {tree.path_bits}, the length of the tree's paths, in steps of {tree.box.dimensions}; "
            f"got {bits}"
        )
    return (bits // tree.box.dimensions,) * tree.box.dimensions


def cells_of_keys(tree: BoxTree, keys: Integers, bits: int) -> Cells:
    """Cells whose paths have a given number of bits, in the order of the keys: uint64[n]."""
    cells = np.ones(len(keys), dtype=np.uint64)
    if not bits:
        return cells
    above = BinaryTree(tree.box, bits, tree.turn)  # its paths are the first bits of the tree's
    for part in _parts(len(keys)):
        ticks, place = np.empty((tree.box.dimensions, len(keys[part])), dtype=np.int64), bits
        for axis, width in enumerate(axis_bits(tree, bits)):
            place -= width
            np.right_shift(keys[part], place, out=ticks[axis])
            ticks[axis] &= (1 << width) - 1
            ticks[axis] <<= above.tick_bits - width
        cells[part] = above.interleave(ticks.T)
    return cells


def keys_of_cells(tree: BoxTree, cells: Cells, bits: int) -> Integers:
    """The keys of cells whose paths have a given number of bits: int64[n]."""
    cells = np.asarray(cells, dtype=np.uint64)
    keys = np.zeros(len(cells), dtype=np.int64)
    for part in _parts(len(cells)):
        lower = tree.tick_bounds(cells[part] << np.uint64(tree.path_bits - bits))[0]
        for axis, width in enumerate(axis_bits(tree, bits)):
            keys[part] = (keys[part] << width) | (lower[:, axis] >> (tree.tick_bits - width))
    return keys


def _parts(size: int) -> Iterator[slice]:
    """Some at a time: a billion rows have many cells, and what is computed on the way is several times as large."""
    yield from (slice(start, start + _PART) for start in range(0, size, _PART))


def coarser_parts(tree: BoxTree, bits: int, fewer: int) -> list[tuple[int, int]]:
    """Per axis: how far to shift a key to the right, and how many bits to keep there."""
    wide, narrow = axis_bits(tree, bits), axis_bits(tree, fewer)
    return [(sum(wide[axis:]) - narrow[axis], narrow[axis]) for axis in range(len(wide))]
