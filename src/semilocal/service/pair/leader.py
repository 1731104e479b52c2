"""The leader: brings a pair from its proposal to the signed transcript, one step at a time, whatever fails on the way.

A request is stored before it is sent, its answer before the next step. So a leader that crashes sends the same bytes
again, and gets the same answer. When the helper is away the leader waits and says so; nothing is given up.

Knows the tables, the play and the other server. Knows no HTTP: ``Send`` is an argument. The time is an argument.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import ParamSpec, Protocol, TypeVar

from ...errors import InvalidInput, PeerAway
from ...sharing.party import accepted_digest
from ...sharing.wire import (
    MAX_FORWARD,
    Closing,
    ClosingAnswer,
    Forward,
    ForwardAnswer,
    Proposal,
    ProposalAnswer,
    Sealed,
    join_ids,
)
from ..stores.pairs import PairTables
from .live import CLOSE, HELPER_ANSWERS, LivePair, build_play
from .play import NO_BUCKET, Play
from .work import OwnWorkers

__all__ = ["Leader", "Send"]

P = ParamSpec("P")
T = TypeVar("T")
Send = Callable[[LivePair, str, bytes], Awaitable[bytes]]


class InThread(Protocol):
    """Runs a blocking call in a thread."""

    def __call__(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...


class Leader:
    """What the leader does with its pairs.

    Parameters
    ----------
    tables : PairTables
    workers : OwnWorkers
    send : callable
        Sends a step's bytes to the helper; the answer's bytes.
    work, evaluate : callable
        Run a blocking call in a thread: one of the database, and one that waits for the evaluation.
    """

    def __init__(self, tables: PairTables, workers: OwnWorkers, send: Send, work: InThread, evaluate: InThread) -> None:
        self._tables, self._workers, self._send, self._work, self._evaluate = tables, workers, send, work, evaluate

    async def advance(self, live: LivePair, signing_secret: bytes, *, now: float) -> bool:
        """Do what can be done now; whether the pair came to another phase."""
        phase = live.row.phase
        if phase == "confirming":
            return await self._propose(live, now=now)
        if phase == "open":
            await self._forward(live)
            row = live.row
            full = row.capacity is not None and row.received >= row.capacity
            if not full and (row.deadline is None or now < row.deadline):
                ends = [] if row.capacity is None else [f"{row.capacity:,} have come"]
                ends += [] if row.deadline is None else ["the time is over"]
                live.waits_for = f"uploads, until {' or '.join([*ends, 'the operator starts the counting'])}"
                return False
            return await self._work(self._tables.move, live.task, "open", "closing")
        if phase == "closing":
            return await self._close(live)
        return await self._count(live, signing_secret)

    async def _propose(self, live: LivePair, *, now: float) -> bool:
        live.waits_for = live.waits_for or HELPER_ANSWERS
        answer = ProposalAnswer.from_bytes(
            await self._send(live, "propose", Proposal(live.row.name, live.body).to_bytes())
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
        while rows := await self._work(self._tables.waiting, live.task, after=after, limit=MAX_FORWARD):
            live.waits_for = "the helper to take uploads"
            after = rows[-1].number
            rows.sort(key=lambda row: row.report)
            reports = tuple(Sealed(row.report, row.public, row.onward, row.bucket) for row in rows)
            answer = ForwardAnswer.from_bytes(await self._send(live, "forward", Forward(reports).to_bytes()))
            if len(answer.outcomes) != len(rows):
                raise InvalidInput(f"{len(rows)} reports were forwarded; got {len(answer.outcomes)} outcomes")
            refused = [row.report for row, outcome in zip(rows, answer.outcomes, strict=True) if outcome != "stored"]
            await self._work(self._tables.forwarded, live.task, after, refused)
            if len(rows) < MAX_FORWARD and live.row.phase == "open":
                return  # let some more gather

    async def _close(self, live: LivePair) -> bool:
        """Fix which reports take part, on both servers."""
        await self._forward(live)
        stored = await self._work(self._tables.step, live.task, NO_BUCKET, CLOSE)
        if stored is None:
            ids = [report for report, _ in await self._work(self._tables.ids, live.task)]
            request = Closing(join_ids(ids)).to_bytes()
            stored = await self._work(self._tables.put_step, live.task, 0, NO_BUCKET, CLOSE, request, None)
        assert stored is not None
        if stored.answer is None:
            live.waits_for = "the helper to close"
            answer = await self._send(live, CLOSE, stored.request)
        else:
            answer = stored.answer
        reports = Closing.from_bytes(stored.request).ids
        if ClosingAnswer.from_bytes(answer).accepted != accepted_digest([reports]):
            raise InvalidInput("the helper closed another set of reports")
        await self._work(self._tables.put_answer, live.task, 0, answer)
        return await self._work(self._tables.move, live.task, "closing", "levels", accepted=len(reports) // 16)

    async def _count(self, live: LivePair, signing_secret: bytes) -> bool:
        """Play all levels and sign."""
        try:
            if live.play is None:
                live.waits_for = "the evaluation of the reports on this server"
                live.play = await self._evaluate(build_play, live, self._tables, self._workers, signing_secret)
            while live.play.due is not None:
                await self._exchange(live, live.play)
            transcript = live.play.signed_tree().to_bytes()
        except PeerAway:
            raise  # what is in memory is good: only the answer is missing
        except BaseException:
            live.drop_play()
            raise
        return await self._work(self._tables.move, live.task, "levels", "done", transcript=transcript)

    async def _exchange(self, live: LivePair, play: Play) -> None:
        assert play.due is not None
        bucket, step = play.due
        if live.pending is None:
            live.waits_for = f"the evaluation on this server for {step}"
            request = await self._evaluate(play.request)
            stored = await self._work(self._tables.put_step, live.task, live.steps, bucket, step, request, None)
            if stored is None or stored.request != request:
                raise InvalidInput(
                    f"the stored request of {step} is not what this server makes: its data or key changed"
                )
            live.pending = stored
        live.waits_for = f"the helper's answer to {step}"
        answer = await self._send(live, step, live.pending.request)
        await self._evaluate(play.advance, live.pending.request, answer)
        await self._work(self._tables.put_answer, live.task, live.pending.number, answer)
        live.steps, live.pending = live.pending.number + 1, None
