"""One job: what is asked, of whose rows, whom they trust and what it may cost. Whatever asks builds this and runs it.

A job is checked, refused or run here and nowhere else; everything is refused before it is computed. Where nobody is
trusted a budget for values is divided: partition first, values on it. The split depends on public numbers only: how
many take part, epsilon, delta, k. Never on the data. The public calls stand at the end.
"""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar, Unpack, get_args

import numpy as np
import numpy.typing as npt

from ..accounting import Ledger
from ..arrays import as_integer, as_number, check_generator, exact, is_number, short_repr, shown
from ..engines import Engine, open_source
from ..engines.run import SourceRun, run_source
from ..engines.source import Source
from ..errors import InvalidInput, WeakWarning, outside_level
from ..functions import BoundedFunction, as_function
from ..geometry.box import Box, is_frame
from ..geometry.frames import check_index, degree_names, frame_points, is_axis
from ..geometry.places import as_box
from ..hierarchy.base import Hierarchy
from ..hierarchy.ranks import SortedCodes
from ..pooled.task import PooledTask
from ..protocol.column import Column, own_value, read_column, stored_column
from ..protocol.estimate import Walls
from ..protocol.keys import SECRET_BYTES
from ..protocol.partition import Away, Partition
from ..protocol.promise import Mark, Trust
from ..protocol.task import DELTA, K, Task, answers_inside, check_alone
from ..protocol.thresholds import level, needed
from ..randomizer.base import EPSILON_RANGE
from ..randomizer.values import MAX_EPSILON, MIN_EPSILON
from ..simulation.people import CALL, MAX_ROWS_PER_USER, check_frame, draw_key, draw_rows, refuse_content_as_person
from ..simulation.population import Splits
from ..simulation.simulate import Run, simulate
from ..words import number_of
from . import means
from .counts import AnyRun, Counts, Mapped, Rounding, Rows, check_rounding, pooled_counts, run_pooled
from .counts import counts as run_counts
from .means import Mean, Means, Values, asked_of, count_rows
from .points import Points, pooled_points, quantize

__all__ = [
    "DELTA", "TREE_SHARE", "TRUSTS", "AnyTask", "Done", "Job", "K", "Options", "Question", "Rows", "Split",
    "ValueOptions", "Where", "cell_means", "counts", "mean", "partition", "plan_split", "points", "run_on_engine",
    "values", "which_trust",
]  # fmt: skip

AnyTask = Task | PooledTask
Call = TypeVar("Call", bound=Callable[..., Any])
Question = Literal["counts", "points", "mean", "means", "values"]
Where: TypeAlias = Box | str | Sequence[float]  # a box, the name of a place, or west, south, east, north
TREE_SHARE = 0.5  # of epsilon, for the partition below values
WEAK_EPSILON = 10.0  # above it, a promise says next to nothing
FEW_REGIONS = 20
_MOST_IN_REGION = 1 << 20
_QUESTIONS = 16  # that all people together must be able to answer, for a partition to pay
_POOLED = ("hierarchy", "resolution", "max_depth", "label")  # options of tasks where somebody is trusted
TRUSTS: dict[Trust, str] = {
    "nobody": "every device randomizes its own answers; regions are public, and epsilon protects the place inside a "
    "region that k participants are published in",
    "two-servers": "two operators who do not collude see noisy counts only; epsilon protects any change of a person's "
    "position anywhere",
    "curator": "one party holds all positions and adds the noise; epsilon protects any change of a person's position "
    "anywhere, against everybody else",
}


class Options(TypedDict, total=False):
    """What every job may be given beside; see :func:`counts`. The second part is for :meth:`Task.build`."""

    delta: float | None
    k: int | None
    rng: np.random.Generator | None
    users: npt.ArrayLike | None
    cap: float | None
    ledger: Ledger | None
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


class Split(NamedTuple):
    """How a budget is divided: epsilon of the partition, 0 where none can help, and of the values."""

    tree: float
    value: float


@dataclass(frozen=True, eq=False)
class Done:
    """A finished job.

    Attributes
    ----------
    result : Counts, Points, Mean, Means or Values
        What is public, with its promise: ``query``, ``partition``, ``to_geojson``, ``guarantee``, ``spent``.
    run : Run, SourceRun, Published or None
        What this program has seen on the way, as private as the rows where nobody is trusted; None for a pooled mean.
    split : Split or None
        How epsilon was divided between partition and values.
    data : object
        The rows that stood for people.
    """

    result: Any
    run: Any
    split: Split | None = None
    data: Any = None

    def __repr__(self) -> str:
        return repr(self.result)

    def attach(self, **options: Any) -> Any:
        """Every row of a source with the index of its region in ``result.partition``, in the engine's own form.

        That is as private as the rows: it tells where each of them is. See the source's ``attach`` for the options.
        Keep this value as long as what it gave is in use.
        """
        if not isinstance(self.data, Source):
            raise InvalidInput("these rows are in memory; result.locate(points) says in which regions they are")
        return self.data.attach(self.result.partition.locate, **options)


@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """What is asked for, with everything that decides about it. :meth:`of` builds it as a person gives it."""

    question: Question  # that of :func:`counts` and so on; "means" is :func:`cell_means`
    data: Any  # array_like of shape (n, d), Source, or SortedCodes: enough for counts where somebody is trusted
    f: BoundedFunction | None = None  # of means and values
    box: Box | None = None  # the domain, if ``options`` has no hierarchy
    epsilon: float
    trust: Trust
    delta: float | None = None
    k: int | None = None
    rng: np.random.Generator | None = None
    cap: Any = None
    ledger: Any = None
    users: npt.ArrayLike | None = None
    rows: int = 1  # the most rows of a person, among those that stand for people
    options: Mapping[str, Any] = field(default_factory=dict)  # of Task.build or PooledTask.build
    task: AnyTask | None = None  # what to play for counts, instead of box and options
    rounding: Rounding = None
    seed: int | None = None  # of ``rng``, if it is known: transcripts and files name it
    keyed: bool = False  # every participant has keys, so that the run has all reports of a transcript
    progress: Callable[[int, int], None] | None = None  # called after every round where nobody is trusted

    __repr__ = short_repr

    # -- as it is asked ------------------------------------------------------------------------------------------

    @classmethod
    def of(
        cls, question: Question, points: Any, f: Any = None, box: Any = None, *, epsilon: float,
        trust: Trust | None, rounding: Rounding = None, **named: Any,
    ) -> Job:  # fmt: skip
        """The job that a call asks for, with columns read from frames; refuses an option that no job has."""
        if named.get("value") is not None and box is None:
            f, box = None, f
        if not (box is None or isinstance(box, Box)):
            box = as_box(box, names=() if isinstance(box, str) else degree_names(points))
        value = named.get("value")
        points, named = _columns(points, box, trust, named)
        if question not in ("counts", "points"):
            f = _about(points, f, box, value, named)
        rows, options = named.pop("rows_per_user", 1), {}
        known = {name: named.pop(name, None) for name in ("delta", "k", "rng", "cap", "ledger", "users")}
        are_people = named.pop("rows_are_people", False)
        for name, setting in named.items():
            if name not in Options.__annotations__:
                near = ["rng"] * (name == "seed") or difflib.get_close_matches(name, ValueOptions.__annotations__, n=1)
                advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(Options.__annotations__)}"
                raise InvalidInput(f"there is no option {name!r} here; {advice}")
            options[name] = setting
        if known["users"] is not None and are_people:
            raise InvalidInput("give users or rows_are_people, not both")
        job = cls(
            question=question, data=points, f=f, box=box, epsilon=epsilon, trust=which_trust(trust), rows=rows,
            options=options, rounding=rounding, **known,
        )  # fmt: skip
        if rows != 1 and job.users is None and not isinstance(points, Source):
            raise InvalidInput("rows_per_user needs users, which say whose row it is")
        return job

    def __post_init__(self) -> None:
        check_generator(self.rng)
        if self.cap is not None and not isinstance(self.cap, str | int | float | Decimal | Fraction | np.number):
            raise InvalidInput(f"cap must be a number, the most that anybody may lose; got {shown(self.cap)}")
        if self.ledger is not None and not isinstance(self.ledger, Ledger):
            got = shown(self.ledger)
            raise InvalidInput(f"ledger must be a semilocal.Ledger, such as the spent of a result; got {got}")
        rows = as_integer(self.rows, "rows_per_user", low=1, high=MAX_ROWS_PER_USER)
        object.__setattr__(self, "rows", rows)
        for name in ("epsilon", "delta", "k", "cap"):
            if isinstance(setting := getattr(self, name), np.number):
                object.__setattr__(self, name, setting.item())

    @property
    def domain(self) -> Box:
        """The box, or that of the hierarchy."""
        return _domain(self.box, self.options.get("hierarchy")) if self.task is None else self.task.box

    def planned(self, epsilon: float | None = None) -> AnyTask:
        """The task that the job plays, or one with a part of its epsilon."""
        if self.task is not None:
            return self.task
        loss = self.epsilon if epsilon is None else epsilon
        if self.trust == "nobody":
            return Task.build(self.box, epsilon=loss, **self._crowd, **self.options)
        wrong = [name for name, given in (("delta", self.delta), ("k", self.k)) if given is not None]
        wrong += [name for name in self.options if name not in _POOLED]
        if wrong:
            raise InvalidInput(
                f"{', '.join(wrong)}: not with trust {self.trust}, which promises plain differential privacy without "
                "regions and crowds; leave it out, or trust nobody"
            )
        return PooledTask.build(self.box, epsilon=loss, trust=self.trust, max_reports=self.rows, **self.options)

    # -- running it ----------------------------------------------------------------------------------------------

    def run(self) -> Done:
        """Refuse, or compute."""
        if is_number(self.epsilon) and self.epsilon > WEAK_EPSILON:
            warnings.warn(
                f"epsilon = {self.epsilon:g} promises next to nothing: what is published may move the odds between two "
                f"places by a factor e^{self.epsilon:g}. Usual values are 0.5 to 4",
                WeakWarning, stacklevel=outside_level(),
            )  # fmt: skip
        check_rounding(self.rounding, self.options.get("hierarchy"), self.domain)
        done = self._on_regions() if self.trust == "nobody" else self._pooled()
        if self.question in ("counts", "points") and len(done.result.partition) < FEW_REGIONS:
            _warn_of_few(done.result)
        rows = None if self.users is None else np.size(self.users)
        if isinstance(self.data, Source) and self.data.person is not None:
            rows = self.data.rows_in_all
        return done if rows is None or self.rows > 1 else replace(done, result=replace(done.result, of_rows=rows))

    def _on_regions(self) -> Done:
        """Nobody is trusted: a partition and what is released on it; values alone where no partition can help."""
        if self.question == "points" and isinstance(self.data, Source):
            raise InvalidInput(
                "a source has no array of points to replace: play the task with semilocal.engines.run.run_source, and "
                "join the centres of its regions to its attach(path=...)"
            )
        people, f = self._people()
        split, task = self._divided(count_rows(people)) if f is not None else (None, self.planned())
        assert isinstance(task, Task)
        asked = split is None or split.tree > 0
        cost = Ledger.of(task) if asked else Ledger()
        if split is not None:
            what = f"{'values' if self.question == 'values' else 'mean'} of {f.name}"
            cost = cost.spend(what, split.value, anywhere=not asked, own=own_value(f))
        spent = self._afford(cost.times(self.rows))
        mark = Mark(seeded=self.rng is not None, seed=self.seed)  # this program plays all participants
        run: Any = self._play(people, task, mark) if asked else _whole_domain(task, people, mark)
        result: Any
        if split is None:
            result = run_counts(run, rounding=self.rounding) if self.question == "counts" else quantize(run, people)
        else:
            release = means.values if self.question == "values" else means.mean
            result = release(run, people, f, epsilon=split.value, rng=self.rng)
        result = replace(result, spent=spent.settle(run.partition))
        return Done(means.region_means(result, f) if self.question == "means" else result, run, split, people)

    def _pooled(self) -> Done:
        """Somebody is trusted: counts and points from them, one noisy sum for all, or a map and one sum per cell."""
        if self.question == "values":
            raise InvalidInput("only where nobody is trusted has every participant a value of their own to release")
        task = self.planned()  # checks all of epsilon
        if self.question == "means":
            task = self.planned(self.epsilon / 2)
        assert isinstance(task, PooledTask)
        if task.max_reports != self.rows:
            raise InvalidInput(f"the task allows {task.max_reports} reports of everybody; got {self.rows} rows of each")
        cost = Ledger() if self.question == "mean" else Ledger().pooled(task)
        if self.f is not None:
            what = f"mean of {self.f.name}{' per cell' if self.question == 'means' else ''}"
            cost = cost.spend(what, task.epsilon, anywhere=True, own=own_value(self.f))
        spent = self._afford(cost)
        people, f = self._people()
        if self.question == "mean":
            mean = means.pooled_mean(task, people, f, rng=self.rng, seed=self.seed)
            return Done(replace(mean, spent=spent), None, data=people)
        published = run_pooled(task, people, rng=self.rng, seed=self.seed)
        result: Any = pooled_counts(published, rounding=self.rounding)
        if self.question == "means":
            result = means.cell_means(result, people, f, epsilon=task.epsilon, rng=self.rng)
        elif self.question == "points":
            result = pooled_points(result, rng=self.rng)
        return Done(replace(result, spent=spent), published, data=people)

    def _divided(self, participants: int) -> tuple[Split, AnyTask]:
        """The split, and the task of the partition; nobody was asked."""
        epsilon, own = as_number(self.epsilon, "epsilon", positive=True), isinstance(self.f, Column)
        only = own and self.question == "mean"  # no map is made for values that do not depend on places
        most = MAX_EPSILON + (0.0 if only else EPSILON_RANGE[1])
        if not MIN_EPSILON <= epsilon <= most:
            parts = f"at most {MAX_EPSILON:g} for one value"
            parts += "" if only else f" and {EPSILON_RANGE[1]:g} for the partition"
            raise InvalidInput(f"epsilon must be a number from {MIN_EPSILON} to {most:g} ({parts}); got {epsilon:g}")
        whole = self.planned()  # checks the parameters
        split = Split(0.0, epsilon) if only else plan_split(participants, epsilon=epsilon, **self._crowd)
        return split, self.planned(split.tree) if split.tree else whole

    def _play(self, people: Any, task: Task, mark: Mark) -> AnyRun:
        """A run of the protocol, which knows whether its noise can be repeated."""
        if self.keyed and isinstance(people, Source):  # a transcript has every report, in memory
            people = np.concatenate([np.empty((0, task.box.dimensions)), *people.batches()])
        run: AnyRun
        if self.keyed:
            secrets = [self._draws.bytes(SECRET_BYTES) for _ in range(len(people))]
            run = simulate(people, task, secrets=secrets, progress=self.progress)
        else:
            play: Any = run_source if isinstance(people, Source) else simulate
            run = play(people, task, rng=self._draws, progress=self.progress)
        return replace(run, partition=replace(run.partition, mark=mark))

    # -- whose rows, and what they may lose ------------------------------------------------------------------------

    def _people(self) -> tuple[Any, Any]:
        """The rows that stand for people, float64[n, d], or a source or cells as they are; and f with their values."""
        points, f = self.data, self.f
        if isinstance(points, SortedCodes):
            return points, f
        if f is not None and self.options.get("hierarchy") is not None:
            asked_of(f, self.options["hierarchy"])  # refuses before anybody is asked
        if isinstance(points, Source):
            self._check_source(points)
            if isinstance(f, Column):
                f.fits(points.count())
                if f.stored:
                    points.check_value(f.name, f.low, f.high)
            return points, f
        positions = self.domain.check(points)
        if not len(positions):
            raise InvalidInput("there are no positions: the frame or array has no rows; give at least one")
        if isinstance(f, Column):
            f.fits(len(positions))
        if self.users is None:
            return positions, f
        rows = draw_rows(self.users, rows=len(positions), rows_per_user=self.rows, rng=self._draws)
        return positions[rows], f.rows(rows) if isinstance(f, Column) else f

    def _check_source(self, source: Source) -> None:
        """Refuse a source that the job does not fit."""
        if self.users is not None:
            raise InvalidInput("a source chooses the rows of every person by itself; name the column when you open it")
        if self.rows != source.rows_per_person:
            raise InvalidInput(
                f"the source has up to {source.rows_per_person} rows of every person; got rows_per_user = {self.rows}"
            )
        if (source.box.lower, source.box.upper) != (self.domain.lower, self.domain.upper):
            raise InvalidInput(f"the source is in {source.box}; got the box {self.domain}")

    def _afford(self, cost: Ledger) -> Ledger:
        """The cost with the cap; refused if that or the ledger does not allow it."""
        if self.ledger is not None:
            self.ledger + cost
        return Ledger(cap=None if self.cap is None else exact(self.cap)) + cost

    @property
    def _crowd(self) -> dict[str, Any]:
        """delta and k where nobody is trusted, with their defaults."""
        return {"delta": DELTA if self.delta is None else self.delta, "k": K if self.k is None else self.k}

    @property
    def _draws(self) -> np.random.Generator:
        """Of simulated devices and of drawn rows: the generator, or numpy's, seeded by the operating system."""
        return np.random.default_rng() if self.rng is None else self.rng


def run_on_engine(
    engine: Engine, rows: Any, columns: Sequence[str] | None, box: Any, task: AnyTask | None,
    options: dict[str, Any],
) -> Done:  # fmt: skip
    """Counts of rows that an engine has, of a task, or of a box and options; see :func:`semilocal.duckdb.run`."""
    person, each, rng = options.pop("person", None), options.pop("rows_per_user", 1), options.pop("rng", None)
    opened = {name: options.pop(name) for name in ("connection", "rows_are_people") if name in options}
    if person is None and each != 1:
        raise InvalidInput("rows_per_user needs person, the column that says whose row it is")
    if task is not None:
        if box is not None or options:
            named = ", ".join([*(["box"] if box is not None else []), *options])
            raise InvalidInput(f"give a task, or a box and options, not both; got a task and {named}")
        trust: Trust = task.trust if isinstance(task, PooledTask) else "nobody"
        job = Job(question="counts", data=None, epsilon=task.epsilon, trust=trust, rng=rng, rows=each, task=task)
    else:
        if "epsilon" not in options:
            raise InvalidInput("epsilon is missing: the most that anybody may lose")
        if not isinstance(box, Box | str | None):
            if columns is None:
                raise InvalidInput("bounds name no columns: give columns=[...] too, or a Box with names=(...)")
            box = as_box(box, names=tuple(columns))
        given = {"trust": None, **options, "rng": rng, "rows_are_people": True}
        job = replace(Job.of("counts", np.empty((0, 1)), None, box, **given), rows=each)
    domain = job.domain
    job.planned()  # refuses before rows are read
    key = 0 if person is None else draw_key(np.random.default_rng() if rng is None else rng)
    names = domain.names if columns is None else tuple(columns)
    source = open_source(rows, names, domain, engine=engine, person=person, rows_per_person=each, key=key, **opened)
    return replace(job, data=source).run()


def which_trust(trust: Any) -> Trust:
    """The answer to: whom do the participants trust? Or a refusal that explains the three."""
    if isinstance(trust, str) and trust in get_args(Trust):
        return trust  # type: ignore[return-value]
    lines = [f'  trust="{name}": {words}' for name, words in TRUSTS.items()]
    got = "it is missing" if trust is None else f"got {shown(trust)}"
    raise InvalidInput("\n".join([f"trust must say whom the participants trust; {got}. There are three:", *lines]))


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
        pays = participants >= _QUESTIONS * needed([participants], k, answer, [level(delta, 0)])[0]
        if pays or epsilon > MAX_EPSILON:
            return Split(tree, epsilon - tree)
    return Split(0.0, epsilon)


def _warn_of_few(result: Mapped) -> None:
    """Warn if no more than a few regions were to be expected from public numbers."""
    task, participants = result.partition.task, result.total
    expected = participants / people_per_region(task)
    if expected < FEW_REGIONS:
        crowd = f" and k = {task.k}" if isinstance(task, Task) else ""
        ways = [] if task.epsilon > WEAK_EPSILON else ["a larger epsilon"]
        ways += ["a smaller k", "two servers"] if isinstance(task, Task) else []
        warnings.warn(
            f"{number_of(participants, 'person is', 'people are')} few for epsilon = {task.epsilon:g}{crowd}: about "
            f"{number_of(max(1, round(expected)), 'region')} can be expected, and hardly any detail. More people would "
            f"help{''.join(f', or {way}' for way in ways)}",
            WeakWarning, stacklevel=outside_level(),
        )  # fmt: skip


def people_per_region(task: AnyTask) -> float:
    """How many people a region or cell has on average where they are spread evenly, about: from public numbers.

    Where nobody is trusted, half of the smallest region in which asking a part of its people can show two crowds. Else
    a bit more than the difference that opens a cell. Within a factor of two of evenly spread people and of a file.

    Examples
    --------
    >>> [round(people_per_region(Task.build(Box((0,), (1,)), epsilon=epsilon))) for epsilon in (1.0, 2.0)]
    [206, 89]
    """
    if isinstance(task, PooledTask):
        return 1.3 * task.threshold
    if task.rule != "cut":
        return float(task.k)
    people, answer = 2 * task.k, task.epsilon / task.answers
    while people < _MOST_IN_REGION and needed([people], task.k, answer, [level(task.delta, 0)])[0] >= people:
        people += people // 8 + 1
    return people / 2


def _domain(box: Box | None, hierarchy: Hierarchy | None) -> Box:
    """The box, or that of the hierarchy; refused if both or neither is given."""
    if hierarchy is not None:
        check_alone(hierarchy, box=box)
        return hierarchy.box
    if box is None:
        raise InvalidInput('the box is missing: the public domain, such as "california"; or give a hierarchy')
    return box


def _columns(points: Any, box: Box | None, trust: Trust | None, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Positions, and the options ``users`` and ``value`` where they are names of columns of the same frame.

    Refuses a frame in which a column tells people apart and repeats some, unless it was said whose rows they are; and
    columns beside a frame whose index is another one.
    """
    columns = {name: named[name] for name in ("users", "value") if isinstance(named.get(name), str)}
    if isinstance(points, Source) or not (columns or is_frame(points)):
        return points, named
    if not is_frame(points):
        option, column = next(iter(columns.items()))
        raise InvalidInput(f"{option}={column!r} names a column; give the points as a data frame, or the column itself")
    for option in ("users", "value"):
        check_index(points, named.get(option), option)
    if named.get("users") is None and not named.get("rows_are_people"):
        check_frame(points, CALL._replace(pooled=which_trust(trust) != "nobody"), value=columns.get("value"))
    if not columns:
        return points, named
    domain = _domain(box, named.get("hierarchy"))
    if "users" in columns:
        axes = [name for name in columns.values() if is_axis(name, domain)]
        refuse_content_as_person(columns["users"], [*axes, columns.get("value", "")], CALL)
    read, others = frame_points(points, domain, list(columns.values()))
    return read, {**named, **dict(zip(columns, others, strict=True))}


def _about(points: Any, f: Any, box: Box | None, called: Any, named: dict[str, Any]) -> BoundedFunction:
    """What a mean is about: a function of the position, or people's own values, which are taken out of the options.

    ``called`` is what was given as ``value``, a name or the column itself.
    """
    value, bounds = named.pop("value", None), named.pop("range", None)
    somewhere = box is not None or named.get("hierarchy") is not None
    if value is None:
        if bounds is not None:
            raise InvalidInput("range belongs to value, one number per row; a function of the position knows its range")
        if not somewhere:
            raise InvalidInput("give a function and the box, or the box with value and range")
        return as_function(f)
    if f is not None or not somewhere:
        raise InvalidInput("give a function of the position, or value with its range, and one box; not both")
    if isinstance(points, Source) and isinstance(value, str):
        return stored_column(value, bounds)
    name = called if isinstance(called, str) else getattr(value, "name", None)
    return read_column(value, bounds, name=name if isinstance(name, str) and name else "value")


def _whole_domain(task: Task, rows: Rows, mark: Mark) -> AnyRun:
    """A run in which nothing was asked: one region, the whole domain, at no cost."""
    participants = count_rows(rows)
    lower, upper = (np.array([code], dtype=np.uint64) for code in task.hierarchy.ends)
    crowd, none = np.array([participants], dtype=np.int64), np.empty(0, dtype=np.uint64)
    partition = Partition(task, lower, upper, crowd, 0 * crowd, Walls.none(1), Away.nobody(), mark)
    splits = Splits(np.empty(0, dtype=np.int64), none, none, none)
    if isinstance(rows, Source):
        rows.check()
        return SourceRun(task, partition, 0, splits, 0, 0, rows, participants, False)
    return Run(task, partition, np.zeros(participants, np.int32), 0, splits, 0, 0)


# -- the public calls --------------------------------------------------------------------------------------------------


def _spelled(call: Call) -> Call:
    """The signature that help and notebooks show, with those options by name that most people need."""
    shown_as = inspect.signature(call)
    *own, named = shown_as.parameters.values()
    more = [named.replace(name=name, kind=named.KEYWORD_ONLY, default=None, annotation=hint) for name, hint in _FIRST]
    call.__signature__ = shown_as.replace(parameters=[*own, *more, named])  # type: ignore[attr-defined]
    return call


_FIRST = [(name, Options.__annotations__[name].__forward_arg__) for name in ("users", "rng", "delta", "k")]


@_spelled
def counts(
    points: Rows,
    box: Where | None = None,
    *,
    epsilon: float,
    trust: Trust | None = None,
    rounding: Rounding = None,
    **named: Unpack[Options],
) -> Counts:
    """Counts in boxes and polygons, with intervals, and the map they come from.

    Parameters
    ----------
    points : array_like, shape (n, d), data frame, or Source
        Positions, or where to read them: see :func:`semilocal.engines.open_source`. The same seed gives the same
        result either way. Of a frame (pandas, polars, Arrow, a DuckDB relation) the columns with the names of the box's
        axes are taken; a GeoDataFrame or GeoSeries gives its points, and its CRS must fit the box.
    box : Box, str, or 2d numbers
        The public domain: a box, the name of a place such as "california", or west, south, east, north. It is halved
        again and again, one axis after the other.
    hierarchy : Hierarchy, optional
        Another public tree instead of ``box``, such as :class:`semilocal.SphereTree` for the whole Earth.
    epsilon : float
        The loss. With "curator" and "two-servers": for any change of one person's position anywhere (delta = 0). With
        "nobody": between any two positions inside one's region, both ways.
    trust : {"curator", "two-servers", "nobody"}
        Whom the participants trust; there is no default. This program holds all positions, so all but "curator" are
        simulations of what devices and servers would do.
    delta : float, optional
        With "nobody" only: chance per participant of a crowd below k; 1e-6.
    k : int, optional
        With "nobody" only: the smallest crowd; 20.
    rng : numpy.random.Generator, optional
        For simulation: seeded noise protects nobody, and the result says so. Without it the noise of a curator and of
        two servers is the operating system's, by exact samplers. With "nobody" this program plays the devices, whose
        noise is that of numpy's generator then, with a seed from the operating system: real devices derive theirs from
        secrets of their own.
    cap : float, optional
        The most that anybody may lose; more is refused.
    ledger : Ledger, optional
        What was spent on these people before, in any mode. If its cap does not allow this release, it is refused
        before anything is computed. Afterwards add ``spent`` to it: ``ledger + result.spent``.
    users : array_like, shape (n,), or str, optional
        Whose row it is, or the name of the frame's column that says so. Rows are drawn at random, at most
        ``rows_per_user`` of each person, and everything is about those; :func:`semilocal.draw_rows` draws them
        beforehand where it matters which. Without it every row counts as another person; a frame in which a column
        that looks like a person, such as ``user`` or ``taxi_id``, repeats some is refused then. A Series of
        pandas beside a frame must have the same index.
    rows_per_user : int
        1 if left out. With "nobody" a person with M rows loses M times what is promised to one row; with the others
        the noise grows by M instead. ``spent`` and ``guarantee`` say what a person loses.
    rows_are_people : bool
        Every row of the frame is another person, whatever its columns are called and hold.
    rounding : float or one per axis, optional
        If all coordinates are multiples of such a step, as 0.01 in a file with two decimals, and that is public: every
        answer then takes it into account. It is never learned from the positions; 0 or nothing for none.
    **named
        Further options of :meth:`Task.build` ("nobody") or of :meth:`PooledTask.build` (resolution, max_depth, label).

    Returns
    -------
    Counts
        With ``query(boxes)``, ``density(grid)``, ``interval(level)``, ``partition``, ``plot()``,
        ``to_geojson()``, ``to_table()``, ``total``, ``spent`` and ``guarantee``.

    Raises
    ------
    InvalidInput
        For a missing ``trust``, positions outside the box or not finite, and options of another kind of trust.
    BudgetExceeded
        If ``cap`` or the ledger's cap does not allow it. Nothing was computed then.

    Notes
    -----
    Guarantee: for each person, what ``result.guarantee.explain()`` prints. "curator" and "two-servers": epsilon between
    any two positions of the person (delta = 0). "nobody": epsilon between any two positions inside one's region, both
    ways (delta = 0); a crowd of k in it except with probability ``delta``.

    Examples
    --------
    >>> import numpy as np
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(3)
    >>> homes = rng.beta(2, 5, (20_000, 2))
    >>> counted = sl.counts(homes, sl.Box((0, 0), (1, 1)), epsilon=1.0, trust="curator", rng=rng)
    >>> low, high = counted.query([[[0, 0], [0.25, 0.25]]]).interval(0.999999)[0]
    >>> bool(low <= np.count_nonzero((homes < 0.25).all(axis=1)) <= high)
    True
    """
    job = Job.of("counts", points, None, box, epsilon=epsilon, trust=trust, rounding=rounding, **named)
    return job.run().result  # type: ignore[no-any-return]


# The same run and the same result, read as a map: ``boxes``, ``crowds``, ``locate`` and the ways out.
partition = counts


@_spelled
def mean(
    points: Rows,
    f: Any,
    box: Where | None = None,
    *,
    epsilon: float,
    trust: Trust | None = None,
    **named: Unpack[ValueOptions],
) -> Mean:
    """The mean of f over a population, or of people's own values: ``mean(points, box, value=..., range=...)``.

    Parameters
    ----------
    points, box, epsilon, trust, users, rng, delta, k, **named
        As of :func:`counts`, without ``rounding``.
    f : BoundedFunction
        A function that knows its range over a box; see :mod:`semilocal.functions`. Left out with ``value``.
    value : array_like, shape (n,), or str, optional
        One number per row that belongs to the person, such as a fare or an age, or the name of the frame's or
        source's column that has it. Then epsilon also holds for any two values in the range. No map is made: it would
        cost, and tell nothing about such values.
    range : (float, float), optional
        Smallest and largest value that anybody can have. Public, and never taken from the data; a value outside is
        refused with its row. The noise grows with it.

    Returns
    -------
    Mean
        ``value``, ``stderr``, ``interval(level)`` and all that :class:`semilocal.release.counts.Mapped` answers.

    Raises
    ------
    InvalidInput
    BudgetExceeded
        As of :func:`counts`; for a function without a range, and a value outside its range.

    Notes
    -----
    Guarantee: with its epsilon and delta that of :func:`counts`, for a change of position and of value.

    Examples
    --------
    >>> import numpy as np
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(3)
    >>> points = rng.normal(0, 1.5, size=(64_000, 2)).clip(-10, 10)
    >>> box, f = sl.Box((-10, -10), (10, 10)), sl.functions.squared_norm()
    >>> result = sl.mean(points, f, box, epsilon=2.0, trust="nobody", delta=0.05, k=20, rng=rng)
    >>> bool(abs(result.value - (points**2).sum(axis=1).mean()) < 0.2)
    True
    >>> fare = rng.gamma(4.0, 5.0, size=64_000).clip(0, 100)
    >>> result = sl.mean(points, box, value=fare, range=(0, 100), epsilon=1.0, trust="curator", rng=rng)
    >>> bool(abs(result.value - fare.mean()) < 0.02)
    True
    """
    return Job.of("mean", points, f, box, epsilon=epsilon, trust=trust, **named).run().result  # type: ignore[no-any-return]


@_spelled
def cell_means(
    points: Rows,
    f: Any,
    box: Where | None = None,
    *,
    epsilon: float,
    trust: Trust | None = None,
    **named: Unpack[ValueOptions],
) -> Means:
    """The mean of f in every region of the map.

    With "nobody" these are the means that :func:`mean` rests on. With the others half of epsilon is spent on the map
    and half on one noisy sum per final cell. For the mean over everybody use :func:`mean`: the errors of many small
    cells add up.

    Parameters
    ----------
    points, f, box, epsilon, trust, users, rng, delta, k, **named
        As of :func:`mean`.

    Returns
    -------
    Means
        ``value`` and ``stderr`` float64[m], ``interval(level)`` float64[m, 2], in the order of ``partition``, and all
        that :class:`semilocal.release.counts.Mapped` answers.

    Raises
    ------
    InvalidInput
    BudgetExceeded
        As of :func:`mean`.

    Notes
    -----
    Guarantee: with its epsilon and delta that of :func:`mean`.

    Examples
    --------
    >>> import numpy as np
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(3)
    >>> homes = rng.beta(2, 5, (20_000, 2))
    >>> unit, height = sl.Box((0, 0), (1, 1)), sl.functions.coordinate(1)
    >>> found = sl.cell_means(homes, height, unit, epsilon=2.0, trust="curator", rng=rng)
    >>> len(found.value) == len(found.partition), float(found.spent.epsilon)
    (True, 2.0)
    """
    return Job.of("means", points, f, box, epsilon=epsilon, trust=trust, **named).run().result  # type: ignore[no-any-return]


@_spelled
def values(points: Rows, f: Any, box: Where | None = None, *, epsilon: float, **named: Unpack[ValueOptions]) -> Values:
    """One noisy value of f per participant; only where nobody is trusted is there such a thing.

    Parameters
    ----------
    points, f, box, epsilon, users, rng, delta, k, **named
        As of :func:`mean`, without ``trust``.

    Returns
    -------
    Values
        ``value`` float64[n], one per participant, and all that :class:`semilocal.release.counts.Mapped` answers.

    Raises
    ------
    InvalidInput
    BudgetExceeded
        As of :func:`mean`.

    Notes
    -----
    Guarantee: with its epsilon and delta that of :func:`mean` where nobody is trusted.

    Examples
    --------
    >>> import numpy as np
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(3)
    >>> homes, unit = rng.beta(2, 5, (5_000, 2)), sl.Box((0, 0), (1, 1))
    >>> found = sl.values(homes, sl.functions.coordinate(1), unit, epsilon=2.0, delta=1e-3, k=20, rng=rng)
    >>> found.value.shape, float(found.spent.epsilon)
    ((5000,), 2.0)
    """
    if "trust" in named:
        raise InvalidInput("values has no trust: nobody is trusted where every participant has a value; leave it out")
    return Job.of("values", points, f, box, epsilon=epsilon, trust="nobody", **named).run().result  # type: ignore[no-any-return]


@_spelled
def points(
    points: Rows, box: Where | None = None, *, epsilon: float, trust: Trust | None = None, **named: Unpack[Options]
) -> Points:
    """Positions that may be published instead of the true ones.

    With "nobody": each position replaced by the estimated centre of its region's people. With the others: as many
    synthetic positions, drawn from the estimated counts; none belongs to anybody.

    Parameters
    ----------
    points, box, epsilon, trust, users, rng, delta, k, **named
        As of :func:`counts`, without ``rounding``.

    Returns
    -------
    Points
        ``points`` float64[n, d], and all that :class:`semilocal.release.counts.Mapped` answers.

    Raises
    ------
    InvalidInput
    BudgetExceeded
        As of :func:`counts`.

    Notes
    -----
    Guarantee: with its epsilon and delta that of :func:`counts`.

    Examples
    --------
    >>> import numpy as np
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(3)
    >>> homes = rng.beta(2, 5, (5_000, 2))
    >>> sl.points(homes, sl.Box((0, 0), (1, 1)), epsilon=1.0, trust="curator", rng=rng).points.shape
    (5000, 2)
    """
    return Job.of("points", points, None, box, epsilon=epsilon, trust=trust, **named).run().result  # type: ignore[no-any-return]
