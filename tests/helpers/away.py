"""Participants that were away, or crashed: they read the log of closed rounds again."""

from __future__ import annotations

from collections.abc import Iterable

import numpy.typing as npt

from semilocal.protocol.messages import Closed, Query
from semilocal.protocol.participant import Participant, State
from semilocal.testing import secret
from semilocal.testing.campaign import PlayedRound


def read_log(participant: Participant, rounds: Iterable[PlayedRound]) -> Participant:
    """Let a participant read closed rounds of the partition, as one does that was away."""
    for one in rounds:
        if isinstance(one.query, Query) and isinstance(one.closed, Closed):
            participant.observe(one.query)
            participant.close(one.closed, one.slices.get(participant.log.region))
    return participant


def restart(
    participant: Participant, point: npt.ArrayLike, number: int, state: State, rounds: Iterable[PlayedRound] = ()
) -> Participant:
    """The same device after a crash: all it kept is its position, its secret and its state; it reads the log again."""
    return read_log(
        Participant(participant.task, point, secret(number), participant.policy, plan=participant.plan, state=state),
        rounds,
    )
