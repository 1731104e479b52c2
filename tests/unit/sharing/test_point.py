"""The point function: the device's scalar code and the servers' arrays agree, and sums come out right."""

from __future__ import annotations

import numpy as np
import pytest
from sharing_forgeries import NONCE, TASK, halves

from semilocal.errors import InvalidInput
from semilocal.sharing.report import Shape, SharedReport, shard
from semilocal.sharing.verify import Half


def population(shape: Shape, n: int, seed: int) -> tuple[list[SharedReport], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    paths = rng.integers(2, size=(n, shape.levels)).astype(np.uint8)
    values = rng.integers(1 << shape.value_bits, size=n)
    reports = [
        shard(
            TASK, rng.bytes(16), shape, path.tolist(), rng.bytes(2 * shape.private_bytes),
            value=int(value) if shape.value_bits else None,
        )
        for path, value in zip(paths, values, strict=True)
    ]  # fmt: skip
    return reports, paths, values


@pytest.mark.parametrize("shape", [Shape(1), Shape(7), Shape(9, 1), Shape(5, 6)])
def test_sums_of_both_servers_are_the_true_counts_and_value_sums(shape: Shape) -> None:
    reports, paths, values = population(shape, 120, seed=3)
    pair = halves(shape, reports)
    assert np.array_equal(pair[0].tags, pair[1].tags)
    cells: np.ndarray = np.zeros(1, dtype=np.int64)
    for level in range(shape.levels):
        shares = [half.verify_init() for half in pair]
        assert np.array_equal(shares[0].tags, shares[1].tags)
        children = (2 * cells[:, None] + [0, 1]).ravel()
        codes = paths[:, : level + 1] @ (1 << np.arange(level, -1, -1))
        inside = codes[None, :] == children[:, None]
        found = (shares[0].sums - shares[1].sums).astype(np.int64)
        assert np.array_equal(found[:, 0], inside.sum(axis=1))
        if shape.value_bits:
            assert np.array_equal(found[:, 1], (inside * values).sum(axis=1))
        rows = np.flatnonzero(found[:, 0] >= 4)
        if not len(rows) or level == shape.levels - 1:
            break
        cells = children[rows]
        for half in pair:
            half.open(rows)


def test_one_server_alone_sees_sums_that_say_nothing() -> None:
    """The same positions with other seeds give other shares; no share equals the count."""
    shape = Shape(4)
    paths = [(0, 0, 0, 0)] * 50
    shares = []
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        reports = [shard(TASK, rng.bytes(16), shape, path, rng.bytes(32)) for path in paths]
        shares.append(halves(shape, reports)[0].verify_init().sums[:, 0])
    assert not np.intersect1d(shares[0], shares[1]).size
    assert 50 not in np.concatenate(shares)


def test_results_do_not_depend_on_the_size_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = Shape(5, 3)
    reports, _, _ = population(shape, 70, seed=8)
    found = []
    for pairs in (1, 4096):
        monkeypatch.setattr("semilocal.sharing.verify._PAIRS", pairs)
        half = halves(shape, reports)[0]
        half.open(np.array([0, 1]))
        level = half.verify_init()
        found.append((half.tags.tobytes(), level.sums.tobytes(), level.tags.tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: shard(TASK, NONCE, Shape(3), (0, 1), bytes(32)), "3 steps"),
        (lambda: shard(TASK, NONCE, Shape(3), (0, 1, 2), bytes(32)), "0 or 1"),
        (lambda: shard(TASK, NONCE, Shape(3), (0, 1, 1), bytes(31)), "32 bytes"),
        (lambda: shard(TASK, NONCE, Shape(3), (0, 1, 1), bytes(32), value=1), "exactly if"),
        (lambda: shard(TASK, NONCE, Shape(3, 2), (0, 1, 1), bytes(64)), "exactly if"),
        (lambda: shard(TASK, NONCE, Shape(3, 2), (0, 1, 1), bytes(64), value=4), "from 0 to 3"),
        (lambda: shard(TASK, NONCE, Shape(41), (0,) * 41, bytes(32)), "from 1 to 40"),
        (lambda: shard(TASK, NONCE, Shape(3, 11), (0, 1, 1), bytes(64), value=4), "from 0 to 10"),
        (lambda: shard(bytes(31), NONCE, Shape(3), (0, 1, 1), bytes(32)), "32 bytes"),
        (lambda: shard(TASK, bytes(15), Shape(3), (0, 1, 1), bytes(32)), "16 bytes"),
        (lambda: Half(TASK, Shape(3), 2, [], [], []), "server must be 0 or 1"),
        (lambda: Half(TASK, Shape(3), 0, [NONCE], [b"short"], [bytes(16)]), "169 bytes"),
        (lambda: Half(TASK, Shape(3), 0, [NONCE], [bytes(169)], [bytes(15)]), "16 bytes"),
        (lambda: Half(TASK, Shape(3), 0, [NONCE], [bytes(169)], []), "got 0 for 1 reports"),
        (lambda: Half(TASK, Shape(3), 0, [NONCE], [b"\x08" + bytes(168)], [bytes(16)]), "must be 0"),
    ],
)
def test_what_is_not_a_report_is_refused(make: object, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        make()  # type: ignore[operator]


def test_nothing_lies_below_the_last_level() -> None:
    half = halves(Shape(1), population(Shape(1), 3, seed=1)[0])[0]
    half.open(np.array([0]))
    with pytest.raises(InvalidInput, match="nothing below"):
        half.verify_init()
