"""A pair on this server, move by move: what is stored before and after the machine of :mod:`semilocal.sharing.machine`.

The database is the truth. A request is stored before it is sent, an answer before it is given or used, so a server that
comes back sends the same bytes again, and its machine is built from what was said. When the helper is away the leader
waits and says so; nothing is given up.

Knows the tables, the machines and the pool. Knows no HTTP: ``Send`` is an argument. The time is an argument. Functions
without ``async`` block; callers run them in threads.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import EvaluationFailed, InvalidInput, PeerAway, Refused, StoreUnavailable
from ...protocol.keys import derive
from ...sharing import wire
from ...sharing.machine import CLOSE, NO_BUCKET, Helper, Leader, Machine, Step
from ...sharing.pair import PairTask
from ...sharing.sealing import Role, open_envelope, read_secret
from ...sharing.verify import LevelShare
from ..background import Background
from ..campaign import token_hash
from ..stores.base import Outcome
from ..stores.pairs import LAST_STEP, PairRow, PairTables, StepRow, UploadRow
from .pool import Found, Job, Move, Pool, Reports, Tree

Flags = npt.NDArray[np.bool_]
HELPER_ANSWERS = "the helper's answer to the proposal"
_ROOT = b"semilocal/1/pair/root"
_SEALING = b"semilocal/1/pair/sealing"
_NOISE = b"semilocal/1/pair/noise"
_MASK = b"semilocal/1/pair/mask"
CHUNK = 4096  # reports of one job; their states at a level with 600 opened cells take 40 MB


class PairSecrets:
    """What opens a server's envelopes of a pair, makes its noise, and hides what it stores.

    All follows from the signing secret that the pair pins, which is not in the database, and from a random seed, which
    is: the database alone opens nothing. When the pair ends the seed is deleted; then the signing secret opens nothing.
    """

    def __init__(self, signing_secret: bytes, seed: bytes) -> None:
        self._root = derive(signing_secret, _ROOT + seed, 32)
        self.opening_key = read_secret(derive(self._root, _SEALING, 32))

    @property
    def sealing_key(self) -> bytes:
        """The public key that devices seal envelopes with."""
        return self.opening_key.public_key().public_bytes_raw()

    def noise_secret(self, task: bytes) -> bytes:
        """What the noise of this server is derived from."""
        return derive(self._root, _NOISE + task, 32)

    def masked(self, private: bytes, report: bytes) -> bytes:
        """A private part as it is stored; masking it again gives it back."""
        mask = derive(self._root, _MASK + report, len(private))
        return (int.from_bytes(private, "big") ^ int.from_bytes(mask, "big")).to_bytes(len(private), "big")


class LivePair:
    """A pair on this server, as of the last look."""

    def __init__(self, pair: PairTask, role: Role, row: PairRow) -> None:
        self.pair, self.role, self.row = pair, role, row
        self.task, self.body = pair.id, pair.to_bytes()
        self.secrets: PairSecrets | None = None
        self.machine: Leader | Helper | None = None  # built again from the stored steps when it is needed
        self.lock = asyncio.Lock()
        self.waits_for: str | None = None  # in words
        self.progress = (0, 0)  # parts of the reports that are evaluated of the present level, and all of them
        self.stuck: str | None = None  # which part cannot be evaluated and why, for the operator
        self.failed = False  # whether the leader's last step could not be answered
        self.steps = 0
        self.pending: StepRow | None = None  # the leader's request that is not answered yet

    def drop_machine(self) -> None:
        """Forget what is in memory only."""
        self.machine = self.pending = None

    def state(self, *, now: float, fault: str | None) -> dict[str, Any]:
        """Where the pair stands, for everybody; ready for JSON."""
        row, (done, total) = self.row, self.progress
        due = None if self.machine is None or row.phase != "levels" else self.machine.due
        return {
            "task": self.task.hex(), "kind": "pair", "experimental": True, "role": self.role, "name": row.name,
            "phase": row.phase, "confirmed": row.confirmed, "level": None if due is None else due.name,
            "received": row.received, "accepted": row.accepted, "refused": row.refused, "waits_for": self._waits(),
            "progress": done / total if total else None, "enrolment": row.enrolment, "deadline": row.deadline,
            "poll_after": 5 if row.ended else 1, "now": math.ceil(now), "fault": fault,
        }  # fmt: skip

    def _waits(self) -> str | None:
        if self.row.ended or self.role == "leader":
            return self.waits_for
        if not self.row.confirmed:
            return f"this server's operator to confirm: semilocal campaign confirm {self.task.hex()[:12]}"
        return f"the leader ({self.pair.leader.name})"


def build_machine(live: LivePair, tables: PairTables, pool: Pool, signing_secret: bytes) -> Leader | Helper:
    """The machine of a pair whose uploads are over, at the point to which the stored steps lead."""
    secrets = live.secrets
    if secrets is None:
        raise InvalidInput("the secrets of this pair were deleted: it has ended")

    def evaluator(bucket: int, ids: Sequence[bytes]) -> StoredHalf:
        if len(ids) > wire.MAX_TREE:
            raise InvalidInput(f"bucket {bucket} has {len(ids)} reports; a tree takes at most {wire.MAX_TREE}")
        return StoredHalf(live, secrets, tables, pool, bucket, ids)

    kind = Leader if live.role == "leader" else Helper
    machine: Leader | Helper = kind(
        live.pair, tables.ids(live.task), noise_secret=secrets.noise_secret(live.task), signing_secret=signing_secret,
        evaluator=evaluator,
    )  # fmt: skip
    steps = tables.steps(live.task)
    live.steps = len(steps)
    machine.replay([(Step(one.bucket, one.step), one.request, one.answer) for one in steps if one.answer is not None])
    return machine


# -- the reports of a tree, stored and evaluated in the pool -----------------------------------------------------------


class StoredHalf:
    """This server's half of the reports of a tree; an ``Evaluator`` of :mod:`semilocal.sharing.party`."""

    def __init__(
        self, live: LivePair, secrets: PairSecrets, tables: PairTables, pool: Pool, bucket: int, ids: Sequence[bytes],
        *, chunk: int = CHUNK,
    ) -> None:  # fmt: skip
        self._live, self._secrets, self._tables, self._pool = live, secrets, tables, pool
        self._bucket, self._ids = bucket, list(ids)
        self._parts = [slice(start, start + chunk) for start in range(0, max(len(ids), 1), chunk)]
        server = 0 if live.role == "leader" else 1
        digest = hashlib.sha256(live.task + bytes([server]) + bucket.to_bytes(8, "big") + b"".join(ids)).digest()
        self._tree = Tree(live.task, live.pair.shape, server, digest)
        self._moves: list[list[Move]] = [[] for _ in self._parts]

    def verify_init(self) -> LevelShare:
        """Sums and tags of the level below."""
        return LevelShare(*self._evaluated(None))

    def sums_of(self, reports: Flags) -> npt.NDArray[np.uint64]:
        """Sums over some reports only."""
        return self._evaluated(reports)[0]

    def verify_next(self, rejected: Flags) -> None:
        """Reports that count no longer."""
        self._move(Move(None, rejected[part].tobytes()) for part in self._parts)

    def open(self, rows: npt.NDArray[np.int64]) -> None:
        """Go one level down."""
        self._move([Move(rows.astype("<i8").tobytes(), None)] * len(self._parts))

    def _move(self, moves: Iterable[Move]) -> None:
        for mine, move in zip(self._moves, moves, strict=True):
            mine.append(move)

    def _evaluated(self, reports: Flags | None) -> Found:
        """Sums and tags of the level; or the sums over some reports."""
        jobs = [
            Job(self._tree, number, tuple(moves), None if reports is None else reports[part].tobytes())
            for number, (part, moves) in enumerate(zip(self._parts, self._moves, strict=True))
        ]
        try:
            found = self._pool.evaluate(jobs, self._reports, lambda done: self._look(done, len(jobs)))
        except EvaluationFailed as error:
            self._live.stuck = str(error)
            raise
        self._live.stuck = None
        sums, tags = zip(*found, strict=True)
        return np.sum(sums, axis=0, dtype=np.uint64), np.concatenate(tags)

    def _reports(self, number: int) -> Reports:
        """The reports of a part as they were uploaded."""
        ids = self._ids[self._parts[number]]
        if not ids:
            return Reports([], [], [])
        wanted = set(ids)
        rows = self._tables.shares(self._live.task, self._bucket, ids[0], ids[-1])
        rows = [row for row in rows if row.report in wanted]
        if len(rows) != len(ids):
            raise InvalidInput(f"it has {len(ids)} reports, but {len(rows)} are stored")
        private = [self._secrets.masked(row.private, row.report) for row in rows]
        return Reports(ids, [row.public for row in rows], private)

    def _look(self, done: int, total: int) -> None:
        self._live.progress = (done, total)
        row = self._tables.row(self._live.task)
        if row is None or row.phase != "levels":
            raise StoreUnavailable("the pair is not counted any more")


# -- uploads: both servers open their envelope, so that a bad one takes no part ----------------------------------------


def upload_row(
    pair: PairTask, secrets: PairSecrets, sent: wire.Upload | wire.Sealed, digest: bytes
) -> UploadRow | None:
    """A device's upload on the leader, or what the leader forwards, as it is stored; None if it does not open."""
    role: Role = "leader" if isinstance(sent, wire.Upload) else "helper"
    envelope = sent.leader_envelope if isinstance(sent, wire.Upload) else sent.envelope
    given = sent.token or "" if isinstance(sent, wire.Upload) else ""
    try:
        sent.check(pair)
        private = open_envelope(
            envelope, secrets.opening_key, role=role, task=pair.id, report=sent.id, public=sent.public,
            bucket=sent.bucket, token=given,
        )  # fmt: skip
    except InvalidInput:
        return None
    if len(private) != pair.shape.private_bytes:
        return None
    onward = sent.helper_envelope if isinstance(sent, wire.Upload) else b""
    token = token_hash(given) if given else None
    return UploadRow(sent.id, sent.bucket, digest, sent.public, secrets.masked(private, sent.id), onward, token)


# -- the leader --------------------------------------------------------------------------------------------------------


Send = Callable[[LivePair, str, bytes], Awaitable[bytes]]


class Leading:
    """What the leader does with its pairs, from the proposal to the transcript; ``send`` gives the helper's answer."""

    def __init__(self, tables: PairTables, pool: Pool, send: Send, background: Background) -> None:
        self._tables, self._pool, self._send, self._background = tables, pool, send, background
        self._work = background.work

    async def advance(self, live: LivePair, signing_secret: bytes, *, now: float) -> bool:
        """Do what can be done now; whether the pair came to another phase."""
        phase = live.row.phase
        if phase == "confirming":
            return await self._propose(live, now=now)
        if phase != "levels":
            await self._forward(live)
        if phase == "open":
            row = live.row
            full = row.capacity is not None and row.received >= row.capacity
            if not full and (row.deadline is None or now < row.deadline):
                ends = [] if row.capacity is None else [f"{row.capacity:,} have come"]
                ends += [] if row.deadline is None else ["the time is over"]
                live.waits_for = f"uploads, until {' or '.join([*ends, 'the operator starts the counting'])}"
                return False
            return await self._work(self._tables.move, live.task, "open", "closing")
        return await self._count(live, signing_secret)

    async def _propose(self, live: LivePair, *, now: float) -> bool:
        live.waits_for = live.waits_for or HELPER_ANSWERS
        answer = wire.ProposalAnswer.from_bytes(
            await self._send(live, "propose", wire.Proposal(live.row.name, live.body).to_bytes())
        )
        missing = [] if live.row.confirmed else [f"the leader's operator ({live.pair.leader.name})"]
        missing += [] if answer.confirmed else [f"the helper's operator ({live.pair.helper.name})"]
        if missing:
            live.waits_for = f"{' and '.join(missing)} to confirm: semilocal campaign confirm {live.task.hex()[:12]}"
            return False
        deadline = None if live.row.seconds is None else math.ceil(now) + live.row.seconds
        return await self._work(self._tables.move, live.task, "confirming", "open", deadline=deadline)

    async def _forward(self, live: LivePair) -> None:
        """Give the helper all uploads that it does not have yet."""
        after = live.row.forwarded
        while rows := await self._work(self._tables.waiting, live.task, after=after, limit=wire.MAX_FORWARD):
            live.waits_for = "the helper to take uploads"
            after = rows[-1].number
            rows.sort(key=lambda row: row.report)
            reports = tuple(wire.Sealed(row.report, row.public, row.onward, row.bucket) for row in rows)
            answer = wire.ForwardAnswer.from_bytes(await self._send(live, "forward", wire.Forward(reports).to_bytes()))
            if len(answer.outcomes) != len(rows):
                raise InvalidInput(f"{len(rows)} reports were forwarded; got {len(answer.outcomes)} outcomes")
            refused = [row.report for row, outcome in zip(rows, answer.outcomes, strict=True) if outcome != "stored"]
            await self._work(self._tables.forwarded, live.task, after, refused)
            if len(rows) < wire.MAX_FORWARD and live.row.phase == "open":
                return  # let some more gather

    async def _count(self, live: LivePair, signing_secret: bytes) -> bool:
        """Close, play all levels and sign."""
        try:
            if live.machine is None:
                live.waits_for = "the evaluation of the reports on this server"
                live.machine = await self._background.run(
                    "evaluating", build_machine, live, self._tables, self._pool, signing_secret
                )
            machine = live.machine
            assert isinstance(machine, Leader)
            if live.row.phase == "closing":
                if machine.due == (NO_BUCKET, CLOSE):  # else it crashed before it moved
                    await self._exchange(live, machine)
                accepted = machine.accepted
                return await self._work(self._tables.move, live.task, "closing", "levels", accepted=accepted)
            while machine.due is not None:
                await self._exchange(live, machine)
            transcript = machine.signed_tree().to_bytes()
        except PeerAway:
            raise  # what is in memory is good: only the answer is missing
        except BaseException:
            live.drop_machine()
            raise
        return await self._work(self._tables.move, live.task, "levels", "done", transcript=transcript)

    async def _exchange(self, live: LivePair, machine: Leader) -> None:
        assert machine.due is not None
        bucket, step = machine.due
        if live.pending is None:
            live.waits_for = f"the evaluation on this server for {step}"
            request = await self._background.run("evaluating", machine.request)
            stored = await self._work(self._tables.put_step, live.task, live.steps, bucket, step, request, None)
            if stored is None or stored.request != request:
                raise InvalidInput(
                    f"the stored request of {step} is not what this server makes: its data or key changed"
                )
            live.pending = stored
        live.waits_for = f"the helper's answer to {step}"
        answer = await self._send(live, step, live.pending.request)
        await self._background.run("evaluating", machine.advance, live.pending.request, answer)
        await self._work(self._tables.put_answer, live.task, live.pending.number, answer)
        live.steps, live.pending = live.pending.number + 1, None


# -- the helper --------------------------------------------------------------------------------------------------------


_OUTCOMES: dict[Outcome, wire.Outcome] = {
    "stored": "stored", "again": "stored", "other-upload": "replayed", "uploads-closed": "closed",
    "campaign-ended": "closed",
}  # fmt: skip
_REQUESTS: dict[str, type[wire.Message]] = {
    CLOSE: wire.Closing, "check": wire.LevelCheck, "sums": wire.LevelSums, "finish": wire.Finish,
    LAST_STEP: wire.Signature,
}  # fmt: skip


def answer_forward(live: LivePair, tables: PairTables, body: bytes) -> bytes:
    """Open and store reports; what became of each."""
    if live.row.phase == "confirming":
        raise Refused("not-confirmed", "this server's operator has not confirmed the pair", wait=5)
    secrets, reports = live.secrets, wire.Forward.from_bytes(body).reports
    if secrets is None:
        raise Refused("campaign-ended", "the pair has ended on this server")
    rows = [upload_row(live.pair, secrets, one, hashlib.sha256(one.to_bytes()).digest()) for one in reports]
    good = [row for row in rows if row is not None]
    outcomes = iter(tables.add(live.task, good) if good else [])
    found: list[wire.Outcome] = ["undecryptable" if row is None else _OUTCOMES[next(outcomes)] for row in rows]
    return wire.ForwardAnswer(tuple(found)).to_bytes()


def answer_step(live: LivePair, tables: PairTables, pool: Pool, signing_secret: bytes, step: str, body: bytes) -> bytes:
    """Answer a step, exactly once.

    The answer is stored before it is sent. The same request gets the same stored bytes; another request for an answered
    step, or a step that is not due, is refused.
    """
    message = _REQUESTS[step.rsplit("/", 1)[-1]].from_bytes(body)
    bucket, phase = getattr(message, "bucket", NO_BUCKET), live.row.phase
    stored = tables.step(live.task, bucket, step)
    needed = "open" if step == CLOSE else "levels"
    if stored is None and phase != needed:
        raise Refused("out-of-order", f"the pair is {phase} on this server; it must be {needed} for {step}")
    if stored is not None and not (step in (CLOSE, LAST_STEP) and phase == needed):
        return _same(stored, body)
    if live.machine is None:
        live.machine = build_machine(live, tables, pool, signing_secret)
    machine = live.machine
    assert isinstance(machine, Helper)
    if stored is None and machine.due != (bucket, step):
        due = "nothing" if machine.due is None else f"{machine.due.name} of bucket {machine.due.bucket}"
        raise Refused("out-of-order", f"due is {due}; got {step} of bucket {bucket}")
    try:
        if stored is None:
            stored = tables.put_step(live.task, live.steps, bucket, step, body, machine.answer(body))
            live.steps += 1
            machine.advance(body, _same(stored, body))
        _settle(live, tables, machine)  # also after a crash between the two writes
        return _same(stored, body)
    except BaseException:
        live.drop_machine()
        raise


def _settle(live: LivePair, tables: PairTables, machine: Machine) -> None:
    """Come to the phase in which the machine is."""
    if live.row.phase == "open":
        tables.move(live.task, "open", "levels", accepted=machine.accepted)
    if machine.due is None:
        tables.move(live.task, "levels", "done", transcript=machine.signed_tree().to_bytes())


def _same(stored: StepRow | None, body: bytes) -> bytes:
    """The stored answer, if it is to this request."""
    if stored is None or stored.answer is None or stored.request != body:
        raise Refused("other-request", "this step was answered for another request; its answer stays as it is")
    return stored.answer
