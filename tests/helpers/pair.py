"""A pair of machines: plays Participants against a Curator, in the open, one message at a time.

Knows both machines and nothing else: no network, no store. What it returns is what anyone who sees all messages sees,
and the participants for those who want to look inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, settings

from semilocal import Closed, Curator, Participant, Policy, Query, Report, Task
from semilocal.protocol.curator import count_reports
from semilocal.protocol.messages import Message
from semilocal.protocol.participant import State
from semilocal.testing import ALLOW_ALL, secret

# A busy machine is no failure, and a failure must come back.
STEADY = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


class Played(NamedTuple):
    """A finished play: all messages in transcript order, and the participants at the end."""

    events: list[Message]
    participants: list[Participant]

    @property
    def closings(self) -> list[Closed]:
        """The closings, in order."""
        return [event for event in self.events if isinstance(event, Closed)]

    @property
    def queries(self) -> list[Query]:
        """The queries, in order."""
        return [event for event in self.events if isinstance(event, Query)]


def crowd(task: Task, points: npt.ArrayLike, policy: Policy = ALLOW_ALL) -> list[Participant]:
    """One participant per point."""
    return [Participant(task, point, secret(number), policy) for number, point in enumerate(np.asarray(points))]


def play(
    task: Task,
    participants: Sequence[Participant],
    *,
    answers: Callable[[int, int], bool] = lambda number, participant: True,
    deliver: Callable[[Participant, Query | Closed], Report | None] = Participant.receive,
) -> Played:
    """Play a task to its end.

    Parameters
    ----------
    answers : callable
        (round, participant's index) -> whether the query reaches the participant; who misses a round is lost.
    deliver : callable
        How a message reaches a participant; tests put retries, restarts and lies here.
    """
    curator = Curator(task)
    events: list[Message] = [task]
    while (query := curator.query()) is not None:
        reports = []
        for index, participant in enumerate(participants):
            if answers(query.round, index):
                report = deliver(participant, query)
                if report is not None:
                    curator.check(report)
                    reports.append(report)
        reports.sort(key=lambda report: report.pseudonym)
        closed = curator.close(*count_reports(task, query, reports))
        for participant in participants:
            deliver(participant, closed)
        events += [query, *reports, closed]
    return Played(events, list(participants))


def restart(participant: Participant, point: npt.ArrayLike, number: int, state: State) -> Participant:
    """The same device after a crash: all it kept is its position, its secret and its state."""
    return Participant(participant.task, point, secret(number), participant.policy, state=state)
