"""The tables of the evaluation keep their promises on every database."""

from __future__ import annotations

import hashlib

import pytest

from semilocal.service.stores.base import Store
from semilocal.service.stores.chunks import LONGEST_LEASE, ChunkClaim, Fault, Pending
from tests.helpers.chunks import people, store_reports
from tests.helpers.pairs import pair_task
from tests.helpers.service import database, postgres, store  # noqa: F401

PAIR = pair_task()
TASK = PAIR.id
CHUNKS = [bytes([number]) * 32 for number in range(3)]


def name(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


@pytest.fixture
def counted(store: Store) -> Store:  # noqa: F811
    """A pair in a database whose first tree is divided, with one order."""
    store_reports(store, PAIR, people(PAIR, 3))
    store.pairs.divide(TASK, 1, name("root"), CHUNKS)
    store.pairs.put_order(TASK, 0, name("first"), b"1")
    return store


def waiting(store: Store, chunk: int) -> Pending:  # noqa: F811
    (found,) = (one for one in store.pairs.pending() if one.chunk == chunk)
    return found


def test_every_chunk_waits_until_it_has_a_result(counted: Store) -> None:
    tables = counted.pairs
    assert [(one.task, one.digest, one.chunk, one.owner, one.ended) for one in tables.pending()] == [
        (TASK, name("first"), chunk, "", True) for chunk in range(3)
    ]
    tables.put_result(ChunkClaim(TASK, name("first"), 1), b"r")
    assert [one.chunk for one in tables.pending()] == [0, 2]
    assert tables.finished(TASK, name("first")) == 1
    assert tables.results(TASK, name("first")) == {1: b"r"}


def test_a_result_is_stored_once_and_the_second_changes_nothing(counted: Store) -> None:
    tables, claim = counted.pairs, ChunkClaim(TASK, name("first"), 0)
    tables.put_result(claim, b"one")
    tables.put_result(claim, b"other")
    assert tables.results(TASK, name("first")) == {0: b"one"}
    assert tables.finished(TASK, name("first")) == 1


def test_a_chunk_says_why_it_was_not_computed_until_it_is(counted: Store) -> None:
    tables = counted.pairs
    assert tables.fault(TASK) is None
    tables.put_fault(ChunkClaim(TASK, name("first"), 2), "later")
    tables.put_fault(ChunkClaim(TASK, name("first"), 1), "its reports are lost")
    assert tables.fault(TASK) == Fault(1, "its reports are lost")
    tables.put_result(ChunkClaim(TASK, name("first"), 1), b"r")
    assert tables.fault(TASK) == Fault(2, "later")
    tables.put_result(ChunkClaim(TASK, name("first"), 2), b"r")
    assert tables.fault(TASK) is None


def test_one_of_two_workers_gets_a_chunk(counted: Store) -> None:
    tables, seen = counted.pairs, waiting(counted, 0)
    assert tables.claim(seen, "a", seconds=60)
    assert not tables.claim(seen, "b", seconds=60)
    now = waiting(counted, 0)
    assert (now.owner, now.claimed, now.ended) == ("a", name("first"), False)
    assert tables.owned("a") == {(TASK, 0)}
    assert tables.owned("b") == set()


def test_a_lease_ends_and_can_be_renewed_by_its_owner(counted: Store) -> None:
    tables, claim = counted.pairs, ChunkClaim(TASK, name("first"), 0)
    assert tables.claim(waiting(counted, 0), "a", seconds=-1)
    assert waiting(counted, 0).ended
    tables.renew(claim, "b", seconds=60)
    assert waiting(counted, 0).ended
    tables.renew(claim, "a", seconds=60)
    assert not waiting(counted, 0).ended


def test_a_lease_that_was_given_before_the_clock_was_set_back_an_hour_is_over(counted: Store) -> None:
    tables = counted.pairs
    assert tables.claim(waiting(counted, 0), "dead", seconds=LONGEST_LEASE - 60)
    assert not waiting(counted, 0).ended
    assert tables.claim(waiting(counted, 0), "dead", seconds=3600 + 10)  # 10 s, by the clock as it was
    assert waiting(counted, 0).ended


def test_a_tree_that_has_begun_is_not_begun_again(counted: Store) -> None:
    tables = counted.pairs
    tables.put_result(ChunkClaim(TASK, name("first"), 1), b"r")
    tables.divide(TASK, 1, name("root"), CHUNKS)
    tables.put_order(TASK, 0, name("first"), b"1")
    assert tables.results(TASK, name("first")) == {1: b"r"}
    row = tables.chunk(TASK, 1)
    assert row == (1, name("root"), CHUNKS[1])


def test_the_next_tree_takes_the_place_of_the_one_before(counted: Store) -> None:
    tables = counted.pairs
    tables.put_result(ChunkClaim(TASK, name("first"), 1), b"r")
    tables.divide(TASK, 2, name("other"), CHUNKS[:1])
    assert tables.pending() == []
    assert tables.orders(TASK, after=-1) == []
    assert tables.results(TASK, name("first")) == {}
    assert tables.chunk(TASK, 1) is None
    tables.put_result(ChunkClaim(TASK, name("first"), 0), b"late")  # of a worker that did not notice
    assert tables.results(TASK, name("first")) == {}


def test_another_order_in_the_place_of_one_takes_its_results_away(counted: Store) -> None:
    tables = counted.pairs
    for number, word in enumerate(("second", "third"), 1):
        tables.put_order(TASK, number, name(word), word.encode())
        tables.put_result(ChunkClaim(TASK, name(word), 0), b"r")
    tables.put_result(ChunkClaim(TASK, name("first"), 0), b"kept")
    tables.put_order(TASK, 1, name("changed"), b"c")
    assert [(row.number, bytes(row.digest)) for row in tables.orders(TASK, after=-1)] == [
        (0, name("first")), (1, name("changed")),
    ]  # fmt: skip
    assert [row.number for row in tables.orders(TASK, after=0)] == [1]
    assert tables.results(TASK, name("first")) == {0: b"kept"}
    assert tables.results(TASK, name("second")) == tables.results(TASK, name("third")) == {}
    assert {one.digest for one in tables.pending()} == {name("changed")}


def test_nothing_is_left_and_nothing_comes_after_the_end(counted: Store) -> None:
    tables = counted.pairs
    tables.put_result(ChunkClaim(TASK, name("first"), 1), b"r")
    assert tables.move(TASK, "levels", "cancelled")
    assert tables.pending() == []
    tables.clean(TASK)
    tables.put_result(ChunkClaim(TASK, name("first"), 0), b"late")
    assert tables.results(TASK, name("first")) == {}
    assert tables.chunk(TASK, 0) is None
    assert tables.orders(TASK, after=-1) == []
