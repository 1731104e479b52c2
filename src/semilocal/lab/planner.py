"""The planner: what a collection will give, before anybody is asked, with each of the three kinds of trust.

It plays a few times on a *reference population* drawn from a stated density (even, towns, positions in a file that are
public, or an earlier map), and asks about boxes around people. Predictions are as good as the density: they say nothing
about people who live elsewhere. Private positions must never be used as a reference. The page "How accurate is it?" is
printed from the same forecasts.

Knows densities and the one-call jobs. Knows no participants.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, short_repr
from ..errors import InvalidInput, WeakWarning
from ..geometry.box import Box
from ..protocol.promise import Trust, promise
from ..protocol.task import DELTA, K, Task
from ..release.counts import Mapped
from ..release.job import Job
from ..simulation import synthetic
from ..words import number_of
from .baselines.boxes import count_points

__all__ = [
    "CAUTION", "CAUTION_KNOWN", "NAMED", "PLAYS", "SIZES", "TOWNS", "TRUSTS", "Forecast", "boxes_around", "cheapest",
    "density_of", "forecast", "mapped", "resampled",
]  # fmt: skip

Density = Callable[[int, np.random.Generator], Floats]
TRUSTS: dict[Trust, str] = {"nobody": "nobody trusted", "two-servers": "two servers", "curator": "a curator"}
SIZES = (50, 500, 5_000)  # people in a box
# How clumped people are (`synthetic.towns`): from the least to the most, drawn for every play.
TOWNS = {"spread": (0.58, 0.66), "clustered": (0.58, 0.86), "clumped": (0.76, 0.86)}
CAUTION = (
    "In brackets: the smallest and the largest of the plays. Errors depend on where people live. On seven files of\n"
    "real positions (20,000 people, epsilon 1 and 2) they were 0.9 to 1.9 times the forecast with a curator or two\n"
    "servers, 0.8 to 3.4 times with nobody trusted; regions were 0.5 to 1.2 times it. Say how people live, and it is\n"
    "nearer: --density spread (homes in a state, trips in a city: errors 0.9 to 1.8 times, regions 0.9 to 1.1),\n"
    "--density clumped (check-ins over the world: 0.8 to 1.6 times, nobody trusted 1.0 to 2.4, regions 0.7 to 1.1),\n"
    "or best of all positions of other people of the same place, or a map that was collected there: --density FILE."
)
NAMED = ("uniform", *TOWNS)  # densities that know nothing of the place
CAUTION_KNOWN = (
    "In brackets: the smallest and the largest of the plays. The forecast is for people who live as these do. On\n"
    "seven files one half of the people forecast the other (10,000 or 20,000, epsilon 1 and 2). From positions:\n"
    "errors with nobody trusted were 0.85 to 1.4 times the forecast, with a curator or two servers 0.75 to 1.6,\n"
    "regions 0.8 to 1.15. From a map at epsilon 1 of a curator or two servers: 0.75 to 1.7, 0.8 to 2.1 and 0.8 to\n"
    "1.2; from one where nobody was trusted 1.1 to 2.8, 0.9 to 2.7 and 0.8 to 1.1. A map says little about places\n"
    "smaller than its cells."
)
PLAYS = 12
_QUERIES = 100  # boxes of each size in a play
_SHORTEST = 1e-4  # side of a box, as a share of the domain's
_FEW = 8  # regions: hardly anything is learned


@dataclass(frozen=True, eq=False)
class Forecast:
    """What to expect of a task.

    Attributes
    ----------
    n : int
    epsilon, delta, k
        As asked for. Where nobody is trusted ``epsilon`` is the loss between any two places of one's region (delta 0),
        else between any two places at all; ``delta`` and ``k`` are about the crowd of a region.
    plays : dict of float64[plays]
        What each play gave where nobody is trusted: "regions", "crowd" (the median of a region), "rounds", and
        "messages", which a device sends.
    errors : dict of float64[plays, 3]
        By trust: mean error, in people, of squares around random participants that hold as many as `SIZES` says; NaN
        where that is more than half of all.
    """

    n: int
    epsilon: float
    delta: float
    k: int
    plays: Mapping[str, Floats]
    errors: Mapping[Trust, Floats]
    promised: str

    __repr__ = short_repr

    @property
    def warning(self) -> str:
        """What to change if hardly anything would be learned; empty otherwise."""
        regions = round(float(self.plays["regions"].mean()))
        if regions >= _FEW:
            return ""
        return (
            f"About {number_of(regions, 'region')}: hardly anything is learned. Ask more people, take a larger "
            "epsilon, or trust two servers."
        )

    def lines(self) -> list[str]:
        """A table for a person, and a warning if there is one."""
        whole = "{:,.0f}".format
        regions, crowd, rounds, messages = (self.plays[name] for name in ("regions", "crowd", "rounds", "messages"))
        rows = [
            ("participants", f"{self.n}"),
            ("promise", self.promised),
            ("regions", f"{_ranged(regions, whole)}, median crowd {_ranged(crowd, whole)}"),
            ("rounds", f"{rounds.mean():.0f}; a device sends {messages.mean():.1f} reports"),
            ("error of a box", "".join(f"{f'of {size:,} people':<24}" for size in SIZES)),
        ]
        for trust, words in TRUSTS.items():
            rows.append((f"  {words}", "".join(f"{_ranged(column):<24}" for column in self.errors[trust].T)))
        width = max(len(name) for name, _ in rows)
        return [f"{name:<{width}}  {text}".rstrip() for name, text in rows] + ([self.warning] if self.warning else [])


def rounded(number: float) -> str:
    """A number of people to two digits, or a dash.

    Examples
    --------
    >>> rounded(1234.5), rounded(3.14159), rounded(math.nan)
    ('1,200', '3.1', '–')
    """
    return "–" if math.isnan(number) else f"{float(f'{number:.2g}'):,.{0 if number >= 9.95 else 1}f}"


def _ranged(plays: Floats, text: Callable[[float], str] = rounded) -> str:
    """The mean of the plays, with the smallest and the largest in brackets if they differ in print."""
    middle, low, high = (text(float(number)) for number in (plays.mean(), plays.min(), plays.max()))
    return middle if low == high else f"{middle} ({low} to {high})"


def density_of(name: str, box: Box) -> Density:
    """A density over a box by name: "uniform", or made-up towns (:func:`semilocal.simulation.synthetic.towns`).

    Towns are drawn again in each play, and so is how clumped they are: "spread", as homes in a state or check-ins in a
    city; "clumped", as check-ins over the world; "clustered", from one to the other.
    """
    if name == "uniform":
        return lambda n, rng: synthetic.uniform(n, rng, box=box)
    if name not in TOWNS:
        raise InvalidInput(f"density must be one of {', '.join(NAMED)}, or a file of positions or a map; got {name!r}")
    return lambda n, rng: synthetic.towns(n, rng, box=box, together=rng.uniform(*TOWNS[name]))


def resampled(points: npt.ArrayLike, box: Box) -> Density:
    """A density that draws from public positions: each at most once if there are enough, else with replacement."""
    checked = box.check(points)
    if not len(checked):
        raise InvalidInput("the reference holds no positions; give a file with some, or a named density")
    return lambda n, rng: rng.choice(checked, n, replace=n > len(checked))


def mapped(counts: Mapped, box: Box) -> Density:
    """A density that draws made-up people from a map, such as :func:`semilocal.load` reads: of an earlier collection.

    Parts of the map get people by its estimates. Inside one they lie as clumped as the map's own model has it, at every
    scale: each half of a place gets a random share (Beta), as in :func:`semilocal.simulation.synthetic.towns`.
    """
    tree, known = counts.tree, counts.partition.task.box
    if not tree.hierarchy.cells_are_boxes:
        raise InvalidInput("the map of the reference must be one of a box, not of the Earth or a table of labels")
    if (known.lower, known.upper) != (box.lower, box.upper):
        corners = ",".join(f"{number:g}" for number in (*known.lower, *known.upper))
        raise InvalidInput(f"the map of the reference is one of another domain; give --bounds {corners}")
    low, size = np.array(box.lower), np.array(box.upper) - np.array(box.lower)
    leaf = tree.leaves[tree.parts.piece]
    people, clumped = tree.people[leaf] * tree.parts.share, tree.clumped[leaf]
    corners = (tree.hierarchy.boxes(tree.parts.cells) - low) / size

    def draw(n: int, rng: np.random.Generator) -> Floats:
        unit = _scattered(corners[:, 0], corners[:, 1], rng.multinomial(n, people / people.sum()), clumped, rng)
        return np.asarray(np.clip(low + rng.permutation(unit) * size, box.lower, box.upper))

    return draw


def _scattered(lower: Floats, upper: Floats, people: Integers, clumped: Floats, rng: np.random.Generator) -> Floats:
    """People in boxes of the unit cube, float64[m, d] each: float64[sum of people, d].

    A box with several is halved along its longest side until it is as small as a question can be.
    """
    done = []
    while True:
        whole = (people == 1) | ((upper - lower).max(axis=1) < _SHORTEST / 2)
        taken, rows = np.flatnonzero(whole & (people > 0)), np.flatnonzero(~whole & (people > 0))
        where = np.repeat(taken, people[taken])
        done.append(rng.uniform(lower[where], upper[where]))
        if not len(rows):
            return np.concatenate(done)
        lower, upper, people, clumped = lower[rows], upper[rows], people[rows], clumped[rows]
        axis, every = (upper - lower).argmax(axis=1), np.arange(len(rows))
        middle = (lower[every, axis] + upper[every, axis]) / 2
        evenness = (1.0 / np.clip(clumped, 1e-9, 1 - 1e-9) - 1.0) / 2.0
        first = rng.binomial(people, rng.beta(evenness, evenness))
        below, above = upper.copy(), lower.copy()
        below[every, axis] = above[every, axis] = middle
        lower, upper = np.concatenate([lower, above]), np.concatenate([below, upper])
        people, clumped = np.concatenate([first, people - first]), np.tile(clumped, 2)


def forecast(
    density: Density, box: Box, *, n: int, epsilon: float, delta: float = DELTA, k: int = K, plays: int = PLAYS,
    seed: int = 1, trusts: tuple[Trust, ...] = tuple(TRUSTS),
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
    plays : int
        Reference populations to average over.
    seed : int
        The same one gives the same people, whatever epsilon is.
    trusts : tuple of str
        Whom to trust; what is left out has no errors.

    Examples
    --------
    >>> box = Box((0, 0), (1, 1))
    >>> plan = forecast(density_of("uniform", box), box, n=5000, epsilon=1.0, plays=2)
    >>> plan.plays["regions"].min() > 8, plan.errors["curator"].shape, plan.warning
    (np.True_, (2, 3), '')
    """
    if n < 1 or plays < 1:
        raise InvalidInput(f"n and plays must be at least 1; got {n} and {plays}")
    task = Task.build(box, epsilon=epsilon, delta=delta, k=k)
    found: dict[str, list[float]] = {"regions": [], "crowd": [], "rounds": [], "messages": []}
    errors: dict[Trust, list[Floats]] = {trust: [] for trust in trusts}
    for play in range(plays):
        points, boxes, truth = _asked(density, box, n, seed, play)
        for place, trust in enumerate(trusts):
            alone, rng = trust == "nobody", np.random.default_rng([seed, play, 1 + place])
            job = Job(
                question="counts", data=points, box=box, epsilon=epsilon, trust=trust, rng=rng,
                delta=delta if alone else None, k=k if alone else None,
            )  # fmt: skip
            with warnings.catch_warnings(action="ignore", category=WeakWarning):  # the forecast says so itself
                done = job.run()
            off = np.abs(done.result.answer(boxes.reshape(-1, 2, box.dimensions)).value - truth.ravel())
            errors[trust].append(off.reshape(truth.shape).mean(axis=1))
            if alone:
                run = done.run
                sent = (run.answers + run.announcements) / n
                numbers = len(run.partition), float(np.median(run.partition.crowds)), run.rounds, sent
                for name, number in zip(found, numbers, strict=True):
                    found[name].append(number)
    small = np.array([1.0 if 2 * size <= n else math.nan for size in SIZES])
    return Forecast(
        n, float(epsilon), delta, k, {name: np.array(column) for name, column in found.items()},
        {trust: np.array(rows) * small for trust, rows in errors.items()}, promise(task, participants=n).sentence(),
    )  # fmt: skip


@functools.lru_cache(maxsize=PLAYS)
def _asked(density: Density, box: Box, n: int, seed: int, play: int) -> tuple[Floats, Floats, Integers]:
    """A reference population, the boxes to ask about, float64[sizes, queries, 2, d], and their true counts."""
    rng = np.random.default_rng([seed, play])
    points = density(n, rng)
    boxes = boxes_around(points, box, rng)
    return points, boxes, count_points(points, boxes.reshape(-1, 2, box.dimensions)).reshape(boxes.shape[:2])


def boxes_around(points: Floats, box: Box, rng: np.random.Generator, queries: int = _QUERIES) -> Floats:
    """Squares around random participants that hold as many people as `SIZES` says: float64[sizes, queries, 2, d].

    A square is one of the domain scaled to the unit cube. Participants whose square would be smaller than that of a
    house block in a state come last: where the most people are, all of them may be at one place.
    """
    from scipy.spatial import KDTree

    low, size = np.array(box.lower), np.array(box.upper) - np.array(box.lower)
    unit = (points - low) / size
    middle = unit[rng.integers(0, len(points), 4 * queries)]
    wanted = [min(people, len(points)) for people in SIZES]
    far = np.maximum(KDTree(unit).query(middle, k=wanted, p=np.inf)[0] * (1 + 1e-9), _SHORTEST / 2)
    squares = []
    for half in far.T:
        first = np.argsort(half == _SHORTEST / 2, kind="stable")[:queries]
        squares.append(np.stack([middle[first] - half[first, None], middle[first] + half[first, None]], axis=1))
    return np.asarray(low + size * np.array(squares))


def cheapest(make: Callable[[float], Forecast], *, target: float, trust: Trust = "nobody") -> Forecast | None:
    """The forecast with the smallest epsilon (to 5 %) whose boxes of 500 people are off by at most ``target`` people.

    ``make(epsilon)`` gives a forecast; with the same seed each time errors fall smoothly. None if no epsilon up to 20
    is enough.
    """

    def enough(plan: Forecast) -> bool:
        return float(plan.errors[trust][:, 1].mean()) <= target

    low, high = 0.05, 20.0
    best = make(high)
    if not enough(best):
        return None
    while high > low * 1.05:
        middle = math.sqrt(low * high)
        plan = make(middle)
        if enough(plan):
            best, high = plan, middle
        else:
            low = middle
    return best
