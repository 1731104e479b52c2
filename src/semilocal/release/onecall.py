"""The whole job in one call, for every answer to: whom do the participants trust?

Counts, means, points and regions answer the same calls in all three modes. Everything is refused before it is computed.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from .. import release
from ..accounting import Ledger
from ..arrays import Floats, exact
from ..errors import InvalidInput
from ..functions import as_function
from ..geometry.box import Box
from ..pooled.partition import PooledPartition
from ..pooled.task import PooledTask
from ..pooled.task import Trust as Pooled
from ..protocol.partition import Partition
from ..protocol.promise import Trust
from ..protocol.task import Task
from ..simulation.people import draw_rows
from ..simulation.run import Run
from ..simulation.simulate import simulate
from .pooled_counts import PooledCounts, is_simulated, pooled_counts, run_pooled, words_from
from .pooled_mean import PooledMean, pooled_mean
from .pooled_points import PooledPoints, pooled_points
from .split import partition_for_values, plan_values
from .whom import crowd_of, pooled_options, which_trust

__all__ = ["counts", "mean", "partition", "points", "values"]


@overload
def mean(
    points: npt.ArrayLike, f: Any, box: Box, *, epsilon: float, trust: Literal["nobody"], **named: Any
) -> release.MeanRelease: ...
@overload
def mean(points: npt.ArrayLike, f: Any, box: Box, *, epsilon: float, trust: Pooled, **named: Any) -> PooledMean: ...
@overload
def mean(
    points: npt.ArrayLike, f: Any, box: Box, *, epsilon: float, trust: Trust | None = None, **named: Any
) -> release.MeanRelease | PooledMean: ...
def mean(
    points: npt.ArrayLike,
    f: Any,
    box: Box,
    *,
    epsilon: float,
    trust: Trust | None = None,
    delta: float | None = None,
    k: int | None = None,
    rng: np.random.Generator | None = None,
    cap: float | None = None,
    ledger: Ledger | None = None,
    users: npt.ArrayLike | None = None,
    rows_per_user: int = 1,
    **options: Any,
) -> release.MeanRelease | PooledMean:
    """The mean of f over a population.

    Parameters
    ----------
    points : array_like, shape (n, d)
    f : BoundedFunction
        A function that knows its range over a box; see :mod:`semilocal.functions`.
    box : Box
        The public domain.
    epsilon : float
        The loss. With "curator" and "two-servers": for any change of one person's position anywhere (delta = 0). With
        "nobody": between two positions inside a region (accounting "core", the default), or of a moved position
        against any inside (``accounting="uniform"``).
    trust : {"curator", "two-servers", "nobody"}
        Whom the participants trust; there is no default. This program holds all positions, so all but "curator" are
        simulations of what devices and servers would do.
    delta : float, optional
        With "nobody" only: chance per participant of a crowd below k; 1e-6.
    k : int, optional
        With "nobody" only: the smallest crowd; 50.
    rng : numpy.random.Generator, optional
        For simulation: seeded noise protects nobody, and the result says so. Without it the randomness is the
        operating system's.
    cap : float, optional
        The most that anybody may lose; more is refused.
    ledger : Ledger, optional
        What was spent on these people before, in any mode. If its cap does not allow this release, it is refused
        before anything is computed. Afterwards add ``spent`` to it: ``ledger + result.spent``.
    users : array_like, shape (n,), optional
        Whose row it is. Rows are drawn at random, at most ``rows_per_user`` of each person, and everything is about
        those; :func:`semilocal.draw_rows` draws them beforehand where it matters which. Without it every row counts
        as another person.
    rows_per_user : int
        With "nobody" a person with M rows loses M times what is promised to one row; with the others the noise grows
        by M instead. ``spent`` and ``guarantee`` say what a person loses.
    **options
        Further options of :meth:`Task.build` ("nobody") or of :meth:`PooledTask.build` (resolution, max_depth, label).

    Returns
    -------
    MeanRelease or PooledMean
        ``value``, ``stderr``, ``interval(level)``, ``spent``, ``guarantee``.

    Examples
    --------
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(3)
    >>> points = rng.normal(0, 1.5, size=(64_000, 2)).clip(-10, 10)
    >>> box, f = sl.Box((-10, -10), (10, 10)), sl.functions.squared_norm()
    >>> result = sl.mean(points, f, box, epsilon=2.0, trust="nobody", delta=0.05, k=20, rng=rng)
    >>> bool(abs(result.value - (points**2).sum(axis=1).mean()) < 0.2)
    True
    >>> result = sl.mean(points, f, box, epsilon=2.0, trust="curator", rng=rng)
    >>> bool(abs(result.value - (points**2).sum(axis=1).mean()) < 0.02)
    True
    """
    whom = which_trust(trust)
    if whom != "nobody":
        pooled_options(whom, delta, k, options)
        _pooled_task(box, epsilon, whom, rows_per_user, options)  # checks the parameters
        cost = Ledger().spend(f"mean of {as_function(f).name}", epsilon, anywhere=True)
        _afford(cost, cap, ledger)
        chosen, _ = _people(points, box, users, rows_per_user, None, rng)
        found = pooled_mean(
            chosen, f, box, epsilon=epsilon, trust=whom, words=words_from(rng), simulated=is_simulated(whom, rng),
            max_reports=rows_per_user,
        )  # fmt: skip
        return replace(found, spent=replace(found.spent, cap=_exact(cap)))
    draws, crowd = _generator(rng), crowd_of(delta, k)
    chosen, cap = _people(points, box, users, rows_per_user, cap, draws)
    if ledger is not None:
        planned = plan_values(chosen, box, epsilon=epsilon, **crowd, **options)[1]
        ledger + planned.spend(f"mean of {as_function(f).name}", exact(epsilon) - planned.epsilon).times(rows_per_user)
    run, split, spent = partition_for_values(chosen, box, epsilon=epsilon, rng=draws, cap=cap, **crowd, **options)
    result = release.mean(run, chosen, f, epsilon=split.value, rng=draws, ledger=spent)
    return replace(result, spent=result.spent.times(rows_per_user))


def values(
    points: npt.ArrayLike,
    f: Any,
    box: Box,
    *,
    epsilon: float,
    delta: float | None = None,
    k: int | None = None,
    rng: np.random.Generator | None = None,
    cap: float | None = None,
    users: npt.ArrayLike | None = None,
    rows_per_user: int = 1,
    **options: Any,
) -> release.ValuesRelease:
    """One noisy value of f per participant; only where nobody is trusted is there such a thing.

    Parameters are those of :func:`mean`.
    """
    draws, crowd = _generator(rng), crowd_of(delta, k)
    chosen, cap = _people(points, box, users, rows_per_user, cap, draws)
    run, split, ledger = partition_for_values(chosen, box, epsilon=epsilon, rng=draws, cap=cap, **crowd, **options)
    result = release.values(run, chosen, f, epsilon=split.value, rng=draws, ledger=ledger)
    return replace(result, spent=result.spent.times(rows_per_user))


@overload
def points(
    points: npt.ArrayLike, box: Box, *, epsilon: float, trust: Literal["nobody"], **named: Any
) -> release.PointsRelease: ...
@overload
def points(points: npt.ArrayLike, box: Box, *, epsilon: float, trust: Pooled, **named: Any) -> PooledPoints: ...
@overload
def points(
    points: npt.ArrayLike, box: Box, *, epsilon: float, trust: Trust | None = None, **named: Any
) -> release.PointsRelease | PooledPoints: ...
def points(
    points: npt.ArrayLike,
    box: Box,
    *,
    epsilon: float,
    trust: Trust | None = None,
    delta: float | None = None,
    k: int | None = None,
    rng: np.random.Generator | None = None,
    cap: float | None = None,
    ledger: Ledger | None = None,
    users: npt.ArrayLike | None = None,
    rows_per_user: int = 1,
    **options: Any,
) -> release.PointsRelease | PooledPoints:
    """Positions that may be published instead of the true ones. Parameters are those of :func:`mean`.

    With "nobody": each position replaced by the centre of its region. With the others: as many synthetic positions,
    drawn from the estimated counts; none belongs to anybody.
    """
    whom = which_trust(trust)
    if whom == "nobody":
        run, chosen, spent = _run(points, box, epsilon, delta, k, rng, cap, ledger, users, rows_per_user, options)
        result = release.quantize(run, chosen, ledger=spent)
        return replace(result, spent=result.spent.times(rows_per_user))
    counted = _pooled(points, box, epsilon, whom, delta, k, rng, cap, ledger, users, rows_per_user, options)
    return pooled_points(counted, rng=rng)


@overload
def counts(
    points: npt.ArrayLike, box: Box, *, epsilon: float, trust: Literal["nobody"], **named: Any
) -> release.CountsRelease: ...
@overload
def counts(points: npt.ArrayLike, box: Box, *, epsilon: float, trust: Pooled, **named: Any) -> PooledCounts: ...
@overload
def counts(
    points: npt.ArrayLike, box: Box, *, epsilon: float, trust: Trust | None = None, **named: Any
) -> release.CountsRelease | PooledCounts: ...
def counts(
    points: npt.ArrayLike,
    box: Box,
    *,
    epsilon: float,
    trust: Trust | None = None,
    delta: float | None = None,
    k: int | None = None,
    rng: np.random.Generator | None = None,
    cap: float | None = None,
    ledger: Ledger | None = None,
    users: npt.ArrayLike | None = None,
    rows_per_user: int = 1,
    **options: Any,
) -> release.CountsRelease | PooledCounts:
    """Counts in boxes, with intervals, and the map they come from. Parameters are those of :func:`mean`.

    Returns
    -------
    CountsRelease or PooledCounts
        Both have ``query(boxes)``, ``density(grid)``, ``partition``, ``plot()``, ``to_geojson()``, ``to_table()``,
        ``total``, ``spent`` and ``guarantee``.

    Examples
    --------
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(3)
    >>> homes = rng.beta(2, 5, (20_000, 2))
    >>> counted = sl.counts(homes, sl.Box((0, 0), (1, 1)), epsilon=1.0, trust="curator", rng=rng)
    >>> low, high = counted.query([[[0, 0], [0.25, 0.25]]]).interval(0.999999)[0]
    >>> bool(low <= np.count_nonzero((homes < 0.25).all(axis=1)) <= high)
    True
    """
    whom = which_trust(trust)
    if whom == "nobody":
        run, _, spent = _run(points, box, epsilon, delta, k, rng, cap, ledger, users, rows_per_user, options)
        result = release.counts(run, ledger=spent)
        return replace(result, spent=result.spent.times(rows_per_user))
    return _pooled(points, box, epsilon, whom, delta, k, rng, cap, ledger, users, rows_per_user, options)


@overload
def partition(
    points: npt.ArrayLike, box: Box, *, epsilon: float, trust: Literal["nobody"], **named: Any
) -> Partition: ...
@overload
def partition(points: npt.ArrayLike, box: Box, *, epsilon: float, trust: Pooled, **named: Any) -> PooledPartition: ...
@overload
def partition(
    points: npt.ArrayLike, box: Box, *, epsilon: float, trust: Trust | None = None, **named: Any
) -> Partition | PooledPartition: ...
def partition(
    points: npt.ArrayLike, box: Box, *, epsilon: float, trust: Trust | None = None, **named: Any
) -> Partition | PooledPartition:
    """The regions alone: :func:`counts` without its counts, cost and promise. Parameters are those of :func:`mean`.

    Returns
    -------
    Partition or PooledPartition
        Both have ``boxes``, ``crowds``, ``locate``, ``plot()``, ``to_geojson()`` and ``to_table()``.
    """
    return counts(points, box, epsilon=epsilon, trust=trust, **named).partition


def _run(
    points: npt.ArrayLike,
    box: Box,
    epsilon: float,
    delta: float | None,
    k: int | None,
    rng: np.random.Generator | None,
    cap: float | None,
    ledger: Ledger | None,
    users: npt.ArrayLike | None,
    rows_per_user: int,
    options: dict[str, Any],
) -> tuple[Run, Floats, Ledger]:
    """A run of the protocol that spends everything on the partition; refuses before anybody is asked."""
    draws = _generator(rng)
    task = Task.build(box, epsilon=epsilon, **crowd_of(delta, k), **options)
    _afford(Ledger.of(task).times(rows_per_user), cap, ledger)
    chosen, cap = _people(points, box, users, rows_per_user, cap, draws)
    return simulate(chosen, task, rng=draws), chosen, Ledger.of(task, cap=cap)


def _pooled(
    points: npt.ArrayLike,
    box: Box,
    epsilon: float,
    trust: Trust,
    delta: float | None,
    k: int | None,
    rng: np.random.Generator | None,
    cap: float | None,
    ledger: Ledger | None,
    users: npt.ArrayLike | None,
    rows_per_user: int,
    options: dict[str, Any],
) -> PooledCounts:
    """A pooled run; refuses before anything is counted."""
    task = _pooled_task(box, epsilon, trust, rows_per_user, pooled_options(trust, delta, k, options))
    cost = Ledger().pooled(task)
    _afford(cost, cap, ledger)
    chosen, _ = _people(points, box, users, rows_per_user, None, rng)
    return pooled_counts(run_pooled(task, chosen, rng=rng), ledger=replace(cost, cap=_exact(cap)))


def _pooled_task(box: Box, epsilon: float, trust: Trust, rows_per_user: int, options: dict[str, Any]) -> PooledTask:
    whom: Pooled = "curator" if trust == "curator" else "two-servers"
    return PooledTask.build(box, epsilon=epsilon, trust=whom, max_reports=rows_per_user, **options)


def _afford(cost: Ledger, cap: float | None, ledger: Ledger | None) -> None:
    """Refuse what a cap or a ledger does not allow."""
    Ledger(cap=_exact(cap)) + cost
    if ledger is not None:
        ledger + cost


def _generator(rng: np.random.Generator | None) -> np.random.Generator:
    return np.random.default_rng() if rng is None else rng  # seeded by the operating system


def _exact(cap: float | None) -> Fraction | None:
    return None if cap is None else exact(cap)


def _people(
    points: npt.ArrayLike,
    box: Box,
    users: npt.ArrayLike | None,
    rows_per_user: int,
    cap: float | None,
    rng: np.random.Generator | None,
) -> tuple[Floats, float | None]:
    """The rows that stand for people, and the most that one of them may lose."""
    positions = box.check(points)
    if users is None:
        if rows_per_user != 1:
            raise InvalidInput("rows_per_user needs users, which say whose row it is")
        return positions, cap
    rows = draw_rows(users, rows=len(positions), rows_per_user=rows_per_user, rng=_generator(rng))
    return positions[rows], None if cap is None else cap / rows_per_user
