"""The planner: what a collection will give, before anybody is asked.

It plays the protocol a few times on a *reference population* drawn from a stated density (uniform, clustered, Gaussian,
or positions in a file that are public) and averages. Predictions are as good as the density: they say nothing about
people who live elsewhere. Private positions must never be used as a reference.

Nearly everything depends on the map. What does is printed with the smallest and the largest of the plays. How large a
region is, is not forecast: on real maps it is 0.4 to 60 times what it is on the towns that a plan makes up.

Knows densities and the one-call jobs. Knows no participants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from .. import functions, release
from ..arrays import Floats, short_repr
from ..errors import InvalidInput
from ..geometry.box import Box
from ..io.plots import save_picture
from ..protocol.messages import Closed, Entry, Head, Query, Question, Report, Slice, Verdict, encode
from ..protocol.partition import Partition
from ..protocol.promise import promise
from ..protocol.task import DELTA, K, Task
from ..release.job import Job
from ..simulation import synthetic
from ..simulation.simulate import Run, simulate
from ..words import number_of
from .index import count_points

__all__ = ["CAUTION", "DENSITIES", "Forecast", "cheapest", "density_of", "forecast", "picture", "resampled", "traffic"]

Density = Callable[[int, np.random.Generator], Floats]
DENSITIES = ("uniform", "clustered", "gaussian")
CAUTION = (
    "In brackets: the smallest and the largest of the plays. Errors depend on where people live. On seven files of\n"
    "real positions, three settings each, regions were 0.5 to 1.3 times the forecast, rounds 0.8 to 1.4 times,\n"
    "messages and bytes 0.8 to 1.1 times, errors of counts 0.5 to 2.0 times, margins of means 0.4 to 2.9 times. With\n"
    "a file of public positions of the place itself (--density FILE) the forecast is that of the file."
)
_PLAYS = 12
_QUERIES = 400
_SIDES = (0.01, 0.15)  # of a box, as a share of the domain's
_FEW = 8  # regions: hardly anything is learned


@dataclass(frozen=True, eq=False)
class Forecast:
    """What to expect of a task; means over plays on the reference population.

    ``crowd`` and ``mean_margin`` are medians, since a few maps have far larger ones than the others.

    Attributes
    ----------
    n : int
    epsilon, delta, k
        As asked for: loss between any two places of one's region (delta 0); ``delta`` is about the crowd.
    regions : float
        Number of regions.
    crowd : float
        Median crowd of a region.
    rounds : float
    messages : float
        Reports that a device sends.
    sent, received : float
        Bytes of protocol messages per device, without HTTP headers.
    mean_margin : float
        Half the width of the 95 % interval of the mean of ``function``, as a share of the function's range over the
        domain; values released with what the partition leaves of epsilon.
    function : str
    count_error : float
        Mean error of a count as a share of the participants: boxes around a random participant, with sides of 1 to 15 %
        of the domain.
    ranges : dict of tuples of float
        The smallest and the largest of the plays, by the names of ``regions``, ``crowd``, ``mean_margin`` and
        ``count_error``: how much they depend on where people live.
    partition : Partition
        Of the first play, for a picture.
    """

    n: int
    epsilon: float
    delta: float
    k: int
    regions: float
    crowd: float
    rounds: float
    messages: float
    sent: float
    received: float
    mean_margin: float
    function: str
    count_error: float
    ranges: dict[str, tuple[float, float]]
    partition: Partition

    __repr__ = short_repr

    @property
    def warning(self) -> str:
        """What to change if hardly anything would be learned; empty otherwise."""
        if self.regions >= _FEW:
            return ""
        return (
            f"About {number_of(round(self.regions), 'region')}: hardly anything is learned. Ask more people, take a "
            "larger epsilon, or trust two servers."
        )

    def lines(self) -> list[str]:
        """A table for a person, and a warning if there is one."""
        regions, crowd = (self._ranged(name, "{:.0f}".format) for name in ("regions", "crowd"))
        margin, counted = (self._ranged(name, _percent) for name in ("mean_margin", "count_error"))
        rows = [
            ("participants", f"{self.n}"),
            ("promise", promise(self.partition.task, participants=self.n).sentence()),
            ("regions", f"{regions}, median crowd {crowd}"),
            ("rounds", f"{self.rounds:.0f}; a device sends {self.messages:.1f} reports"),
            ("bytes per device", f"{self.sent:,.0f} sent, {self.received:,.0f} received"),
            (f"mean of {self.function}", f"half the 95 % interval is {margin} of its range"),
            (
                "error of a count",
                f"about {number_of(round(self.count_error * self.n), 'person', 'people')} in boxes around people; "
                f"as a share of all {counted}",
            ),
        ]
        width = max(len(name) for name, _ in rows)
        return [f"{name:<{width}}  {text}" for name, text in rows] + ([self.warning] if self.warning else [])

    def _ranged(self, name: str, text: Callable[[float], str]) -> str:
        """A number, with the smallest and the largest of the plays in brackets if they differ in print."""
        number, low, high = (text(value) for value in (getattr(self, name), *self.ranges[name]))
        ends = high if low == high else f"{low.removesuffix(' %')} to {high}"
        return number if number == ends else f"{number} ({ends})"


def _percent(share: float) -> str:
    """A share to two digits."""
    return f"{float(f'{100 * share:.2g}'):.9f}".rstrip("0").rstrip(".") + " %"


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
    density: Density, box: Box, *, n: int, epsilon: float, delta: float = DELTA, k: int = K, rng: np.random.Generator,
    function: functions.BoundedFunction | None = None, plays: int = _PLAYS, queries: int = _QUERIES, **options: Any,
) -> Forecast:  # fmt: skip
    """Predict a collection of n participants.

    Parameters
    ----------
    density : callable
        ``density(n, rng)`` gives a reference population: float64[n, d]. See :func:`density_of`.
    box : Box
    n : int
        Participants.
    epsilon, delta, k
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
    >>> plan = forecast(density_of("uniform", box), box, n=5000, epsilon=1.0, rng=np.random.default_rng(1), plays=2)
    >>> plan.regions > 8, plan.messages < 15, plan.warning
    (True, True, '')
    """
    if n < 1 or plays < 1 or queries < 0:
        raise InvalidInput(f"n and plays must be at least 1, queries 0; got {n}, {plays} and {queries}")
    wanted = [functions.coordinate(axis) for axis in range(box.dimensions)] if function is None else [function]
    task = Task.build(box, epsilon=epsilon, delta=delta, k=k, **options)
    rows, first = [], None
    for _ in range(plays):
        points = density(n, rng)
        run = simulate(points, task, rng=rng)
        first = run.partition if first is None else first
        error = math.nan
        if queries:
            boxes = _boxes(queries, points, box, rng)
            error = float(np.abs(release.counts(run).answer(boxes).value - count_points(points, boxes)).mean()) / n
        margin = _margin(points, wanted, box, epsilon, delta, k, rng, options)
        rows.append(
            (len(run.partition), float(np.median(run.partition.crowds)), margin, error, run.rounds,
             (run.answers + run.announcements) / n, *traffic(run))
        )  # fmt: skip
    assert first is not None
    found = np.array(rows, dtype=np.float64)
    columns = {"regions": 0, "crowd": 1, "mean_margin": 2, "count_error": 3}
    ranges = {name: (float(found[:, row].min()), float(found[:, row].max())) for name, row in columns.items()}
    regions, _, _, error, rounds, messages, sent, received = found.mean(axis=0).tolist()
    crowd, margin = np.median(found[:, 1:3], axis=0).tolist()
    return Forecast(
        n, float(epsilon), delta, k, regions, crowd, rounds, messages, sent, received, margin,
        "a coordinate" if function is None else function.name, error, ranges, first,
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


def _margin(
    points: Floats, wanted: list[functions.BoundedFunction], box: Box, epsilon: float, delta: float, k: int,
    rng: np.random.Generator, options: dict[str, Any],
) -> float:  # fmt: skip
    """Half the 95 % interval of means given one partition, as shares of the functions' ranges; the average."""
    done = Job(
        question="mean", data=points, f=wanted[0], box=box, epsilon=epsilon, trust="nobody", delta=delta, k=k, rng=rng,
        options=options,
    ).run()  # fmt: skip
    assert done.split is not None
    others = [release.mean(done.run, points, f, epsilon=done.split.value, rng=rng) for f in wanted[1:]]
    rows = []
    for f, found in zip(wanted, [done.result, *others], strict=True):
        lowest, highest = f.range_over(np.array([[box.lower, box.upper]]))[0]
        low, high = found.interval()
        rows.append((high - low) / 2 / (highest - lowest or 1.0))
    return float(np.mean(rows))


def _boxes(queries: int, points: Floats, box: Box, rng: np.random.Generator) -> Floats:
    """Boxes around random participants."""
    middle = points[rng.integers(0, len(points), queries)]
    half = rng.uniform(*_SIDES, middle.shape) * (np.array(box.upper) - np.array(box.lower)) / 2
    return np.stack([middle - half, middle + half], axis=1)


def traffic(run: Run) -> tuple[float, float]:
    """Bytes that one device sends and receives, on average: messages of the protocol, estimated from what was asked.

    It sends its reports. It reads every query and closing, and the slices of its own regions: above all the
    announcements of everybody in them.
    """
    task, n, partition = run.task, run.participants, run.partition
    lower, upper = task.hierarchy.ends
    middle = (lower + upper) // 2
    question = Question(lower, upper, (middle,), 100, 0, 30, 10, 40)
    closing = Closed(
        task.id, 10, (Head(lower, upper, 30, bytes(32)),), (Verdict("wall", (9, 9)),), bytes(32), False
    )  # fmt: skip
    said = Slice(task.id, 10, lower, upper, (Entry(bytes(16), 1, bytes(16)),))
    report = len(encode(Report(task.id, 10, bytes(16), lower, upper, 1, bytes(16))))
    each = len(encode(Query(task.id, 10, ()))) + len(encode(msgspec.structs.replace(closing, heads=(), verdicts=())))
    asked = len(encode(Query(task.id, 10, (question,)))) + len(encode(closing)) - each
    entry = len(encode(said)) - len(encode(msgspec.structs.replace(said, entries=())))
    before = np.concatenate([[0], np.cumsum(partition.crowds)])
    codes = np.append(partition.lower, partition.upper[-1:])
    members = sum(
        (before[np.searchsorted(codes, end)] - before[np.searchsorted(codes, start)]).astype(np.float64) ** 2
        for start, end in ((run.splits.lower, run.splits.cut), (run.splits.cut, run.splits.upper))
    )
    questions = 2 * (len(run.splits.cut) + len(partition.walls.cuts))  # two portions each
    slices = n + float(np.sum(members)) / n + run.answers / max(1, len(partition))
    return report * (run.answers + run.announcements) / n, each * run.rounds + asked * questions + entry * slices
