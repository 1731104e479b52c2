"""The transcript of two servers gives the same result as any pooled run, whole or in buckets."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal.errors import InvalidInput
from semilocal.pooled.counter import MemoryCounter
from semilocal.pooled.estimate import PooledPartition
from semilocal.pooled.noise import from_generator
from semilocal.pooled.play import play
from semilocal.release.counts import Counts, pooled_counts
from semilocal.release.pair import pair_counts, pair_document
from semilocal.sharing.wire import BucketTree, SignedTree
from semilocal.testing import cluster
from semilocal.transcript.pair import verify_pair
from tests.helpers.fake_pair import POOLED, published_numbers, sample_pair, signed_tree

GRID = POOLED.box.grid((4, 4))


def whole() -> bytes:
    numbers = published_numbers()
    return signed_tree(sample_pair(), (BucketTree(1, numbers.to_bytes(), (0,) * len(numbers.opened)),)).to_bytes()


def test_the_result_is_that_of_the_published_numbers_and_no_simulation() -> None:
    found, expected = pair_counts(whole()), pooled_counts(published_numbers())
    assert isinstance(found, Counts)
    assert not found.simulated
    assert np.array_equal(found.query(GRID).value, expected.query(GRID).value)
    assert np.array_equal(found.query(GRID).interval(), expected.query(GRID).interval())
    assert found.to_geojson() == expected.to_geojson()


def test_a_transcript_that_does_not_hold_gives_no_result() -> None:
    data = bytearray(whole())
    data[-1] ^= 1
    with pytest.raises(InvalidInput, match="bad-signature"):
        pair_counts(bytes(data))


def test_the_document_has_the_promise_the_operators_and_every_cell() -> None:
    data = whole()
    found = pair_counts(data)
    document = pair_document(data, found)
    assert document["reports"] == 2_000
    assert [operator["name"] for operator in document["operators"]] == ["City", "University"]
    assert document["statement"].startswith("If both operators collude they have every position")
    assert document["privacy"]["anywhere"] == 2.0
    assert sum(cell["count"] for cell in document["cells"]) == pytest.approx(2_000)
    assert len(document["cells"]) == len(found.partition)


# -- buckets -----------------------------------------------------------------------------------------------------------

PAIR = sample_pair(bucket_depth=2)
POINTS = cluster(3_000, strays=0.0)


def bucketed(seed: int = 3) -> bytes:
    """Four buckets, of which the third one along the curve is empty."""
    rng = np.random.default_rng(seed)
    inside = POINTS[~((POINTS[:, 0] >= 0.5) & (POINTS[:, 1] >= 0.5))]
    named = PAIR.pooled.hierarchy.locate(inside, 2)
    trees = []
    for bucket in np.unique(named).tolist():
        task = PAIR.tree_task(bucket)
        numbers = play(task, MemoryCounter(task, inside[named == bucket], from_generator(rng)))
        trees.append(BucketTree(bucket, numbers.to_bytes(), (0,) * max(len(numbers.opened), 1)))
    return signed_tree(PAIR, tuple(trees)).to_bytes()


def parts_of(data: bytes) -> dict[int, Counts]:
    """Every named bucket counted by itself."""
    signed = SignedTree.from_bytes(data)
    return {
        tree.bucket: pooled_counts(published) for tree, published in zip(signed.trees, signed.published(), strict=True)
    }


def test_buckets_are_put_together_to_one_map_of_the_domain() -> None:
    found, parts = pair_counts(bucketed()), parts_of(bucketed())
    assert list(parts) == [4, 5, 7]
    partition = found.partition
    assert isinstance(partition, PooledPartition)
    areas = np.prod(partition.boxes[:, 1] - partition.boxes[:, 0], axis=1)
    assert areas.sum() == pytest.approx(1.0)
    assert (np.diff(partition.estimates.tree.first_codes.astype(np.int64)) > 0).all()
    for bucket, part in parts.items():
        own = {tuple(box): crowd for box, crowd in zip(part.boxes.reshape(-1, 4).tolist(), part.crowds, strict=True)}
        inside = [tuple(box) in own for box in partition.boxes.reshape(-1, 4).tolist()]
        assert partition.crowds[inside].tolist() == pytest.approx(list(own.values())), bucket
        assert sum(inside) == len(part.partition)
    (empty,) = np.flatnonzero(partition.cells == 6)
    assert partition.crowds[empty] == 0
    assert partition.boxes[empty].tolist() == [[0.5, 0.5], [1.0, 1.0]]
    assert len(found.to_geojson()["features"]) == len(partition)


def test_the_verification_counts_the_cells_of_the_map() -> None:
    """A bucket that nobody named has no tree, and is a cell of the map."""
    lines = verify_pair(bucketed()).lines()
    cells = len(pair_counts(bucketed()).partition)
    assert any(f"the same {cells} final cells" in line and "1 of them buckets that nobody" in line for line in lines)
    whole_lines = verify_pair(whole()).lines()
    assert any(f"the same {len(pair_counts(whole()).partition)} final cells" in line for line in whole_lines)
    assert not any("nobody named" in line for line in whole_lines)


def test_totals_of_buckets_are_exact_and_queries_add_up() -> None:
    found, parts = pair_counts(bucketed()), parts_of(bucketed())
    quarters = found.query(PAIR.pooled.box.grid((2, 2)))
    assert quarters.value.tolist() == pytest.approx([parts[4].total, parts[5].total, parts[7].total, 0])
    assert quarters.stderr == pytest.approx(np.zeros(4), abs=1e-9)
    cells = found.query(GRID)
    assert cells.value.sum() == pytest.approx(found.total)
    assert (cells.stderr[:4] > 0).any()
    for own in (part.query(part.boxes) for part in parts.values()):
        assert (own.stderr > 0).any()
    for part in parts.values():
        assert found.query(part.boxes).noise == pytest.approx(part.query(part.boxes).noise)
    assert ((cells.noise > 0) == (cells.stderr > 0)).all()


def test_neither_the_verification_nor_the_ledger_promises_more_than_inside_a_bucket() -> None:
    lines = verify_pair(bucketed()).lines()
    assert any("any change of position inside a bucket costs two paths, epsilon = " in line for line in lines)
    spent = pair_counts(bucketed()).spent
    inside = "between any two positions of one person inside the public bucket that they named."
    assert spent.epsilon == 2
    assert spent.epsilon_anywhere is None
    assert str(spent).endswith(inside)
    assert "domain" not in str(spent)
    assert "region" not in str(spent)
    assert "moved" not in str(spent)


def test_the_promise_of_buckets_never_speaks_of_the_whole_domain() -> None:
    promise = pair_counts(bucketed()).guarantee
    for text in (promise.explain(), promise.sentence(), str(promise.to_json()), PAIR.statement(), PAIR.loss_words):
        assert "inside the public bucket that they named" in text
        assert "domain" not in text.replace("Domain: x [0, 1] × y [0, 1], in 4 public buckets", "")
    for text in (promise.explain(), PAIR.statement(), PAIR.loss_words):
        assert "nothing is promised between buckets" in text
    assert promise.anywhere is None
    assert promise.ladder[-1] == ("anywhere in the bucket", 2.0)
    assert "anywhere in the domain" in sample_pair().loss_words


def test_a_pair_of_buckets_that_nobody_used_is_an_empty_map() -> None:
    found = pair_counts(signed_tree(PAIR, ()).to_bytes())
    assert found.total == 0
    assert found.query(GRID).value.tolist() == [0.0] * 16
    assert len(found.partition) == 4
