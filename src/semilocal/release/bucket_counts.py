"""Range counts over several public buckets: one pooled tree per bucket, one map of all of them.

Who is in which bucket is public, so the buckets' totals are exact and a bucket that nobody named is empty. The promise
holds inside a bucket. Knows what is public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..accounting import Ledger
from ..arrays import Floats, short_repr
from ..pooled.estimate import Estimates
from ..pooled.loss import Rung, ladder
from ..pooled.partition import PooledPartition
from ..pooled.play import Tree
from ..protocol.promise import Guarantee
from ..sharing.pair import PairTask
from .areas import as_areas
from .boxes import CountAnswers
from .pooled_counts import PooledCounts
from .promised import Mapped, Rounding

__all__ = ["BucketCounts", "bucket_counts"]


@dataclass(frozen=True, eq=False)
class BucketCounts(Mapped):
    """Counts that answer range queries, under differential privacy inside public buckets.

    Attributes
    ----------
    pair : PairTask
    parts : mapping of int to PooledCounts
        By bucket; those that somebody named.
    partition : PooledPartition
        The final cells of all buckets, and every empty bucket as one cell.
    spent : Ledger
    """

    pair: PairTask
    parts: Mapping[int, PooledCounts]
    partition: PooledPartition
    spent: Ledger

    __repr__ = short_repr

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised inside each bucket, with the loss by distance of the worst; print its ``text()``."""
        ladders = [ladder(part.partition.estimates.tree, part.partition.crowds) for part in self.parts.values()]
        rungs = [
            Rung(same[0].words.replace("domain", "bucket"), max(r.half for r in same), max(r.most for r in same))
            for same in zip(*ladders, strict=True)
        ]
        return self.pair.promise(rungs)

    def answer(self, areas: Any, *, rounding: Rounding = None) -> CountAnswers:
        """The buckets' answers added up."""
        asked = as_areas(areas, self.pair.pooled.box)
        value, second, variance, noise = np.zeros((4, len(asked)))
        for part in self.parts.values():
            answers = part.answer(asked, rounding=rounding)
            value += answers.value
            second += answers.fewer + answers.more - answers.value  # by estimates that may be negative
            variance += answers.stderr**2
            noise += answers.noise
        most, ends = np.full(len(asked), float(self.total)), (np.minimum(value, second), np.maximum(value, second))
        return CountAnswers(value, np.sqrt(variance), False, fewer=ends[0], more=ends[1], most=most, noise=noise)


def bucket_counts(pair: PairTask, parts: Mapping[int, PooledCounts]) -> BucketCounts:
    """Put the counts of buckets together.

    Parameters
    ----------
    parts : mapping of int to PooledCounts
        By bucket; those that somebody named.
    """
    empty = pair.unnamed_buckets(parts)
    cells = [empty]
    columns: list[tuple[Floats, ...]] = [(np.zeros(len(empty)),) * 3]
    for bucket, part in parts.items():
        estimates, tree = part.partition.estimates, part.published.task.hierarchy
        below = tree.depth(estimates.tree.cells).astype(np.uint64)
        # A cell is a leading one and a path; in the whole domain the bucket's path comes before the cell's own.
        cells.append((np.uint64(bucket - 1) << below) + estimates.tree.cells)
        columns.append((estimates.counts, estimates.unbiased, estimates.variances))
    joined = np.concatenate(cells)
    order = np.argsort(pair.pooled.hierarchy.span(joined)[0])
    counts, unbiased, variances = (np.concatenate(column)[order] for column in zip(*columns, strict=True))
    none = np.zeros(len(order), dtype=np.int64)
    people = sum(part.participants for part in parts.values())
    tree_of_all = Tree(pair.pooled, people, (), (), joined[order], none, none)
    mark = next((part.partition.mark for part in parts.values() if part.simulated), None)
    partition = PooledPartition(Estimates(tree_of_all, counts, unbiased, variances, (), ()), mark)
    spent = Ledger().spend('counts inside public buckets, trust "two-servers"', pair.pooled.epsilon, bucket=True)
    return BucketCounts(pair, parts, partition, spent)
