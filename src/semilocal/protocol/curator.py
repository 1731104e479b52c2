"""The server's machine: opens rounds, checks reports, closes rounds. Sans-IO and without randomness.

    state        call                 next state
    collecting   query(), check()     collecting
    collecting   close(…)             collecting with the kept children, or finished if none is left
    finished     query() is None      finished

The state is a fold over the closings: ``Curator.replay`` gives back the same curator. A verdict depends on nothing but
(responders, tally), so that the sums may come from anywhere, a database or secure aggregation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ..arrays import Integers, as_integers
from ..errors import DeviceViolation, InvalidInput
from .messages import MAX_RESPONDERS, MAX_SUM, Closed, Message, Query, Report
from .rule import Frontier, Played, Ruling, decide, first_frontier, possible, roll_call
from .task import Task

__all__ = ["Curator", "closing", "count_reports"]


class Curator:
    """The server of one task.

    Parameters
    ----------
    task : Task
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.round = 1
        self.frontier: Frontier = first_frontier()

    @property
    def finished(self) -> bool:
        """Whether no cell is left to ask about."""
        return not len(self.frontier.cells)

    @property
    def roll_call(self) -> bool:
        """Whether the open round asks for presence only."""
        return self.round > self.task.max_rounds

    def query(self) -> Query | None:
        """The open round's query; None when finished."""
        return None if self.finished else Query(self.task.id, self.round, tuple(self.frontier.cells.tolist()))

    def check(self, report: Report) -> None:
        """Refuse a report that does not belong to the open round.

        Raises
        ------
        DeviceViolation
        """
        if report.task != self.task.id:
            raise DeviceViolation("other-task", "the report belongs to another task")
        if self.finished or report.round != self.round:
            now = "the task is finished" if self.finished else f"the open round is {self.round}"
            raise DeviceViolation("other-round", f"the report is for round {report.round}; {now}")
        cells = self.frontier.cells
        place = int(np.searchsorted(cells, np.uint64(report.cell)))
        if place == len(cells) or int(cells[place]) != report.cell:
            raise DeviceViolation("unknown-cell", f"cell {report.cell} is not asked about in round {self.round}")
        if (report.answer is None) != self.roll_call:
            wanted = "no answer" if self.roll_call else "an answer"
            raise DeviceViolation("bad-answer", f"round {self.round} takes {wanted}")
        if report.answer is not None:
            try:
                self.task.randomizer.check_answer(report.answer)
            except InvalidInput as error:
                raise DeviceViolation("bad-answer", str(error)) from None

    def step(self, responders: npt.ArrayLike, tally: npt.ArrayLike) -> Ruling:
        """Close the open round and open the next one; no messages are made.

        Parameters
        ----------
        responders : int[m]
            Reports per cell of ``frontier``.
        tally : int[m, fanout]
            Their sums; int[m, 0] in a roll call.
        """
        if self.finished:
            raise InvalidInput("the task is finished; there is no round to close")
        count = len(self.frontier.cells)
        width = 0 if self.roll_call else self.task.randomizer.fanout
        size = as_integers(responders, "responders", (count,), limit=MAX_RESPONDERS + 1)
        sums = as_integers(tally, "tally", (count, width), limit=MAX_SUM)
        if np.any(size < 0) or (width and not possible(self.task, self.frontier.cells, size, sums)):
            raise InvalidInput("no set of reports has these responders and this tally")
        ruling = decide(self.task, self.frontier, size, sums) if width else roll_call(self.task, self.frontier)
        self.round += 1
        self.frontier = ruling.frontier
        return ruling

    def close(self, responders: npt.ArrayLike, tally: npt.ArrayLike) -> Closed:
        """As :meth:`step`; returns the message that publishes it."""
        number, frontier = self.round, self.frontier
        ruling = self.step(responders, tally)
        sums = np.asarray(tally, dtype=np.int64).reshape(len(frontier.cells), -1)
        return closing(self.task, Played(number, frontier, np.asarray(responders), sums, ruling))

    @classmethod
    def replay(cls, task: Task, events: Iterable[Message]) -> Curator:
        """The curator after the given events; closings that do not follow from their tallies are refused."""
        curator = cls(task)
        for event in events:
            if isinstance(event, Closed) and curator.close(event.responders, event.tally) != event:
                raise InvalidInput(f"the closing of round {event.round} does not follow from its tally")
        return curator


def closing(task: Task, played: Played) -> Closed:
    """The message that publishes a round."""
    return Closed(
        task.id, played.number, tuple(played.cells.tolist()), tuple(played.responders.tolist()),
        tuple(tuple(row) for row in played.tally.tolist()),
        tuple(tuple(np.flatnonzero(row).tolist()) for row in played.kept),
    )  # fmt: skip


def count_reports(task: Task, query: Query, reports: Sequence[Report]) -> tuple[Integers, Integers]:
    """Responders and tally of a round: int64[m], int64[m, fanout] (int64[m, 0] in a roll call).

    Raises
    ------
    DeviceViolation
        If a pseudonym reports twice, or a report is for a cell that was not asked about.
    """
    names = [report.pseudonym for report in reports]
    if len(set(names)) != len(names):
        raise DeviceViolation("reported-twice", "a pseudonym has more than one report in this round")
    cells, named = (np.array(column, dtype=np.uint64) for column in (query.cells, [r.cell for r in reports]))
    rows = np.searchsorted(cells, named)
    if not np.array_equal(np.append(cells, 0)[rows], named):  # no cell is 0
        raise DeviceViolation("unknown-cell", f"a report is for a cell that round {query.round} does not ask about")
    responders = np.bincount(rows, minlength=len(query.cells)).astype(np.int64)
    if query.round > task.max_rounds:
        return responders, np.empty((len(query.cells), 0), dtype=np.int64)
    answers = np.array([report.answer for report in reports], dtype=np.int64)
    if not len(reports):
        return responders, np.zeros((len(query.cells), task.randomizer.fanout), dtype=np.int64)
    return responders, task.randomizer.tally(answers, rows.astype(np.int64), len(query.cells))
