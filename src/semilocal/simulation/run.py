"""A finished simulation: the partition, who is in which region, and what it took.

Knows results. Knows no randomness.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, short_repr
from ..errors import InvalidInput
from ..protocol.messages import Event
from ..protocol.partition import Partition
from ..protocol.task import Task
from .population import Splits

__all__ = ["LOST", "Run"]

LOST = -1  # region of a participant who announced no final region


@dataclass(frozen=True, eq=False)
class Run:
    """A finished simulation.

    Attributes
    ----------
    task : Task
    partition : Partition
    regions : int32[n]
        Row of each participant's region in the partition; -1 for those who never announced one.
    rounds : int
        How many rounds the partition took.
    splits : Splits
        Every split, in the order of rounds.
    answers, announcements : int
        Reports of all participants with an answer, and without one.
    events : tuple of messages
        The transcript, if reports were derived from secrets: the task, then per round the query, the reports and the
        closing. Empty otherwise.
    simulated : bool
        Always True: one program held all positions.
    """

    task: Task
    partition: Partition
    regions: npt.NDArray[np.int32]
    rounds: int
    splits: Splits
    answers: int
    announcements: int
    events: tuple[Event, ...] = ()
    simulated: bool = True

    __repr__ = short_repr

    @property
    def participants(self) -> int:
        """How many took part."""
        return len(self.regions)

    def check_points(self, points: npt.ArrayLike) -> Floats:
        """Positions of the run's participants, in their order, as float64[n, d]; others are refused."""
        positions = self.task.box.check(points)
        if len(positions) != len(self.regions):
            raise InvalidInput(
                f"points must be the run's {len(self.regions)} participants in their order; got {len(positions)}"
            )
        return positions

    def animate(self, path: str) -> None:
        """Draw the regions as they are found, one picture per round, into a GIF (two dimensions only)."""
        import_module("semilocal.io.plots").animate(self, path)

    def _repr_html_(self) -> str:
        words: str = import_module("semilocal.page.notebook").result_html(self)
        return words
