"""The planner: what a collection will give, before anybody is asked.

It plays the protocol a few times on a *reference population* drawn from a stated density (uniform, clustered, Gaussian,
or positions in a file that are public) and averages. Predictions are as good as the density: they say nothing about
people who live elsewhere. Private positions must never be used as a reference.

What is forecast of a mean is its *margin*, half the width of the 95 % interval that comes with it. The error itself
depends on how many people live in the parts that were trimmed, and how far away: it differs by a factor of 2 and more
between maps of one and the same law, so that no number could stand for it. It is an attribute, and not printed; it is
computed without sampling the values' noise, as bias of the moved participants squared, plus the mechanism's variance.
Nearly everything depends on the map. What does is printed with the smallest and the largest of the plays; margins and
sizes of regions differ so much that these come first.

Knows densities and the one-call jobs. Knows no participants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import functions, release
from .arrays import Floats, short_repr
from .errors import InvalidInput
from .geometry.box import Box
from .geometry.index import count_points
from .io.plots import save_picture
from .protocol.messages import Closed, Message, Query, Report, encode
from .protocol.partition import Partition
from .protocol.promise import promise
from .protocol.task import Accounting, Task
from .release import split as jobs
from .simulation import synthetic
from .simulation.simulate import simulate
from .words import number_of

__all__ = ["CAUTION", "DENSITIES", "Forecast", "cheapest", "density_of", "forecast", "picture", "resampled", "traffic"]

Density = Callable[[int, np.random.Generator], Floats]
DENSITIES = ("uniform", "clustered", "gaussian")
CAUTION = (
    "In brackets: the smallest and the largest of the plays. Errors depend on where people live. On seven files of\n"
    "real positions, three settings each, those of counts were 0.7 to 1.9 times the forecast in 19 of 21 cases, 2.4\n"
    "and 2.9 times in two; regions 0.5 to 1.4 times; shares of moved people 0.6 to 1.6 times. Half intervals of means\n"
    "were 0.4 to 1.9 times the middle of the plays, sizes of typical regions 0.01 to 9 times. With a file of public\n"
    "positions of the place itself (--density FILE) the forecast is that of the file."
)
_PLAYS = 12
_QUERIES = 400
_SIDES = (0.01, 0.15)  # of a box, as a share of the domain's


@dataclass(frozen=True, eq=False)
class Forecast:
    """What to expect of a task; means over plays on the reference population.

    ``crowd``, ``area`` and ``mean_margin`` are medians, since a few maps have far larger ones than the others.

    Attributes
    ----------
    n : int
    epsilon, delta, k
        As asked for: loss between two positions inside a region (accounting "core") or of a moved position
        against any inside ("uniform"). ``delta`` is about the crowd.
    epsilon_worst : float
        Bound on the loss of the partition for moved positions.
    regions : float
        Number of regions.
    crowd : float
        Median crowd of a region.
    area : float
        Size of the region of a typical participant (median), as a share of the domain.
    moved : float
        Share of participants moved at least once.
    rounds : float
    sent, received : float
        Bytes of protocol messages per device, without HTTP headers.
    mean_margin : float
        Half the width of the 95 % interval of the mean of ``function``, as a share of the function's range over the
        domain; values released with what the partition leaves of epsilon.
    mean_error : float
        Root mean square error of that mean, as a share of the same range. It depends on the map far more.
    function : str
    count_error : float
        Mean error of a count as a share of the participants: boxes around a random participant, with sides of 1 to 15 %
        of the domain.
    ranges : dict of tuples of float
        The smallest and the largest of the plays, by the names of ``regions``, ``crowd``, ``area``, ``moved``,
        ``mean_margin`` and ``count_error``: how much they depend on where people live.
    partition : Partition
        Of the first play, for a picture.
    """

    n: int
    epsilon: float
    delta: float
    k: int
    epsilon_worst: float
    regions: float
    crowd: float
    area: float
    moved: float
    rounds: float
    sent: float
    received: float
    mean_margin: float
    mean_error: float
    function: str
    count_error: float
    ranges: dict[str, tuple[float, float]]
    partition: Partition

    __repr__ = short_repr

    def lines(self) -> list[str]:
        """A table for a person."""
        areas, margins = (_between(self.ranges[name], _percent) for name in ("area", "mean_margin"))
        regions, crowd = (self._ranged(name, _whole) for name in ("regions", "crowd"))
        moved, counted = (self._ranged(name, _percent) for name in ("moved", "count_error"))
        rows = [
            ("participants", f"{self.n}"),
            ("promise", promise(self.partition.task, participants=self.n).sentence()),
            ("regions", f"{regions}, median crowd {crowd}"),
            ("typical region", f"{areas} of the domain, by where people live"),
            ("share moved", moved),
            ("rounds", f"{self.rounds:.1f}"),
            ("bytes per device", f"{self.sent:.0f} sent, {self.received:.0f} received"),
            (
                f"mean of {self.function}",
                f"known to {margins} of its range ({_percent(self.mean_margin)} in the middle of the plays), by where "
                "people live; half the 95 % interval",
            ),
            (
                "error of a count",
                f"about {number_of(round(self.count_error * self.n), 'person', 'people')} in boxes around people; "
                f"as a share of all {counted}",
            ),
        ]
        width = max(len(name) for name, _ in rows)
        return [f"{name:<{width}}  {text}" for name, text in rows]

    def _ranged(self, name: str, text: Callable[[float], str]) -> str:
        """A number, with the smallest and the largest of the plays in brackets if they differ in print."""
        number, ends = text(getattr(self, name)), _between(self.ranges[name], text)
        return number if number == ends else f"{number} ({ends})"


def _percent(share: float) -> str:
    """A share to two digits."""
    return f"{float(f'{100 * share:.2g}'):g} %"


def _whole(number: float) -> str:
    """A number of people or regions."""
    return f"{number:.0f}"


def _between(ends: tuple[float, float], text: Callable[[float], str]) -> str:
    """From the smallest to the largest, if they differ in print."""
    low, high = map(text, ends)
    return high if low == high else f"{low.removesuffix(' %')} to {high}"


def density_of(name: str, box: Box) -> Density:
    """A density over a box by name: "uniform", "clustered" (towns), "gaussian" (one town, 7.5 % of the width wide).

    "clustered" is drawn again in each play (:func:`semilocal.simulation.synthetic.towns`). ``CAUTION``, which is
    printed with it, says how near its forecasts were on files of homes, check-ins and taxis.
    """
    low, high = np.array(box.lower), np.array(box.upper)

    def gaussian(n: int, rng: np.random.Generator) -> Floats:
        unit = synthetic.truncated_gaussian(
            n, rng, box=Box((0.0,) * box.dimensions, (1.0,) * box.dimensions), scale=0.075,
            centre=(0.5,) * box.dimensions,
        )  # fmt: skip
        return np.asarray(np.clip(low + unit * (high - low), low, high))

    known: dict[str, Density] = {
        "uniform": lambda n, rng: synthetic.uniform(n, rng, box=box), "gaussian": gaussian,
        "clustered": lambda n, rng: synthetic.towns(n, rng, box=box),
    }  # fmt: skip
    if name not in known:
        raise InvalidInput(f"density must be one of {', '.join(DENSITIES)}, or a file of positions; got {name!r}")
    return known[name]


def resampled(points: npt.ArrayLike, box: Box) -> Density:
    """A density that draws from public positions with replacement."""
    checked = box.check(points)
    if not len(checked):
        raise InvalidInput("the reference holds no positions; give a file with some, or a named density")
    return lambda n, rng: checked[rng.integers(0, len(checked), n)]


def forecast(
    density: Density, box: Box, *, n: int, epsilon: float, delta: float, k: int, rng: np.random.Generator,
    function: functions.BoundedFunction | None = None, plays: int = _PLAYS, queries: int = _QUERIES,
    accounting: Accounting = "core", **options: Any,
) -> Forecast:  # fmt: skip
    """Predict a collection of n participants.

    Parameters
    ----------
    density : callable
        ``density(n, rng)`` gives a reference population: float64[n, d]. See :func:`density_of`.
    box : Box
    n : int
        Participants.
    epsilon, delta, k, accounting
        As in :meth:`Task.build`.
    rng : numpy.random.Generator
    function : BoundedFunction, optional
        Whose mean is wanted. If left out it is that of a coordinate, on average over all of them: which of them cuts
        through where people live is an accident of the map.
    plays : int
        Reference populations to average over.
    queries : int
        Boxes per play to average the error of a count over; with 0 it is left out, and NaN.
    **options
        Further options of :meth:`Task.build`.

    Examples
    --------
    >>> box = Box((0, 0), (1, 1))
    >>> plan = forecast(density_of("uniform", box), box, n=5000, epsilon=1.0, delta=1e-3, k=50,
    ...                 rng=np.random.default_rng(1), plays=2)
    >>> plan.regions > 4, plan.moved < 0.2
    (True, True)
    """
    if n < 1 or plays < 1 or queries < 0:
        raise InvalidInput(f"n and plays must be at least 1, queries 0; got {n}, {plays} and {queries}")
    wanted = [functions.coordinate(axis) for axis in range(box.dimensions)] if function is None else [function]
    task = Task.build(box, epsilon=epsilon, delta=delta, k=k, accounting=accounting, **options)
    rows, first = [], None
    for _ in range(plays):
        points = density(n, rng)
        run = simulate(points, task, rng=rng)
        first = run.partition if first is None else first
        error = math.nan
        if queries:
            boxes = _boxes(queries, points, box, rng)
            error = float(np.abs(release.counts(run).answer(boxes).value - count_points(points, boxes)).mean()) / n
        sizes = _sizes(run.partition)[run.regions]
        sent, received = traffic(task, run.events, n)
        margin, squared = _mean(points, wanted, box, epsilon, delta, k, rng, accounting, options)
        rows.append(
            (len(run.partition.cells), float(np.median(run.partition.crowds)), float(np.median(sizes)),
             float((run.moves > 0).mean()), len(run.rounds), sent, received, squared, error, margin)
        )  # fmt: skip
    assert first is not None
    found = np.array(rows, dtype=np.float64)
    regions, _, _, moved, rounds, sent, received, squared, error, _ = found.mean(axis=0).tolist()
    crowd, area, margin = np.median(found[:, [1, 2, -1]], axis=0).tolist()
    columns = {"regions": 0, "crowd": 1, "area": 2, "moved": 3, "mean_margin": -1, "count_error": -2}
    ranges = {name: (float(found[:, row].min()), float(found[:, row].max())) for name, row in columns.items()}
    return Forecast(
        n, float(epsilon), delta, k, task.epsilon_worst, regions, crowd, area, moved, rounds, sent, received,
        margin, math.sqrt(squared), "a coordinate" if function is None else function.name, error,
        ranges, first,
    )  # fmt: skip


def cheapest(
    make: Callable[[float], Forecast], *, quantity: str, target: float, lowest: float = 0.05, highest: float = 20.0
) -> Forecast | None:
    """The forecast with the smallest epsilon (to 5 %) whose error is at most the target; None if none is.

    Parameters
    ----------
    make : callable
        ``make(epsilon)`` gives a forecast; it should use the same seed each time, so that errors fall smoothly.
    quantity : {"error", "mean"}
        "error": of a count, as a share of the participants; "mean": the margin of the mean, as a share of its range.
    """
    if quantity not in ("error", "mean"):
        raise InvalidInput(
            "--want takes error=… (of a count, as a share of the participants) or mean=… (half the 95 % interval of a "
            f"mean, as a share of its range); got {quantity!r}"
        )

    def value(plan: Forecast) -> float:
        return plan.count_error if quantity == "error" else plan.mean_margin

    best = make(highest)
    if value(best) > target:
        return None
    low, high = lowest, highest
    while high > low * 1.05:
        middle = math.sqrt(low * high)
        plan = make(middle)
        if value(plan) <= target:
            best, high = plan, middle
        else:
            low = middle
    return best


def picture(plan: Forecast, path: Path) -> None:
    """Draw the regions of one play on the reference population to a file."""
    title = (
        f"One play on a reference population: n = {plan.n}, k = {plan.k},\nepsilon: "
        f"{promise(plan.partition.task).cost()} (delta = 0); delta = {plan.delta:g} for the crowd"
    )
    save_picture(plan.partition, path, title=title)


def _mean(
    points: Floats, wanted: list[functions.BoundedFunction], box: Box, epsilon: float, delta: float, k: int,
    rng: np.random.Generator, accounting: Accounting, options: dict[str, Any],
) -> tuple[float, float]:  # fmt: skip
    """Margin and mean square error of means given one partition, as shares of the functions' ranges; averages."""
    run, split, _ = jobs.partition_for_values(
        points, box, epsilon=epsilon, delta=delta, k=k, rng=rng, accounting=accounting, **options
    )
    rows = []
    for f in wanted:
        lowest, highest = f.range_over(np.array([[box.lower, box.upper]]))[0]
        width = highest - lowest or 1.0
        released = release.mean(run, points, f, epsilon=split.value, rng=rng)
        first, last = released.interval()
        bias = float(np.mean(f(run.acting(points))) - np.mean(f(points))) + released.value - released.acting
        rows.append(((last - first) / 2 / width, (bias**2 + released.stderr**2) / width**2))
    margin, squared = np.mean(rows, axis=0).tolist()
    return margin, squared


def _boxes(queries: int, points: Floats, box: Box, rng: np.random.Generator) -> Floats:
    """Boxes around random participants."""
    middle = points[rng.integers(0, len(points), queries)]
    half = rng.uniform(*_SIDES, middle.shape) * (np.array(box.upper) - np.array(box.lower)) / 2
    return np.stack([middle - half, middle + half], axis=1)


def _sizes(partition: Partition) -> Floats:
    """Share of the domain that each region has."""
    box = partition.task.box
    width = np.array(box.upper) - np.array(box.lower)
    return np.asarray(np.prod((partition.boxes[:, 1] - partition.boxes[:, 0]) / width, axis=1))


def traffic(task: Task, events: Any, n: int) -> tuple[float, float]:
    """Bytes of messages that one device sends and receives, on average: reports have one size per round."""
    sent = received = 0.0
    received += len(encode(task))
    query: Query | None = None
    for event in events:
        message: Message = event
        if isinstance(message, Query):
            query = message
        elif isinstance(message, Closed) and query is not None:
            share = sum(message.responders) / n
            answer = None if message.round > task.max_rounds else _answer(task)
            sent += share * len(encode(Report(task.id, message.round, bytes(16), message.cells[0], answer)))
            received += share * (len(encode(query)) + len(encode(message)))
    return sent, received


def _answer(task: Task) -> int | tuple[int, ...]:
    return 0 if task.randomizer.words == 1 else (0,) * task.randomizer.fanout
