"""The tables of two-servers pairs, for every SQL store: who confirmed, uploads, and what the servers said.

Rules of these tables:

1. What a method returned is on disk.
2. An upload is never changed. After the phase "open" none is added.
3. A step always keeps the first request and the first answer that were written for it.
4. When a pair has ended, uploads, steps but the last, tokens and the pair's seed are deleted and the space is cleaned.

Methods block; callers run them in threads. Knows SQL. Knows no HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from .base import Outcome, Store

PairPhase = Literal["confirming", "open", "closing", "levels", "done", "cancelled"]
ENDED: tuple[PairPhase, ...] = ("done", "cancelled")
Run = Callable[..., Any]
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
_SECRET = ("pair_uploads", "pair_refused", "pair_tokens")


class PairRow(NamedTuple):
    """Where a pair stands on this server."""

    task: bytes
    role: Literal["leader", "helper"]
    name: str
    phase: PairPhase
    confirmed: bool  # by this server's operator
    enrolment: Literal["tokens", "open"]
    capacity: int | None
    seconds: int | None  # how long uploads stay open, and the Unix time at which they end
    deadline: int | None
    received: int  # uploads stored
    forwarded: int  # row number of the last upload that the helper answered for; of the leader
    refused: int  # uploads that the helper could not take
    accepted: int | None  # reports that take part, once that is fixed
    cleaned: bool  # whether all shares have been deleted

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
    """The tables of pairs in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # -- pairs -----------------------------------------------------------------------------------------------------

    def create(
        self, task: bytes, body: bytes, *, role: str, name: str, enrolment: str, capacity: int | None,
        seconds: int | None,
    ) -> bool:  # fmt: skip
        """Add a pair in phase "confirming"; False if it is there already."""
        with self._store._writing() as connection:
            values = (task, body, role, name, enrolment, capacity, seconds)
            return bool(self._store._run(connection, _CREATE, *values).rowcount)

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
        return self._store._bytes("SELECT body FROM pairs WHERE task = ?", task)

    def unconfirmed(self) -> int:
        """Pairs that wait for this server's operator."""
        return int(self._store._read("SELECT count(*) FROM pairs WHERE confirmed = 0 AND phase = 'confirming'")[0][0])

    def confirm(self, task: bytes, *, seed: bytes, next_seed: bytes) -> bool:
        """Note that the operator agrees, and give the pair this server's seed; False if another pair has got it.

        The pair's sealing key was made from ``seed``; ``next_seed`` takes its place for the next pair.
        """
        run = self._store._run
        with self._store._writing() as connection:
            sql = "UPDATE settings SET value = ? WHERE key = ? AND value = ?"
            if not run(connection, sql, next_seed, SEED, seed).rowcount:
                return False
            sql = "UPDATE pairs SET confirmed = 1, seed = ? WHERE task = ? AND confirmed = 0 AND phase = 'confirming'"
            run(connection, sql, seed, task)
        return True

    def move(self, task: bytes, before: PairPhase, after: PairPhase, **changes: Any) -> bool:
        """Go to another phase, and change other columns with it; False if the pair is not in the phase before."""
        names = ["phase", *changes]
        sql = f"UPDATE pairs SET {', '.join(f'{name} = ?' for name in names)} WHERE id = ? AND phase = ?"
        with self._changing(task, alone=True) as (run, number):  # no upload slips in after the phase "open"
            return bool(run(sql, after, *changes.values(), number, before).rowcount)

    def seed(self, task: bytes) -> bytes | None:
        """The seed of a pair; None before its operator confirmed it and after its end."""
        return self._store._bytes("SELECT seed FROM pairs WHERE task = ?", task)

    def transcript(self, task: bytes) -> bytes | None:
        """The signed transcript."""
        return self._store._bytes("SELECT transcript FROM pairs WHERE task = ?", task)

    def clean(self, task: bytes) -> None:
        """Delete everything secret about a pair that has ended, and leave no trace of it in the files."""
        with self._changing(task, alone=True) as (run, number):
            for table in _SECRET:
                run(f"DELETE FROM {table} WHERE pair = ?", number)
            run("DELETE FROM pair_steps WHERE pair = ? AND step <> ?", number, LAST_STEP)
            run("UPDATE pairs SET seed = NULL WHERE id = ? AND seed IS NOT NULL", number)
        self._store.wipe((*_SECRET, "pair_steps", "pairs", "settings"))
        with self._changing(task) as (run, number):
            run("UPDATE pairs SET cleaned = 1 WHERE id = ?", number)

    # -- uploads ---------------------------------------------------------------------------------------------------

    def add_tokens(self, task: bytes, hashes: Sequence[bytes]) -> None:
        """Add one-time tokens."""
        with self._store._writing() as connection:
            number = self._number(connection, task)
            self._store._insert_rows(connection, "pair_tokens", {"pair": number, "used": 0}, {"hash": list(hashes)})

    def add(self, task: bytes, rows: Sequence[UploadRow]) -> list[Outcome]:
        """Judge and store uploads in one transaction."""
        store = self._store
        with store._writing() as connection:
            number = self._number(connection, task)
            store._hold(connection, -number, alone=False)
            sql = "SELECT phase, enrolment, capacity, received FROM pairs WHERE id = ?"
            phase, enrolment, capacity, received = store._run(connection, sql, number).fetchone()
            reports, mine = [row.report for row in rows], {"pair": number}
            known = dict(store._select_in(connection, "pair_uploads", ("report", "digest"), mine, reports))
            refused = store._select_in(connection, "pair_refused", ("report", "pair"), mine, list(known))
            hashes = [row.token for row in rows if row.token is not None] if enrolment == "tokens" else []
            free = dict(store._select_in(connection, "pair_tokens", ("hash", "used"), mine, hashes))
            left = None if capacity is None else capacity - received
            outcomes, new = _judge(
                rows, phase=phase, tokens=enrolment == "tokens", known=known, refused={report for report, _ in refused},
                free=free, left=left,
            )  # fmt: skip
            if new:
                columns = {name: [getattr(row, name) for row in new] for name in UploadRow._fields[:-1]}
                store._insert_rows(connection, "pair_uploads", mine, columns)
                store._run(connection, "UPDATE pairs SET received = received + ? WHERE id = ?", len(new), number)
                used = [(row.token,) for row in new] if hashes else []
                store._run_many(connection, "UPDATE pair_tokens SET used = 1 WHERE hash = ?", used)
        return outcomes

    def waiting(self, task: bytes, *, after: int, limit: int) -> list[WaitingRow]:
        """Uploads with a row number above ``after``, in the order in which they came."""
        return [WaitingRow(*row) for row in self._store._read(_WAITING, self._known(task), after, limit)]

    def forwarded(self, task: bytes, upto: int, refused: Sequence[bytes]) -> None:
        """Note that the helper has answered for all uploads up to a row number, and which it could not take."""
        sql = "UPDATE pairs SET forwarded = ?, refused = refused + ? WHERE id = ? AND forwarded < ?"
        with self._store._writing() as connection:
            number = self._number(connection, task)
            moved = self._store._run(connection, sql, upto, len(refused), number, upto).rowcount
            if moved and refused:
                self._store._insert_rows(connection, "pair_refused", {"pair": number}, {"report": list(refused)})

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
        with self._changing(task) as (run, pair):
            run(_PUT_STEP, pair, number, bucket, step, request, answer)
        return self.step(task, bucket, step)

    def put_answer(self, task: bytes, number: int, answer: bytes) -> None:
        """Write the answer to a step unless there is one."""
        with self._changing(task) as (run, pair):
            sql = "UPDATE pair_steps SET answer = ? WHERE pair = ? AND number = ? AND answer IS NULL"
            run(sql, answer, pair, number)

    # -- the evaluation --------------------------------------------------------------------------------------------

    def shares(self, task: bytes, bucket: int, first: bytes, last: bytes) -> list[ShareRow]:
        """The stored reports of a bucket from one id to another."""
        return [ShareRow(*row) for row in self._store._read(_SHARES, self._known(task), bucket, first, last)]

    # -- inside ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self, task: bytes, *, alone: bool = False) -> Iterator[tuple[Run, int]]:
        """A transaction: what runs a statement in it, and the pair's row number; with ``alone`` the pair is locked."""
        with self._store._writing() as connection:
            number = self._number(connection, task)
            if alone:
                self._store._hold(connection, -number, alone=True)  # campaigns have the positive ones
            yield partial(self._store._run, connection), number

    def _known(self, task: bytes) -> int:
        with self._store._guarded() as connection:
            return self._number(connection, task)

    def _number(self, connection: Any, task: bytes) -> int:
        number = self._store._number(connection, task, "pairs")
        assert number is not None
        return number


def _judge(
    rows: Sequence[UploadRow], *, phase: PairPhase, tokens: bool, known: dict[bytes, bytes], refused: set[bytes],
    free: dict[bytes, int], left: int | None,
) -> tuple[list[Outcome], list[UploadRow]]:  # fmt: skip
    """Outcome of each upload of a batch, and those to store.

    ``known`` has digests of stored uploads, ``refused`` those whose envelope the helper could not open: no retry is
    told that all is well. ``free`` says whether a token is used, ``left`` how many more uploads are taken.
    """
    outcomes: list[Outcome] = []
    new: list[UploadRow] = []
    for row in rows:
        stored = known.get(row.report)
        outcome: Outcome
        if stored is not None:
            outcome = "other-upload" if stored != row.digest else "bad-upload" if row.report in refused else "again"
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


NOT_OPEN: dict[PairPhase, Outcome] = {
    "confirming": "not-open-yet", "open": "not-open-yet", "closing": "uploads-closed", "levels": "uploads-closed",
    "done": "uploads-closed", "cancelled": "campaign-ended",
}  # fmt: skip


def _pair_row(row: Sequence[Any]) -> PairRow:
    found = PairRow(*row)
    return found._replace(task=bytes(found.task), confirmed=bool(found.confirmed), cleaned=bool(found.cleaned))
