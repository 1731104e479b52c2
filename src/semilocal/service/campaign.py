"""A campaign: a task, its releases and its schedule, and where it stands.

    phase        ends when                                                  next phase
    enrolling    capacity is reached, its time is over, or it is started    collecting
    collecting   the partition is finished                                  releasing; finished if no values are asked
    releasing    the last round of values is closed                         finished
    any of these cancelled by the administrator                             cancelled

Knows values and their checks. Knows no database, clock or socket.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Literal

import msgspec

from ..errors import InvalidInput
from ..protocol.plan import Plan, Release
from ..protocol.promise import promise
from ..protocol.task import Task
from ..words import check_name

Phase = Literal["enrolling", "collecting", "releasing", "finished", "cancelled"]
ENDED: tuple[Phase, ...] = ("finished", "cancelled")
MAX_NAME = 200
MAX_TOKENS = 10_000  # of one request
MAX_ENROLMENT_SECONDS = 10**8


class Campaign(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an administrator creates."""

    name: str  # for people; at most 200 characters
    task: Task  # holds the quorum and the window of a round
    # what is asked and published after the partition; fixed here so that devices know the whole loss beforehand
    releases: tuple[Release, ...] = ()
    # who may enrol: holders of a one-time token, or anybody. Fake participants can fill a crowd, so "open" is
    # for tests and demonstrations
    enrolment: Literal["tokens", "open"] = "tokens"
    capacity: int | None = None  # round 1 opens when this many participants are enrolled
    # round 1 opens after this time at the latest; None: when the capacity is reached or the administrator
    # starts it
    enrolment_seconds: int | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "name", most=MAX_NAME)
        if self.capacity is not None and not 1 <= self.capacity <= 10**9:
            raise InvalidInput(f"capacity must be an integer from 1 to 10^9, or null; got {self.capacity}")
        seconds = self.enrolment_seconds
        if seconds is not None and not 1 <= seconds <= MAX_ENROLMENT_SECONDS:
            raise InvalidInput(f"enrolment_seconds must be 1 to {MAX_ENROLMENT_SECONDS}, or null; got {seconds}")
        if self.task.randomizer.simulation_only:
            raise InvalidInput("the task's noise is in floats, for simulation only; use Task.build for real devices")
        self.plan.check(self.task)

    @property
    def plan(self) -> Plan:
        """The releases as devices pin them."""
        return Plan(self.task.id, self.releases)

    @property
    def total_epsilon(self) -> float:
        """Bound on the loss between two positions of a region: partition and releases (delta 0)."""
        return self.plan.total_epsilon(self.task)

    def statement(self) -> str:
        """The promise in plain words, releases included."""
        return promise(self.task, self.plan).explain()


class ReleaseForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A release as an administrator writes it; the best mechanism for the epsilon is filled in."""

    kind: Literal["mean", "values", "counts", "points"]
    function: str = ""
    parameters: tuple[float, ...] = ()
    epsilon: float | None = None

    def build(self) -> Release:
        """The release with its mechanism."""
        if self.kind in ("counts", "points"):
            if self.epsilon is not None:
                raise InvalidInput(f"{self.kind} follow from the crowds and cost nothing: leave epsilon out")
            return Release(self.kind, None, self.function, self.parameters)
        if self.epsilon is None:
            raise InvalidInput(f"a release of kind {self.kind!r} needs an epsilon")
        return Release.ask(self.kind, self.function, epsilon=self.epsilon, parameters=self.parameters)


class CampaignForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A campaign as an administrator writes it (JSON)."""

    name: str
    task: Task
    releases: tuple[ReleaseForm, ...] = ()
    enrolment: Literal["tokens", "open"] = "tokens"
    capacity: int | None = None
    enrolment_seconds: int | None = None

    def build(self) -> Campaign:
        """The campaign, checked; its hash chain is the server's part of the draws, which ``rounds.with_chain`` adds."""
        if self.task.chain:
            raise InvalidInput("the hash chain of a task is made by the server: leave it out")
        if self.capacity is not None and self.capacity < self.task.k:
            raise InvalidInput(
                f"capacity must be at least k: {self.capacity} participants are no crowd of k = {self.task.k}; "
                "take a larger capacity, or a smaller k"
            )
        releases = tuple(release.build() for release in self.releases)
        for release in releases:
            if release.asks and not release.own:
                self.task.hierarchy.check_coordinates(release.what)
        return Campaign(self.name, self.task, releases, self.enrolment, self.capacity, self.enrolment_seconds)


class Status(msgspec.Struct, frozen=True):
    """Where a campaign stands."""

    phase: Phase
    round: int  # the open round; 0 while enrolling; the last one at the end
    closed: int  # number of closed rounds
    received: int  # awaited reports in the open round; while enrolling, participants
    # received that end the open round (or enrolment) before its deadline; None: only the deadline does
    needed: int | None
    deadline: int | None  # Unix time in whole seconds
    enrolled: int

    @property
    def ended(self) -> bool:
        """Whether nothing will change any more."""
        return self.phase in ENDED

    def due(self, now: float) -> bool:
        """Whether the open round, or enrolment, is to be closed now."""
        if self.ended:
            return False
        full = self.needed is not None and self.received >= self.needed
        return full or (self.deadline is not None and now >= self.deadline)


# -- enrolment tokens ---------------------------------------------------------------------------------------------


def fresh_tokens(count: int) -> list[str]:
    """One-time tokens, each 256 bits from the operating system."""
    if not 1 <= count <= MAX_TOKENS:
        raise InvalidInput(f"count must be 1 to {MAX_TOKENS}; got {count}")
    return ["slt_" + secrets.token_urlsafe(32) for _ in range(count)]


def token_hash(token: str) -> bytes:
    """What is stored of a token. It has 256 random bits, so a plain hash cannot be searched."""
    return hashlib.sha256(b"semilocal/1/token" + token.encode()).digest()


def used_by(token: str, pseudonym: bytes, verifier: bytes) -> bytes:
    """What is stored of a used token: without the token it does not tell the pseudonym."""
    return hashlib.sha256(b"semilocal/1/used" + token.encode() + pseudonym + verifier).digest()
