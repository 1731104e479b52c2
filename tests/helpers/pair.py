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

from semilocal import Closed, Curator, Participant, Policy, Query, Task
from semilocal.protocol.curator import count_reports
from semilocal.protocol.messages import AnyClosed, AnyQuery, AnyReport, Event, ValueClosed, ValueQuery
from semilocal.protocol.participant import Released, State
from semilocal.protocol.plan import Plan
from semilocal.testing import ALLOW_ALL, secret

# A busy machine is no failure, and a failure must come back.
STEADY = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


class Played(NamedTuple):
    """A finished play: all messages in transcript order, and the participants at the end."""

    events: list[Event]
    participants: list[Participant]

    @property
    def closings(self) -> list[Closed]:
        """The closings, in order."""
        return [event for event in self.events if isinstance(event, Closed)]

    @property
    def values(self) -> list[ValueClosed]:
        """The closings of rounds of values, in order."""
        return [event for event in self.events if isinstance(event, ValueClosed)]

    @property
    def queries(self) -> list[Query]:
        """The queries, in order."""
        return [event for event in self.events if isinstance(event, Query)]


def crowd(
    task: Task, points: npt.ArrayLike, policy: Policy = ALLOW_ALL, *, plan: Plan | None = None
) -> list[Participant]:
    """One participant per point."""
    return [
        Participant(task, point, secret(number), policy, plan=plan) for number, point in enumerate(np.asarray(points))
    ]


def play(
    task: Task,
    participants: Sequence[Participant],
    *,
    plan: Plan | None = None,
    answers: Callable[[int, int], bool] = lambda number, participant: True,
    deliver: Callable[[Participant, AnyQuery | AnyClosed], AnyReport | None] = Participant.receive,
) -> Played:
    """Play a campaign to its end.

    Parameters
    ----------
    plan : Plan, optional
        The same that the participants pinned.
    answers : callable
        (round, participant's index) -> whether the query reaches the participant; who misses a round is lost.
    deliver : callable
        How a message reaches a participant; tests put retries, restarts and lies here.
    """
    curator = Curator(task, plan)
    events: list[Event] = [task]
    while (query := curator.query()) is not None:
        if isinstance(query, ValueQuery) and not curator.values:
            events.append(curator.plan)
        reports = []
        for index, participant in enumerate(participants):
            if answers(query.round, index):
                report = deliver(participant, query)
                if report is not None:
                    curator.check(report)
                    reports.append(report)
        reports.sort(key=lambda report: report.pseudonym)
        closed = curator.close(*count_reports(curator, reports))
        for participant in participants:
            deliver(participant, closed)
        events += [query, *reports, closed]
    return Played(events, list(participants))


def restart(
    participant: Participant, point: npt.ArrayLike, number: int, state: State, released: Released | None = None
) -> Participant:
    """The same device after a crash: all it kept is its position, its secret and its state."""
    return Participant(
        participant.task, point, secret(number), participant.policy, plan=participant.plan, state=state,
        released=released,
    )  # fmt: skip


def opened(curator: Curator) -> Query:
    """The open round's query, one of the partition."""
    query = curator.query()
    assert isinstance(query, Query)
    return query


def closed(curator: Curator, responders: npt.ArrayLike, tally: npt.ArrayLike) -> Closed:
    """Close a round of the partition."""
    message = curator.close(responders, tally)
    assert isinstance(message, Closed)
    return message
