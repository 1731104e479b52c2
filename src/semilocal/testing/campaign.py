"""Populations from seeds, and a whole campaign without a network. Knows the protocol's machines."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..geometry.box import Box
from ..protocol.curator import Curator
from ..protocol.keys import HashChain
from ..protocol.messages import AnyClosed, AnyQuery, AnyReport, Closed, Event, Query, Slice, ValueClosed, ValueQuery
from ..protocol.participant import Participant
from ..protocol.plan import Plan
from ..protocol.policy import Policy
from ..protocol.task import Task

ALLOW_ALL = Policy(max_epsilon=1e9, min_k=1, max_delta=1.0, allow_no_crowd=True, allow_simulation=True)


def unit_box(dimensions: int = 2) -> Box:
    """The unit square, or a cube of another number of dimensions."""
    return Box((0.0,) * dimensions, (1.0,) * dimensions)


def cluster(size: int, dimensions: int = 2, *, seed: int = 1, strays: float = 0.05) -> Floats:
    """A dense cluster and a few strays in the unit box, so that regions split, and some questions give walls.

    Parameters
    ----------
    size : int
    dimensions : int
    seed : int
    strays : float
        Share of the participants who are anywhere in the box.

    Returns
    -------
    float64[size, dimensions]

    Examples
    --------
    >>> cluster(100).shape, float(cluster(100).max()) <= 1.0
    ((100, 2), True)
    """
    rng = np.random.default_rng(seed)
    points = np.clip(rng.normal(0.3, 0.1, (size, dimensions)), 0.0, 1.0)
    count = int(strays * size)
    points[:count] = rng.random((count, dimensions))
    return points


def secret(number: int, *, seed: int = 0) -> bytes:
    """The secret of a test participant: 32 bytes, the same for the same numbers."""
    return hashlib.sha256(b"test participant %d of %d" % (number, seed)).digest()


def secrets_of(count: int, *, seed: int = 0) -> list[bytes]:
    """One secret per participant."""
    return [secret(number, seed=seed) for number in range(count)]


class PlayedRound(NamedTuple):
    """One round: what everybody could read of it. ``slices`` are empty in a round of values."""

    query: AnyQuery
    reports: list[AnyReport]
    closed: AnyClosed
    slices: dict[tuple[int, int], Slice]


class Played(NamedTuple):
    """A finished play: its rounds, all messages in transcript order, and the machines at the end."""

    rounds: list[PlayedRound]
    events: list[Event]
    participants: list[Participant]
    curator: Curator

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


def participants_at(
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
    chain: HashChain | None = None,
    answers: Callable[[int, int], bool] = lambda number, participant: True,
    deliver: Callable[[Participant, AnyQuery], AnyReport | None] = Participant.receive,
) -> Played:
    """Play a campaign to its end: participants against a curator, one message at a time, without a network.

    Parameters
    ----------
    plan : Plan, optional
        The same that the participants pinned.
    chain : HashChain, optional
        The one that the task ends with; none if it has none.
    answers : callable
        (round, participant's index) -> whether the participant is there; who is away reads the log later.
    deliver : callable
        How a query reaches a participant; tests put retries, restarts and lies here.
    """
    curator = Curator(task, plan, chain=chain)
    rounds: list[PlayedRound] = []
    events: list[Event] = [task]
    while (query := curator.query()) is not None:
        if isinstance(query, ValueQuery) and not curator.values:
            events.append(curator.plan)
        reports = []
        for index, participant in enumerate(participants):
            report = None
            if answers(query.round, index):
                report = deliver(participant, query)
            elif isinstance(query, Query) and not participant.state.stopped:
                participant.observe(query)
            if report is not None:
                reports.append(report)
        reports.sort(key=lambda report: report.pseudonym)
        closed = curator.close(reports)
        slices = {part.region: part for part in curator.slices} if isinstance(closed, Closed) else {}
        rounds.append(PlayedRound(query, reports, closed, slices))
        events += [query, *reports, closed]
        if isinstance(closed, Closed):
            for participant in participants:
                if not participant.state.stopped:
                    participant.close(closed, slices.get(participant.log.region))
    return Played(rounds, events, list(participants), curator)
