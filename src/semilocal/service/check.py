"""Every check of a report that needs no database.

Knows the open round and bytes. Knows no clock and no SQL.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..errors import InvalidInput
from ..protocol.messages import Query, Report, ValueQuery, ValueReport, decode_report
from .campaign import Campaign
from .problems import Problem
from .stores.base import Incoming

__all__ = ["Asked", "check_report"]

_MAX_CELL = 2**62
_encode = msgspec.msgpack.Encoder().encode


class Asked:
    """What the open round asks, ready for fast look-ups.

    Parameters
    ----------
    campaign : Campaign
    query : Query or ValueQuery
        Of the open round.
    regions : mapping of int to (int, int)
        Where paths ended, and the last report that leads there: its round and cell. Used in release rounds.
    """

    __slots__ = ("_parents", "_regions", "_round", "_task", "cells", "is_value", "mechanism", "roll_call")

    def __init__(self, campaign: Campaign, query: Query | ValueQuery, regions: Mapping[int, tuple[int, int]]) -> None:
        self._task = campaign.task
        self._round = query.round
        self._regions = regions
        self.is_value = isinstance(query, ValueQuery)
        self.cells = frozenset(regions if isinstance(query, ValueQuery) else query.cells)
        self.roll_call = not self.is_value and query.round > campaign.task.max_rounds
        self._parents: dict[int, int] = {}
        if isinstance(query, Query) and query.round > 1:
            parents = campaign.task.hierarchy.parent(query.cells)
            self._parents = dict(zip(query.cells, parents.tolist(), strict=True))
        self.mechanism = campaign.plan.releases[query.index].mechanism if isinstance(query, ValueQuery) else None

    def check(self, report: Report | ValueReport) -> tuple[int, int]:
        """The round and cell that the pseudonym must have reported before; refuses wrong cells and answers."""
        if isinstance(report, ValueReport) is not self.is_value:
            wanted = "a ValueReport" if self.is_value else "a Report"
            raise Problem("wrong-kind", f"round {self._round} takes {wanted}")
        if report.cell not in self.cells:
            raise Problem("unknown-cell", f"cell {report.cell} is not asked about in round {self._round}")
        if self.is_value:
            if self.mechanism is None or report.answer not in self.mechanism.alphabet:
                raise Problem("bad-answer", "the answer is not in the mechanism's alphabet")
            return self._regions[report.cell]
        if (report.answer is None) != self.roll_call:
            raise Problem(
                "bad-answer", "a roll call takes no answer" if self.roll_call else "the round takes an answer"
            )
        if report.answer is not None:
            try:
                self._task.randomizer.check_answer(report.answer)
            except InvalidInput as error:
                raise Problem("bad-answer", str(error)) from None
        return (self._round - 1, self._parents[report.cell]) if self._round > 1 else (0, 0)


def check_report(
    body: bytes, *, task: bytes, round_: int, pseudonym: bytes, verifier: bytes, asked: Asked | None
) -> Incoming:
    """A report as the store takes it.

    Parameters
    ----------
    asked : Asked or None
        None if the round is closed: only whether the same bytes are stored matters then.

    Raises
    ------
    Problem
    """
    try:
        report = decode_report(body)
    except InvalidInput as error:
        raise Problem("not-canonical", str(error)) from None
    if report.task != task:
        raise Problem("other-task", "the task in the body is not the one in the path")
    if report.round != round_:
        raise Problem("other-round", f"the body is for round {report.round}, the path for round {round_}")
    if report.pseudonym != pseudonym:
        raise Problem("other-pseudonym", "the pseudonym in the body is not the one in the path")
    if report.cell >= _MAX_CELL:
        raise Problem("unknown-cell", "no hierarchy has such a cell")
    before, cell = asked.check(report) if asked is not None else (0, 0)
    return Incoming(task, round_, pseudonym, verifier, report.cell, _encode(report.answer), before, cell)
