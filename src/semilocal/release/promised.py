"""What every release answers, whatever the job and in every mode of trust.

A release rests on a map (``partition``), which says how many people are in boxes. It cost something (``spent``), and a
promise follows from both (``guarantee``). Means and points override ``interval`` with that of their own answer.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from ..accounting import Ledger
from ..arrays import Floats, Integers
from ..errors import InvalidInput, OutsideWarning
from ..geometry.box import Box
from ..geometry.polygons import Polygons
from ..hierarchy.base import Hierarchy
from ..pooled.loss import guarantee, ladder
from ..pooled.partition import PooledPartition
from ..protocol.cellmap import CellMap, WaysOut
from ..protocol.partition import Partition
from ..protocol.promise import Guarantee
from ._areas import Asked, as_areas, outside_words
from ._lattice import NOT_ROUNDED, Lattice
from ._pooled_walk import PooledWalk
from ._rounding import Divisions, divisions_of, likely_lattice, possible_lattice
from ._shares import PooledShares, PublicShares
from ._tree import Tree
from ._visitors import Population, population
from ._walk import Counted, Walk
from .boxes import CountAnswers

__all__ = ["Mapped", "Promised", "Rounding", "check_rounding", "outside_words", "promise_of"]

AnyWalk: TypeAlias = Walk | PooledWalk | PublicShares | PooledShares
Rounding: TypeAlias = float | Sequence[float] | None
_MOST_WALKS = 4  # that a release keeps, one for each step


def check_rounding(rounding: Rounding, hierarchy: Hierarchy | None, box: Box) -> Lattice:
    """The lattice of a public step; refuses a step that is none, and one for a map whose cells are no boxes."""
    lattice = Lattice.of(rounding, box)
    if lattice.steps and hierarchy is not None and not hierarchy.cells_are_boxes:
        raise InvalidInput("rounding is for maps of boxes; leave it out for other maps")
    return lattice


def promise_of(
    partition: Partition | PooledPartition,
    spent: Ledger,
    *,
    releases: tuple[tuple[str, float], ...] = (),
) -> Guarantee:
    """What is promised about a map and the releases on it.

    Parameters
    ----------
    spent : Ledger
        Of the map and the releases; only its numbers for a :class:`Partition` are read.
    releases : tuple of (str, float)
        What was released beside a :class:`PooledPartition`, and its loss for any change of one person's position.
    """
    if isinstance(partition, Partition):
        return spent.guarantee(partition)
    estimates = partition.estimates
    rungs = ladder(estimates.tree, estimates.counts)
    return guarantee(partition.task, rungs, releases=releases, mark=partition.mark)


class Mapped(WaysOut):
    """A release on one map.

    Attributes
    ----------
    partition : Partition or PooledPartition
    spent : Ledger
    own : str
        The value of their own that people gave, and its range, in words; empty if there is none.
    rounding : float, one per axis, or None
        The public step that all coordinates are multiples of, for every answer; 0 if there is none, None if unknown.
    """

    partition: Partition | PooledPartition
    spent: Ledger
    own: str = ""
    rounding: Rounding = None

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised; print its ``text()``."""
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
        return int(np.rint(self.partition.crowds.sum()))

    def query(self, areas: Any, *, rounding: Rounding = None) -> CountAnswers:
        """Number of participants in boxes or polygons, with standard errors and intervals. Costs nothing more.

        Parameters
        ----------
        areas : array_like of shape (q, 2, d), or polygons
            Lower and upper corners of boxes, half-open. In two dimensions also (multi)polygons with any holes: shapely
            geometries, a GeoSeries or GeoDataFrame with a CRS that fits the domain, GeoJSON objects, anything with
            ``__geo_interface__``, or H3 cells as strings; see :func:`semilocal.geometry.shapes.as_polygons`.
        rounding : float or one per axis, optional
            If all coordinates are multiples of such a step, as 0.01 in a file with two decimals, and that is public:
            areas take whole places of the lattice then; by lengths the errors of cells along a side would agree.
            That of the release if left out. If that has none either, boxes look for a step (1, 2 or 5 times a power of
            ten) in the divisions that the run published. Where these neither show nor exclude decimals, intervals
            allow for both; values are those without. 0 for none.

        Returns
        -------
        CountAnswers
            ``value`` float64[q], ``stderr`` float64[q], ``interval(level)`` float64[q, 2]. The standard error holds
            noise, and how people may lie inside cells that an area cuts. ``uncertain`` is set if anybody may have been
            moved by a TRIM; without TRIMs, public regions answer areas along their edges exactly (standard error 0).

        Warns
        -----
        OutsideWarning
            If areas reach outside the domain, where nobody was asked. An infinite side means as far as it goes.
        """
        box = self.partition.task.box
        asked = as_areas(areas, box)
        if words := outside_words(asked, box):
            warnings.warn(words, OutsideWarning, stacklevel=2)
        return self.answer(asked, rounding=rounding)

    def answer(self, areas: Any, *, rounding: Rounding = None) -> CountAnswers:
        """As :meth:`query`, for callers that say by themselves what lies outside (``outside_words``)."""
        task = self.partition.task
        asked = as_areas(areas, task.box)
        given = self.rounding if rounding is None else rounding
        if given is not None:
            return self._ask(asked, check_rounding(given, task.hierarchy, task.box))
        if isinstance(asked, Polygons):
            return self._ask(asked, NOT_ROUNDED)
        answers = self._ask(asked, self._found_lattice)
        if not self._found_lattice.steps and self._possible_lattice.steps:
            return answers.allowing_for(self._ask(asked, self._possible_lattice))
        return answers

    def _ask(self, asked: Asked, lattice: Lattice) -> CountAnswers:
        return self._answers(self._walk(lattice).query(self._measured(asked, lattice) if lattice.steps else asked))

    @cached_property
    def _found_lattice(self) -> Lattice:
        """The lattice that the published divisions speak for."""
        if not self.partition.task.hierarchy.cells_are_boxes:
            return NOT_ROUNDED
        return likely_lattice(self._divisions, self.partition.task.box)

    @cached_property
    def _divisions(self) -> list[Divisions]:
        """What the run published of how its cells divide, from the root down."""
        partition = self.partition
        if isinstance(partition, Partition):
            return list(divisions_of(*self._people))
        return list(divisions_of(partition.estimates.tree))

    @cached_property
    def _possible_lattice(self) -> Lattice:
        """The coarsest decimals that the published divisions do not exclude."""
        walk = self._walk(NOT_ROUNDED)
        if not isinstance(walk, Walk | PooledWalk):
            return NOT_ROUNDED
        inside = walk.inside if isinstance(walk, Walk) else walk.inside()
        return possible_lattice(self._divisions, self.partition.task.box, float(np.mean(inside.spread.share_variance)))

    def _measured(self, asked: Asked, lattice: Lattice) -> Asked:
        if isinstance(asked, Polygons):
            from ._lattice_polygons import on_lattice  # shapely is an extra

            return on_lattice(asked, lattice, self.partition.task.box)
        return lattice.measure(asked)

    def _answers(self, found: Counted) -> CountAnswers:
        moved = len(self.partition.trimmed_cells) > 0
        most = np.minimum(found.most, float(self.total))
        exact = (found.variance == 0) & (found.fewer == found.more)
        value = np.where(exact, np.rint(found.value), found.value)  # a sum of fractions is off by a rounding error
        known = {"fewer": found.fewer, "more": found.more, "most": most, "noise": found.noise}
        return CountAnswers(value, np.sqrt(found.variance), moved, **known)

    def density(self, grid: tuple[int, ...], *, rounding: Rounding = None) -> Floats:
        """Expected number of participants in each cell of an even grid over the domain: float64[grid]."""
        return self.query(self.partition.task.box.grid(grid), rounding=rounding).value.reshape(grid)

    def interval(self, level: float = 0.95) -> Any:
        """Intervals for the number of people in each region of the map, in its order: float64[m, 2]."""
        walk = self._walk(NOT_ROUNDED)
        if isinstance(walk, PublicShares | PooledShares):
            return self._answers(walk.regions(self.partition.cells)).interval(level)
        return self.query(self.partition.boxes).interval(level)

    @cached_property
    def _walks(self) -> dict[Lattice, AnyWalk]:
        return {}

    def _walk(self, lattice: Lattice) -> AnyWalk:
        if lattice not in self._walks:
            if len(self._walks) >= _MOST_WALKS:  # a server is asked for any step: the oldest goes
                del self._walks[next(iter(self._walks))]
            self._walks[lattice] = self._new_walk(lattice)
        return self._walks[lattice]

    def _new_walk(self, lattice: Lattice) -> AnyWalk:
        boxes = self.partition.task.hierarchy.cells_are_boxes
        if isinstance(self.partition, Partition):
            tree, found = self._people
            return Walk.of(tree.on(lattice), found) if boxes else PublicShares.of(tree, found)
        if not boxes:
            return PooledShares.of(self.partition.estimates)
        return self._pooled_walk.on(lattice)

    @cached_property
    def _people(self) -> tuple[Tree, Population]:
        """The tree of public regions and who lives where, which no lattice changes."""
        assert isinstance(self.partition, Partition)
        tree = Tree.of(self.partition)
        return tree, population(tree)

    @cached_property
    def _pooled_walk(self) -> PooledWalk:
        assert not isinstance(self.partition, Partition)
        return PooledWalk.of(self.partition.estimates)

    # -- the map; its ways out are those of WaysOut ------------------------------------------------------------

    @property
    def _map(self) -> CellMap:
        """The cells of the map."""
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

    def _repr_html_(self) -> str:
        words: str = import_module("semilocal.page.notebook").result_html(self)
        return words


class Promised(Mapped):
    """A release on public regions.

    Attributes
    ----------
    partition : Partition
        Its crowds are public, or all positions are.
    """

    partition: Partition

    def __post_init__(self) -> None:
        self.partition.to_publish()
