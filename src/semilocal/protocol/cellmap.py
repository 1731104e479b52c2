"""Regions as a map: their boxes, and the ways out as a table, GeoJSON or a picture.

A region is an interval of codes; a cell of a tree is one, too. Files and drawing are above: see outputs.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy.typing as npt

from ..arrays import Floats
from ..hierarchy.base import Cells
from ..outputs import output
from ..tabular import Tabular
from .mark import Mark

if TYPE_CHECKING:
    from os import PathLike

    from matplotlib.axes import Axes


__all__ = ["CodeMap", "WaysOut"]


class CodeMap(Protocol):
    """What drawings and files take: regions of a task's hierarchy as intervals of codes, one row each."""

    @property
    def task(self) -> Any: ...  # has a hierarchy and a box

    @property
    def intervals(self) -> tuple[Cells, Cells]:
        """First code of each region and the code after its last: uint64[m] each."""

    @property
    def are_cells(self) -> bool:
        """Whether every region is one cell of the hierarchy."""

    @property
    def boxes(self) -> Floats:
        """Corners of the smallest box around each region: float64[m, 2, d]."""

    @property
    def mark(self) -> Mark | None: ...

    def to_table(self) -> dict[str, npt.NDArray[Any]]:
        """The regions as columns, one row each."""


class WaysOut(Tabular):
    """Regions on a map as tables, files and pictures of other libraries, which are loaded when used.

    A subclass has ``_map``, the regions, and may add columns in ``_regions``.
    """

    if TYPE_CHECKING:

        @property
        def _map(self) -> CodeMap: ...

    @property
    def _mark(self) -> Mark | None:
        return self._map.mark

    def to_table(self) -> dict[str, npt.NDArray[Any]]:
        """The regions as columns, one row each."""
        return self._regions()

    def _regions(self) -> dict[str, npt.NDArray[Any]]:
        """The regions as columns, one row each, in the order of the map."""
        return self._map.to_table()

    def to_geodataframe(self) -> Any:
        """The regions with outlines as a geopandas.GeoDataFrame (two dimensions only).

        The CRS is EPSG:4326 if the axes are longitude and latitude. If it is simulated, ``attrs["simulation"]`` says
        so.
        """
        return output("tables").to_geodataframe(self._regions(), self._map)

    def to_geoparquet(self, path: str | PathLike[str]) -> None:
        """Write the regions as GeoParquet (two dimensions only); estimates have the digits that are known."""
        output("tables").write_geoparquet(self._regions(), self._map, path)

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
