"""The store on PostgreSQL: several servers on one database.

Workers that add reports share an advisory lock on the campaign; a worker that closes a round takes it alone. Such locks
queue fairly, so a closing is not starved by a stream of reports. Every worker counts in a row of its own, so that
workers do not wait for each other.

Knows SQL. Knows no HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...errors import MissingExtra, StoreUnavailable, printable
from .base import Store, check_version, migrations

try:
    import psycopg
    from psycopg.rows import TupleRow
except ImportError:
    raise MissingExtra("psycopg", "postgres") from None

_LOCKS = 0x53_4C_44_50  # first half of the advisory locks' keys: ours
# Every look-up goes through a primary key. The planner cannot know that for tables that have just begun to grow, and
# would read them from end to end for every report. Nor is it told "key = ANY(…)": it then reads all rows of a campaign.
_PLANS = (
    "-c enable_seqscan=off -c enable_bitmapscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off "
    "-c synchronous_commit=on"
)
_WORDS = {
    "bytes": "BYTEA", "large": "BIGINT", "number": "INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "by_key": "", "by_row": "",
}  # fmt: skip
Connection = psycopg.Connection[TupleRow]


class PostgresStore(Store):
    """A store on a PostgreSQL server."""

    _for_update = "FOR UPDATE"
    gather = 0.002  # a transaction costs three exchanges with the server and a flush: share it

    def __init__(self, url: str, *, worker: str) -> None:
        self.url = url
        super().__init__(worker=worker)

    def _connect(self) -> Connection:
        try:
            return psycopg.connect(
                self.url, autocommit=True, connect_timeout=5, application_name="semilocal", options=_PLANS
            )
        except psycopg.Error as error:
            raise StoreUnavailable(f"cannot reach PostgreSQL: {printable(str(error))}") from error

    def _usable(self, connection: Connection) -> bool:
        return not connection.closed

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

    def _marked(self, sql: str) -> str:
        return sql.replace("?", "%s")

    def _stream(self, connection: Connection, sql: str, *values: Any) -> Iterator[Any]:
        with connection.cursor(name="semilocal") as cursor:
            cursor.itersize = 4096
            cursor.execute(self._marked(sql), values)
            yield from cursor

    def _hold(self, connection: Connection, number: int, *, alone: bool) -> None:
        lock = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
        connection.execute(f"SELECT {lock}(%s, %s)", (_LOCKS, number))

    def _migrate(self) -> None:
        steps = migrations(_WORDS)
        with self._writing() as connection:
            self._hold(connection, 0, alone=True)
            connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
            ((version,),) = connection.execute("SELECT coalesce(max(version), 0) FROM schema_version").fetchall()
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

    def _table(self, columns: Mapping[str, Sequence[Any]]) -> tuple[str, list[Any]]:
        kinds = ["bigint" if isinstance(column[0], int) else "bytea" for column in columns.values()]
        arrays = ", ".join(f"%b::{kind}[]" for kind in kinds)
        return f"unnest({arrays}) AS i ({', '.join(columns)})", [list(column) for column in columns.values()]

    def _fetch(self, connection: Connection, names: Sequence[str], sql: str, *values: Any) -> list[Sequence[Any]]:
        return list(self._run(connection, sql, *values).fetchall())

    def _insert_new(
        self, connection: Connection, table: str, fixed: Mapping[str, int], columns: Mapping[str, Sequence[Any]]
    ) -> bool:
        try:
            with connection.transaction():  # a savepoint
                self._insert_rows(connection, table, fixed, columns)
        except psycopg.errors.UniqueViolation:
            return False
        return True
