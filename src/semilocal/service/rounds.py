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
import secrets
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from ..arrays import Integers
from ..errors import InvalidInput
from ..protocol.curator import Curator
from ..protocol.messages import (
    Closed,
    Query,
    Report,
    ValueClosed,
    ValueQuery,
    ValueReport,
    decode,
    decode_query,
    encode,
)
from ..protocol.plan import Plan
from ..protocol.task import Task
from ..transcript.checkpoints import Checkpoint, Seal, next_head, public_key, seal_round
from ..transcript.saved_log import SavedLog
from .campaign import Campaign, Phase, Status
from .stores.base import Locked, ReportRow, Store

__all__ = ["advance", "cancel", "expected_reports", "regions_of", "report_bytes", "server_key", "start", "verify"]

_CHUNK = 4096
_answers = msgspec.msgpack.Decoder(int | tuple[int, ...] | None)


def advance(store: Store, task: bytes, now: float) -> Status | None:
    """Do what is due: open round 1, or close the open round and open the next.

    Returns where the campaign stood before, with the exact number of reports; None if nothing was due.
    """
    return _move_on(store, task, now, forced=False)


def start(store: Store, task: bytes, now: float) -> Status | None:
    """End enrolment now and open round 1; None if it has ended already."""
    return _move_on(store, task, now, forced=True)


def signing_key(store: Store) -> bytes:
    """The server's Ed25519 key, made at first use. Its public half is what a task pins."""
    return store.setting("signing-key", default=secrets.token_bytes(32))


def server_key(store: Store) -> bytes:
    """The public half of the server's key: 32 bytes."""
    return public_key(signing_key(store))


def cancel(store: Store, task: bytes) -> bool:
    """Cancel a campaign that has not ended. Closed rounds stay as they are."""
    with store.lock(task) as held:
        if held is None or held.status.ended:
            return False
        status = held.status
        held.move("cancelled", round_=status.closed, closed=status.closed, needed=None, deadline=None, fold=held.fold)
        return True


def expected_reports(store: Store, campaign: Campaign, status: Status) -> int | None:
    """Participants who may answer the open round (who may enrol, while enrolling); None if nobody knows."""
    if status.phase == "enrolling":
        return campaign.capacity
    if status.round <= 1 or status.ended:
        return None if status.ended else status.enrolled
    found = (store.message(campaign.task.id, number, "closed") for number in range(1, status.round))
    closings = [data for data in found if data is not None]
    history = History.of(campaign, closings)
    if history.curator.finished:
        return history.regions
    closed = decode(closings[-1], Closed)
    return sum(size for size, kept in zip(closed.responders, closed.kept, strict=True) if kept)


def _move_on(store: Store, task: bytes, now: float, *, forced: bool) -> Status | None:
    key = signing_key(store)
    with store.lock(task) as held:
        if held is None or held.status.ended:
            return None
        status = held.status
        if status.phase == "enrolling":
            if not (forced or status.due(now)):
                return None
            _open_first(held, now)
            return status
        if forced or not status.due(now):
            return None
        _close(held, now, key)
        return status


def _open_first(held: Locked, now: float) -> None:
    task = held.campaign.task
    fold = SavedLog()
    fold.add([encode(task)])
    query = Curator(task).query()
    assert query is not None
    held.open_round(1, encode(query))
    expected = held.status.enrolled
    held.move(
        "collecting", round_=1, closed=0, needed=_needed(task, expected), deadline=_deadline(task, now),
        fold=fold.to_bytes(),
    )  # fmt: skip


def _close(held: Locked, now: float, key: bytes) -> None:
    campaign, status = held.campaign, held.status
    task, plan = campaign.task, campaign.plan
    fold = SavedLog.from_bytes(held.fold)
    question = held.query(status.round)
    assert question is not None
    fold.add([question])
    query = decode_query(question)
    history = History.of(campaign, held.closings())
    reports = held.reports(status.round)
    closing: bytes
    following: bytes | None
    if isinstance(query, Query):
        curator = history.curator
        closed = curator.close(*_tally(task, query, reports, fold))
        assert isinstance(closed, Closed)
        closing = encode(closed)
        following, expected = _after_partition_round(history, closed, plan)
        # The plan enters the transcript once, before the first value query.
        pinned = encode(plan) if curator.finished and following is not None else None
    else:
        closing = encode(_count_values(query, task, reports, fold))
        following, expected = _value_query(plan, status.round + 1, history.values + 1), history.regions
        pinned = None
    fold.add([closing])
    checkpoint = Checkpoint(task.id, status.round, fold.size, fold.root())
    before = held.seal(status.round - 1)
    head = task.id if before is None else decode(before, Seal).head
    seal = seal_round(head, checkpoint, key=key if task.server_key else None)
    held.close_round(status.round, closing, checkpoint.to_bytes(), seal.to_bytes())
    if pinned is not None:
        fold.add([pinned])
    if following is None:
        held.move(
            "finished", round_=status.round, closed=status.round, needed=None, deadline=None, fold=fold.to_bytes()
        )
        return
    held.open_round(status.round + 1, following)
    phase: Phase = "releasing" if history.curator.finished else "collecting"
    held.move(
        phase, round_=status.round + 1, closed=status.round, needed=_needed(task, expected),
        deadline=_deadline(task, now), fold=fold.to_bytes(),
    )  # fmt: skip


class History:
    """What follows from the closings so far.

    Attributes
    ----------
    curator : Curator
    values : int
        Rounds of values that are closed.
    regions : int
        Participants whose path has ended (for rule "each": who answered round 1, at most).
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self.curator = Curator(campaign.task)
        self.values = 0
        self.regions = 0

    @classmethod
    def of(cls, campaign: Campaign, closings: Iterable[bytes]) -> History:
        """Fold over closings in order."""
        history = cls(campaign)
        for data in closings:
            if history.curator.finished:
                history.values += 1
                continue
            event = decode(data, Closed)
            if history.curator.close(event.responders, event.tally) != event:
                raise InvalidInput(f"the closing of round {event.round} does not follow from its tally")
            history.note(event)
        return history

    def note(self, closed: Closed) -> None:
        """Count whose path ended in a round."""
        if self.campaign.task.rule == "each":
            self.regions = sum(closed.responders) if closed.round == 1 else self.regions
            return
        self.regions += sum(size for size, kept in zip(closed.responders, closed.kept, strict=True) if not kept)


def regions_of(task: Task, closings: Iterable[Closed]) -> dict[int, tuple[int, int]]:
    """Every region, with the round and the cell of the last report that leads to it."""
    regions: dict[int, tuple[int, int]] = {}
    for closed in closings:
        roll_call = closed.round > task.max_rounds
        for cell, kept in zip(closed.cells, closed.kept, strict=True):
            if task.rule == "each" and not roll_call:
                # A failing child is left behind: whoever is there last reported for the parent.
                left = sorted(set(range(int(task.hierarchy.fanouts([cell])[0]))).difference(kept))
                cells = task.hierarchy.child(np.full(len(left), cell), left)
                regions.update(dict.fromkeys(cells.tolist(), (closed.round, cell)))
            elif not kept:
                regions[cell] = (closed.round, cell)
    return regions


def _after_partition_round(history: History, closed: Closed, plan: Plan) -> tuple[bytes | None, int]:
    """The next query, and how many are expected to answer it."""
    history.note(closed)
    query = history.curator.query()
    if query is not None:
        return encode(query), sum(size for size, kept in zip(closed.responders, closed.kept, strict=True) if kept)
    return _value_query(plan, closed.round + 1, 0), history.regions


def _value_query(plan: Plan, round_: int, number: int) -> bytes | None:
    if number >= len(plan.asked):
        return None
    return encode(ValueQuery(plan.task, round_, plan.digest, plan.asked[number]))


def _tally(task: Task, query: Query, reports: Iterable[ReportRow], fold: SavedLog) -> tuple[Integers, Integers]:
    cells = np.array(query.cells, dtype=np.uint64)
    roll_call = query.round > task.max_rounds
    responders = np.zeros(len(cells), dtype=np.int64)
    tally = np.zeros((len(cells), 0 if roll_call else task.randomizer.fanout), dtype=np.int64)
    for chunk in _chunks(reports):
        answers = [_answers.decode(row.answer) for row in chunk]
        fold.add(
            [
                encode(Report(query.task, query.round, row.pseudonym, row.cell, answer))
                for row, answer in zip(chunk, answers, strict=True)
            ]
        )
        rows = np.searchsorted(cells, np.array([row.cell for row in chunk], dtype=np.uint64)).astype(np.int64)
        responders += np.bincount(rows, minlength=len(cells))
        if not roll_call:
            tally += task.randomizer.tally(np.array(answers, dtype=np.int64), rows, len(cells))
    return responders, tally


def _count_values(query: ValueQuery, task: Task, reports: Iterable[ReportRow], fold: SavedLog) -> ValueClosed:
    counts: dict[int, dict[int, int]] = {}
    for row in reports:
        answer = _answers.decode(row.answer)
        assert isinstance(answer, int)
        fold.add([encode(ValueReport(query.task, query.round, row.pseudonym, row.cell, answer))])
        outputs = counts.setdefault(row.cell, {})
        outputs[answer] = outputs.get(answer, 0) + 1
    cells = tuple(sorted(counts))
    return ValueClosed(
        query.task, query.round, query.plan, query.index, cells,
        tuple(tuple(sorted(counts[cell].items())) for cell in cells),
    )  # fmt: skip


def _chunks(rows: Iterable[ReportRow]) -> Iterator[list[ReportRow]]:
    chunk: list[ReportRow] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _needed(task: Task, expected: int) -> int:
    # Rounded down by a hair first: 0.7 * 10 is a little more than 7 in floats.
    return max(1, math.ceil(task.quorum * expected - 1e-9))


def _deadline(task: Task, now: float) -> int:
    return math.ceil(now) + task.window


def report_bytes(row: ReportRow, query: Query | ValueQuery) -> bytes:
    """Canonical bytes of a stored report."""
    answer = _answers.decode(row.answer)
    if isinstance(query, Query):
        return encode(Report(query.task, query.round, row.pseudonym, row.cell, answer))
    assert isinstance(answer, int)
    return encode(ValueReport(query.task, query.round, row.pseudonym, row.cell, answer))


class Verified(NamedTuple):
    """What a replay of all events gives."""

    status: Status
    root: bytes
    size: int


def verify(store: Store, task: bytes) -> Verified:
    """Replay every event of a campaign and compare with what is stored.

    Tallies are counted again from the single reports, verdicts decided again, queries, closings, checkpoints and the
    campaign's phase compared.

    Raises
    ------
    InvalidInput
        If anything stored does not follow from the events before it.
    """
    with store.lock(task) as held:
        if held is None:
            raise InvalidInput("there is no campaign with this task")
        return _verify(store, held)


def _verify(store: Store, held: Locked) -> Verified:
    campaign, status = held.campaign, held.status
    task, plan = campaign.task, campaign.plan
    fold = SavedLog()
    root, size, head = fold.root(), 0, task.id
    if status.round or status.closed:
        fold.add([encode(task)])
    history = History(campaign)
    expected_query: bytes | None = encode(Query(task.id, 1, (1,)))
    for number, closing in enumerate(held.closings(), start=1):
        question = held.query(number)
        if question is None or question != expected_query:
            raise InvalidInput(f"the query of round {number} does not follow from the round before")
        fold.add([question])
        query = decode_query(question)
        finished_before = history.curator.finished
        if isinstance(query, Query):
            event = history.curator.close(*_tally(task, query, held.reports(number), fold))
            assert isinstance(event, Closed)
            again = encode(event)
            expected_query, _ = _after_partition_round(history, event, plan)
        else:
            again = encode(_count_values(query, task, held.reports(number), fold))
            history.values += 1
            expected_query = _value_query(plan, number + 1, history.values)
        if again != closing:
            raise InvalidInput(f"the closing of round {number} does not follow from its reports")
        fold.add([closing])
        root, size = fold.root(), fold.size
        stored = store.message(task.id, number, "checkpoint")
        checkpoint = Checkpoint(task.id, number, size, root)
        if stored != checkpoint.to_bytes():
            raise InvalidInput(f"the checkpoint of round {number} is not the root of its events")
        head = next_head(head, checkpoint)
        if decode(held.seal(number) or b"", Seal).head != head:
            raise InvalidInput(f"the seal of round {number} does not continue the chain")
        if history.curator.finished and not finished_before and expected_query is not None:
            fold.add([encode(plan)])
        if number == status.closed:
            break
    _compare(held, history, expected_query, fold)
    return Verified(status, root, size)


def _compare(held: Locked, history: History, expected_query: bytes | None, fold: SavedLog) -> None:
    status = held.status
    if status.phase == "enrolling":
        wanted: tuple[str, int] = ("enrolling", 0)
    elif status.phase == "cancelled":
        wanted = ("cancelled", status.closed)
    elif expected_query is None:
        wanted = ("finished", status.closed)
    else:
        wanted = ("releasing" if history.curator.finished else "collecting", status.closed + 1)
    if (status.phase, status.round) != wanted:
        raise InvalidInput(f"the campaign should be {wanted}; it is {(status.phase, status.round)}")
    if not status.ended and status.round and held.query(status.round) != expected_query:
        raise InvalidInput(f"the query of round {status.round} does not follow from the round before")
    if status.round and status.phase != "cancelled" and held.fold != fold.to_bytes():
        raise InvalidInput("the transcript's tree does not hold the events")
    if not status.ended:
        received = sum(1 for _ in held.reports(status.round)) if status.round else status.enrolled
        if received != status.received:
            raise InvalidInput(f"{received} reports are stored, {status.received} were counted")
