"""Range counts, and what every result answers, whatever the question and whoever was trusted.

A result rests on a map (``partition``), which says how many people are in boxes. It cost something (``spent``), and a
promise follows from both (``guarantee``). Counts cost nothing beyond the map: everything used was published. Totals are
kept: the whole domain holds exactly the participants, whose number is public.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from ..accounting import Ledger
from ..arrays import Floats, Integers
from ..engines.run import SourceRun, count_source
from ..engines.source import Source
from ..errors import InvalidInput, OutsideWarning
from ..geometry.areas import NOT_ROUNDED, Lattice, Polygons, area_names, as_areas, outside_words
from ..geometry.box import Box
from ..hierarchy.base import Hierarchy
from ..hierarchy.ranks import SortedCodes
from ..outputs import output
from ..pooled import noise
from ..pooled.counter import MemoryCounter, RankedCounter
from ..pooled.estimate import PooledPartition, estimate
from ..pooled.play import Published, play
from ..pooled.task import PooledTask, guarantee
from ..protocol.partition import Partition, WaysOut
from ..protocol.promise import Guarantee, Mark
from ..simulation.simulate import Run
from ..words import number_of
from .answers import CountAnswers
from .public import public_tree
from .tree import CountTree, pooled_tree
from .walk import TreeWalk

Rounding: TypeAlias = float | Sequence[float] | None
Rows: TypeAlias = npt.ArrayLike | Source
AnyRun: TypeAlias = Run | SourceRun
_MOST_WALKS = 4  # that a result keeps, one for each step


@dataclass(frozen=True, eq=False, kw_only=True)
class OfRows:
    """What only whoever held the data knows: it is shown to them, and neither saved nor exported."""

    of_rows: int | None = None  # from which one row of each person was drawn


class Mapped(OfRows, WaysOut):
    """A result on one map.

    Attributes
    ----------
    partition : Partition or PooledPartition
    spent : Ledger
    own : str
        The value of their own that people gave, and its range, in words; empty if there is none.
    rounding : float, one per axis, or None
        The public step that all coordinates are multiples of, for every answer; 0 or None if there is none.
    """

    partition: Partition | PooledPartition
    spent: Ledger
    own: str = ""
    rounding: Rounding = None

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised; its ``explain()`` is the whole statement."""
        found = promise_of(self.partition, self.spent)
        return msgspec.structs.replace(found, own=self.own) if self.own else found

    @property
    def simulated(self) -> bool:
        """Whether one program played all participants, or the noise was seeded; ``partition.mark`` tells which."""
        return self.partition.mark is not None

    # -- how many people -----------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """All participants that the map knows; exact, because their number is public."""
        if isinstance(self.partition, Partition):
            return self.partition.people
        return int(np.rint(self.partition.crowds.sum()))

    @property
    def counted(self) -> str:
        """Who was counted, in words."""
        if (rows := self.guarantee.rows) > 1:
            return f"{number_of(self.total, 'row')}, up to {rows} of each person"
        people = number_of(self.total, "person", "people")
        return people if self.of_rows is None else f"{people}, one row each of {self.of_rows:,}"

    def query(self, areas: Any, *, rounding: Rounding = None) -> CountAnswers:
        """Number of participants in boxes or polygons, with standard errors and intervals. Costs nothing more.

        Parameters
        ----------
        areas : array_like of shape (q, 2, d), or polygons
            Lower and upper corners of boxes, half-open. In two dimensions also (multi)polygons with any holes: shapely
            geometries, a GeoSeries or GeoDataFrame with a CRS that fits the domain, GeoJSON objects, anything with
            ``__geo_interface__``; see :func:`semilocal.geometry.areas.as_polygons`.
        rounding : float or one per axis, optional
            If all coordinates are multiples of such a step, as 0.01 in a file with two decimals, and that is public:
            boxes take whole places of the lattice then; by lengths the errors of cells along a side would agree.
            That of the result if left out; 0 for none.

        Returns
        -------
        CountAnswers
            ``value`` float64[q], ``stderr`` float64[q], ``interval(level)`` float64[q, 2]. The standard error holds
            noise, and how people may lie inside cells that an area cuts. Areas that follow the edges of public regions
            are answered exactly (standard error 0).

        Warns
        -----
        OutsideWarning
            If areas reach outside the domain, where nobody was asked. An infinite side means as far as it goes.
        """
        box = self.partition.task.box
        asked = as_areas(areas, box)
        if words := outside_words(asked, box):
            warnings.warn(words, OutsideWarning, stacklevel=2)
        found = self.answer(asked, rounding=rounding)
        return replace(found, areas=asked, names=area_names(areas), result=self)

    def answer(self, areas: Any, *, rounding: Rounding = None) -> CountAnswers:
        """As :meth:`query`, for callers that say by themselves what lies outside (``outside_words``)."""
        task = self.partition.task
        asked = as_areas(areas, task.box)
        lattice = check_rounding(self.rounding if rounding is None else rounding, task.hierarchy, task.box)
        if isinstance(asked, Polygons):
            return self._walk(NOT_ROUNDED).query(asked)
        return self._walk(lattice).query(lattice.measure(asked))

    def density(self, grid: tuple[int, ...], *, rounding: Rounding = None) -> Floats:
        """Expected number of participants in each cell of an even grid over the domain: float64[grid]."""
        return self.query(self.partition.task.box.grid(grid), rounding=rounding).value.reshape(grid)

    def interval(self, level: float = 0.95) -> Any:
        """Intervals for the number of people in each region of the map, in its order: float64[m, 2]."""
        tree = self.tree
        rows = np.arange(tree.first[0], tree.first[1]) if isinstance(self.partition, Partition) else tree.leaves
        return self._walk(NOT_ROUNDED).rows(rows).interval(level)

    @cached_property
    def tree(self) -> CountTree:
        """All that is expected, with its errors: what every answer comes from."""
        return tree_from(self.partition)

    def _walk(self, lattice: Lattice) -> TreeWalk:
        walks: dict[Lattice, TreeWalk] = self.__dict__.setdefault("_walks", {})
        if lattice not in walks:
            if len(walks) >= _MOST_WALKS:  # a server is asked for any step: the oldest goes
                del walks[next(iter(walks))]
            walks[lattice] = TreeWalk.of(self.tree, lattice)
        return walks[lattice]

    # -- the map; its ways out are those of WaysOut ------------------------------------------------------------

    @property
    def _map(self) -> Partition | PooledPartition:
        """The regions of the map."""
        return self.partition

    @property
    def boxes(self) -> Floats:
        """Lower and upper corner of each region: float64[m, 2, d]."""
        return self.partition.boxes

    @property
    def crowds(self) -> npt.NDArray[Any]:
        """Participants of each region: exact where regions are public, else estimated. int64[m] or float64[m]."""
        return self.partition.crowds

    def locate(self, points: npt.ArrayLike) -> Integers:
        """Which region a participant at each point ends in: int64[n]."""
        return self.partition.locate(points)

    def __repr__(self) -> str:
        found = f"{type(self).__name__}: {number_of(len(self.partition), 'region')} with {self.counted}"
        return f"{found}\n{self.guarantee}"

    def _repr_html_(self) -> str:
        words: str = output("notebook").result_html(self)
        return words

    # -- to keep it ----------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result with its promise to a JSON file, which :func:`semilocal.load` reads.

        It holds what this result shows and nothing else; it answers the same afterwards. A file that is there already
        is replaced in one step.
        """
        output("saved").save(self, path)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_walks"}


@dataclass(frozen=True, eq=False, repr=False)
class Counts(Mapped):
    """Counts that answer range queries.

    Attributes
    ----------
    published : Published or None
        Where somebody is trusted all that anybody gets to see. ``published.to_bytes()`` is the transcript that
        ``semilocal verify`` replays.
    promised : Guarantee or None
        The promise, where it does not follow from the map alone: inside public buckets.
    """

    partition: Partition | PooledPartition
    spent: Ledger
    rounding: Rounding = None
    published: Published | None = None
    promised: Guarantee | None = None

    @property
    def participants(self) -> int:
        """All who took part; exact."""
        return self.total

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised; its ``explain()`` is the whole statement."""
        return promise_of(self.partition, self.spent) if self.promised is None else self.promised


def counts(run: AnyRun | Partition, *, rounding: Rounding = None) -> Counts:
    """Range counts of a run, or of the partition in a public transcript; they cost nothing beyond it.

    Examples
    --------
    >>> import numpy as np
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(1)
    >>> points = rng.random((20_000, 2))
    >>> run = sl.simulate(points, sl.Task.build(sl.Box((0, 0), (1, 1)), epsilon=1.0, delta=0.01, k=50), rng=rng)
    >>> round(float(counts(run).query([[[0, 0], [1, 1]]]).value[0]), 6)
    20000.0
    """
    partition = run if isinstance(run, Partition) else run.partition
    return Counts(partition, Ledger.of(partition.task).times(rows_each(run)).settle(partition), rounding)


def pooled_counts(published: Published, *, rounding: Rounding = None) -> Counts:
    """Range counts from a transcript; refuses one that does not follow the rule."""
    partition = PooledPartition(estimate(published.tree), published.mark)
    return Counts(partition, Ledger().pooled(published.task), rounding, published)


def run_pooled(
    task: PooledTask, points: Rows | SortedCodes, *, rng: np.random.Generator | None = None, seed: int | None = None
) -> Published:
    """Play a pooled task over positions float[n, d] that are all here or in a source, or over their deepest cells.

    Seeded noise protects nobody, and the result says so, with the seed if it is known. Without a generator the noise is
    the operating system's.
    """
    check_reports(points, task)
    words, mark = words_from(rng), mark_of(task.trust, rng, seed)
    if isinstance(points, Source):
        return count_source(points, task, words, mark=mark)
    if isinstance(points, SortedCodes):
        return play(task, RankedCounter(task, points, words), mark=mark)
    return play(task, MemoryCounter(task, points, words), mark=mark)


def check_reports(rows: Rows | SortedCodes, task: PooledTask) -> None:
    """Refuse a source with more rows of a person than the task's noise is for."""
    if isinstance(rows, Source) and rows.rows_per_person > task.max_reports:
        raise InvalidInput(
            f"the source has up to {rows.rows_per_person} rows of every person, and the task's noise is for "
            f"{task.max_reports}; build the task with max_reports={rows.rows_per_person}"
        )


def words_from(rng: np.random.Generator | None) -> noise.Words:
    """Where noise comes from: the operating system, or a generator for simulation."""
    return noise.from_entropy(os.urandom) if rng is None else noise.from_generator(rng)


def mark_of(trust: str, rng: np.random.Generator | None, seed: int | None = None) -> Mark | None:
    """The mark of a result if it must have one: seeded noise, or two servers played by one program."""
    return None if rng is None and trust == "curator" else Mark(seeded=rng is not None, seed=seed)


def tree_from(partition: Partition | PooledPartition) -> CountTree:
    """All that is expected of a map, with its errors."""
    if isinstance(partition, Partition):
        return public_tree(partition)
    return pooled_tree(partition.estimates, partition.mark)


def promise_of(
    partition: Partition | PooledPartition, spent: Ledger, *, releases: tuple[tuple[str, float], ...] = ()
) -> Guarantee:
    """What is promised about a map and the releases on it: those of the ledger, where regions are public.

    ``releases`` are what was released beside a pooled map, with its loss for any change of one person's position.
    """
    if isinstance(partition, Partition):
        return spent.guarantee(partition)
    return guarantee(partition.task, releases=releases, mark=partition.mark)


def check_rounding(rounding: Rounding, hierarchy: Hierarchy | None, box: Box) -> Lattice:
    """The lattice of a public step; refuses a step that is none, and one for a map whose cells are no boxes."""
    lattice = Lattice.of(rounding, box)
    if lattice.steps and hierarchy is not None and not hierarchy.cells_are_boxes:
        raise InvalidInput("rounding is for maps of boxes; leave it out for other maps")
    return lattice


def rows_each(run: object) -> int:
    """The most rows that anybody has in a run over a source; 1 for others, whose rows are people."""
    return run.source.rows_per_person if isinstance(run, SourceRun) else 1
