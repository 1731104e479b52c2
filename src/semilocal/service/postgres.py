"""The store on PostgreSQL: several workers on one database.

Workers that add reports share an advisory lock on the campaign; whoever closes a round takes it alone. Such locks queue
fairly, so a closing is not starved by a stream of reports. Every worker counts in a row of its own, so that workers do not wait for
each other. A batch is one look-up and one insert, however many reports it holds.

Knows SQL. Knows no HTTP and decides nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

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
    check_version,
    judge,
    judge_enrolment,
    migrations,
)

try:
    import psycopg
except ImportError:
    raise MissingExtra("psycopg", "postgres") from None

__all__ = ["PostgresStore"]

_LOCKS = 0x53_4C_44_50  # first half of the advisory locks' keys: ours
# Every look-up goes through a primary key. The planner cannot know that for tables that have just begun to grow, and would
# read them from end to end for every report.
_PLANS = " ".join(
    f"-c {setting}"
    for setting in ("enable_seqscan=off", "enable_bitmapscan=off", "jit=off", "synchronous_commit=on")
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
# In the order of pseudonyms, so that two workers with the same ones wait for each other in one direction only.
_INSERT = """
INSERT INTO reports (campaign, round, pseudonym, cell, answer)
SELECT %s, i.round, i.pseudonym, i.cell, i.answer
FROM unnest(%b::int[], %b::bytea[], %b::bigint[], %b::bytea[]) AS i (round, pseudonym, cell, answer)
ORDER BY i.round, i.pseudonym
ON CONFLICT DO NOTHING
RETURNING round, pseudonym
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

    def __init__(self, url: str, *, worker: str) -> None:
        self._url, self._worker = url, worker
        self._local = threading.local()
        self._all: set[Connection] = set()
        self._guard = threading.Lock()
        self._closed = False
        self._migrate()

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
        outcomes: list[Outcome] = ["no-such-task"] * len(batch)
        groups: dict[bytes, list[int]] = {}
        for place, item in enumerate(batch):
            groups.setdefault(item.task, []).append(place)
        full = set()
        with self._writing() as connection:
            ids = dict(connection.execute("SELECT task, id FROM campaigns WHERE task = ANY(%b)", (list(groups),)).fetchall())
            for task, number in sorted(ids.items(), key=lambda pair: pair[1]):
                connection.execute("SELECT pg_advisory_xact_lock_shared(%s, %s)", (_LOCKS, number))
                body, phase, round_, closed = connection.execute(
                    "SELECT body, phase, round, closed FROM campaigns WHERE id = %s", (number,)
                ).fetchone()
                places = groups[task]
                reports = [place for place in places if isinstance(batch[place], Incoming)]
                _add_reports(connection, number, phase, closed, batch, reports, outcomes)
                others = [place for place in places if isinstance(batch[place], Enrolment)]
                if others:
                    campaign = msgspec.msgpack.decode(body, type=Campaign)
                    # By token, so that two workers lock tokens in the same order.
                    for place in sorted(others, key=lambda place: batch[place].token or b""):  # type: ignore[union-attr]
                        outcomes[place] = _add_participant(connection, number, campaign, phase, batch[place])
                if self._count(connection, number, round_, [batch[place] for place in places if outcomes[place] == "stored"]):
                    full.add(task)
        return Applied(outcomes, full)

    def _count(self, connection: Connection, number: int, open_round: int, added: Sequence[Item]) -> bool:
        """Count what was added; whether the open round is full."""
        counts: dict[int, int] = {}
        for item in added:
            round_ = item.round if isinstance(item, Incoming) else 0
            counts[round_] = counts.get(round_, 0) + 1
        for round_, received in counts.items():
            connection.execute(_COUNT, (number, round_, self._worker, received))
        if open_round not in counts:
            return False
        status = Status(*connection.execute(f"{_STATUS} WHERE c.id = %s", (number,)).fetchone()[1:])
        return status.needed is not None and status.received >= status.needed

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

    def message(self, task: bytes, round_: int, what: Literal["query", "closed", "checkpoint"]) -> bytes | None:
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

    def close_round(self, round_: int, closed: bytes, checkpoint: bytes) -> None:
        done = self._connection.execute(
            "UPDATE rounds SET closed = %s, checkpoint = %s WHERE campaign = %s AND round = %s AND closed IS NULL",
            (closed, checkpoint, self._id, round_),
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
            "UPDATE campaigns SET phase = %s, round = %s, closed = %s, needed = %s, deadline = %s, fold = %s WHERE id = %s",
            (phase, round_, closed, needed, deadline, fold, self._id),
        )


def _add_reports(
    connection: Connection, number: int, phase: Phase, closed: int, batch: Sequence[Item], places: list[int],
    outcomes: list[Outcome],
) -> None:  # fmt: skip
    """Judge and insert reports of one campaign; again for those that another worker inserted meanwhile."""
    while places:
        items: list[Any] = [batch[place] for place in places]
        columns = {
            "id": number, "pseudonyms": [i.pseudonym for i in items], "rounds": [i.round for i in items],
            "before": [i.before for i in items],
        }  # fmt: skip
        rows = connection.execute(_LOOK, columns).fetchall()
        new: dict[tuple[int, bytes], int] = {}
        for place, item, (verifier, cell, answer, before) in zip(places, items, rows, strict=True):
            key = (item.round, item.pseudonym)
            stored = None if cell is None else (cell, answer)
            if stored is None and key in new:  # twice in this batch
                first: Any = batch[new[key]]
                stored = (first.cell, first.answer)
            outcomes[place] = judge(
                item, phase=phase, closed=closed, verifier=verifier, stored=stored, before_cell=before
            )
            if outcomes[place] == "stored":
                new[key] = place
        if not new:
            return
        added: list[Any] = [batch[place] for place in new.values()]
        values = ([i.round for i in added], [i.pseudonym for i in added], [i.cell for i in added], [i.answer for i in added])
        done = set(connection.execute(_INSERT, (number, *values)).fetchall())
        lost = {key for key in new if key not in done}
        places = [place for place, item in zip(places, items, strict=True) if (item.round, item.pseudonym) in lost]


def _add_participant(connection: Connection, number: int, campaign: Campaign, phase: Phase, item: Any) -> Outcome:
    token = None
    if item.token is not None:
        sql = "SELECT used_by FROM tokens WHERE hash = %s AND campaign = %s FOR UPDATE"
        token = connection.execute(sql, (item.token, number)).fetchone()
    while True:
        known = connection.execute(
            "SELECT verifier FROM participants WHERE campaign = %s AND pseudonym = %s", (number, item.pseudonym)
        ).fetchone()
        outcome = judge_enrolment(item, campaign=campaign, phase=phase, verifier=known and known[0], token=token)
        if outcome != "stored":
            return outcome
        done = connection.execute(
            "INSERT INTO participants VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", (number, item.pseudonym, item.verifier)
        )
        if done.rowcount == 1:
            break
    if campaign.enrolment == "tokens":
        connection.execute("UPDATE tokens SET used_by = %s WHERE hash = %s", (item.used_by, item.token))
    return outcome
