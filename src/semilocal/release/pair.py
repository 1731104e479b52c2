"""Counts from the public transcript of two servers: the same kind of result as ``counts(..., trust="two-servers")``.

Nothing is believed: the transcript is replayed and both signatures are checked first. Knows what is public.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ..accounting import Ledger
from ..arrays import Floats
from ..errors import InvalidInput
from ..hierarchy import ROOT
from ..pooled.asked import AskedValue
from ..pooled.estimate import Estimates, PooledPartition, estimate
from ..pooled.play import Level, Published, Tree
from ..sharing.pair import EXPERIMENTAL, PairTask
from ..sharing.wire import SignedTree
from ..transcript.pair import verify_pair
from .counts import Counts, pooled_counts
from .means import Mean, Means, means_of_sums

PairResult: TypeAlias = Counts | Mean | Means
_COLUMNS = ("cells", "size", "variance", "unevenness", "weight", "left", "price")  # of a level
_CERTAIN = 200.0  # natural logarithms that the noise of a public number lies below it


def pair_counts(data: bytes) -> PairResult:
    """Range counts from a pair's canonical transcript (``SignedTree``), and means on top if the task asks for a value.

    Refused with the reasons if anything in it does not follow.
    """
    found = verify_pair(data)
    if not found.sound:
        raise InvalidInput(f"the transcript does not hold: {'; '.join(map(str, found.differences))}")
    assert found.pair is not None
    buckets = [tree.bucket for tree in SignedTree.from_bytes(data).trees]
    parts = dict(zip(buckets, found.published, strict=True))
    if found.pair.bucket_depth:
        return bucket_counts(found.pair, parts)
    counted, asked = pooled_counts(parts[int(ROOT)]), found.pair.asked
    if asked is None:
        return counted
    published, partition = counted.published, counted.partition
    assert isinstance(partition, PooledPartition)
    assert published is not None
    assert published.sums is not None
    means = means_of_sums(
        partition, counted.spent if asked.per_cell else Ledger(), published.sums, asked.grid(partition.boxes),
        asked.ranges(partition.boxes), what=asked.what, own=asked.words if asked.own else "",
        epsilon=found.pair.pooled.epsilon,
    )  # fmt: skip
    return means if asked.per_cell else means.over_all()


def bucket_counts(pair: PairTask, parts: Mapping[int, Published]) -> Counts:
    """One tree of all public buckets, which are cells that were opened for nothing: their totals are exact.

    ``parts`` are those that somebody named, by bucket. The others are empty.
    """
    task, deep = pair.pooled, pair.bucket_depth
    below = {bucket: estimate(published.tree) for bucket, published in sorted(parts.items())}
    people = np.zeros(1 << deep)
    for bucket, found in below.items():
        people[bucket - len(people)] = found.tree.people
    levels, differences, shares, spreads = [], [], [], []
    for depth in range(deep):
        one, two = people.reshape(1 << depth, 2, -1).sum(axis=2).T
        levels.append(_public_level(depth, one + two, price=int(_CERTAIN / task.unit)))
        differences.append((one - two).astype(np.int64))
        shares.append(np.full(len(one), 0.5))
        spreads.append(np.zeros(len(one)))
    empty = pair.unnamed_buckets(parts)
    for step in range(max((len(found.tree.levels) for found in below.values()), default=1)):
        there = {bucket: found for bucket, found in below.items() if step < len(found.tree.levels)}
        rows = []
        for bucket, found in there.items():  # the bucket's path comes before the cell's own
            level = found.tree.levels[step]
            rows.append(replace(level, cells=(np.uint64(bucket - 1) << np.uint64(level.depth)) + level.cells))
        rows += [] if step else [replace(_public_level(deep, np.zeros(len(empty)), price=0), cells=empty)]
        columns = [np.concatenate([getattr(level, name) for level in rows]) for name in _COLUMNS]
        order = np.argsort(columns[0])
        levels.append(Level(deep + step, *(column[order] for column in columns)))
        if levels[-1].opened.any():
            told = [found.tree.differences for found in there.values()]
            differences.append(np.concatenate([each[step] for each in told if step < len(each)]))
        for out, name in ((shares, "shares"), (spreads, "spreads")):
            out.append(np.concatenate([np.empty(0), *(getattr(found, name)[step] for found in there.values())]))
    final = np.concatenate([level.cells[~level.opened] for level in levels])
    cells, nothing = final[np.argsort(task.hierarchy.span(final)[0])], np.zeros(len(final), dtype=np.int64)
    tree = Tree(task, int(people.sum()), tuple(levels), tuple(differences), cells, nothing, nothing)
    # A bucket that nobody named is one cell; those of the others stand together, in the order of the buckets.
    named, (counts, unbiased, variances) = np.flatnonzero(~np.isin(cells, empty)), np.zeros((3, len(cells)))
    for column, name in ((counts, "counts"), (unbiased, "unbiased"), (variances, "variances")):
        column[named] = np.concatenate([np.empty(0), *(getattr(found, name) for found in below.values())])
    mark = next((published.mark for published in parts.values() if published.simulated), None)
    partition = PooledPartition(Estimates(tree, counts, unbiased, variances, tuple(shares), tuple(spreads)), mark)
    spent = Ledger().spend('counts inside public buckets, trust "two-servers"', task.epsilon, bucket=True)
    return Counts(partition, spent, promised=pair.promise())


def _public_level(depth: int, people: Floats, *, price: int) -> Level:
    """All cells of a depth, with numbers that are public."""
    number = len(people)
    cells, units = np.arange(1 << depth, (1 << depth) + number, dtype=np.uint64), np.full(number, price)
    return Level(depth, cells, people, np.zeros(number), np.ones(number), np.ones(number), units, units)


def _value_document(asked: AskedValue, found: PairResult) -> dict[str, Any]:
    """What is known about the value, ready for JSON."""
    about = {"name": asked.name, "range": [asked.low, asked.high], "per_cell": asked.per_cell, "level": 0.95}
    if isinstance(found, Mean):
        return about | {"mean": found.value, "stderr": found.stderr, "interval": list(found.interval())}
    assert isinstance(found, Means)
    columns = {"means": found.value, "stderr": found.stderr, "intervals": found.interval()}
    return about | {name: column.tolist() for name, column in columns.items()}


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
