"""Populations: who answers the rounds of a simulation, counted without knowing the rule.

A round is asked with :class:`Asked`, counted with ``tally``, and followed with ``follow`` once it is decided. People in
memory (:mod:`.coded`, :mod:`.sorted`), a histogram of a database or devices in a loop are all populations; the loop
(:func:`semilocal.simulation.simulate.play_rounds`) does not know which.

Knows positions and counts. Verdicts come from the curator, as they do for real devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Integers, Words, over_columns
from ..hierarchy.base import ROOT, Cells
from ..hierarchy.ranks import Ranks
from ..protocol.rule import Ruling, randomizers
from ..protocol.task import Task
from .run import Moved, Reports

__all__ = [
    "Answering", "Asked", "Leaves", "NamedPopulation", "Population", "RankedPopulation", "RoundCounts", "Settled",
    "concatenate_ranges",
]  # fmt: skip


class Asked(NamedTuple):
    """The question of a round."""

    number: int  # from 1
    cells: Cells  # ascending, all of depth number - 1
    roll_call: bool  # only presence is asked for


class RoundCounts(NamedTuple):
    """What came back: int64[m], int64[m, fanout] (int64[m, 0] in a roll call), and single reports if there are any."""

    responders: Integers
    tally: Integers
    reports: Reports | None = None


class Answering(Protocol):
    """Participants that answer rounds: one ``tally`` and one ``follow`` per round, in turn."""

    def tally(self, asked: Asked) -> RoundCounts:
        """Count the answers of a round, with their noise."""

    def follow(self, ruling: Ruling) -> None:
        """Go on in the kept children, and move those who are in a child that is not kept."""


class Population(Answering, Protocol):
    """Participants that answer rounds and can say afterwards where each of them ended."""

    def regions(self, cells: Cells) -> npt.NDArray[np.int32]:
        """Index of each participant's region among the given cells, in the order of the curve: int32[n].

        -1 for participants that were lost.
        """

    @property
    def moves(self) -> npt.NDArray[np.int16]:
        """How often each participant was moved: int16[n]."""

    @property
    def moved(self) -> Moved:
        """Where moved participants that have a region act from."""


class RankedPopulation:
    """People who are known by their ranks in the order of codes: sums are drawn, nobody reports alone.

    A cell of the frontier is a range of ranks, and a round is a search for the children's boundaries plus one draw per
    cell. Participants that a TRIM moves are kept aside with their new codes, which are uniform over the part that is
    kept, so that at every later division they are divided by the children's shares of it. Nothing is sorted again.

    The order of random draws depends on counts alone. So a histogram and sorted codes give the same bytes.

    Parameters
    ----------
    task : Task
    ranks : Ranks
    rng : numpy.random.Generator, optional
    """

    def __init__(self, task: Task, ranks: Ranks, *, rng: np.random.Generator | None = None) -> None:
        self.task, self.ranks, self._rng = task, ranks, rng
        self._asked = Asked(0, np.array([ROOT], dtype=np.uint64), False)
        # The range of each cell of the frontier, and the boundaries of its children.
        self._start, self._stop = np.zeros(1, dtype=np.int64), np.full(1, len(ranks), dtype=np.int64)
        self._bounds = np.stack([self._start, self._stop], axis=1)
        self._aside = _Aside.nobody()
        self._leaves: list[Leaves] = []
        self._settled: list[Settled] = []
        self._left: list[Cells] = []
        self._moved_now: list[Integers] = []  # ranks of those who are moved, round by round

    def __len__(self) -> int:
        return len(self.ranks)

    # -- counting ------------------------------------------------------------------------------------------

    def tally(self, asked: Asked) -> RoundCounts:
        """Count the answers of a round, with their noise."""
        counts = self._ask(asked)
        if asked.roll_call:
            return RoundCounts(counts.sum(axis=1), np.empty((len(counts), 0), dtype=np.int64))
        assert self._rng is not None
        tally = np.zeros_like(counts)
        for rows, randomizer in randomizers(self.task, asked.cells):
            columns = slice(randomizer.fanout)
            tally[rows, columns] = randomizer.draw_tally(counts[rows, columns], self._rng)
        return RoundCounts(over_columns(np.add, counts), tally)

    def _ask(self, asked: Asked) -> Integers:
        """True number of participants in each child: int64[m, fanout]; in a roll call int64[m, 1] of the cells."""
        self._asked = asked
        if asked.roll_call:
            self._bounds = np.stack([self._start, self._stop], axis=1)
            return self._count(np.zeros(len(self._aside.rows), dtype=np.int64))
        self._bounds = self._child_bounds(asked.cells)
        return self._count(self._aside_children())

    def _child_bounds(self, cells: Cells) -> Integers:
        """Ranks where each child begins, and where the cell ends: int64[m, fanout + 1]."""
        hierarchy = self.task.hierarchy
        bounds = np.repeat(self._stop[:, None], hierarchy.fanout + 1, axis=1)
        bounds[:, 0] = self._start
        self.ranks.open(cells)
        later = hierarchy.child_mask(cells)
        later[:, 0] = False  # a cell begins where its first child does
        rows, numbers = np.nonzero(later)
        bounds[:, :-1][later] = self.ranks.below(hierarchy.span(hierarchy.child(cells[rows], numbers))[0])
        # A trimmed path leaves gaps: its range may begin after, or end before, a child's own codes.
        np.clip(bounds, self._start[:, None], self._stop[:, None], out=bounds)
        return bounds

    def _count(self, aside_children: Integers) -> Integers:
        """True number of participants in each child: int64[m, fanout], or int64[m, 1] of a whole cell."""
        counts = self._in_bounds()
        if len(aside_children):
            places = self._aside.rows * counts.shape[1] + aside_children
            counts = counts + np.bincount(places, minlength=counts.size).reshape(counts.shape)
        return counts

    def _in_bounds(self) -> Integers:
        """Those who were never moved, between each two boundaries."""
        return np.diff(self._bounds, axis=1)

    def _aside_children(self) -> Integers:
        return self.task.hierarchy.child_of(self._aside.codes, self._asked.number - 1)

    def _in_ranges(self, start: Integers, stop: Integers, rows: Integers) -> tuple[Integers, Integers]:
        """Ranks of everybody in the ranges, and the row that each range belongs to."""
        return concatenate_ranges(start, stop), np.repeat(rows, stop - start)

    # -- going on ------------------------------------------------------------------------------------------

    def follow(self, ruling: Ruling) -> None:
        """Go on in the kept children, and move those who are in a child that is not kept."""
        self._end(ruling)
        if not len(ruling.frontier.cells):
            return
        if ruling.trimmed.any():
            self._move(ruling)
        next_row = np.cumsum(ruling.kept.ravel()).reshape(ruling.kept.shape) - 1
        aside = self._aside
        self._aside = _Aside(aside.who, aside.codes, next_row[aside.rows, self._aside_children()])
        self._start, self._stop = self._bounds[:, :-1][ruling.kept], self._bounds[:, 1:][ruling.kept]

    def _end(self, ruling: Ruling) -> None:
        """Note the regions where paths end, and settle the moved participants in them."""
        cells, rows = ruling.ended
        if self.task.rule == "each" and not self._asked.roll_call:
            numbers = self.task.hierarchy.number(cells) if len(cells) else rows
            self._leaves.append(Leaves(cells, self._bounds[rows, numbers], self._bounds[rows, numbers + 1]))
            return  # nobody is ever moved
        self._leaves.append(Leaves(cells, self._start[rows], self._stop[rows]))
        ends = np.zeros(len(self._start), dtype=np.uint64)
        ends[rows] = cells
        own_ends = ends[self._aside.rows]
        self._settle(own_ends != 0, own_ends[own_ends != 0])

    def _settle(self, done: Flags, cells: Cells) -> None:
        aside = self._aside
        self._settled.append(Settled(aside.who[done], aside.codes[done], cells))
        self._aside = _Aside(aside.who[~done], aside.codes[~done], aside.rows[~done])

    def _move(self, ruling: Ruling) -> None:
        """Move everybody out of children that are not kept, in cells that go on."""
        left = ~ruling.kept & self.task.hierarchy.child_mask(self._asked.cells) & ruling.trimmed[:, None]
        rows, children = np.nonzero(left)
        self._left.append(self.task.hierarchy.child(self._asked.cells[rows], children))
        aside = self._aside
        away = left[aside.rows, self._aside_children()]
        ranks, rows = self._in_ranges(self._bounds[rows, children], self._bounds[rows, children + 1], rows)
        who = np.concatenate([aside.who[away], ranks])
        rows = np.concatenate([aside.rows[away], rows])
        self._moved_now.append(who)
        cells = self._asked.cells[rows]
        codes = self.task.hierarchy.spread(cells, ruling.kept[rows], self._move_words(who, cells))
        self._aside = _Aside(
            np.concatenate([aside.who[~away], who]),
            np.concatenate([aside.codes[~away], codes]),
            np.concatenate([aside.rows[~away], rows]),
        )

    def _move_words(self, who: Integers, cells: Cells) -> Words:
        assert self._rng is not None
        return self._rng.integers(0, 2**64, size=len(who), dtype=np.uint64)

    # -- the end -------------------------------------------------------------------------------------------

    @property
    def left(self) -> Cells:
        """Children that TRIMs left behind: a participant with a code in one was moved. uint64[l], in no order."""
        return np.concatenate([np.empty(0, dtype=np.uint64), *self._left])

    @property
    def settled(self) -> Settled:
        """Moved participants whose path has ended, in no order."""
        return Settled(*(np.concatenate(columns) for columns in zip(Settled.nobody(), *self._settled, strict=True)))

    def count_moves(self, who: Integers) -> npt.NDArray[np.int16]:
        """How often each of these ranks (ascending) was moved: int16[len(who)]."""
        out = np.zeros(len(who), dtype=np.int16)
        for ranks in self._moved_now:
            out[np.searchsorted(who, ranks)] += 1
        return out


class NamedPopulation(RankedPopulation):
    """People who are known by their ranks, and participants who have them."""

    def _people(self, ranks: Integers) -> Integers:
        """The participants that have these ranks: int64[m]."""
        raise NotImplementedError

    @property
    def moves(self) -> npt.NDArray[np.int16]:
        """How often each participant was moved: int16[n]."""
        out = np.zeros(len(self), dtype=np.int16)
        for ranks in self._moved_now:
            out[self._people(ranks)] += 1
        return out

    @property
    def moved(self) -> Moved:
        """Where moved participants that have a region act from."""
        who, codes, ends = self.settled
        return Moved(self._people(who[ends != 0]), codes[ends != 0])


class Leaves(NamedTuple):
    """Regions as they are found, with the ranges of those who were never moved."""

    cells: Cells
    start: Integers
    stop: Integers


class Settled(NamedTuple):
    """Moved participants whose path has ended: their ranks, their codes, and the cells they ended in; 0 if lost."""

    who: Integers
    codes: Cells
    cells: Cells

    @staticmethod
    def nobody() -> Settled:
        return Settled(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint64))


@dataclass(frozen=True, eq=False)
class _Aside:
    """Participants that were moved: their ranks, their new codes, and the rows of the frontier they are in."""

    who: Integers
    codes: Cells
    rows: Integers

    @staticmethod
    def nobody() -> _Aside:
        return _Aside(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))


def concatenate_ranges(start: Integers, stop: Integers) -> Integers:
    """start[0] … stop[0] - 1, start[1] … stop[1] - 1, and so on."""
    lengths = stop - start
    offsets = np.cumsum(lengths) - lengths
    return np.repeat(start - offsets, lengths) + np.arange(int(lengths.sum()))
