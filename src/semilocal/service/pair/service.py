"""Pairs behind the routes: what this server knows of them, who may do what, and what is done meanwhile.

One asyncio task per pair does what is due (:mod:`.play`); steps of the other server are answered one at a time per
pair. Blocking work runs in threads, evaluation in a pool of processes.

Knows the tables, both roles and a clock that is passed in. Knows no HTTP: the other server is an argument.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...errors import EvaluationFailed, InvalidInput, PeerAway, Refused, SchemaMismatch
from ...sharing.machine import Helper
from ...sharing.pair import Operator, PairTask
from ...sharing.wire import Proposal, ProposalAnswer, Receipt, Upload
from ..background import Background
from ..campaign import fresh_tokens, token_hash
from ..faults import PUBLIC, Faults, Seldom
from ..keys import Keyring
from ..stores.base import OTHER_VERSION, Applied, Outcome, Store
from ..stores.pairs import NOT_OPEN, SEED, PairRow, UploadRow
from ..writer import Writer
from .form import PairForm, PairSettings
from .peer import Peer, check_request
from .play import HELPER_ANSWERS, Leading, LivePair, PairSecrets, answer_forward, answer_step, upload_row
from .pool import Pool

log = logging.getLogger("semilocal.service")

MAX_UNCONFIRMED = 32
NO_PAIR = "this server has no pair with this task"
UNKNOWN_LEADER = "the proposal is not signed by the leader whose key this server was started with (--peer-key)"
EVALUATING = 64  # pairs that are evaluated at the same time; one that is stuck keeps its place
LONGEST_PAUSE = 10.0
REASONS = {
    "bad-upload": (
        "an envelope does not open: it was sealed for another key, pair, report, public part, bucket or token"
    ),
    "not-open-yet": "uploads begin when both operators have confirmed the pair",
    "uploads-closed": "uploads are closed; this one was not stored before",
}


class IncomingUpload(NamedTuple):
    """An upload on its way into the database; ``digest`` is of its bytes."""

    task: bytes
    live: LivePair
    upload: Upload
    digest: bytes


class PairService:
    """All pairs of a server.

    ``clock`` is Unix time. The peer is the helper, for a leader; made from the settings if left out. Whoever holds it
    calls ``begin_looks`` every now and then.
    """

    def __init__(
        self, store: Store, *, clock: Callable[[], float], keys: Keyring, settings: PairSettings,
        peer: Peer | None = None,
    ) -> None:  # fmt: skip
        settings.check()
        self.settings, self._clock, self._keys = settings, clock, keys
        self._store, self._tables = store, store.pairs
        self._peer = peer if peer is not None or settings.role == "helper" else Peer(settings.peer)
        self._pool = Pool(settings.processes)
        self._background = Background(database=4, evaluating=EVALUATING)
        self._read, self._work = self._background.read, self._background.work
        self._leader = Leading(self._tables, self._pool, self._send, self._background)
        self._live: dict[bytes, LivePair] = {}
        self._looks: dict[bytes, asyncio.Future[Any]] = {}  # one per pair
        self._pauses: dict[bytes, tuple[float, float]] = {}  # when to look again after a failure, and the pause
        self.writer = Writer(self.apply, lambda full: None, gather=store.gather)
        self.faults = Faults()
        self._seldom = Seldom()
        self._answered, self._lost = time.monotonic(), False  # when the other server answered; whether it does not now

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to write uploads."""
        self.writer.start()
        await self._work(self._store.first_setting, SEED, secrets.token_bytes(32))

    async def stop(self) -> None:
        """Write what is queued, and stop; steps that are cut off are repeated after the next start."""
        await self._background.cancel()
        self._pool.stop()
        await self._background.stop(self.writer.stop())
        if self._peer is not None:
            await self._peer.close()

    async def tick(self) -> None:
        """Do once what is due for every pair, also after a failure, and wait until it is done."""
        self._pauses.clear()
        await self.begin_looks()
        await asyncio.gather(*self._looks.values())

    async def begin_looks(self) -> None:
        """Look at every pair that nobody looks at now and that has no pause."""
        for row in await self._read(self._tables.rows, active=True):
            task, again = row.task, self._pauses.get(row.task, (0.0, 0.0))[0]
            if task not in self._looks and time.monotonic() >= again:
                self._looks[task] = self._background.spawn(self._look(task))
                self._looks[task].add_done_callback(lambda _, task=task: self._looks.pop(task, None))  # type: ignore[misc]

    async def _look(self, task: bytes) -> None:
        """Do what is due for a pair; after a failure the next look waits, longer each time."""
        if await self._look_at(task):
            self._pauses.pop(task, None)
        else:
            pause = min(2 * self._pauses.get(task, (0.0, 0.1))[1], LONGEST_PAUSE)
            self._pauses[task] = (time.monotonic() + pause, pause)

    async def _look_at(self, task: bytes) -> bool:
        """Do what is due for a pair; False if it cannot go on now."""
        try:
            live = await self.find(task)
            while await self._advance(live):
                pass
        except PeerAway as error:
            self._live[task].waits_for = f"the helper: {error}"
            if error.refuses:
                self.faults.note(task, error)
            elif self._seldom.allow("peer"):
                log.warning("%s; it last answered %.0f s ago, and pairs wait for it", error, self.silence or 0.0)
            return False
        except Exception as error:
            return not await self._note(task, error)
        if not live.failed or live.row.ended:
            self.faults.clear(task)
        return True

    async def _note(self, task: bytes, error: Exception) -> bool:
        """Note a fault; False if the pair has ended meanwhile, and nothing has to go on."""
        with contextlib.suppress(Exception):  # what went wrong first is what counts
            row = await self._read(self._tables.row, task)
            if row is not None and row.ended:
                return False
        self.faults.note(task, error)
        return True

    async def _advance(self, live: LivePair) -> bool:
        """Do what is due for a pair; whether there may be more to do at once."""
        await self.refresh(live)
        row = live.row
        if row.ended:
            if not row.cleaned:
                await self._clean(live)
            return False
        if live.role == "helper":
            return False
        moved = await self._leader.advance(live, self.signing_secret(live.pair), now=self._clock())
        if moved:
            await self.refresh(live)
            log.info("pair %r (%s): %s", row.name, row.task.hex()[:12], live.row.phase)
        return moved

    async def _clean(self, live: LivePair) -> None:
        """Forget everything secret, in memory and on disk."""
        async with live.lock:  # no step is answered any more
            live.drop_machine()
            live.secrets, live.waits_for = None, "the shares to be deleted"
            await self._work(self._tables.clean, live.task)
            await self._work(self._pool.forget, live.task)
        live.waits_for = None
        await self.refresh(live)
        log.info("pair %r (%s): shares and secrets are deleted", live.row.name, live.task.hex()[:12])

    # -- what this server knows ------------------------------------------------------------------------------------

    async def find(self, task: bytes) -> LivePair:
        """The copy of a pair; refuses a task that is none."""
        found = await self.look_up(task)
        if found is None:
            raise Refused("no-such-task", NO_PAIR)
        return found

    async def look_up(self, task: bytes) -> LivePair | None:
        """The copy of a pair, however old; None if the task is none."""
        live = self._live.get(task)
        if live is None:
            row, body = await self._read(self._tables.row, task), await self._read(self._tables.body, task)
            if row is None or body is None:
                return None
            try:
                pair = PairTask.from_bytes(body)
            except InvalidInput as error:
                raise SchemaMismatch(f"{OTHER_VERSION} ({error})") from None
            live = self._live.setdefault(task, LivePair(pair, row.role, row))
            await self.refresh(live)
        return live

    async def refresh(self, live: LivePair) -> LivePair:
        """Read where a pair stands."""
        row = await self._read(self._tables.row, live.task)
        assert row is not None
        if row.phase not in NOT_OPEN or row.role not in ("leader", "helper"):
            raise InvalidInput(f"the database has the phase {row.phase!r} and the role {row.role!r} for this pair")
        live.row = row
        if live.secrets is None and row.confirmed and not row.ended:
            seed = await self._read(self._tables.seed, live.task)
            if seed is not None:
                live.secrets = PairSecrets(self.signing_secret(live.pair), seed)
        return live

    async def rows(self) -> list[PairRow]:
        """All pairs."""
        return await self._read(self._tables.rows)

    def signing_secret(self, pair: PairTask) -> bytes:
        """The secret of the key that a pair pins for this server."""
        key = pair.operator(self.settings.role).signing_key
        if key not in self._keys.private:
            raise InvalidInput(f"the pair pins the key {key.hex()[:16]}…, which this server does not have as its own")
        return self._keys.private[key]

    async def operator(self) -> Operator:
        """Who runs this server, with the sealing key for the next pair."""
        seed = await self._read(self._store.setting, SEED)
        current = self._keys.private.get(self._keys.current)
        if seed is None or current is None:
            raise Refused("unavailable", "the server has no key yet", wait=1)
        sealing = PairSecrets(current, seed).sealing_key
        return Operator(self.settings.name, self.settings.origin, self._keys.current, sealing)

    def state(self, live: LivePair, *, operator: bool = False) -> dict[str, Any]:
        """Where a pair stands: for everybody, or for this server's operator, with the reason why it does not go on."""
        fault = self.faults.words(live.task) if operator else self.faults.public(live.task)
        if live.stuck is not None and not live.row.ended:
            fault = live.stuck if operator else PUBLIC
        return live.state(now=self._clock(), fault=fault)

    # -- administrators --------------------------------------------------------------------------------------------

    async def create(self, form: PairForm) -> bytes:
        """Create a pair with the helper that this leader knows; its id."""
        if self._peer is None:
            raise Refused("wrong-role", "a helper creates no pairs: create it on the leader")
        try:
            helper = await self._peer.operator()
        except PeerAway as error:
            raise Refused("peer-away", str(error), wait=5) from None
        pair = form.build(await self.operator(), helper)
        is_new = await self._read(
            self._tables.create, pair.id, pair.to_bytes(), role="leader", name=form.name, enrolment=form.enrolment,
            capacity=form.capacity or form.most, seconds=form.upload_seconds,
        )  # fmt: skip
        if not is_new:
            raise Refused("task-exists", "change the task, for example its label, to run it again")
        log.info("pair %r (%s): proposed to %s", form.name, pair.id.hex()[:12], helper.name)
        return pair.id

    async def confirm(self, live: LivePair) -> LivePair:
        """The operator of this server agrees."""
        row = (await self.refresh(live)).row
        if row.confirmed or row.phase != "confirming":
            return live
        own = await self.operator()
        if live.pair.operator(live.role) != own:
            raise InvalidInput(
                f"the pair names {live.pair.operator(live.role).name} at {live.pair.operator(live.role).origin} with "
                "keys that this server no longer offers: a sealing key is for one pair. Create the pair again"
            )
        seed = await self._read(self._store.setting, SEED)
        assert seed is not None
        if not await self._read(self._tables.confirm, live.task, seed=seed, next_seed=secrets.token_bytes(32)):
            raise InvalidInput("another pair has just got this sealing key; create the pair again")
        if live.role == "helper":
            await self._read(self._tables.move, live.task, "confirming", "open")
        live.waits_for = HELPER_ANSWERS  # no longer for this operator
        log.info("pair %r (%s): confirmed", row.name, live.task.hex()[:12])
        return await self.refresh(live)

    async def end_uploads(self, live: LivePair) -> LivePair:
        """Count what is there."""
        if live.role == "helper":
            raise Refused("wrong-role", "uploads are ended on the leader")
        row = (await self.refresh(live)).row
        if row.phase == "confirming":
            raise Refused("not-confirmed", "the pair is not confirmed by both operators yet")
        if row.phase == "cancelled":
            raise Refused("campaign-ended", "the pair was cancelled")
        await self._read(self._tables.move, live.task, "open", "closing")
        return await self.refresh(live)

    async def cancel(self, live: LivePair) -> LivePair:
        """End a pair without a result; its shares are deleted."""
        await self.refresh(live)
        while not live.row.ended:  # a step that waits for the evaluation sees it and gives up
            await self._read(self._tables.move, live.task, live.row.phase, "cancelled")
            await self.refresh(live)
        return live

    async def new_tokens(self, live: LivePair, count: int) -> list[str]:
        """Fresh one-time tokens; only their hashes are stored."""
        if live.role == "helper":
            raise Refused("wrong-role", "tokens are made on the leader")
        tokens = fresh_tokens(count)
        await self._read(self._tables.add_tokens, live.task, [token_hash(token) for token in tokens])
        return tokens

    async def transcript(self, live: LivePair) -> bytes:
        """The signed transcript."""
        data = await self._read(self._tables.transcript, live.task)
        if data is None:
            if live.row.phase == "cancelled":
                raise Refused("campaign-ended", "the pair was cancelled")
            raise Refused("not-closed-yet", f"the pair is {live.row.phase}", wait=1)
        return data

    # -- devices ---------------------------------------------------------------------------------------------------

    async def upload(self, task: bytes, report: bytes, body: bytes) -> tuple[Outcome, Receipt]:
        """Store an upload; returns when it is on disk."""
        live = await self.find(task)
        if live.role == "helper":
            raise Refused("wrong-role", f"devices upload to the leader, {live.pair.leader.origin}")
        try:
            upload = Upload.from_bytes(body)
        except InvalidInput as error:
            raise Refused("not-canonical", str(error)) from None
        if upload.id != report:
            raise Refused("other-report", "the report in the body is not the one in the path")
        try:
            upload.check(live.pair)
        except InvalidInput as error:
            raise Refused("bad-upload", str(error)) from None
        if live.secrets is None:
            await self.refresh(live)
        digest = hashlib.sha256(body).digest()
        outcome = await self.writer.put(IncomingUpload(task, live, upload, digest))
        if outcome not in ("stored", "again"):
            raise Refused(outcome, REASONS.get(outcome, ""), wait=5 if outcome == "not-open-yet" else None)
        return outcome, Receipt.issue(self.signing_secret(live.pair), task, report, digest, now=self._clock())

    def apply(self, batch: Sequence[IncomingUpload]) -> Applied:
        """Open and store a batch; for the writer."""
        outcomes: list[Outcome] = ["bad-upload"] * len(batch)
        groups: dict[bytes, list[tuple[int, UploadRow]]] = {}
        for place, (task, live, upload, digest) in enumerate(batch):
            if live.secrets is None:
                outcomes[place] = NOT_OPEN[live.row.phase]
            elif (row := upload_row(live.pair, live.secrets, upload, digest)) is not None:
                groups.setdefault(task, []).append((place, row))
        for task, rows in groups.items():
            for (place, _), outcome in zip(rows, self._tables.add(task, [row for _, row in rows]), strict=True):
                outcomes[place] = outcome
        return Applied(outcomes, set())

    # -- the other server ------------------------------------------------------------------------------------------

    async def _send(self, live: LivePair, step: str, body: bytes) -> bytes:
        assert self._peer is not None
        path = f"/tasks/{live.task.hex()}/peer/{step}"
        secret, key = self.signing_secret(live.pair), live.pair.helper.signing_key
        try:
            answer = await self._peer.step(path, body, secret=secret, key=key, now=self._clock())
        except PeerAway as error:
            self._heard(error.refuses)
            raise
        self._heard(True)
        return answer

    def _heard(self, answered: bool) -> None:
        """Note whether the other server has answered the last request."""
        self._lost = not answered
        if answered:
            self._answered = time.monotonic()

    @property
    def silence(self) -> float | None:
        """Seconds since the other server answered, if it did not answer the last request, else 0; None on a helper."""
        if self._peer is None:
            return None
        return time.monotonic() - self._answered if self._lost else 0.0

    def check_leader(self, live: LivePair | None, step: str, header: str, path: str) -> tuple[bytes, bytes]:
        """Signature and digest of a step of the pair's leader; a new pair is taken from the allowed leader only."""
        if live is not None:
            return check_request(header, live.pair.leader.signing_key, "POST", path, now=self._clock())
        if step != "propose":
            raise Refused("no-such-task", NO_PAIR)
        try:
            return check_request(header, bytes.fromhex(self.settings.leader), "POST", path, now=self._clock())
        except Refused as error:
            raise Refused("unknown-leader", UNKNOWN_LEADER) if error.token == "bad-signature" else error from None

    async def answer(self, task: bytes, step: str, body: bytes) -> bytes:
        """Answer a step whose signature is good."""
        if self.settings.role != "helper":
            raise Refused("wrong-role", "this server is not a helper")
        if step == "propose":
            return await self._answer_proposal(task, body)
        live = await self.find(task)
        async with live.lock:
            try:
                answer = await self._answer_step(live, step, body)
            except Refused:
                raise
            except Exception as error:
                live.failed = await self._note(task, error)
                if isinstance(error, EvaluationFailed):
                    words = "this server cannot evaluate now; its operator sees why"
                    raise Refused("unavailable", words, wait=5) from None
                raise
            live.failed = False
        if live.machine is not None and step != "forward":
            self._background.spawn(self._prepare(live))
        return answer

    async def _refresh_running(self, live: LivePair) -> None:
        """Read where a pair stands; the other server is refused if this one's operator has cancelled it."""
        await self.refresh(live)
        if live.row.phase == "cancelled":
            raise Refused("campaign-ended", "this server's operator cancelled the pair")

    async def _answer_step(self, live: LivePair, step: str, body: bytes) -> bytes:
        await self._refresh_running(live)
        if step == "forward":
            return await self._work(answer_forward, live, self._tables, body)
        secret = self.signing_secret(live.pair)
        answer = await self._background.run(
            "evaluating", answer_step, live, self._tables, self._pool, secret, step, body
        )
        await self.refresh(live)
        return answer

    async def _prepare(self, live: LivePair) -> None:
        """Evaluate the next level while the leader does the same."""
        async with live.lock:
            machine = live.machine
            if not isinstance(machine, Helper) or live.row.phase != "levels":
                return
            try:
                await self._background.run("evaluating", machine.prepare)
            except Exception as error:
                live.drop_machine()
                live.failed = await self._note(live.task, error)

    async def _answer_proposal(self, task: bytes, body: bytes) -> bytes:
        proposal = Proposal.from_bytes(body)
        pair = PairTask.from_bytes(proposal.pair)
        if pair.id != task:
            raise Refused("other-task", "the proposed pair is not the one in the path")
        live = await self.look_up(task)
        if live is None:
            if pair.leader.signing_key.hex() != self.settings.leader:
                raise Refused("unknown-leader", UNKNOWN_LEADER)
            own = await self.operator()
            if pair.helper != own:
                raise Refused(
                    "malformed",
                    f"the pair's helper is {pair.helper.name} at {pair.helper.origin} with other keys than this server "
                    f"offers now ({own.name} at {own.origin}, GET /operator); create the pair again",
                )
            if await self._read(self._tables.unconfirmed) >= MAX_UNCONFIRMED:
                raise Refused(
                    "overloaded", f"{MAX_UNCONFIRMED} pairs wait for the operator; confirm or close some", wait=60
                )
            await self._read(
                self._tables.create, task, proposal.pair, role="helper", name=proposal.name, enrolment="open",
                capacity=None, seconds=None,
            )  # fmt: skip
            log.info("pair %r (%s): proposed by %s", proposal.name, task.hex()[:12], pair.leader.name)
            live = await self.find(task)
        await self._refresh_running(live)
        return ProposalAnswer(live.row.confirmed).to_bytes()
