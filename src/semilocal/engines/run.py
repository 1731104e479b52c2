"""The driver: a source and a task in, the results of a run in memory out.

One histogram is taken; all rounds or levels are played on it. The local protocol asks about cuts between any two
people, so its histogram is that of the deepest level. A pooled tree opens crowded cells only: a sample suggests the
depth, and if cells of the histogram are opened, their people are counted once more, at the deepest level. What the
sample suggests changes the cost, never the result: with the same seed, the same bytes come out as in memory.

Knows the order of the steps. Rows are the source's, the rule is the curator's. Knows no rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..arrays import check_generator, short_repr
from ..errors import InvalidInput
from ..hierarchy.base import Hierarchy
from ..pooled import noise
from ..pooled.counter import RankedCounter
from ..pooled.play import Published
from ..pooled.play import play as play_pooled
from ..pooled.task import PooledTask
from ..protocol.partition import Partition
from ..protocol.promise import Mark
from ..protocol.task import Task
from ..simulation.population import Splits, play
from ..simulation.simulate import check_task, partition_of, warn_if_small
from .source import SAMPLE, HistogramRanks, Source

_RARE = 1e-3  # share of the people who may need the refining scan
_ENOUGH = 32  # sampled rows that show how dense a cell is: fewer would let chance choose the depth


@dataclass(frozen=True, eq=False)
class SourceRun:
    """A finished simulation over a source: what :class:`semilocal.Run` is, without anything per row."""

    task: Task
    partition: Partition
    rounds: int
    splits: Splits
    answers: int
    announcements: int
    source: Source
    participants: int
    simulated: bool = True  # one program played all participants

    __repr__ = short_repr

    def attach(self, **options: Any) -> Any:
        """Every row with its region, in the engine's own form; see the source's ``attach``."""
        return self.source.attach(self.partition.locate, **options)


def run_source(
    source: Source, task: Task, *, rng: np.random.Generator, progress: Callable[[int, int], None] | None = None
) -> SourceRun:
    """Play the protocol for the people of a source, with the regions of :func:`semilocal.simulate` for the same seed.

    ``progress`` is called after every step with its number and the regions in play.
    """
    check_task(task)
    check_generator(rng, needed=True)
    ranks = _ranks(source, task.hierarchy, lambda: task.hierarchy.max_depth)
    warn_if_small(len(ranks), task)
    played = play(task, ranks, rng, progress=progress)
    partition = partition_of(task, played, Mark(seeded=True))
    return SourceRun(
        task, partition, played.rounds, played.splits, played.answers, played.announcements,
        source, len(ranks),
    )  # fmt: skip


def count_source(source: Source, task: PooledTask, words: noise.Words, *, mark: Mark | None) -> Published:
    """Play a pooled task over a source that has at most ``task.max_reports`` rows of every person.

    The depth of the histogram is such that nearly all of its cells have so few people that they are likely not divided.
    Set the mark if the noise is seeded, or if one program plays both servers.
    """
    crowd = max(1, int(task.threshold))
    ranks = _ranks(
        source, task.hierarchy,
        lambda: choose_depth(task.hierarchy, source.sample(SAMPLE), source.count(), crowd=crowd),
    )  # fmt: skip
    return play_pooled(task, RankedCounter(task, ranks, words), mark=mark)


def _ranks(source: Source, hierarchy: Hierarchy, depth: Callable[[], int]) -> HistogramRanks:
    """The people of a source in the order of their codes, known by a histogram of this depth."""
    if (source.box.lower, source.box.upper) != (hierarchy.box.lower, hierarchy.box.upper):
        raise InvalidInput(f"the source is in {source.box}, the task in {hierarchy.box}; give both the same box")
    if not source.guarded:
        source.check()
    return HistogramRanks(hierarchy, source.histogram(hierarchy, depth()), partial(source.refine, hierarchy))


def choose_depth(hierarchy: Hierarchy, sample: Any, people: int, *, crowd: int) -> int:
    """The depth at which nearly everybody is in a cell of fewer people than ``crowd``.

    The sample float64[s, d] stands for so many people.

    Examples
    --------
    >>> from semilocal import BinaryTree, Box
    >>> sample = np.random.default_rng(1).random((20_000, 2))
    >>> choose_depth(BinaryTree(Box((0, 0), (1, 1)), 40), sample, 1_000_000, crowd=40)
    17
    """
    size = len(sample)
    if not size:
        return min(1, hierarchy.max_depth)
    codes = np.sort(hierarchy.codes(sample))
    # Where sampled rows get too rare to show a density, one more level halves it (or divides it by the fan-out).
    needed = np.zeros(size)
    for depth in range(hierarchy.max_depth + 1):
        cells = hierarchy.ancestors(codes, depth)
        starts = np.flatnonzero(np.concatenate([[True], cells[1:] != cells[:-1]]))
        sizes = np.diff(starts, append=size)
        enough = sizes >= min(_ENOUGH, size)
        if not enough.any():
            break
        more = np.log(np.maximum(sizes * (people / size) / crowd, 1.0)) / math.log(hierarchy.fanout)
        rows = np.repeat(enough, sizes)
        needed[rows] = depth + np.repeat(more, sizes)[rows]
    return min(hierarchy.max_depth, math.ceil(float(np.quantile(needed, 1.0 - _RARE))) + 1)
