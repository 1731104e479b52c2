"""A server's half of some reports in a database, ready to be counted, and who evaluates it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from semilocal.service.keys import Keyring
from semilocal.service.pair.chunk_worker import ChunkWorker
from semilocal.service.pair.keys import PairSecrets
from semilocal.service.pair.live import ChunkEvaluator
from semilocal.service.stores.base import Store
from semilocal.service.stores.pairs import SEED, PairTables, UploadRow
from semilocal.sharing.pair import PairTask
from tests.helpers.pairs import ROLES, SIGNING, crowd, report_id, shared_report

__all__ = ["KEYS", "Report", "Workers", "evaluator_of", "people", "store_reports"]

KEYS = tuple(Keyring.of([secret]) for secret in SIGNING)


class Report(NamedTuple):
    """A server's half of a report."""

    id: bytes
    bucket: int
    public: bytes
    private: bytes


def people(pair: PairTask, n: int, server: int = 0) -> list[Report]:
    """Honest reports, ascending by id."""
    out = []
    for number, code in enumerate(pair.pooled.hierarchy.codes(crowd(n)).tolist()):
        bucket, report = shared_report(pair, code, number)
        out.append(Report(report_id(number), bucket, report.public, report.private[server]))
    return sorted(out)


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


class Workers:
    """Workers in this process, which take turns; what an evaluator waits with.

    Parameters
    ----------
    turn : callable
        Gets the number of the next turn; which worker works.
    """

    def __init__(self, *workers: ChunkWorker, turn: Callable[[int], int] = lambda number: number) -> None:
        self.workers, self._turn, self._turns = list(workers), turn, 0
        self.tables: PairTables | None = None

    def wait(self, task: bytes, digest: bytes, count: int) -> None:
        """Work until there are enough results."""
        assert self.tables is not None
        while self.tables.finished(task, digest) < count:
            self.workers[self._turn(self._turns) % len(self.workers)].step()
            self._turns += 1


def evaluator_of(
    store: Store, pair: PairTask, secrets: PairSecrets, workers: Workers, reports: Sequence[Report], *, chunk: int = 16,
) -> ChunkEvaluator:  # fmt: skip
    """An evaluator of one tree whose results come from these workers."""
    workers.tables = store.pairs
    ids = [one.id for one in reports]
    return ChunkEvaluator(store.pairs, workers.wait, pair, secrets, reports[0].bucket, ids, chunk=chunk)
