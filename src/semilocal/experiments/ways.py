"""How a kind of method runs in an experiment, and what it promises there: the protocol's rules and the baselines.

Tasks are built here and nowhere else, so that legends and tables state the promise of what runs: a `Guarantee` at
ε = 1, whose numbers are multiples of the ε on a figure's axis. Knows tasks, releases and baselines. Knows no figure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from .. import baselines, release
from ..accounting import Ledger
from ..arrays import Floats, Integers
from ..functions import BoundedFunction, squared_norm
from ..geometry.box import Box
from ..pooled.task import PooledTask, Trust
from ..protocol.promise import Guarantee, promise
from ..protocol.task import Accounting, Task
from ..release.boxes import Answers, BoxCounts
from ..release.pooled_counts import PooledCounts, pooled_counts, run_pooled
from ..release.pooled_mean import pooled_mean
from ..release.pooled_points import pooled_points
from ..release.split import Split, partition_for_values, plan_split
from ..simulation.run import Run
from ..simulation.simulate import simulate
from ..simulation.synthetic import UNIT_SQUARE

__all__ = [
    "CROWD",
    "DELTA",
    "DEPTHS",
    "PAPER_SHARE",
    "At",
    "Centres",
    "EstimatedMean",
    "Exact",
    "OurCounts",
    "OurValues",
    "PaperCounts",
    "PaperValues",
    "PlainCounts",
    "PlainPoints",
    "PlainValues",
    "Pooled",
    "Way",
    "laplace_values",
    "our_task",
]  # fmt: skip

DELTA = 0.05  # the paper's; a deployment takes far less
CROWD = 20  # the paper's k in most experiments
PAPER_SHARE = 0.5  # of ε that the paper gives to the partition; the rest goes to values, or to noise on counts
# Levels of the paper's quadtrees. Its code allows 40 for means, which no run reaches. For real data it names none:
# with 10, as on its clusters, the published rule's error on Gowalla is up to twice that with 16.
DEPTHS = {"density": 15, "mean": 30, "clusters": 10, "real": 16}
ENOUGH = 10**6  # participants with which a budget is always split between partition and values

Maker: TypeAlias = Callable[..., Task]
Queries: TypeAlias = Callable[[npt.ArrayLike], Answers]


class At(NamedTuple):
    """Where a method runs: the domain, ε of the axis, k, its randomness, and the depth of the paper's quadtrees."""

    box: Box
    epsilon: float
    k: int
    rng: np.random.Generator
    depth: int


class EstimatedMean(NamedTuple):
    """An estimated mean, the variance that is known of it, and the run if there was one."""

    value: float
    variance: float
    run: Run | None


def _example() -> At:
    """A setting to ask for promises; its draws are thrown away."""
    return At(UNIT_SQUARE, 1.0, CROWD, np.random.default_rng(0), DEPTHS["density"])


def our_task(at: At, accounting: Accounting) -> Task:
    """Our rule with all of ε."""
    return Task.build(at.box, epsilon=at.epsilon, delta=DELTA, k=at.k, accounting=accounting)


def _paper_task(at: At, maker: Maker, share: float) -> Task:
    """The paper's rule, or the published one, with a share of ε."""
    return maker(at.box, epsilon=share * at.epsilon, delta=DELTA, k=at.k, max_depth=at.depth)


def _noted(guarantee: Guarantee, note: str) -> Guarantee:
    """With this note alone: what a task notes for devices does not concern a simulation."""
    return msgspec.structs.replace(guarantee, notes=(note,) if note else ())


# -- values and means ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OurValues:
    """`semilocal.mean` and `semilocal.release.values`, in two steps: the result of one call does not tell who moved."""

    accounting: Accounting
    note: str = ""

    def promise(self) -> Guarantee:
        """The promise at ε = 1."""
        split = plan_split(ENOUGH, epsilon=1.0, accounting=self.accounting)
        task = our_task(_example()._replace(epsilon=split.tree), self.accounting)
        return _noted(promise(task, [("values", split.value)]), self.note)

    def mean(self, points: Floats, f: BoundedFunction, at: At) -> EstimatedMean:
        """The mean of a function."""
        run, split, ledger = self._partition(points, at)
        found = release.mean(run, points, f, epsilon=split.value, rng=at.rng, ledger=ledger)
        return EstimatedMean(found.value, found.stderr**2, run)

    def each(self, points: Floats, f: BoundedFunction, at: At) -> tuple[Floats, Run | None]:
        """Everybody's released value."""
        run, split, ledger = self._partition(points, at)
        return release.values(run, points, f, epsilon=split.value, rng=at.rng, ledger=ledger).value, run

    def _partition(self, points: Floats, at: At) -> tuple[Run, Split, Ledger]:
        return partition_for_values(
            points, at.box, epsilon=at.epsilon, delta=DELTA, k=at.k, rng=at.rng, accounting=self.accounting
        )


@dataclass(frozen=True)
class PaperValues:
    """The paper's rules with Laplace noise on values, as the published code has it."""

    maker: Maker
    note: str

    def promise(self) -> Guarantee:
        """The promise at ε = 1."""
        task = _paper_task(_example(), self.maker, PAPER_SHARE)
        return _noted(promise(task, [("values", 1.0 - PAPER_SHARE)]), self.note)

    def mean(self, points: Floats, f: BoundedFunction, at: At) -> EstimatedMean:
        """The mean of a function."""
        noisy, scale, run = self._released(points, f, at)
        return EstimatedMean(float(np.mean(noisy)), float(np.sum(2 * scale**2)) / len(points) ** 2, run)

    def each(self, points: Floats, f: BoundedFunction, at: At) -> tuple[Floats, Run | None]:
        """Everybody's released value."""
        noisy, _, run = self._released(points, f, at)
        return noisy, run

    def _released(self, points: Floats, f: BoundedFunction, at: At) -> tuple[Floats, Floats, Run]:
        run = simulate(points, _paper_task(at, self.maker, PAPER_SHARE), rng=at.rng)
        ranges = f.range_over(run.partition.boxes)
        scale = ((ranges[:, 1] - ranges[:, 0]) / ((1 - PAPER_SHARE) * at.epsilon))[run.regions]
        return f(points) + at.rng.laplace(size=len(points)) * scale, scale, run


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
        found = self.estimate(points, f, at.box, epsilon=at.epsilon, rng=at.rng)
        return EstimatedMean(found.value, found.stderr**2, None)

    def each(self, points: Floats, f: BoundedFunction, at: At) -> tuple[Floats, Run | None]:
        """Everybody's released value."""
        assert self.release is not None
        return self.release(points, f, at), None


# -- counts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OurCounts:
    """`semilocal.counts` in two steps."""

    accounting: Accounting

    def promise(self) -> Guarantee:
        """The promise at ε = 1."""
        return _noted(promise(our_task(_example(), self.accounting)), "")

    def count(self, points: Floats, at: At) -> tuple[Queries, Run | None]:
        """Something that answers range queries."""
        run = simulate(points, our_task(at, self.accounting), rng=at.rng)
        return release.counts(run).answer, run  # boxes around people reach beyond the domain, and should not warn


@dataclass(frozen=True)
class PaperCounts:
    """The paper's rules with Laplace noise on crowds: scale (side of the region) / ε for every person."""

    maker: Maker
    note: str

    def promise(self) -> Guarantee:
        """The promise at ε = 1."""
        return _noted(promise(_paper_task(_example(), self.maker, PAPER_SHARE)), self.note)

    def count(self, points: Floats, at: At) -> tuple[Queries, Run | None]:
        """Something that answers range queries."""
        run = simulate(points, _paper_task(at, self.maker, PAPER_SHARE), rng=at.rng)
        boxes, crowds = run.partition.boxes, run.partition.crowds.astype(np.float64)
        scale = (boxes[:, 1] - boxes[:, 0]).max(axis=1) / ((1 - PAPER_SHARE) * at.epsilon)
        # the sum of n Laplace draws is the difference of two Gamma(n) draws
        noise = scale * (at.rng.standard_gamma(crowds) - at.rng.standard_gamma(crowds))
        return BoxCounts(boxes, np.maximum(crowds + noise, 0.0)).query, run


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

    def count(self, points: Floats, at: At) -> tuple[Queries, Run | None]:
        """Something that answers range queries."""
        return self._run(points, at).query, None

    def _run(self, points: Floats, at: At) -> baselines.SpatialCounts:
        options: dict[str, Any] = {"k": at.k} if self.by_k else {"epsilon": at.epsilon, "rng": at.rng}
        return self.make(points, at.box, **options)


# -- the pooled tree: plain differential privacy -----------------------------------------------------------------------


@dataclass(frozen=True)
class Pooled:
    """The pooled tree with one noise (a curator) or two (two servers): counts, one noisy sum, synthetic points.

    For counts and points ε of the axis is what PrivTree's is: the loss if a person is added or removed (the number of
    reports is public), so that any move costs 2 ε. For means it is that of central DP: ε for any move.
    """

    trust: Trust
    purpose: str

    def promise(self) -> Guarantee:
        """The promise at ε = 1."""
        if self.purpose == "values":
            return Guarantee.plain(self.trust, 1.0)
        return Guarantee.plain(self.trust, 2.0, presence=1.0, notes=("the number of reports is public",))

    def count(self, points: Floats, at: At) -> tuple[Queries, Run | None]:
        """Something that answers range queries."""
        return self._counted(points, at).answer, None

    def mean(self, points: Floats, f: BoundedFunction, at: At) -> EstimatedMean:
        """The mean of a function: one sum, with each party's noise for the function's range over the domain."""
        found = pooled_mean(PooledTask.build(at.box, epsilon=at.epsilon, trust=self.trust), points, f, rng=at.rng)
        return EstimatedMean(found.value, found.stderr**2, None)

    def labelled(self, points: Floats, labels: Integers, at: At) -> tuple[Floats, Integers]:
        """Synthetic points of every class, drawn from that class's own tree; labels are public in this experiment."""
        classes = np.unique(labels)
        drawn = [pooled_points(self._counted(points[labels == label], at), rng=at.rng).points for label in classes]
        return np.concatenate(drawn), np.repeat(classes, [len(rows) for rows in drawn])

    def _counted(self, points: Floats, at: At) -> PooledCounts:
        task = PooledTask.build(at.box, epsilon=2 * at.epsilon, trust=self.trust)
        return pooled_counts(run_pooled(task, points, rng=at.rng))


# -- points ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Centres:
    """A position becomes the centre of its region, or a draw around it with what is left of ε."""

    task: Callable[[At], Task]
    note: str = ""
    resampled: bool = False

    def promise(self) -> Guarantee:
        """The promise at ε = 1."""
        return _noted(promise(self.task(_example())), self.note)

    def points(self, points: Floats, at: At) -> tuple[Floats, Run | None]:
        """Everybody's released position."""
        run = simulate(points, self.task(at), rng=at.rng)
        if self.resampled:
            return release.resample(
                run, points, epsilon=(1 - PAPER_SHARE) * at.epsilon, rng=at.rng, public_data=True
            ).points, run
        return release.quantize(run, points, public_data=True).points, run

    @classmethod
    def ours(cls, accounting: Accounting) -> Centres:
        """Our rule with all of ε."""
        return cls(lambda at: our_task(at, accounting))

    @classmethod
    def papers(cls, maker: Maker, note: str, *, resampled: bool = False) -> Centres:
        """A rule of the paper, with all of ε, or with its share if positions are drawn around centres."""
        return cls(lambda at: _paper_task(at, maker, PAPER_SHARE if resampled else 1.0), note, resampled)


@dataclass(frozen=True)
class PlainPoints:
    """A baseline that moves every position at random."""

    make: Callable[..., baselines.ReleasedPoints]

    def promise(self) -> Guarantee:
        """The promise at ε = 1."""
        at = _example()
        return self.make(np.full((50, 2), 0.5), at.box, epsilon=1.0, rng=at.rng).guarantee

    def points(self, points: Floats, at: At) -> tuple[Floats, Run | None]:
        """Everybody's released position."""
        return self.make(points, at.box, epsilon=at.epsilon, rng=at.rng).points, None


class Exact:
    """Positions as they are."""

    def promise(self) -> Guarantee:
        """No promise."""
        return Guarantee.plain("curator", None, notes=("positions as they are",))

    def points(self, points: Floats, at: At) -> tuple[Floats, Run | None]:
        """The positions."""
        return points, None


Way: TypeAlias = (
    OurValues
    | PaperValues
    | PlainValues
    | OurCounts
    | PaperCounts
    | PlainCounts
    | Pooled
    | Centres
    | PlainPoints
    | Exact
)
