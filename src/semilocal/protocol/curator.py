"""The server's machine: opens rounds, checks reports, closes rounds, for the whole campaign. Sans-IO, no randomness.

    state         call                  next state
    partitioning  query(), check()      partitioning
    partitioning  close(…), step(…)     partitioning with the kept children; if none is left, releasing, or finished if
                                        the plan asks for no values
    releasing     query(), check()      releasing
    releasing     close(…)              releasing with the plan's next release that asks; finished after the last one
    finished      query() is None       finished

The state is a fold over the closings: ``Curator.replay`` gives back the same curator. A verdict depends on nothing but
(responders, tally), so that the sums may come from anywhere, a database or secure aggregation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Integers, as_integers
from ..errors import DeviceViolation, InvalidInput
from ..hierarchy.base import Cells
from ..randomizer.base import Randomizer
from ..randomizer.widths import with_fanout
from .messages import (
    MAX_RESPONDERS,
    MAX_SUM,
    AnyClosed,
    AnyQuery,
    AnyReport,
    Closed,
    Message,
    Query,
    ValueClosed,
    ValueQuery,
    ValueReport,
)
from .plan import Plan, Release
from .rule import Frontier, PlayedRound, Ruling, decide, first_frontier, possible, roll_call
from .tally import RoundTally
from .task import Task

__all__ = ["Curator", "Regions", "closing", "count_reports", "padded"]


class Regions(NamedTuple):
    """Where paths ended, ascending by cell.

    Attributes
    ----------
    cells : uint64[r]
    rounds : int64[r]
        The round in which the participants of the region last reported for the partition.
    last : uint64[r]
        The cell they reported for: the region, or with rule "each" its parent.
    crowds : int64[r]
        How many did. With rule "each" nobody answers for a region that was left behind: those of its parent.
    """

    cells: Cells
    rounds: Integers
    last: Cells
    crowds: Integers


class Curator:
    """The server of one campaign.

    Parameters
    ----------
    task : Task
    plan : Plan, optional
        The releases that follow the partition; none if left out.

    Attributes
    ----------
    frontier : Frontier
        The cells of the open round; none after the partition.
    rounds : list of Played
        The rounds of the partition that are closed.
    values : int
        How many rounds of values are closed.
    """

    def __init__(self, task: Task, plan: Plan | None = None) -> None:
        self.task = task
        self.plan = Plan(task.id) if plan is None else plan
        self.plan.check(task)
        self.frontier: Frontier = first_frontier()
        self.rounds: list[PlayedRound] = []
        self.values = 0
        self._paths: dict[int, tuple[int, int]] | None = None

    # -- where it stands -----------------------------------------------------------------------------------------

    @property
    def round(self) -> int:
        """The open round, counted from 1; when finished, the one that would come next."""
        return 1 + len(self.rounds) + self.values

    @property
    def partitioned(self) -> bool:
        """Whether every path has ended."""
        return not len(self.frontier.cells)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to ask."""
        return self.partitioned and self.values >= len(self.plan.asked)

    @property
    def roll_call(self) -> bool:
        """Whether the open round asks for presence only."""
        return not self.partitioned and self.round > self.task.max_rounds

    @property
    def release(self) -> Release | None:
        """The release that the open round asks for; None in the partition and at the end."""
        return None if not self.partitioned or self.finished else self.plan.releases[self.plan.asked[self.values]]

    @property
    def expected(self) -> int | None:
        """How many can answer the open round; None in round 1, where only enrolment tells.

        With rule "each" it is not public who was left behind: then everybody of round 1 counts for values.
        """
        if not self.rounds:
            return None
        if not self.partitioned:
            last = self.rounds[-1]
            return int(last.responders[last.kept.any(axis=1)].sum())
        return int((self.regions.crowds if self.task.tells_crowds else self.rounds[0].responders).sum())

    @cached_property
    def regions(self) -> Regions:
        """Every region, when the partition is done.

        Raises
        ------
        InvalidInput
            Before that.
        """
        if not self.partitioned:
            raise InvalidInput(f"{len(self.frontier.cells)} cells are still open: the partition is not finished")
        ended = [
            (played.ruling.ended.cells, np.full(len(rows), played.number), played.cells[rows], played.responders[rows])
            for played in self.rounds
            for rows in [played.ruling.ended.rows]
        ]
        cells, rounds, last, crowds = (np.concatenate(column) for column in zip(*ended, strict=True))
        order = np.argsort(cells)
        return Regions(cells[order], rounds[order], last[order], crowds[order])

    # -- the open round --------------------------------------------------------------------------------------------

    def query(self) -> AnyQuery | None:
        """The open round's query; None when finished."""
        if self.finished:
            return None
        if self.partitioned:
            return ValueQuery(self.task.id, self.round, self.plan.digest, self.plan.asked[self.values])
        return Query(self.task.id, self.round, tuple(self.frontier.cells.tolist()))

    def tally(self) -> RoundTally:
        """An empty tally of the open round, to be filled and given to :meth:`close`."""
        release = self.release
        if release is not None:
            return RoundTally(self.regions.cells, release.mechanism)
        widths = None if self.task.hierarchy.has_one_fanout else self.widths
        return RoundTally(self.frontier.cells, None if self.roll_call else self.task.randomizer, widths=widths)

    @property
    def widths(self) -> Integers:
        """How many children the cells of the open round have: int64[m]."""
        return self.task.hierarchy.fanouts(self.frontier.cells)

    def check(self, report: AnyReport) -> tuple[int, int]:
        """Refuse a report that does not belong to the open round.

        Returns
        -------
        round, cell : int
            Which report the same pseudonym must have sent last in the partition; (0, 0) in round 1.

        Raises
        ------
        DeviceViolation
            Tokens "other-task", "other-round", "wrong-kind", "unknown-cell", "bad-answer".
        """
        if report.task != self.task.id:
            raise DeviceViolation("other-task", "the report belongs to another task")
        if self.finished or report.round != self.round:
            now = "the task is finished" if self.finished else f"the open round is {self.round}"
            raise DeviceViolation("other-round", f"the report is for round {report.round}; {now}")
        if isinstance(report, ValueReport) != self.partitioned:
            kind = "a ValueReport" if self.partitioned else "a Report"
            raise DeviceViolation("wrong-kind", f"round {self.round} takes {kind}")
        before = self.paths.get(report.cell)
        if before is None:
            raise DeviceViolation("unknown-cell", f"cell {report.cell} is not asked about in round {self.round}")
        self._check_answer(report.answer, report.cell)
        return before

    def _check_answer(self, answer: int | tuple[int, ...] | None, cell: int) -> None:
        release = self.release
        if release is not None:
            assert release.mechanism is not None
            outputs = release.mechanism.alphabet
            if answer not in outputs:
                raise DeviceViolation("bad-answer", f"an answer is an integer of {outputs}; got {answer}")
            return
        if (answer is None) != self.roll_call:
            wanted = "no answer" if self.roll_call else "an answer"
            raise DeviceViolation("bad-answer", f"round {self.round} takes {wanted}")
        if answer is not None:
            try:
                self._randomizer(cell).check_answer(answer)
            except InvalidInput as error:
                raise DeviceViolation("bad-answer", str(error)) from None

    def _randomizer(self, cell: int) -> Randomizer:
        task = self.task
        if task.hierarchy.has_one_fanout:
            return task.randomizer
        return with_fanout(task.randomizer, int(task.hierarchy.fanouts(np.array([cell], dtype=np.uint64))[0]))

    @property
    def paths(self) -> dict[int, tuple[int, int]]:
        """For every cell of the open round, the round and the cell of the report that comes before; (0, 0) in round 1.

        Worked out once per round; look at it beforehand where the first report must not wait.
        """
        if self._paths is None:
            self._paths = self._find_paths()
        return self._paths

    def _find_paths(self) -> dict[int, tuple[int, int]]:
        if self.partitioned:
            regions = self.regions
            pairs = zip(regions.rounds.tolist(), regions.last.tolist(), strict=True)
            return dict(zip(regions.cells.tolist(), pairs, strict=True))
        cells, before = self.frontier.cells, self.round - 1
        if not before:
            return dict.fromkeys(cells.tolist(), (0, 0))
        parents = self.task.hierarchy.parent(cells)
        return {cell: (before, parent) for cell, parent in zip(cells.tolist(), parents.tolist(), strict=True)}

    # -- closing ---------------------------------------------------------------------------------------------------

    def step(self, responders: npt.ArrayLike, tally: npt.ArrayLike) -> Ruling:
        """Close the open round of the partition and open the next one; no messages are made.

        Parameters
        ----------
        responders : int[m]
            Reports per cell of ``frontier``.
        tally : int[m, fanout]
            Their sums; int[m, 0] in a roll call.
        """
        played = self.judge(responders, tally)
        self.take(played)
        return played.ruling

    def close(self, responders: npt.ArrayLike, tally: npt.ArrayLike) -> AnyClosed:
        """Close the open round and open the next one; returns what is published.

        Parameters
        ----------
        responders, tally
            As ``RoundTally.close`` gives them.
        """
        if self.finished:
            raise InvalidInput("the task is finished; there is no round to close")
        if self.partitioned:
            counted = self._count(responders, tally)
            self.values += 1
            return counted
        played = self.judge(responders, tally)
        self.take(played)
        return closing(self.task, played)

    def follow(self, closed: AnyClosed) -> None:
        """Go on with a closing that was published.

        Raises
        ------
        InvalidInput
            If it does not close the open round, or does not follow from its own sums. Nothing changes then.
        """
        if self.finished:
            raise InvalidInput("the task is finished; there is no round to close")
        if closed.task != self.task.id or closed.round != self.round:
            raise InvalidInput(f"a closing of round {closed.round} does not belong to this task's round {self.round}")
        if isinstance(closed, ValueClosed) != self.partitioned:
            wanted = "values" if self.partitioned else "the partition"
            raise InvalidInput(f"round {self.round} is one of {wanted}; got a closing of the other kind")
        if isinstance(closed, ValueClosed):
            if self._count(*self._lines(closed)) != closed:
                raise InvalidInput(f"the closing of round {closed.round} does not follow from the partition and plan")
            self.values += 1
            return
        played = self.judge(closed.responders, padded(self.task, closed))
        if closing(self.task, played) != closed:
            raise InvalidInput(f"the closing of round {closed.round} does not follow from its tally")
        self.take(played)

    @classmethod
    def replay(cls, task: Task, events: Iterable[Message], plan: Plan | None = None) -> Curator:
        """The curator after the given events; closings that do not follow are refused."""
        curator = cls(task, plan)
        for event in events:
            if isinstance(event, Closed | ValueClosed):
                curator.follow(event)
        return curator

    def fork(self) -> Curator:
        """Another curator in the same state, that goes on by itself."""
        other = copy(self)
        other.rounds = list(self.rounds)
        return other

    def judge(self, responders: npt.ArrayLike, tally: npt.ArrayLike) -> PlayedRound:
        """What closes the open round of the partition; nothing changes yet. Parameters are those of :meth:`step`."""
        if self.partitioned:
            raise InvalidInput("the partition is finished; there is no round of it to close")
        count = len(self.frontier.cells)
        width = 0 if self.roll_call else self.task.randomizer.fanout
        size = as_integers(responders, "responders", (count,), limit=MAX_RESPONDERS + 1)
        sums = as_integers(tally, "tally", (count, width), limit=MAX_SUM)
        if np.any(size < 0) or (width and not possible(self.task, self.frontier.cells, size, sums)):
            raise InvalidInput("no set of reports has these responders and this tally")
        ruling = decide(self.task, self.frontier, size, sums) if width else roll_call(self.task, self.frontier)
        return PlayedRound(self.round, self.frontier, size, sums, ruling)

    def take(self, played: PlayedRound) -> None:
        """Go on after a round of the partition that was judged."""
        self.rounds.append(played)
        self.frontier = played.ruling.frontier
        self._paths = None

    def _count(self, responders: npt.ArrayLike, tally: npt.ArrayLike) -> ValueClosed:
        """The closing of a round of values, from one line (row of the region, output, count) per output reported."""
        release, cells = self.release, self.regions.cells
        assert release is not None
        assert release.mechanism is not None
        size = as_integers(responders, "responders", (len(cells),), limit=MAX_RESPONDERS + 1)
        lines = as_integers(tally, "tally", (*np.shape(tally)[:1], 3), limit=MAX_SUM)
        rows, outputs, counts = lines.T
        alphabet = release.mechanism.alphabet
        if np.any(rows < 0) or np.any(rows >= len(cells)) or np.any(counts < 1):
            raise InvalidInput("a line of a tally names the row of a region, an output, and how often it came")
        if np.any(outputs < alphabet.start) or np.any(outputs >= alphabet.stop):
            raise InvalidInput(f"outputs must be integers of {alphabet}")
        if not np.array_equal(np.bincount(rows, counts, minlength=len(cells)), size):
            raise InvalidInput("no set of reports has these responders and this tally")
        order = rows * len(alphabet) + (outputs - alphabet.start)
        if np.any(np.diff(order) < 1):
            raise InvalidInput("a tally of values has one line per region and output, ascending")
        groups = [(row, tuple(group)) for row, group in groupby(lines.tolist(), key=lambda line: int(line[0]))]
        return ValueClosed(
            self.task.id, self.round, self.plan.digest, self.plan.asked[self.values],
            tuple(int(cells[row]) for row, _ in groups),
            tuple(tuple((output, count) for _, output, count in group) for _, group in groups),
        )  # fmt: skip

    def _lines(self, closed: ValueClosed) -> tuple[Integers, Integers]:
        """A published closing of values as :meth:`_count` takes it."""
        rows = RoundTally(self.regions.cells, None).rows(np.array(closed.cells, dtype=np.uint64))
        if np.any(rows < 0):
            raise InvalidInput(f"the closing of round {closed.round} names a cell that is not a region")
        size = np.zeros(len(self.regions.cells), dtype=np.int64)
        size[rows] = closed.responders
        lines = [
            (row, output, count)
            for row, counts in zip(rows.tolist(), closed.counts, strict=True)
            for output, count in counts
        ]
        return size, np.array(lines, dtype=np.int64).reshape(len(lines), 3)


def closing(task: Task, played: PlayedRound) -> Closed:
    """The message that publishes a round of the partition: as many sums per cell as it has children."""
    widths = task.hierarchy.fanouts(played.cells).tolist()
    return Closed(
        task.id, played.number, tuple(played.cells.tolist()), tuple(played.responders.tolist()),
        tuple(tuple(row[:width]) for row, width in zip(played.tally.tolist(), widths, strict=True)),
        tuple(tuple(np.flatnonzero(row).tolist()) for row in played.kept),
    )  # fmt: skip


def padded(task: Task, closed: Closed) -> Integers:
    """The sums in a closing with one column per child of the widest cell: int64[m, fanout], int64[m, 0] (roll call).

    Raises
    ------
    InvalidInput
        If a cell has another number of sums than children, or is not a cell.
    """
    asks = closed.round <= task.max_rounds
    widths = task.hierarchy.fanouts(np.array(closed.cells, dtype=np.uint64)) if asks else [0] * len(closed.cells)
    out = np.zeros((len(closed.cells), task.hierarchy.fanout if asks else 0), dtype=np.int64)
    for row, (sums, width) in enumerate(zip(closed.tally, widths, strict=True)):
        if len(sums) != width:
            raise InvalidInput(f"cell {closed.cells[row]} has {width} children; its tally has {len(sums)} numbers")
        out[row, :width] = sums
    return out


def count_reports(curator: Curator, reports: Sequence[AnyReport]) -> tuple[Integers, Integers]:
    """Responders and tally of the open round, as ``Curator.close`` takes them.

    Raises
    ------
    DeviceViolation
        If a pseudonym reports twice, or a report does not belong to the round.
    """
    names = [report.pseudonym for report in reports]
    if len(set(names)) != len(names):
        raise DeviceViolation("reported-twice", "a pseudonym has more than one report in this round")
    tally = curator.tally()
    tally.add_reports(reports)
    return tally.close()
