"""The methods of the experiments: one table with the look of each, and how it releases means, counts and points.

A new baseline is one row here. What a row promises comes from a run of it: a `Guarantee` at ε = 1, whose numbers are
multiples of the ε on a figure's axis. Knows tasks, releases and baselines. Knows no figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from ...arrays import Floats, Integers
from ...errors import InvalidInput
from ...functions import BoundedFunction, squared_norm
from ...geometry.box import Box
from ...protocol.partition import Partition
from ...protocol.promise import Guarantee, Trust, promise
from ...protocol.task import Task
from ...release import job
from ...simulation.simulate import simulate
from ...simulation.synthetic import UNIT_SQUARE, uniform
from .. import baselines
from ..baselines import PublishedRegions

DELTA = 0.05  # the paper's; a deployment takes far less
CROWD = 20  # the paper's k in most experiments
PAPER_SHARE = 0.5  # of ε that the paper gives to the partition; the rest goes to values, or to noise on counts
# Levels of the paper's quadtrees. Its code allows 40 for means, which no run reaches. For real data it names none:
# with 10, as on its clusters, the published rule's error on Gowalla is up to twice that with 16.
DEPTHS = {"density": 15, "mean": 30, "clusters": 10, "real": 16}
ENOUGH = 20_000  # participants of the run that is asked for its promise: so many that a partition pays for values

Purpose: TypeAlias = Literal["values", "counts", "points"]
Queries: TypeAlias = Callable[[npt.ArrayLike], Floats]
Regions: TypeAlias = Partition | PublishedRegions  # both have ``crowds``


class At(NamedTuple):
    """Where a method runs: the domain, ε of the axis, k, its randomness, the depth of the paper's quadtrees, δ.

    ``finest``: nobody can tell places apart that are in one of 2**finest cells on each axis; None: no such limit.
    """

    box: Box
    epsilon: float
    k: int
    rng: np.random.Generator
    depth: int
    delta: float = DELTA
    finest: int | None = None

    @property
    def left(self) -> float:
        """What the paper leaves of ε for values, or for noise on counts."""
        return (1 - PAPER_SHARE) * self.epsilon


class Released(NamedTuple):
    """What a method gave, what it promises, and the regions if there are any.

    ``result`` is (value, standard error) of a mean; something that answers boxes; everybody's values float64[n]; or
    positions and what is known of their owners (labels).
    """

    result: Any
    guarantee: Guarantee
    regions: Regions | None = None


Mean: TypeAlias = Callable[[Floats, BoundedFunction, At], Released]
Count: TypeAlias = Callable[[Floats, At], Released]
Move: TypeAlias = Callable[[Floats, Integers, At], Released]


# -- ours, through the package's one-call functions ------------------------------------------------------------------
#
# Where somebody is trusted, ε of the axis is what PrivTree's is for counts and points: the loss if a person is added or
# removed (the number of reports is public), so that any move costs 2 ε. For means it is that of central DP: ε for any
# move.


def _options(trust: Trust, at: At, moves: int = 1) -> dict[str, Any]:
    if trust == "nobody":
        return {"trust": trust, "epsilon": at.epsilon, "delta": at.delta, "k": at.k, "rng": at.rng}
    return {"trust": trust, "epsilon": moves * at.epsilon, "rng": at.rng}


def _of_people(trust: Trust, at: At) -> Guarantee:
    """The promise of a tree of counts, with what taking part costs."""
    return Guarantee.plain(trust, 2 * at.epsilon, presence=at.epsilon)


def our_mean(points: Floats, f: BoundedFunction, at: At, *, trust: Trust) -> Released:
    """The mean of a function."""
    found: Any = job.mean(points, f, at.box, **_options(trust, at))
    return Released((found.value, found.stderr), found.guarantee, found.partition if trust == "nobody" else None)


def our_values(points: Floats, f: BoundedFunction, at: At) -> Released:
    """Everybody's released value."""
    found = job.values(points, f, at.box, epsilon=at.epsilon, delta=at.delta, k=at.k, rng=at.rng)
    return Released(found.value, found.guarantee, found.partition)


def our_counts(points: Floats, at: At, *, trust: Trust) -> Released:
    """Something that answers range queries; boxes around people reach beyond the domain, and should not warn."""
    depth = None if at.finest is None else 2 * at.finest
    found: Any = job.counts(points, at.box, max_depth=depth, **_options(trust, at, moves=2))
    if trust == "nobody":
        return Released(lambda boxes: found.answer(boxes).value, found.guarantee, found.partition)
    return Released(lambda boxes: found.answer(boxes).value, _of_people(trust, at))


def our_points(points: Floats, labels: Integers, at: At, *, trust: Trust) -> Released:
    """Everybody at the estimated centre of their region; or synthetic points of every class, from its own tree.

    Labels are public in this experiment.
    """
    options = _options(trust, at, moves=2)
    if trust == "nobody":
        found: Any = job.points(points, at.box, **options)
        return Released((found.points, labels), found.guarantee, found.partition)
    classes = np.unique(labels)
    drawn = [job.points(points[labels == label], at.box, **options) for label in classes]
    repeated = np.repeat(classes, [len(one.points) for one in drawn])
    return Released((np.concatenate([one.points for one in drawn]), repeated), _of_people(trust, at))


# -- the paper's rule, and that of its published code ----------------------------------------------------------------


def paper_regions(points: Floats, at: At, share: float) -> PublishedRegions:
    """Regions by the paper's rule with a share of ε: a cell is split if every child passes."""
    task = Task.paper(at.box, epsilon=share * at.epsilon, delta=at.delta, k=at.k, max_depth=at.depth)
    run = simulate(points, task, rng=at.rng)
    return PublishedRegions(at.box, run.partition.boxes, run.partition.crowds, run.regions, promise(task))


def published_regions(points: Floats, at: At, share: float) -> PublishedRegions:
    """Regions by the published code's rule with a share of ε: every child goes on by itself."""
    return baselines.published(
        points, at.box, epsilon=share * at.epsilon, delta=at.delta, k=at.k, max_depth=at.depth, rng=at.rng
    )


Rule: TypeAlias = Callable[[Floats, At, float], PublishedRegions]


def paper_values(points: Floats, f: BoundedFunction, at: At, *, rule: Rule, mean: bool) -> Released:
    """Everybody's noisy value, or the mean of them."""
    regions = rule(points, at, PAPER_SHARE)
    if not mean:
        noisy = regions.values(points, f, epsilon=at.left, rng=at.rng)[0]
        return Released(noisy, regions.with_release("values", at.left), regions)
    found = regions.mean(points, f, epsilon=at.left, rng=at.rng)
    return Released((found.value, found.stderr), found.guarantee, regions)


def paper_counts(points: Floats, at: At, *, rule: Rule) -> Released:
    """Crowds with noise."""
    regions = rule(points, at, PAPER_SHARE)
    found = regions.counts(epsilon=at.left, rng=at.rng)
    return Released(found.query, found.guarantee, regions)


def paper_points(points: Floats, labels: Integers, at: At, *, rule: Rule, drawn: bool = False) -> Released:
    """Everybody at the middle of their region, which costs nothing beyond it; or at a draw around that."""
    regions = rule(points, at, PAPER_SHARE if drawn else 1.0)
    found = regions.draws(epsilon=at.left, rng=at.rng) if drawn else regions.centres()
    return Released((found.points, labels), found.guarantee, regions)


# -- baselines -------------------------------------------------------------------------------------------------------


def plain_mean(points: Floats, f: BoundedFunction, at: At, *, make: Callable[..., baselines.MeanEstimate]) -> Released:
    """A baseline for means."""
    found = make(points, f, at.box, epsilon=at.epsilon, rng=at.rng)
    return Released((found.value, found.stderr), found.guarantee)


def laplace_values(points: Floats, f: BoundedFunction, at: At) -> Released:
    """Values with Laplace noise for the range of the function over the whole domain."""
    low, high = f.range_over(np.array([[at.box.lower, at.box.upper]]))[0]
    noisy = f(points) + at.rng.laplace(scale=(high - low) / at.epsilon, size=len(points))
    return Released(np.asarray(noisy), Guarantee.plain("nobody", at.epsilon))


Counted: TypeAlias = Callable[..., baselines.SpatialCounts | baselines.GridCounts]


def plain_counts(points: Floats, at: At, *, make: Counted) -> Released:
    """A baseline for counts."""
    depth = {} if at.finest is None else {"max_depth": at.finest}
    found = make(points, at.box, epsilon=at.epsilon, rng=at.rng, **depth)
    return Released(found.query, found.guarantee)


def plain_points(points: Floats, labels: Integers, at: At, *, make: Callable[..., Any]) -> Released:
    """A baseline that moves every position at random."""
    found = make(points, at.box, epsilon=at.epsilon, rng=at.rng)
    return Released((found.points, labels), found.guarantee)


def fixed_counts(points: Floats, at: At, *, people: int | None = None) -> Released:
    """So many people (all if None; N is public) spread evenly over the domain: it says nothing about anybody."""
    x, y = (np.array(side) for side in zip(at.box.lower, at.box.upper, strict=True))
    number = np.full((1, 1), len(points) if people is None else people)
    found = baselines.GridCounts((x, y), number, Guarantee.plain("nobody", 0.0))
    return Released(found.query, found.guarantee)


# -- the table -------------------------------------------------------------------------------------------------------


class Look(NamedTuple):
    """The look of a method: a name for people, colour, marker, line, whether the marker is filled, width in points."""

    name: str
    colour: str
    marker: str
    dashes: str
    filled: bool = True
    width: float = 1.4


class Method(NamedTuple):
    """One method: its look, and how it releases means, everybody's value, counts and points; None if it does not.

    ``notes`` replaces what a promise notes: what a task notes for devices does not concern a simulation.
    """

    look: Look
    values: Mean | None = None
    each: Mean | None = None
    counts: Count | None = None
    points: Move | None = None
    notes: Mapping[Purpose, str] = MappingProxyType({})


def _ours(look: Look, trust: Trust) -> Method:
    note = "" if trust == "nobody" else "the number of reports is public"
    return Method(
        look,
        values=partial(our_mean, trust=trust),
        each=our_values if trust == "nobody" else None,
        counts=partial(our_counts, trust=trust),
        points=partial(our_points, trust=trust),
        notes={"values": "", "counts": note, "points": note},
    )


def _papers(look: Look, rule: Rule, note: str, counts: str, *, points: bool) -> Method:
    return Method(
        look,
        values=partial(paper_values, rule=rule, mean=True),
        each=partial(paper_values, rule=rule, mean=False),
        counts=partial(paper_counts, rule=rule),
        points=partial(paper_points, rule=rule) if points else None,
        notes={"values": note, "counts": f"{counts}; {note}", "points": f"region centres; {note}"},
    )


def _answers(look: Look, make: Counted) -> Method:
    return Method(look, counts=partial(plain_counts, make=make))


def _moves(look: Look, note: str, **way: Any) -> Method:
    return Method(
        look, points=partial(paper_points, rule=published_regions, **way), notes={"points": f"{note}; {_ALONE}"}
    )


_MARGIN = "the printed margin holds at δ = 0.05, not for small δ"
_ALONE = "a region may hold one person"
_PUBLIC = "its noise on public counts buys nothing"
_NO_COVER = "noise on counts protects no position"
_DRAWN = "the draw around a centre does not look at the position"
_CODE = Look("published code's rule", "#ef6548", "s", "-.", filled=False)
_TWO = Look("semilocal, two servers", "#41ab5d", ">", "--", filled=False, width=2.0)
_SETTLED = Look("PrivTree with our estimator (trusted curator)", "#5aae61", "^", "--", filled=False)

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "ours": _ours(Look("semilocal, nobody trusted", "#08519c", "o", "-", width=2.0), "nobody"),
        "pooled-curator": _ours(Look("semilocal, curator", "#006d2c", ">", "-", width=2.0), "curator"),
        "pooled-servers": _ours(_TWO, "two-servers"),
        "paper": _papers(Look("paper's rule", "#a50f15", "s", ":"), paper_regions, _MARGIN, _PUBLIC, points=True),
        "published": _papers(_CODE, published_regions, _ALONE, _NO_COVER, points=False),
        "central": Method(
            Look("central DP (trusted curator)", "#000000", "*", "-"),
            values=partial(plain_mean, make=baselines.central_mean),
        ),
        "privtree": _answers(Look("PrivTree (trusted curator)", "#1b7837", "^", "-"), baselines.privtree),
        "privtree-settled": _answers(_SETTLED, baselines.privtree_settled),
        "identity": _answers(Look("every cell with noise (trusted curator)", "#525252", "8", ":"), baselines.identity),
        "ugrid": _answers(Look("UGrid (trusted curator)", "#c51b7d", "<", "--", filled=False), baselines.ugrid),
        "agrid": _answers(Look("AGrid (trusted curator)", "#8e0152", "<", "-"), baselines.agrid),
        "dawa": _answers(Look("DAWA (trusted curator)", "#b35806", "d", "-"), baselines.dawa),
        "heatmap": _answers(Look("heat map by secure aggregation", "#4393c3", "H", "-."), baselines.heatmap),
        "ldp": Method(
            Look("local DP", "#7f7f7f", "v", "--"),
            values=partial(plain_mean, make=baselines.local_mean),
            each=laplace_values,
            points=partial(plain_points, make=baselines.laplace_points),
        ),
        "ldp-kdtree": _answers(Look("LDP kd-tree", "#b58ac6", "D", "-.", filled=False), baselines.ldp_kdtree),
        "ahead": _answers(Look("AHEAD (local DP)", "#d09a00", "P", "--"), baselines.ahead),
        "geo": Method(
            Look("planar Laplace", "#35978f", "X", "-."), points=partial(plain_points, make=baselines.planar_laplace)
        ),
        "sldp-quantize": _moves(Look("SLDP-Quantization", "#3f2d8f", "h", "-"), "region centres"),
        "sldp-split": _moves(Look("SLDP-Split", "#8d86c9", "h", "--", filled=False), _DRAWN, drawn=True),
        "even": Method(Look("even spread", "#7a7a7a", "None", "--"), counts=fixed_counts),
        "zero": Method(
            Look("answer 0", "#969696", "None", "-"),
            values=lambda points, f, at: Released((0.0, 0.0), Guarantee.plain("nobody", 0.0)),
            counts=partial(fixed_counts, people=0),
        ),
        "exact": Method(
            Look("no privacy", "#404040", "None", ":"),
            points=lambda points, labels, at: Released(
                (points, labels), Guarantee.plain("curator", None, notes=("positions as they are",))
            ),
        ),
    }
)


def look(name: str) -> Look:
    """The look of a method."""
    if name not in METHODS:
        raise InvalidInput(f"no method is called {name!r}; there are {', '.join(METHODS)}")
    return METHODS[name].look


def way_of(name: str, purpose: str) -> Callable[..., Released]:
    """How a method runs in a kind of experiment: "values", "each", "counts" or "points"."""
    ways: dict[str, Callable[..., Released] | None] = {one: getattr(METHODS[one], purpose) for one in METHODS}
    way = ways.get(name)
    if way is None:
        known = ", ".join(one for one in ways if ways[one] is not None)
        raise InvalidInput(f"{name!r} is not used for {purpose}; there are {known}")
    return way


@cache
def promise_of(name: str, purpose: Purpose) -> Guarantee:
    """What a method promises in a kind of experiment, at ε = 1.

    Examples
    --------
    >>> promise_of("published", "values").cost("ε")
    '1.5 ε inside'
    """
    way = way_of(name, purpose)
    at = At(UNIT_SQUARE, 1.0, CROWD, np.random.default_rng(0), DEPTHS["density"], DELTA)  # the draws are thrown away
    points = uniform(ENOUGH, at.rng)
    more: dict[Purpose, tuple[Any, ...]] = {"values": (squared_norm(),), "points": (np.zeros(ENOUGH, dtype=int),)}
    guarantee = way(points, *more.get(purpose, ()), at).guarantee
    note = METHODS[name].notes.get(purpose)
    return guarantee if note is None else msgspec.structs.replace(guarantee, notes=(note,) if note else ())


def crowd_kept(guarantee: Guarantee) -> bool | None:
    """Whether a crowd of k is promised; None where there are no regions."""
    return bool(guarantee.k) if guarantee.k or guarantee.adjacency == "inside" else None
