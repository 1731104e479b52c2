"""The store on PostgreSQL: several workers on one database.

Workers that add reports share an advisory lock on the campaign; whoever closes a round takes it alone. Such locks queue
fairly, so a closing is not starved by a stream of reports. Every worker counts in a row of its own, so that workers do
not wait for each other.

Most batches hold new, valid reports of the open round: they are stored by one statement, which returns what is needed
to judge them all at once, and are committed if all are sound. Otherwise nothing of it stays, and every report is looked
up and judged by itself.

Knows SQL. Knows no HTTP and decides nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from ...errors import InvalidInput, MissingExtra, StoreUnavailable
from ..campaign import ENDED, Campaign, Phase, Status
from .base import (
    Applied,
    Enrolment,
    Incoming,
    Item,
    Outcome,
    ReportRow,
    What,
    check_version,
    migrations,
)

try:
    import psycopg
    from psycopg.pq import TransactionStatus
except ImportError:
    raise MissingExtra("psycopg", "postgres") from None

from .postgres_batches import add_participants, add_reports, store_all

__all__ = ["PostgresStore"]

_LOCKS = 0x53_4C_44_50  # first half of the advisory locks' keys: ours
# Every look-up goes through a primary key. The planner cannot know that for tables that have just begun to grow, and
# would read them from end to end for every report.
_PLANS = " ".join(
    f"-c {setting}" for setting in ("enable_seqscan=off", "enable_bitmapscan=off", "jit=off", "synchronous_commit=on")
)
_STATUS = """
SELECT c.task, c.phase, c.round, c.closed,
       (SELECT coalesce(sum(received), 0)::bigint FROM counters n WHERE n.campaign = c.id AND n.round = c.round),
       c.needed, c.deadline,
       (SELECT coalesce(sum(received), 0)::bigint FROM counters n WHERE n.campaign = c.id AND n.round = 0)
FROM campaigns c
"""
_COUNT = """
INSERT INTO counters (campaign, round, worker, received) VALUES (%s, %s, %s, %s)
ON CONFLICT (campaign, round, worker) DO UPDATE SET received = counters.received + excluded.received
"""
Connection = Any


class PostgresStore:
    """A store on a PostgreSQL server.

    Parameters
    ----------
    url : str
        ``postgresql://…``; see libpq for all parameters.
    worker : str
        Name of this process in the counters, different for every process.
    """

    gather = 0.002  # a transaction costs three exchanges with the server and a flush: share it

    def __init__(self, url: str, *, worker: str) -> None:
        self._url, self._worker = url, worker
        self._local = threading.local()
        self._all: set[Connection] = set()
        self._guard = threading.Lock()
        self._closed = False
        self._ids: dict[bytes, int] = {}
        try:
            self._migrate()
        except BaseException:
            self.close()
            raise

    # -- connections -------------------------------------------------------------------------------------------

    def _connection(self) -> Connection:
        connection = getattr(self._local, "connection", None)
        if connection is not None and not connection.closed:
            return connection
        if self._closed:
            raise StoreUnavailable("the store is closed")
        try:
            connection = psycopg.connect(
                self._url, autocommit=True, connect_timeout=5, application_name="semilocal",
                options=_PLANS,
            )  # fmt: skip
        except psycopg.Error as error:
            raise StoreUnavailable(f"cannot reach PostgreSQL: {error}") from error
        self._local.connection = connection
        with self._guard:
            self._all = {other for other in self._all if not other.closed} | {connection}
        return connection

    @contextmanager
    def _guarded(self) -> Iterator[Connection]:
        connection = self._connection()
        try:
            yield connection
        except psycopg.Error as error:
            if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                connection.close()  # the next call opens a new one
            raise StoreUnavailable(f"PostgreSQL: {error}") from error

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._guarded() as connection, connection.transaction():
            yield connection

    def _read(self, sql: str, *values: Any) -> list[Any]:
        with self._guarded() as connection:
            rows: list[Any] = connection.execute(sql, values).fetchall()
            return rows

    def _migrate(self) -> None:
        steps = migrations("postgres")
        with self._writing() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (_LOCKS,))
            connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
            row = connection.execute("SELECT max(version) FROM schema_version").fetchone()
            version = row[0] or 0
            check_version(version, newest=len(steps), where=connection.info.dbname)
            for number, script in steps[version:]:
                connection.execute(script)
                connection.execute("INSERT INTO schema_version VALUES (%s)", (number,))

    def close(self) -> None:
        """Let go of all connections."""
        with self._guard:
            self._closed = True
            for connection in self._all:
                connection.close()
            self._all.clear()

    def ping(self) -> None:
        """Raise ``StoreUnavailable`` if the database does not answer."""
        self._read("SELECT 1")

    # -- campaigns ---------------------------------------------------------------------------------------------

    def setting(self, key: str, *, default: bytes) -> bytes:
        """The stored value; the default is stored if there is none."""
        found = self._read("SELECT value FROM settings WHERE key = %s", key)
        if found:
            return bytes(found[0][0])
        with self._writing() as connection:
            connection.execute("INSERT INTO settings VALUES (%s, %s) ON CONFLICT DO NOTHING", (key, default))
        return bytes(self._read("SELECT value FROM settings WHERE key = %s", key)[0][0])

    def create(self, campaign: Campaign, *, needed: int | None, deadline: int | None) -> bool:
        """Add a campaign in phase "enrolling"; False if its task is there already."""
        with self._writing() as connection:
            done = connection.execute(
                "INSERT INTO campaigns (task, body, phase, round, closed, needed, deadline, fold) "
                "VALUES (%s, %s, 'enrolling', 0, 0, %s, %s, '') ON CONFLICT DO NOTHING",
                (campaign.task.id, msgspec.msgpack.encode(campaign), needed, deadline),
            )
            return bool(done.rowcount == 1)

    def tasks(self) -> list[bytes]:
        """Ids of all tasks in the order of creation."""
        return [bytes(row[0]) for row in self._read("SELECT task FROM campaigns ORDER BY id")]

    def statuses(self, *, active: bool = False) -> dict[bytes, Status]:
        """Where all campaigns stand; only those that have not ended if ``active``."""
        where = f"WHERE c.phase NOT IN {ENDED}" if active else ""
        return {bytes(row[0]): Status(*row[1:]) for row in self._read(f"{_STATUS} {where} ORDER BY c.id")}

    def campaign(self, task: bytes) -> Campaign | None:
        """The campaign of a task."""
        rows = self._read("SELECT body FROM campaigns WHERE task = %s", task)
        return msgspec.msgpack.decode(rows[0][0], type=Campaign) if rows else None

    def status(self, task: bytes) -> Status | None:
        """Where a campaign stands."""
        rows = self._read(f"{_STATUS} WHERE c.task = %s", task)
        return Status(*rows[0][1:]) if rows else None

    def add_tokens(self, task: bytes, hashes: Sequence[bytes]) -> None:
        """Add one-time tokens."""
        with self._writing() as connection:
            row = connection.execute("SELECT id FROM campaigns WHERE task = %s", (task,)).fetchone()
            if row is None:
                raise InvalidInput("tokens belong to a campaign; there is none with this task")
            connection.execute("INSERT INTO tokens SELECT unnest(%b::bytea[]), %s", (list(hashes), row[0]))

    # -- what participants send --------------------------------------------------------------------------------

    def apply(self, batch: Sequence[Item]) -> Applied:
        """Judge and store a batch in one transaction."""
        return self._store_all(batch) or self._judge_each(batch)

    def _store_all(self, batch: Sequence[Item]) -> Applied | None:
        """Store a batch of new, valid reports of one open round; None, and nothing is stored, if it is not that."""
        first = batch[0] if batch else None
        if not isinstance(first, Incoming):
            return None
        items = [
            item
            for item in batch
            if isinstance(item, Incoming)
            and item.task == first.task
            and item.round == first.round
            and item.before == first.before
        ]
        names = {item.pseudonym for item in items}
        if len(names) < len(batch):
            return None
        with self._guarded() as connection:
            number = self._numbers(connection, [first.task]).get(first.task)
            if number is None:
                return None
            try:
                # One exchange for both. The lock comes before the snapshot of what follows.
                connection.execute(f"BEGIN; SELECT pg_advisory_xact_lock_shared({_LOCKS}, {number})")
                full = store_all(connection, number, self._worker, items)
                connection.execute("ROLLBACK" if full is None else "COMMIT")
            except BaseException:  # whatever it was, the connection must not stay inside the transaction
                if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
                    connection.execute("ROLLBACK")
                raise
        if full is None:
            return None
        return Applied(["stored"] * len(items), {first.task} if full else set())

    def _judge_each(self, batch: Sequence[Item]) -> Applied:
        outcomes: list[Outcome] = ["no-such-task"] * len(batch)
        groups: dict[bytes, list[int]] = {}
        for place, item in enumerate(batch):
            groups.setdefault(item.task, []).append(place)
        full = set()
        with self._writing() as connection:
            for task, number in sorted(self._numbers(connection, groups).items(), key=lambda pair: pair[1]):
                connection.execute("SELECT pg_advisory_xact_lock_shared(%s, %s)", (_LOCKS, number))
                phase, round_, closed = connection.execute(
                    "SELECT phase, round, closed FROM campaigns WHERE id = %s", (number,)
                ).fetchone()
                places = groups[task]
                reports = [item for place in places if isinstance(item := batch[place], Incoming)]
                others = [item for place in places if isinstance(item := batch[place], Enrolment)]
                verdicts = [
                    iter(add_reports(connection, number, phase, closed, reports) if reports else ()),
                    iter(add_participants(connection, number, phase, others) if others else ()),
                ]
                counts: dict[int, int] = {}
                for place in places:
                    item = batch[place]
                    outcome = outcomes[place] = next(verdicts[isinstance(item, Enrolment)])
                    if outcome == "stored":
                        added = item.round if isinstance(item, Incoming) else 0
                        counts[added] = counts.get(added, 0) + 1
                for added, received in counts.items():
                    connection.execute(_COUNT, (number, added, self._worker, received))
                if round_ in counts:
                    status = Status(*connection.execute(f"{_STATUS} WHERE c.id = %s", (number,)).fetchone()[1:])
                    if status.needed is not None and status.received >= status.needed:
                        full.add(task)
        return Applied(outcomes, full)

    def _numbers(self, connection: Connection, tasks: Iterable[bytes]) -> dict[bytes, int]:
        """Row numbers of the tasks that exist; they never change."""
        unknown = [task for task in tasks if task not in self._ids]
        if unknown:
            rows = connection.execute("SELECT task, id FROM campaigns WHERE task = ANY(%b)", (unknown,)).fetchall()
            self._ids.update((bytes(task), number) for task, number in rows)
        return {task: self._ids[task] for task in tasks if task in self._ids}

    # -- rounds ------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self, task: bytes) -> Iterator[_Locked | None]:
        """A transaction that holds the campaign alone: others wait. None if there is no such task."""
        with self._writing() as connection:
            row = connection.execute("SELECT id FROM campaigns WHERE task = %s", (task,)).fetchone()
            if row is None:
                yield None
                return
            number = row[0]
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (_LOCKS, number))
            status = Status(*connection.execute(f"{_STATUS} WHERE c.id = %s", (number,)).fetchone()[1:])
            body, fold = connection.execute("SELECT body, fold FROM campaigns WHERE id = %s", (number,)).fetchone()
            yield _Locked(connection, number, msgspec.msgpack.decode(body, type=Campaign), status, bytes(fold))

    def message(self, task: bytes, round_: int, what: What) -> bytes | None:
        """A stored message of a round."""
        sql = f"SELECT r.{what} FROM rounds r JOIN campaigns c ON c.id = r.campaign WHERE c.task = %s AND r.round = %s"
        rows = self._read(sql, task, round_)
        return bytes(rows[0][0]) if rows and rows[0][0] is not None else None

    def reports(self, task: bytes, round_: int, *, after: bytes, limit: int) -> list[ReportRow]:
        """A page of reports by ascending pseudonym."""
        sql = (
            "SELECT r.pseudonym, r.cell, r.answer FROM reports r JOIN campaigns c ON c.id = r.campaign "
            "WHERE c.task = %s AND r.round = %s AND r.pseudonym > %s ORDER BY r.pseudonym LIMIT %s"
        )
        return [ReportRow(*row) for row in self._read(sql, task, round_, after, limit)]


class _Locked:
    """One campaign inside a transaction."""

    def __init__(self, connection: Connection, number: int, campaign: Campaign, status: Status, fold: bytes) -> None:
        self.campaign, self.status, self.fold = campaign, status, fold
        self._connection, self._id = connection, number

    def query(self, round_: int) -> bytes | None:
        sql = "SELECT query FROM rounds WHERE campaign = %s AND round = %s"
        row = self._connection.execute(sql, (self._id, round_)).fetchone()
        return bytes(row[0]) if row else None

    def closings(self) -> Iterator[bytes]:
        sql = "SELECT closed FROM rounds WHERE campaign = %s AND closed IS NOT NULL ORDER BY round"
        for row in self._connection.execute(sql, (self._id,)).fetchall():
            yield bytes(row[0])

    def reports(self, round_: int) -> Iterator[ReportRow]:
        sql = "SELECT pseudonym, cell, answer FROM reports WHERE campaign = %s AND round = %s ORDER BY pseudonym"
        with self._connection.cursor(name="reports") as cursor:
            cursor.itersize = 4096
            cursor.execute(sql, (self._id, round_))
            for row in cursor:
                yield ReportRow(*row)

    def seal(self, round_: int) -> bytes | None:
        sql = "SELECT seal FROM rounds WHERE campaign = %s AND round = %s"
        row = self._connection.execute(sql, (self._id, round_)).fetchone()
        return bytes(row[0]) if row and row[0] is not None else None

    def close_round(self, round_: int, closed: bytes, checkpoint: bytes, seal: bytes) -> None:
        done = self._connection.execute(
            "UPDATE rounds SET closed = %s, checkpoint = %s, seal = %s "
            "WHERE campaign = %s AND round = %s AND closed IS NULL",
            (closed, checkpoint, seal, self._id, round_),
        )
        if done.rowcount != 1:
            raise InvalidInput(f"round {round_} is not open")

    def open_round(self, round_: int, query: bytes) -> None:
        self._connection.execute(
            "INSERT INTO rounds (campaign, round, query) VALUES (%s, %s, %s)", (self._id, round_, query)
        )

    def move(
        self, phase: Phase, *, round_: int, closed: int, needed: int | None, deadline: int | None, fold: bytes
    ) -> None:
        self._connection.execute(
            "UPDATE campaigns SET phase = %s, round = %s, closed = %s, needed = %s, deadline = %s, fold = %s "
            "WHERE id = %s",
            (phase, round_, closed, needed, deadline, fold, self._id),
        )
