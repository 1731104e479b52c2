"""Range counts from a finished partition. They cost nothing beyond it: everything used is in the public transcript.

The members of a region are known exactly; inside, answers about its walls say where they are (public.py). The whole
domain holds exactly the participants of the run.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..accounting import Ledger
from ..arrays import short_repr
from ..protocol.partition import Partition
from .promised import Promised, Rounding
from .streamed import AnyRun, rows_each

__all__ = ["CountsRelease", "counts"]


@dataclass(frozen=True, eq=False)
class CountsRelease(Promised):
    """Counts that answer range queries.

    Attributes
    ----------
    partition : Partition
    spent : Ledger
    rounding : float, one per axis, or None
        The public step that all coordinates are multiples of.
    """

    partition: Partition
    spent: Ledger
    rounding: Rounding = None

    __repr__ = short_repr


def counts(run: AnyRun | Partition, *, ledger: Ledger | None = None) -> CountsRelease:
    """Range counts of a run, or of the partition in a public transcript; they cost nothing beyond it.

    Parameters
    ----------
    run : Run, SourceRun or Partition
    ledger : Ledger, optional
        What was spent on these people so far, the run included; the run's alone if left out, for all rows of a person.

    Examples
    --------
    >>> import numpy as np
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(1)
    >>> points = rng.random((20_000, 2))
    >>> run = sl.simulate(points, sl.Task.build(sl.Box((0, 0), (1, 1)), epsilon=1.0, delta=0.01, k=50), rng=rng)
    >>> round(float(counts(run).query([[[0, 0], [1, 1]]]).value[0]), 6)
    20000.0
    """
    partition = run if isinstance(run, Partition) else run.partition
    spent = (ledger or Ledger.of(partition.task).times(rows_each(run))).settle(partition)
    return CountsRelease(partition, spent)
