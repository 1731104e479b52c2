"""The store on SQLite: one file, one process, no set-up.

Write-ahead log with ``synchronous=FULL``: a commit is on disk, whether the process is killed or the power fails.
Whoever writes takes the write lock first (``BEGIN IMMEDIATE``), so closing a round and adding reports exclude each
other.

Knows SQL. Knows no HTTP and decides nothing.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from ...errors import InvalidInput, StoreUnavailable
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
    judge_enrolments,
    judge_reports,
    migrations,
)

__all__ = ["SQLiteStore"]

BUSY_SECONDS = 60
_STATUS = """
SELECT c.task, c.phase, c.round, c.closed,
       (SELECT coalesce(sum(received), 0) FROM counters n WHERE n.campaign = c.id AND n.round = c.round),
       c.needed, c.deadline,
       (SELECT coalesce(sum(received), 0) FROM counters n WHERE n.campaign = c.id AND n.round = 0)
FROM campaigns c
"""
# A batch goes in and out in one piece: json_each gives the rows, keys and answers are cut out of long strings. Each
# step of a statement lets go of the interpreter's lock and waits for it again; row by row a busy event loop would
# starve us.
_LOOK_REPORTS = """
SELECT json_group_array(json_array(key, hex(verifier), stored, before)) FROM (
    SELECT key,
           (SELECT verifier FROM participants WHERE campaign = :id AND pseudonym = name) AS verifier,
           (SELECT cell || ' ' || hex(answer) FROM reports
            WHERE campaign = :id AND round = :round AND pseudonym = name) AS stored,
           (SELECT cell FROM reports WHERE campaign = :id AND round = :before AND pseudonym = name) AS before
    FROM (SELECT key, substr(:names, key * 16 + 1, 16) AS name FROM json_each(:rows))
)
"""
_ADD_REPORTS = """
INSERT INTO reports (campaign, round, pseudonym, cell, answer)
SELECT :id, :round, substr(:names, key * 16 + 1, 16), value, substr(:answers, key * :width + 1, :width)
FROM json_each(:rows)
"""
_LOOK_PARTICIPANTS = """
SELECT json_group_array(json_array(key, hex(verifier), known, hex(used))) FROM (
    SELECT key,
           (SELECT verifier FROM participants
            WHERE campaign = :id AND pseudonym = substr(:names, key * 16 + 1, 16)) AS verifier,
           (SELECT 1 FROM tokens WHERE hash = substr(:tokens, key * 32 + 1, 32) AND campaign = :id) AS known,
           (SELECT used_by FROM tokens WHERE hash = substr(:tokens, key * 32 + 1, 32) AND campaign = :id) AS used
    FROM json_each(:rows)
)
"""
_ADD_PARTICIPANTS = """
INSERT INTO participants (campaign, pseudonym, verifier)
SELECT :id, substr(:names, key * 16 + 1, 16), substr(:verifiers, key * 32 + 1, 32) FROM json_each(:rows)
"""
_USE_TOKENS = """
UPDATE tokens SET used_by = substr(:marks, j.key * 32 + 1, 32)
FROM json_each(:rows) AS j WHERE hash = substr(:tokens, j.key * 32 + 1, 32)
"""
_COUNT = """
INSERT INTO counters (campaign, round, worker, received) VALUES (?, ?, ?, ?)
ON CONFLICT (campaign, round, worker) DO UPDATE SET received = received + excluded.received
"""


class SQLiteStore:
    """A store in one file.

    Parameters
    ----------
    path : str
    worker : str
        Name of this process in the counters.
    """

    gather = 0.0  # a transaction costs next to nothing: write at once

    def __init__(self, path: str, *, worker: str = "0") -> None:
        self._path, self._worker = path, worker
        self._local = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._guard = threading.Lock()
        self._closed = False
        try:
            self._migrate()
        except BaseException:
            self.close()
            raise

    # -- connections -------------------------------------------------------------------------------------------

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            if self._closed:
                raise StoreUnavailable("the store is closed")
            try:
                connection = sqlite3.connect(
                    self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False,
                    cached_statements=64,
                )  # fmt: skip
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute("PRAGMA cache_size = -32768")
                connection.execute("PRAGMA wal_autocheckpoint = 4000")
            except sqlite3.Error as error:
                raise StoreUnavailable(f"cannot open {self._path}: {error}") from error
            self._local.connection = connection
            with self._guard:
                self._all.append(connection)
        return connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection()
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise StoreUnavailable(f"{self._path}: {error}") from error

    def _read(self, sql: str, *values: Any) -> list[Any]:
        try:
            return self._connection().execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise StoreUnavailable(f"{self._path}: {error}") from error

    def _migrate(self) -> None:
        steps = migrations("sqlite")
        version = self._read("PRAGMA user_version")[0][0]
        check_version(version, newest=len(steps), where=self._path)
        if version == 0 and self._read("SELECT count(*) FROM sqlite_schema")[0][0]:
            raise InvalidInput(f"{self._path} is a database of another program; name a new file")
        for number, script in steps[version:]:
            with self._writing() as connection:
                if connection.execute("PRAGMA user_version").fetchone()[0] >= number:
                    continue
                for statement in script.split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")

    def close(self) -> None:
        """Let go of all connections."""
        with self._guard:
            self._closed = True
            for connection in self._all:
                connection.close()
            self._all.clear()
        self._local = threading.local()

    def ping(self) -> None:
        """Raise ``StoreUnavailable`` if the database does not answer."""
        self._read("SELECT 1")

    # -- campaigns ---------------------------------------------------------------------------------------------

    def setting(self, key: str, *, default: bytes) -> bytes:
        """The stored value; the default is stored if there is none."""
        found = self._read("SELECT value FROM settings WHERE key = ?", key)
        if found:
            return bytes(found[0][0])
        with self._writing() as connection:
            connection.execute("INSERT INTO settings VALUES (?, ?) ON CONFLICT DO NOTHING", (key, default))
        return bytes(self._read("SELECT value FROM settings WHERE key = ?", key)[0][0])

    def create(self, campaign: Campaign, *, needed: int | None, deadline: int | None) -> bool:
        """Add a campaign in phase "enrolling"; False if its task is there already."""
        with self._writing() as connection:
            done = connection.execute(
                "INSERT INTO campaigns (task, body, phase, round, closed, needed, deadline, fold) "
                "VALUES (?, ?, 'enrolling', 0, 0, ?, ?, x'') ON CONFLICT DO NOTHING",
                (campaign.task.id, msgspec.msgpack.encode(campaign), needed, deadline),
            )
            return done.rowcount == 1

    def tasks(self) -> list[bytes]:
        """Ids of all tasks in the order of creation."""
        return [row[0] for row in self._read("SELECT task FROM campaigns ORDER BY id")]

    def statuses(self, *, active: bool = False) -> dict[bytes, Status]:
        """Where all campaigns stand; only those that have not ended if ``active``."""
        where = f"WHERE c.phase NOT IN {ENDED}" if active else ""
        return {row[0]: Status(*row[1:]) for row in self._read(f"{_STATUS} {where} ORDER BY c.id")}

    def campaign(self, task: bytes) -> Campaign | None:
        """The campaign of a task."""
        rows = self._read("SELECT body FROM campaigns WHERE task = ?", task)
        return msgspec.msgpack.decode(rows[0][0], type=Campaign) if rows else None

    def status(self, task: bytes) -> Status | None:
        """Where a campaign stands."""
        rows = self._read(f"{_STATUS} WHERE c.task = ?", task)
        return Status(*rows[0][1:]) if rows else None

    def add_tokens(self, task: bytes, hashes: Sequence[bytes]) -> None:
        """Add one-time tokens."""
        with self._writing() as connection:
            row = connection.execute("SELECT id FROM campaigns WHERE task = ?", (task,)).fetchone()
            if row is None:
                raise InvalidInput("tokens belong to a campaign; there is none with this task")
            connection.executemany("INSERT INTO tokens VALUES (?, ?, NULL)", [(digest, row[0]) for digest in hashes])

    # -- what participants send ----------------------------------------------------------------------------------

    def apply(self, batch: Sequence[Item]) -> Applied:
        """Judge and store a batch in one transaction."""
        outcomes: list[Outcome] = ["no-such-task"] * len(batch)
        groups: dict[bytes, list[int]] = {}
        for place, item in enumerate(batch):
            groups.setdefault(item.task, []).append(place)
        full = set()
        with self._writing() as connection:
            for task, places in groups.items():
                row = connection.execute(
                    "SELECT id, phase, round, closed FROM campaigns WHERE task = ?", (task,)
                ).fetchone()
                if row is None:
                    continue
                number, phase, round_, closed = row
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
                    status = Status(*connection.execute(f"{_STATUS} WHERE c.id = ?", (number,)).fetchone()[1:])
                    if status.needed is not None and status.received >= status.needed:
                        full.add(task)
        return Applied(outcomes, full)

    # -- rounds ------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self, task: bytes) -> Iterator[_Locked | None]:
        """A transaction that holds the campaign alone: others wait. None if there is no such task."""
        with self._writing() as connection:
            row = connection.execute(f"{_STATUS} WHERE c.task = ?", (task,)).fetchone()
            if row is None:
                yield None
                return
            number, body, fold = connection.execute(
                "SELECT id, body, fold FROM campaigns WHERE task = ?", (task,)
            ).fetchone()
            campaign = msgspec.msgpack.decode(body, type=Campaign)
            yield _Locked(connection, number, campaign, Status(*row[1:]), fold)

    def message(self, task: bytes, round_: int, what: What) -> bytes | None:
        """A stored message of a round."""
        sql = f"SELECT r.{what} FROM rounds r JOIN campaigns c ON c.id = r.campaign WHERE c.task = ? AND r.round = ?"
        rows = self._read(sql, task, round_)
        return rows[0][0] if rows else None

    def reports(self, task: bytes, round_: int, *, after: bytes, limit: int) -> list[ReportRow]:
        """A page of reports by ascending pseudonym."""
        sql = (
            "SELECT r.pseudonym, r.cell, r.answer FROM reports r JOIN campaigns c ON c.id = r.campaign "
            "WHERE c.task = ? AND r.round = ? AND r.pseudonym > ? ORDER BY r.pseudonym LIMIT ?"
        )
        return [ReportRow(*row) for row in self._read(sql, task, round_, after, limit)]


class _Locked:
    """One campaign inside a transaction."""

    def __init__(
        self, connection: sqlite3.Connection, number: int, campaign: Campaign, status: Status, fold: bytes
    ) -> None:
        self.campaign, self.status, self.fold = campaign, status, fold
        self._connection, self._id = connection, number

    def query(self, round_: int) -> bytes | None:
        sql = "SELECT query FROM rounds WHERE campaign = ? AND round = ?"
        row = self._connection.execute(sql, (self._id, round_)).fetchone()
        return row[0] if row else None

    def closings(self) -> Iterator[bytes]:
        sql = "SELECT closed FROM rounds WHERE campaign = ? AND closed IS NOT NULL ORDER BY round"
        for row in self._connection.execute(sql, (self._id,)):
            yield row[0]

    def reports(self, round_: int) -> Iterator[ReportRow]:
        sql = "SELECT pseudonym, cell, answer FROM reports WHERE campaign = ? AND round = ? ORDER BY pseudonym"
        for row in self._connection.execute(sql, (self._id, round_)):
            yield ReportRow(*row)

    def seal(self, round_: int) -> bytes | None:
        sql = "SELECT seal FROM rounds WHERE campaign = ? AND round = ?"
        row = self._connection.execute(sql, (self._id, round_)).fetchone()
        return bytes(row[0]) if row and row[0] is not None else None

    def close_round(self, round_: int, closed: bytes, checkpoint: bytes, seal: bytes) -> None:
        done = self._connection.execute(
            "UPDATE rounds SET closed = ?, checkpoint = ?, seal = ? "
            "WHERE campaign = ? AND round = ? AND closed IS NULL",
            (closed, checkpoint, seal, self._id, round_),
        )
        if done.rowcount != 1:
            raise InvalidInput(f"round {round_} is not open")

    def open_round(self, round_: int, query: bytes) -> None:
        self._connection.execute(
            "INSERT INTO rounds (campaign, round, query) VALUES (?, ?, ?)", (self._id, round_, query)
        )

    def move(
        self, phase: Phase, *, round_: int, closed: int, needed: int | None, deadline: int | None, fold: bytes
    ) -> None:
        self._connection.execute(
            "UPDATE campaigns SET phase = ?, round = ?, closed = ?, needed = ?, deadline = ?, fold = ? WHERE id = ?",
            (phase, round_, closed, needed, deadline, fold, self._id),
        )


def _add_reports(
    connection: sqlite3.Connection, number: int, phase: Phase, closed: int, items: list[Incoming]
) -> list[Outcome]:
    found: list[Any] = [None] * len(items)
    # Nearly always one group: the open round and the one before.
    for (round_, before_round), places in _grouped([(item.round, item.before) for item in items]).items():
        values = {
            "id": number, "round": round_, "before": before_round, "rows": _json([0] * len(places)),
            "names": b"".join([items[place].pseudonym for place in places]),
        }  # fmt: skip
        for key, verifier, stored, before in _only(connection, _LOOK_REPORTS, values):
            cell, answer = stored.split() if stored else (None, None)
            found[places[key]] = (
                bytes.fromhex(verifier) or None, None if cell is None else int(cell),
                None if answer is None else bytes.fromhex(answer), before,
            )  # fmt: skip
    outcomes = judge_reports(items, found, phase=phase, closed=closed)
    new = [item for item, outcome in zip(items, outcomes, strict=True) if outcome == "stored"]
    for (round_, width), places in _grouped([(item.round, len(item.answer)) for item in new]).items():
        some = [new[place] for place in places]
        values = {
            "id": number, "round": round_, "width": width, "rows": _json([item.cell for item in some]),
            "names": b"".join([item.pseudonym for item in some]), "answers": b"".join([item.answer for item in some]),
        }  # fmt: skip
        connection.execute(_ADD_REPORTS, values)
    return outcomes


def _grouped(keys: list[tuple[int, int]]) -> dict[tuple[int, int], list[int]]:
    """Places of equal keys."""
    groups: dict[tuple[int, int], list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(key, []).append(place)
    return groups


def _add_participants(
    connection: sqlite3.Connection, number: int, phase: Phase, items: list[Enrolment]
) -> list[Outcome]:
    (body,) = connection.execute("SELECT body FROM campaigns WHERE id = ?", (number,)).fetchone()
    campaign = msgspec.msgpack.decode(body, type=Campaign)
    found: list[Any] = [None] * len(items)
    for key, verifier, known, used in _only(connection, _LOOK_PARTICIPANTS, _columns(number, items)):
        found[key] = (bytes.fromhex(verifier) or None, (bytes.fromhex(used) or None,) if known else None)
    outcomes = judge_enrolments(items, found, campaign=campaign, phase=phase)
    new = [item for item, outcome in zip(items, outcomes, strict=True) if outcome == "stored"]
    if new:
        columns = _columns(number, new)
        connection.execute(_ADD_PARTICIPANTS, columns)
        if campaign.enrolment == "tokens":
            connection.execute(_USE_TOKENS, columns)
    return outcomes


def _columns(number: int, items: list[Enrolment]) -> dict[str, Any]:
    return {
        "id": number,
        "rows": _json([0] * len(items)),
        "names": b"".join([item.pseudonym for item in items]),
        "verifiers": b"".join([item.verifier for item in items]),
        "tokens": b"".join([item.token or bytes(32) for item in items]),
        "marks": b"".join([item.used_by or bytes(32) for item in items]),
    }


def _only(connection: sqlite3.Connection, sql: str, values: dict[str, Any]) -> list[list[Any]]:
    rows: list[list[Any]] = msgspec.json.decode(connection.execute(sql, values).fetchone()[0])
    return rows


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
