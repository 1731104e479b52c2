"""Single reports of the rows of a source, with noise that is derived from a key and the row's number.

Nothing is kept per row. A row's path follows from its code and from what was published: where it was moved to is
derived again in every round. So a round is one scan, memory holds one batch, and the transcript is the one that the
same key gives in memory (``simulate(points, task, detail="reports", secrets=RowKey(key, task.id))``), to the root.
To write it, the reports of about a million rows are brought into the order of their pseudonyms at once.

Knows rows, rounds and reports. The rule is the curator's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Integers, Words
from ..hierarchy.base import Cells
from ..protocol.curator import Curator, closing
from ..protocol.mark import Mark
from ..protocol.messages import Message, Query
from ..protocol.partition import Partition
from ..protocol.rule import Ruling
from ..protocol.task import Task
from ..simulation.entropy import Entropy
from ..simulation.population import Asked, RoundCounts
from ..simulation.run import Reports, messages_of
from ..simulation.simulate import play_rounds, warn_if_small
from ..simulation.sorted import add_up, report
from .histogram import Lookup
from .row_key import RowKey
from .run import SourceRun, check_box, lookup_of
from .source import Source

__all__ = ["KeyedPopulation", "KeyedRun", "run_keyed"]


Where = TypeVar("Where", Integers, Cells)
ROWS_AT_ONCE = 1 << 20  # of a round, while its reports are brought into the order of their pseudonyms


class _Trim(NamedTuple):
    """The cells that a round trimmed, ascending, and which of their children were kept: bool[m, fanout]."""

    number: int
    cells: Cells
    kept: Flags


class _Ends(NamedTuple):
    """Rows and the codes they act from in the end."""

    codes: Cells
    acting: Cells
    moves: npt.NDArray[np.int16]

    def of(self, which: Flags | Integers) -> _Ends:
        """Those of some rows."""
        return _Ends(self.codes[which], self.acting[which], self.moves[which])

    @staticmethod
    def nobody() -> _Ends:
        """No rows."""
        none = np.empty(0, dtype=np.uint64)
        return _Ends(none, none, np.empty(0, dtype=np.int16))


class KeyedPopulation:
    """The rows of a source as participants that report one by one.

    Parameters
    ----------
    task : Task
    source : Source
    entropy : Entropy
    """

    def __init__(self, task: Task, source: Source, entropy: Entropy) -> None:
        self.task, self.source, self.entropy = task, source, entropy
        self._trims: list[_Trim] = []
        self._cells: Cells = np.empty(0, dtype=np.uint64)
        self._number = 0

    def tally(self, asked: Asked) -> RoundCounts:
        """Count the answers of a round, with their noise. One scan."""
        self._number, self._cells = asked.number, asked.cells
        size = len(asked.cells)
        responders = np.zeros(size, dtype=np.int64)
        tally = np.zeros((size, 0 if asked.roll_call else self.task.randomizer.fanout), dtype=np.int64)
        for part in self.reports(asked):
            responders += np.bincount(part.rows, minlength=size)
            if not asked.roll_call:
                tally += add_up(self.task, part, asked.cells)
        return RoundCounts(responders, tally)

    def follow(self, ruling: Ruling) -> None:
        """Remember which children were left."""
        if len(ruling.frontier.cells) and ruling.trimmed.any():
            which = ruling.trimmed
            self._trims.append(_Trim(self._number, self._cells[which], ruling.kept[which]))

    def reports(self, asked: Asked) -> Iterator[Reports]:
        """The reports of a round that was asked, batch by batch, in the order of the rows."""
        hierarchy, entropy = self.task.hierarchy, self.entropy
        for who, ends in self._rows(asked.number):
            rows, there = _find(asked.cells, hierarchy.ancestors(ends.acting, asked.number - 1))
            who, rows = who[there], rows[there]

            def words(chosen: Integers, count: int, who: Integers = who, rows: Integers = rows) -> Words:
                return entropy.reports(who[chosen], asked.number, asked.cells[rows[chosen]], count)

            yield report(self.task, asked, who, rows, ends.acting[there], words)

    def answers(self, asked: Asked) -> Iterator[tuple[Integers, Integers, Integers]]:
        """The same as columns: who, the row of the frontier, and what they answered."""
        for part in self.reports(asked):
            yield part.participants, part.rows, part.answers

    def shares(
        self, scan: Callable[[], Iterator[tuple[Integers, Where, Integers]]]
    ) -> Iterator[tuple[Integers, Where, Integers]]:
        """What a scan gives, who first, in shares of ascending pseudonyms that fit into memory: one scan for each."""
        count = min(256, -(-self.source.count() // ROWS_AT_ONCE))
        for share in range(count):
            who, where, what = [], [], []
            for names, places, answers in scan():
                first = np.array([name[0] for name in self.entropy.pseudonyms(names)], dtype=np.int64)
                mine = first * count // 256 == share
                who.append(names[mine])
                where.append(places[mine])
                what.append(answers[mine])
            yield np.concatenate(who), np.concatenate(where), np.concatenate(what)

    def ends(self) -> Iterator[_Ends]:
        """Where the rows end, batch by batch."""
        for _, ends in self._rows(self._number + 1):
            yield ends

    @property
    def left(self) -> Cells:
        """Children that TRIMs left behind: uint64[l], in no order."""
        hierarchy, found = self.task.hierarchy, [np.empty(0, dtype=np.uint64)]
        for trim in self._trims:
            rows, children = np.nonzero(~trim.kept & hierarchy.child_mask(trim.cells))
            found.append(hierarchy.child(trim.cells[rows], children))
        return np.concatenate(found)

    def _rows(self, number: int) -> Iterator[tuple[Integers, _Ends]]:
        """Numbers of the rows and where they act from before this round."""
        hierarchy, first = self.task.hierarchy, 0
        for batch in self.source.batches():
            who = np.arange(first, first + len(batch))
            first += len(batch)
            codes = hierarchy.codes(batch)
            acting, moves = codes.copy(), np.zeros(len(codes), dtype=np.int16)
            for trim in self._trims:
                if trim.number < number:
                    self._move(trim, who, acting, moves)
            yield who, _Ends(codes, acting, moves)

    def _move(self, trim: _Trim, who: Integers, acting: Cells, moves: npt.NDArray[np.int16]) -> None:
        hierarchy, depth = self.task.hierarchy, trim.number - 1
        places, there = _find(trim.cells, hierarchy.ancestors(acting, depth))
        rows = np.flatnonzero(there)
        rows = rows[~trim.kept[places[rows], hierarchy.child_of(acting[rows], depth)]]
        if len(rows):
            cells, kept = trim.cells[places[rows]], trim.kept[places[rows]]
            acting[rows] = hierarchy.spread(cells, kept, self.entropy.moves(who[rows], trim.number, cells))
            moves[rows] += 1


@dataclass(frozen=True, eq=False)
class KeyedRun(SourceRun):
    """A finished run over a source in which every row reported.

    Attributes
    ----------
    population : KeyedPopulation
    """

    population: KeyedPopulation | None = None

    @property
    def events(self) -> Iterator[Message]:
        """The transcript: the task, then per round the query, all reports, and the closing.

        One scan per round and share of the rows: reports stand by their pseudonyms, which are in no order.
        """
        assert self.population is not None
        yield self.task
        for played in self.rounds:
            yield Query(self.task.id, played.number, tuple(played.cells.tolist()))
            asked = Asked(played.number, played.cells, not played.tally.shape[1])
            for share in self.population.shares(partial(self.population.answers, asked)):
                yield from messages_of(self.task, played, Reports(*share), self.population.entropy.pseudonyms)
            yield closing(self.task, played)


def run_keyed(
    source: Source, task: Task, *, key: bytes, progress: Callable[[int, int], None] | None = None
) -> KeyedRun:
    """Play the protocol for the rows of a source, every row with reports of its own.

    Parameters
    ----------
    source : Source
        In the box of the task. It is read once per round.
    task : Task
    key : bytes
        32 bytes, from which all noise is derived. The same key gives the same transcript in every engine.
    progress : callable, optional
        As for :func:`semilocal.engines.run.run_source`.
    """
    check_box(source, task.hierarchy)
    source.check()
    warn_if_small(source.count(), task, stacklevel=2)
    population = KeyedPopulation(task, source, RowKey(key, task.id))
    rounds = play_rounds(Curator(task), population, progress=progress)
    partition = replace(Partition.from_rounds(task, rounds), mark=Mark(seeded=False))
    lookup, crowds = _finish(population, partition.cells)
    if not partition.crowds_are_public:  # who holds the data can count what was left behind
        partition = replace(partition, crowds=crowds)
    return KeyedRun(task, partition, rounds, lookup, source, source.count(), False, population=population)


def _finish(population: KeyedPopulation, cells: Cells) -> tuple[Lookup, Integers]:
    """Which region each code ends in, and how many people each region has."""
    hierarchy = population.task.hierarchy
    first = hierarchy.span(cells)[0]
    crowds = np.zeros(len(cells), dtype=np.int64)
    parts = [_Ends.nobody()]
    for ends in population.ends():
        crowds += np.bincount(np.searchsorted(first, ends.acting, side="right") - 1, minlength=len(cells))
        parts.append(ends.of(ends.moves > 0))
    moved = _Ends(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    moved = moved.of(np.argsort(moved.codes, kind="stable"))  # equal codes stay in the order of the rows
    regions = (np.searchsorted(first, moved.acting, side="right") - 1).astype(np.int32)

    def moved_below(codes: Cells) -> Integers:
        return np.asarray(np.searchsorted(moved.codes, codes))

    lookup = lookup_of(hierarchy, cells, population.left, moved_below, regions, moved.acting, moved.moves)
    return lookup, crowds


def _find(ascending: Cells, cells: Cells) -> tuple[Integers, Flags]:
    """Where each cell is among ascending ones, and whether it is there at all."""
    places = np.minimum(np.searchsorted(ascending, cells), len(ascending) - 1)
    return places, np.asarray(ascending[places] == cells)
