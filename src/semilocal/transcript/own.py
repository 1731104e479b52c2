"""A participant who reads a transcript: whether it holds what its device sent, and no more.

The device's machine is played again over the public messages. It reports in the rounds in which the device did, so what
it must have sent there is derived from its secret and position, and compared byte for byte.

Knows one device and the public messages. Knows no files.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import ServerViolation
from ..protocol.keys import pseudonym
from ..protocol.messages import AnyClosed, AnyQuery, AnyReport, Closed, Query, Slice, encode
from ..protocol.participant import Participant, Policy
from ..protocol.task import Task
from ..words import number_of
from .findings import Own
from .witness import Finding

__all__ = ["OwnReports"]

_EVERYTHING = Policy(
    max_epsilon=float("inf"), min_k=1, max_delta=1.0, allow_no_crowd=True, allow_simulation=True
)  # fmt: skip


class OwnReports:
    """Follows a transcript as one device.

    Parameters
    ----------
    task : Task
    own : Own
        What the device kept.
    """

    def __init__(self, task: Task, own: Own) -> None:
        self.own, self.pseudonym = own, pseudonym(own.secret, task.id)
        self._device: Participant | None = Participant(
            task, own.position, own.secret, _EVERYTHING, plan=own.plan, value=own.value
        )
        self._query: AnyQuery | None = None
        self._mine: list[AnyReport] = []
        self.there, self.sent = 0, 0

    def ask(self, query: AnyQuery) -> None:
        """A round was opened."""
        self._query, self._mine = query, []

    def report(self, report: AnyReport) -> None:
        """A report under its name."""
        self._mine.append(report)

    def close(self, closed: AnyClosed | None, slices: Mapping[tuple[int, int], Slice]) -> list[Finding]:
        """The round was closed; what is different. Without a closing nothing can be followed any more."""
        query, self._query = self._query, None
        self.there += bool(self._mine)
        if query is None:
            return []
        found: list[Finding] = []
        try:
            found += self._compare(query)
            if isinstance(closed, Closed) and self._device is not None:
                self._device.close(closed, slices.get(self._device.log.region))
        except ServerViolation as error:
            self._device = None
            found.append(Finding("device-refuses", f"your device would refuse this: {error.reason}"))
        if closed is None:
            self._device = None
        return found

    def _compare(self, query: AnyQuery) -> list[Finding]:
        device, theirs = self._device, [encode(report) for report in self._mine]
        sends = query.round in self.own.reported
        self.sent += sends
        if device is not None and isinstance(query, Query):
            device.observe(query)
        if not sends:
            never = "a report under your name that your device never sent"
            return [Finding("foreign-report", never, len(theirs))] if theirs else []
        mine = None if device is None else device.receive(query)
        if not theirs:
            return [Finding("own-report-missing", "your report is not in the transcript")]
        if device is not None and (mine is None or encode(mine) not in theirs):
            return [Finding("own-report-changed", "the transcript has another report under your name")]
        more = len(theirs) - 1
        return [Finding("foreign-report", f"{number_of(more, 'more report')} under your name", more)] if more else []

    @property
    def note(self) -> str:
        """How many reports there are under its name."""
        return (
            f"under your name: {number_of(self.there, 'report')}; your vault knows of {self.sent} rounds it reported in"
        )
