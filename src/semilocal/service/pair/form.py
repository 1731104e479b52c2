"""A pair as an administrator writes it.

Knows values and their checks. Knows no database, clock or socket.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import msgspec

from ...errors import InvalidInput
from ...pooled.asked import AskedValue
from ...pooled.task import PooledTask
from ...sharing.pair import Operator, PairTask, check_origin
from ...sharing.sealing import Role
from ...sharing.wire import MAX_REPORTS, MAX_TREE, MAX_VALUE_TREE
from ...words import check_name
from ..campaign import MAX_ENROLMENT_SECONDS, MAX_NAME


class PairSettings(NamedTuple):
    """How a server takes part in pairs."""

    role: Role
    name: str  # of the operator, as devices see it
    origin: str  # where devices reach this server
    peer: str = ""  # URL of the helper; for a leader
    processes: int = 0  # worker processes for the evaluation
    leader: str = ""  # signing key of the leader that may propose pairs to a helper, 64 hex digits; empty: nobody may

    def check(self) -> None:
        """Refuse what no pair can be played with."""
        Operator(self.name, self.origin, bytes(32), bytes(32))
        if self.role == "leader":
            if not self.peer:
                raise InvalidInput("a leader needs --peer: the URL of the helper")
            check_origin(self.peer.rstrip("/"))
            if self.peer.rstrip("/") == self.origin:
                raise InvalidInput(f"--peer is this server itself, {self.origin}; the promise needs two operators")
            if self.leader:
                raise InvalidInput("--peer-key is for the helper: a leader names the helper's key with each pair")
        elif self.peer:
            raise InvalidInput("--peer is for the leader: a helper answers and never asks")
        if self.leader:
            check_key(self.leader, "--peer-key must be the signing key of the leader")


class PairForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a request for a new pair."""

    name: str
    pooled: PooledTask
    peer_key: str  # the helper's signing key, 64 hex digits, as its operator told it in person
    bucket_depth: int = 0
    enrolment: Literal["tokens", "open"] = "tokens"
    capacity: int | None = None  # uploads end when there are this many
    # uploads end after this time at the latest; None: when the capacity is reached or the administrator says so
    upload_seconds: int | None = None
    value: AskedValue | None = None  # what is asked beside the place

    def __post_init__(self) -> None:
        check_name(self.name, "name", most=MAX_NAME)
        check_key(self.peer_key, "peer_key must be the signing key of the helper")
        if self.capacity is not None and not 1 <= self.capacity <= self.most:
            raise InvalidInput(f"capacity must be 1 to {self.most}, or null; got {self.capacity}")
        seconds = self.upload_seconds
        if seconds is not None and not 1 <= seconds <= MAX_ENROLMENT_SECONDS:
            raise InvalidInput(f"upload_seconds must be 1 to {MAX_ENROLMENT_SECONDS}, or null; got {seconds}")

    @property
    def most(self) -> int:
        """Most reports of such a pair."""
        if self.value is not None:
            return MAX_VALUE_TREE
        return MAX_REPORTS if self.bucket_depth else MAX_TREE

    def build(self, leader: Operator, helper: Operator) -> PairTask:
        """The pair of these operators; refuses a helper with another key."""
        if helper.signing_key.hex() != self.peer_key:
            raise InvalidInput(
                f"the helper at {helper.origin} has the key {helper.signing_key.hex()}, not {self.peer_key}: ask its "
                "operator in person which one is right"
            )
        value = msgspec.UNSET if self.value is None else self.value
        return PairTask(self.pooled, leader, helper, self.bucket_depth, value)


def check_key(key: str, what: str) -> None:
    """Refuse what is no signing key."""
    if not re.fullmatch("[0-9a-f]{64}", key):
        raise InvalidInput(f"{what} (its GET /operator): 64 lower-case hex digits")
