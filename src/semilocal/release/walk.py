"""One walk from shapes to numbers: which share of each leaf a question takes, its answer and its error.

A box or polygon walks down the cells of the hierarchy to the parts of leaves: a cell that it does not meet is left, one
that it holds is taken whole, one that it cuts is opened. So a question costs about as much as its edge is long in
parts. Where cells are no boxes the hierarchy gives all shares.

People lie evenly in a part. That they do not is the leaf's overdispersion (tree.py).

Knows a tree of counts and shapes. Knows no protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers, on_all_cores
from ..geometry.areas import Areas, Asked, Boxes
from ..geometry.lattice import NOT_ROUNDED, Lattice
from ..geometry.polygons import Polygons, ranges
from ..hierarchy.base import ROOT, Cells
from .answers import CountAnswers
from .tree import CountTree, Taken

__all__ = ["TreeWalk"]

_NUMBERS_AT_ONCE = 1 << 22  # shares in a batch where a hierarchy gives all


class _Cells(NamedTuple):
    """Cells from the root down to parts of leaves: c of them, parents first.

    Attributes
    ----------
    cells : uint64[c]
    first : int64[c + 1]
        The children of cell i are ``first[i]`` to before ``first[i + 1]``; none if it is a part.
    people : float64[c]
        Those of children of the root that lie in the cell wholly, if they are exact.
    start : int64[c + 1]
        Pieces ``start[i]`` to before ``start[i + 1]`` are what it takes of other children of the root.
    row : int64[t]
        The leaf of a piece.
    share : float64[t]
        Which share of the leaf it is.
    """

    cells: Cells
    first: Integers
    people: Floats
    start: Integers
    row: Integers
    share: Floats

    @staticmethod
    def of(tree: CountTree) -> _Cells:
        hierarchy, parts = tree.hierarchy, tree.parts
        lower, _ = hierarchy.span(parts.cells)
        levels, opened = [np.array([ROOT], dtype=np.uint64)], []
        while True:
            begin, end = hierarchy.span(levels[-1])
            one, two = (np.searchsorted(lower, code, side="right") - 1 for code in (begin, end))
            opened.append(one != two)
            if not opened[-1].any():
                break
            levels.append(hierarchy.children(levels[-1][opened[-1]]))
        cells, inner = np.concatenate(levels), np.concatenate(opened)
        counts = np.zeros(len(cells), dtype=np.int64)
        counts[inner] = hierarchy.fanouts(cells[inner])
        begin, end = hierarchy.span(cells)
        one, two = (np.searchsorted(lower, code, side="right") - 1 for code in (begin, end))
        # Children of the root, and the first part of each: those at both ends of a cell may be cut, those between not.
        tops = np.arange(*tree.first[:2]) if tree.first[1] > tree.first[0] else np.zeros(1, dtype=np.int64)
        bounds = np.searchsorted(lower, tree.lower[tops])
        ends = np.append(bounds[1:], len(lower))
        left, right = (np.searchsorted(bounds, part, side="right") - 1 for part in (one, two))
        # A cell of one part may be taken in part, so it always has its piece.
        whole_left, whole_right = (inner & (bounds[at] >= one) & (ends[at] <= two + 1) for at in (left, right))
        from_top, to_top = np.where(whole_left, left, left + 1), np.where(whole_right, right + 1, right)
        # A cell that is a row of the tree needs none of that.
        same_row = _rows_at(tree, begin, end)
        to_top = np.where(same_row >= 0, from_top, np.maximum(to_top, from_top))
        passed = np.concatenate([[0.0], np.cumsum(tree.people[tops])])
        people = passed[to_top] - passed[from_top]
        # Parts of the cut ones, from the cell's first part on and up to its last one.
        same = left == right
        stop_left = np.where(whole_left, one, np.where(same, two + 1, ends[left]))
        start_right = np.where(whole_right | same, two + 1, bounds[right])
        numbers = np.stack([stop_left - one, two + 1 - start_right], axis=1)
        numbers[same_row >= 0] = [1, 0]
        part = ranges(np.stack([one, start_right], axis=1).ravel(), numbers.ravel())
        owner, leaf = np.repeat(np.arange(len(cells)), numbers.sum(axis=1)), parts.piece[part]
        fresh = np.flatnonzero((np.diff(owner, prepend=-1) != 0) | (np.diff(leaf, prepend=-1) != 0))
        owner = owner[fresh]
        row = np.where(same_row[owner] >= 0, same_row[owner], tree.leaves[leaf[fresh]])
        share = np.where(same_row[owner] >= 0, 1.0, np.add.reduceat(parts.share[part], fresh))
        if tree.unbiased is not None or tree.error[tops].any():  # errors of whole ones count
            owner = np.concatenate([owner, np.repeat(np.arange(len(cells)), to_top - from_top)])
            row = np.concatenate([row, tops[ranges(from_top, to_top - from_top)]])
            share = np.concatenate([share, np.ones(len(row) - len(share))])
            order, people = np.argsort(owner, kind="stable"), np.zeros(len(cells))
            owner, row, share = owner[order], row[order], share[order]
        start = np.searchsorted(owner, np.arange(len(cells) + 1))
        return _Cells(cells, 1 + np.concatenate([[0], np.cumsum(counts)]), people, start, row, share)

    def take(self, question: Integers, cell: Integers, share: Floats, questions: int) -> tuple[Floats, Taken]:
        """People that questions have from exact children of the root, and what they take of rows."""
        value = np.zeros(questions) + np.bincount(question, self.people[cell] * share, minlength=questions)
        number = self.start[cell + 1] - self.start[cell]
        piece = ranges(self.start[cell], number)
        return value, Taken(np.repeat(question, number), self.row[piece], np.repeat(share, number) * self.share[piece])


def _rows_at(tree: CountTree, begin: Cells, end: Cells) -> Integers:
    """The row of the tree with each first and last code, the deepest of several; -1 if there is none: int64[c]."""

    def mixed(first: Cells, last: Cells) -> Cells:
        return first * np.uint64(0x9E3779B97F4A7C15) ^ last * np.uint64(0xC2B2AE3D27D4EB4F)

    last = tree.upper - np.uint64(1)
    keys = mixed(tree.lower, last)
    order = np.argsort(keys, kind="stable")
    row = order[np.maximum(np.searchsorted(keys[order], mixed(begin, end), side="right") - 1, 0)]
    return np.where((tree.lower[row] == begin) & (last[row] == end), row, -1)


@dataclass(frozen=True, eq=False)
class TreeWalk:
    """A tree of counts, ready for questions.

    Attributes
    ----------
    tree : CountTree
    known : _Cells
    boxes : float64[c, 2, d] or None
        Of the cells, measured by the lattice; None where cells are no boxes.
    """

    tree: CountTree
    known: _Cells
    boxes: Floats | None

    @staticmethod
    def of(tree: CountTree, lattice: Lattice = NOT_ROUNDED) -> TreeWalk:
        """Find the cells of the leaves."""
        known = _Cells.of(tree)
        boxes = lattice.measure(tree.hierarchy.boxes(known.cells)) if tree.hierarchy.cells_are_boxes else None
        return TreeWalk(tree, known, boxes)

    def query(self, asked: Asked) -> CountAnswers:
        """People in boxes float64[q, 2, d] or in polygons."""
        if self.boxes is not None:
            areas: Areas = asked if isinstance(asked, Polygons) else Boxes.of(asked)
            groups = list(areas.batches()) if len(areas) else []
            parts = on_all_cores(lambda rows: self._counted(*self._descend(areas.take(rows)), len(rows)), groups)
        else:
            groups = list(self._groups(len(asked)))
            parts = on_all_cores(partial(self._shared, asked), groups)
        out = np.zeros((5, len(asked)))
        for rows, part in zip(groups, parts, strict=True):
            out[:, rows] = part
        return self._answers(out)

    def rows(self, rows: Integers) -> CountAnswers:
        """People in rows of the tree."""
        tree = self.tree
        value, noise = tree.people[rows], tree.noise[rows]
        plain = tree.plain[rows]
        most = np.where(noise > 0, tree.total, value)
        return self._answers(np.stack([value, plain, np.zeros(len(rows)), noise, most]))

    def _shared(self, asked: Asked, rows: Integers) -> Floats:
        """Answers where the hierarchy gives the shares of cells: float64[5, q]."""
        hierarchy = self.tree.hierarchy
        ends = np.flatnonzero(self.known.first[:-1] == self.known.first[1:])
        cells = self.known.cells[ends]
        if isinstance(asked, Polygons):
            shares = hierarchy.shares_in(cells, asked.take(rows))
        else:
            shares = hierarchy.shares(cells, asked[rows])
        question, cell = np.nonzero(shares)
        value, taken = self.known.take(question, ends[cell], shares[question, cell], len(rows))
        return self._counted(value, taken, len(rows))

    def _descend(self, areas: Areas) -> tuple[Floats, Taken]:
        """What areas take: people of whole children of the root, and shares of leaves."""
        assert self.boxes is not None
        known, number = self.known, len(areas)
        question, cell = np.arange(number), np.zeros(number, dtype=np.int64)
        found: list[tuple[Integers, Integers, Floats]] = []
        while len(question):
            boxes = self.boxes.take(cell, axis=0)
            areas, meets, holds = areas.within(boxes)
            leaf = known.first[cell] == known.first[cell + 1]
            cut = np.flatnonzero(meets & leaf & ~holds)
            found.append((question[cut], cell[cut], areas.take(cut).share(boxes[cut])))
            found.append((question[holds], cell[holds], np.ones(int(holds.sum()))))
            opened = np.flatnonzero(meets & ~holds & ~leaf)
            width = known.first[cell[opened] + 1] - known.first[cell[opened]]
            pair = np.repeat(opened, width)
            cell = ranges(known.first[cell[opened]], width)
            areas, question = areas.take(pair), question[pair]
        asked, cells, shares = (np.concatenate(column) for column in zip(*found, strict=True))
        return known.take(asked, cells, shares, number)

    def _counted(self, value: Floats, taken: Taken, number: int) -> Floats:
        """What :meth:`_answers` takes: float64[5, q]."""
        tree = self.tree
        taken = taken.joined(len(tree))
        # Cells of a leaf that is taken whole add up to 1 but for rounding.
        whole = taken.share > 1.0 - 1e-9
        taken = taken._replace(share=np.where(whole, 1.0, taken.share))
        people, plain = (
            value + np.bincount(taken.question, numbers[taken.row] * taken.share, minlength=number)
            for numbers in (tree.people, tree.plain)
        )
        top = np.unique(taken.question * len(tree) + tree.top[taken.row])
        question, row = np.divmod(top, len(tree))
        most = value + np.bincount(question, tree.people[row], minlength=number)
        return np.stack([people, plain, tree.inside(taken, number), tree.variance(taken, number), most])

    def _answers(self, sums: Floats) -> CountAnswers:
        """From numbers, unbiased numbers, both variances and limits: float64[5, q]."""
        value, plain, uneven, noise, most = sums
        total, variance = float(np.rint(self.tree.total)), uneven + noise
        fewer, more = value, value
        if self.tree.unbiased is None:
            most, noise = np.minimum(most, total), np.zeros(len(value))
        else:
            most, fewer, more = np.full(len(value), total), np.minimum(value, plain), np.maximum(value, plain)
        exact = (variance == 0) & (fewer == more)
        value = np.where(exact, np.rint(value), value)  # a sum of fractions is off by a rounding error
        return CountAnswers(value, np.sqrt(variance), fewer=fewer, more=more, most=most, noise=noise)

    def _groups(self, number: int) -> Iterator[Integers]:
        step = max(1, _NUMBERS_AT_ONCE // len(self.known.cells))
        yield from (np.arange(start, min(start + step, number)) for start in range(0, number, step))
