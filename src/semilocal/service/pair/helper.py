"""The helper: answers the leader's steps, each exactly once.

An answer is stored before it is sent. The same request gets the same stored bytes; another request for an answered
step, or a step that is not due, is refused. Uploads are taken until the leader closes the pair, none afterwards.

Knows the tables and the play. Knows no HTTP and no clock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from ...errors import InvalidInput, Refused
from ...sharing.envelope import open_envelope
from ...sharing.party import accepted_digest
from ...sharing.wire import (
    Closing,
    ClosingAnswer,
    Finish,
    Forward,
    ForwardAnswer,
    LevelCheck,
    LevelSums,
    Outcome,
    Sealed,
    Signature,
    split_ids,
)
from ..stores.pairs import LAST_STEP, PairTables, StepRow, UploadOutcome, UploadRow
from .live import CLOSE, LivePair, build_play, members_of
from .play import NO_BUCKET
from .work import OwnWorkers

__all__ = ["answer_close", "answer_forward", "answer_step"]


_OUTCOMES: dict[UploadOutcome, Outcome] = {
    "stored": "stored", "again": "stored", "other-upload": "replayed", "uploads-closed": "closed",
    "campaign-ended": "closed",
}  # fmt: skip


def answer_forward(live: LivePair, tables: PairTables, body: bytes) -> bytes:
    """Open and store reports; what became of each."""
    if live.row.phase == "confirming":
        raise Refused("not-confirmed", "this server's operator has not confirmed the pair", wait=5)
    reports = Forward.from_bytes(body).reports
    rows = [_opened(live, report) for report in reports]
    good = [row for row in rows if row is not None]
    outcomes = iter(tables.add(live.task, good)[0] if good else [])
    found: list[Outcome] = ["undecryptable" if row is None else _OUTCOMES[next(outcomes)] for row in rows]
    return ForwardAnswer(tuple(found)).to_bytes()


def _opened(live: LivePair, report: Sealed) -> UploadRow | None:
    """A report as it is stored; None if it is not for this server, pair, id and public part."""
    secrets = live.secrets
    if secrets is None:
        raise Refused("campaign-ended", "the pair has ended on this server")
    try:
        report.check(live.pair)
        private = open_envelope(
            report.envelope, secrets.opening_key, role="helper", task=live.task, report=report.id,
            public=report.public,
        )  # fmt: skip
    except InvalidInput:
        return None
    if len(private) != live.pair.shape.private_bytes:
        return None
    digest = hashlib.sha256(report.to_bytes()).digest()
    return UploadRow(
        report.id, report.bucket, digest, report.public, secrets.masked(private, report.id), b"", None
    )  # fmt: skip


def answer_close(live: LivePair, tables: PairTables, body: bytes) -> bytes:
    """Fix which reports take part."""
    stored = tables.step(live.task, NO_BUCKET, CLOSE)
    if stored is None:
        if live.row.phase != "open":
            raise Refused("out-of-order", f"the pair is {live.row.phase} on this server; it must be open to be closed")
        ids = split_ids(Closing.from_bytes(body).ids)
        members_of(live.pair, tables.ids(live.task), ids)
        stored = tables.put_step(live.task, 0, NO_BUCKET, CLOSE, body, ClosingAnswer(accepted_digest(ids)).to_bytes())
    answer = _same(stored, body)
    if live.row.phase == "open":  # also after a crash between the two writes
        tables.move(live.task, "open", "levels", accepted=len(split_ids(Closing.from_bytes(body).ids)))
    return answer


def answer_step(
    live: LivePair, tables: PairTables, workers: OwnWorkers, signing_secret: bytes, step: str, body: bytes
) -> bytes:
    """Answer a step of the play."""
    bucket = _BUCKETS[step.rsplit("/", 1)[-1]](body)
    stored = tables.step(live.task, bucket, step)
    if stored is None and live.row.phase != "levels":
        raise Refused("out-of-order", f"the pair is {live.row.phase} on this server; no level is counted now")
    if stored is not None and (step != LAST_STEP or live.row.phase != "levels"):
        return _same(stored, body)
    if live.play is None:
        live.play = build_play(live, tables, workers, signing_secret)
    play, due = live.play, live.play.due
    if stored is None and due != (bucket, step):
        words = "nothing" if due is None else f"{due.name} of bucket {due.bucket}"
        raise Refused("out-of-order", f"due is {words}; got {step} of bucket {bucket}")
    try:
        if stored is None:
            stored = tables.put_step(live.task, live.steps, bucket, step, body, play.answer(body))
            live.steps += 1
            play.advance(body, _same(stored, body))
        if play.due is None:  # also after a crash between the two writes
            tables.move(live.task, "levels", "done", transcript=play.signed_tree().to_bytes())
        return _same(stored, body)
    except BaseException:
        live.drop_play()
        raise


def _same(stored: StepRow | None, body: bytes) -> bytes:
    """The stored answer, if it is to this request."""
    if stored is None or stored.answer is None or stored.request != body:
        raise Refused("other-request", "this step was answered for another request; its answer stays as it is")
    return stored.answer


def _bucket_of_signature(body: bytes) -> int:
    Signature.from_bytes(body)
    return NO_BUCKET


_BUCKETS: dict[str, Callable[[bytes], int]] = {
    "check": lambda body: LevelCheck.from_bytes(body).bucket,
    "sums": lambda body: LevelSums.from_bytes(body).bucket,
    "finish": lambda body: Finish.from_bytes(body).bucket,
    "sign": _bucket_of_signature,
}
