"""The tables of the evaluation of a pair, for every SQL store: chunks of reports, orders, and results.

Rules of these tables:

1. An order stays as it is while the tree is counted. If another one is written in its place, it and all that follow it
   are gone, with their results.
2. A result is stored once per order and chunk, and only while its order is there. Who computed it does not matter:
   everybody computes the same.
3. A lease says who computes; it keeps two workers from doing the same work. Nothing that is counted depends on it.

Time is the clock of the database, so that workers on several machines agree. Methods block; callers run them in
threads. Knows SQL. Knows no HTTP.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .sql import SQLStore

__all__ = [
    "CHUNK_TABLES", "LONGEST_LEASE", "ChunkClaim", "ChunkRow", "ChunkTables", "Fault", "OrderRow", "Pending",
    "ShareRow", "choose",
]  # fmt: skip

LONGEST_LEASE = 600  # seconds; one that ends later was given before the clock was set back, and is over
CHUNK_TABLES = ("pair_chunks", "pair_orders", "pair_results")
_PENDING = (
    "SELECT p.task, o.digest, c.chunk, c.owner, c.claimed, c.lease_ends NOT BETWEEN {now} AND {now} + {longest} "
    "FROM pair_orders o JOIN pairs p ON p.id = o.pair JOIN pair_chunks c ON c.pair = o.pair "
    "WHERE p.phase = 'levels' AND o.number = (SELECT max(number) FROM pair_orders m WHERE m.pair = o.pair) "
    "AND NOT EXISTS (SELECT 1 FROM pair_results r WHERE r.pair = o.pair AND r.digest = o.digest AND r.chunk = c.chunk) "
    "ORDER BY o.pair, c.chunk"
)
_CLAIM = (
    "UPDATE pair_chunks SET owner = ?, claimed = ?, lease_ends = {now} + ? "
    "WHERE pair = ? AND chunk = ? AND owner = ? AND claimed = ?"
)
_RENEW = "UPDATE pair_chunks SET lease_ends = {now} + ? WHERE pair = ? AND chunk = ? AND owner = ? AND claimed = ?"
_DIVIDE = "INSERT INTO pair_chunks VALUES (?, ?, ?, ?, ?, '', ?, 0, '')"
_FAULT = "UPDATE pair_chunks SET fault = ? WHERE pair = ? AND chunk = ? AND fault <> ?"
_RESULT = (
    "INSERT INTO pair_results (pair, digest, chunk, result) SELECT ?, ?, ?, ? "
    "WHERE EXISTS (SELECT 1 FROM pair_orders WHERE pair = ? AND digest = ?) ON CONFLICT DO NOTHING"
)
_SHARES = (
    "SELECT report, public, private FROM pair_uploads WHERE pair = ? AND bucket = ? AND report >= ? AND report <= ? "
    "ORDER BY report"
)


class Pending(NamedTuple):
    """A chunk whose result of the newest order is missing; ``ended``: its lease is over."""

    task: bytes
    digest: bytes
    chunk: int
    owner: str
    claimed: bytes
    ended: bool


class ChunkClaim(NamedTuple):
    """A chunk that a worker has got, for an order."""

    task: bytes
    digest: bytes
    chunk: int


class ChunkRow(NamedTuple):
    """A chunk: its tree, the digest of all reports of the tree, and the chunk's report ids, joined."""

    bucket: int
    root: bytes
    ids: bytes


class Fault(NamedTuple):
    """A chunk that could not be computed, and why."""

    chunk: int
    why: str


class OrderRow(NamedTuple):
    """An order as it is stored."""

    number: int
    digest: bytes
    body: bytes


class ShareRow(NamedTuple):
    """A stored report."""

    report: bytes
    public: bytes
    private: bytes


def choose(pending: Sequence[Pending], owner: str, kept: Mapping[bytes, int]) -> Pending | None:
    """The chunk that a worker takes next; None if all are in good hands.

    Its own first: it still has their states. Then one whose lease is over. Then one that a worker with more chunks has
    not begun. The new owner computes the states again, so it takes none if that leaves it with as many as the other.

    Parameters
    ----------
    kept : mapping of bytes to int
        How many chunks the worker has by task.
    """
    free = []
    busy: dict[tuple[bytes, str], int] = defaultdict(int)
    waiting: dict[tuple[bytes, str], list[Pending]] = defaultdict(list)
    for chunk in pending:
        if chunk.owner == owner:
            return chunk
        busy[chunk.task, chunk.owner] += 1
        if chunk.ended:
            free.append(chunk)
        elif chunk.claimed != chunk.digest:
            waiting[chunk.task, chunk.owner].append(chunk)
    if free:  # every worker begins at another one
        place = hashlib.sha256(owner.encode() + free[0].digest).digest()
        return free[int.from_bytes(place[:4], "big") % len(free)]
    others = [claims for (task, name), claims in waiting.items() if kept.get(task, 0) + 1 < busy[task, name]]
    longest = max(others, key=len, default=[])
    return longest[-1] if longest else None


class ChunkTables:
    """The tables of the evaluation in a store.

    Parameters
    ----------
    store : SQLStore
    """

    def __init__(self, store: SQLStore[Any]) -> None:
        self._store = store
        self._numbers: dict[bytes, int] = {}

    # -- the server that counts ------------------------------------------------------------------------------------

    def divide(self, task: bytes, bucket: int, root: bytes, chunks: Sequence[bytes]) -> None:
        """Begin a tree: its chunks are these. If it has begun already nothing changes.

        Parameters
        ----------
        root : bytes
            Digest of the tree and all its reports.
        chunks : sequence of bytes
            Ascending report ids of each chunk, joined.
        """
        store = self._store
        with store._writing() as connection:
            number = self._number(connection, task)
            self._hold(connection, task, alone=True)
            sql = "SELECT count(*) FROM pair_chunks WHERE pair = ? AND root = ?"
            if chunks and store._run(connection, sql, number, root).fetchone()[0] == len(chunks):
                return
            self._forget(connection, number)
            for chunk, ids in enumerate(chunks):
                store._run(connection, _DIVIDE, number, chunk, bucket, root, ids, b"")

    def put_order(self, task: bytes, number: int, digest: bytes, body: bytes) -> None:
        """Write what is to be computed next, unless it is there."""
        store = self._store
        pair = self._known(task)
        if store._read("SELECT 1 FROM pair_orders WHERE pair = ? AND number = ? AND digest = ?", pair, number, digest):
            return
        with store._writing() as connection:
            self._hold(connection, task, alone=True)
            old = "SELECT digest FROM pair_orders WHERE pair = ? AND number >= ?"
            store._run(connection, f"DELETE FROM pair_results WHERE pair = ? AND digest IN ({old})", pair, pair, number)
            store._run(connection, "DELETE FROM pair_orders WHERE pair = ? AND number >= ?", pair, number)
            store._run(connection, "INSERT INTO pair_orders VALUES (?, ?, ?, ?)", pair, number, digest, body)

    def finished(self, task: bytes, digest: bytes) -> int:
        """How many chunks have a result of an order."""
        sql = "SELECT count(*) FROM pair_results WHERE pair = ? AND digest = ?"
        return int(self._store._read(sql, self._known(task), digest)[0][0])

    def results(self, task: bytes, digest: bytes) -> dict[int, bytes]:
        """The sealed results of an order by chunk."""
        sql = "SELECT chunk, result FROM pair_results WHERE pair = ? AND digest = ?"
        return {chunk: bytes(result) for chunk, result in self._store._read(sql, self._known(task), digest)}

    def fault(self, task: bytes) -> Fault | None:
        """The first chunk that a worker could not compute; None if there is none."""
        sql = "SELECT chunk, fault FROM pair_chunks WHERE pair = ? AND fault <> '' ORDER BY chunk LIMIT 1"
        rows = self._store._read(sql, self._known(task))
        return Fault(*rows[0]) if rows else None

    # -- workers ---------------------------------------------------------------------------------------------------

    def pending(self) -> list[Pending]:
        """All chunks, of all pairs, that somebody has to compute."""
        return [
            Pending(bytes(task), bytes(digest), chunk, owner, bytes(claimed), bool(ended))
            for task, digest, chunk, owner, claimed, ended in self._store._read(self._timed(_PENDING))
        ]

    def claim(self, one: Pending, owner: str, *, seconds: float) -> bool:
        """Take a chunk for so long; False if another worker was faster."""
        lease = int(1000 * seconds)
        with self._store._writing() as connection:
            pair = self._number(connection, one.task)
            done = self._store._run(
                connection, self._timed(_CLAIM), owner, one.digest, lease, pair, one.chunk, one.owner, one.claimed
            )
            return done.rowcount == 1

    def renew(self, claim: ChunkClaim, owner: str, *, seconds: float) -> None:
        """Keep a chunk for so long from now on, if it was not taken over."""
        lease = int(1000 * seconds)
        with self._store._writing() as connection:
            pair = self._number(connection, claim.task)
            self._store._run(connection, self._timed(_RENEW), lease, pair, claim.chunk, owner, claim.digest)

    def chunk(self, task: bytes, chunk: int) -> ChunkRow | None:
        """A chunk, if it is there."""
        sql = "SELECT bucket, root, ids FROM pair_chunks WHERE pair = ? AND chunk = ?"
        rows = self._store._read(sql, self._known(task), chunk)
        return ChunkRow(rows[0][0], bytes(rows[0][1]), bytes(rows[0][2])) if rows else None

    def shares(self, task: bytes, bucket: int, first: bytes, last: bytes) -> list[ShareRow]:
        """The stored reports of a bucket from one id to another."""
        return [ShareRow(*row) for row in self._store._read(_SHARES, self._known(task), bucket, first, last)]

    def orders(self, task: bytes, *, after: int) -> list[OrderRow]:
        """Orders with a number above ``after``."""
        sql = "SELECT number, digest, body FROM pair_orders WHERE pair = ? AND number > ? ORDER BY number"
        return [OrderRow(*row) for row in self._store._read(sql, self._known(task), after)]

    def put_result(self, claim: ChunkClaim, result: bytes) -> None:
        """Store a result, unless there is one or nobody wants it any more."""
        with self._store._writing() as connection:
            pair = self._number(connection, claim.task)
            self._hold(connection, claim.task, alone=False)  # none comes after the pair was cleaned
            self._store._run(
                connection, _RESULT, pair, claim.digest, claim.chunk, result, pair, claim.digest
            )  # fmt: skip
            self._store._run(connection, _FAULT, "", pair, claim.chunk, "")

    def put_fault(self, claim: ChunkClaim, why: str) -> None:
        """Note why a chunk could not be computed, until it can."""
        with self._store._writing() as connection:
            pair = self._number(connection, claim.task)
            self._store._run(connection, _FAULT, why, pair, claim.chunk, why)

    def owned(self, owner: str) -> set[tuple[bytes, int]]:
        """Task and number of the chunks that a worker has."""
        sql = "SELECT p.task, c.chunk FROM pair_chunks c JOIN pairs p ON p.id = c.pair WHERE c.owner = ?"
        return {(bytes(task), chunk) for task, chunk in self._store._read(sql, owner)}

    # -- inside ----------------------------------------------------------------------------------------------------

    def _forget(self, connection: Any, number: int) -> None:
        for table in CHUNK_TABLES:
            self._store._run(connection, f"DELETE FROM {table} WHERE pair = ?", number)

    def _timed(self, sql: str) -> str:
        return sql.format(now=self._store.now, longest=1000 * LONGEST_LEASE)

    def _hold(self, connection: Any, task: bytes, *, alone: bool) -> None:
        self._store._hold(connection, -self._number(connection, task), alone=alone)  # campaigns have the positive ones

    def _known(self, task: bytes) -> int:
        if task not in self._numbers:
            with self._store._writing() as connection:
                self._number(connection, task)
        return self._numbers[task]

    def _number(self, connection: Any, task: bytes) -> int:
        """Row number of a pair; it never changes."""
        if task not in self._numbers:
            self._numbers[task] = self._store._run(
                connection, "SELECT id FROM pairs WHERE task = ?", task
            ).fetchone()[0]  # fmt: skip
        return self._numbers[task]
