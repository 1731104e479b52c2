"""Keys: cells of a box tree as integers that an engine can compute, and back.

A key holds the ticks of a cell on all axes, axis 0 highest, each with the bits that the path has there. It names the
same cell as the interleaved path; only the order of the bits differs. Engines group rows by key, because interleaving
bits in SQL costs more than everything else; here the groups get their place on the curve.

Knows the bits of cells. Knows no participants, counts or randomness.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..arrays import Integers
from ..errors import InvalidInput
from ..hierarchy.base import Cells
from ..hierarchy.dyadic import BinaryTree, BoxTree

__all__ = ["axis_bits", "cells_of_keys", "coarser_parts", "keys_of_cells"]

_PART = 1 << 20  # cells at a time


def axis_bits(tree: BoxTree, bits: int) -> tuple[int, ...]:
    """How many of the first ``bits`` bits of a path belong to each axis.

    Examples
    --------
    >>> from semilocal import BinaryTree, Box
    >>> axis_bits(BinaryTree(Box((0, 0), (1, 1)), 20), 5)
    (3, 2)
    """
    if not 0 <= bits <= tree.path_bits:
        raise InvalidInput(f"bits must be 0 to {tree.path_bits}, the length of the tree's paths; got {bits}")
    dimensions = tree.box.dimensions
    return tuple((bits - axis + dimensions - 1) // dimensions for axis in range(dimensions))


def cells_of_keys(tree: BoxTree, keys: Integers, bits: int) -> Cells:
    """Cells whose paths have a given number of bits, in the order of the keys: uint64[n]."""
    cells = np.ones(len(keys), dtype=np.uint64)
    if not bits:
        return cells
    above = BinaryTree(tree.box, bits)  # its paths are the first bits of the tree's
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
