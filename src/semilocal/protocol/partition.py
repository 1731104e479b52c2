"""The partition that a run found: regions, their crowds, and what members answered about walls inside them.

A region is an interval of codes of the public order: a union of few cells, and connected on a box. Regions, crowds and
answers are public by design; only the place inside a region is protected. What is drawn and written of regions, and of
the cells of a tree, is in :class:`WaysOut`; files and drawing are above (outputs.py). Knows codes and counts. Knows no
participants and no randomness.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, short_repr
from ..hierarchy.base import Cells, Polygons
from ..outputs import output
from ..tabular import Tabular
from .estimate import Parts, Pieces, Walls, estimate, learn_strength, parts_of
from .promise import PROTECTED, Mark
from .task import Task

if TYPE_CHECKING:
    from os import PathLike

    from matplotlib.axes import Axes

UNPROTECTED = f"Regions and crowds are public by design; {PROTECTED}."


class WaysOut(Tabular):
    """Regions on a map as tables, files and pictures of other libraries, which are loaded when used.

    A subclass is a partition, of regions or of cells, or has one as ``_map``; it may add columns in ``_regions``.
    """

    @property
    def _map(self) -> Any:
        return self

    @property
    def _mark(self) -> Mark | None:
        return self._map.mark  # type: ignore[no-any-return]

    def to_table(self) -> dict[str, npt.NDArray[Any]]:
        """The regions as columns, one row each."""
        return self._regions()

    def _regions(self) -> dict[str, npt.NDArray[Any]]:
        """The regions as columns, one row each, in the order of the map."""
        return self._map.to_table()  # type: ignore[no-any-return]

    def to_geodataframe(self) -> Any:
        """The regions with outlines as a geopandas.GeoDataFrame (two dimensions only).

        The CRS is EPSG:4326 if the axes are longitude and latitude. If it is simulated, ``attrs["simulation"]`` says
        so.
        """
        return output("regions").to_geodataframe(self._regions(), self._map)

    def to_geoparquet(self, path: str | PathLike[str]) -> None:
        """Write the regions as GeoParquet (two dimensions only); estimates have the digits that are known."""
        output("regions").write_geoparquet(self._regions(), self._map, path)

    def to_geojson(self) -> dict[str, Any]:
        """A GeoJSON FeatureCollection of the regions (two dimensions only).

        Longitude comes first; axes with other names are written in their order. If the result is simulated, the
        member ``simulation`` says so.
        """
        document: dict[str, Any] = output("regions").regions_geojson(self._map)
        return document

    @property
    def __geo_interface__(self) -> dict[str, Any]:
        """:meth:`to_geojson`, for everything that takes geometries."""
        return self.to_geojson()

    def save_geojson(self, path: str | PathLike[str]) -> None:
        """Write :meth:`to_geojson` to a file."""
        output("regions").write_geojson(self._map, path)

    def plot(self, ax: Axes | None = None, *, points: npt.ArrayLike | None = None) -> Axes:
        """Draw the regions coloured by density, the lines inside them thin; optionally points float[n, 2] on top, of
        public data only.
        """
        drawn: Axes = output("plots").draw_regions(self._map, ax, points=points)
        return drawn


class Away(NamedTuple):
    """Participants who never announced a side after a split: they keep the region they announced last."""

    lower: Cells  # uint64[a]: codes of those regions; each holds several of the partition's
    upper: Cells  # uint64[a]
    people: Integers  # int64[a]

    @staticmethod
    def nobody() -> Away:
        """Everybody announced."""
        none = np.empty(0, dtype=np.uint64)
        return Away(none, none, np.empty(0, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Partition(WaysOut):
    """Regions in their public order, one row each; together they are the domain.

    Attributes
    ----------
    task : Task
    lower, upper : uint64[m]
        Codes lower to before upper.
    crowds : int64[m]
        Members: participants of the roster who announced the region. Exact and public.
    late : int64[m]
        People who enrolled after the first round and announced the region; counted nowhere else.
    walls : Walls
        Answers of members about cuts inside their region.
    away : Away
    mark : Mark or None
        Set if no devices made it: a simulation.
    """

    task: Task
    lower: Cells
    upper: Cells
    crowds: Integers
    late: Integers
    walls: Walls
    away: Away
    mark: Mark | None = None

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def intervals(self) -> tuple[Cells, Cells]:
        """First code of each region and the code after its last: uint64[m] each."""
        return self.lower, self.upper

    @property
    def are_cells(self) -> bool:
        """No: a region is a union of cells."""
        return False

    @property
    def people(self) -> int:
        """Participants of the roster, those who are away included."""
        return int(self.crowds.sum() + self.away.people.sum())

    @cached_property
    def pieces(self) -> Pieces:
        """Between the walls of each region, with estimated shares (the rule's estimate)."""
        walls = self.walls if self.task.rule == "cut" else Walls.none(len(self))
        return estimate(self.lower, self.upper, walls, self.truth)

    @cached_property
    def parts(self) -> Parts:
        """Cells of these pieces, and where in a piece people are expected."""
        return parts_of(self.task.hierarchy, self.pieces, self.crowds.astype(np.float64))

    @property
    def truth(self) -> float:
        """The chance that an answer about a wall tells the true side; any number where no answer does."""
        return self.task.truth if self.task.randomizer.fanout == 2 and self.task.randomizer.words == 1 else 0.75

    @cached_property
    def strength(self) -> float:
        """How smooth people lie, learnt from all answers; the same for everybody who holds the public log."""
        return learn_strength(self.lower, self.upper, self.walls, self.truth)

    @cached_property
    def boxes(self) -> Floats:
        """Lower and upper corner of the smallest box around each region: float64[m, 2, d], read-only."""
        boxes = self.task.hierarchy.interval_boxes(self.lower, self.upper)
        boxes.setflags(write=False)
        return boxes

    @property
    def areas(self) -> Floats:
        """Areas in km² on a map, else products of sides in units of the axes: float64[m]."""
        return self.task.hierarchy.interval_areas(self.lower, self.upper)

    @property
    def names(self) -> list[str]:
        """What regions are called: the codes of their cells, or their labels."""
        return self.task.hierarchy.interval_names(self.lower, self.upper)

    def polygons(self) -> list[Polygons]:
        """The outline of each region in two dimensions: the union of its cells, as closed rings."""
        return self.task.hierarchy.interval_polygons(self.lower, self.upper)

    @property
    def share_below_k(self) -> float:
        """Share of the participants whose region holds fewer than k of them."""
        total = int(self.crowds.sum())
        return float(self.crowds[self.crowds < self.task.k].sum() / total) if total else 0.0

    def locate(self, points: npt.ArrayLike) -> Integers:
        """Row of the region that holds each point: int64[n]."""
        codes = self.task.hierarchy.codes(points)
        return (np.searchsorted(self.lower, codes, side="right") - 1).astype(np.int64)

    def to_table(self) -> dict[str, npt.NDArray[Any]]:
        """Columns, one row per region: name, codes, crowd, walls, area, and the corners of the box around it."""
        table: dict[str, npt.NDArray[Any]] = {
            "region": np.array(self.names),
            "first_code": self.lower,
            "after_code": self.upper,
            "crowd": self.crowds,
            "walls": np.diff(self.walls.first),
            "area": self.areas,
        }
        for axis, name in enumerate(self.task.box.names):
            table[f"{name}_lower"], table[f"{name}_upper"] = self.boxes[:, 0, axis], self.boxes[:, 1, axis]
        return table
