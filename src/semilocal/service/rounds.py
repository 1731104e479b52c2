"""Campaigns in a store: creating one, opening and closing its rounds in the one transaction that holds it.

``advance`` is called by every worker, as often as it likes: under the lock it looks again whether something is due, so
exactly one of them closes a round, and calling it twice changes nothing. A server that was away past a deadline closes
the round with the reports it has; the next round gets its full window.

The state is a fold over the closings and their reports (``catch_up``). A worker keeps its curator between two closings,
so that each is followed once.

Knows a store's transaction and the machines of the protocol. The time is an argument. Knows no HTTP.
"""

from __future__ import annotations

import hashlib
import math
import re
import secrets
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from ..errors import DeviceViolation, InvalidInput
from ..protocol.curator import Curator
from ..protocol.keys import SECRET_BYTES, HashChain, derive
from ..protocol.messages import (
    PSEUDONYM_BYTES,
    AnyQuery,
    AnyReport,
    Checkpoint,
    Entry,
    Query,
    Report,
    Seal,
    Slice,
    ValueQuery,
    ValueReport,
    decode,
    decode_closed,
    decode_report,
    encode,
    prefix_of,
)
from ..protocol.task import Task
from ..transcript.checkpoints import MerkleLog, seal_round
from .campaign import Campaign, Phase, Status, fresh_tokens, token_hash
from .keys import NO_KEYS, Keyring, registered_key
from .stores.base import Incoming, Locked, ReportRow, Store

CHAIN = "chain"  # the setting with the secret that all hash chains of a server come from
_LABEL = b"semilocal/2/chain-seed"
REPORT_BYTES = 4096
_KEY = re.compile(rb"[Bb]earer ([0-9a-f]{64})\Z")


def advance(
    store: Store, task: bytes, now: float, keys: Keyring = NO_KEYS, curator: Curator | None = None, *,
    forced: bool = False,
) -> Status | None:  # fmt: skip
    """Do what is due: open round 1, or close the open round, sign it if the task pins a key, and open the next.

    Returns where the campaign stood before, with the exact number of reports; None if nothing was due. A curator of the
    campaign, not further on, goes on with the closing; if anything is raised it is of no use. ``forced`` ends
    enrolment.
    """
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
        curator = catch_up(store, locked.campaign, status.closed, curator)
        _close(locked, now, keys.key_for(locked.campaign.task), curator)
        return status


def with_chain(store: Store, campaign: Campaign) -> Campaign:
    """The campaign with the end of this server's hash chain in its task: its part of the draws, fixed beforehand."""
    store.first_setting(CHAIN, secrets.token_bytes(SECRET_BYTES))
    task = msgspec.structs.replace(campaign.task, chain=chain_for(store, campaign.task).end)
    return msgspec.structs.replace(campaign, task=task)


def create_campaign(store: Store, campaign: Campaign, *, now: float) -> bool:
    """Add a campaign in phase "enrolling"; False if its task is there already.

    The task has the chain of :func:`with_chain`, or none (for tests: then the server has no part in the draws).
    """
    if campaign.task.chain and campaign.task.chain != chain_for(store, campaign.task).end:
        raise InvalidInput("the task has the hash chain of another server")
    pinned = campaign.task.server_key
    if pinned and pinned != registered_key(store):
        raise InvalidInput("the task pins the key of another server; take this server's key (GET /key), or none")
    seconds = campaign.enrolment_seconds
    deadline = None if seconds is None else math.ceil(now) + seconds
    return store.create(campaign, needed=campaign.capacity, deadline=deadline)


def new_tokens(store: Store, task: bytes, *, count: int) -> list[str]:
    """Fresh one-time tokens; only their hashes are stored."""
    tokens = fresh_tokens(count)
    store.add_tokens(task, [token_hash(token) for token in tokens])
    return tokens


def start(store: Store, task: bytes, now: float) -> Status | None:
    """End enrolment now and open round 1; None if it has ended already."""
    return advance(store, task, now, forced=True)


def cancel(store: Store, task: bytes) -> bool:
    """Cancel a campaign that has not ended. Closed rounds stay as they are."""
    with store.lock(task) as locked:
        if locked is None or locked.status.ended:
            return False
        locked.move("cancelled", round=locked.status.closed, needed=None, deadline=None)
        return True


def chain_for(store: Store, task: Task) -> HashChain:
    """The hash chain of a task with these parameters on this server, whether the task has its end already or not.

    All chains come from one secret of the server, so the same parameters make the same task again.
    """
    secret = store.setting(CHAIN)
    if secret is None or len(secret) != SECRET_BYTES:
        raise InvalidInput("the database has no secret for hash chains")
    plain = msgspec.structs.replace(task, chain=b"")
    return HashChain(derive(secret, _LABEL + encode(plain), SECRET_BYTES), task.max_rounds)


def catch_up(store: Store, campaign: Campaign, closed: int, curator: Curator | None = None) -> Curator:
    """The curator of a campaign after a number of closed rounds; one that is given goes on with what is missing."""
    task = campaign.task
    if curator is None:
        curator = Curator(task, campaign.plan, chain=chain_for(store, task) if task.chain else None)
    while curator.round <= closed:
        number = curator.round
        data, query = store.message(task.id, number, "closed"), curator.query()
        if data is None or query is None:
            raise InvalidInput(f"round {number} of {task.id.hex()} is closed, but its closing is missing")
        curator.follow(decode_closed(data), reports_of(store.reports_like(task.id, number, b""), query))
    return curator


def expected_reports(campaign: Campaign, status: Status, curator: Curator | None) -> int | None:
    """Participants whom the open round waits for (who may enrol, while enrolling); None if nobody knows."""
    if status.phase == "enrolling":
        return campaign.capacity
    if status.ended or curator is None:
        return None
    return status.enrolled if curator.expected is None else curator.expected


def read_slice(store: Store, query: AnyQuery, lower: int, upper: int) -> bytes:
    """Canonical bytes of the slice of a region in a closed round of the partition, from the stored reports."""
    prefix = msgspec.msgpack.encode(lower) + msgspec.msgpack.encode(upper)
    reports = reports_of(store.reports_like(query.task, query.round, prefix), query)
    entries = tuple(Entry(one.pseudonym, one.answer, one.nonce) for one in reports if isinstance(one, Report))
    return encode(Slice(query.task, query.round, lower, upper, entries))


def _open_first(locked: Locked, now: float) -> None:
    task = locked.campaign.task
    fold = MerkleLog([encode(task)])
    query = Curator(task).query()
    assert query is not None
    expected = max(1, locked.status.enrolled)  # nobody yet: wait for somebody
    _open(locked, "collecting", 1, encode(query), fold, expected=expected, now=now)


def _open(
    locked: Locked, phase: Phase, round_: int, query: bytes, fold: MerkleLog, *, expected: int, now: float
) -> None:
    """Open a round for its window."""
    task = locked.campaign.task
    locked.open_round(round_, query)
    needed, deadline = reports_needed(task, expected), math.ceil(now) + task.window
    locked.move(phase, round=round_, closed=round_ - 1, needed=needed, deadline=deadline, fold=fold.to_bytes())


def _close(locked: Locked, now: float, key: bytes | None, curator: Curator) -> None:
    campaign, status = locked.campaign, locked.status
    task, plan = campaign.task, campaign.plan
    query = curator.query()
    if query is None or locked.message(status.round, "query") != encode(query):
        raise InvalidInput(f"the query of round {status.round} does not follow from the closings before it")
    fold = MerkleLog.from_bytes(locked.fold)
    rows = list(locked.reports(status.round))
    fold.add([encode(query), *(report_bytes(row, query) for row in rows)])
    closing = encode(curator.close(reports_of(rows, query)))
    following = curator.query()
    fold.add([closing])
    checkpoint = Checkpoint(task.id, status.round, fold.size, fold.root())
    before = locked.message(status.round - 1, "seal")
    head = task.id if before is None else decode(before, Seal).head
    seal = seal_round(head, checkpoint, key=key)
    locked.close_round(status.round, closing, checkpoint.to_bytes(), seal.to_bytes())
    if isinstance(query, Query) and isinstance(following, ValueQuery):
        fold.add([encode(plan)])  # the plan enters the transcript once, before the first value query
    if following is None:
        locked.move("finished", closed=status.round, needed=None, deadline=None, fold=fold.to_bytes())
        return
    phase: Phase = "releasing" if curator.partitioned else "collecting"
    _open(locked, phase, following.round, encode(following), fold, expected=curator.expected or 0, now=now)


def reports_needed(task: Task, expected: int) -> int:
    """How many awaited reports close a round before its deadline."""
    # Rounded down by a hair first: 0.7 * 10 is a little more than 7 in floats.
    return math.ceil(task.quorum * expected - 1e-9)


# -- reports as they are stored --------------------------------------------------------------------------------------


@lru_cache(64)
def report_head(task: bytes, round_: int, kind: type[AnyReport]) -> bytes:
    """What all reports of a round begin with; then come the pseudonym and the body."""
    return prefix_of(kind) + msgspec.msgpack.encode(task) + msgspec.msgpack.encode(round_) + b"\xc4\x10"


def report_bytes(row: ReportRow, query: AnyQuery) -> bytes:
    """Canonical bytes of a stored report."""
    kind = Report if isinstance(query, Query) else ValueReport
    return report_head(query.task, query.round, kind) + row.pseudonym + row.body


def reports_of(rows: Iterable[ReportRow], query: AnyQuery) -> list[AnyReport]:
    """Stored reports of a round."""
    return [decode_report(report_bytes(row, query)) for row in rows]


def verifier_of(header: bytes) -> bytes | None:
    """SHA-256 of the key in an Authorization header; None if there is no key of the right form."""
    match = _KEY.match(header)
    return None if match is None else hashlib.sha256(bytes.fromhex(match[1].decode())).digest()


def check_report(
    body: bytes, task: bytes, round_: int, pseudonym: bytes, verifier: bytes, curator: Curator | None
) -> Incoming:
    """A report as the store takes it, or ``DeviceViolation`` with the token of the reason.

    Without a curator the round is closed, and only stored bytes matter.
    """
    try:
        report = decode_report(body)
    except InvalidInput as error:
        raise DeviceViolation("not-canonical", str(error)) from None
    if report.task != task:
        raise DeviceViolation("other-task", "the task in the body is not the one in the path")
    if report.round != round_:
        raise DeviceViolation("other-round", f"the body is for round {report.round}, the path for round {round_}")
    if report.pseudonym != pseudonym:
        raise DeviceViolation("other-pseudonym", "the pseudonym in the body is not the one in the path")
    awaited = False
    if curator is not None:
        curator.check(report)
        awaited = curator.awaits(report)
    head = len(report_head(task, round_, type(report)))
    return Incoming(task, round_, pseudonym, verifier, body[head + PSEUDONYM_BYTES :], awaited)
