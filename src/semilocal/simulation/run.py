"""A finished run: the partition, what each participant spent, and the transcript.

Knows results. Knows no randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, short_repr
from ..errors import InvalidInput
from ..hierarchy.base import Cells
from ..protocol.curator import closing
from ..protocol.messages import Message, Query, Report
from ..protocol.partition import Partition
from ..protocol.rule import PlayedRound
from ..protocol.task import Task

__all__ = ["LOST", "Moved", "Reports", "Round", "Run", "messages_of"]

LOST = -1  # region of a participant that dropped out


@dataclass(frozen=True, eq=False)
class Reports:
    """The single reports of a round (``detail="reports"``): who, for which row of the frontier, and what."""

    participants: Integers
    rows: Integers
    answers: Integers  # int64[n], int64[n, fanout], or int64[n, 0] in a roll call

    __repr__ = short_repr


@dataclass(frozen=True, eq=False)
class Round(PlayedRound):
    """One round of a simulation, with its single reports if they were simulated."""

    reports: Reports | None = None

    __repr__ = short_repr


class Moved(NamedTuple):
    """Participants that were moved and have a region, and the codes they act from: int64[m], uint64[m]."""

    participants: Integers
    codes: Cells

    def __repr__(self) -> str:
        """Nothing of it: who was moved, and how many, is private."""
        return "Moved(…)"

    @staticmethod
    def nobody() -> Moved:
        """Nobody was moved."""
        return Moved(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64))


def numbered(who: Integers) -> list[bytes]:
    """Participants by their numbers."""
    return [number.to_bytes(16, "big") for number in who.tolist()]


@dataclass(frozen=True, eq=False)
class Run:
    """A finished simulation.

    Attributes
    ----------
    task : Task
    partition : Partition
    regions : int32[n]
        Index of each participant's region in the partition; -1 for participants lost to dropout.
    moves : int16[n]
        How often each participant was moved.
    rounds : tuple of Round
    moved : Moved
        Where those who were moved act from.
    simulated : bool
        Always True: seeded randomness is for simulation only.
    """

    task: Task
    partition: Partition
    regions: npt.NDArray[np.int32]
    moves: npt.NDArray[np.int16]
    rounds: tuple[Round, ...]
    moved: Moved = field(default_factory=Moved.nobody)
    pseudonyms: Callable[[Integers], list[bytes]] = field(repr=False, default=numbered)
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

    def acting(self, points: npt.ArrayLike) -> Floats:
        """The positions that participants act from in the end, inside their regions: float64[n, d].

        Their own, or that of the code they were last moved to; of participants that dropped out, their own.

        Parameters
        ----------
        points : array_like, shape (n, d)
            Positions of the run's participants, in their order.
        """
        positions = self.check_points(points)
        if not len(self.moved.participants):
            return positions
        out = positions.copy()
        out[self.moved.participants] = self.task.hierarchy.middles(self.moved.codes)
        return out

    @property
    def losses(self) -> Floats:
        """Loss of a moved position against any inside its region: (1 + T) reports, T public. float64[n].

        T counts the TRIMs on the path of the participant's region; participants lost to dropout count the task's limit.
        """
        trims = np.append(self.partition.path_trims, self.task.max_trims)  # LOST is the last
        return (1.0 + trims[self.regions]) * self.task.epsilon

    @cached_property
    def move_shares(self) -> dict[int, float]:
        """Share of the participants for each number of moves."""
        if not len(self.moves):
            return {0: 1.0}
        counts = np.bincount(self.moves)
        return {moves: float(count / len(self.moves)) for moves, count in enumerate(counts) if count}

    def animate(self, path: str) -> None:
        """Draw the regions as they are found, one picture per round, into a GIF (two dimensions only)."""
        import_module("semilocal.io.plots").animate(self, path)

    def _repr_html_(self) -> str:
        words: str = import_module("semilocal.page.notebook").result_html(self)
        return words

    @property
    def events(self) -> Iterator[Message]:
        """The transcript: the task, then per round the query, the reports (if simulated one by one) and the closing."""
        yield self.task
        for played in self.rounds:
            cells = tuple(played.cells.tolist())
            yield Query(self.task.id, played.number, cells)
            if played.reports is not None:
                yield from messages_of(self.task, played, played.reports, self.pseudonyms)
            yield closing(self.task, played)


def messages_of(
    task: Task, played: PlayedRound, reports: Reports, pseudonyms: Callable[[Integers], list[bytes]]
) -> Iterator[Report]:
    """Reports of a round as messages, by ascending pseudonym."""
    names, answers = pseudonyms(reports.participants), reports.answers.tolist()
    cells = played.cells[reports.rows].tolist()
    for at in sorted(range(len(names)), key=names.__getitem__):
        answer = answers[at]
        value = (tuple(answer) or None) if isinstance(answer, list) else answer
        yield Report(task.id, played.number, names[at], cells[at], value)
