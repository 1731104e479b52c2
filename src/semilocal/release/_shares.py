"""How many people are in boxes where cells are no boxes that are halved: from the share of each cell that a box takes.

The same numbers and the same kinds of error as in the walks over box trees (_walk.py, _pooled_walk.py), but for what
needs boxes side by side: people lie evenly in the children of a region, or in a final cell, without slopes towards the
neighbours, and clumps are places (spread.py). So answers about boxes along edges of cells are as good, and those that
cut cells are less good.

Knows shares, which the hierarchy gives, and published numbers. Knows no positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from ..arrays import Floats, Integers
from ..geometry.polygons import Polygons
from ..hierarchy.base import Cells, Hierarchy
from ..pooled.estimate import Estimates
from ._areas import Asked
from ._halved import clumped
from ._law import Doubt
from ._tree import Tree
from ._visitors import Population, divided
from ._walk import Counted
from ._way_back import SUMS
from .spread import Spread

__all__ = ["PooledShares", "PublicShares"]

_NUMBERS_AT_ONCE = 1 << 22

_Question: TypeAlias = Callable[[Cells], Floats]  # cells uint64[m] to their shares in q areas, float64[q, m]


class _Tiles(NamedTuple):
    """What regions are divided into, region after region: their children, or a region itself if these are not known.

    ``start`` int64[r] says where the tiles of each region begin; ``region`` int64[r] is its row in the tree.
    """

    start: Integers
    region: Integers
    cells: Cells
    portion: Floats  # float64[t]: share of the region's area
    people: Floats  # float64[t]
    noise: Floats  # float64[t]: variance of the people, given those of the region
    spread: Spread  # how unevenly people lie inside each


@dataclass(frozen=True, eq=False)
class PublicShares:
    """Public regions, ready for range counts.

    Attributes
    ----------
    tree : Tree
    found : Population
    tiles : _Tiles
    """

    tree: Tree
    found: Population
    tiles: _Tiles

    @staticmethod
    def of(tree: Tree, found: Population) -> PublicShares:
        """Divide the people of regions."""
        return PublicShares(tree, found, _tiles(tree, found))

    def query(self, asked: Asked) -> Counted:
        """People in boxes float64[q, 2, d] or in polygons."""
        return self._count(_questions(self.tree.partition.task.hierarchy, asked, len(self.tree.cells)))

    def regions(self, cells: Cells) -> Counted:
        """People in cells."""
        return self._count(_about_cells(self.tree.partition.task.hierarchy, cells, len(self.tree.cells)))

    def _count(self, questions: Iterable[_Question]) -> Counted:
        parts = [self._answer(shares_of) for shares_of in questions]
        return Counted.around(np.concatenate([np.empty((SUMS, 0)), *parts], axis=1))

    def _answer(self, shares_of: _Question) -> Floats:
        """What :meth:`Counted.around` takes: float64[4, q]."""
        tree, found, tiles = self.tree, self.found, self.tiles
        parts = np.flatnonzero(tree.is_part)
        taken = shares_of(tiles.cells)
        shares = np.zeros((len(taken), len(tree.cells)))
        shares[:, parts] = shares_of(tree.cells[parts])
        shares[:, tiles.region] = np.add.reduceat(taken * tiles.portion, tiles.start, axis=1)
        value = taken @ tiles.people + shares[:, parts] @ found.people[parts]
        variance = self._inside(taken) + self._parts(shares[:, parts], parts)
        # Who act from a cell is the largest number that may live there; no limit is known for trimmed parts.
        ends = np.append(tiles.region, parts)
        most = np.where(shares[:, ends] > 0, np.where(tree.is_part, np.inf, tree.acting)[ends], 0.0).sum(axis=1)
        unsure, doubt = np.zeros(len(taken)), Doubt(found.law, len(taken))
        for depth, level in reversed(list(enumerate(tree.levels))):
            children, kept = tree.children[level], tree.kept[level]
            ways = np.where(kept, tree.portions[level], 0.0)
            ways /= ways.sum(axis=1, keepdims=True)
            below = shares[:, np.maximum(children, 0)]
            shares[:, level] = here = (below * ways).sum(axis=2)
            variance += np.maximum((below**2 * ways).sum(axis=2) - here**2, 0.0) @ found.visitors[level]
            row, child = np.nonzero(tree.exists[level] & ~kept)
            part, net = children[row, child], below[:, row, child] - here[:, row]
            variance += net**2 @ found.noise[part]
            unsure += net @ found.unsure[part]
            doubt.add(depth, net @ found.common[part])
            first = np.flatnonzero(np.diff(row, prepend=-1))  # parts of one cell follow each other
            shares[:, level[row[first]]] += np.add.reduceat(net * found.mistaken[part], first, axis=1)  # see _way_back
        return np.stack([value, variance + doubt.variance, most, unsure])

    def _inside(self, taken: Floats) -> Floats:
        """What positions inside tiles add to the variance, given the shares float64[q, t]: float64[q]."""
        tiles, doubt = self.tiles, self.found.doubt[self.tiles.region]
        width = np.diff(np.append(tiles.start, len(tiles.cells)))
        several = np.repeat(width, width)
        unsure = tiles.noise + np.repeat(doubt, width) / several**2
        chance = taken * (1.0 - taken) @ tiles.people
        clumps = tiles.spread.clumped * tiles.spread.pairs(tiles.people, unsure) * taken * (1.0 - taken)
        uneven = np.add.reduceat(np.sqrt(clumps), tiles.start, axis=1)
        # Children of a region err against each other, since their sum is known; they are uneven in the same way.
        total, squares = (np.add.reduceat(number, tiles.start, axis=1) for number in (taken, taken**2))
        against = np.maximum(squares - total**2 / width, 0.0) * width / np.maximum(width - 1, 1)
        return np.asarray(chance + (uneven**2).sum(axis=1) + against @ tiles.noise[tiles.start])

    def _parts(self, taken: Floats, parts: Integers) -> Floats:
        people, noise = self.found.people[parts], self.found.noise[parts]
        spread = _spread(self.tree, self.found, self.tree.cells[parts], people)
        return np.asarray(spread.in_places(people, taken, noise).sum(axis=1))


def _tiles(tree: Tree, found: Population) -> _Tiles:
    """Divide regions by the estimates of their last round."""
    hierarchy, asked = tree.partition.task.hierarchy, divided(tree, found)
    last = tree.is_region[asked.cells] & (hierarchy.fanouts(tree.cells[asked.cells]) > 1)
    rows, estimates, noise = asked.cells[last], asked.estimates[last], asked.noise[last]
    # A region without estimates is one tile; the tiles of the others are their children.
    alone = np.setdiff1d(np.flatnonzero(tree.is_region), rows)
    pieces = [_Pieces(alone, tree.cells[alone, None], found.people[alone, None])]
    widths = hierarchy.fanouts(tree.cells[rows])
    for width in np.unique(widths).tolist():
        some, here = rows[widths == width], widths == width
        cells = hierarchy.children(tree.cells[some]).reshape(-1, width)
        areas = hierarchy.areas(cells.ravel()).reshape(-1, width)
        expected = areas / areas.sum(axis=1, keepdims=True)
        given = estimates[here][~np.isnan(estimates[here])].reshape(-1, width)
        spread = found.law.spread(tree.depths[some], found.people[some], width)
        people, errors = spread.divide(found.people[some], given, noise[here], expected)
        pieces.append(_Pieces(some, cells, people, expected, errors))
    return _joined(tree, found, pieces)


def _spread(tree: Tree, found: Population, cells: Cells, people: Floats) -> Spread:
    """How unevenly people lie in cells that have so many, by their depths and as if all had two children."""
    hierarchy = tree.partition.task.hierarchy
    depths, widths, clumped = hierarchy.depth(cells), np.maximum(hierarchy.fanouts(cells), 2), np.zeros(len(cells))
    for width in np.unique(widths).tolist():
        same = widths == width
        clumped[same] = found.law.spread(depths[same], people[same], width).clumped
    return Spread.of(clumped)


class _Pieces(NamedTuple):
    """Tiles of regions that have the same number of them."""

    region: Integers
    cells: Cells
    people: Floats
    portion: Floats | None = None
    noise: Floats | None = None


def _joined(tree: Tree, found: Population, pieces: list[_Pieces]) -> _Tiles:
    width = np.concatenate([np.full(len(piece.region), piece.cells.shape[1]) for piece in pieces])
    portions = [np.ones(piece.cells.shape) if piece.portion is None else piece.portion for piece in pieces]
    noises = [np.zeros(len(piece.region)) if piece.noise is None else piece.noise for piece in pieces]
    cells = np.concatenate([piece.cells.ravel() for piece in pieces])
    people = np.concatenate([piece.people.ravel() for piece in pieces])
    return _Tiles(
        np.cumsum(width) - width,
        np.concatenate([piece.region for piece in pieces]),
        cells,
        np.concatenate([portion.ravel() for portion in portions]),
        people,
        np.repeat(np.concatenate(noises), width),
        _spread(tree, found, cells, people),
    )


@dataclass(frozen=True, eq=False)
class PooledShares:
    """A pooled tree, ready for range counts.

    Attributes
    ----------
    estimates : Estimates
    spread : Spread
        How unevenly people lie inside each final cell.
    """

    estimates: Estimates
    spread: Spread

    @staticmethod
    def of(estimates: Estimates) -> PooledShares:
        """Learn how unevenly people lie from the divisions of the run."""
        return PooledShares(estimates, _beyond_areas(estimates))

    def query(self, asked: Asked) -> Counted:
        """People in boxes float64[q, 2, d] or in polygons."""
        return self._count(_questions(self.estimates.tree.task.hierarchy, asked, len(self.estimates.counts)))

    def regions(self, cells: Cells) -> Counted:
        """People in cells."""
        return self._count(_about_cells(self.estimates.tree.task.hierarchy, cells, len(self.estimates.counts)))

    def _count(self, questions: Iterable[_Question]) -> Counted:
        parts = [self._answer(shares_of) for shares_of in questions]
        sums = np.concatenate([np.empty((4, 0)), *parts], axis=1)
        return Counted.between(sums, float(self.estimates.counts.sum()))

    def _answer(self, shares_of: _Question) -> Floats:
        """What :meth:`Counted.between` takes: float64[4, q]."""
        found = self.estimates
        taken = shares_of(found.tree.cells)
        query, cell = np.nonzero((taken > 0.0) & (taken < 1.0))  # nothing is unsure about cells that are held whole
        spread = self.spread.take(cell)
        cut = spread.in_places(found.counts[cell], taken[query, cell], found.variances[cell])
        inside = np.bincount(query, cut, minlength=len(taken))
        return np.stack([taken @ found.counts, taken @ found.unbiased, inside, found.variance_of(taken)])


def _beyond_areas(estimates: Estimates) -> Spread:
    """How far people may lie from where they are if they lie evenly, in each final cell."""
    tree = estimates.tree
    first, last = tree.task.hierarchy.span(np.concatenate([level.cells for level in tree.levels]))
    begin, end = np.searchsorted(tree.first_codes, first), np.searchsorted(tree.first_codes, last, side="right")
    passed = np.concatenate([[0.0], np.cumsum(estimates.counts)])
    starts = np.cumsum([0, *(len(level.cells) for level in tree.levels)])
    return Spread.of(clumped(estimates, passed[end] - passed[begin], starts))


def _questions(hierarchy: Hierarchy, asked: Asked, cells: int) -> Iterator[_Question]:
    """Some areas at a time: what gives the share of each cell in each of them."""
    for some in _groups(len(asked), cells):
        if isinstance(asked, Polygons):
            yield partial(hierarchy.shares_in, polygons=asked.take(some))
        else:
            yield partial(hierarchy.shares, queries=asked[some])


def _about_cells(hierarchy: Hierarchy, asked: Cells, cells: int) -> Iterator[_Question]:
    for some in _groups(len(asked), cells):
        yield partial(hierarchy.shares_of_cells, regions=asked[some])


def _groups(number: int, cells: int) -> Iterator[Integers]:
    step = max(1, _NUMBERS_AT_ONCE // max(cells, 1))
    for start in range(0, number, step):
        yield np.arange(start, min(start + step, number))
