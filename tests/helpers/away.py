"""Participants that were away, or crashed: they read the log of closed rounds again."""

from __future__ import annotations

from collections.abc import Iterable

from semilocal.protocol.messages import Closed, Query
from semilocal.protocol.participant import Participant
from semilocal.testing.campaign import PlayedRound


def read_log(participant: Participant, rounds: Iterable[PlayedRound]) -> Participant:
    """Let a participant read closed rounds of the partition, as one does that was away."""
    for one in rounds:
        if isinstance(one.query, Query) and isinstance(one.closed, Closed):
            participant.observe(one.query)
            participant.close(one.closed, one.slices.get(participant.log.region))
    return participant
