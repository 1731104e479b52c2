"""What the service asks of a database, and what it gets back: one contract, and what SQLite and PostgreSQL share of it.

Rules of a store:

1. What a method returned is on disk: a report is acknowledged after its transaction is committed.
2. Reports of a closed round never change, and a round is closed in one transaction, by exactly one worker.
3. Memory of a store does not depend on the number of reports: they are read as a stream.
4. No address, user agent or time of a participant is kept; there is no column for one.

A database adds how it connects, begins and ends a transaction, locks a campaign, and moves whole batches in and out;
each thread has a connection of its own. Statements have ``?`` for a value. Methods block; callers run them in threads.
A connection is what Python's interface to databases says; both kinds have ``execute``.

Knows SQL, addresses of databases and threads. Knows no HTTP.
"""

from __future__ import annotations

import hmac
import re
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import resources
from operator import attrgetter
from string import Template
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from ...errors import InvalidInput, SchemaMismatch, StoreUnavailable
from ..campaign import ENDED, Campaign, Phase, Status
from .pairs import PairTables

Connection = Any
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
AnyItem = TypeVar("AnyItem", Incoming, Enrolment)
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


# -- which reports and enrolments are taken: one judge for all stores ------------------------------------------------


def judge_reports(
    items: Sequence[Incoming], rows: Sequence[FoundReport], *, phase: Phase, closed: int
) -> list[Outcome]:
    """Outcomes of a batch of reports; phase and closed rounds were read in the same transaction."""
    outcomes: list[Outcome] = []
    fresh: dict[tuple[int, bytes], bytes] = {}
    for item, (verifier, body) in zip(items, rows, strict=True):
        key = (item.round, item.pseudonym)
        stored = fresh.get(key) if body is None else body
        if not hmac.compare_digest(item.verifier, verifier or bytes(32)) or verifier is None:
            outcomes.append("unauthorized")
        elif stored is not None:
            outcomes.append("again" if stored == item.body else "other-answer")
        elif item.round <= closed:
            outcomes.append("round-closed")
        elif phase == "cancelled":
            outcomes.append("campaign-ended")
        elif item.round > closed + 1 or phase == "enrolling":
            outcomes.append("not-open-yet")
        else:
            outcomes.append("stored")
            fresh[key] = item.body
    return outcomes


def judge_enrolments(
    items: Sequence[Enrolment], rows: Sequence[FoundParticipant], *, campaign: Campaign, phase: Phase, enrolled: int
) -> list[Outcome]:
    """Outcomes of a batch of enrolments; a token that is known is a tuple of what it was used for, or of None."""
    outcomes: list[Outcome] = []
    names: dict[bytes, bytes] = {}
    used: dict[bytes, bytes | None] = {}
    for item, (verifier, token) in zip(items, rows, strict=True):
        registered = names.get(item.pseudonym, verifier)
        if token is not None and item.token in used:
            token = (used[item.token],)
        refused: Outcome | None = None
        if campaign.enrolment == "tokens":
            if token is None or item.used_by is None:
                refused = "bad-token"
            elif token[0] not in (None, item.used_by):
                refused = "token-used"
        if registered is not None and not hmac.compare_digest(item.verifier, registered):
            outcomes.append("pseudonym-taken")
        elif registered is not None:
            outcomes.append(refused or "again")
        elif phase not in ("enrolling", "collecting"):
            outcomes.append("campaign-ended" if phase == "cancelled" else "enrolment-closed")
        elif campaign.capacity is not None and enrolled + len(names) >= campaign.capacity:
            outcomes.append("enrolment-closed")
        elif refused is not None:
            outcomes.append(refused)
        else:
            outcomes.append("stored")
            names[item.pseudonym] = item.verifier
            if item.token is not None:
                used[item.token] = item.used_by
    return outcomes


# -- the tables of a store: numbered scripts of SQL, and which versions of them this program knows -------------------


OLDEST = 7  # version of the first script
OTHER_VERSION = (
    "another version of semilocal has stored its task, or it is damaged; finish it with the version that made it"
)


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
    """Refuse a database of another version than this program's; 0 is an empty one."""
    if 0 < version < OLDEST:
        raise SchemaMismatch(
            f"the database {where} has schema version {version}, but this program begins at {OLDEST}; finish its "
            "campaigns with the program that made it, and use a new database"
        )
    if version > newest:
        raise SchemaMismatch(
            f"the database {where} has schema version {version}, but this program knows versions up to {newest}; "
            "update the program, or use another database"
        )


# -- statements and rules that are the same on both ------------------------------------------------------------------

# Made here, before there are threads: msgspec builds what it knows about a type at its first use, and crashes the
# process if two threads do so at the same moment.
_read_campaign = msgspec.msgpack.Decoder(Campaign).decode
_RECEIVED = "(SELECT CAST(coalesce(sum(received), 0) AS BIGINT) FROM counters n WHERE n.campaign = c.id AND n.round = "
_STATUS = (
    f"SELECT c.task, c.phase, c.round, c.closed, {_RECEIVED} c.round), c.needed, c.deadline, {_RECEIVED} 0) "
    "FROM campaigns c "
)
_CREATE = (
    "INSERT INTO campaigns (task, body, phase, round, closed, needed, deadline, fold) "
    "VALUES (?, ?, 'enrolling', 0, 0, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_COUNT = (
    "INSERT INTO counters (campaign, round, worker, received) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (campaign, round, worker) DO UPDATE SET received = counters.received + excluded.received"
)
_WRITE = "INSERT INTO settings VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_ROUND = (
    "SELECT r.pseudonym, r.body FROM reports r JOIN campaigns c ON c.id = r.campaign WHERE c.task = ? AND r.round = ?"
)
# Sub-selects and no joins: each is one step down a primary key, whatever a planner believes.
_ODD_REPORTS = (
    "SELECT pseudonym, verifier, body FROM (SELECT i.pseudonym AS pseudonym, i.verifier AS given, "
    "(SELECT verifier FROM participants p WHERE p.campaign = ? AND p.pseudonym = i.pseudonym) AS verifier, "
    "(SELECT body FROM reports r WHERE r.campaign = ? AND r.round = ? AND r.pseudonym = i.pseudonym) AS body "
    "FROM {given}) AS f WHERE body IS NOT NULL OR verifier IS NULL OR verifier <> given"
)
_CLOSE = "UPDATE rounds SET closed = ?, checkpoint = ?, seal = ? WHERE campaign = ? AND round = ? AND closed IS NULL"


class Store(ABC):
    """A store on a SQL database, with a connection per thread.

    ``worker`` names this process in the counters: every process on a database has another name.
    """

    url: str  # what ``open_store`` opens it with
    _for_update = ""  # what locks the rows of a query
    gather = 0.0  # seconds that a writer should wait for more when it has little to write

    def __init__(self, *, worker: str) -> None:
        self._local = threading.local()
        self._all: list[Connection] = []
        self._guard = threading.Lock()
        self._closed = False
        self._worker = worker
        self._numbers: dict[tuple[str, bytes], int] = {}
        self.pairs = PairTables(self)
        try:
            self._migrate()
        except BaseException:
            self.close()
            raise

    # -- what a database adds ----------------------------------------------------------------------------------

    @abstractmethod
    def _connect(self) -> Connection:
        """Open a connection, or raise ``StoreUnavailable``."""

    @abstractmethod
    def _migrate(self) -> None:
        """Create the tables, or refuse a database of another schema."""

    @abstractmethod
    def _guarded(self) -> AbstractContextManager[Connection]:
        """This thread's connection; faults of the database become ``StoreUnavailable``."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Connection]:
        """The same in a transaction."""

    @abstractmethod
    def _hold(self, connection: Connection, number: int, *, alone: bool) -> None:
        """Lock a campaign until the transaction ends: alone, or together with others who do not want it alone."""

    @abstractmethod
    def _table(self, columns: Mapping[str, Sequence[Any]]) -> tuple[str, list[Any]]:
        """Rows that a statement gets from us, as an item ``i`` of its FROM, and its values.

        A column has integers, or bytes.
        """

    @abstractmethod
    def _fetch(self, connection: Connection, names: Sequence[str], sql: str, *values: Any) -> list[Sequence[Any]]:
        """All rows of a statement with columns of these names, as cheap as can be for many."""

    def _insert_rows(
        self, connection: Connection, table: str, fixed: Mapping[str, int], columns: Mapping[str, Sequence[Any]]
    ) -> None:
        """Insert rows in one statement: ``fixed`` is the same in all; a column has integers, or bytes."""
        given, values = self._table(columns)
        cells = ", ".join([*("?" for _ in fixed), *(f"i.{name}" for name in columns)])
        sql = f"INSERT INTO {table} ({', '.join([*fixed, *columns])}) SELECT {cells} FROM {given}"
        self._run(connection, sql, *fixed.values(), *values)

    def _insert_new(
        self, connection: Connection, table: str, fixed: Mapping[str, int], columns: Mapping[str, Sequence[Any]]
    ) -> bool:
        """The same; False, and nothing is inserted, if another worker has inserted some of them meanwhile."""
        self._insert_rows(connection, table, fixed, columns)
        return True

    def _select_in(
        self, connection: Connection, table: str, columns: tuple[str, str], fixed: Mapping[str, int],
        keys: Sequence[bytes], *, lock: bool = False,
    ) -> list[tuple[bytes, Any]]:  # fmt: skip
        """Two columns of the rows whose first column is one of the keys; rows without a value are left out.

        With ``lock`` nobody else changes these rows before the transaction ends.
        """
        if not keys:
            return []
        given, values = self._table({"name": keys})
        where = "".join(f"{name} = ? AND " for name in fixed)
        one = f"SELECT {columns[1]} FROM {table} WHERE {where} {columns[0]} = i.name {self._for_update if lock else ''}"
        sql = f"SELECT i.name AS name, ({one}) AS found FROM {given}"
        rows = self._fetch(connection, ("name", "found"), sql, *fixed.values(), *values)
        return [(name, found) for name, found in rows if found is not None]

    @abstractmethod
    def wipe(self, tables: Sequence[str]) -> None:
        """Leave no trace of deleted rows in the files of the database; raise ``StoreUnavailable`` if it is busy."""

    # -- statements: the same on both but for the mark of a value ------------------------------------------------

    def _marked(self, sql: str) -> str:
        return sql

    def _run(self, connection: Connection, sql: str, *values: Any) -> Any:
        """The cursor of a statement inside a transaction."""
        return connection.execute(self._marked(sql), values)

    def _run_many(self, connection: Connection, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        connection.cursor().executemany(self._marked(sql), rows)

    def _stream(self, connection: Connection, sql: str, *values: Any) -> Iterator[Any]:
        """Rows of a statement inside a transaction, in bounded memory."""
        yield from self._run(connection, sql, *values)

    def _read(self, sql: str, *values: Any) -> list[Any]:
        """All rows of a statement outside of a transaction."""
        with self._guarded() as connection:
            return list(self._run(connection, sql, *values).fetchall())

    def _bytes(self, sql: str, *values: Any) -> bytes | None:
        """The only column of the first row, if there is one and it has a value."""
        rows = self._read(sql, *values)
        return bytes(rows[0][0]) if rows and rows[0][0] is not None else None

    # -- connections -------------------------------------------------------------------------------------------

    def _usable(self, connection: Connection) -> bool:
        return True

    def _connection(self) -> Connection:
        connection = getattr(self._local, "connection", None)
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
                connection.close()
            self._all.clear()
        self._local = threading.local()

    # -- campaigns ---------------------------------------------------------------------------------------------

    def check_writing(self) -> None:
        """Write something; raise ``StoreUnavailable`` if that fails."""
        self.set_setting("written", secrets.token_bytes(8))

    def setting(self, key: str) -> bytes | None:
        """A stored value."""
        return self._bytes("SELECT value FROM settings WHERE key = ?", key)

    def first_setting(self, key: str, value: bytes) -> bytes:
        """Store a value unless there is one; the stored value."""
        with self._writing() as connection:
            self._run(connection, "INSERT INTO settings VALUES (?, ?) ON CONFLICT DO NOTHING", key, value)
        found = self.setting(key)
        assert found is not None
        return found

    def set_setting(self, key: str, value: bytes) -> None:
        """Store a value in place of the one before."""
        with self._writing() as connection:
            self._run(connection, _WRITE, key, value)

    def create(self, campaign: Campaign, *, needed: int | None, deadline: int | None) -> bool:
        """Add a campaign in phase "enrolling"; False if its task is there already."""
        body = msgspec.msgpack.encode(campaign)
        with self._writing() as connection:
            return bool(self._run(connection, _CREATE, campaign.task.id, body, needed, deadline, b"").rowcount)

    def statuses(self, *, active: bool = False) -> dict[bytes, Status]:
        """Where all campaigns stand, in the order of creation; only those that have not ended if ``active``."""
        where = f"WHERE c.phase NOT IN {ENDED}" if active else ""
        return {row[0]: Status(*row[1:]) for row in self._read(f"{_STATUS} {where} ORDER BY c.id")}

    def campaign(self, task: bytes) -> Campaign | None:
        """The campaign of a task."""
        body = self._bytes("SELECT body FROM campaigns WHERE task = ?", task)
        return None if body is None else campaign_of(task, body)

    def status(self, task: bytes) -> Status | None:
        """Where a campaign stands."""
        rows = self._read(f"{_STATUS} WHERE c.task = ?", task)
        return Status(*rows[0][1:]) if rows else None

    def add_tokens(self, task: bytes, hashes: Sequence[bytes]) -> None:
        """Add one-time tokens."""
        with self._writing() as connection:
            number = self._number(connection, task)
            if number is None:
                raise InvalidInput("tokens belong to a campaign; there is none with this task")
            self._insert_rows(connection, "tokens", {"campaign": number}, {"hash": list(hashes)})

    def message(self, task: bytes, round_: int, what: What) -> bytes | None:
        """A stored message of a round."""
        sql = f"SELECT r.{what} FROM rounds r JOIN campaigns c ON c.id = r.campaign WHERE c.task = ? AND r.round = ?"
        return self._bytes(sql, task, round_)

    def reports(self, task: bytes, round_: int, *, after: bytes, limit: int) -> list[ReportRow]:
        """A page of reports by ascending pseudonym."""
        sql = f"{_ROUND} AND r.pseudonym > ? ORDER BY r.pseudonym LIMIT ?"
        return [ReportRow(*row) for row in self._read(sql, task, round_, after, limit)]

    def reports_like(self, task: bytes, round_: int, prefix: bytes) -> list[ReportRow]:
        """The reports of a round whose bodies begin with some bytes, by ascending pseudonym."""
        sql = f"{_ROUND} AND substr(r.body, 1, {len(prefix)}) = ? ORDER BY r.pseudonym"
        return [ReportRow(*row) for row in self._read(sql, task, round_, prefix)]

    def _number(self, connection: Connection, task: bytes, table: str = "campaigns") -> int | None:
        """Row number of a campaign or a pair, if there is one; it never changes."""
        if (table, task) not in self._numbers:
            row = self._run(connection, f"SELECT id FROM {table} WHERE task = ?", task).fetchone()
            if row is None:
                return None
            self._numbers[table, task] = row[0]
        return self._numbers[table, task]

    # -- what participants send --------------------------------------------------------------------------------

    def apply(self, batch: Sequence[Item]) -> Applied:
        """Judge a batch and store what is good, in one transaction."""
        outcomes: list[Outcome] = ["no-such-task"] * len(batch)
        groups: dict[bytes, list[int]] = {}
        for place, item in enumerate(batch):
            groups.setdefault(item.task, []).append(place)
        full = set()
        with self._writing() as connection:
            numbers = {task: number for task in groups if (number := self._number(connection, task)) is not None}
            # All workers lock campaigns in the same order, so that they never wait for each other in a circle.
            for task, number in sorted(numbers.items(), key=lambda pair: pair[1]):
                places = groups[task]
                judged, is_full = self._apply_to(connection, number, [batch[place] for place in places])
                for place, outcome in zip(places, judged, strict=True):
                    outcomes[place] = outcome
                if is_full:
                    full.add(task)
        return Applied(outcomes, full)

    def _apply_to(self, connection: Connection, number: int, items: list[Item]) -> tuple[list[Outcome], bool]:
        """Outcomes of one campaign's items, and whether its open round may be full."""
        enrolments = [item for item in items if isinstance(item, Enrolment)]
        campaign = self._campaign(connection, number) if enrolments else None
        # Places are given out by one worker at a time, so that nobody gets one beyond the capacity.
        self._hold(connection, number, alone=campaign is not None and campaign.capacity is not None)
        sql = "SELECT phase, round, closed FROM campaigns WHERE id = ?"
        phase, round_, closed = self._run(connection, sql, number).fetchone()
        reports = [item for item in items if isinstance(item, Incoming)]
        of_reports = iter(self._add_reports(connection, number, phase, closed, reports))
        of_enrolments = iter(self._add_participants(connection, number, campaign, enrolments) if campaign else ())
        outcomes = [next(of_reports if isinstance(item, Incoming) else of_enrolments) for item in items]
        counts: dict[int, int] = {}
        for item, outcome in zip(items, outcomes, strict=True):
            if outcome == "stored" and (isinstance(item, Enrolment) or item.awaited):
                added = item.round if isinstance(item, Incoming) else 0
                counts[added] = counts.get(added, 0) + 1
        for added, received in counts.items():
            self._run(connection, _COUNT, number, added, self._worker, received)
        if round_ not in counts:
            return outcomes, False
        status = self._status(connection, number)
        return outcomes, status.needed is not None and status.received >= status.needed

    def _status(self, connection: Connection, number: int) -> Status:
        return Status(*self._run(connection, f"{_STATUS} WHERE c.id = ?", number).fetchone()[1:])

    def _campaign(self, connection: Connection, number: int) -> Campaign:
        sql = "SELECT task, body FROM campaigns WHERE id = ?"
        return campaign_of(*self._run(connection, sql, number).fetchone())

    def _add_reports(
        self, connection: Connection, number: int, phase: Phase, closed: int, items: list[Incoming]
    ) -> list[Outcome]:
        while items:
            outcomes = judge_reports(items, self._find_reports(connection, number, items), phase=phase, closed=closed)
            new = _stored(items, outcomes)
            columns = {"pseudonym": [item.pseudonym for item in new], "body": [item.body for item in new]}
            fixed = {"campaign": number, "round": closed + 1}
            if not new or self._insert_new(connection, "reports", fixed, columns):
                return outcomes
        return []

    def _find_reports(self, connection: Connection, number: int, items: list[Incoming]) -> list[FoundReport]:
        """What is stored about each report. Nearly all are new and have the right key; the others are asked for."""
        odd: dict[tuple[int, bytes], FoundReport] = {}
        for round_ in {item.round for item in items}:
            asked = [item for item in items if item.round == round_]
            columns = {"pseudonym": [item.pseudonym for item in asked], "verifier": [item.verifier for item in asked]}
            given, values = self._table(columns)
            sql, names = _ODD_REPORTS.format(given=given), ("pseudonym", "verifier", "body")
            for name, verifier, body in self._fetch(connection, names, sql, number, number, round_, *values):
                odd[round_, name] = verifier, body
        return [odd.get((item.round, item.pseudonym), (item.verifier, None)) for item in items]

    def _add_participants(
        self, connection: Connection, number: int, campaign: Campaign, items: list[Enrolment]
    ) -> list[Outcome]:
        status, fixed = self._status(connection, number), {"campaign": number}
        while True:
            found = self._find_participants(connection, number, items)
            outcomes = judge_enrolments(items, found, campaign=campaign, phase=status.phase, enrolled=status.enrolled)
            new = _stored(items, outcomes)
            columns = {"pseudonym": [item.pseudonym for item in new], "verifier": [item.verifier for item in new]}
            if not new or self._insert_new(connection, "participants", fixed, columns):
                used = [(item.used_by, item.token, number) for item in new if item.token is not None]
                self._run_many(connection, "UPDATE tokens SET used_by = ? WHERE hash = ? AND campaign = ?", used)
                return outcomes

    def _find_participants(self, connection: Connection, number: int, items: list[Enrolment]) -> list[FoundParticipant]:
        """What is stored about each enrolment."""
        fixed, names = {"campaign": number}, [item.pseudonym for item in items]
        # In the order of hashes, so that two workers lock tokens in the same order.
        hashes = sorted({item.token for item in items if item.token is not None})
        known = dict(self._select_in(connection, "tokens", ("hash", "campaign"), fixed, hashes, lock=True))
        used = dict(self._select_in(connection, "tokens", ("hash", "used_by"), fixed, hashes))
        verifiers = dict(self._select_in(connection, "participants", ("pseudonym", "verifier"), fixed, names))
        return [
            (verifiers.get(item.pseudonym), (used.get(item.token),) if item.token in known else None) for item in items
        ]

    # -- rounds ------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self, task: bytes) -> Iterator[Locked | None]:
        """A transaction that holds the campaign alone: others wait. None if there is no such task."""
        with self._writing() as connection:
            number = self._number(connection, task)
            if number is None:
                yield None
                return
            self._hold(connection, number, alone=True)
            (fold,) = self._run(connection, "SELECT fold FROM campaigns WHERE id = ?", number).fetchone()
            campaign, status = self._campaign(connection, number), self._status(connection, number)
            yield Locked(self, connection, number, campaign, status, fold)


def campaign_of(task: bytes, body: bytes) -> Campaign:
    """A stored campaign; refuses one whose task this version reads in another way than the one that made it."""
    try:
        campaign = _read_campaign(body)
    except (msgspec.DecodeError, InvalidInput) as error:
        raise SchemaMismatch(f"{OTHER_VERSION} ({error})") from None
    if campaign.task.id != task:
        raise SchemaMismatch(f"{OTHER_VERSION} (campaign {campaign.name!r}: its task has another id here)")
    return campaign


def _stored(items: list[AnyItem], outcomes: list[Outcome]) -> list[AnyItem]:
    """What is to be stored, by pseudonym: two workers with the same ones wait for each other in one direction only."""
    new = [item for item, outcome in zip(items, outcomes, strict=True) if outcome == "stored"]
    return sorted(new, key=attrgetter("pseudonym"))


class Locked:
    """One campaign inside a transaction that holds it alone."""

    def __init__(
        self, store: Store, connection: Connection, number: int, campaign: Campaign, status: Status, fold: bytes
    ) -> None:
        self.campaign, self.status, self.fold = campaign, status, fold
        self._store, self._connection, self._number = store, connection, number

    def _run(self, sql: str, *values: Any) -> Any:
        return self._store._run(self._connection, sql, *values)

    def message(self, round_: int, what: What) -> bytes | None:
        """A stored message of a round."""
        row = self._run(f"SELECT {what} FROM rounds WHERE campaign = ? AND round = ?", self._number, round_).fetchone()
        return row[0] if row else None

    def reports(self, round_: int) -> Iterator[ReportRow]:
        """Reports of a round by ascending pseudonym, as a stream."""
        sql = "SELECT pseudonym, body FROM reports WHERE campaign = ? AND round = ? ORDER BY pseudonym"
        return (ReportRow(*row) for row in self._store._stream(self._connection, sql, self._number, round_))

    def close_round(self, round_: int, closed: bytes, checkpoint: bytes, seal: bytes) -> None:
        """Write what closes the open round."""
        if self._run(_CLOSE, closed, checkpoint, seal, self._number, round_).rowcount != 1:
            raise InvalidInput(f"round {round_} is not open")

    def open_round(self, round_: int, query: bytes) -> None:
        """Write the query of the next round."""
        self._run("INSERT INTO rounds (campaign, round, query) VALUES (?, ?, ?)", self._number, round_, query)

    def move(self, phase: Phase, **changes: Any) -> None:
        """Go to a phase, and change other columns with it."""
        names = ", ".join(f"{name} = ?" for name in ("phase", *changes))
        self._run(f"UPDATE campaigns SET {names} WHERE id = ?", phase, *changes.values(), self._number)


# -- opening one by its address ---------------------------------------------------------------------------------------


def check_url(url: str) -> tuple[Literal["sqlite", "postgres"], str]:
    """Kind and address of a database URL."""
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return "sqlite", url[len("sqlite:///") :]
    if url.startswith(("postgresql://", "postgres://")):
        return "postgres", url
    raise InvalidInput(f"--db must be sqlite:///file or postgresql://user@host/name; got {url!r}")


def open_store(url: str, *, worker: str = "0") -> Store:
    """Open a database, create its tables if it is empty, and refuse one of another schema."""
    kind, address = check_url(url)
    if kind == "sqlite":
        from .sqlite import SQLiteStore

        return SQLiteStore(address, worker=worker)
    from .postgres import PostgresStore

    return PostgresStore(address, worker=worker)
