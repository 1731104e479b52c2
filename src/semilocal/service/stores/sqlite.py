"""The store on SQLite: one file, one process, no set-up.

Write-ahead log with ``synchronous=FULL``: a commit is on disk, whether the process is killed or the power fails.
A writer takes the write lock first (``BEGIN IMMEDIATE``), so closing a round and adding reports exclude each other.

Knows SQL. Knows no HTTP.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from ...errors import InvalidInput, StoreUnavailable
from ..keys import private_file
from .base import Store, campaign_of, check_version, migrations

BUSY_SECONDS = 60
_MAGIC = b"SQLite format 3\0"  # a file begins with this
_SCHEMA, _VERSION = slice(40, 44), slice(60, 64)  # bytes: changes of the schema, user_version
_WORDS = {
    "bytes": "BLOB", "large": "INTEGER", "number": "INTEGER PRIMARY KEY",
    "by_key": "STRICT, WITHOUT ROWID", "by_row": "STRICT",
}  # fmt: skip
_SETTINGS = (
    "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "cache_size = -32768", "wal_autocheckpoint = 4000",
    "secure_delete = ON",
)  # fmt: skip


class SQLiteStore(Store):
    """A store in one file."""

    gather = 0.001  # a thread that wakes costs more than a transaction

    def __init__(self, path: str, *, worker: str = "0") -> None:
        self.path, self.url = path, f"sqlite:///{path}"
        _make_private(Path(path))
        super().__init__(worker=worker)

    def _connect(self) -> sqlite3.Connection:
        connection = None
        try:
            connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=64
            )
            for setting in _SETTINGS:
                connection.execute(f"PRAGMA {setting}")
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
            raise StoreUnavailable(f"cannot open {self.path}: {error}") from error
        return connection

    @contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection()
        try:
            yield connection
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise StoreUnavailable(f"{self.path}: {error}") from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._guarded() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _hold(self, connection: sqlite3.Connection, number: int, *, alone: bool) -> None:
        """A transaction that writes holds the whole database."""

    def _migrate(self) -> None:
        steps = migrations(_WORDS)
        version = self._read("PRAGMA user_version")[0][0]
        newest = steps[-1][0]
        check_version(version, newest=newest, where=self.path)
        if version == 0 and self._read("SELECT count(*) FROM sqlite_schema")[0][0]:
            raise _of_another_program(self.path)
        if version == newest:
            return
        with self._writing() as connection:  # all or nothing
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            for number, script in steps:
                for statement in script.split(";\n") if number > version else ():
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {newest}")

    def wipe(self, tables: Sequence[str]) -> None:
        with self._guarded() as connection:
            connection.execute("VACUUM")
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreUnavailable(f"{self.path}: the write-ahead log is in use; it is emptied later")

    # -- batches -----------------------------------------------------------------------------------------------

    # A batch goes in and out in one piece: json_each gives the rows, and what is in them is cut out of long strings.
    # Each step of a statement releases the interpreter's lock and waits for it again; row by row a busy event loop
    # would starve us.

    def _table(self, columns: Mapping[str, Sequence[Any]]) -> tuple[str, list[Any]]:
        cells, values, count = [], list[Any](), 0
        for name, column in columns.items():
            cell, more = _cell(column)
            cells.append(f"{cell} AS {name}")
            values += more
            count = len(column)
        rows = "[" + ",".join("0" * count) + "]"
        return f"(SELECT {', '.join(cells)} FROM json_each(?)) AS i", [*values, rows]

    def _fetch(
        self, connection: sqlite3.Connection, names: Sequence[str], sql: str, *values: Any
    ) -> list[Sequence[Any]]:
        cells = ", ".join(f"CASE typeof({name}) WHEN 'blob' THEN hex({name}) ELSE {name} END" for name in names)
        sql = f"SELECT json_group_array(json_array({cells})) FROM ({sql})"
        rows = msgspec.json.decode(connection.execute(sql, values).fetchone()[0])
        return [[bytes.fromhex(one) if isinstance(one, str) else one for one in row] for row in rows]


def _cell(column: Sequence[Any]) -> tuple[str, list[Any]]:
    """What cuts a row's value out of a column that was given as one string, and the strings."""
    if isinstance(column[0], int):
        return "CAST(substr(?, key * 20 + 1, 20) AS INTEGER)", ["".join(f"{number:20}" for number in column)]
    lengths = [len(one) for one in column]
    if min(lengths) == max(lengths):
        width = lengths[0]
        return (f"substr(?, key * {width} + 1, {width})", [b"".join(column)]) if width else ("zeroblob(0)", [])
    begin, begins = _cell([*accumulate([1, *lengths])])
    length, sizes = _cell(lengths)
    return f"substr(?, {begin}, {length})", [b"".join(column), *begins, *sizes]


def check_file(path: str, *, new: bool = False) -> None:
    """Refuse a file that is not there (unless it may be made), is no database, or belongs to another program.

    A new one needs a folder. Reads the first bytes alone and changes nothing. Closing them would give up SQLite's locks
    of this process, so the database must not be open in it.
    """
    if new and not Path(path).parent.is_dir():
        raise InvalidInput(f"--db sqlite:///{path}: there is no folder {Path(path).parent}; make it, or check the name")
    try:
        with open(path, "rb") as file:
            head = file.read(100)
        logged = Path(f"{path}-wal")
        current = not logged.exists() or not logged.stat().st_size  # else the first page may be older than the log
    except FileNotFoundError:
        if new:
            return
        raise InvalidInput(f"--db sqlite:///{path}: there is no file {path}; check the name") from None
    except OSError as error:
        raise StoreUnavailable(f"cannot open {path}: {error.strerror}") from error
    if head and not head.startswith(_MAGIC):
        raise InvalidInput(f"{path} is not a database; name a new file, or one that a server made")
    if current and any(head[_SCHEMA]) and not any(head[_VERSION]):
        raise _of_another_program(path)


def _of_another_program(path: str) -> InvalidInput:
    return InvalidInput(f"{path} belongs to another program; name a new file")


def back_up(path: str, out: Path) -> dict[str, int]:
    """Copy a database, also while it is served, into a file for its owner alone; rows by table.

    The copy is one moment of the database. It is checked before it gets its name: pages, references between tables,
    and that every campaign can be read. An earlier copy of that name is replaced in one step, anything else refused.
    """
    check_file(path)
    if out.exists():
        check_file(str(out))
        if out.samefile(path) or any(Path(f"{out}{end}").exists() for end in ("-wal", ".lock")):
            raise InvalidInput(f"{out} is a database in use, and no backup; name another file")
    try:
        with (
            private_file(out) as fresh,
            contextlib.closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as source,
            contextlib.closing(sqlite3.connect(fresh)) as copy,
        ):
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, complete in itself
            return _check_copy(copy, path)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{path} cannot be copied: {error}") from error
    except OSError as error:
        raise InvalidInput(f"cannot write {out}: {error.strerror}; name another file") from None


def _check_copy(copy: sqlite3.Connection, path: str) -> dict[str, int]:
    """Rows by table; refuses a copy that is damaged."""
    faults = [str(row[0]) for row in copy.execute("PRAGMA integrity_check(3)") if row[0] != "ok"]
    faults += [f"a row of {row[0]} belongs to nothing" for row in copy.execute("PRAGMA foreign_key_check")][:3]
    if faults:
        raise StoreUnavailable(f"{path} is damaged, and no backup was made: {'; '.join(faults)}")
    for task, body in copy.execute("SELECT task, body FROM campaigns"):
        campaign_of(task, body)
    tables = ("campaigns", "pairs", "participants", "reports", "pair_uploads")
    return {table: copy.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


def lock_for_serving(path: str) -> int:
    """Take the only right to serve a database; a handle to keep open. The lock ends with the process.

    Reading and writing by other processes, such as ``semilocal campaign --db``, is not affected.
    """
    import fcntl

    _make_private(Path(path))
    handle = os.open(f"{os.path.realpath(path)}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(handle, 20).decode("ascii", "replace").strip()
        os.close(handle)
        raise InvalidInput(
            f"{path} is served by another process{f' ({owner})' if owner else ''}; stop it first, or name another --db"
        ) from None
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()}\n".encode())
    return handle


def _make_private(path: Path) -> None:
    """Make the file for the owner alone. SQLite gives its other files the same permissions.

    Refuses a file with several names (hard links): lock and log are found by the name, so under another one the same
    database would be served twice, and without what is in the log.
    """
    try:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        if path.is_file() and (names := path.stat().st_nlink) > 1:
            raise InvalidInput(
                f"{path} has {names} names (hard links), and a database must have one: under each of them it could be "
                f"served, and be damaged. Remove the others; find them with: find FOLDER -samefile {path}"
            )
        if path.stat().st_mode & 0o077 and path.stat().st_uid == os.geteuid():
            for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
                with contextlib.suppress(FileNotFoundError):
                    name.chmod(0o600)
    except OSError as error:
        raise StoreUnavailable(f"cannot open {path}: {error.strerror}") from error
