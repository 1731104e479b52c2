"""The whole job in one call, for every answer to: whom do the participants trust?

Counts, means, points and regions answer the same calls in all three modes. Everything is refused before it is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

import numpy as np
import numpy.typing as npt

from .. import release
from ..accounting import Ledger
from ..arrays import Integers, exact
from ..engines.source import Source
from ..errors import InvalidInput
from ..functions import BoundedFunction, as_function
from ..geometry.box import Box
from ..geometry.frames import frame_points, is_frame
from ..hierarchy.base import Hierarchy
from ..pooled.task import PooledTask
from ..pooled.task import Trust as Pooled
from ..protocol.column import Column, read_column
from ..protocol.promise import Trust
from ..protocol.task import Task, check_alone
from ..simulation.people import draw_rows
from . import pooled_mean as pooled
from ._docstrings import documented_like
from .pooled_counts import PooledCounts, pooled_counts, run_pooled
from .pooled_mean import CellMeans, PooledMean, region_means
from .pooled_points import PooledPoints, pooled_points
from .split import Split, partition_for_values, plan_values
from .streamed import Rows, check_source, count_rows, play_rows
from .whom import crowd_of, pooled_options, which_trust

__all__ = ["Options", "ValueOptions", "cell_means", "counts", "mean", "partition", "points", "values"]


class Options(TypedDict, total=False):
    """What every job may be given; see :func:`mean`. The second part is for :meth:`Task.build` and its pooled twin."""

    delta: float | None
    k: int | None
    rng: np.random.Generator | None
    cap: float | None
    ledger: Ledger | None
    users: npt.ArrayLike | None
    rows_per_user: int

    hierarchy: Hierarchy | None
    resolution: float | tuple[float, ...] | None
    max_depth: int | None
    label: str
    rule: str
    accounting: str
    max_trims: int | None
    tau: float
    tree: str
    randomizer: str
    max_rounds: int | None
    quorum: float
    window: int
    tolerate_liars: int


class ValueOptions(Options, total=False):
    """What jobs about values may be given beside; see :func:`mean`."""

    value: npt.ArrayLike | None
    range: tuple[float, float] | None


@overload
def mean(
    points: Rows,
    f: Any,
    box: Box | None = None,
    *,
    epsilon: float,
    trust: Literal["nobody"],
    **named: Unpack[ValueOptions],
) -> release.MeanRelease: ...
@overload
def mean(
    points: Rows,
    f: Any,
    box: Box | None = None,
    *,
    epsilon: float,
    trust: Pooled,
    **named: Unpack[ValueOptions],
) -> PooledMean: ...
@overload
def mean(
    points: Rows,
    f: Any,
    box: Box | None = None,
    *,
    epsilon: float,
    trust: Trust | None = None,
    **named: Unpack[ValueOptions],
) -> release.MeanRelease | PooledMean: ...
def mean(
    points: Rows,
    f: Any,
    box: Box | None = None,
    *,
    epsilon: float,
    trust: Trust | None = None,
    **named: Unpack[ValueOptions],
) -> release.MeanRelease | PooledMean:
    """The mean of f over a population, or of people's own values: ``mean(points, box, value=..., range=...)``.

    Parameters
    ----------
    points : array_like, shape (n, d), data frame, or Source
        Positions, or where to read them: see :func:`semilocal.engines.open_source`. The same seed gives the same
        result either way. Of a frame (pandas, polars, Arrow, a DuckDB relation) the columns with the names of the box's
        axes are taken; a GeoDataFrame or GeoSeries gives its points, and its CRS must fit the box.
    f : BoundedFunction
        A function that knows its range over a box; see :mod:`semilocal.functions`. Left out with ``value``.
    box : Box
        The public domain. It is halved again and again, one axis after the other.
    hierarchy : Hierarchy, optional
        Another public tree instead of ``box``, such as :class:`semilocal.SphereTree` for the whole Earth.
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
    users : array_like, shape (n,), or str, optional
        Whose row it is, or the name of the frame's column that says so. Rows are drawn at random, at most
        ``rows_per_user`` of each person, and everything is about those; :func:`semilocal.draw_rows` draws them
        beforehand where it matters which. Without it every row counts as another person.
    rows_per_user : int
        1 if left out. With "nobody" a person with M rows loses M times what is promised to one row; with the others
        the noise grows by M instead. ``spent`` and ``guarantee`` say what a person loses.
    value : array_like, shape (n,), optional
        One number per row that belongs to the person, such as a fare or an age. Then epsilon also holds for any two
        values in the range. No map is made: it would cost, and tell nothing about such values.
    range : (float, float), optional
        Smallest and largest value that anybody can have. Public, and never taken from the data; a value outside is
        refused with its row. The noise grows with it.
    **named
        Further options of :meth:`Task.build` ("nobody") or of :meth:`PooledTask.build` (resolution, max_depth, label).

    Returns
    -------
    MeanRelease or PooledMean
        ``value``, ``stderr``, ``interval(level)`` and all that :class:`semilocal.release.promised.Mapped` answers.

    Raises
    ------
    InvalidInput
        For a missing ``trust``, positions outside the box or not finite, and options of another kind of trust.
    BudgetExceeded
        If ``cap`` or the ledger's cap does not allow it. Nothing was computed then.

    Notes
    -----
    Guarantee: for each person, what ``result.guarantee.text()`` prints. "curator" and "two-servers": epsilon between
    any two positions of the person (delta = 0). "nobody": epsilon between two positions inside a published region
    (delta = 0); (1 + T) reports for a moved position against those inside; a crowd of k except with probability
    ``delta``.

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
    >>> fare = rng.gamma(4.0, 5.0, size=64_000).clip(0, 100)
    >>> result = sl.mean(points, box, value=fare, range=(0, 100), epsilon=1.0, trust="curator", rng=rng)
    >>> bool(abs(result.value - fare.mean()) < 0.02)
    True
    """
    points, f, box, options = _of_what(points, f, box, named)
    asked, what = _asked(box, epsilon, trust, **options), f"mean of {f.name}"
    if asked.trust == "nobody":
        return asked.mean_of_regions(points, f, what, values_only=isinstance(f, Column))
    task = asked.pooled_task()
    asked.afford(Ledger().spend(what, epsilon, anywhere=True))
    chosen, f = asked.people_with(points, f)
    found = pooled.pooled_mean(task, chosen, f, rng=asked.rng)
    return replace(found, spent=asked.capped(found.spent))


@documented_like(mean)
def cell_means(
    points: Rows,
    f: Any,
    box: Box | None = None,
    *,
    epsilon: float,
    trust: Trust | None = None,
    **named: Unpack[ValueOptions],
) -> CellMeans:
    """The mean of f in every region of the map.

    With "nobody" these are the means that :func:`mean` rests on. With the others half of epsilon is spent on the map
    and half on one noisy sum per final cell. For the mean over everybody use :func:`mean`: the errors of many small
    cells add up.

    Returns
    -------
    CellMeans
        ``value`` and ``stderr`` float64[m], ``interval(level)`` float64[m, 2], in the order of ``partition``, and all
        that :class:`semilocal.release.promised.Mapped` answers.

    Examples
    --------
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(3)
    >>> homes = rng.beta(2, 5, (20_000, 2))
    >>> unit, height = sl.Box((0, 0), (1, 1)), sl.functions.coordinate(1)
    >>> found = sl.cell_means(homes, height, unit, epsilon=2.0, trust="curator", rng=rng)
    >>> len(found.value) == len(found.partition), float(found.spent.epsilon)
    (True, 2.0)
    """
    points, f, box, options = _of_what(points, f, box, named)
    asked, what = _asked(box, epsilon, trust, **options), f"mean of {f.name} per cell"
    if asked.trust == "nobody":
        return region_means(asked.mean_of_regions(points, f, f"mean of {f.name}"), f)
    asked.pooled_task()  # checks all of epsilon
    task = asked.pooled_task(epsilon / 2)
    cost = Ledger().pooled(task)
    asked.afford(cost.spend(what, epsilon / 2, anywhere=True))
    chosen, f = asked.people_with(points, f)
    counted = pooled_counts(run_pooled(task, chosen, rng=asked.rng), ledger=asked.capped(cost))
    return pooled.cell_means(counted, chosen, f, epsilon=epsilon / 2, rng=asked.rng)


@documented_like(mean, without=("trust",))
def values(
    points: Rows, f: Any, box: Box | None = None, *, epsilon: float, **named: Unpack[ValueOptions]
) -> release.ValuesRelease:
    """One noisy value of f per participant; only where nobody is trusted is there such a thing.

    Returns
    -------
    ValuesRelease
        ``value`` float64[n], one per participant, and all that :class:`semilocal.release.promised.Mapped` answers.

    Examples
    --------
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(3)
    >>> homes, unit = rng.beta(2, 5, (5_000, 2)), sl.Box((0, 0), (1, 1))
    >>> found = sl.values(homes, sl.functions.coordinate(1), unit, epsilon=2.0, delta=1e-3, k=20, rng=rng)
    >>> found.value.shape, float(found.spent.epsilon)
    ((5000,), 2.0)
    """
    points, f, box, options = _of_what(points, f, box, named)
    asked = _asked(box, epsilon, "nobody", **options)
    run, chosen, f, split, spent = asked.run_for_values(points, f, f"values of {f.name}")
    result = release.values(run, chosen, f, epsilon=split.value, rng=asked.draws, ledger=spent)
    return replace(result, spent=result.spent.times(asked.rows))


@overload
def points(
    points: Rows, box: Box | None = None, *, epsilon: float, trust: Literal["nobody"], **named: Unpack[Options]
) -> release.PointsRelease: ...
@overload
def points(
    points: Rows, box: Box | None = None, *, epsilon: float, trust: Pooled, **named: Unpack[Options]
) -> PooledPoints: ...
@overload
def points(
    points: Rows,
    box: Box | None = None,
    *,
    epsilon: float,
    trust: Trust | None = None,
    **named: Unpack[Options],
) -> release.PointsRelease | PooledPoints: ...
@documented_like(mean, without=("f", "value", "range"))
def points(
    points: Rows,
    box: Box | None = None,
    *,
    epsilon: float,
    trust: Trust | None = None,
    **named: Unpack[Options],
) -> release.PointsRelease | PooledPoints:
    """Positions that may be published instead of the true ones.

    With "nobody": each position replaced by the centre of its region. With the others: as many synthetic positions,
    drawn from the estimated counts; none belongs to anybody.

    Returns
    -------
    PointsRelease or PooledPoints
        ``points`` float64[n, d], and all that :class:`semilocal.release.promised.Mapped` answers.

    Examples
    --------
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(3)
    >>> homes = rng.beta(2, 5, (5_000, 2))
    >>> sl.points(homes, sl.Box((0, 0), (1, 1)), epsilon=1.0, trust="curator", rng=rng).points.shape
    (5000, 2)
    """
    points, named = _read_columns(points, None, box, named)
    asked = _asked(box, epsilon, trust, **named)
    if asked.trust == "nobody":
        if isinstance(points, Source):
            raise InvalidInput(
                "a source has no array of points to replace: play the task with semilocal.engines.run.run_source, and "
                "write one row each with its attach(path=..., add=...)"
            )
        run, chosen, spent = asked.run(points)
        result = release.quantize(run, chosen, ledger=spent)
        return replace(result, spent=result.spent.times(asked.rows))
    return pooled_points(asked.count(points), rng=asked.rng)


@overload
def counts(
    points: Rows, box: Box | None = None, *, epsilon: float, trust: Literal["nobody"], **named: Unpack[Options]
) -> release.CountsRelease: ...
@overload
def counts(
    points: Rows, box: Box | None = None, *, epsilon: float, trust: Pooled, **named: Unpack[Options]
) -> PooledCounts: ...
@overload
def counts(
    points: Rows,
    box: Box | None = None,
    *,
    epsilon: float,
    trust: Trust | None = None,
    **named: Unpack[Options],
) -> release.CountsRelease | PooledCounts: ...
@documented_like(mean, without=("f", "value", "range"))
def counts(
    points: Rows,
    box: Box | None = None,
    *,
    epsilon: float,
    trust: Trust | None = None,
    **named: Unpack[Options],
) -> release.CountsRelease | PooledCounts:
    """Counts in boxes, with intervals, and the map they come from.

    Returns
    -------
    CountsRelease or PooledCounts
        Both have ``query(boxes)``, ``density(grid)``, ``interval(level)``, ``partition``, ``plot()``,
        ``to_geojson()``, ``to_table()``, ``total``, ``spent`` and ``guarantee``.

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
    points, named = _read_columns(points, None, box, named)
    asked = _asked(box, epsilon, trust, **named)
    if asked.trust == "nobody":
        run, _, spent = asked.run(points)
        result = release.counts(run, ledger=spent)
        return replace(result, spent=result.spent.times(asked.rows))
    return asked.count(points)


# The same run and the same result, read as a map: ``boxes``, ``crowds``, ``locate`` and the ways out.
partition = counts


@dataclass(frozen=True, eq=False)
class _Asked:
    """One call, without the positions and the function. Checks, refuses, runs."""

    box: Box | None
    epsilon: float
    trust: Trust
    delta: float | None
    k: int | None
    rng: np.random.Generator | None
    cap: float | None
    ledger: Ledger | None
    users: npt.ArrayLike | None
    rows: int
    options: dict[str, Any]

    @property
    def domain(self) -> Box:
        """The box, or that of the hierarchy."""
        hierarchy = self.options.get("hierarchy")
        if hierarchy is not None:
            check_alone(hierarchy, box=self.box)
            return hierarchy.box  # type: ignore[no-any-return]
        if not isinstance(self.box, Box):
            raise InvalidInput(f"box must be a semilocal.Box, or give a hierarchy; got {self.box!r}")
        return self.box

    @property
    def draws(self) -> np.random.Generator:
        """The generator, or one that the operating system seeds."""
        return np.random.default_rng() if self.rng is None else self.rng

    def people(self, points: Rows) -> Any:
        """The rows that stand for people: float64[n, d], or a source as it is."""
        return self._drawn(points)[0]

    def people_with(self, points: Rows, f: BoundedFunction) -> tuple[Any, BoundedFunction]:
        """The rows that stand for people, and f with the values of these rows if it is a column."""
        points = points if isinstance(points, Source) else self.domain.check(points)
        chosen, rows = self._drawn(points)
        if isinstance(f, Column):
            f.fits(count_rows(points))
            f = f if rows is None else f.rows(rows)
        return chosen, f

    def _drawn(self, points: Rows) -> tuple[Any, Integers | None]:
        if isinstance(points, Source):
            return check_source(points, self.domain, users=self.users, rows=self.rows), None
        positions = self.domain.check(points)
        if self.users is None:
            if self.rows != 1:
                raise InvalidInput("rows_per_user needs users, which say whose row it is")
            return positions, None
        rows = draw_rows(self.users, rows=len(positions), rows_per_user=self.rows, rng=self.draws)
        return positions[rows], rows

    def afford(self, cost: Ledger) -> None:
        """Refuse what the cap or the ledger does not allow."""
        self.capped(cost)
        if self.ledger is not None:
            self.ledger + cost

    def capped(self, cost: Ledger) -> Ledger:
        """The same with the cap; refused if it is exceeded."""
        return Ledger(cap=None if self.cap is None else exact(self.cap)) + cost

    # -- nobody is trusted ---------------------------------------------------------------------------------

    @property
    def row_cap(self) -> Fraction | None:
        """The most that one row may lose, of those that a person has."""
        return None if self.cap is None else exact(self.cap) / self.rows

    def run(self, points: Rows) -> tuple[Any, Any, Ledger]:
        """A run of the protocol that spends everything on the partition, its people, and what one row of them lost."""
        task = Task.build(self.box, epsilon=self.epsilon, **crowd_of(self.delta, self.k), **self.options)
        self.afford(Ledger.of(task).times(self.rows))
        chosen = self.people(points)
        return play_rows(chosen, task, rng=self.draws), chosen, Ledger.of(task, cap=self.row_cap)

    def run_for_values(
        self, points: Rows, f: BoundedFunction, what: str, *, values_only: bool = False
    ) -> tuple[Any, Any, BoundedFunction, Split, Ledger]:
        """A run that leaves a part of epsilon for values."""
        chosen, f = self.people_with(points, f)
        named = {**crowd_of(self.delta, self.k), **self.options, "values_only": values_only}
        split, cost, _ = plan_values(count_rows(chosen), self.box, epsilon=self.epsilon, **named)
        self.afford(cost.spend(what, split.value).times(self.rows))
        run, split, spent = partition_for_values(
            chosen, self.box, epsilon=self.epsilon, rng=self.draws, cap=self.row_cap, **named
        )
        return run, chosen, f, split, spent

    def mean_of_regions(
        self, points: Rows, f: BoundedFunction, what: str, *, values_only: bool = False
    ) -> release.MeanRelease:
        """The mean on public regions, or without any where values do not depend on places."""
        run, chosen, f, split, spent = self.run_for_values(points, f, what, values_only=values_only)
        result = release.mean(run, chosen, f, epsilon=split.value, rng=self.draws, ledger=spent)
        return replace(result, spent=result.spent.times(self.rows))

    # -- somebody is trusted -------------------------------------------------------------------------------

    def pooled_task(self, epsilon: float | None = None) -> PooledTask:
        """The pooled task of this call, or one with a part of its epsilon."""
        whom: Pooled = "curator" if self.trust == "curator" else "two-servers"
        options = pooled_options(self.trust, self.delta, self.k, self.options)
        loss = self.epsilon if epsilon is None else epsilon
        return PooledTask.build(self.box, epsilon=loss, trust=whom, max_reports=self.rows, **options)

    def count(self, points: Rows) -> PooledCounts:
        """A pooled run."""
        task = self.pooled_task()
        cost = Ledger().pooled(task)
        self.afford(cost)
        return pooled_counts(run_pooled(task, self.people(points), rng=self.rng), ledger=self.capped(cost))


_Named = TypeVar("_Named", bound=Mapping[str, Any])


def _read_columns(points: Any, f: Any, box: Any, named: _Named) -> tuple[Any, _Named]:
    """Positions, and the options ``users`` and ``value`` where they are names of columns of the same frame."""
    columns = {name: named[name] for name in ("users", "value") if isinstance(named.get(name), str)}
    if not columns or isinstance(points, Source):
        return points, named
    hierarchy = named.get("hierarchy")
    domain = hierarchy.box if hierarchy is not None else next((one for one in (f, box) if isinstance(one, Box)), None)
    if domain is None or not is_frame(points):
        option, column = next(iter(columns.items()))
        raise InvalidInput(f"{option}={column!r} names a column; give the points as a data frame, or the column itself")
    read, others = frame_points(points, domain, list(columns.values()))
    found: Any = {**named, **dict(zip(columns, others, strict=True))}
    return read, found


def _of_what(
    points: Any, f: Any, box: Box | None, named: ValueOptions
) -> tuple[Any, BoundedFunction, Box | None, Options]:
    """What the job is about: a function of the position, or people's own values; and the other options."""
    called = named.get("value")
    points, named = _read_columns(points, f, box, named)
    value, bounds = named.get("value"), named.get("range")
    others: Any = {name: given for name, given in named.items() if name not in ("value", "range")}
    if value is None:
        if bounds is not None:
            raise InvalidInput("range belongs to value, one number per row; a function of the position knows its range")
        if box is None and named.get("hierarchy") is None:
            raise InvalidInput("give a function and the box, or the box with value and range")
        return points, as_function(f), box, others
    if isinstance(f, Box) and box is None:
        f, box = None, f
    if f is not None or not (isinstance(box, Box) or (box is None and named.get("hierarchy") is not None)):
        raise InvalidInput("give a function of the position, or value with its range, and one box; not both")
    name = called if isinstance(called, str) else getattr(value, "name", None)
    return points, read_column(value, bounds, name=name if isinstance(name, str) and name else "value"), box, others


def _asked(
    box: Box | None,
    epsilon: float,
    trust: Trust | None,
    *,
    delta: float | None = None,
    k: int | None = None,
    rng: np.random.Generator | None = None,
    cap: float | None = None,
    ledger: Ledger | None = None,
    users: npt.ArrayLike | None = None,
    rows_per_user: int = 1,
    **options: Any,
) -> _Asked:
    return _Asked(box, epsilon, which_trust(trust), delta, k, rng, cap, ledger, users, rows_per_user, options)
