"""Range counts from a finished partition. They cost nothing beyond it: everything used is in the public transcript.

- Crowds are exact: who answers for a region is public by design.
- How cells divide is learned from all of the run's divisions (_law.py).
- A TRIM moved some participants into other regions; the trim round's estimates say how many (_visitors.py).
- Inside a region, its last round and its neighbours say how its people divide (_inside.py).

Totals are kept: the whole domain holds exactly the participants of the run.
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


def counts(run: AnyRun | Partition, *, ledger: Ledger | None = None, public_data: bool = False) -> CountsRelease:
    """Range counts of a run, or of the partition in a public transcript; they cost nothing beyond it.

    Parameters
    ----------
    run : Run, SourceRun or Partition
        A partition may come from :meth:`Partition.from_closings`.
    ledger : Ledger, optional
        What was spent on these people so far, the run included; the run's alone if left out, for all rows of a person.
    public_data : bool
        All positions are public: only then are there counts with rule "each", whose transcript does not have them.

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
    return CountsRelease(partition.to_publish(public_data=public_data), spent)
