"""The cells of a finished partition as one tree: regions, trimmed parts, and all cells above them.

Knows a partition. Knows no queries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..arrays import Flags, Floats, Integers, Words
from ..hierarchy.base import Cells, Hierarchy
from ..protocol.partition import Partition
from ._lattice import NOT_ROUNDED, Lattice

__all__ = ["NONE", "Tree"]

NONE = -1


@dataclass(frozen=True, eq=False)
class Tree:
    """n cells, each after its parent.

    Attributes
    ----------
    partition : Partition
    cells : uint64[n]
    boxes : float64[n, 2, d]
        As the lattice measures them.
    levels : tuple of int64[m]
        Cells of each depth that have children here, from the root down.
    children : int64[n, fanout]
        NONE for regions and trimmed parts, and where a cell has no such child.
    exists : bool[n, fanout]
        Which children a cell can have.
    portions : float64[n, fanout]
        Share of the cell's codes in each child: that of people who are moved into the cell. 0 below regions and parts.
    kept : bool[n, fanout]
        Children that were not trimmed.
    regions, trims : int64[n]
        Which region or TRIM verdict of the partition a cell is; else NONE.
    acting : float64[n]
        Participants who were in the cell, as far as the protocol knows, and stayed to the end.
    lattice : Lattice
        What positions were rounded to.
    """

    partition: Partition
    cells: Words
    boxes: Floats
    levels: tuple[Integers, ...]
    children: Integers
    exists: Flags
    portions: Floats
    kept: Flags
    regions: Integers
    trims: Integers
    acting: Floats
    lattice: Lattice

    @staticmethod
    def of(partition: Partition) -> Tree:
        """Build it from regions and TRIM verdicts."""
        hierarchy, fanout = partition.task.hierarchy, partition.task.randomizer.fanout
        ends = np.concatenate([partition.cells, partition.trimmed_cells])
        depths = hierarchy.depth(ends)
        found, above = [], np.empty(0, dtype=np.uint64)
        for depth in range(int(depths.max()), -1, -1):
            here = np.union1d(ends[depths == depth], above)
            found.append(here)
            above = np.unique(hierarchy.parent(here)) if depth else above
        cells = np.sort(np.concatenate(found))
        regions, trims = np.full((2, len(cells)), NONE)
        regions[np.searchsorted(cells, partition.cells)] = np.arange(len(partition))
        trims[np.searchsorted(cells, partition.trims.cells)] = np.arange(len(partition.trims.cells))
        inner = np.ones(len(cells), dtype=bool)
        inner[np.searchsorted(cells, ends)] = False
        children, portions = np.full((len(cells), fanout), NONE), np.zeros((len(cells), fanout))
        below, (row, number) = hierarchy.children(cells[inner]), hierarchy.child_rows(cells[inner])
        row = np.flatnonzero(inner)[row]
        children[row, number] = np.searchsorted(cells, below)
        portions[row, number] = _sizes(hierarchy, below) / _sizes(hierarchy, cells)[row]
        exists = hierarchy.child_mask(cells)
        kept = exists.copy()
        kept[trims != NONE] = partition.trims.kept[trims[trims != NONE]]
        at = hierarchy.depth(cells)
        levels = tuple(np.flatnonzero(inner & (at == depth)) for depth in range(int(depths.max())))
        acting = np.zeros(len(cells))
        acting[regions != NONE] = partition.crowds[regions[regions != NONE]]
        tree = Tree(
            partition, cells, hierarchy.boxes(cells), levels, children, exists, portions, kept, regions, trims, acting,
            NOT_ROUNDED,
        )  # fmt: skip
        tree.add_up(acting)
        return tree

    def on(self, lattice: Lattice) -> Tree:
        """The same tree of an unrounded one, as a lattice measures it."""
        return replace(self, boxes=lattice.measure(self.boxes), lattice=lattice) if lattice.steps else self

    @property
    def is_region(self) -> Flags:
        """bool[n]."""
        return np.asarray(self.regions != NONE)

    @cached_property
    def depths(self) -> Integers:
        """int64[n]."""
        return np.asarray(self.partition.task.hierarchy.depth(self.cells))

    @property
    def is_part(self) -> Flags:
        """Trimmed parts: bool[n]."""
        return np.asarray((self.regions == NONE) & (self.children[:, 0] == NONE))

    def add_up(self, numbers: Floats) -> None:
        """Give every cell above others the sum of its children's numbers, in place: float64[n]."""
        for level in reversed(self.levels):
            numbers[level] = np.where(self.exists[level], numbers[self.children[level]], 0.0).sum(axis=1)


def _sizes(hierarchy: Hierarchy, cells: Cells) -> Floats:
    """Numbers of codes: float64[m]."""
    first, last = hierarchy.span(cells)
    return np.asarray((last - first).astype(np.float64) + 1.0)
