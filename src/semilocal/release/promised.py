"""What every release carries: the partition it rests on, what it cost, and the promise that follows from both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ..accounting import Ledger
from ..pooled.partition import PooledPartition
from ..protocol.partition import Partition
from ..protocol.promise import Guarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Mapped", "Promised"]


class Mapped:
    """A release that has a map, in every mode of trust.

    Attributes
    ----------
    partition : Partition or PooledPartition
    """

    partition: Partition | PooledPartition

    def to_table(self) -> dict[str, npt.NDArray[Any]]:
        """The regions as columns."""
        return self.partition.to_table()

    def to_geojson(self) -> dict[str, Any]:
        """The regions as a GeoJSON FeatureCollection (two dimensions only)."""
        return self.partition.to_geojson()

    def save_geojson(self, path: str) -> None:
        """Write :meth:`to_geojson` to a file."""
        self.partition.save_geojson(path)

    def plot(self, ax: Axes | None = None, *, points: npt.ArrayLike | None = None) -> Axes:
        """Draw the regions; optionally the points on top, for public data only."""
        return self.partition.plot(ax, points=points)


class Promised(Mapped):
    """A release on one partition.

    Attributes
    ----------
    partition : Partition
    spent : Ledger
    simulated : bool
        Whether one program played all participants.
    """

    partition: Partition
    spent: Ledger
    simulated: bool

    @property
    def guarantee(self) -> Guarantee:
        """What is promised; print its ``text()``."""
        return self.spent.guarantee(self.partition, simulated=self.simulated)
