"""Seals as a device follows them: every round of a task that pins a key, in one chain, each with its signature.

A server that shows two histories has to sign both, so a device that follows the chain holds half of the proof. Knows
seals and where they are published. Keeps nothing itself: the caller saves how far it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..errors import ServerViolation
from ..protocol.messages import Seal, decode
from ..protocol.task import Task
from ..transcript.checkpoints import next_head, signature_fault

if TYPE_CHECKING:
    from .channel import Channel

__all__ = ["Chain", "follow_seals"]


class Chain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a device has followed the seals.

    Attributes
    ----------
    round : int
        The last round whose seal was good; 0 before the first.
    head, root : bytes
        Of the chain and of the transcript after that round; empty before the first.
    """

    round: int = 0
    head: bytes = b""
    root: bytes = b""


async def follow_seals(channel: Channel, task: Task, chain: Chain, number: int) -> Chain | None:
    """The chain up to a closed round; None if the server does not show a seal yet.

    Raises
    ------
    ServerViolation
        If a seal is not signed with the pinned key, does not continue the chain, or belongs to another task or round.
    """
    while chain.round < number:
        following = chain.round + 1
        path = f"/tasks/{task.id.hex()}/rounds/{following}/seal"
        seal = await channel.message(path, lambda data: _signed(data, task))  # checked once for all who share a channel
        if seal is None:
            return None
        point = seal.checkpoint
        if point.task != task.id or point.round != following:
            raise ServerViolation("wrong-seal", f"the seal of round {following} belongs to another round or task")
        if seal.head != next_head(chain.head or task.id, point):
            raise ServerViolation("wrong-chain", f"the seal of round {following} does not continue the one before")
        chain = Chain(following, seal.head, point.root)
    return chain


def _signed(data: bytes, task: Task) -> Seal:
    seal = decode(data, Seal)
    fault = signature_fault(seal, task)
    if fault is not None:
        raise ServerViolation(*fault)
    return seal
