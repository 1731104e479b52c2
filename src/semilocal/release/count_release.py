"""Range counts from a finished partition. They cost nothing beyond it: everything used is in the public transcript.

- Crowds are exact: who answers for a region is public by design.
- A TRIM moved some participants into other regions; the trim round's estimates say how many (_visitors.py).
- Inside a region, its last round and its neighbours say how its people divide (_inside.py, spread.py).

Totals are kept: the whole domain holds exactly the participants of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..accounting import Ledger
from ..arrays import Floats, as_boxes, short_repr
from ..protocol.partition import Partition
from ..simulation.run import Run
from ._tree import Tree
from ._walk import Walk
from .boxes import Answers
from .intervals import standard_errors
from .promised import Promised

__all__ = ["CountAnswers", "CountsRelease", "counts"]


@dataclass(frozen=True, eq=False)
class CountAnswers(Answers):
    """Answers to q range queries.

    Attributes
    ----------
    value : float64[q]
        If trimmed parts are empty unless their estimates say otherwise, as seas and deserts are.
    stderr : float64[q]
        Noise of the reports, chance, and people who lie unevenly; 0 where the answer is exact.
    uncertain : bool
        Whether anybody may have been moved.
    other : float64[q]
        If no trimmed part is empty. Nobody knows which is true, and chance does not average it out: intervals hold
        both.
    most : float64[q]
        Upper limits that hold for certain: all who act from regions that the box meets, or all participants.
    """

    other: Floats = field(kw_only=True)
    most: Floats = field(kw_only=True)

    __repr__ = short_repr

    def interval(self, level: float = 0.95) -> Floats:
        """Interval for each number, in whole people: float64[q, 2]. It always holds the value.

        The lower end is a normal one. The upper end is that of somebody who knows a person in the box, as people do
        who ask: a person makes ``stderr ** 2 / expected`` more people expected there, because people lie in clumps. It
        makes no difference where many are expected. How often intervals hold the truth, by kind of box and
        population, is measured in bench/RESULTS.md.
        """
        width, variance = standard_errors(level), self.stderr**2
        fewer, more = np.minimum(self.value, self.other), np.maximum(self.value, self.other)
        middle = (fewer + more) / 2
        seen = np.divide(variance, middle, out=np.zeros(len(self)), where=middle > 0)
        low = fewer - width * self.stderr
        high = more + seen + width * np.sqrt(variance + seen**2)
        ends: Floats = np.rint(np.clip(np.stack([low, high], axis=1), 0.0, self.most[:, None]))
        exact = (self.stderr == 0) & (fewer == more)
        ends[exact] = self.value[exact, None]
        ends[:, 0], ends[:, 1] = np.minimum(ends[:, 0], self.value), np.maximum(ends[:, 1], self.value)
        return ends


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
        """Number of participants in boxes, with standard errors and intervals.

        Parameters
        ----------
        boxes : array_like, shape (q, 2, d)
            Lower and upper corners, half-open.

        Returns
        -------
        CountAnswers
            ``value`` float64[q], ``stderr`` float64[q], ``interval(level)`` float64[q, 2]. Queries along the edges of
            regions are exact (standard error 0) but for participants who may have been moved; ``uncertain`` is set if
            any TRIM was made.
        """
        found = self._walk.query(as_boxes(boxes, dimensions=self.partition.task.box.dimensions, infinite=True))
        return CountAnswers(
            found.value, np.sqrt(found.variance), len(self.partition.trims.cells) > 0, other=found.other,
            most=np.minimum(found.most, float(self.total)),
        )  # fmt: skip

    def density(self, grid: tuple[int, ...]) -> Floats:
        """Expected number of participants in each cell of an even grid over the domain: float64[grid]."""
        return self.query(self.partition.task.box.grid(grid)).value.reshape(grid)

    @cached_property
    def _walk(self) -> Walk:
        return Walk.of(Tree.of(self.partition))


def counts(run: Run | Partition, *, ledger: Ledger | None = None) -> CountsRelease:
    """Range counts of a run, or of the partition in a public transcript; they cost nothing beyond it.

    Parameters
    ----------
    run : Run or Partition
        A partition may come from :meth:`Partition.from_closings`.
    ledger : Ledger, optional
        What was spent on these people so far, the run included; the run's alone if left out.

    Examples
    --------
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(1)
    >>> points = rng.random((20_000, 2))
    >>> run = sl.simulate(points, sl.Task.build(sl.Box((0, 0), (1, 1)), epsilon=1.0, delta=0.01, k=50), rng=rng)
    >>> round(float(counts(run).query([[[0, 0], [1, 1]]]).value[0]), 6)
    20000.0
    """
    partition, simulated = (run, False) if isinstance(run, Partition) else (run.partition, run.simulated)
    spent = (ledger or Ledger.of(partition.task)).settle(partition)
    return CountsRelease(partition, spent, simulated)
