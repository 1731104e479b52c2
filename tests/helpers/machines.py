"""A leader against a helper in one process: the machines of :mod:`semilocal.sharing.machine`, and stored reports."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from semilocal.service.pair.play import LivePair, PairSecrets, StoredHalf
from semilocal.service.pair.pool import Pool
from semilocal.service.stores.base import Store
from semilocal.service.stores.pairs import SEED, UploadRow
from semilocal.sharing.machine import Helper, Leader, Step
from semilocal.sharing.pair import PairTask
from semilocal.sharing.party import Evaluator
from semilocal.sharing.verify import Half
from semilocal.sharing.wire import SignedTree
from tests.helpers.pairs import ROLES, SIGNING, crowd, report_id, shared_report

NOISE = (b"0" * 32, b"1" * 32)
Halves = Callable[[int, Sequence[bytes]], Evaluator]


class Report(NamedTuple):
    """A server's half of a report."""

    id: bytes
    bucket: int
    public: bytes
    private: bytes


class Said(NamedTuple):
    """A step with its request and answer."""

    step: Step
    request: bytes
    answer: bytes


def people(pair: PairTask, n: int, server: int = 0) -> list[Report]:
    """Honest reports, ascending by id."""
    out = []
    for number, code in enumerate(pair.pooled.hierarchy.codes(crowd(n)).tolist()):
        bucket, report = shared_report(pair, code, number)
        out.append(Report(report_id(number), bucket, report.public, report.private[server]))
    return sorted(out)


def half_of(pair: PairTask, reports: Sequence[Report], server: int) -> Halves:
    """A server that evaluates in this process."""
    known = {one.id: one for one in reports}

    def half(bucket: int, ids: Sequence[bytes]) -> Half:
        some = [known[report] for report in ids]
        return Half(pair.id, pair.shape, server, list(ids), [one.public for one in some], [one.private for one in some])

    return half


def machines(
    pair: PairTask, stored: Sequence[tuple[bytes, int]], halves: tuple[Halves, Halves],
    noise: tuple[bytes, bytes] = NOISE,
) -> tuple[Leader, Helper]:  # fmt: skip
    """Both servers of a pair whose reports are stored."""
    return (
        Leader(pair, stored, noise_secret=noise[0], signing_secret=SIGNING[0], evaluator=halves[0]),
        Helper(pair, stored, noise_secret=noise[1], signing_secret=SIGNING[1], evaluator=halves[1]),
    )


def run(leader: Leader, helper: Helper, between: Callable[[], None] = lambda: None) -> list[Said]:
    """Play to the end; everything that was said. ``between`` is called after every step."""
    said = []
    while (due := leader.due) is not None:
        assert helper.due == due
        request = leader.request()
        answer = helper.answer(request)
        for one in (leader, helper):
            one.advance(request, answer)
        said.append(Said(due, request, answer))
        between()
    assert helper.due is None
    return said


def signed(
    pair: PairTask, reports: Sequence[Report], leader: Halves, helper: Halves,
    between: Callable[[], None] = lambda: None,
) -> SignedTree:  # fmt: skip
    """The transcript of both."""
    both = machines(pair, [(one.id, one.bucket) for one in sorted(reports)], (leader, helper))
    run(*both, between)
    assert both[0].signed_tree() == both[1].signed_tree()
    return both[0].signed_tree()


def store_reports(store: Store, pair: PairTask, reports: Sequence[Report], server: int = 0) -> PairSecrets:
    """Put a pair into a database as if its uploads were over."""
    tables, seed = store.pairs, hashlib.sha256(b"seed %d" % server).digest()
    secrets = PairSecrets(SIGNING[server], seed)
    tables.create(pair.id, pair.to_bytes(), role=ROLES[server], name="t", enrolment="open", capacity=None, seconds=None)
    store.set_setting(SEED, seed)
    assert tables.confirm(pair.id, seed=seed, next_seed=bytes(32))
    assert tables.move(pair.id, "confirming", "open")
    rows = [
        UploadRow(
            one.id, one.bucket, hashlib.sha256(one.id).digest(), one.public, secrets.masked(one.private, one.id), b"",
            None,
        )
        for one in reports
    ]  # fmt: skip
    if rows:
        tables.add(pair.id, rows)
    assert tables.move(pair.id, "open", "levels")
    return secrets


def in_database(
    store: Store, pair: PairTask, secrets: PairSecrets, pool: Pool, *, server: int = 0, chunk: int = 16
) -> Halves:
    """A server whose reports are stored, and which evaluates in a pool."""
    row = store.pairs.row(pair.id)
    assert row is not None
    live = LivePair(pair, ROLES[server], row)

    def half(bucket: int, ids: Sequence[bytes]) -> StoredHalf:
        return StoredHalf(live, secrets, store.pairs, pool, bucket, ids, chunk=chunk)

    return half
