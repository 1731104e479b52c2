"""The store on PostgreSQL: several workers on one database.

Workers that add reports share an advisory lock on the campaign; a worker that closes a round takes it alone. Such locks
queue fairly, so a closing is not starved by a stream of reports. Every worker counts in a row of its own, so that
workers do not wait for each other.

Knows SQL. Knows no HTTP.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from operator import attrgetter
from typing import Any

from ...errors import MissingExtra, StoreUnavailable, printable
from .sql import Enrolment, FoundParticipant, FoundReport, Incoming, SQLStore, check_version, migrations

try:
    import psycopg
    from psycopg.rows import TupleRow
except ImportError:
    raise MissingExtra("psycopg", "postgres") from None

__all__ = ["PostgresStore"]

_LOCKS = 0x53_4C_44_50  # first half of the advisory locks' keys: ours
# Every look-up goes through a primary key. The planner cannot know that for tables that have just begun to grow, and
# would read them from end to end for every report. Nor is it told "key = ANY(…)": it then reads all rows of a campaign.
_PLANS = " ".join(
    f"-c {setting}"
    for setting in (
        "enable_seqscan=off",
        "enable_bitmapscan=off",
        "enable_hashjoin=off",
        "enable_mergejoin=off",
        "jit=off",
        "synchronous_commit=on",
    )
)
_WORDS = {
    "bytes": "BYTEA", "large": "BIGINT", "number": "INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "by_key": "", "by_row": "",
}  # fmt: skip
Connection = psycopg.Connection[TupleRow]
_by_pseudonym = attrgetter("pseudonym")

# Sub-selects and not joins: each is one step down a primary key, whatever the planner believes.
_LOOK = """
SELECT (SELECT verifier FROM participants p WHERE p.campaign = %(id)s AND p.pseudonym = i.pseudonym),
       (SELECT body FROM reports r WHERE r.campaign = %(id)s AND r.round = i.round AND r.pseudonym = i.pseudonym)
FROM unnest(%(pseudonyms)b::bytea[], %(rounds)b::int[]) WITH ORDINALITY AS i (pseudonym, round, n)
ORDER BY i.n
"""
# In the order of pseudonyms, so that two workers with the same ones wait for each other in one direction only.
_INSERT = """
INSERT INTO reports (campaign, round, pseudonym, body)
SELECT %s, i.round, i.pseudonym, i.body
FROM unnest(%b::int[], %b::bytea[], %b::bytea[]) AS i (round, pseudonym, body)
ORDER BY i.round, i.pseudonym
ON CONFLICT DO NOTHING
"""
_ENROL = """
INSERT INTO participants (campaign, pseudonym, verifier)
SELECT %s, i.pseudonym, i.verifier FROM unnest(%b::bytea[], %b::bytea[]) AS i (pseudonym, verifier)
ORDER BY i.pseudonym
ON CONFLICT DO NOTHING
"""
_EACH = "FROM unnest(%b::bytea[]) AS i ({})"
_LOCK_TOKENS = f"""
SELECT t.* {_EACH.format("hash")},
       LATERAL (SELECT hash, used_by FROM tokens WHERE hash = i.hash AND campaign = %s FOR UPDATE) t
"""
_USE_TOKENS = """
UPDATE tokens SET used_by = i.mark FROM unnest(%b::bytea[], %b::bytea[]) AS i (hash, mark)
WHERE tokens.hash = i.hash AND tokens.campaign = %s
"""


class PostgresStore(SQLStore[Connection]):
    """A store on a PostgreSQL server.

    Parameters
    ----------
    url : str
        ``postgresql://…``; see libpq for all parameters.
    worker : str
        Name of this process in the counters, different for every process.
    check : bool
        Whether to create or check the tables now.
    """

    gather = 0.002  # a transaction costs three exchanges with the server and a flush: share it

    def __init__(self, url: str, *, worker: str, check: bool = True) -> None:
        self._url = self.url = url
        super().__init__(worker=worker, check=check)

    def _connect(self) -> Connection:
        try:
            return psycopg.connect(
                self._url, autocommit=True, connect_timeout=5, application_name="semilocal", options=_PLANS
            )
        except psycopg.Error as error:
            raise StoreUnavailable(f"cannot reach PostgreSQL: {printable(str(error))}") from error

    def _usable(self, connection: Connection) -> bool:
        return not connection.closed

    def _disconnect(self, connection: Connection) -> None:
        connection.close()

    def _cut(self, connection: Connection) -> None:
        if not connection.closed:
            with socket.socket(fileno=os.dup(connection.fileno())) as wire, contextlib.suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def _guarded(self) -> Iterator[Connection]:
        connection = self._connection()
        try:
            yield connection
        except psycopg.Error as error:
            if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                connection.close()  # the next call opens a new one
            raise StoreUnavailable(f"PostgreSQL: {printable(str(error))}") from error

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._guarded() as connection, connection.transaction():
            yield connection

    def _read(self, sql: str, *values: Any) -> list[Any]:
        with self._guarded() as connection:
            return self._run(connection, sql, *values).fetchall()

    def _run(self, connection: Connection, sql: str, *values: Any) -> psycopg.Cursor[TupleRow]:
        return connection.execute(_marked(sql), values)

    def _stream(self, connection: Connection, sql: str, *values: Any) -> Iterator[Any]:
        with connection.cursor(name="semilocal") as cursor:
            cursor.itersize = 4096
            cursor.execute(_marked(sql), values)
            yield from cursor

    def _hold(self, connection: Connection, number: int, *, alone: bool) -> None:
        lock = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
        connection.execute(f"SELECT {lock}(%s, %s)", (_LOCKS, number))

    def _migrate(self) -> None:
        steps = migrations(_WORDS)
        with self._writing() as connection:
            self._hold(connection, 0, alone=True)
            connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
            (version,) = _row(connection.execute("SELECT coalesce(max(version), 0) FROM schema_version"))
            check_version(version, newest=steps[-1][0], where=connection.info.dbname)
            for number, script in steps:
                if number > version:
                    connection.execute(script)
                    connection.execute("INSERT INTO schema_version VALUES (%s)", (number,))

    # -- batches -----------------------------------------------------------------------------------------------

    def wipe(self, tables: Sequence[str]) -> None:
        """Rewrite the tables. The server's write-ahead log is its own: it is recycled when the server sees fit."""
        with self._guarded() as connection:
            for table in tables:
                connection.execute(f"VACUUM FULL {table}")

    def _insert_rows(
        self, connection: Connection, table: str, fixed: Mapping[str, int], columns: Mapping[str, list[Any]]
    ) -> None:
        kinds = ["bigint" if isinstance(column[0], int) else "bytea" for column in columns.values()]
        arrays = ", ".join(f"%b::{kind}[]" for kind in kinds)
        columns_sql = ", ".join([*(["%s"] * len(fixed)), "i.*"])
        connection.execute(
            f"INSERT INTO {table} ({', '.join([*fixed, *columns])}) SELECT {columns_sql} FROM unnest({arrays}) AS i",
            (*fixed.values(), *columns.values()),
        )

    def _select_in(
        self, connection: Connection, table: str, columns: tuple[str, str], fixed: Mapping[str, int],
        keys: Sequence[bytes],
    ) -> list[tuple[bytes, Any]]:  # fmt: skip
        key, value = columns
        where = "".join(f"{name} = %s AND " for name in fixed)
        sql = f"SELECT i.{key}, (SELECT {value} FROM {table} t WHERE {where} t.{key} = i.{key}) {_EACH.format(key)}"
        rows = connection.execute(sql, (*fixed.values(), list(keys))).fetchall()
        return [(bytes(name), found) for name, found in rows if found is not None]

    def _insert_tokens(self, connection: Connection, number: int, hashes: Sequence[bytes]) -> None:
        connection.execute("INSERT INTO tokens SELECT unnest(%b::bytea[]), %s", (list(hashes), number))

    def _find_reports(self, connection: Connection, number: int, items: list[Incoming]) -> Sequence[FoundReport]:
        names, rounds = [item.pseudonym for item in items], [item.round for item in items]
        return connection.execute(_LOOK, {"id": number, "pseudonyms": names, "rounds": rounds}).fetchall()

    def _insert_reports(self, connection: Connection, number: int, items: list[Incoming]) -> bool:
        rounds, names = [item.round for item in items], [item.pseudonym for item in items]
        bodies = [item.body for item in items]
        return _all_or_none(connection, len(items), _INSERT, (number, rounds, names, bodies))

    def _find_participants(
        self, connection: Connection, number: int, items: list[Enrolment]
    ) -> Sequence[FoundParticipant]:
        # In the order of hashes, so that two workers lock tokens in the same order.
        hashes = sorted(item.token for item in items if item.token is not None)
        tokens: dict[bytes | None, bytes | None] = dict(connection.execute(_LOCK_TOKENS, (hashes, number)).fetchall())
        wanted = [item.pseudonym for item in items]
        names = dict(
            self._select_in(connection, "participants", ("pseudonym", "verifier"), {"campaign": number}, wanted)
        )
        return [
            (names.get(item.pseudonym), (tokens[item.token],) if item.token and item.token in tokens else None)
            for item in items
        ]

    def _insert_participants(self, connection: Connection, number: int, items: list[Enrolment]) -> bool:
        names, verifiers = [item.pseudonym for item in items], [item.verifier for item in items]
        if not _all_or_none(connection, len(items), _ENROL, (number, names, verifiers)):
            return False
        used = [item for item in items if item.token is not None]
        if used:
            connection.execute(_USE_TOKENS, ([item.token for item in used], [item.used_by for item in used], number))
        return True


def _all_or_none(connection: Connection, count: int, sql: str, values: tuple[Any, ...]) -> bool:
    """Insert rows; False, and none is inserted, if another worker has inserted some of them."""
    with connection.transaction() as savepoint:
        done = connection.execute(sql, values).rowcount == count
        if not done:
            raise psycopg.Rollback(savepoint)
    return done


def _row(cursor: psycopg.Cursor[TupleRow]) -> TupleRow:
    row = cursor.fetchone()
    assert row is not None
    return row


@cache
def _marked(sql: str) -> str:
    """A shared statement with PostgreSQL's mark for a value."""
    return sql.replace("?", "%s")
