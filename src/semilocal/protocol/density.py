"""Where people are inside the pieces of regions: a smoothed density that keeps the number of every piece.

Answers tell how many people a piece has, not where in it they are. But a piece beside a crowd has most of its people
near the crowd. So the cells of a piece are divided further, and the people of a piece are shared out among them by the
mean density around each: the piecewise constant density, smoothed by a kernel as wide as the cell, and scaled so that
pieces keep their people (pycnophylactic smoothing). Where cells are no boxes people lie evenly over codes.

Knows pieces and a hierarchy. Knows no participants, functions or questions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers
from ..hierarchy.base import Cells, Hierarchy
from .estimate import Pieces

__all__ = ["Parts", "parts_of"]

_HALVINGS = 2  # of each axis, in the cells of a piece
_MOST_CELLS = 1 << 18  # beyond that, fewer halvings
_PASSES = 3  # of the kernel; later ones change nothing that matters
_NOBODY = 1e-100


class Parts(NamedTuple):
    """Cells of all pieces, along the order."""

    cells: Cells  # uint64[c]
    piece: Integers  # int64[c]: ascending
    share: Floats  # float64[c]: expected share of the piece's people; those of a piece add up to 1


def parts_of(hierarchy: Hierarchy, pieces: Pieces, people: Floats) -> Parts:
    """Divide the people of pieces, float64[m] of each region, among their cells."""
    first, cells = hierarchy.interval_cells(pieces.lower, pieces.upper)
    piece = np.repeat(np.arange(len(first) - 1), np.diff(first))
    codes = (pieces.upper - pieces.lower).astype(np.float64)
    if not hierarchy.cells_are_boxes:
        begin, end = hierarchy.span(cells)
        return Parts(cells, piece, ((end - begin).astype(np.float64) + 1.0) / codes[piece])
    lower, upper = hierarchy.boxes(cells).transpose(1, 0, 2)
    reach = (upper - lower) / 2.0
    dimensions, levels = hierarchy.box.dimensions, _HALVINGS
    while levels and len(cells) * 2 ** (levels * dimensions) > _MOST_CELLS:
        levels -= 1
    for _ in range(levels * (dimensions if hierarchy.fanout == 2 else 1)):
        opened = hierarchy.depth(cells) < hierarchy.max_depth
        row = np.repeat(np.arange(len(cells)), np.where(opened, hierarchy.fanout, 1))
        below = cells[row]
        below[opened[row]] = hierarchy.children(cells[opened])
        cells, piece, reach = below, piece[row], reach[row]
    begin, end = hierarchy.span(cells)
    size = (end - begin).astype(np.float64) + 1.0
    total = (pieces.share * np.repeat(people, np.diff(pieces.first)))[piece]
    starts, share = np.searchsorted(piece, np.arange(len(codes))), size / codes[piece]
    middle, box = hierarchy.boxes(cells).mean(axis=1), hierarchy.box
    beside = [np.arange(len(cells))]
    for axis in range(box.dimensions):
        for sign in (-1.0, 1.0):
            place = middle.copy()
            place[:, axis] = np.clip(middle[:, axis] + sign * reach[:, axis], box.lower[axis], box.upper[axis])
            beside.append(np.searchsorted(begin, hierarchy.codes(place), side="right") - 1)
    for _ in range(_PASSES):
        density = total * share / size
        weight = size * (sum(density[at] for at in beside) + _NOBODY)
        share = weight / np.add.reduceat(weight, starts)[piece]
    return Parts(cells, piece, share)
