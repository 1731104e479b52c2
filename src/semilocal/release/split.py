"""How a budget is divided where nobody is trusted: partition first, values on it.

The split depends on public numbers only: how many take part, epsilon, delta, k. Never on the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..accounting import Ledger
from ..arrays import as_number, exact
from ..engines.histogram import Lookup
from ..engines.run import SourceRun
from ..engines.source import Source
from ..errors import InvalidInput
from ..geometry.box import Box
from ..protocol.mark import Mark
from ..protocol.partition import Away, Partition, Walls
from ..protocol.task import DELTA, K, Task, answers_inside
from ..protocol.thresholds import level, needed
from ..randomizer.base import EPSILON_RANGE
from ..randomizer.values.mechanisms import MAX_EPSILON, MIN_EPSILON
from ..simulation.population import Splits
from ..simulation.simulate import Run
from .streamed import AnyRun, Rows, count_rows, play_rows

__all__ = ["TREE_SHARE", "Split", "partition_for_values", "plan_split", "plan_values"]

TREE_SHARE = 0.5
_QUESTIONS = 16  # that all people together must be able to answer, for a partition to pay


@dataclass(frozen=True)
class Split:
    """How a budget is divided.

    Attributes
    ----------
    tree, value : float
        Epsilon of the partition and of the values; the tree's is 0 where no partition can help.
    """

    tree: float
    value: float


def plan_split(participants: int, *, epsilon: float, delta: float = DELTA, k: int = K) -> Split:
    """Divide a budget between partition and values, from public numbers only.

    Half each. Where so few people could hardly split the domain, everything goes to the values.

    Examples
    --------
    >>> plan_split(64_000, epsilon=1.0).tree
    0.5
    >>> plan_split(100, epsilon=0.5).tree
    0.0
    """
    tree = TREE_SHARE * epsilon
    if epsilon - tree > MAX_EPSILON:  # what a mechanism cannot take goes to the partition
        tree = epsilon - MAX_EPSILON
    answer = tree / answers_inside(tree)
    if answer >= EPSILON_RANGE[0] and participants >= 2 * k:
        pays = participants >= _QUESTIONS * needed(participants, k, answer, level(delta, 0))
        if pays or epsilon > MAX_EPSILON:
            return Split(tree, epsilon - tree)
    return Split(0.0, epsilon)


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
) -> tuple[Any, Split, Ledger]:
    """Split the budget and find the partition that values will be released on; the run is a ``Run`` or ``SourceRun``.

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
    most = MAX_EPSILON + (0.0 if values_only else EPSILON_RANGE[1])
    if not MIN_EPSILON <= epsilon <= most:
        parts = f"at most {MAX_EPSILON:g} for one value"
        parts += "" if values_only else f" and {EPSILON_RANGE[1]:g} for the partition"
        raise InvalidInput(f"epsilon must be a number from {MIN_EPSILON} to {most:g} ({parts}); got {epsilon:g}")
    whole = Task.build(box, epsilon=epsilon, delta=delta, k=k, **options)  # checks the parameters; nothing is asked
    split = Split(0.0, epsilon) if values_only else plan_split(participants, epsilon=epsilon, delta=delta, k=k)
    if split.tree:
        task = Task.build(box, epsilon=split.tree, delta=delta, k=k, **options)
        return split, Ledger.of(task, cap=cap), task
    return split, Ledger(cap=None if cap is None else exact(cap)), whole


def _whole_domain(task: Task, rows: Rows, mark: Mark) -> AnyRun:
    """A run in which nothing was asked: one region, the whole domain, at no cost."""
    participants = count_rows(rows)
    lower, upper = (np.array([code], dtype=np.uint64) for code in task.hierarchy.ends)
    crowd, none = np.array([participants], dtype=np.int64), np.empty(0, dtype=np.uint64)
    partition = Partition(task, lower, upper, crowd, 0 * crowd, Walls.none(1), Away.nobody(), mark)
    splits = Splits(np.empty(0, dtype=np.int64), none, none, none)
    if isinstance(rows, Source):
        rows.check()
        return SourceRun(task, partition, 0, splits, 0, 0, Lookup(lower), rows, participants, False)
    return Run(task, partition, np.zeros(participants, np.int32), 0, splits, 0, 0)
