"""The whole job in one call: split the budget, find the partition, release.

The split depends on public numbers only: how many take part, epsilon, delta, k, the box. Never on the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import release
from ..accounting import Ledger
from ..arrays import Floats, as_number, exact
from ..errors import InvalidInput
from ..geometry.box import Box
from ..protocol.partition import Partition, Trims
from ..protocol.rule import TRIM_QUANTILE
from ..protocol.task import Accounting, Task
from ..randomizer.values.mechanisms import MAX_EPSILON
from ..simulation.people import draw_rows
from ..simulation.run import Run
from ..simulation.simulate import simulate

__all__ = ["Split", "counts", "mean", "partition_for_values", "plan_split", "points", "values"]

_TREE_SHARE = 0.45
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
    tree = _TREE_SHARE * epsilon
    trims = (max_trims if max_trims is not None else 3) if accounting == "uniform" else 0
    report = tree / (1 + trims)
    if participants < 1 or report < _SMALLEST_EPSILON:
        return Split(0.0, epsilon, _TAU_RANGE[1])
    noise = math.exp(report) / math.expm1(report) ** 2  # variance per responder of randomized response, two children
    wanted = _TRIM_SLACK * TRIM_QUANTILE * math.sqrt(_TRIM_LEVELS * noise / participants)
    if wanted > _TAU_HOPELESS:
        return Split(0.0, epsilon, _TAU_RANGE[1])
    if epsilon - tree > MAX_EPSILON:  # what a mechanism cannot take goes to the partition
        tree = epsilon - MAX_EPSILON
    return Split(tree, epsilon - tree, min(max(wanted, _TAU_RANGE[0]), _TAU_RANGE[1]))


def mean(
    points: npt.ArrayLike,
    f: Any,
    box: Box,
    *,
    epsilon: float,
    delta: float,
    k: int,
    rng: np.random.Generator,
    cap: float | None = None,
    users: npt.ArrayLike | None = None,
    rows_per_user: int = 1,
    **options: Any,
) -> release.MeanRelease:
    """The mean of f over a population, in one program: a simulation of the protocol.

    Parameters
    ----------
    points : array_like, shape (n, d)
    f : BoundedFunction
        A function that knows its range over a box; see :mod:`semilocal.functions`.
    box : Box
        The public domain.
    epsilon : float
        Total loss between two positions inside a region (accounting "core", the default), or of a moved position
        against any inside (``accounting="uniform"``).
    delta : float
        Chance per participant of a crowd below k.
    k : int
        The smallest crowd.
    rng : numpy.random.Generator
        Simulation only: seeded noise protects nobody.
    cap : float, optional
        The most that anybody may lose; more is refused.
    users : array_like, shape (n,), optional
        Whose row it is. Rows are drawn at random, at most ``rows_per_user`` of each person, and everything is about
        those; :func:`semilocal.draw_rows` draws them beforehand where it matters which. Without it every row counts
        as another person.
    rows_per_user : int
        With M rows a person loses M times what is promised to one row; ``spent`` and ``guarantee`` say so.
    **options
        Further options of :meth:`Task.build`.

    Returns
    -------
    MeanRelease
        ``value``, ``stderr``, ``interval(level)``, ``partition``, ``spent``.

    Examples
    --------
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(3)
    >>> points = rng.normal(0, 1.5, size=(64_000, 2)).clip(-10, 10)
    >>> result = sl.mean(points, sl.functions.squared_norm(), sl.Box((-10, -10), (10, 10)),
    ...                  epsilon=2.0, delta=0.05, k=20, rng=rng)
    >>> bool(abs(result.value - (points**2).sum(axis=1).mean()) < 0.2)
    True
    """
    chosen, cap = _people(points, box, users, rows_per_user, cap, rng)
    run, split, ledger = partition_for_values(
        chosen, box, epsilon=epsilon, delta=delta, k=k, rng=rng, cap=cap, **options
    )
    result = release.mean(run, chosen, f, epsilon=split.value, rng=rng, ledger=ledger)
    return replace(result, spent=result.spent.times(rows_per_user))


def values(
    points: npt.ArrayLike,
    f: Any,
    box: Box,
    *,
    epsilon: float,
    delta: float,
    k: int,
    rng: np.random.Generator,
    cap: float | None = None,
    users: npt.ArrayLike | None = None,
    rows_per_user: int = 1,
    **options: Any,
) -> release.ValuesRelease:
    """One noisy value of f per participant. Parameters are those of :func:`mean`."""
    chosen, cap = _people(points, box, users, rows_per_user, cap, rng)
    run, split, ledger = partition_for_values(
        chosen, box, epsilon=epsilon, delta=delta, k=k, rng=rng, cap=cap, **options
    )
    result = release.values(run, chosen, f, epsilon=split.value, rng=rng, ledger=ledger)
    return replace(result, spent=result.spent.times(rows_per_user))


def points(
    points: npt.ArrayLike,
    box: Box,
    *,
    epsilon: float,
    delta: float,
    k: int,
    rng: np.random.Generator,
    cap: float | None = None,
    users: npt.ArrayLike | None = None,
    rows_per_user: int = 1,
    **options: Any,
) -> release.PointsRelease:
    """Each position replaced by the centre of its region; all of epsilon goes to the partition.

    Parameters are those of :func:`mean`.
    """
    chosen, cap = _people(points, box, users, rows_per_user, cap, rng)
    task = Task.build(box, epsilon=epsilon, delta=delta, k=k, **options)
    ledger = Ledger.of(task, cap=cap)  # refuses before anybody is asked
    result = release.quantize(simulate(chosen, task, rng=rng), chosen, ledger=ledger)
    return replace(result, spent=result.spent.times(rows_per_user))


def counts(
    points: npt.ArrayLike,
    box: Box,
    *,
    epsilon: float,
    delta: float,
    k: int,
    rng: np.random.Generator,
    cap: float | None = None,
    users: npt.ArrayLike | None = None,
    rows_per_user: int = 1,
    **options: Any,
) -> release.CountsRelease:
    """Range counts; all of epsilon goes to the partition. Parameters are those of :func:`mean`."""
    chosen, cap = _people(points, box, users, rows_per_user, cap, rng)
    task = Task.build(box, epsilon=epsilon, delta=delta, k=k, **options)
    ledger = Ledger.of(task, cap=cap)  # refuses before anybody is asked
    result = release.counts(simulate(chosen, task, rng=rng), ledger=ledger)
    return replace(result, spent=result.spent.times(rows_per_user))


def partition_for_values(
    points: npt.ArrayLike,
    box: Box,
    *,
    epsilon: float,
    delta: float,
    k: int,
    rng: np.random.Generator,
    cap: float | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> tuple[Run, Split, Ledger]:
    """Split the budget and find the partition that values will be released on.

    Parameters are those of :func:`mean`; ``progress`` is that of :func:`simulate`. Where no partition can help nothing
    is asked: the run has one region, the whole domain, and the ledger is empty.
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    positions = box.check(points)
    accounting = options.get("accounting", "core")
    max_trims = options.get("max_trims") if options.get("rule", "trim") == "trim" else 0
    split = plan_split(len(positions), epsilon=epsilon, accounting=accounting, max_trims=max_trims)
    if split.tree:
        task = Task.build(box, epsilon=split.tree, delta=delta, k=k, **({"tau": split.tau} | options))
        ledger = Ledger.of(task, cap=cap)  # refuses before anybody is asked
        return simulate(positions, task, rng=rng, progress=progress), split, ledger
    task = Task.build(box, epsilon=epsilon, delta=delta, k=k, **options)  # checks the parameters; nothing is asked
    return _whole_domain(task, len(positions)), split, Ledger(cap=None if cap is None else exact(cap))


def _people(
    points: npt.ArrayLike,
    box: Box,
    users: npt.ArrayLike | None,
    rows_per_user: int,
    cap: float | None,
    rng: np.random.Generator,
) -> tuple[Floats, float | None]:
    """The rows that stand for people, and the most that one of them may lose."""
    positions = box.check(points)
    if users is None:
        if rows_per_user != 1:
            raise InvalidInput("rows_per_user needs users, which say whose row it is")
        return positions, cap
    rows = draw_rows(users, rows=len(positions), rows_per_user=rows_per_user, rng=rng)
    return positions[rows], None if cap is None else cap / rows_per_user


def _whole_domain(task: Task, participants: int) -> Run:
    """A run in which nothing was asked: one region, the whole domain, at no cost."""
    fanout = task.randomizer.fanout
    partition = Partition(
        task,
        np.array([1], dtype=np.uint64),
        np.array([participants], dtype=np.int64),
        np.full((1, fanout), np.nan),
        np.zeros(1, dtype=np.int64),
        Trims.join((), fanout),
    )
    return Run(task, partition, np.zeros(participants, np.int32), np.zeros(participants, np.int16), ())
