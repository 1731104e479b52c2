"""What a box takes from cells of a pooled tree that it cuts on one side only: a function of where it cuts.

A box with n cells inside cuts about sqrt(n) of them, but most of these lie in larger cells that only one of its sides
goes through. What it takes from such a cell, all cells below it included, depends on one number: where that side is. So
for every cell and axis there is a function of this place, made of pieces between the edges of the cells below:
people, shift and the share taken are linear in each piece, both parts of the variance (how people lie in final cells,
and noise) are quadratic. They are added up from the final cells to the root once; then a query looks up one piece in
place of walking down.

Knows published numbers. Knows no positions.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, Integers

__all__ = ["Edges", "Opened", "Strips", "Taken"]

_PEOPLE, _SHIFT, _SHARE, _UNEVEN, _NOISE = (slice(*ends) for ends in pairwise((0, 2, 4, 6, 9, 12)))  # constants first
_TERMS = 12


class Taken(NamedTuple):
    """What a box takes from each cell: float64[m] each."""

    people: Floats
    shift: Floats
    share: Floats
    uneven: Floats
    noise: Floats


class Edges(NamedTuple):
    """Pieces of the functions of some cells on one axis.

    Attributes
    ----------
    cell : int64[p]
        Ascending.
    left : float64[p]
        Where a piece begins; ascending in a cell, the first at its lower edge.
    terms : float64[12, p]
        Of what lies between the cell's lower edge and a place, in powers of the way from ``left``.
    """

    cell: Integers
    left: Floats
    terms: Floats

    @classmethod
    def joined(cls, parts: list[Edges]) -> Edges:
        """All pieces, by cells."""
        cell, left, terms = (np.concatenate(column, axis=-1) for column in zip(*parts, strict=True))
        if (cell[1:] >= cell[:-1]).all():  # levels come one after the other
            return cls(cell, left, terms)
        order = np.argsort(cell, kind="stable")
        return cls(cell.take(order), left.take(order), terms.take(order, axis=1))

    @staticmethod
    def of_final(
        cells: Integers, lower: Floats, upper: Floats, masses: Floats, people: Floats, shift: Floats, uneven: Floats
    ) -> Edges:
        """Final cells int64[m], evenly filled between equal slices of their side with the shares float64[s, m]."""
        slices = len(masses)
        width = (upper - lower) / slices
        left = lower + width * np.arange(slices)[:, None]
        terms = np.empty((_TERMS, len(cells), slices))
        slope = (masses / width).T
        before = (np.cumsum(masses, axis=0) - masses).T
        for row, many in ((_PEOPLE, people), (_SHIFT, shift), (_SHARE, np.ones(len(cells)))):
            terms[row] = many[:, None] * np.stack([before, slope])
        squares = np.stack([before - before * before, slope - 2.0 * before * slope, -slope * slope])
        terms[_UNEVEN], terms[_NOISE] = uneven[:, None] * squares, 0.0
        return Edges(np.repeat(cells, slices), left.T.ravel(), terms.reshape(_TERMS, -1))

    def moved(self, rows: Integers, left: Floats) -> Floats:
        """The terms of some pieces in powers of the way from other places: float64[12, k]."""
        offset, terms = left - self.left.take(rows), self.terms.take(rows, axis=1)
        for level, slope, square in (terms[_UNEVEN], terms[_NOISE]):
            level += (slope + square * offset) * offset
            slope += 2.0 * square * offset
        for row in (_PEOPLE, _SHIFT, _SHARE):
            terms[row.start] += terms[row.start + 1] * offset
        return terms


class Strips:
    """The functions of all cells of a tree, ready to be looked up.

    Parameters
    ----------
    axes : list of Edges
        All cells, one per axis.
    """

    def __init__(self, axes: list[Edges]) -> None:
        self._keys = [_key(edges.cell, edges.left) for edges in axes]
        self._left = [edges.left for edges in axes]
        self._pieces = [np.ascontiguousarray(edges.terms.T) for edges in axes]  # all that is read of one side by side

    def below(self, axis: int, cell: Integers, place: Floats) -> Taken:
        """What lies below a place on one axis, in one cell each that has this place inside."""
        piece = np.searchsorted(self._keys[axis], _key(cell, place), side="right") - 1
        offset, terms = place - self._left[axis].take(piece), self._pieces[axis].take(piece, axis=0).T
        out = []
        for row in (_PEOPLE, _SHIFT, _SHARE, _UNEVEN, _NOISE):
            *lower, highest = terms[row]
            total = highest * offset
            for term in lower[:0:-1]:
                total += term
                total *= offset
            out.append(np.add(total, lower[0], out=total))
        return Taken(*out)


class Opened(NamedTuple):
    """Opened cells of one level, m of them, in order.

    Attributes
    ----------
    cells, first : int64[m]
        The cells, and the first of the two children of each, which follow each other without gaps.
    share, split : float64[m]
        As in :class:`semilocal.release._pooled_walk.PooledWalk`.
    people, shift : float64[m]
        Of their first children.
    """

    cells: Integers
    first: Integers
    share: Floats
    split: Floats
    people: Floats
    shift: Floats

    def along(self, below: Edges) -> Edges:
        """Their functions on the axis that they are halved on: one child comes after the other."""
        rank, second = self._parents(below)
        people, shift, handed = (numbers.take(rank) for numbers in (self.people, self.shift, self.share))
        terms = below.terms.copy()
        terms[_PEOPLE.start] += second * people
        terms[_SHIFT.start] += second * shift
        share = terms[_SHARE]
        differ = np.where(second, -share, share)
        differ[0] += second
        self._add_noise(terms, rank, differ)
        share *= np.where(second, 1.0 - handed, handed)
        share[0] += second * handed
        return Edges(self.cells.take(rank), below.left, terms)

    def across(self, below: Edges) -> Edges:
        """Their functions on another axis: both children are cut at the same place."""
        rank, second = self._parents(below)
        order = np.lexsort((below.left, rank))
        rank, left, second = rank.take(order), below.left.take(order), second.take(order)
        last = np.append((rank[1:] != rank[:-1]) | (left[1:] != left[:-1]), True)
        place = np.arange(len(order))
        pieces = [order.take(np.maximum.accumulate(np.where(own, place, 0))[last]) for own in (~second, second)]
        rank, left = rank[last], left[last]
        terms, other = (below.moved(rows, left) for rows in pieces)
        differ, handed = terms[_SHARE] - other[_SHARE], self.share.take(rank)
        terms += other
        self._add_noise(terms, rank, differ)
        terms[_SHARE] = other[_SHARE] + handed * differ
        return Edges(self.cells.take(rank), left, terms)

    def _parents(self, below: Edges) -> tuple[Integers, Flags]:
        """Which of these cells a piece's cell is a child of, and whether it is the second one."""
        number = below.cell - self.first[0]
        return number >> 1, (number & 1).astype(bool)

    def _add_noise(self, terms: Floats, rank: Integers, differ: Floats) -> None:
        """What errors of the children against each other add; ``differ`` float64[2, p] is linear in the place."""
        split, (level, slope) = self.split.take(rank), differ
        terms[_NOISE] += split * np.stack([level * level, 2.0 * level * slope, slope * slope])


def _key(cell: Integers, place: Floats) -> npt.NDArray[np.complex128]:
    """Pairs in the order of cells, then of places: NumPy sorts complex numbers by their real part first."""
    key = np.empty(len(cell), dtype=np.complex128)
    key.real, key.imag = cell, place
    return key
