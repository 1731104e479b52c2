"""What a SQL database must be able to do for the store, and its connections, one per thread.

A dialect says how it connects, begins and ends a transaction, locks a campaign, and moves whole batches in and out.
Statements have ``?`` for a value; a dialect translates that if it must.

Knows rows, threads and connections. Knows no HTTP.
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import resources
from string import Template
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from ...errors import InvalidInput, SchemaMismatch, StoreUnavailable

__all__ = [
    "OLDEST", "Applied", "Cursor", "Enrolment", "FoundParticipant", "FoundReport", "Incoming", "Item", "Outcome",
    "ReportRow", "StoreDialect", "What", "check_version", "migrations",
]  # fmt: skip

C = TypeVar("C")
# (verifier, stored body) of a report; (verifier, token) of an enrolment.
FoundReport = tuple[bytes | None, bytes | None]
FoundParticipant = tuple[bytes | None, tuple[bytes | None] | None]


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


class Cursor(Protocol):
    """What a statement returned."""

    @property
    def rowcount(self) -> int:
        """Rows that were changed."""

    def fetchone(self) -> Any:
        """The next row, or None."""

    def fetchall(self) -> list[Any]:
        """All rows that are left."""


class StoreDialect(ABC, Generic[C]):
    """A SQL database with a connection ``C`` per thread.

    Attributes
    ----------
    now : str
        Milliseconds of the database's clock, as an expression.
    """

    now: str

    def __init__(self) -> None:
        self._local = threading.local()
        self._all: list[C] = []
        self._guard = threading.Lock()
        self._closed = False

    # -- what a dialect adds -----------------------------------------------------------------------------------

    @abstractmethod
    def _connect(self) -> C:
        """Open a connection, or raise ``StoreUnavailable``."""

    @abstractmethod
    def _usable(self, connection: C) -> bool:
        """Whether a connection can still be used."""

    @abstractmethod
    def _disconnect(self, connection: C) -> None:
        """Close a connection."""

    @abstractmethod
    def _cut(self, connection: C) -> None:
        """Let a call that waits on a connection fail, from another thread."""

    @abstractmethod
    def _migrate(self) -> None:
        """Create the tables, or refuse a database of another schema."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[C]:
        """A transaction; faults of the database become ``StoreUnavailable``."""

    @abstractmethod
    def _read(self, sql: str, *values: Any) -> list[Any]:
        """All rows of a statement outside of a transaction."""

    @abstractmethod
    def _run(self, connection: C, sql: str, *values: Any) -> Cursor:
        """Execute a statement inside a transaction."""

    @abstractmethod
    def _stream(self, connection: C, sql: str, *values: Any) -> Iterator[Any]:
        """Rows of a statement inside a transaction, in bounded memory."""

    @abstractmethod
    def _hold(self, connection: C, number: int, *, alone: bool) -> None:
        """Lock a campaign until the transaction ends: alone, or together with others who do not want it alone."""

    @abstractmethod
    def _find_reports(self, connection: C, number: int, items: list[Incoming]) -> Sequence[FoundReport]:
        """What is stored about each report."""

    @abstractmethod
    def _insert_reports(self, connection: C, number: int, items: list[Incoming]) -> bool:
        """Insert new reports; False, and nothing is inserted, if another worker inserted some meanwhile."""

    @abstractmethod
    def _store_sound(self, items: list[Incoming]) -> Applied | None:
        """Store reports of one round, each by another pseudonym, if all are new and valid.

        None, and nothing is stored, if they are not: then each is judged by itself.
        """

    @abstractmethod
    def _find_participants(self, connection: C, number: int, items: list[Enrolment]) -> Sequence[FoundParticipant]:
        """What is stored about each enrolment."""

    @abstractmethod
    def _insert_participants(self, connection: C, number: int, items: list[Enrolment]) -> bool:
        """Insert new participants and mark their tokens as used; False as in ``_insert_reports``."""

    @abstractmethod
    def _insert_rows(
        self, connection: C, table: str, fixed: Mapping[str, int], columns: Mapping[str, list[Any]]
    ) -> None:
        """Insert rows in one statement: ``fixed`` is the same in all. Values of a column are integers, or bytes of one
        length."""

    @abstractmethod
    def _select_in(
        self, connection: C, table: str, columns: tuple[str, str], fixed: Mapping[str, int], keys: Sequence[bytes]
    ) -> list[tuple[bytes, Any]]:
        """Two columns of the rows whose first column is one of the keys."""

    @abstractmethod
    def wipe(self, tables: Sequence[str]) -> None:
        """Leave no trace of deleted rows in the files of the database; raise ``StoreUnavailable`` if it is busy."""

    @abstractmethod
    def _insert_tokens(self, connection: C, number: int, hashes: Sequence[bytes]) -> None:
        """Insert new tokens."""

    # -- connections -------------------------------------------------------------------------------------------

    def _connection(self) -> C:
        connection: C | None = getattr(self._local, "connection", None)
        if connection is not None and self._usable(connection):
            return connection
        if self._closed:
            raise StoreUnavailable("the store is closed")
        connection = self._local.connection = self._connect()
        with self._guard:
            self._all = [*filter(self._usable, self._all), connection]
        return connection

    def close(self) -> None:
        """Close all connections."""
        with self._guard:
            self._closed = True
            for connection in self._all:
                self._disconnect(connection)
            self._all.clear()
        self._local = threading.local()

    def interrupt(self) -> None:
        """Let every call that waits for the database fail, from any thread; for a database that hangs."""
        with self._guard:
            self._closed = True
            for connection in self._all:
                self._cut(connection)


# -- the tables of a store: numbered scripts of SQL, and which versions of them this program knows -------------------


OLDEST = 6  # version of the first script


def migrations(words: Mapping[str, str]) -> list[tuple[int, str]]:
    """Numbered SQL scripts, ascending without gaps, in the words of a dialect."""
    files: Iterable[Any] = (resources.files(__package__) / "migrations").iterdir()
    found = sorted(
        (int(match[1]), Template(file.read_text("utf-8")).substitute(words))
        for file in files
        if (match := re.fullmatch(r"(\d{4})_\w+\.sql", file.name))
    )
    if [number for number, _ in found] != list(range(OLDEST, OLDEST + len(found))):
        raise InvalidInput(f"migrations must be numbered {OLDEST}, …; got {[number for number, _ in found]}")
    return found


def check_version(version: int, *, newest: int, where: str) -> None:
    """Refuse a database that is newer than this program, or holds campaigns of another protocol; 0 is an empty one."""
    if 0 < version < OLDEST:
        raise SchemaMismatch(
            f"the database {where} has schema version {version}, of a protocol that this program does not play; finish "
            "it with the program that made it, and use a new database"
        )
    if version > newest:
        raise SchemaMismatch(
            f"the database {where} has schema version {version}, but this program knows versions up to {newest}; "
            "update the program, or use another database"
        )
