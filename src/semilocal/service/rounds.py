"""Opening and closing rounds: what happens inside the one transaction that holds a campaign.

``advance`` is called by every worker, as often as it likes: under the lock it looks again whether something is due, so
exactly one of them closes a round, and calling it twice changes nothing. A server that was away past a deadline closes
the round with the reports it has; the next round gets its full window.

The state is a fold over the closings (``Curator.replay``); nothing is kept in memory between two closings. Reports are
read as a stream, by ascending pseudonym, once: for the tally and for the transcript's tree.

Knows a store's transaction and the machines of the protocol. The time is an argument. Knows no HTTP.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from ..errors import InvalidInput
from ..protocol.curator import Curator
from ..protocol.messages import (
    AnyQuery,
    AnyReport,
    Query,
    Report,
    Seal,
    ValueQuery,
    ValueReport,
    decode,
    decode_closed,
    encode,
)
from ..protocol.tally import RoundTally
from ..protocol.task import Task
from ..transcript.checkpoints import Checkpoint, seal_round
from ..transcript.saved_log import SavedLog
from .campaign import Campaign, Phase, Status
from .keys import NO_KEYS, Keyring
from .stores.base import Locked, ReportRow, Store

__all__ = ["advance", "cancel", "catch_up", "expected_reports", "report_bytes", "reports_needed", "start"]

_CHUNK = 4096
_answers = msgspec.msgpack.Decoder(int | tuple[int, ...] | None)


def advance(store: Store, task: bytes, now: float, keys: Keyring = NO_KEYS) -> Status | None:
    """Do what is due: open round 1, or close the open round, sign it if the task pins a key, and open the next.

    Returns where the campaign stood before, with the exact number of reports; None if nothing was due.
    """
    return _move_on(store, task, now, keys, forced=False)


def start(store: Store, task: bytes, now: float) -> Status | None:
    """End enrolment now and open round 1; None if it has ended already."""
    return _move_on(store, task, now, NO_KEYS, forced=True)


def cancel(store: Store, task: bytes) -> bool:
    """Cancel a campaign that has not ended. Closed rounds stay as they are."""
    with store.lock(task) as locked:
        if locked is None or locked.status.ended:
            return False
        status = locked.status
        locked.move(
            "cancelled", round_=status.closed, closed=status.closed, needed=None, deadline=None, fold=locked.fold
        )
        return True


def catch_up(store: Store, campaign: Campaign, closed: int, curator: Curator | None = None) -> Curator:
    """The curator of a campaign after a given number of closed rounds.

    Parameters
    ----------
    curator : Curator, optional
        Of the same campaign, not further on: only what is missing is read. It stays as it is.
    """
    out = Curator(campaign.task, campaign.plan) if curator is None else curator.fork()
    for number in range(out.round, closed + 1):
        data = store.message(campaign.task.id, number, "closed")
        if data is None:
            raise InvalidInput(f"round {number} of {campaign.task.id.hex()} is closed, but its closing is missing")
        out.follow(decode_closed(data))
    _ = out.paths  # here, in the reader's thread, and not when the first report waits for it
    return out


def expected_reports(store: Store, campaign: Campaign, status: Status) -> int | None:
    """Participants who may answer the open round (who may enrol, while enrolling); None if nobody knows."""
    if status.phase == "enrolling":
        return campaign.capacity
    if status.ended:
        return None
    expected = catch_up(store, campaign, status.closed).expected
    return status.enrolled if expected is None else expected


def _move_on(store: Store, task: bytes, now: float, keys: Keyring, *, forced: bool) -> Status | None:
    with store.lock(task) as locked:
        if locked is None or locked.status.ended:
            return None
        status = locked.status
        if status.phase == "enrolling":
            if not (forced or status.due(now)):
                return None
            _open_first(locked, now)
            return status
        if forced or not status.due(now):
            return None
        _close(locked, now, keys.key_for(locked.campaign.task))
        return status


def _open_first(locked: Locked, now: float) -> None:
    task = locked.campaign.task
    fold = SavedLog()
    fold.add([encode(task)])
    query = Curator(task).query()
    assert query is not None
    locked.open_round(1, encode(query))
    expected = locked.status.enrolled
    locked.move(
        "collecting", round_=1, closed=0, needed=reports_needed(task, expected), deadline=_deadline(task, now),
        fold=fold.to_bytes(),
    )  # fmt: skip


def _close(locked: Locked, now: float, key: bytes | None) -> None:
    campaign, status = locked.campaign, locked.status
    task, plan = campaign.task, campaign.plan
    curator = Curator.replay(task, map(decode_closed, locked.closings()), plan)
    query = curator.query()
    if query is None or locked.query(status.round) != encode(query):
        raise InvalidInput(f"the query of round {status.round} does not follow from the closings before it")
    fold = SavedLog.from_bytes(locked.fold)
    fold.add([encode(query)])
    tally = _count(curator.tally(), query, locked.reports(status.round), fold)
    closing = encode(curator.close(*tally.close()))
    following = curator.query()
    fold.add([closing])
    checkpoint = Checkpoint(task.id, status.round, fold.size, fold.root())
    before = locked.seal(status.round - 1)
    head = task.id if before is None else decode(before, Seal).head
    seal = seal_round(head, checkpoint, key=key)
    locked.close_round(status.round, closing, checkpoint.to_bytes(), seal.to_bytes())
    if isinstance(query, Query) and isinstance(following, ValueQuery):
        fold.add([encode(plan)])  # the plan enters the transcript once, before the first value query
    if following is None:
        locked.move(
            "finished", round_=status.round, closed=status.round, needed=None, deadline=None, fold=fold.to_bytes()
        )
        return
    locked.open_round(following.round, encode(following))
    phase: Phase = "releasing" if curator.partitioned else "collecting"
    locked.move(
        phase, round_=following.round, closed=status.round, needed=reports_needed(task, curator.expected or 0),
        deadline=_deadline(task, now), fold=fold.to_bytes(),
    )  # fmt: skip


def _count(tally: RoundTally, query: AnyQuery, rows: Iterable[ReportRow], fold: SavedLog) -> RoundTally:
    for chunk in _chunks(rows):
        reports = [_report(row, query) for row in chunk]
        fold.add([encode(report) for report in reports])
        tally.add_reports(reports)
    return tally


def _chunks(rows: Iterable[ReportRow]) -> Iterator[list[ReportRow]]:
    stream = iter(rows)
    while chunk := list(islice(stream, _CHUNK)):
        yield chunk


def reports_needed(task: Task, expected: int) -> int:
    """How many reports close a round before its deadline."""
    # Rounded down by a hair first: 0.7 * 10 is a little more than 7 in floats.
    return max(1, math.ceil(task.quorum * expected - 1e-9))


def _deadline(task: Task, now: float) -> int:
    return math.ceil(now) + task.window


def report_bytes(row: ReportRow, query: AnyQuery) -> bytes:
    """Canonical bytes of a stored report."""
    return encode(_report(row, query))


def _report(row: ReportRow, query: AnyQuery) -> AnyReport:
    answer = _answers.decode(row.answer)
    if isinstance(query, Query):
        return Report(query.task, query.round, row.pseudonym, row.cell, answer)
    assert isinstance(answer, int)
    return ValueReport(query.task, query.round, row.pseudonym, row.cell, answer)
