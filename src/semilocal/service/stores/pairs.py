"""The tables of two-servers pairs, for every SQL store: who confirmed, uploads, and what the servers said.

Rules of these tables:

1. What a method returned is on disk.
2. An upload is never changed. After the phase "open" none is added.
3. A step always keeps the first request and the first answer that were written for it.
4. A level's result is stored once, and only while the pair is counted.
5. When a pair has ended, uploads, steps but the last, tokens, levels and the pair's seed are deleted and the space is
   cleaned.

Methods block; callers run them in threads. Knows SQL. Knows no HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from .base import SQLStore

__all__ = [
    "LAST_STEP", "NOT_OPEN", "SEED", "PairPhase", "PairRow", "PairTables", "ShareRow", "StepRow", "UploadOutcome",
    "UploadRow",
]  # fmt: skip

PairPhase = Literal["confirming", "open", "closing", "levels", "done", "cancelled"]
ENDED: tuple[PairPhase, ...] = ("done", "cancelled")
UploadOutcome = Literal[
    "stored", "again", "other-upload", "uploads-closed", "not-open-yet", "bad-token", "token-used", "campaign-ended",
    "bad-upload",
]  # fmt: skip
SEED = "pair-seed"
LAST_STEP = "sign"
_COLUMNS = (
    "task, role, name, phase, confirmed, enrolment, capacity, seconds, deadline, received, forwarded, refused, "
    "accepted, cleaned"
)
_CREATE = (
    "INSERT INTO pairs (task, body, role, name, phase, confirmed, enrolment, capacity, seconds, received, forwarded, "
    "refused, cleaned) VALUES (?, ?, ?, ?, 'confirming', 0, ?, ?, ?, 0, 0, 0, 0) ON CONFLICT DO NOTHING"
)
_WAITING = "SELECT id, report, bucket, public, onward FROM pair_uploads WHERE pair = ? AND id > ? ORDER BY id LIMIT ?"
_IDS = (
    "SELECT report, bucket FROM pair_uploads u WHERE pair = ? AND NOT EXISTS "
    "(SELECT 1 FROM pair_refused r WHERE r.pair = u.pair AND r.report = u.report) ORDER BY report"
)
_STEPS = "SELECT number, bucket, step, request, answer FROM pair_steps WHERE pair = ? "
_PUT_STEP = (
    "INSERT INTO pair_steps (pair, number, bucket, step, request, answer) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING"
)
_SHARES = (
    "SELECT report, public, private FROM pair_uploads WHERE pair = ? AND bucket = ? AND report >= ? AND report <= ? "
    "ORDER BY report"
)
_PUT_LEVEL = (
    "INSERT INTO pair_levels (pair, tree, name, result) SELECT ?, ?, ?, ? "
    "WHERE EXISTS (SELECT 1 FROM pairs WHERE id = ? AND phase = 'levels') ON CONFLICT DO NOTHING"
)
_SECRET = ("pair_uploads", "pair_refused", "pair_tokens", "pair_levels")


class PairRow(NamedTuple):
    """Where a pair stands on this server.

    Attributes
    ----------
    confirmed : bool
        By this server's operator.
    seconds, deadline : int or None
        How long uploads stay open, and the Unix time at which they end.
    received : int
        Uploads stored.
    forwarded : int
        Row number of the last upload that the helper answered for; of the leader.
    refused : int
        Uploads that the helper could not take.
    accepted : int or None
        Reports that take part, once that is fixed.
    cleaned : bool
        Whether all shares have been deleted.
    """

    task: bytes
    role: Literal["leader", "helper"]
    name: str
    phase: PairPhase
    confirmed: bool
    enrolment: Literal["tokens", "open"]
    capacity: int | None
    seconds: int | None
    deadline: int | None
    received: int
    forwarded: int
    refused: int
    accepted: int | None
    cleaned: bool

    @property
    def ended(self) -> bool:
        """Whether nothing will be counted any more."""
        return self.phase in ENDED


class UploadRow(NamedTuple):
    """An upload to be stored; ``token`` is a hash."""

    report: bytes
    bucket: int
    digest: bytes
    public: bytes
    private: bytes
    onward: bytes
    token: bytes | None


class WaitingRow(NamedTuple):
    """An upload that the helper does not have yet."""

    number: int
    report: bytes
    bucket: int
    public: bytes
    onward: bytes


class StepRow(NamedTuple):
    """One exchange; no answer yet: the leader has decided on the request, and may have sent it."""

    number: int
    bucket: int
    step: str
    request: bytes
    answer: bytes | None


class ShareRow(NamedTuple):
    """A stored report, as it is evaluated."""

    report: bytes
    public: bytes
    private: bytes


class PairTables:
    """The tables of pairs in a store.

    Parameters
    ----------
    store : SQLStore
    """

    def __init__(self, store: SQLStore[Any]) -> None:
        self._store = store
        self._numbers: dict[bytes, int] = {}

    # -- pairs -----------------------------------------------------------------------------------------------------

    def create(
        self, task: bytes, body: bytes, *, role: str, name: str, enrolment: str, capacity: int | None,
        seconds: int | None,
    ) -> bool:  # fmt: skip
        """Add a pair in phase "confirming"; False if it is there already."""
        store = self._store
        with store._writing() as connection:
            values = (task, body, role, name, enrolment, capacity, seconds)
            return store._run(connection, _CREATE, *values).rowcount == 1

    def rows(self, *, active: bool = False) -> list[PairRow]:
        """All pairs in the order of creation; only those with something left to do if ``active``."""
        where = "WHERE cleaned = 0" if active else ""
        return [_pair_row(row) for row in self._store._read(f"SELECT {_COLUMNS} FROM pairs {where} ORDER BY id")]

    def row(self, task: bytes) -> PairRow | None:
        """Where a pair stands."""
        rows = self._store._read(f"SELECT {_COLUMNS} FROM pairs WHERE task = ?", task)
        return _pair_row(rows[0]) if rows else None

    def body(self, task: bytes) -> bytes | None:
        """The bytes of a pair task."""
        rows = self._store._read("SELECT body FROM pairs WHERE task = ?", task)
        return bytes(rows[0][0]) if rows else None

    def unconfirmed(self) -> int:
        """Pairs that wait for this server's operator."""
        return int(self._store._read("SELECT count(*) FROM pairs WHERE confirmed = 0 AND phase = 'confirming'")[0][0])

    def confirm(self, task: bytes, *, seed: bytes, next_seed: bytes) -> bool:
        """Note that the operator agrees, and give the pair this server's seed; False if another pair has got it.

        Parameters
        ----------
        seed : bytes
            The seed that the pair's sealing key was made from.
        next_seed : bytes
            Takes its place for the next pair.
        """
        store = self._store
        with store._writing() as connection:
            taken = store._run(
                connection, "UPDATE settings SET value = ? WHERE key = ? AND value = ?", next_seed, SEED, seed
            )
            if taken.rowcount != 1:
                return False
            store._run(
                connection,
                "UPDATE pairs SET confirmed = 1, seed = ? WHERE task = ? AND confirmed = 0 AND phase = 'confirming'",
                seed, task,
            )  # fmt: skip
        return True

    def move(self, task: bytes, before: PairPhase, after: PairPhase, **changes: Any) -> bool:
        """Go to another phase, and change other columns with it; False if the pair is not in the phase before."""
        names = ["phase", *changes]
        sql = f"UPDATE pairs SET {', '.join(f'{name} = ?' for name in names)} WHERE task = ? AND phase = ?"
        store = self._store
        with store._writing() as connection:
            self._hold(connection, task, alone=True)  # no upload slips in after the phase "open"
            return store._run(connection, sql, after, *changes.values(), task, before).rowcount == 1

    def seed(self, task: bytes) -> bytes | None:
        """The seed of a pair; None before its operator confirmed it and after its end."""
        rows = self._store._read("SELECT seed FROM pairs WHERE task = ?", task)
        return bytes(rows[0][0]) if rows and rows[0][0] is not None else None

    def transcript(self, task: bytes) -> bytes | None:
        """The signed transcript."""
        rows = self._store._read("SELECT transcript FROM pairs WHERE task = ?", task)
        return bytes(rows[0][0]) if rows and rows[0][0] is not None else None

    def clean(self, task: bytes) -> None:
        """Delete everything secret about a pair that has ended, and leave no trace of it in the files."""
        store = self._store
        with store._writing() as connection:
            number = self._number(connection, task)
            self._hold(connection, task, alone=True)  # no level slips in any more
            for table in _SECRET:
                store._run(connection, f"DELETE FROM {table} WHERE pair = ?", number)
            store._run(connection, "DELETE FROM pair_steps WHERE pair = ? AND step <> ?", number, LAST_STEP)
            store._run(connection, "UPDATE pairs SET seed = NULL WHERE id = ? AND seed IS NOT NULL", number)
        store.wipe((*_SECRET, "pair_steps", "pairs", "settings"))
        with store._writing() as connection:
            store._run(connection, "UPDATE pairs SET cleaned = 1 WHERE id = ?", number)

    # -- uploads ---------------------------------------------------------------------------------------------------

    def add_tokens(self, task: bytes, hashes: Sequence[bytes]) -> None:
        """Add one-time tokens."""
        with self._store._writing() as connection:
            number = self._number(connection, task)
            self._store._insert_rows(connection, "pair_tokens", {"pair": number, "used": 0}, {"hash": list(hashes)})

    def add(self, task: bytes, rows: Sequence[UploadRow]) -> tuple[list[UploadOutcome], bool]:
        """Judge and store uploads in one transaction; also whether the pair's capacity is reached."""
        store = self._store
        with store._writing() as connection:
            number = self._number(connection, task)
            self._hold(connection, task, alone=False)
            sql = "SELECT phase, enrolment, capacity, received FROM pairs WHERE id = ?"
            phase, enrolment, capacity, received = store._run(connection, sql, number).fetchone()
            known = dict(
                store._select_in(
                    connection, "pair_uploads", ("report", "digest"), {"pair": number}, [row.report for row in rows]
                )
            )
            refused = store._select_in(connection, "pair_refused", ("report", "pair"), {"pair": number}, list(known))
            hashes = [row.token for row in rows if row.token is not None] if enrolment == "tokens" else []
            free = dict(store._select_in(connection, "pair_tokens", ("hash", "used"), {"pair": number}, hashes))
            left = None if capacity is None else capacity - received
            outcomes, new = _judge(rows, phase=phase, tokens=enrolment == "tokens", known=known, free=free, left=left)
            if refused:  # the helper could not open its envelope: no retry is told that all is well
                lost = {report for report, _ in refused}
                pairs = zip(rows, outcomes, strict=True)
                outcomes = ["bad-upload" if row.report in lost else outcome for row, outcome in pairs]
            if new:
                columns = {name: [getattr(row, name) for row in new] for name in UploadRow._fields[:-1]}
                store._insert_rows(connection, "pair_uploads", {"pair": number}, columns)
                store._run(connection, "UPDATE pairs SET received = received + ? WHERE id = ?", len(new), number)
                for row in new:
                    if hashes:
                        store._run(connection, "UPDATE pair_tokens SET used = 1 WHERE hash = ?", row.token)
        return outcomes, capacity is not None and received + len(new) >= capacity

    def waiting(self, task: bytes, *, after: int, limit: int) -> list[WaitingRow]:
        """Uploads with a row number above ``after``, in the order in which they came."""
        return [WaitingRow(*row) for row in self._store._read(_WAITING, self._known(task), after, limit)]

    def forwarded(self, task: bytes, upto: int, refused: Sequence[bytes]) -> None:
        """Note that the helper has answered for all uploads up to a row number, and which it could not take."""
        store = self._store
        with store._writing() as connection:
            number = self._number(connection, task)
            moved = store._run(
                connection, "UPDATE pairs SET forwarded = ?, refused = refused + ? WHERE id = ? AND forwarded < ?",
                upto, len(refused), number, upto,
            )  # fmt: skip
            if moved.rowcount == 1 and refused:
                store._insert_rows(connection, "pair_refused", {"pair": number}, {"report": list(refused)})

    def ids(self, task: bytes) -> list[tuple[bytes, int]]:
        """Reports that were not refused, ascending, with their buckets."""
        return [(bytes(report), bucket) for report, bucket in self._store._read(_IDS, self._known(task))]

    # -- steps -----------------------------------------------------------------------------------------------------

    def steps(self, task: bytes) -> list[StepRow]:
        """All steps in order."""
        return [StepRow(*row) for row in self._store._read(f"{_STEPS} ORDER BY number", self._known(task))]

    def step(self, task: bytes, bucket: int, step: str) -> StepRow | None:
        """One step."""
        rows = self._store._read(f"{_STEPS} AND bucket = ? AND step = ?", self._known(task), bucket, step)
        return StepRow(*rows[0]) if rows else None

    def put_step(
        self, task: bytes, number: int, bucket: int, step: str, request: bytes, answer: bytes | None
    ) -> StepRow | None:
        """Write a step unless there is one; what is stored. None: another step has this number."""
        with self._store._writing() as connection:
            self._store._run(
                connection, _PUT_STEP, self._number(connection, task), number, bucket, step, request, answer
            )
        return self.step(task, bucket, step)

    def put_answer(self, task: bytes, number: int, answer: bytes) -> None:
        """Write the answer to a step unless there is one."""
        sql = "UPDATE pair_steps SET answer = ? WHERE pair = ? AND number = ? AND answer IS NULL"
        with self._store._writing() as connection:
            self._store._run(connection, sql, answer, self._number(connection, task), number)

    # -- the evaluation --------------------------------------------------------------------------------------------

    def shares(self, task: bytes, bucket: int, first: bytes, last: bytes) -> list[ShareRow]:
        """The stored reports of a bucket from one id to another."""
        return [ShareRow(*row) for row in self._store._read(_SHARES, self._known(task), bucket, first, last)]

    def begin_tree(self, task: bytes, tree: bytes) -> None:
        """Forget the levels of all other trees."""
        with self._store._writing() as connection:
            sql = "DELETE FROM pair_levels WHERE pair = ? AND tree <> ?"
            self._store._run(connection, sql, self._number(connection, task), tree)

    def level(self, task: bytes, name: bytes) -> bytes | None:
        """The sealed result of a level."""
        rows = self._store._read("SELECT result FROM pair_levels WHERE pair = ? AND name = ?", self._known(task), name)
        return bytes(rows[0][0]) if rows else None

    def put_level(self, task: bytes, tree: bytes, name: bytes, result: bytes) -> None:
        """Store the result of a level, unless there is one or nobody wants it any more."""
        with self._store._writing() as connection:
            number = self._number(connection, task)
            self._hold(connection, task, alone=False)  # none comes after the pair was cleaned
            self._store._run(connection, _PUT_LEVEL, number, tree, name, result, number)

    # -- inside ----------------------------------------------------------------------------------------------------

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
            found = self._store._run(connection, "SELECT id FROM pairs WHERE task = ?", task)
            self._numbers[task] = found.fetchone()[0]
        return self._numbers[task]


def _judge(
    rows: Sequence[UploadRow], *, phase: PairPhase, tokens: bool, known: dict[bytes, bytes], free: dict[bytes, int],
    left: int | None,
) -> tuple[list[UploadOutcome], list[UploadRow]]:  # fmt: skip
    """Outcome of each upload of a batch, and those to store.

    Parameters
    ----------
    known : dict
        Digests of stored uploads by report.
    free : dict
        Whether a token is used, by its hash.
    left : int or None
        How many more are taken.
    """
    outcomes: list[UploadOutcome] = []
    new: list[UploadRow] = []
    for row in rows:
        stored = known.get(row.report)
        outcome: UploadOutcome
        if stored is not None:
            outcome = "again" if stored == row.digest else "other-upload"
        elif phase != "open":
            outcome = NOT_OPEN[phase]
        elif left is not None and len(new) >= left:
            outcome = "uploads-closed"
        elif tokens and (row.token is None or row.token not in free):
            outcome = "bad-token"
        elif tokens and row.token is not None and free[row.token]:
            outcome = "token-used"
        else:
            outcome = "stored"
            new.append(row)
            known[row.report] = row.digest
            if row.token is not None:
                free[row.token] = 1
        outcomes.append(outcome)
    return outcomes, new


NOT_OPEN: dict[PairPhase, UploadOutcome] = {
    "confirming": "not-open-yet", "open": "not-open-yet", "closing": "uploads-closed", "levels": "uploads-closed",
    "done": "uploads-closed", "cancelled": "campaign-ended",
}  # fmt: skip


def _pair_row(row: Sequence[Any]) -> PairRow:
    found = PairRow(*row)
    return found._replace(task=bytes(found.task), confirmed=bool(found.confirmed), cleaned=bool(found.cleaned))
