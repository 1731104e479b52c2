"""Range counts from a pooled tree. Everything is a function of what was published, so it costs nothing beyond it.

Totals are kept: the whole domain holds exactly the accepted reports, whose number is public.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from ..accounting import Ledger
from ..arrays import short_repr
from ..engines.run import count_source
from ..engines.source import Source
from ..hierarchy.ranks import SortedCodes
from ..pooled import noise
from ..pooled.counter import MemoryCounter, RankedCounter
from ..pooled.estimate import estimate
from ..pooled.partition import PooledPartition
from ..pooled.play import Published, play
from ..pooled.task import PooledTask
from ..protocol.mark import Mark
from .promised import Mapped, Rounding
from .streamed import Rows, check_reports

__all__ = ["PooledCounts", "mark_of", "pooled_counts", "run_pooled", "words_from"]


@dataclass(frozen=True, eq=False)
class PooledCounts(Mapped):
    """Counts that answer range queries, under plain differential privacy.

    Attributes
    ----------
    published : Published
        All that anybody gets to see. ``published.to_bytes()`` is the transcript that ``semilocal verify`` replays.
    partition : PooledPartition
    spent : Ledger
    rounding : float, one per axis, or None
        The public step that all coordinates are multiples of.
    """

    published: Published
    partition: PooledPartition
    spent: Ledger
    rounding: Rounding = None

    __repr__ = short_repr

    @property
    def participants(self) -> int:
        """All accepted reports; exact."""
        return self.published.people


def pooled_counts(published: Published, *, ledger: Ledger | None = None) -> PooledCounts:
    """Range counts from a transcript; refuses one that does not follow the rule.

    Parameters
    ----------
    published : Published
    ledger : Ledger, optional
        What was spent on these people so far, this run included; the run's alone if left out.

    Examples
    --------
    >>> from semilocal import Box
    >>> task = PooledTask.build(Box((0, 0), (1, 1)), epsilon=1.0, trust="curator")
    >>> points = np.random.default_rng(1).random((5_000, 2))
    >>> run = run_pooled(task, points, rng=np.random.default_rng(2))
    >>> float(pooled_counts(run).query([[[0, 0], [1, 1]]]).value[0])
    5000.0
    """
    partition = PooledPartition(estimate(published.tree), published.mark)
    spent = Ledger().pooled(published.task) if ledger is None else ledger
    return PooledCounts(published, partition, spent)


def run_pooled(
    task: PooledTask, points: Rows | SortedCodes, *, rng: np.random.Generator | None = None, seed: int | None = None
) -> Published:
    """Play a pooled task over positions that are all here, or in a source.

    Parameters
    ----------
    task : PooledTask
    points : array_like, shape (n, d), Source, or SortedCodes
        Positions, or their deepest cells in the task's hierarchy. At most ``task.max_reports`` rows of every person.
    rng : numpy.random.Generator, optional
        Seeded noise, which protects nobody; the result says so. Without it the noise is the operating system's.
    seed : int, optional
        Of that generator, if it is known: the transcript and files then name it.
    """
    check_reports(points, task)
    words, mark = words_from(rng), mark_of(task.trust, rng, seed)
    if isinstance(points, Source):
        return count_source(points, task, words, mark=mark)
    if isinstance(points, SortedCodes):
        return play(task, RankedCounter(task, points, words), mark=mark)
    return play(task, MemoryCounter(task, points, words), mark=mark)


def words_from(rng: np.random.Generator | None) -> noise.Words:
    """Where noise comes from: the operating system, or a generator for simulation."""
    return noise.from_entropy(os.urandom) if rng is None else noise.from_generator(rng)


def mark_of(trust: str, rng: np.random.Generator | None, seed: int | None = None) -> Mark | None:
    """The mark of a result if it must have one: seeded noise, or two servers played by one program."""
    return None if rng is None and trust == "curator" else Mark(seeded=rng is not None, seed=seed)
