"""What every release answers, whatever the job and in every mode of trust.

A release rests on a map (``partition``), which says how many people are in boxes. It cost something (``spent``), and a
promise follows from both (``guarantee``). Means and points override ``interval`` with that of their own answer.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property
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
from ..outputs import output
from ..pooled.loss import guarantee, ladder
from ..pooled.partition import PooledPartition
from ..protocol.cellmap import WaysOut
from ..protocol.partition import Partition
from ..protocol.promise import Guarantee
from ._lattice import NOT_ROUNDED, Lattice
from .areas import Asked, as_areas, outside_words
from .boxes import CountAnswers
from .intervals import Counted
from .pooled import pooled_tree
from .public import public_tree
from .tree import CountTree
from .walk import TreeWalk

__all__ = ["Mapped", "Promised", "Rounding", "check_rounding", "outside_words", "promise_of"]

Rounding: TypeAlias = float | Sequence[float] | None
_MOST_WALKS = 4  # that a release keeps, one for each step


def check_rounding(rounding: Rounding, hierarchy: Hierarchy | None, box: Box) -> Lattice:
    """The lattice of a public step; refuses a step that is none, and one for a map whose cells are no boxes."""
    lattice = Lattice.of(rounding, box)
    if lattice.steps and hierarchy is not None and not hierarchy.cells_are_boxes:
        raise InvalidInput("rounding is for maps of boxes; leave it out for other maps")
    return lattice


def promise_of(
    partition: Partition | PooledPartition, spent: Ledger, *, releases: tuple[tuple[str, float], ...] = ()
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
        if isinstance(self.partition, Partition):
            return self.partition.people
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
            That of the release if left out; 0 for none.

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
        return self.answer(asked, rounding=rounding)

    def answer(self, areas: Any, *, rounding: Rounding = None) -> CountAnswers:
        """As :meth:`query`, for callers that say by themselves what lies outside (``outside_words``)."""
        task = self.partition.task
        asked = as_areas(areas, task.box)
        given = self.rounding if rounding is None else rounding
        lattice = check_rounding(given, task.hierarchy, task.box)
        return self._answers(self._walk(lattice).query(self._measured(asked, lattice) if lattice.steps else asked))

    def _measured(self, asked: Asked, lattice: Lattice) -> Asked:
        if isinstance(asked, Polygons):
            from ._lattice_polygons import on_lattice  # shapely is an extra

            return on_lattice(asked, lattice, self.partition.task.box)
        return lattice.measure(asked)

    def _answers(self, found: Counted) -> CountAnswers:
        most = np.minimum(found.most, float(self.total))
        exact = (found.variance == 0) & (found.fewer == found.more)
        value = np.where(exact, np.rint(found.value), found.value)  # a sum of fractions is off by a rounding error
        known = {"fewer": found.fewer, "more": found.more, "most": most, "noise": found.noise}
        return CountAnswers(value, np.sqrt(found.variance), False, **known)

    def density(self, grid: tuple[int, ...], *, rounding: Rounding = None) -> Floats:
        """Expected number of participants in each cell of an even grid over the domain: float64[grid]."""
        return self.query(self.partition.task.box.grid(grid), rounding=rounding).value.reshape(grid)

    def interval(self, level: float = 0.95) -> Any:
        """Intervals for the number of people in each region of the map, in its order: float64[m, 2]."""
        tree = self.tree
        rows = np.arange(tree.first[0], tree.first[1]) if isinstance(self.partition, Partition) else tree.leaves
        return self._answers(self._walk(NOT_ROUNDED).rows(rows)).interval(level)

    @cached_property
    def tree(self) -> CountTree:
        """All that is expected, with its errors: what every answer comes from."""
        if isinstance(self.partition, Partition):
            return public_tree(self.partition)
        return pooled_tree(self.partition.estimates, self.partition.mark)

    @cached_property
    def _walks(self) -> dict[Lattice, TreeWalk]:
        return {}

    def _walk(self, lattice: Lattice) -> TreeWalk:
        if lattice not in self._walks:
            if len(self._walks) >= _MOST_WALKS:  # a server is asked for any step: the oldest goes
                del self._walks[next(iter(self._walks))]
            self._walks[lattice] = TreeWalk.of(self.tree, lattice)
        return self._walks[lattice]

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

    def _repr_html_(self) -> str:
        words: str = output("notebook").result_html(self)
        return words


class Promised(Mapped):
    """A release on public regions."""

    partition: Partition
