"""A population in memory, sorted once, whose participants can report one by one and drop out.

Knows positions, single reports and where their noise comes from. Verdicts come from the curator, as they do for real
devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Integers, Words, sort_with_order
from ..hierarchy.base import ROOT, Cells
from ..hierarchy.ranks import SortedCodes
from ..protocol.rule import randomizers
from ..protocol.task import Task
from .entropy import Entropy
from .population import Asked, Leaves, NamedPopulation, RoundCounts, concatenate_ranges
from .run import LOST, Reports

__all__ = ["Detail", "SortedPopulation", "add_up", "report"]

Detail = Literal["tallies", "reports"]


class SortedPopulation(NamedPopulation):
    """A whole population in memory, as codes that are sorted once.

    Parameters
    ----------
    task : Task
    points : array_like, shape (n, d)
        One position per participant, inside the task's box.
    rng : numpy.random.Generator, optional
        Needed for everything but reports from secrets without dropout.
    detail : {"tallies", "reports"}
        Draw the sum of a cell at once, or one report per participant.
    dropout : float
        Chance, per participant and round, of being lost for good.
    entropy : Entropy, optional
        Reports and moves are derived from it.
    """

    def __init__(
        self, task: Task, points: npt.ArrayLike, *, rng: np.random.Generator | None = None,
        detail: Detail = "tallies", dropout: float = 0.0, entropy: Entropy | None = None,
    ) -> None:  # fmt: skip
        first, last = task.hierarchy.span([ROOT])
        self.codes, self.participants = sort_with_order(task.hierarchy.codes(points), int(first[0]), int(last[0]))
        super().__init__(task, SortedCodes(self.codes), rng=rng)
        self._detail, self._dropout, self._entropy = detail, dropout, entropy
        self._present: Flags | None = np.ones(len(self), dtype=bool) if dropout else None

    # -- counting ------------------------------------------------------------------------------------------

    def tally(self, asked: Asked) -> RoundCounts:
        """Count the answers of a round, with their noise."""
        if self._dropout:
            self._drop_out()
        if self._detail == "tallies":
            return super().tally(asked)
        counts = self._ask(asked)
        reports = self._collect(asked)
        if asked.roll_call:
            return RoundCounts(counts.sum(axis=1), np.empty((len(counts), 0), dtype=np.int64), reports)
        return RoundCounts(counts.sum(axis=1), add_up(self.task, reports, asked.cells), reports)

    def _in_bounds(self) -> Integers:
        if self._present is None:
            return super()._in_bounds()
        return np.diff(np.concatenate([[0], np.cumsum(self._present)])[self._bounds], axis=1)

    def _collect(self, asked: Asked) -> Reports:
        """One report per participant of the frontier."""
        ranks, rows = self._in_ranges(self._start, self._stop, np.arange(len(self._start)))
        who = self._people(np.concatenate([ranks, self._aside.who]))
        rows = np.concatenate([rows, self._aside.rows])
        codes = np.concatenate([self.codes[ranks], self._aside.codes])

        def words(there: Integers, count: int) -> Words:
            if self._entropy is None:
                assert self._rng is not None
                return self._rng.integers(0, 2**64, size=(len(there), count), dtype=np.uint64)
            return self._entropy.reports(who[there], asked.number, asked.cells[rows[there]], count)

        return report(self.task, asked, who, rows, codes, words)

    def _people(self, ranks: Integers) -> Integers:
        """The participants that have these ranks: int64[m]."""
        return self.participants[ranks].astype(np.int64)

    def _in_ranges(self, start: Integers, stop: Integers, rows: Integers) -> tuple[Integers, Integers]:
        """Ranks of everybody present in the ranges, and the row that each range belongs to."""
        ranks, repeated = super()._in_ranges(start, stop, rows)
        if self._present is None:
            return ranks, repeated
        return ranks[self._present[ranks]], repeated[self._present[ranks]]

    def _drop_out(self) -> None:
        assert self._present is not None
        assert self._rng is not None
        ranks = concatenate_ranges(self._start, self._stop)
        self._present[ranks[self._rng.random(len(ranks)) < self._dropout]] = False
        stays = self._rng.random(len(self._aside.who)) >= self._dropout
        self._settle(~stays, np.zeros(np.count_nonzero(~stays), dtype=np.uint64))

    def _move_words(self, who: Integers, cells: Cells) -> Words:
        if self._entropy is None:
            return super()._move_words(who, cells)
        return self._entropy.moves(self._people(who), self._asked.number, cells)

    # -- the end -------------------------------------------------------------------------------------------

    def regions(self, cells: Cells) -> npt.NDArray[np.int32]:
        """Index of each participant's region among the given cells, in the order of the curve: int32[n]."""
        first = self.task.hierarchy.span(cells)[0]
        leaves = Leaves(*(np.concatenate(columns) for columns in zip(*self._leaves, strict=True)))
        place = np.searchsorted(first, self.task.hierarchy.span(leaves.cells)[0])
        order = np.argsort(place)
        order = order[leaves.stop[order] > leaves.start[order]]
        edges = np.stack([leaves.start[order], leaves.stop[order]], axis=1).ravel()
        lengths = np.diff(edges, prepend=0, append=len(self))
        labels = np.full(len(lengths), LOST, dtype=np.int32)
        labels[1::2] = place[order]
        by_rank = np.repeat(labels, lengths)
        if self._present is not None:
            by_rank[~self._present] = LOST
        out = np.empty(len(self), dtype=np.int32)
        out[self.participants] = by_rank
        who, _, ends = self.settled
        lost = ends == 0
        out[self._people(who[lost])] = LOST
        out[self._people(who[~lost])] = np.searchsorted(first, self.task.hierarchy.span(ends[~lost])[0])
        return out


def report(
    task: Task, asked: Asked, who: Integers, rows: Integers, codes: Cells, words: Callable[[Integers, int], Words]
) -> Reports:
    """What participants send in a round.

    Parameters
    ----------
    who : int64[n]
    rows : int64[n]
        The row of the frontier that each of them is in.
    codes : uint64[n]
        That they act from.
    words : callable
        ``words(there, count)``: ``count`` words of entropy for those in these places, uint64[len(there), count].
    """
    if asked.roll_call:
        return Reports(who, rows, np.empty((len(who), 0), dtype=np.int64))
    children = task.hierarchy.child_of(codes, asked.number - 1)
    wide = (task.randomizer.fanout,) if task.randomizer.words > 1 else ()
    answers = np.zeros((len(who), *wide), dtype=np.int64)
    for members, randomizer in randomizers(task, asked.cells):
        places = np.arange(len(who)) if isinstance(members, slice) else np.flatnonzero(np.isin(rows, members))
        drawn = randomizer.answers(children[places], words(places, randomizer.words))
        if wide:
            answers[places, : randomizer.fanout] = drawn.reshape(len(drawn), randomizer.fanout)
        else:
            answers[places] = drawn
    return Reports(who, rows, answers)


def add_up(task: Task, reports: Reports, cells: Cells) -> Integers:
    """The sums of reports for each cell of the frontier: int64[m, fanout]."""
    tally = np.zeros((len(cells), task.randomizer.fanout), dtype=np.int64)
    for members, randomizer in randomizers(task, cells):
        columns = slice(randomizer.fanout)
        chosen = np.isin(reports.rows, np.arange(len(cells))[members])
        answers = reports.answers[chosen] if reports.answers.ndim == 1 else reports.answers[chosen, columns]
        tally[members, columns] = randomizer.tally(answers, reports.rows[chosen], len(cells))[members]
    return tally
