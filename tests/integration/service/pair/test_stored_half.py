"""Reports in a database, evaluated in parts, by a pool that forgets or fails: the same transcript as in memory."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sharing_forgeries import second_node

from semilocal.errors import EvaluationFailed, InvalidInput
from semilocal.service.pair.pool import Chunks, Found, Job, Pool
from semilocal.service.stores.base import Store, open_store
from semilocal.sharing.pair import PairTask
from semilocal.sharing.wire import SignedTree
from tests.helpers.machines import Report, half_of, in_database, people, signed, store_reports
from tests.helpers.pairs import crowd, pair_task, report_id

PEOPLE = 120


class Forgetful(Pool):
    """A pool whose process loses everything now and then, as one that was killed."""

    def __init__(self, kind: type[Chunks] = Chunks) -> None:
        super().__init__(0)
        self.kind, self.chance, self.deaths = kind, random.Random(8), 0
        self._here = kind(1 << 20)

    def _submit(self, *given: Any) -> Any:
        if self.chance.random() < 0.2:
            self._here = self.kind(1 << 20)
            self.deaths += 1
        return super()._submit(*given)


def forged(pair: PairTask, level: int) -> tuple[Report, Report]:
    """Both halves of a report that counts in two cells from a level on."""
    path = pair.place(int(np.sort(pair.pooled.hierarchy.codes(crowd(PEOPLE)))[PEOPLE // 2]))[1]
    report = second_node(
        pair.shape, path, bytes(range(32)), level=level, how="both", proof="kept", task=pair.id,
        nonce=report_id(10_000 + level),
    )  # fmt: skip
    first, second = (Report(report.nonce, 1, report.public, report.private[server]) for server in (0, 1))
    return first, second


def halves(pair: PairTask) -> tuple[list[Report], list[Report]]:
    """Honest people and two cheaters, for each server."""
    bad = [forged(pair, level) for level in (0, 2)] if not pair.bucket_depth else []
    return sorted([*people(pair, PEOPLE, 0), *(one for one, _ in bad)]), sorted(
        [*people(pair, PEOPLE, 1), *(one for _, one in bad)]
    )


def transcripts(folder: Path, pair: PairTask, pool: Pool) -> tuple[SignedTree, SignedTree]:
    """In memory, and from a database."""
    mine, other = halves(pair)
    helper = half_of(pair, other, 1)
    expected = signed(pair, mine, half_of(pair, mine, 0), helper)
    store = open_store(f"sqlite:///{folder / 'one.db'}")
    try:
        secrets = store_reports(store, pair, mine)
        return expected, signed(pair, mine, in_database(store, pair, secrets, pool), helper)
    finally:
        store.close()


@pytest.mark.parametrize("buckets", [0, 2], ids=["one tree", "buckets"])
def test_a_pool_that_forgets_loses_nothing_and_counts_nothing_twice(tmp_path: Path, buckets: int) -> None:
    pool = Forgetful()
    expected, found = transcripts(tmp_path, pair_task(bucket_depth=buckets), pool)
    assert pool.deaths > 10
    assert found == expected
    assert sum(sum(tree.rejected) for tree in found.trees) == (0 if buckets else 2)


def test_a_process_that_forgets_what_was_dropped_would_be_seen(tmp_path: Path) -> None:
    """The planted fault that the test above must catch."""

    class Careless(Chunks):
        def evaluate(self, job: Job, reports: Any) -> Found | None:
            moves = tuple(move for move in job.moves if move.dropped is None)
            return super().evaluate(job._replace(moves=moves), reports)

    with pytest.raises(InvalidInput, match="numbers that cannot be"):  # the two servers' sums do not fit together
        transcripts(tmp_path, pair_task(), Forgetful(Careless))


def test_reports_that_are_gone_are_named_by_their_part(stores: tuple[Store, Store]) -> None:
    pair = pair_task()
    reports = people(pair, 40)
    secrets = store_reports(stores[0], pair, reports[:-1])
    half = in_database(stores[0], pair, secrets, Pool(0))(1, [one.id for one in reports])
    with pytest.raises(EvaluationFailed, match=r"part 3 of 3 cannot be evaluated: .* it has 8 reports, but 7"):
        half.verify_init()
