"""How a budget is divided where nobody is trusted: partition first, values on it.

The split depends on public numbers only: how many take part, epsilon, delta, k, the box. Never on the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from ..accounting import Ledger
from ..arrays import as_number, exact
from ..engines.histogram import Lookup
from ..engines.run import SourceRun
from ..engines.source import Source
from ..errors import InvalidInput
from ..geometry.box import Box
from ..protocol.mark import Mark
from ..protocol.partition import Partition, Trims
from ..protocol.rule import TRIM_QUANTILE
from ..protocol.task import MAX_TRIMS, Accounting, Task
from ..randomizer import RandomizedResponse
from ..randomizer.base import EPSILON_RANGE
from ..randomizer.values.mechanisms import MAX_EPSILON, MIN_EPSILON
from ..simulation.run import Run
from .streamed import AnyRun, Rows, count_rows, play_rows

__all__ = ["TREE_SHARE", "Split", "partition_for_values", "plan_split", "plan_values"]

TREE_SHARE = 0.45
_SMALLEST_EPSILON = 0.01  # least budget worth giving to a part
_TRIM_LEVELS = 16  # a TRIM should still be possible in a cell that holds this part of the crowd
_TRIM_SLACK = 2.5  # tau over the width of its own confidence bound
_TAU_RANGE = (0.05, 0.3)
_TAU_HOPELESS = 0.6  # above this, noise hides where people are, and a partition would only cost


@dataclass(frozen=True)
class Split:
    """How a budget is divided.

    Attributes
    ----------
    tree, value : float
        Epsilon of the partition and of the values; the tree's is 0 where no partition can help.
    tau : float
        Largest share of a cell that may be moved.
    """

    tree: float
    value: float
    tau: float


def plan_split(
    participants: int, *, epsilon: float, accounting: Accounting = "core", max_trims: int | None = None
) -> Split:
    """Divide a budget between partition and values, from public numbers only.

    Noise hides a cell's emptiness when tau is not well above the width of the trim test's confidence bound; the crowd
    at which that must work is a sixteenth of all. Where even tau = 0.6 would not do, everything goes to the values.

    Examples
    --------
    >>> plan_split(64_000, epsilon=1.0).tree
    0.45
    >>> plan_split(2_000, epsilon=0.5).tree
    0.0
    """
    tree = TREE_SHARE * epsilon
    report = tree / (1 + _trims(accounting, max_trims))
    if participants < 1 or report < _SMALLEST_EPSILON:
        return Split(0.0, epsilon, _TAU_RANGE[1])
    noise = RandomizedResponse(report, 2).variance()  # per responder
    wanted = _TRIM_SLACK * TRIM_QUANTILE * math.sqrt(_TRIM_LEVELS * noise / participants)
    if wanted > _TAU_HOPELESS:
        return Split(0.0, epsilon, _TAU_RANGE[1])
    if epsilon - tree > MAX_EPSILON:  # what a mechanism cannot take goes to the partition
        tree = epsilon - MAX_EPSILON
    return Split(tree, epsilon - tree, min(max(wanted, _TAU_RANGE[0]), _TAU_RANGE[1]))


@overload
def partition_for_values(
    points: Source,
    box: Box | None,
    *,
    epsilon: float,
    delta: float,
    k: int,
    rng: np.random.Generator | None,
    cap: float | Fraction | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> tuple[SourceRun, Split, Ledger]: ...
@overload
def partition_for_values(
    points: npt.ArrayLike,
    box: Box | None,
    *,
    epsilon: float,
    delta: float,
    k: int,
    rng: np.random.Generator | None,
    cap: float | Fraction | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> tuple[Run, Split, Ledger]: ...
def partition_for_values(
    points: Rows,
    box: Box | None,
    *,
    epsilon: float,
    delta: float,
    k: int,
    rng: np.random.Generator | None,
    cap: float | Fraction | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> tuple[AnyRun, Split, Ledger]:
    """Split the budget and find the partition that values will be released on.

    Parameters are those of :func:`mean`; ``progress`` is that of :func:`simulate`. Where no partition can help nothing
    is asked: the run has one region, the whole domain, and the ledger is empty. ``values_only`` says that none can,
    because the values do not depend on places. Without ``rng`` the noise is the operating system's.
    """
    tree = options.get("hierarchy")
    domain = box if tree is None else tree.box
    assert domain is not None
    rows = points if isinstance(points, Source) else domain.check(points)
    split, ledger, task = plan_values(count_rows(rows), box, epsilon=epsilon, delta=delta, k=k, cap=cap, **options)
    if split.tree:
        return play_rows(rows, task, rng=rng, progress=progress), split, ledger
    return _whole_domain(task, rows, Mark(seeded=rng is not None)), split, ledger


def plan_values(
    participants: int,
    box: Box | None,
    *,
    epsilon: float,
    delta: float,
    k: int,
    cap: float | Fraction | None = None,
    values_only: bool = False,
    **options: Any,
) -> tuple[Split, Ledger, Task]:
    """The split, what the partition will cost (refused if it is too much), and its task; nobody was asked."""
    epsilon = as_number(epsilon, "epsilon", positive=True)
    accounting = options.get("accounting", "core")
    max_trims = options.get("max_trims") if options.get("rule", "trim") == "trim" else 0
    _check_epsilon(epsilon, 1 + _trims(accounting, max_trims), values_only=values_only)
    split = plan_split(participants, epsilon=epsilon, accounting=accounting, max_trims=max_trims)
    if values_only:
        split = Split(0.0, epsilon, split.tau)
    if split.tree:
        task = Task.build(box, epsilon=split.tree, delta=delta, k=k, **({"tau": split.tau} | options))
        return split, Ledger.of(task, cap=cap), task
    task = Task.build(box, epsilon=epsilon, delta=delta, k=k, **options)  # checks the parameters; nothing is asked
    return split, Ledger(cap=None if cap is None else exact(cap)), task


def _trims(accounting: Accounting, max_trims: int | None) -> int:
    """TRIMs that epsilon pays for, beside one report."""
    if accounting != "uniform":
        return 0
    return MAX_TRIMS["uniform"] if max_trims is None else max_trims


def _check_epsilon(epsilon: float, reports: int, *, values_only: bool) -> None:
    """Refuse an epsilon of which a part would be refused, by what was given."""
    report = EPSILON_RANGE[1]
    most = MAX_EPSILON + (0.0 if values_only else reports * report)
    if not MIN_EPSILON <= epsilon <= most:
        paid = f"{report:g} for a report" if reports == 1 else f"{report:g} for each of {reports} reports"
        parts = f"at most {MAX_EPSILON:g} for one value" + ("" if values_only else f" and {paid}")
        raise InvalidInput(f"epsilon must be a number from {MIN_EPSILON} to {most:g} ({parts}); got {epsilon:g}")


def _whole_domain(task: Task, rows: Rows, mark: Mark) -> AnyRun:
    """A run in which nothing was asked: one region, the whole domain, at no cost."""
    participants, fanout = count_rows(rows), task.randomizer.fanout
    cells = np.array([1], dtype=np.uint64)
    partition = Partition(
        task,
        cells,
        np.array([participants], dtype=np.int64),
        np.full((1, fanout), np.nan),
        np.zeros(1, dtype=np.int64),
        Trims.join((), fanout),
        mark=mark,
    )
    if isinstance(rows, Source):
        rows.check()
        return SourceRun(task, partition, (), Lookup.plain(task.hierarchy, cells), rows, participants, False)
    return Run(task, partition, np.zeros(participants, np.int32), np.zeros(participants, np.int16), ())
