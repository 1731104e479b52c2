"""Counts from the public transcript of two servers: the same kind of result as ``counts(..., trust="two-servers")``.

Nothing is believed: the transcript is replayed and both signatures are checked first. Knows what is public.
"""

from __future__ import annotations

import hashlib
from typing import Any

from ..errors import InvalidInput
from ..hierarchy import ROOT
from ..pooled.asked import AskedValue
from ..sharing.pair import EXPERIMENTAL, PairTask
from ..sharing.wire import SignedTree
from ..transcript.pair import verify_pair
from .bucket_counts import BucketCounts, bucket_counts
from .pooled_counts import PooledCounts, pooled_counts
from .pooled_mean import CellMeans, PooledMean, mean_of_sum, means_of_sums

__all__ = ["PairResult", "pair_counts", "pair_document"]


PairResult = PooledCounts | BucketCounts | PooledMean | CellMeans


def pair_counts(data: bytes) -> PairResult:
    """The result of a pair from its transcript: range counts, and means on top if the task asks for a value.

    Parameters
    ----------
    data : bytes
        Canonical bytes of :class:`~semilocal.sharing.wire.SignedTree`.

    Raises
    ------
    InvalidInput
        If anything in it does not follow, with the reasons.
    """
    found = verify_pair(data)
    if not found.sound:
        raise InvalidInput(
            f"the transcript does not hold: {'; '.join(str(difference) for difference in found.differences)}"
        )
    assert found.pair is not None
    parts = {
        tree.bucket: pooled_counts(published)
        for tree, published in zip(SignedTree.from_bytes(data).trees, found.published, strict=True)
    }
    if found.pair.asked is not None:
        return _means(found.pair, found.pair.asked, parts[int(ROOT)])
    return bucket_counts(found.pair, parts) if found.pair.bucket_depth else parts[int(ROOT)]


def _means(pair: PairTask, asked: AskedValue, counted: PooledCounts) -> PooledMean | CellMeans:
    """The mean over all, or the mean of every final cell."""
    published, boxes = counted.published, counted.partition.boxes
    assert published.sums is not None
    grid = asked.grid(boxes)
    what, own = asked.what, asked.words if asked.own else ""
    if not asked.per_cell:
        return mean_of_sum(pair.pooled, published.people, published.sums, grid, what=what, own=own)
    return means_of_sums(
        counted, published.sums, grid, asked.ranges(boxes), what=what, own=own, epsilon=pair.pooled.epsilon,
    )  # fmt: skip


def _value_document(asked: AskedValue, found: PairResult) -> dict[str, Any]:
    """What is known about the value, ready for JSON."""
    about = {"name": asked.name, "range": [asked.low, asked.high], "per_cell": asked.per_cell}
    if isinstance(found, PooledMean):
        return about | {"mean": found.value, "stderr": found.stderr, "interval": list(found.interval()), "level": 0.95}
    assert isinstance(found, CellMeans)
    ends = found.interval()
    return about | {
        "level": 0.95, "means": found.value.tolist(), "stderr": found.stderr.tolist(), "intervals": ends.tolist()
    }  # fmt: skip


def pair_document(data: bytes, counts: PairResult) -> dict[str, Any]:
    """Everything that two servers publish, ready for JSON."""
    signed = SignedTree.from_bytes(data)
    pair, partition = signed.task, counts.partition
    table = partition.to_table()
    rows = zip(*(table[name].tolist() for name in ("cell", "depth", "crowd", "stderr")), strict=True)
    value = {} if pair.asked is None else {"value": _value_document(pair.asked, counts)}
    return {
        "task": pair.id.hex(),
        "trust": "two-servers",
        "note": EXPERIMENTAL,
        "statement": pair.statement(counts.guarantee),
        "privacy": counts.guarantee.to_json(),
        "operators": pair.operators,
        "reports": counts.total,
        "rejected": sum(sum(tree.rejected) for tree in signed.trees),
        "transcript": hashlib.sha256(data).hexdigest(),
        "cells": [
            {"cell": str(cell), "depth": depth, "count": count, "stderr": stderr, "lower": box[0], "upper": box[1]}
            for (cell, depth, count, stderr), box in zip(rows, partition.boxes.tolist(), strict=True)
        ],
        **value,
    }
