"""Workers on one database, in any order, forgetful and mortal: the same transcript as one server in memory."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sharing_forgeries import second_node

from semilocal.errors import InvalidInput
from semilocal.service.keys import NO_KEYS
from semilocal.service.pair.chunk_worker import ChunkWorker
from semilocal.service.stores.base import Store, open_store
from semilocal.sharing.pair import PairTask
from semilocal.sharing.wire import SignedTree
from tests.helpers.chunks import KEYS, Report, Workers, evaluator_of, people, store_reports
from tests.helpers.half_plays import in_database, in_memory, signed
from tests.helpers.pairs import crowd, pair_task, report_id

PEOPLE = 120


class Mortal(ChunkWorker):
    """A worker that dies now and then: before it works, or when its result is stored and nobody knows it."""

    chance = random.Random(8)

    def work_on(self, claim: Any) -> None:
        fate = self.chance.random()
        if fate < 0.1:
            raise ConnectionAbortedError
        super().work_on(claim)
        if fate > 0.9:
            raise ConnectionAbortedError


class Fleet(Workers):
    """Three workers; a dead one is replaced by one with another name, whose leases are over at once."""

    def __init__(self, store: Store, kind: type[ChunkWorker] = ChunkWorker) -> None:
        self.store, self.kind, self.deaths = store, kind, 0
        super().__init__(*(self.new(number) for number in range(3)))
        self.tables, self._chance = store.pairs, random.Random(4)

    def new(self, number: int) -> ChunkWorker:
        return self.kind(self.store.pairs, KEYS[0], f"{number}-{self.deaths}", lease=-1.0)

    def wait(self, task: bytes, digest: bytes, count: int) -> None:
        while self.store.pairs.finished(task, digest) < count:
            number = self._chance.randrange(3)
            try:
                self.workers[number].step()
            except ConnectionAbortedError:
                self.deaths += 1
                self.workers[number] = self.new(number)


def forged(pair: PairTask, level: int) -> tuple[Report, Report]:
    """Both halves of a report that counts in two cells from a level on."""
    path = pair.place(int(np.sort(pair.pooled.hierarchy.codes(crowd(PEOPLE)))[PEOPLE // 2]))[1]
    report = second_node(pair.shape, path, bytes(range(32)), level=level, how="both", proof="kept", task=pair.id)
    first, second = (Report(report_id(10_000 + level), 1, report.public, report.private[server]) for server in (0, 1))
    return first, second


def halves(pair: PairTask) -> tuple[list[Report], list[Report]]:
    """Honest people and two cheaters, for each server."""
    bad = [forged(pair, level) for level in (0, 2)] if not pair.bucket_depth else []
    return sorted([*people(pair, PEOPLE, 0), *(one for one, _ in bad)]), sorted(
        [*people(pair, PEOPLE, 1), *(one for _, one in bad)]
    )


def transcripts(folder: Path, pair: PairTask, kind: type[ChunkWorker]) -> tuple[SignedTree, SignedTree, int]:
    """In memory, by workers on a database, and how many of these died."""
    mine, other = halves(pair)
    helper = in_memory(pair, other, 1)
    expected = signed(pair, mine, in_memory(pair, mine, 0), helper)
    store = open_store(f"sqlite:///{folder / 'one.db'}")
    try:
        fleet = Fleet(store, kind)
        secrets = store_reports(store, pair, mine)
        found = signed(pair, mine, in_database(store, pair, secrets, fleet.wait, chunk=16), helper)
        return expected, found, fleet.deaths
    finally:
        store.close()


@pytest.mark.parametrize("buckets", [0, 2], ids=["one tree", "buckets"])
def test_workers_that_die_at_any_point_lose_nothing_and_count_nothing_twice(tmp_path: Path, buckets: int) -> None:
    expected, found, deaths = transcripts(tmp_path, pair_task(bucket_depth=buckets), Mortal)
    assert deaths > 10
    assert found == expected
    assert sum(sum(tree.rejected) for tree in found.trees) == (0 if buckets else 2)


def test_a_worker_that_forgets_what_was_dropped_would_be_seen(tmp_path: Path) -> None:
    """The planted fault that the test above must catch."""

    class Careless(ChunkWorker):
        def apply_order(self, chunk: Any, order: Any) -> None:
            super().apply_order(chunk, type(order)(order.rows, b"", order.only))

    with pytest.raises(InvalidInput, match="differences must be"):  # the two servers' sums do not fit together
        transcripts(tmp_path, pair_task(), Careless)


def test_a_new_server_finds_the_results_of_the_one_before(stores: tuple[Store, Store]) -> None:
    """After a crash nothing is evaluated twice."""
    pair = pair_task()
    mine, other = halves(pair)
    secrets = store_reports(stores[0], pair, mine)
    expected = signed(
        pair, mine, in_database(stores[0], pair, secrets, Fleet(stores[0]).wait, chunk=16), in_memory(pair, other, 1)
    )

    def nobody(task: bytes, digest: bytes, count: int) -> None:
        assert stores[0].pairs.finished(task, digest) == count

    found = signed(pair, mine, in_database(stores[0], pair, secrets, nobody, chunk=16), in_memory(pair, other, 1))
    assert found == expected


def test_a_worker_without_the_key_leaves_the_chunks_to_others(
    stores: tuple[Store, Store], caplog: pytest.LogCaptureFixture
) -> None:
    pair = pair_task()
    reports = people(pair, 5)
    secrets = store_reports(stores[0], pair, reports)
    stranger = ChunkWorker(stores[0].pairs, NO_KEYS, "stranger")
    evaluator = evaluator_of(
        stores[0], pair, secrets, Workers(stranger, ChunkWorker(stores[0].pairs, KEYS[0], "own")), reports
    )
    assert len(evaluator.expand().tags) == 5
    assert not stranger.step()
    assert caplog.text.count("which this worker does not have") == 1


def test_a_worker_forgets_a_pair_that_has_ended(stores: tuple[Store, Store]) -> None:
    pair = pair_task()
    reports = people(pair, 5)
    secrets = store_reports(stores[0], pair, reports)
    worker = ChunkWorker(stores[0].pairs, KEYS[0], "one")
    evaluator_of(stores[0], pair, secrets, Workers(worker), reports).expand()
    assert worker.kept_bytes() > 0
    stores[0].pairs.move(pair.id, "levels", "done")
    stores[0].pairs.clean(pair.id)
    assert not worker.step()
    assert worker.kept_bytes() == 0


def test_a_result_of_another_server_is_refused(stores: tuple[Store, Store]) -> None:
    pair = pair_task()
    reports = people(pair, 5)
    store_reports(stores[0], pair, reports)
    worker = ChunkWorker(stores[0].pairs, KEYS[0], "one")
    wrong = store_reports(stores[1], pair, people(pair, 5, 1), 1)
    evaluator = evaluator_of(stores[0], pair, wrong, Workers(worker), reports)
    with pytest.raises(InvalidInput, match="not sealed with this server's key"):
        evaluator.expand()
