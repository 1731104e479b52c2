"""The driver: a source and a task in, the results of a run in memory out.

One histogram is taken, at a depth that a sample suggests; all rounds or levels are played on it. If a round asks about
smaller cells than the histogram has, the people who are still asked are counted once more, at the deepest level. So a
run reads the rows at most three times: sample, histogram, refinement; one of the first two checks them. What the sample
suggests changes the cost, never the result: with the same seed, the same bytes come out as from
:func:`semilocal.simulate` in memory.

Knows the order of the steps. Rows are the source's, the rule is the curator's. Knows no rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Integers, check_generator, short_repr
from ..errors import InvalidInput
from ..hierarchy.base import Cells, Hierarchy
from ..hierarchy.intervals import label_cells
from ..hierarchy.ranks import people_in
from ..pooled import noise
from ..pooled.counter import RankedCounter
from ..pooled.play import Published
from ..pooled.play import play as play_pooled
from ..pooled.task import PooledTask
from ..protocol.curator import Curator
from ..protocol.mark import Mark
from ..protocol.partition import Partition
from ..protocol.task import Task
from ..simulation.population import RankedPopulation
from ..simulation.run import Round
from ..simulation.simulate import check_task, play_rounds, warn_if_small
from .histogram import MOVED, HistogramRanks, Lookup
from .source import SAMPLE, Source

__all__ = ["SourceRun", "check_box", "choose_depth", "count_source", "lookup_of", "rank_source", "run_source"]

_RARE = 1e-3  # share of the people who may need the refining scan
_ENOUGH = 32  # sampled rows that show how dense a cell is: fewer would let chance choose the depth


@dataclass(frozen=True, eq=False)
class SourceRun:
    """A finished simulation over a source: what :class:`semilocal.Run` is, without anything per row.

    Attributes
    ----------
    task : Task
    partition : Partition
    rounds : tuple of Round
    lookup : Lookup
        Which region each code ends in.
    source : Source
    participants : int
    refined : bool
        Whether some cells were counted twice.
    simulated : bool
        Always True: one program played all participants.
    """

    task: Task
    partition: Partition
    rounds: tuple[Round, ...]
    lookup: Lookup
    source: Source
    participants: int
    refined: bool
    simulated: bool = True

    __repr__ = short_repr

    @property
    def move_shares(self) -> dict[int, float]:
        """Share of the participants for each number of moves."""
        counts = np.bincount(self.lookup.moves, minlength=1)
        counts[0] = self.participants - len(self.lookup.moves)
        return {moves: float(count / max(self.participants, 1)) for moves, count in enumerate(counts) if count}

    def attach(self, **options: Any) -> Any:
        """Every row with its region, in the engine's own form; see the source's ``attach``."""
        return self.source.attach(self.task.hierarchy, self.lookup, **options)


def run_source(
    source: Source,
    task: Task,
    *,
    rng: np.random.Generator,
    depth: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SourceRun:
    """Play the protocol for the people of a source.

    Parameters
    ----------
    source : Source
        In the box of the task.
    task : Task
    rng : numpy.random.Generator
        The same seed gives the same rounds and regions as :func:`semilocal.simulate` on the same rows.
    depth : int, optional
        Of the histogram, in levels; chosen from a sample if left out.
    progress : callable, optional
        Called after every round with the round and the number of cells in the next one.
    """
    check_task(task)
    check_generator(rng, needed=True)
    ranks = rank_source(source, task.hierarchy, crowd=2 * task.k, depth=depth)
    warn_if_small(len(ranks), task, stacklevel=2)
    population = RankedPopulation(task, ranks, rng=rng)
    rounds = play_rounds(Curator(task), population, progress=progress)
    partition = replace(Partition.from_rounds(task, rounds), mark=Mark(seeded=True))
    if not partition.crowds_are_public:  # who holds the data can count what was left behind
        partition = replace(partition, crowds=people_in(task.hierarchy, ranks, partition.cells))
    return SourceRun(
        task, partition, rounds, _lookup(population, partition.cells), source, len(ranks), ranks.refined
    )  # fmt: skip


def count_source(source: Source, task: PooledTask, words: noise.Words, *, mark: Mark | None) -> Published:
    """Play a pooled task over the people of a source.

    Parameters
    ----------
    source : Source
        In the box of the task, with at most ``task.max_reports`` rows of every person.
    task : PooledTask
    words : Words
        Where the noise comes from; see :mod:`semilocal.pooled.noise`.
    mark : Mark or None
        Set it if the noise is seeded, or if one program plays both servers.
    """
    ranks = rank_source(source, task.hierarchy, crowd=max(1, int(task.threshold)))
    return play_pooled(task, RankedCounter(task, ranks, words), mark=mark)


def rank_source(source: Source, hierarchy: Hierarchy, *, crowd: int, depth: int | None = None) -> HistogramRanks:
    """The people of a source in the order of their codes, known by a histogram that refines itself once.

    Parameters
    ----------
    crowd : int
        Cells with fewer people than this are likely not divided. Changes the cost, not the result.
    """
    check_box(source, hierarchy)
    if not source.guarded:
        source.check()
    if depth is None:
        depth = choose_depth(hierarchy, source.sample(SAMPLE), source.count(), crowd=crowd)
    histogram = source.histogram(hierarchy, depth)

    def refine(cells: Cells, from_depth: int, deeper: int) -> Any:
        return source.refine(hierarchy, cells, from_depth, deeper)

    return HistogramRanks(hierarchy, histogram, refine)


def check_box(source: Source, hierarchy: Hierarchy) -> None:
    """Refuse a source in another box than the task's."""
    if (source.box.lower, source.box.upper) != (hierarchy.box.lower, hierarchy.box.upper):
        raise InvalidInput(f"the source is in {source.box}, the task in {hierarchy.box}; give both the same box")


def choose_depth(hierarchy: Hierarchy, sample: Any, people: int, *, crowd: int) -> int:
    """The depth at which nearly everybody is in a cell of fewer people than ``crowd``.

    Parameters
    ----------
    sample : float64[s, d]
    people : int
        How many people the sample stands for.
    crowd : int

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


def lookup_of(
    hierarchy: Hierarchy, cells: Cells, left: Cells, moved_below: Callable[[Cells], Integers],
    regions: npt.NDArray[np.int32], codes: Cells, moves: npt.NDArray[np.int16],
) -> Lookup:  # fmt: skip
    """Which region each code ends in.

    Parameters
    ----------
    cells : uint64[m]
        The partition's, in the order of the curve.
    left : uint64[l]
        Children that TRIMs left behind, in any order.
    moved_below : callable
        How many moved people have a code below each of some codes.
    regions, codes, moves : int32[q], uint64[q], int16[q]
        Of moved people, in the order of their own codes: where they ended, what they act from, how often they moved.
    """
    first, known = label_cells(hierarchy, cells, left, MOVED)
    return Lookup(first, known, moved_below(first), regions, codes, moves)


def _lookup(population: RankedPopulation, cells: Cells) -> Lookup:
    """Which region each code ends in; ``cells`` are the partition's, in the order of the curve."""
    hierarchy, ranks = population.task.hierarchy, population.ranks
    who, codes, ends = population.settled
    by_rank = np.argsort(who)
    who, codes, ends = who[by_rank], codes[by_rank], ends[by_rank]
    regions = np.searchsorted(hierarchy.span(cells)[0], hierarchy.span(ends)[0]).astype(np.int32)

    def moved_below(first: Cells) -> Integers:
        return np.asarray(np.searchsorted(who, ranks.below(first)))

    return lookup_of(hierarchy, cells, population.left, moved_below, regions, codes, population.count_moves(who))
