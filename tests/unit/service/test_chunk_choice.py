"""Which chunk a worker takes, and what orders and results are as bytes."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from semilocal.errors import InvalidInput
from semilocal.service.pair.chunk_worker import Order, compute, flags_of, read_share, read_sums, root_digest
from semilocal.service.pair.keys import PairSecrets
from semilocal.service.stores.chunks import Pending, choose
from semilocal.sharing.evaluate import Half
from tests.helpers.chunks import people
from tests.helpers.pairs import pair_task

NOW, BEFORE = b"now", b"before"


def pending(chunk: int, owner: str, *, claimed: bytes = BEFORE, ended: bool = False, task: bytes = b"t") -> Pending:
    return Pending(task, NOW, chunk, owner, claimed, ended)


def chosen(*some: Pending, kept: int = 0) -> int | None:
    found = choose(some, "me", {b"t": kept})
    return None if found is None else found.chunk


def test_a_worker_takes_its_own_chunks_first() -> None:
    assert chosen(pending(0, "", ended=True), pending(1, "me"), pending(2, "me")) == 1
    assert chosen(pending(0, "a", ended=True), pending(1, "me", claimed=NOW)) == 1  # it died and is back


def test_then_one_whose_lease_is_over() -> None:
    assert chosen(pending(0, "a"), pending(1, "a"), pending(2, "a", claimed=NOW, ended=True)) == 2
    free = [pending(number, "", ended=True) for number in range(3)]
    found = {choose(free, f"worker {number}", {}) for number in range(30)}
    assert found == set(free)  # workers begin at different ones


def test_then_one_of_a_worker_that_has_more_to_do() -> None:
    several = (pending(0, "a", claimed=NOW), pending(1, "a"), pending(2, "a"), pending(3, "b"))
    assert chosen(*several) == 2
    assert chosen(*several, kept=1) == 2
    assert chosen(*several, kept=2) is None  # it would then have more than the other
    assert chosen(pending(0, "a", claimed=NOW), pending(1, "a", claimed=NOW)) is None
    assert chosen(pending(0, "a"), pending(0, "a", task=b"u")) is None
    assert chosen() is None


def test_the_digest_of_an_order_names_everything_before_it() -> None:
    first, second = Order(None, b"", None), Order(bytes(8), b"i" * 16, b"j" * 16)
    assert Order.from_bytes(second.to_bytes()) == second
    chains = [
        second.digest(first.digest(root_digest(b"t", bucket, ids)))
        for bucket, ids in ((1, [b"a"]), (2, [b"a"]), (1, [b"a", b"b"]))
    ]
    assert len({*chains, first.digest(chains[0]), second.digest(root_digest(b"t", 1, [b"a"]))}) == 5
    with pytest.raises(msgspec.ValidationError):
        Order.from_bytes(b"\x92\xc0\xc0")


@pytest.mark.parametrize("cut", [1, 7, 30])
def test_results_of_chunks_add_up_to_those_of_the_whole(cut: int) -> None:
    pair = pair_task(max_depth=4)
    reports = people(pair, 30)
    some = b"".join(one.id for one in reports[3:9])
    parts = [reports[start : start + cut] for start in range(0, 30, cut)]
    halves = [
        Half(pair.id, pair.shape, 0, [one.public for one in part], [one.private for one in part])
        for part in [reports, *parts]
    ]
    ids = [[one.id for one in part] for part in [reports, *parts]]
    for level, rows in enumerate((None, np.array([0, 1]), np.array([1, 3]))):
        if rows is not None:
            for half in halves:
                half.open(rows)
        found = [compute(half, names, Order(None, b"", None)) for half, names in zip(halves, ids, strict=True)]
        share, digests = read_share(
            found[1:],
            [len(part) for part in parts],
            pair.shape,
            cells=max(2 * level, 1) if level < 2 else 2,
            level=level,
        )
        whole = halves[0].expand()
        assert np.array_equal(share.sums, whole.sums)
        assert np.array_equal(share.tags, whole.tags)
        assert digests.shape == (30, 0)
        sums = [compute(half, names, Order(None, b"", some)) for half, names in zip(halves, ids, strict=True)]
        assert np.array_equal(read_sums(sums[1:], pair.shape), halves[0].sums_of(flags_of(ids[0], some)))
    with pytest.raises(InvalidInput, match="some reports"):
        read_sums([b""], pair.shape)


def test_a_result_is_read_with_the_same_key_order_and_chunk_only() -> None:
    secrets, other = PairSecrets(bytes(32), b"s" * 32), PairSecrets(bytes(32), b"t" * 32)
    sealed = secrets.seal_result(NOW, 3, b"sums")
    assert b"sums" not in sealed
    assert secrets.open_result(NOW, 3, sealed) == b"sums"
    for reader, order, chunk, data in (
        (other, NOW, 3, sealed), (secrets, BEFORE, 3, sealed), (secrets, NOW, 4, sealed), (secrets, NOW, 3, sealed[1:]),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match="was not sealed with this server's key"):
            reader.open_result(order, chunk, data)
