"""What the service asks of a database, and what it gets back. One contract, two implementations.

Rules of a store:

1. What a method returned is on disk: a report is acknowledged after its transaction is committed.
2. Reports of a closed round never change, and a round is closed in one transaction, by exactly one worker.
3. Memory does not depend on the number of reports: they are read as a stream.
4. No address, user agent or time of a participant is kept; there is no column for one.

Methods block; callers run them in threads. Knows rows and bytes. Knows no HTTP and decides no verdicts.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from importlib import resources
from typing import Literal, NamedTuple, Protocol

from ...errors import InvalidInput, SchemaMismatch
from ..campaign import Campaign, Phase, Status

__all__ = [
    "Applied", "Enrolment", "Incoming", "Item", "Locked", "Outcome", "ReportRow", "Store",
    "check_url", "judge", "judge_enrolments", "judge_reports", "migrations", "open_store",
]  # fmt: skip


class Incoming(NamedTuple):
    """A report that passed every check which needs no database.

    ``answer`` is the answer in MessagePack. ``before`` is the round in which the pseudonym must have reported
    ``before_cell``; 0 if there is none.
    """

    task: bytes
    round: int
    pseudonym: bytes
    verifier: bytes
    cell: int
    answer: bytes
    before: int
    before_cell: int


class Enrolment(NamedTuple):
    """A participant who wants in; ``token`` and ``used_by`` are hashes, None with open enrolment."""

    task: bytes
    pseudonym: bytes
    verifier: bytes
    token: bytes | None
    used_by: bytes | None


Item = Incoming | Enrolment
What = Literal["query", "closed", "checkpoint", "seal"]
Outcome = Literal[
    "stored", "again", "other-answer", "unauthorized", "round-closed", "missed-round", "wrong-path", "not-open-yet",
    "campaign-ended", "no-such-task", "bad-token", "token-used", "pseudonym-taken", "enrolment-closed",
]  # fmt: skip


class Applied(NamedTuple):
    """Outcomes of a batch, and the tasks of which the open round may be full now."""

    outcomes: list[Outcome]
    full: set[bytes]


class ReportRow(NamedTuple):
    """A stored report."""

    pseudonym: bytes
    cell: int
    answer: bytes


class Locked(Protocol):
    """One campaign inside a transaction that holds it alone."""

    campaign: Campaign
    status: Status
    fold: bytes

    def query(self, round_: int) -> bytes | None:
        """Query of a round."""

    def closings(self) -> Iterator[bytes]:
        """Closings of all closed rounds in order."""

    def reports(self, round_: int) -> Iterator[ReportRow]:
        """Reports of a round by ascending pseudonym, as a stream."""

    def seal(self, round_: int) -> bytes | None:
        """Seal of a closed round."""

    def close_round(self, round_: int, closed: bytes, checkpoint: bytes, seal: bytes) -> None:
        """Write what closes the open round."""

    def open_round(self, round_: int, query: bytes) -> None:
        """Write the query of the next round."""

    def move(
        self, phase: Phase, *, round_: int, closed: int, needed: int | None, deadline: int | None, fold: bytes
    ) -> None:
        """Write where the campaign stands."""


class Store(Protocol):
    """A database of campaigns. Thread-safe."""

    @property
    def gather(self) -> float:
        """Seconds that a writer should wait for more when it has little to write."""

    def close(self) -> None:
        """Let go of all connections."""

    def ping(self) -> None:
        """Raise ``StoreUnavailable`` if the database does not answer."""

    def setting(self, key: str, *, default: bytes) -> bytes:
        """The stored value; the default is stored if there is none."""

    def create(self, campaign: Campaign, *, needed: int | None, deadline: int | None) -> bool:
        """Add a campaign in phase "enrolling"; False if its task is there already."""

    def tasks(self) -> list[bytes]:
        """Ids of all tasks in the order of creation."""

    def statuses(self, *, active: bool = False) -> dict[bytes, Status]:
        """Where all campaigns stand; only those that have not ended if ``active``."""

    def campaign(self, task: bytes) -> Campaign | None:
        """The campaign of a task."""

    def status(self, task: bytes) -> Status | None:
        """Where a campaign stands."""

    def add_tokens(self, task: bytes, hashes: Sequence[bytes]) -> None:
        """Add one-time tokens."""

    def apply(self, batch: Sequence[Item]) -> Applied:
        """Judge and store a batch in one transaction."""

    def lock(self, task: bytes) -> AbstractContextManager[Locked | None]:
        """A transaction that holds the campaign alone: others wait. None if there is no such task."""

    def message(self, task: bytes, round_: int, what: What) -> bytes | None:
        """A stored message of a round."""

    def reports(self, task: bytes, round_: int, *, after: bytes, limit: int) -> list[ReportRow]:
        """A page of reports by ascending pseudonym."""


def judge(
    item: Incoming, *, phase: Phase, closed: int, verifier: bytes | None, stored: tuple[int, bytes] | None,
    before_cell: int | None,
) -> Outcome:  # fmt: skip
    """What becomes of a report; the same for every store.

    Parameters
    ----------
    item : Incoming
    phase, closed
        Of the campaign, read in the same transaction.
    verifier : bytes or None
        Of the pseudonym; None if it is not enrolled.
    stored : (cell, answer) or None
        The pseudonym's stored report of this round.
    before_cell : int or None
        Its cell in round ``item.before``; None if it did not report.
    """
    if not hmac.compare_digest(item.verifier, verifier or bytes(32)) or verifier is None:
        return "unauthorized"
    if stored is not None:
        return "again" if stored == (item.cell, item.answer) else "other-answer"
    late = judge_round(item.round, phase=phase, closed=closed)
    if late is not None:
        return late
    if item.before and before_cell is None:
        return "missed-round"
    if item.before and before_cell != item.before_cell:
        return "wrong-path"
    return "stored"


def judge_round(round_: int, *, phase: Phase, closed: int) -> Outcome | None:
    """Why a round takes no new reports; None if it is open."""
    if round_ <= closed:
        return "round-closed"
    if phase == "cancelled":
        return "campaign-ended"
    if round_ > closed + 1 or phase == "enrolling":
        return "not-open-yet"
    return None


def judge_enrolment(
    item: Enrolment, *, campaign: Campaign, phase: Phase, verifier: bytes | None, token: tuple[bytes | None] | None
) -> Outcome:
    """What becomes of an enrolment; the same for every store.

    Parameters
    ----------
    verifier : bytes or None
        Stored for this pseudonym.
    token : (used_by,) or None
        The stored token, with what it was used for; None if it is unknown.
    """
    if verifier is not None:
        return "again" if hmac.compare_digest(item.verifier, verifier) else "pseudonym-taken"
    if phase != "enrolling":
        return "campaign-ended" if phase == "cancelled" else "enrolment-closed"
    if campaign.enrolment == "tokens":
        if token is None or item.used_by is None:
            return "bad-token"
        if token[0] is not None:
            return "token-used"
    return "stored"


def judge_reports(
    items: Sequence[Incoming],
    rows: Sequence[tuple[bytes | None, int | None, bytes | None, int | None]],
    *,
    phase: Phase,
    closed: int,
) -> list[Outcome]:
    """What becomes of a batch, given (verifier, stored cell, stored answer, cell before) of each."""
    outcomes: list[Outcome] = []
    fresh: dict[tuple[int, bytes], tuple[int, bytes]] = {}
    for item, (verifier, cell, answer, before) in zip(items, rows, strict=True):
        key = (item.round, item.pseudonym)
        stored = fresh.get(key) if cell is None or answer is None else (cell, answer)
        outcome = judge(item, phase=phase, closed=closed, verifier=verifier, stored=stored, before_cell=before)
        if outcome == "stored":
            fresh[key] = (item.cell, item.answer)
        outcomes.append(outcome)
    return outcomes


def judge_enrolments(
    items: Sequence[Enrolment], rows: Sequence[tuple[bytes | None, tuple[bytes | None] | None]], *, campaign: Campaign,
    phase: Phase,
) -> list[Outcome]:  # fmt: skip
    """What becomes of a batch, given (verifier, token) of each as in :func:`judge_enrolment`."""
    outcomes: list[Outcome] = []
    names: dict[bytes, bytes] = {}
    used: dict[bytes, bytes | None] = {}
    for item, (verifier, token) in zip(items, rows, strict=True):
        known = names.get(item.pseudonym, verifier)
        if token is not None and item.token in used:
            token = (used[item.token],)
        outcome = judge_enrolment(item, campaign=campaign, phase=phase, verifier=known, token=token)
        if outcome == "stored":
            names[item.pseudonym] = item.verifier
            if item.token is not None:
                used[item.token] = item.used_by
        outcomes.append(outcome)
    return outcomes


def migrations(kind: Literal["sqlite", "postgres"]) -> list[tuple[int, str]]:
    """Numbered SQL files, ascending from 1 without gaps."""
    folder = resources.files(__package__) / "migrations" / kind
    found = []
    for file in folder.iterdir():
        match = re.fullmatch(r"(\d{4})_\w+\.sql", file.name)
        if match:
            found.append((int(match[1]), file.read_text("utf-8")))
    found.sort()
    if [number for number, _ in found] != list(range(1, len(found) + 1)):
        raise InvalidInput(f"migrations must be numbered 1, 2, …; got {[number for number, _ in found]}")
    return found


def check_version(version: int, *, newest: int, where: str) -> None:
    """Refuse a database that is newer than this program."""
    if version > newest:
        raise SchemaMismatch(
            f"the database {where} has schema version {version}, but this program knows versions up to {newest}; "
            "update the program, or use another database"
        )


def check_url(url: str) -> tuple[Literal["sqlite", "postgres"], str]:
    """Kind and address of a database URL."""
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return "sqlite", url[len("sqlite:///") :]
    if url.startswith(("postgresql://", "postgres://")):
        return "postgres", url
    raise InvalidInput(f"--db must be sqlite:///file or postgresql://user@host/name; got {url!r}")


def open_store(url: str, *, worker: str = "0") -> Store:
    """Open a database, create or update its tables, and refuse one of a newer schema.

    Parameters
    ----------
    url : str
        ``sqlite:///file`` or ``postgresql://…``.
    worker : str
        Name under which this process counts what it received; different for every process on one database.
    """
    kind, address = check_url(url)
    if kind == "sqlite":
        from .sqlite import SQLiteStore

        return SQLiteStore(address, worker=worker)
    from .postgres import PostgresStore

    return PostgresStore(address, worker=worker)
