"""The partition that a run found: regions, their crowds, and what the transcript says about their insides.

Regions, crowds and who answered are unprotected by design: of a position, only the place inside a region is protected.
Knows cells and counts. Knows no participants and no randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, Integers, Words, short_repr
from ..errors import InvalidInput
from ..hierarchy.base import ROOT, Cells
from .cellmap import CellMap
from .curator import Curator
from .mark import Mark
from .messages import Closed
from .promise_words import PROTECTED
from .rule import PlayedRound
from .task import Task

__all__ = ["Partition", "Trims", "check_crowds_public"]


UNPROTECTED = f"Regions and crowds are public by design; {PROTECTED}."


def check_crowds_public(task: Task, *, public_data: bool = False) -> None:
    """Refuse to publish crowds that the transcript of a task does not have, unless all positions are public."""
    if not task.tells_crowds and not public_data:
        raise InvalidInput(
            f"with rule {task.rule!r} nobody answers for a part that is left behind, so what is published does not "
            "tell how many people are in it; take rule 'trim' or 'all', or say that all positions are public, if they "
            "are: public_data=True, or --public-data"
        )


@dataclass(frozen=True, eq=False)
class Trims:
    """The TRIM verdicts of a run, in the order of rounds.

    Attributes
    ----------
    cells : uint64[t]
        The cells that were trimmed.
    kept : bool[t, fanout]
        Children everybody went on in.
    estimates : float64[t, fanout]
        Estimated number of participants in each child before the move.
    responders : int64[t]
    """

    cells: Cells
    kept: Flags
    estimates: Floats
    responders: Integers

    __repr__ = short_repr

    @staticmethod
    def of(played: PlayedRound) -> Trims:
        """The TRIM verdicts of one round."""
        rows = played.ruling.trimmed
        kept = played.kept if played.kept.shape[1] else np.zeros(played.ruling.estimates.shape, dtype=bool)
        return Trims(played.cells[rows], kept[rows], played.ruling.estimates[rows], played.responders[rows])

    @staticmethod
    def join(parts: Iterable[Trims], fanout: int) -> Trims:
        """All verdicts of several; none for no parts."""
        rows = list(parts)
        return Trims(
            np.concatenate([np.empty(0, dtype=np.uint64), *(part.cells for part in rows)]),
            np.concatenate([np.empty((0, fanout), dtype=bool), *(part.kept for part in rows)]),
            np.concatenate([np.empty((0, fanout)), *(part.estimates for part in rows)]),
            np.concatenate([np.empty(0, dtype=np.int64), *(part.responders for part in rows)]),
        )


@dataclass(frozen=True, eq=False)
class Partition(CellMap):
    """Regions in the order of the hierarchy's curve, with one row per region.

    Attributes
    ----------
    task : Task
    cells : uint64[m]
    crowds : int64[m]
        Participants who answered for the region in its last round. Exact and public, unless ``crowds_are_public`` says
        otherwise.
    estimates : float64[m, fanout]
        Estimated participants in each child of the region, from its last round; NaN where children were not asked for.
    path_trims : int64[m]
        TRIM verdicts on the region's path.
    trims : Trims
        All TRIM verdicts of the run.
    crowds_are_public : bool
        False after rounds of rule "each": their crowds are 0, or in a simulation counted by who holds the data. They
        are not exported then.
    mark : Mark or None
        Set if no devices made it: a simulation.
    """

    task: Task
    cells: Cells
    crowds: Integers
    estimates: Floats
    path_trims: Integers
    trims: Trims
    crowds_are_public: bool = True
    mark: Mark | None = None

    __repr__ = short_repr

    @classmethod
    def from_closings(cls, task: Task, closings: Iterable[Closed]) -> Partition:
        """The partition that follows from all closings of a finished task (rules "all" and "trim").

        Raises
        ------
        InvalidInput
            If a closing does not follow from the one before, or cells are still open.
        """
        if not task.tells_crowds:
            raise InvalidInput(
                f"with rule {task.rule!r} nobody answers for a region that was left behind: its crowd is not public"
            )
        curator = Curator.replay(task, closings)
        if not curator.partitioned:
            raise InvalidInput(f"{len(curator.frontier.cells)} cells are still open: the task is not finished")
        return cls.from_rounds(task, curator.rounds)

    @classmethod
    def from_rounds(cls, task: Task, rounds: Sequence[PlayedRound]) -> Partition:
        """The partition that follows from all rounds of a finished task.

        With rule "each" the crowds of the regions that were left behind are not public, and are 0 here.
        """
        exposed = [not task.tells_crowds and played.kept.shape[1] > 0 for played in rounds]
        ends = [played.ruling.ended.rows for played in rounds]
        cells = np.concatenate([played.ruling.ended.cells for played in rounds])
        crowds = [
            np.where(left, 0, played.responders[rows]) for left, rows, played in zip(exposed, ends, rounds, strict=True)
        ]
        estimates = [
            np.where(left, np.nan, played.ruling.estimates[rows])
            for left, rows, played in zip(exposed, ends, rounds, strict=True)
        ]
        trims = [played.frontier.trims[rows] for rows, played in zip(ends, rounds, strict=True)]
        order = np.argsort(task.hierarchy.span(cells)[0])
        return cls(
            task, cells[order], np.concatenate(crowds)[order], np.concatenate(estimates)[order],
            np.concatenate(trims)[order], Trims.join((Trims.of(played) for played in rounds), task.randomizer.fanout),
            task.tells_crowds,
        )  # fmt: skip

    def with_public_crowds(self, crowds: Integers) -> Partition:
        """The same with crowds int64[m] that are public: from a round of values, where everybody names their region, or
        because all positions are."""
        return self if self.crowds_are_public else replace(self, crowds=crowds, crowds_are_public=True)

    def to_publish(self, *, public_data: bool = False) -> Partition:
        """The same if its crowds are public, or all positions are; refused else."""
        if not self.crowds_are_public:
            check_crowds_public(self.task, public_data=public_data)
        return self.with_public_crowds(self.crowds)

    @property
    def was_asked(self) -> bool:
        """Whether anybody was asked where they are; if not, the only region is the whole domain."""
        return self.cells.tolist() != [int(ROOT)] or not bool(np.isnan(self.estimates).all())

    @property
    def trimmed_cells(self) -> Cells:
        """Children that were trimmed off, ascending on the curve: uint64[t]. People there were moved into a region."""
        rows, children = np.nonzero(~self.trims.kept & self.task.hierarchy.child_mask(self.trims.cells))
        cells = self.task.hierarchy.child(self.trims.cells[rows], children)
        return cells[np.argsort(self.task.hierarchy.span(cells)[0])]

    @property
    def smallest_crowd(self) -> int:
        """The smallest crowd that anybody is in; 0 if there is nobody."""
        return int(self.crowds[self.crowds > 0].min()) if self.crowds.any() else 0

    @property
    def share_below_k(self) -> float:
        """Share of the participants whose region holds fewer than k of them."""
        total = int(self.crowds.sum())
        return float(self.crowds[self.crowds < self.task.k].sum() / total) if total else 0.0

    def locate(self, points: npt.ArrayLike, *, words: Callable[[int], Words] | None = None) -> Integers:
        """Index of the region that a participant at each point would end in: int64[n].

        Parameters
        ----------
        points : array_like, shape (n, d)
        words : callable, optional
            Gives random words uint64[m] for a count m. A participant in a trimmed part is moved to a place of what was
            kept that is drawn with them; without them its region is -1.
        """
        hierarchy, trims = self.task.hierarchy, self.trims
        codes = hierarchy.codes(points)
        away = np.zeros(len(codes), dtype=bool)
        depths = hierarchy.depth(trims.cells)
        for depth in np.unique(depths).tolist():
            rows = np.flatnonzero(depths == depth)
            rows = rows[np.argsort(trims.cells[rows])]
            ancestors = hierarchy.ancestors(codes, depth)
            row = rows[np.minimum(np.searchsorted(trims.cells[rows], ancestors), len(rows) - 1)]
            left = ~trims.kept[row, hierarchy.child_of(codes, depth)]
            gone = np.flatnonzero((trims.cells[row] == ancestors) & left)
            if words is None:
                away[gone] = True
            else:
                codes[gone] = hierarchy.spread(ancestors[gone], trims.kept[row[gone]], words(len(gone)))
        out = np.full(len(codes), -1)
        out[~away] = self._region_of(codes[~away])
        return out

    def _region_of(self, codes: Cells) -> Integers:
        first, last = self.task.hierarchy.span(self.cells)
        index = np.searchsorted(first, codes, side="right") - 1
        if len(codes) and (np.any(index < 0) or np.any(codes > last[index])):
            raise InvalidInput("the partition does not cover its domain; was it built by hand?")
        return index.astype(np.int64)

    def to_table(self) -> dict[str, npt.NDArray[Any]]:
        """Columns, one row per region: cell, depth, crowd, trims, and lower and upper bound per axis.

        Without crowd where crowds are not public (rule "each").
        """
        crowd = {"crowd": self.crowds} if self.crowds_are_public else {}
        return self.table_with(**crowd, trims=self.path_trims)
