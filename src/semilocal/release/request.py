"""What one call asks for, in every mode: it is read, checked, refused or run here, so that a job is a few lines.

Everything is refused before it is computed.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from .. import release
from ..accounting import Ledger
from ..arrays import Integers, as_integer, check_generator, exact, shown
from ..engines.source import Source
from ..errors import InvalidInput
from ..functions import BoundedFunction, as_function
from ..geometry.box import Box
from ..geometry.frames import check_index, frame_points, is_axis, is_frame
from ..hierarchy.base import Hierarchy
from ..pooled.task import PooledTask
from ..pooled.task import Trust as Pooled
from ..protocol.column import Column, read_column, stored_column
from ..protocol.promise import Trust
from ..protocol.task import Task, check_alone
from ..simulation.people import MAX_ROWS_PER_USER, draw_rows
from ..simulation.person_columns import CALL, check_frame, refuse_content_as_person
from .asked import asked_of
from .pooled_counts import PooledCounts, pooled_counts, run_pooled
from .split import Split, partition_for_values, plan_values
from .streamed import Rows, check_source, check_stored, count_rows, play_rows
from .whom import crowd_of, pooled_options, which_trust

__all__ = ["Options", "Request", "ValueOptions", "read_columns", "request", "what_of"]


class Options(TypedDict, total=False):
    """What every job may be given; see :func:`mean`. The second part is for :meth:`Task.build` and its pooled twin."""

    delta: float | None
    k: int | None
    rng: np.random.Generator | None
    cap: float | None
    ledger: Ledger | None
    users: npt.ArrayLike | None
    rows_per_user: int
    rows_are_people: bool

    hierarchy: Hierarchy | None
    resolution: float | tuple[float, ...] | None
    max_depth: int | None
    label: str
    rule: str
    tree: str
    max_rounds: int | None
    quorum: float
    window: int
    tolerate_liars: int


class ValueOptions(Options, total=False):
    """What jobs about values may be given beside; see :func:`mean`."""

    value: npt.ArrayLike | None
    range: tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class Request:
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
            raise InvalidInput(f"box must be a semilocal.Box, or give a hierarchy; got {shown(self.box)}")
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
        if self.options.get("hierarchy") is not None:
            asked_of(f, self.options["hierarchy"])  # refuses before anybody is asked
        chosen, rows = self._drawn(points)
        if isinstance(f, Column):
            f.fits(count_rows(points))
            f = f if rows is None else f.rows(rows)
        if isinstance(points, Source):
            check_stored(points, f)
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
        return play_rows(chosen, task, rng=self.rng), chosen, Ledger.of(task, cap=self.row_cap)

    def run_for_values(
        self, points: Rows, f: BoundedFunction, what: str, *, values_only: bool = False
    ) -> tuple[Any, Any, BoundedFunction, Split, Ledger]:
        """A run that leaves a part of epsilon for values."""
        chosen, f = self.people_with(points, f)
        named = {**crowd_of(self.delta, self.k), **self.options, "values_only": values_only}
        split, cost, _ = plan_values(count_rows(chosen), self.box, epsilon=self.epsilon, **named)
        self.afford(cost.spend(what, split.value, anywhere=not split.tree).times(self.rows))
        run, split, spent = partition_for_values(
            chosen, self.box, epsilon=self.epsilon, rng=self.rng, cap=self.row_cap, **named
        )
        return run, chosen, f, split, spent

    def mean_of_regions(
        self, points: Rows, f: BoundedFunction, what: str, *, values_only: bool = False
    ) -> release.MeanRelease:
        """The mean on public regions, or without any where values do not depend on places."""
        run, chosen, f, split, spent = self.run_for_values(points, f, what, values_only=values_only)
        result = release.mean(run, chosen, f, epsilon=split.value, rng=self.rng, ledger=spent)
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


def read_columns(points: Any, f: Any, box: Any, trust: Trust | None, named: _Named) -> tuple[Any, _Named]:
    """Positions, and the options ``users`` and ``value`` where they are names of columns of the same frame.

    Refuses a frame in which a column tells people apart and repeats some, unless it was said whose rows they are; and
    columns beside a frame whose index is another one.
    """
    for option in ("users", "value"):
        check_index(points, named.get(option), option)
    if named.get("users") is None and not named.get("rows_are_people"):
        ways = CALL._replace(pooled=which_trust(trust) != "nobody")
        check_frame(points, ways, value=named["value"] if isinstance(named.get("value"), str) else None)
    columns = {name: named[name] for name in ("users", "value") if isinstance(named.get(name), str)}
    if not columns or isinstance(points, Source):
        return points, named
    hierarchy = named.get("hierarchy")
    domain = (
        hierarchy.box
        if hierarchy is not None
        else next((candidate for candidate in (f, box) if isinstance(candidate, Box)), None)
    )
    if domain is None or not is_frame(points):
        option, column = next(iter(columns.items()))
        raise InvalidInput(f"{option}={column!r} names a column; give the points as a data frame, or the column itself")
    if "users" in columns:
        axes = [name for name in columns.values() if is_axis(name, domain)]
        refuse_content_as_person(columns["users"], [*axes, columns.get("value", "")], CALL)
    read, others = frame_points(points, domain, list(columns.values()))
    found: Any = {**named, **dict(zip(columns, others, strict=True))}
    return read, found


def what_of(
    points: Any, f: Any, box: Box | None, trust: Trust | None, named: ValueOptions
) -> tuple[Any, BoundedFunction, Box | None, Options]:
    """What the job is about: a function of the position, or people's own values; and the other options."""
    called = named.get("value")
    points, named = read_columns(points, f, box, trust, named)
    value, bounds = named.get("value"), named.get("range")
    others: Any = {name: option for name, option in named.items() if name not in ("value", "range")}
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
    if isinstance(points, Source) and isinstance(value, str):
        return points, stored_column(value, bounds), box, others
    name = called if isinstance(called, str) else getattr(value, "name", None)
    return points, read_column(value, bounds, name=name if isinstance(name, str) and name else "value"), box, others


def request(
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
    rows_are_people: bool = False,
    **options: Any,
) -> Request:
    """What was asked for, with its defaults; refuses an option that no job has."""
    for name in options:
        if name not in Options.__annotations__:
            near = difflib.get_close_matches(name, [*Options.__annotations__, *ValueOptions.__annotations__], n=1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(Options.__annotations__)}"
            raise InvalidInput(f"there is no option {name!r} here; {advice}")
    if users is not None and rows_are_people:
        raise InvalidInput("give users or rows_are_people, not both")
    check_generator(rng)
    if cap is not None and not isinstance(cap, str | int | float | Decimal | Fraction | np.number):
        raise InvalidInput(f"cap must be a number, the most that anybody may lose; got {shown(cap)}")
    if ledger is not None and not isinstance(ledger, Ledger):
        raise InvalidInput(f"ledger must be a semilocal.Ledger, such as the spent of a result; got {shown(ledger)}")
    rows = as_integer(rows_per_user, "rows_per_user", low=1, high=MAX_ROWS_PER_USER)
    loss, chance, crowd, most = (_plain(setting) for setting in (epsilon, delta, k, cap))
    return Request(box, loss, which_trust(trust), chance, crowd, rng, most, ledger, users, rows, options)


def _plain(setting: Any) -> Any:
    """A number of Python's own in place of NumPy's."""
    return setting.item() if isinstance(setting, np.number) else setting
