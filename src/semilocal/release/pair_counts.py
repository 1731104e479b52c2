"""Counts from the public transcript of two servers: the same kind of result as ``counts(..., trust="two-servers")``.

Nothing is believed: the transcript is replayed and both signatures are checked first. Knows what is public.
"""

from __future__ import annotations

import hashlib
from typing import Any

from ..errors import InvalidInput
from ..hierarchy import ROOT
from ..sharing.pair import EXPERIMENTAL
from ..sharing.wire import SignedTree
from ..transcript.pair import verify_pair
from .bucket_counts import BucketCounts, bucket_counts
from .pooled_counts import PooledCounts, pooled_counts

__all__ = ["pair_counts", "pair_document"]


def pair_counts(data: bytes) -> PooledCounts | BucketCounts:
    """Range counts from a pair's transcript; of all buckets if the task has some.

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
        raise InvalidInput(f"the transcript does not hold: {'; '.join(str(one) for one in found.differences)}")
    assert found.pair is not None
    parts = {
        tree.bucket: pooled_counts(published)
        for tree, published in zip(SignedTree.from_bytes(data).trees, found.published, strict=True)
    }
    return bucket_counts(found.pair, parts) if found.pair.bucket_depth else parts[int(ROOT)]


def pair_document(data: bytes, counts: PooledCounts | BucketCounts) -> dict[str, Any]:
    """Everything that two servers publish, ready for JSON."""
    signed = SignedTree.from_bytes(data)
    pair, partition = signed.task, counts.partition
    table = partition.to_table()
    rows = zip(*(table[name].tolist() for name in ("cell", "depth", "crowd", "stderr")), strict=True)
    return {
        "task": pair.id.hex(),
        "trust": "two-servers",
        "note": EXPERIMENTAL,
        "statement": pair.statement(counts.guarantee),
        "privacy": counts.guarantee.to_json(),
        "operators": [
            {"role": role, "name": one.name, "origin": one.origin, "key": one.signing_key.hex()}
            for role, one in (("leader", pair.leader), ("helper", pair.helper))
        ],
        "reports": counts.total,
        "rejected": sum(sum(tree.rejected) for tree in signed.trees),
        "transcript": hashlib.sha256(data).hexdigest(),
        "cells": [
            {"cell": str(cell), "depth": depth, "count": count, "stderr": stderr, "lower": box[0], "upper": box[1]}
            for (cell, depth, count, stderr), box in zip(rows, partition.boxes.tolist(), strict=True)
        ],
    }
