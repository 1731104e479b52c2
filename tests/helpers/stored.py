"""Everything that a store holds of a campaign, judged by the public verifier and by the curator's machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import NamedTuple

from semilocal.protocol.messages import Seal, ValueQuery, decode, decode_query, encode
from semilocal.service.campaign import Status
from semilocal.service.rounds import catch_up, report_bytes, reports_of
from semilocal.service.stores.base import Locked, Store
from semilocal.transcript.checkpoints import MerkleLog
from semilocal.transcript.file import TranscriptWriter
from semilocal.transcript.verify import verify_stream


class Verified(NamedTuple):
    """Where a campaign stands, and root and number of the events of its closed rounds."""

    status: Status
    root: bytes
    size: int


def verify(store: Store, task: bytes) -> Verified:
    """Replay a campaign from its stored events as anyone can from its transcript, and compare what else is stored.

    Raises
    ------
    AssertionError
        If anything stored does not follow from the events before it.
    """
    with store.lock(task) as held, tempfile.TemporaryFile() as stream:
        assert held is not None
        root, size = _write(store, held, TranscriptWriter(stream, held.campaign.task))
        stream.seek(0)
        found = verify_stream(stream)
        if held.status.closed:
            assert found.sound, found.lines()
        _compare(store, held)
        return Verified(held.status, root, size)


def _rounds(store: Store, held: Locked) -> Iterator[tuple[int, list[bytes]]]:
    """The events of every closed round; the plan comes before the first query for values."""
    pinned = False
    for number in range(1, held.status.closed + 1):
        question, closing = held.message(number, "query"), store.message(held.campaign.task.id, number, "closed")
        assert question is not None
        assert closing is not None
        query = decode_query(question)
        first, pinned = isinstance(query, ValueQuery) and not pinned, isinstance(query, ValueQuery)
        plan = [encode(held.campaign.plan)] if first else []
        yield number, [*plan, question, *(report_bytes(row, query) for row in held.reports(number)), closing]


def _write(store: Store, held: Locked, writer: TranscriptWriter) -> tuple[bytes, int]:
    root, size = writer.log.root(), 0
    for number, events in _rounds(store, held):
        writer.add(events)
        seal = decode(held.message(number, "seal") or b"", Seal)
        assert store.message(held.campaign.task.id, number, "checkpoint") == encode(seal.checkpoint)
        writer.put_seal(seal)
        root, size = writer.log.root(), writer.log.size
    writer.finish()
    return root, size


def _compare(store: Store, held: Locked) -> None:
    """The campaign's phase, open query, tree and counter, against the closings."""
    campaign, status = held.campaign, held.status
    curator = catch_up(store, campaign, status.closed)
    query = curator.query()
    assert curator.round == status.closed + 1
    if status.phase == "enrolling":
        wanted: tuple[str, int] = ("enrolling", 0)
    elif status.phase == "cancelled":
        wanted = ("cancelled", status.closed)
    elif query is None:
        wanted = ("finished", status.closed)
    else:
        wanted = ("releasing" if curator.partitioned else "collecting", curator.round)
    assert (status.phase, status.round) == wanted
    if not status.ended:
        received = status.enrolled
        if status.round and query is not None:
            received = sum(curator.awaits(report) for report in reports_of(held.reports(status.round), query))
        assert received == status.received
    if status.round and not status.ended:
        assert query is not None
        assert held.message(status.round, "query") == encode(query)
    if status.round and status.phase != "cancelled":
        assert held.fold == _tree(store, held, isinstance(query, ValueQuery)).to_bytes()


def _tree(store: Store, held: Locked, values_next: bool) -> MerkleLog:
    """The Merkle tree over all events up to the open query, the plan included if values are next."""
    log, plan = MerkleLog([encode(held.campaign.task)]), encode(held.campaign.plan)
    pinned = False
    for _, events in _rounds(store, held):
        log.add(events)
        pinned |= plan in events
    if values_next and not pinned:
        log.add([plan])
    return log
