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

import hmac
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from ..errors import InvalidInput, MissingExtra
from .campaign import ENDED, Campaign, Phase, Status
from .store import (
    Applied,
    Enrolment,
    Incoming,
    Item,
    Outcome,
    ReportRow,
    StoreUnavailable,
    What,
    check_version,
    judge_enrolments,
    judge_reports,
    judge_round,
    migrations,
)

try:
    import psycopg
    from psycopg.pq import TransactionStatus
except ImportError:
    raise MissingExtra("psycopg", "postgres") from None

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
# Sub-selects and not joins: each is one step down a primary key, whatever the planner believes.
_LOOK = """
SELECT (SELECT verifier FROM participants p WHERE p.campaign = %(id)s AND p.pseudonym = i.pseudonym),
       (SELECT cell FROM reports r WHERE r.campaign = %(id)s AND r.round = i.round AND r.pseudonym = i.pseudonym),
       (SELECT answer FROM reports r WHERE r.campaign = %(id)s AND r.round = i.round AND r.pseudonym = i.pseudonym),
       (SELECT cell FROM reports b WHERE b.campaign = %(id)s AND b.round = i.before AND b.pseudonym = i.pseudonym)
FROM unnest(%(pseudonyms)b::bytea[], %(rounds)b::int[], %(before)b::int[])
     WITH ORDINALITY AS i (pseudonym, round, before, n)
ORDER BY i.n
"""
# One row for a whole batch. The verifiers come as one string, to be compared in constant time.
_STORE_ALL = """
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%(pseudonyms)s::bytea[], %(cells)s::bigint[], %(answers)s::bytea[], %(before_cells)s::bigint[])
                  WITH ORDINALITY AS i (pseudonym, cell, answer, before_cell, n)
), added AS (
    INSERT INTO reports (campaign, round, pseudonym, cell, answer)
    SELECT %(id)s, %(round)s, i.pseudonym, i.cell, i.answer FROM given i ORDER BY i.pseudonym
    ON CONFLICT DO NOTHING
    RETURNING 1
), counted AS (
    INSERT INTO counters (campaign, round, worker, received) VALUES (%(id)s, %(round)s, %(worker)s, %(count)s)
    ON CONFLICT (campaign, round, worker) DO UPDATE SET received = counters.received + excluded.received
)
SELECT c.phase, c.closed, c.needed,
       (SELECT coalesce(sum(received), 0)::bigint FROM counters n WHERE n.campaign = c.id AND n.round = %(round)s),
       (SELECT count(*) FROM added),
       looked.verifiers, looked.following
FROM campaigns c, (
    SELECT string_agg((SELECT verifier FROM participants p WHERE p.campaign = %(id)s AND p.pseudonym = i.pseudonym), ''
                      ORDER BY i.n) AS verifiers,
           count(*) FILTER (WHERE %(before)s = 0 OR i.before_cell = (
               SELECT cell FROM reports b
               WHERE b.campaign = %(id)s AND b.round = %(before)s AND b.pseudonym = i.pseudonym
           )) AS following
    FROM given i
) looked
WHERE c.id = %(id)s
"""
# In the order of pseudonyms, so that two workers with the same ones wait for each other in one direction only.
_INSERT = """
INSERT INTO reports (campaign, round, pseudonym, cell, answer)
SELECT %s, i.round, i.pseudonym, i.cell, i.answer
FROM unnest(%b::int[], %b::bytea[], %b::bigint[], %b::bytea[]) AS i (round, pseudonym, cell, answer)
ORDER BY i.round, i.pseudonym
ON CONFLICT DO NOTHING
"""
_ENROL = """
INSERT INTO participants (campaign, pseudonym, verifier)
SELECT %s, i.pseudonym, i.verifier FROM unnest(%b::bytea[], %b::bytea[]) AS i (pseudonym, verifier)
ORDER BY i.pseudonym
ON CONFLICT DO NOTHING
"""
_USE_TOKENS = """
UPDATE tokens SET used_by = i.mark FROM unnest(%b::bytea[], %b::bytea[]) AS i (hash, mark) WHERE tokens.hash = i.hash
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

    gather = 0.004  # a transaction is ten exchanges with the server: share it

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
                phase, closed, needed, received, added, verifiers, following = connection.execute(
                    _STORE_ALL,
                    {
                        "id": number, "round": first.round, "before": first.before, "worker": self._worker,
                        "count": len(items), "pseudonyms": _byte_strings(item.pseudonym for item in items),
                        "cells": _integers(item.cell for item in items),
                        "answers": _byte_strings(item.answer for item in items),
                        "before_cells": _integers(item.before_cell for item in items),
                    },
                ).fetchone()  # fmt: skip
                sound = (
                    added == following == len(items)
                    and hmac.compare_digest(verifiers or b"", b"".join(item.verifier for item in items))
                    and judge_round(first.round, phase=phase, closed=closed) is None
                )
                connection.execute("COMMIT" if sound else "ROLLBACK")
            except BaseException:  # whatever it was, the connection must not stay inside the transaction
                if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
                    connection.execute("ROLLBACK")
                raise
        if not sound:
            return None
        full = needed is not None and received + len(items) >= needed
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
                    iter(_add_reports(connection, number, phase, closed, reports) if reports else ()),
                    iter(_add_participants(connection, number, phase, others) if others else ()),
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


def _add_reports(
    connection: Connection, number: int, phase: Phase, closed: int, items: list[Incoming]
) -> list[Outcome]:
    while True:
        columns = {
            "id": number, "pseudonyms": [item.pseudonym for item in items], "rounds": [item.round for item in items],
            "before": [item.before for item in items],
        }  # fmt: skip
        rows = connection.execute(_LOOK, columns).fetchall()
        outcomes = judge_reports(items, rows, phase=phase, closed=closed)
        new = [item for item, outcome in zip(items, outcomes, strict=True) if outcome == "stored"]
        if not new:
            return outcomes
        # Another worker may have inserted some meanwhile; then nothing of ours stays, and we look again.
        with connection.transaction() as savepoint:
            done = connection.execute(
                _INSERT,
                (
                    number,
                    [i.round for i in new],
                    [i.pseudonym for i in new],
                    [i.cell for i in new],
                    [i.answer for i in new],
                ),
            )
            if done.rowcount == len(new):
                return outcomes
            raise psycopg.Rollback(savepoint)


def _add_participants(connection: Connection, number: int, phase: Phase, items: list[Enrolment]) -> list[Outcome]:
    (body,) = connection.execute("SELECT body FROM campaigns WHERE id = %s", (number,)).fetchone()
    campaign = msgspec.msgpack.decode(body, type=Campaign)
    hashes = [item.token for item in items if item.token is not None]
    # In the order of hashes, so that two workers lock tokens in the same order.
    tokens = dict(
        connection.execute(
            "SELECT hash, used_by FROM tokens WHERE campaign = %s AND hash = ANY(%b) ORDER BY hash FOR UPDATE",
            (number, hashes),
        ).fetchall()
    )
    while True:
        names = dict(
            connection.execute(
                "SELECT pseudonym, verifier FROM participants WHERE campaign = %s AND pseudonym = ANY(%b)",
                (number, [item.pseudonym for item in items]),
            ).fetchall()
        )
        rows = [
            (
                names.get(item.pseudonym),
                (tokens[item.token],) if item.token is not None and item.token in tokens else None,
            )
            for item in items
        ]
        outcomes = judge_enrolments(items, rows, campaign=campaign, phase=phase)
        new = [item for item, outcome in zip(items, outcomes, strict=True) if outcome == "stored"]
        if not new:
            return outcomes
        with connection.transaction() as savepoint:
            done = connection.execute(
                _ENROL, (number, [item.pseudonym for item in new], [item.verifier for item in new])
            )
            if done.rowcount == len(new):
                break
            raise psycopg.Rollback(savepoint)
    used = [item for item in new if item.token is not None and item.token in tokens]
    if used:
        connection.execute(_USE_TOKENS, ([item.token for item in used], [item.used_by for item in used]))
    return outcomes


def _byte_strings(values: Iterable[bytes]) -> str:
    """An array of byte strings in PostgreSQL's notation; the driver's own is several times slower."""
    return "{" + ",".join([f'"\\\\x{value.hex()}"' for value in values]) + "}"


def _integers(values: Iterable[int]) -> str:
    """An array of integers in PostgreSQL's notation."""
    return "{" + ",".join(map(str, values)) + "}"
