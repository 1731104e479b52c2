"""Rows of a tree that one line cuts, tabulated: what lies below the line, by where it cuts.

Most rows that a box cuts are cut by one of its sides alone. What they add to an answer is a function of one place then,
and :class:`semilocal.release.walk.TreeWalk` would open them down to their leaves again and again. Between two edges of
cells the shares of all leaves are straight in the place. So people and shares are straight, errors are quadratic,
and the answers of the walk at all edges and half way between them give the whole function.

Rows are tabulated from the deepest upwards: a table is made of those of the row's children. Small rows have none.

Knows a tree, the edges of its cells and who answers. Knows no questions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..arrays import Flags, Floats, Integers, on_all_cores
from ..geometry.areas import Boxes
from .tree import CountTree

__all__ = ["Lines"]

_FEWEST_LEAVES = 32  # of a row that has a table
_FLAT = 1e-300  # against a division by zero
_AT_ONCE = 1 << 13  # entries that are asked for
Ask: TypeAlias = Callable[[Boxes, Integers, "Lines"], Floats]


@dataclass(frozen=True, eq=False)
class Lines:
    """Tables of rows, one for each axis.

    Attributes
    ----------
    number : int64[n]
        Of each row that has tables; -1 for others.
    dimensions : int
    edges : float64[r]
        Where cells begin and end along any axis, ascending.
    keys : int64[e]
        Number of the row, axis and edge of each entry as one number, ascending.
    entries : float64[e, 10]
        Below the edge: people, unbiased people, variances by uneven people and by noise, the error in common, and the
        share that the row hands up; the three errors half way to the next edge; the edge.
    """

    number: Integers
    dimensions: int
    edges: Floats
    keys: Integers
    entries: Floats

    @staticmethod
    def of(tree: CountTree, parts: Floats, shift: int, ask: Ask) -> Lines:
        """Tabulate a tree.

        Parameters
        ----------
        parts : float64[c, 2, d]
            Boxes of the parts of all leaves.
        shift : int
            By which the rows below the root come later among those that are asked about.
        ask : callable
            The first six numbers of an entry for boxes in one row each, float64[6, q].
        """
        dimensions, edges = parts.shape[2], np.unique(parts)
        ends = np.searchsorted(tree.lower[tree.leaves], np.stack([tree.lower, tree.upper]))
        rows = 1 + np.flatnonzero((ends[1] - ends[0] >= _FEWEST_LEAVES)[1:])
        number = np.full(len(tree), -1)
        number[rows] = np.arange(len(rows))
        home, parent = tree.leaves.copy(), tree.parent
        while len(small := np.flatnonzero((number[home] < 0) & (home > 0))):
            home[small] = parent[home[small]]
        own = number[home][tree.parts.piece]
        inside = own >= 0
        own, size = own[inside] * dimensions, len(edges)
        keys = [
            (own + axis) * size + np.searchsorted(edges, parts[inside, side, axis])
            for axis in range(dimensions)
            for side in (0, 1)
        ]
        found, above = [_distinct(keys)], number[parent[rows]]
        while len(found[-1]):  # edges inside a row are edges inside the row above
            row, rest = np.divmod(found[-1], dimensions * size)
            up = above[row]
            found.append(_distinct([(up * dimensions * size + rest)[up >= 0]]))
        every = _distinct(found)
        row, axis, entries = every // size // dimensions, every // size % dimensions, np.empty((len(every), 10))
        entries[:, 9] = edges[every % size]
        lines = Lines(np.full(shift + len(tree), -1), dimensions, edges, every, entries)

        def fill(some: slice) -> None:
            entry = np.arange(some.start, some.stop)
            place = entries[entry, 9]
            corners = np.full((2, len(entry), 2, dimensions), np.inf)
            corners[:, :, 0] = -np.inf
            half = (place + entries[np.minimum(entry + 1, len(entries) - 1), 9]) / 2.0
            corners[:, np.arange(len(entry)), 1, axis[some]] = place, half
            boxes = Boxes(corners.reshape(-1, 2, dimensions))
            told = ask(boxes, np.tile(shift + rows[row[some]], 2), lines).reshape(6, 2, -1)
            entries[some, :6], entries[some, 6:9] = told[:, 0].T, told[2:5, 1].T

        depth = tree.level[rows]
        for deep in range(int(depth.max(initial=0)), 0, -1):
            same = np.flatnonzero(depth == deep)
            if len(same):
                begin, end = np.searchsorted(row, [same[0], same[-1] + 1])
                on_all_cores(fill, [slice(at, min(at + _AT_ONCE, end)) for at in range(begin, end, _AT_ONCE)])
                lines.number[shift + rows[same]] = same
        return lines

    def has(self, rows: Integers) -> Flags:
        """Whether rows have tables."""
        return np.asarray(self.number.take(rows) >= 0)

    def below(self, rows: Integers, axis: Integers, place: Floats) -> Floats:
        """What lies below one line inside each row, as the first six numbers of an entry: float64[6, m]."""
        edge = np.searchsorted(self.edges, place, side="right")
        key = (self.number.take(rows) * self.dimensions + axis) * len(self.edges) + edge
        entry = np.searchsorted(self.keys, key) - 1
        low, high = (self.entries.take(entry + after, axis=0).T for after in (0, 1))
        part, half = ((at - low[9]) / (high[9] - low[9]) for at in (place, (low[9] + high[9]) / 2.0))
        rise = high[:6] - low[:6]
        out = low[:6] + part * rise
        bend = part * (1.0 - part) / np.maximum(half * (1.0 - half), _FLAT)  # half is off where edges almost meet
        out[2:5] += bend * (low[6:9] - (low[2:5] + half * rise[2:5]))
        return np.asarray(out)


def _distinct(numbers: list[Integers]) -> Integers:
    """All numbers once, ascending; runs of ascending ones are sorted fast."""
    joined = np.concatenate(numbers)
    joined.sort(kind="stable")
    return np.asarray(joined[np.append(True, joined[1:] != joined[:-1])[: len(joined)]])
