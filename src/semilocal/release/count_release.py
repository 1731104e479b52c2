"""Range counts from a finished partition. They cost nothing beyond it: everything used is in the public transcript.

- Crowds are exact: who answers for a region is public by design.
- Inside a region the last round's estimates say how its crowd divides among the children (tiles.py).
- A TRIM moved some participants into regions next door; the trim round's estimates say how many (moved.py).

Answers are cautious about trimmed parts, which mostly are empty. Intervals are not: they hold how many there may be.

Totals are kept: the whole domain holds exactly the participants of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..accounting import Ledger
from ..arrays import Floats, short_repr
from ..protocol.partition import Partition
from ..simulation.run import Run
from ._moves import Moved, Moves
from ._tiles import Tiles
from .boxes import Answers, BoxCounts
from .intervals import not_negative, standard_errors
from .promised import Promised

__all__ = ["CountAnswers", "CountsRelease", "counts"]


_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class CountAnswers(Answers):
    """Answers to q range queries.

    Attributes
    ----------
    value : float64[q]
        Cautious about trimmed parts: nobody is put there without evidence.
    stderr : float64[q]
        Standard error of ``acting.value - moved.value``, the number without that caution.
    uncertain : bool
        Whether anybody may have been moved.
    acting : Answers
        How many act from each box, with the error of the division of regions.
    moved : Moved
        How many of them are elsewhere, less those who are in the box and act from elsewhere.
    total : int
        All participants; intervals end there.
    """

    acting: Answers = field(kw_only=True)
    moved: Moved = field(kw_only=True)
    total: int = field(kw_only=True)

    __repr__ = short_repr

    def interval(self, level: float = 0.95) -> Floats:
        """Interval for each number, within 0 and the total: float64[q, 2].

        Meant for boxes along the edges of regions, of their halves and of trimmed parts. Boxes that cut through a half
        rest on the assumption that people lie evenly in it. An interval need not be centred at the value. How often
        intervals cover, by kind of box and population, is measured in bench/RESULTS.md; it is not the level everywhere.
        """
        low, high = _moved_between(self.moved, level)
        middle = np.clip(self.moved.value, low, high)
        divided = standard_errors(level) * self.acting.stderr
        lower = self.acting.value - middle - np.hypot(high - middle, divided)
        upper = self.acting.value - middle + np.hypot(middle - low, divided)
        return np.clip(np.stack([lower, upper], axis=1), 0.0, float(self.total))


def _moved_between(moved: Moved, level: float) -> tuple[Floats, Floats]:
    """Interval for the net number of people moved in; on one side of zero where it must be."""
    half = standard_errors(level) * moved.stderr
    low, high = moved.value - half, moved.value + half
    inwards, outwards = not_negative(moved.value, moved.stderr, level), not_negative(-moved.value, moved.stderr, level)
    low = np.select([moved.only_in, moved.only_out], [inwards[0], -outwards[1]], low)
    high = np.select([moved.only_in, moved.only_out], [inwards[1], -outwards[0]], high)
    return low - moved.unseen_out, high + moved.unseen_in


@dataclass(frozen=True, eq=False)
class CountsRelease(Promised):
    """Counts that answer range queries.

    Attributes
    ----------
    partition : Partition
    spent : Ledger
    simulated : bool
        Whether one program played all participants.
    """

    partition: Partition
    spent: Ledger
    simulated: bool = False

    __repr__ = short_repr

    @property
    def total(self) -> int:
        """All participants of the run; exact."""
        return int(self.partition.crowds.sum())

    def query(self, boxes: npt.ArrayLike) -> CountAnswers:
        """Number of participants in boxes, with standard errors.

        Parameters
        ----------
        boxes : array_like, shape (q, 2, d)
            Lower and upper corners, half-open.

        Returns
        -------
        CountAnswers
            ``value`` float64[q], ``stderr`` float64[q], ``interval(level)`` float64[q, 2]. Queries along the edges of
            regions are exact (standard error 0) but for participants who may have been moved; ``uncertain`` is set if
            any TRIM was made. Queries that cut regions rest on the assumption that people lie evenly inside the
            halves of a region.
        """
        model = self._model
        value = model.residents.query(boxes).value
        acting = model.acting.query(boxes)
        variance = acting.stderr**2 - model.regions.query(boxes).stderr ** 2
        variance[variance < _ROUNDING * (1.0 + acting.stderr**2)] = 0.0  # what cancels leaves rounding behind
        moved = model.moves.across(np.asarray(boxes, dtype=np.float64))
        return CountAnswers(
            value,
            np.sqrt(variance + moved.stderr**2),
            model.residents.uncertain,
            acting=Answers(acting.value, np.sqrt(variance)),
            moved=moved,
            total=self.total,
        )

    def density(self, grid: tuple[int, ...]) -> Floats:
        """Expected number of participants in each cell of an even grid over the domain."""
        return self._model.residents.density(grid, self.partition.task.box)

    @cached_property
    def _model(self) -> _Model:
        partition, fanout = self.partition, self.partition.task.randomizer.fanout
        tiles = Tiles.of(partition)
        moves = Moves.of(partition, tiles)
        residents = moves.residents()
        # Children of a region err against each other: their sum is exact. Independent errors of this size, less those
        # of the whole region, come to the same.
        against = tiles.variances * fanout / (fanout - 1)
        divided = np.bincount(tiles.regions, against, minlength=len(partition))
        region = np.flatnonzero(divided)
        return _Model(
            BoxCounts(
                np.concatenate([moves.parts.boxes, tiles.boxes]),
                np.concatenate([residents.parts, residents.tiles]),
                uncertain=len(moves.parts.cells) > 0,
            ),
            BoxCounts(tiles.boxes, tiles.people, variances=against),
            BoxCounts(partition.boxes[region], np.zeros(len(region)), variances=divided[region]),
            moves,
        )


class _Model(NamedTuple):
    residents: BoxCounts  # answers
    acting: BoxCounts  # where people act from, with variances as if all tiles erred independently
    regions: BoxCounts  # what that is too much where a query holds several tiles of a region
    moves: Moves


def counts(run: Run, *, ledger: Ledger | None = None) -> CountsRelease:
    """Range counts of a run; they cost nothing beyond it.

    Examples
    --------
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(1)
    >>> points = rng.random((20_000, 2))
    >>> run = sl.simulate(points, sl.Task.build(sl.Box((0, 0), (1, 1)), epsilon=1.0, delta=0.01, k=50), rng=rng)
    >>> round(float(counts(run).query([[[0, 0], [1, 1]]]).value[0]), 6)
    20000.0
    """
    spent = (ledger or Ledger.of(run.task)).settle(run.partition)
    return CountsRelease(run.partition, spent, run.simulated)
