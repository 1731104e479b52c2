"""How a kind of method runs in an experiment, and what it promises there: ours, the paper's rules and the baselines.

Runs are started here and nowhere else, so that legends and tables state the promise of what runs: a `Guarantee` at
ε = 1, whose numbers are multiples of the ε on a figure's axis. Knows tasks, releases and baselines. Knows no figure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from ...arrays import Floats, Integers
from ...functions import BoundedFunction, squared_norm
from ...geometry.box import Box
from ...pooled.task import PooledTask, Trust
from ...protocol.partition import Partition
from ...protocol.promise import Guarantee, promise
from ...protocol.task import Task
from ...release import onecall
from ...release.answers import Answers
from ...release.pooled_counts import PooledCounts, pooled_counts, run_pooled
from ...release.pooled_mean import pooled_mean
from ...release.pooled_points import pooled_points
from ...simulation.simulate import simulate
from ...simulation.synthetic import UNIT_SQUARE, uniform
from .. import baselines
from ..baselines import PublishedRegions

__all__ = [
    "CROWD", "DELTA", "DEPTHS", "PAPER_SHARE", "At", "EstimatedMean", "Exact", "Ours", "Papers", "PlainCounts",
    "PlainPoints", "PlainValues", "Pooled", "Purpose", "Regions", "Way", "Zero", "laplace_values", "paper_regions",
    "published_regions",
]  # fmt: skip

DELTA = 0.05  # the paper's; a deployment takes far less
CROWD = 20  # the paper's k in most experiments
PAPER_SHARE = 0.5  # of ε that the paper gives to the partition; the rest goes to values, or to noise on counts
# Levels of the paper's quadtrees. Its code allows 40 for means, which no run reaches. For real data it names none:
# with 10, as on its clusters, the published rule's error on Gowalla is up to twice that with 16.
DEPTHS = {"density": 15, "mean": 30, "clusters": 10, "real": 16}
ENOUGH = 20_000  # participants of the run that is asked for its promise: so many that a partition pays for values

Purpose: TypeAlias = Literal["values", "counts", "points"]
Queries: TypeAlias = Callable[[npt.ArrayLike], Answers]
Regions: TypeAlias = Partition | PublishedRegions  # both have ``crowds``


class At(NamedTuple):
    """Where a method runs: the domain, ε of the axis, k, its randomness, the depth of the paper's quadtrees, δ."""

    box: Box
    epsilon: float
    k: int
    rng: np.random.Generator
    depth: int
    delta: float = DELTA


class EstimatedMean(NamedTuple):
    """An estimated mean, the variance that is known of it, and the regions if there are any."""

    value: float
    variance: float
    regions: Regions | None


def _example() -> At:
    """A setting to ask for promises; its draws are thrown away."""
    return At(UNIT_SQUARE, 1.0, CROWD, np.random.default_rng(0), DEPTHS["density"], DELTA)


def _noted(guarantee: Guarantee, note: str) -> Guarantee:
    """With this note alone: what a task notes for devices does not concern a simulation."""
    return msgspec.structs.replace(guarantee, notes=(note,) if note else ())


# -- the local protocol ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ours:
    """The local protocol through the package's one-call functions."""

    purpose: Purpose

    def promise(self) -> Guarantee:
        """The promise at ε = 1."""
        at = _example()
        points, options = uniform(ENOUGH, at.rng), _options(at)
        if self.purpose == "values":
            return _noted(onecall.mean(points, squared_norm(), at.box, trust="nobody", **options).guarantee, "")
        return _noted(onecall.counts(points, at.box, trust="nobody", **options).guarantee, "")

    def count(self, points: Floats, at: At) -> tuple[Queries, Regions | None]:
        """Something that answers range queries."""
        counted = onecall.counts(points, at.box, trust="nobody", **_options(at))
        return counted.answer, counted.partition  # boxes around people reach beyond the domain, and should not warn

    def mean(self, points: Floats, f: BoundedFunction, at: At) -> EstimatedMean:
        """The mean of a function."""
        estimate = onecall.mean(points, f, at.box, trust="nobody", **_options(at))
        return EstimatedMean(estimate.value, estimate.stderr**2, estimate.partition)

    def each(self, points: Floats, f: BoundedFunction, at: At) -> tuple[Floats, Regions | None]:
        """Everybody's released value."""
        released = onecall.values(points, f, at.box, **_options(at))
        return released.value, released.partition

    def points(self, points: Floats, at: At) -> tuple[Floats, Regions | None]:
        """Everybody at the estimated centre of their region."""
        released = onecall.points(points, at.box, trust="nobody", **_options(at))
        return released.points, released.partition


def _options(at: At) -> dict[str, Any]:
    return {"epsilon": at.epsilon, "delta": at.delta, "k": at.k, "rng": at.rng}


# -- the paper's rule, and that of its published code ----------------------------------------------------------------


def paper_regions(points: Floats, at: At, share: float) -> PublishedRegions:
    """Regions by the paper's rule with a share of ε: a cell is split if every child passes."""
    task = Task.paper(at.box, epsilon=share * at.epsilon, delta=at.delta, k=at.k, max_depth=at.depth)
    run = simulate(points, task, rng=at.rng)
    crowds = run.partition.crowds
    estimates = crowds.astype(np.float64)
    return PublishedRegions(at.box, run.partition.boxes, crowds, estimates, run.regions, promise(task))


def published_regions(points: Floats, at: At, share: float) -> PublishedRegions:
    """Regions by the published code's rule with a share of ε: every child goes on by itself."""
    return baselines.published(
        points, at.box, epsilon=share * at.epsilon, delta=at.delta, k=at.k, max_depth=at.depth, rng=at.rng
    )


@dataclass(frozen=True)
class Papers:
    """A rule of the paper with the releases of its published code; ``drawn``: points are draws around centres."""

    make: Callable[[Floats, At, float], PublishedRegions]
    purpose: Purpose
    note: str
    drawn: bool = False

    def promise(self) -> Guarantee:
        """The promise at ε = 1."""
        regions = self._regions(np.full((50, 2), 0.5), _example())
        values = self.purpose == "values"
        return _noted(regions.with_release("values", 1.0 - PAPER_SHARE) if values else regions.guarantee, self.note)

    def count(self, points: Floats, at: At) -> tuple[Queries, Regions | None]:
        """Something that answers range queries."""
        regions = self._regions(points, at)
        return regions.counts(epsilon=(1 - PAPER_SHARE) * at.epsilon, rng=at.rng).query, regions

    def mean(self, points: Floats, f: BoundedFunction, at: At) -> EstimatedMean:
        """The mean of a function."""
        regions = self._regions(points, at)
        estimate = regions.mean(points, f, epsilon=(1 - PAPER_SHARE) * at.epsilon, rng=at.rng)
        return EstimatedMean(estimate.value, estimate.stderr**2, regions)

    def each(self, points: Floats, f: BoundedFunction, at: At) -> tuple[Floats, Regions | None]:
        """Everybody's released value."""
        regions = self._regions(points, at)
        return regions.values(points, f, epsilon=(1 - PAPER_SHARE) * at.epsilon, rng=at.rng)[0], regions

    def points(self, points: Floats, at: At) -> tuple[Floats, Regions | None]:
        """Everybody's released position."""
        regions = self._regions(points, at)
        if self.drawn:
            return regions.draws(epsilon=(1 - PAPER_SHARE) * at.epsilon, rng=at.rng).points, regions
        return regions.centres().points, regions

    def _regions(self, points: Floats, at: At) -> PublishedRegions:
        whole = self.purpose == "points" and not self.drawn  # centres cost nothing beyond the regions
        return self.make(points, at, 1.0 if whole else PAPER_SHARE)


# -- the pooled tree: plain differential privacy -----------------------------------------------------------------------


@dataclass(frozen=True)
class Pooled:
    """The pooled tree with one noise (a curator) or two (two servers): counts, one noisy sum, synthetic points.

    For counts and points ε of the axis is what PrivTree's is: the loss if a person is added or removed (the number of
    reports is public), so that any move costs 2 ε. For means it is that of central DP: ε for any move.
    """

    trust: Trust
    purpose: Purpose

    def promise(self) -> Guarantee:
        """The promise at ε = 1."""
        if self.purpose == "values":
            return Guarantee.plain(self.trust, 1.0)
        return Guarantee.plain(self.trust, 2.0, presence=1.0, notes=("the number of reports is public",))

    def count(self, points: Floats, at: At) -> tuple[Queries, Regions | None]:
        """Something that answers range queries."""
        return self._counted(points, at).answer, None

    def mean(self, points: Floats, f: BoundedFunction, at: At) -> EstimatedMean:
        """The mean of a function: one sum, with each party's noise for the function's range over the domain."""
        estimate = pooled_mean(PooledTask.build(at.box, epsilon=at.epsilon, trust=self.trust), points, f, rng=at.rng)
        return EstimatedMean(estimate.value, estimate.stderr**2, None)

    def labelled(self, points: Floats, labels: Integers, at: At) -> tuple[Floats, Integers]:
        """Synthetic points of every class, drawn from that class's own tree; labels are public in this experiment."""
        classes = np.unique(labels)
        drawn = [pooled_points(self._counted(points[labels == label], at), rng=at.rng).points for label in classes]
        return np.concatenate(drawn), np.repeat(classes, [len(rows) for rows in drawn])

    def _counted(self, points: Floats, at: At) -> PooledCounts:
        task = PooledTask.build(at.box, epsilon=2 * at.epsilon, trust=self.trust)
        return pooled_counts(run_pooled(task, points, rng=at.rng))


# -- baselines -------------------------------------------------------------------------------------------------------


def laplace_values(points: Floats, f: BoundedFunction, at: At) -> Floats:
    """Values with Laplace noise for the range of the function over the whole domain."""
    low, high = f.range_over(np.array([[at.box.lower, at.box.upper]]))[0]
    return np.asarray(f(points) + at.rng.laplace(scale=(high - low) / at.epsilon, size=len(points)))


@dataclass(frozen=True)
class PlainValues:
    """A baseline for means, and perhaps one for everybody's value."""

    estimate: Callable[..., baselines.MeanEstimate]
    release: Callable[[Floats, BoundedFunction, At], Floats] | None = None

    def promise(self) -> Guarantee:
        """The promise at ε = 1."""
        at = _example()
        return self.estimate(np.full((50, 2), 0.5), squared_norm(), at.box, epsilon=1.0, rng=at.rng).guarantee

    def mean(self, points: Floats, f: BoundedFunction, at: At) -> EstimatedMean:
        """The mean of a function."""
        estimate = self.estimate(points, f, at.box, epsilon=at.epsilon, rng=at.rng)
        return EstimatedMean(estimate.value, estimate.stderr**2, None)

    def each(self, points: Floats, f: BoundedFunction, at: At) -> tuple[Floats, Regions | None]:
        """Everybody's released value."""
        assert self.release is not None
        return self.release(points, f, at), None


@dataclass(frozen=True)
class PlainCounts:
    """A baseline for counts; ``by_k`` says that it takes k and no ε."""

    make: Callable[..., baselines.SpatialCounts]
    by_k: bool = False
    note: str = ""

    def promise(self) -> Guarantee:
        """The promise at ε = 1."""
        guarantee = self._run(np.full((50, 2), 0.5), _example()).guarantee
        return _noted(guarantee, self.note) if self.note else guarantee

    def count(self, points: Floats, at: At) -> tuple[Queries, Regions | None]:
        """Something that answers range queries."""
        return self._run(points, at).query, None

    def _run(self, points: Floats, at: At) -> baselines.SpatialCounts:
        options: dict[str, Any] = {"k": at.k} if self.by_k else {"epsilon": at.epsilon, "rng": at.rng}
        return self.make(points, at.box, **options)


@dataclass(frozen=True)
class PlainPoints:
    """A baseline that moves every position at random."""

    make: Callable[..., baselines.ReleasedPoints]

    def promise(self) -> Guarantee:
        """The promise at ε = 1."""
        at = _example()
        return self.make(np.full((50, 2), 0.5), at.box, epsilon=1.0, rng=at.rng).guarantee

    def points(self, points: Floats, at: At) -> tuple[Floats, Regions | None]:
        """Everybody's released position."""
        return self.make(points, at.box, epsilon=at.epsilon, rng=at.rng).points, None


class Exact:
    """Positions as they are."""

    def promise(self) -> Guarantee:
        """No promise."""
        return Guarantee.plain("curator", None, notes=("positions as they are",))

    def points(self, points: Floats, at: At) -> tuple[Floats, Regions | None]:
        """The positions."""
        return points, None


class Zero:
    """Answers 0 to every question: the error to stay below."""

    def promise(self) -> Guarantee:
        """It says nothing about anybody."""
        return Guarantee.plain("nobody", 0.0)

    def count(self, points: Floats, at: At) -> tuple[Queries, Regions | None]:
        """Something that answers range queries."""
        return lambda boxes: Answers(*np.zeros((2, len(np.asarray(boxes))))), None

    def mean(self, points: Floats, f: BoundedFunction, at: At) -> EstimatedMean:
        """The mean of a function."""
        return EstimatedMean(0.0, 0.0, None)


Way: TypeAlias = Ours | Papers | Pooled | PlainValues | PlainCounts | PlainPoints | Exact | Zero
