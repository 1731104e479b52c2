"""Keys: cells of a box tree as integers that an engine can compute, and back.

A key holds the ticks of a cell on all axes, axis 0 highest, each with the bits that the path has there. It names the
same cell as the interleaved path; only the order of the bits differs. Engines group rows by key, because interleaving
bits in SQL costs more than everything else; here the groups get their place on the curve.

Knows the bits of cells. Knows no participants, counts or randomness.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Integers
from ..errors import InvalidInput
from ..hierarchy.base import Cells
from ..hierarchy.dyadic import BoxTree

__all__ = ["axis_bits", "cells_of_keys", "coarser_keys", "keys_of_cells"]


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
    """Cells whose paths have so many bits, in the order of the keys: uint64[n]."""
    widths = axis_bits(tree, bits)
    ticks = np.empty((len(keys), len(widths)), dtype=np.int64)
    place = bits
    for axis, width in enumerate(widths):
        place -= width
        ticks[:, axis] = ((keys >> place) & ((1 << width) - 1)) << (tree.tick_bits - width)
    return tree.interleave(ticks) >> np.uint64(tree.path_bits - bits)


def keys_of_cells(tree: BoxTree, cells: Cells, bits: int) -> Integers:
    """The keys of cells whose paths have so many bits: int64[n]."""
    widths = axis_bits(tree, bits)
    dimensions = len(widths)
    keys = np.zeros(len(cells), dtype=np.int64)
    for step in range(bits):
        axis = step % dimensions
        place = sum(widths[axis + 1 :]) + widths[axis] - 1 - step // dimensions
        keys |= ((cells >> np.uint64(bits - 1 - step)) & np.uint64(1)).astype(np.int64) << place
    return keys


def coarser_keys(tree: BoxTree, keys: Integers, bits: int, fewer: int) -> Integers:
    """The keys at fewer bits of the path, of keys at ``bits``: int64[n]."""
    out = np.zeros(len(keys), dtype=np.int64)
    for shift, width in coarser_parts(tree, bits, fewer):
        out = (out << width) | ((keys >> shift) & ((1 << width) - 1))
    return out


def coarser_parts(tree: BoxTree, bits: int, fewer: int) -> list[tuple[int, int]]:
    """Per axis: how far to shift a key to the right, and how many bits to keep there."""
    wide, narrow = axis_bits(tree, bits), axis_bits(tree, fewer)
    return [(sum(wide[axis:]) - narrow[axis], narrow[axis]) for axis in range(len(wide))]
