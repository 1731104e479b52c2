"""What the service asks of a database, and what it gets back. One contract, two implementations.

Rules of a store:

1. What a method returned is on disk: a report is acknowledged after its transaction is committed.
2. Reports of a closed round never change, and a round is closed in one transaction, by exactly one worker.
3. Memory of a store does not depend on the number of reports: they are read as a stream.
4. No address, user agent or time of a participant is kept; there is no column for one.

Methods block; callers run them in threads. Knows rows and bytes. Knows no HTTP and no verdicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol

from ...errors import InvalidInput
from ..campaign import Campaign, Phase, Status
from .pairs import PairTables

__all__ = [
    "Applied", "Enrolment", "Incoming", "Item", "Locked", "Outcome", "ReportRow", "Store", "What", "check_database",
    "check_url", "open_store",
]  # fmt: skip


class Incoming(NamedTuple):
    """A report that passed every check which needs no database.

    ``body`` is what follows the pseudonym in its canonical bytes. ``awaited`` says whether the round waits for it:
    others are stored too, and close no round.
    """

    task: bytes
    round: int
    pseudonym: bytes
    verifier: bytes
    body: bytes
    awaited: bool


class Enrolment(NamedTuple):
    """A request to enrol; ``token`` and ``used_by`` are hashes, None with open enrolment."""

    task: bytes
    pseudonym: bytes
    verifier: bytes
    token: bytes | None
    used_by: bytes | None


Item = Incoming | Enrolment
What = Literal["query", "closed", "checkpoint", "seal"]
Outcome = Literal[
    "stored", "again", "other-answer", "unauthorized", "round-closed", "not-open-yet", "campaign-ended", "no-such-task",
    "bad-token", "token-used", "pseudonym-taken", "enrolment-closed", "other-upload", "uploads-closed", "bad-upload",
]  # fmt: skip


class Applied(NamedTuple):
    """Outcomes of a batch, and the tasks of which the open round may be full now."""

    outcomes: list[Outcome]
    full: set[bytes]


class ReportRow(NamedTuple):
    """A stored report; ``body`` is what follows the pseudonym in its canonical bytes."""

    pseudonym: bytes
    body: bytes


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
    def url(self) -> str:
        """What ``open_store`` opens it with."""

    @property
    def gather(self) -> float:
        """Seconds that a writer should wait for more when it has little to write."""

    @property
    def pairs(self) -> PairTables:
        """The tables of two-servers pairs."""

    def close(self) -> None:
        """Close all connections."""

    def interrupt(self) -> None:
        """Let every call that waits for the database fail, from any thread; for a database that hangs."""

    def check_writing(self) -> None:
        """Write something; raise ``StoreUnavailable`` if that fails."""

    def setting(self, key: str) -> bytes | None:
        """A stored value."""

    def first_setting(self, key: str, value: bytes) -> bytes:
        """Store a value unless there is one; the stored value."""

    def set_setting(self, key: str, value: bytes | None) -> None:
        """Store a value in place of the one before; None removes it."""

    def create(self, campaign: Campaign, *, needed: int | None, deadline: int | None) -> bool:
        """Add a campaign in phase "enrolling"; False if its task is there already."""

    def statuses(self, *, active: bool = False) -> dict[bytes, Status]:
        """Where all campaigns stand, in the order of creation; only those that have not ended if ``active``."""

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

    def reports_like(self, task: bytes, round_: int, prefix: bytes) -> list[ReportRow]:
        """The reports of a round whose bodies begin with some bytes, by ascending pseudonym."""


def check_url(url: str) -> tuple[Literal["sqlite", "postgres"], str]:
    """Kind and address of a database URL."""
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return "sqlite", url[len("sqlite:///") :]
    if url.startswith(("postgresql://", "postgres://")):
        return "postgres", url
    raise InvalidInput(f"--db must be sqlite:///file or postgresql://user@host/name; got {url!r}")


def check_database(url: str, *, new: bool = False) -> tuple[Literal["sqlite", "postgres"], str]:
    """Kind and address of a database that can be used; a bad SQLite file is refused before anything is touched.

    For the start of a process: the file must not be open in it yet.

    Parameters
    ----------
    url : str
    new : bool
        Whether a database that is not there may be made.
    """
    kind, address = check_url(url)
    if kind == "sqlite":
        from .sqlite import check_file

        check_file(address, new=new)
    return kind, address


def open_store(url: str, *, worker: str = "0") -> Store:
    """Open a database, create its tables if it is empty, and refuse one of another schema.

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
