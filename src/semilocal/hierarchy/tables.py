"""A public tree given as a table: cut points of one axis, or labels such as areas and codes of a taxonomy.

The deepest cells, the *leaves*, lie side by side on one axis; leaf i reaches from ``edges[i]`` to ``edges[i + 1]``. A
tree of labels has one unit of the axis per leaf, so that leaf i is the interval from i to i + 1 and a position in it is
i + 0.5. The tree above the leaves is written as numbers of children, level by level, so a table on the wire has no
gaps and no overlaps. :func:`from_cuts` and :func:`from_labels` build it from what people have.

Cells are numbered level by level from the root, 1; codes are the numbers of the leaves from 0. A leaf that is reached
early goes on with one child at a time. Intervals are half-open; the last one also holds the upper end.

Knows numbers and labels: everything here is public before anybody is asked. Knows no participants or randomness.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, is_integer, ranges, short_repr
from ..errors import InvalidInput, is_plain, printable
from ..geometry.box import Box
from .base import Cells, Hierarchy, cell_array

MAX_LEAVES = 20_000
MAX_TABLE_DEPTH = 40
MAX_TABLE_FANOUT = 256
MAX_LABEL = 80  # characters
_SHOWN = 24  # characters of a label in the name of several cells


class _Index(NamedTuple):
    """The tree as arrays, by cell (row 0 is not a cell): int64 each; and the first cell of each level and one more."""

    starts: Integers
    depth: Integers
    parent: Integers
    fanout: Integers
    child: Integers  # the first
    first: Integers  # leaf
    last: Integers


class TableTree(Hierarchy, frozen=True, tag="table", dict=True):
    """A tree over one axis with its own number of children in every cell.

    Use :func:`from_cuts` or :func:`from_labels` to build one.

    Parameters
    ----------
    name : str
        Of the axis.
    edges : tuple of float
        Ends of the leaves, ascending: 2 to 20,001.
    widths : tuple of tuple of int
        For every depth above the deepest, the number of children of each cell from left to right: 1 to 256.
    labels : tuple of tuple of str
        For every depth, the label of each cell; none for a tree of cuts.

    Examples
    --------
    >>> tree = TableTree("income", (0.0, 1.0, 2.0, 5.0), ((2,), (2, 1)))
    >>> tree.locate([[1.5], [4.0]], 1).tolist(), tree.boxes([2]).tolist()
    ([2, 3], [[[0.0], [2.0]]])
    """

    name: str
    edges: tuple[float, ...]
    widths: tuple[tuple[int, ...], ...]
    labels: tuple[tuple[str, ...], ...] = ()

    __repr__ = short_repr

    def __post_init__(self) -> None:
        leaves = len(self.edges) - 1
        if not 2 <= leaves <= MAX_LEAVES:
            raise InvalidInput(f"a table has 2 to {MAX_LEAVES} leaves; got {max(leaves, 0)}")
        msgspec.structs.force_setattr(self, "edges", tuple(float(edge) for edge in self.edges))
        for row, (low, high) in enumerate(zip(self.edges, self.edges[1:], strict=False)):
            if not (low < high and math.isfinite(low) and math.isfinite(high)):
                raise InvalidInput(f"edges must be finite and ascending; edge {row + 1} is {high} after {low}")
        if not 1 <= len(self.widths) <= MAX_TABLE_DEPTH:
            raise InvalidInput(f"a table has 1 to {MAX_TABLE_DEPTH} levels; got {len(self.widths)}")
        size = 1
        for depth, level in enumerate(self.widths):
            if len(level) != size or not all(is_integer(n) and 1 <= n <= MAX_TABLE_FANOUT for n in level):
                raise InvalidInput(
                    f"level {depth} has {size} cells; give each its number of children, from 1 to {MAX_TABLE_FANOUT}"
                )
            size = sum(level)
        if size != leaves:
            raise InvalidInput(f"the deepest level has {size} cells, but there are {leaves} leaves")
        if self.fanout < 2:
            raise InvalidInput("no cell of the table has two children; there is nothing to divide")
        self._check_labels()
        Box(self.edges[:1], self.edges[-1:], names=(self.name,))  # refuses a name that is none

    def _check_labels(self) -> None:
        if not self.labels:
            return
        sizes = [1, *map(sum, self.widths)]
        if [len(row) for row in self.labels] != sizes:
            raise InvalidInput(f"labels must be one per cell, {sizes} on the levels; got {[*map(len, self.labels)]}")
        for label in self._flat:
            if not isinstance(label, str) or not 0 < len(label) <= MAX_LABEL or not is_plain(label):
                raise InvalidInput(f"a label has 1 to {MAX_LABEL} visible characters; got {printable(repr(label))}")
        parents = self._index.parent[2:].tolist()  # an only child may have the label of its parent
        above = ["", *(self._flat[cell - 1] if self._index.fanout[cell] == 1 else "" for cell in parents)]
        new = Counter(label for label, other in zip(self._flat, above, strict=True) if label != other)
        repeated = [label for label, times in new.items() if times > 1]
        if repeated:
            raise InvalidInput(f"label {repeated[0]!r} names two cells; labels must differ")
        if self.edges != tuple(map(float, range(len(self.edges)))):
            raise InvalidInput("a table with labels has the edges 0, 1, 2 and so on, one unit per leaf")

    @cached_property
    def _flat(self) -> list[str]:
        """The label of every cell, from cell 1 on."""
        return [label for row in self.labels for label in row]

    # -- shape ---------------------------------------------------------------------------------------------

    @cached_property
    def box(self) -> Box:
        return Box(self.edges[:1], self.edges[-1:], names=(self.name,))

    @property
    def max_depth(self) -> int:
        return len(self.widths)

    @property
    def fanout(self) -> int:
        return max(map(max, self.widths))

    @cached_property
    def _index(self) -> _Index:
        sizes = [1, *map(sum, self.widths)]
        starts = 1 + np.cumsum([0, *sizes])
        cells = int(starts[-1])
        depth = np.repeat(np.arange(len(sizes)), sizes)
        fanout = np.concatenate([*(np.array(row, dtype=np.int64) for row in self.widths), np.zeros(sizes[-1])])
        fanout = np.append(0, fanout).astype(np.int64)
        child = 2 + np.cumsum(fanout) - fanout  # children are numbered in the order of their parents
        parent = np.zeros(cells, dtype=np.int64)
        parent[2:] = np.repeat(np.arange(cells), fanout)
        first, last = np.zeros((2, cells), dtype=np.int64)
        first[starts[-2] :] = last[starts[-2] :] = np.arange(sizes[-1])
        for level in range(len(sizes) - 2, -1, -1):
            level_cells = np.arange(starts[level], starts[level + 1])
            first[level_cells] = first[child[level_cells]]
            last[level_cells] = last[child[level_cells] + fanout[level_cells] - 1]
        return _Index(starts, np.append(-1, depth), parent, fanout, child, first, last)

    def _rows(self, cells: npt.ArrayLike) -> Integers:
        array = cell_array(cells)
        if np.any((array == 0) | (array >= np.uint64(self._index.starts[-1]))):
            raise InvalidInput(f"some numbers are not cells of a table of {self._index.starts[-1] - 1} cells")
        return array.astype(np.int64)

    def fanouts(self, cells: npt.ArrayLike) -> Integers:
        return self._index.fanout[self._rows(cells)]

    # -- cells ---------------------------------------------------------------------------------------------

    def depth(self, cells: npt.ArrayLike) -> Integers:
        return self._index.depth[self._rows(cells)]

    def parent(self, cells: npt.ArrayLike) -> Cells:
        rows = self._rows(cells)
        if np.any(rows == 1):
            raise InvalidInput("the root has no parent")
        return self._index.parent[rows].astype(np.uint64)

    def number(self, cells: npt.ArrayLike) -> Integers:
        above = self.parent(cells).astype(np.int64)
        return self._rows(cells) - self._index.child[above]

    def children(self, cells: npt.ArrayLike) -> Cells:
        rows = self._rows(cells)
        counts = self._index.fanout[rows]
        if not counts.all():
            raise InvalidInput(f"cells of depth {self.max_depth} have no children")
        return ranges(self._index.child[rows], counts).astype(np.uint64)

    def span(self, cells: npt.ArrayLike) -> tuple[Cells, Cells]:
        rows = self._rows(cells)
        return self._index.first[rows].astype(np.uint64), self._index.last[rows].astype(np.uint64)

    # -- positions -----------------------------------------------------------------------------------------

    def codes(self, points: npt.ArrayLike) -> Cells:
        found = np.searchsorted(np.array(self.edges[1:-1]), self.box.check(points)[:, 0], side="right")
        return found.astype(np.uint64)

    def ancestors(self, codes: Cells, depth: int) -> Cells:
        start, end = self._index.starts[depth : depth + 2]
        place = np.searchsorted(self._index.first[start:end], codes.astype(np.int64), side="right") - 1
        return np.asarray(start + place, dtype=np.uint64)

    def boxes(self, cells: npt.ArrayLike) -> Floats:
        rows, edges = self._rows(cells), np.array(self.edges)
        ends = edges[self._index.first[rows]], edges[self._index.last[rows] + 1]
        return np.stack(ends, axis=1)[:, :, None]

    @property
    def smallest_sides(self) -> Floats:
        return np.array([np.diff(self.edges).min()])

    # -- intervals of codes --------------------------------------------------------------------------------

    def _coarsest(self, first: Cells, last: Cells) -> Cells:
        start, stop = first.astype(np.int64), last.astype(np.int64)
        out = start.copy()
        for depth in range(self.max_depth, 0, -1):
            begins = self._index.first[self._index.starts[depth] : self._index.starts[depth + 1]]
            found = begins[np.minimum(np.searchsorted(begins, start), len(begins) - 1)]
            out = np.where((start <= found) & (found <= stop), found, out)
        return out.astype(np.uint64)

    def _longest(self, low: Cells, high: Cells) -> Cells:
        out = np.zeros_like(low)
        for depth in range(self.max_depth, -1, -1):
            begin, end = self._index.starts[depth : depth + 2]
            cells = begin + np.searchsorted(self._index.first[begin : end - 1], low)
            fits = (self._index.first[cells] == low) & (self._index.last[cells] < high)
            out[fits] = cells[fits]
        return out

    def interval_names(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> list[str]:
        """The labels of the first and the last cell, "a to b", or where the interval begins and ends."""
        if not self.labels:
            ends = self.interval_boxes(lower, upper)[:, :, 0].tolist()
            return [f"{low:.12g} to {high:.12g}" for low, high in ends]
        first, cells = self.interval_cells(lower, upper)
        names = [self.names(cells[place]) for place in (first[:-1], first[1:] - 1)]
        return [one if one == other else f"{_cut(one)} to {_cut(other)}" for one, other in zip(*names, strict=True)]

    # -- labels --------------------------------------------------------------------------------------------

    @cached_property
    def _cell_of(self) -> dict[str, int]:
        return {label: cell for cell, label in reversed(list(enumerate(self._flat, start=1)))}

    def positions(self, labels: npt.ArrayLike) -> Floats:
        """Positions that stand for leaves: float64[n, 1]. Labels that are none of them are refused, with the row.

        Examples
        --------
        >>> tree = from_labels("ICD", [("heart", "I21"), ("heart", "I25"), ("lung", "J18")])
        >>> tree.positions(["J18", "I21"]).tolist()
        [[2.5], [0.5]]
        """
        leaves = self.leaves
        out = np.empty((len(np.asarray(labels)), 1))
        for row, label in enumerate(np.asarray(labels).tolist()):
            if label not in leaves:
                hint = "; it is not the deepest" if label in self._cell_of else ""
                raise InvalidInput(
                    f"row {row}: {label!r} is not a leaf of {self.name!r}{hint}; remove it or correct it"
                )
            out[row] = leaves[label]
        return out

    @cached_property
    def leaves(self) -> dict[str, float]:
        return {label: number + 0.5 for number, label in enumerate(self.labels[-1])} if self.labels else {}

    @property
    def all_labels(self) -> list[str]:
        """Every label once, from the root down; empty for a tree of cuts."""
        return list(dict.fromkeys(self._flat))

    def cells_of(self, labels: npt.ArrayLike) -> Cells:
        """Cells by their labels, at any depth: uint64[m]; to ask ``counts.query(tree.boxes(cells))``."""
        for label in np.asarray(labels).tolist():
            if label not in self._cell_of:
                raise InvalidInput(f"{label!r} is not a label of {self.name!r}")
        return np.array([self._cell_of[label] for label in np.asarray(labels).tolist()], dtype=np.uint64)

    def names(self, cells: npt.ArrayLike) -> list[str]:
        return [self._flat[row - 1] if self.labels else "" for row in self._rows(cells).tolist()]


def _cut(label: str) -> str:
    return label if len(label) <= _SHOWN else label[: _SHOWN - 1] + "…"


# -- how to build one --------------------------------------------------------------------------------------------------


def from_cuts(name: str, levels: Sequence[Sequence[float]]) -> TableTree:
    """A tree of one axis from the edges on every level, the coarsest first.

    Parameters
    ----------
    name : str
        Of the axis.
    levels : sequence of sequence of float
        All edges of each level below the root, both ends included, ascending. Every level has all edges of the one
        above and the same ends.

    Examples
    --------
    >>> tree = from_cuts("age", [[0, 18, 65, 120], [0, 6, 18, 40, 65, 80, 120]])
    >>> tree.widths, tree.max_depth
    (((3,), (2, 2, 2)), 2)
    """
    rows = [tuple(float(edge) for edge in level) for level in levels]
    if not rows or any(len(row) < 2 for row in rows):
        raise InvalidInput("every level needs at least its two ends; got " + repr([len(row) for row in rows]))
    for depth, row in enumerate(rows, start=1):
        for low, high in pairwise(row):
            if not low < high:
                word = "twice" if low == high else f"after {low:g}: the parts overlap"
                raise InvalidInput(f"level {depth}: {high:g} stands {word}; edges must ascend")
    fanouts: list[tuple[int, ...]] = []
    above: tuple[float, ...] = (rows[0][0], rows[0][-1])
    for depth, row in enumerate(rows, start=1):
        missing = sorted(set(above) - set(row))
        if missing or row[0] != above[0] or row[-1] != above[-1]:
            wrong = f"it has no edge at {missing[0]:g}" if missing else f"it reaches from {row[0]:g} to {row[-1]:g}"
            raise InvalidInput(
                f"level {depth} does not refine the level above: {wrong}; parts would overlap or leave a gap"
            )
        fanouts.append(tuple(np.diff(np.searchsorted(row, above)).tolist()))
        above = row
    return TableTree(name, rows[-1], tuple(fanouts))


def from_labels(name: str, paths: Sequence[Sequence[str]]) -> TableTree:
    """A tree of labels from the path of every leaf, such as chapter, group and code.

    Parameters
    ----------
    name : str
        What the labels are; also the label of the root.
    paths : sequence of sequence of str
        From the coarsest label to the leaf, one row per leaf. Rows of one branch stand together. Shorter paths end
        early.

    Examples
    --------
    >>> tree = from_labels("ICD", [("IX", "I20-I25", "I21"), ("IX", "I20-I25", "I25"), ("X", "J18")])
    >>> tree.widths, tree.labels[1]
    (((2,), (1, 1), (2, 1)), ('IX', 'X'))
    """
    rows = [tuple(map(str, path)) for path in paths]
    for number, path in enumerate(rows):
        if not path or any(not 0 < len(label) <= MAX_LABEL for label in path):
            raise InvalidInput(f"row {number}: {path!r} must hold labels of 1 to {MAX_LABEL} characters")
        if number and path == rows[number - 1]:
            raise InvalidInput(f"row {number}: {path[-1]!r} stands twice; every leaf needs one row")
        if repeated := [label for label, times in Counter(path).items() if times > 1]:
            raise InvalidInput(f"row {number}: {repeated[0]!r} is its own part; a path names each level once")
    deepest = max(map(len, rows), default=0)
    full = [path + (path[-1],) * (deepest - len(path)) for path in rows]
    labels: list[tuple[str, ...]] = [(name,)]
    widths: list[tuple[int, ...]] = []
    above = [0]  # the first row of every cell
    for depth in range(deepest):
        cells = [row for row in range(len(full)) if not row or full[row][: depth + 1] != full[row - 1][: depth + 1]]
        owner: dict[str, tuple[str, ...]] = {}
        for row in cells:
            label = full[row][depth]
            if label in owner:
                raise InvalidInput(
                    f"row {row}: {label!r} also stands under {' > '.join(owner[label]) or 'another branch'}; the rows "
                    "of one branch must stand together, and no label may be in two branches"
                )
            owner[label] = full[row][:depth]
        labels.append(tuple(owner))
        widths.append(tuple(np.diff(np.searchsorted(cells, [*above, len(full)])).tolist()))
        above = cells
    return TableTree(name, tuple(map(float, range(len(full) + 1))), tuple(widths), tuple(labels))


def in_twos(tree: TableTree) -> TableTree:
    """The same leaves and cells with at most two children each: children in more than two are put together in groups.

    A pooled tree refines halves. Cells in between have labels such as "A to C". Every cell has two children until a
    leaf is reached; from there it goes on with one.
    """
    index, names = tree._index, ["", *tree.names(np.arange(1, int(tree._index.starts[-1])))]
    level = [[1]]  # cells that lie side by side are one cell
    labels: list[tuple[str, ...]] = [(tree.name,)]
    widths: list[tuple[int, ...]] = []
    while any(index.first[group[0]] < index.last[group[-1]] for group in level):
        following: list[list[int]] = []
        sizes = []
        for group in level:
            while len(group) == 1 and index.first[group[0]] < index.last[group[0]]:
                group = list(range(index.child[group[0]], index.child[group[0]] + index.fanout[group[0]]))
            passed = np.cumsum(index.last[group] - index.first[group] + 1)
            cut = 1 + int(np.argmin(np.abs(passed[:-1] - passed[-1] / 2))) if len(group) > 1 else 1
            halves = [half for half in (group[:cut], group[cut:]) if half]
            following += halves
            sizes.append(len(halves))
        level = following
        widths.append(tuple(sizes))
        labels.append(
            tuple(names[one[0]] if len(one) == 1 else f"{names[one[0]]} to {names[one[-1]]}" for one in level)
        )
    return TableTree(tree.name, tree.edges, tuple(widths), tuple(labels) if tree.labels else ())
