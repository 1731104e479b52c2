"""One trial of each experiment: draw people, run one method, measure its error and its crowds.

Knows populations, mechanisms and errors. Must not know pictures, tables or the order of trials. All randomness comes
from the cell: the people and queries from ``cell.shared_rng``, so that all methods meet the same ones, the noise from
``cell.rng``. The methods' names are the keys of `style.METHODS`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import baselines, release
from ..accounting import Ledger
from ..arrays import Floats, Integers
from ..datasets import california_housing
from ..errors import InvalidInput, MissingExtra
from ..functions import gaussian_bump, squared_norm
from ..geometry.box import Box
from ..geometry.index import count_points
from ..protocol.partition import Partition
from ..protocol.task import Task
from ..release.boxes import Answers, BoxCounts, mean_relative_error
from ..release.onecall import Split, partition_for_values
from ..simulation import synthetic
from ..simulation.run import Run
from ..simulation.simulate import simulate
from . import workloads
from .datasets import load as data
from .harness.runner import Cell
from .methods import CROWD, DELTA, DEPTHS, PAPER_SHARE, accounting_of, task_of

__all__ = [
    "CROWD",
    "DELTA",
    "FACTS",
    "FOREST",
    "PLANE",
    "classifier_trial",
    "counts_trial",
    "density_trial",
    "draw_people",
    "facts_of",
    "housing",
    "mean_trial",
    "released_values",
    "tradeoff_task",
    "tradeoff_trial",
]

Row = dict[str, Any]
People = tuple[Floats, Floats, Integers, float]
Asked = Callable[[npt.ArrayLike], Answers]

PLANE = Box((-10.0, -10.0), (10.0, 10.0), names=("x", "y"))
MEAN_SPREAD = 1.5
MEAN_CROWD = 100  # the paper's Q in the mean experiments
BUMP_SPREAD = 2.0
QUERIES = {"clusters": 100, "anchored": 200}
FOREST = "random forest"
NEIGHBOURS = "k nearest neighbours"
LOGISTIC = "logistic regression"
FACTS = ("regions", "regions_below", "participants_below", "moved", "moved_often", "trims", "most_trims")
NO_REGIONS: Mapping[str, None] = dict.fromkeys(FACTS)


def facts_of(run: Run) -> Row:
    """Return what a run did to crowds and to participants.

    Returns
    -------
    dict
        ``regions``; ``regions_below`` and ``participants_below``: shares of the regions that hold somebody, and of
        participants, with fewer than k in the region; ``moved``, ``moved_often``: shares of participants moved at all,
        and three times or more; ``trims``, ``most_trims``: TRIMs on a participant's path, on average and at most.
    """
    crowds = run.partition.crowds
    held = crowds > 0
    small = held & (crowds < run.task.k)
    people = max(int(crowds.sum()), 1)
    return {
        "regions": len(crowds),
        "regions_below": int(small.sum()) / max(int(held.sum()), 1),
        "participants_below": int(crowds[small].sum()) / people,
        "moved": float(np.mean(run.moves > 0)) if len(run.moves) else 0.0,
        "moved_often": float(np.mean(run.moves >= 3)) if len(run.moves) else 0.0,
        "trims": float(np.average(run.partition.path_trims, weights=crowds)) if crowds.any() else 0.0,
        "most_trims": int(run.partition.path_trims.max(initial=0)),
    }


# -- the mean of a function ----------------------------------------------------------------------------------------


def mean_trial(cell: Cell) -> list[Row]:
    """Estimate the mean of the squared norm once; parameters ``n``, ``epsilon``, ``k``.

    Rows hold the error, its square, and ``expected_mse``: the variance that the regions found imply (for the baselines
    the exact one), which is less noisy than a square.
    """
    n, epsilon, rng = cell["n"], float(cell["epsilon"]), cell.rng()
    f = squared_norm()
    points = synthetic.truncated_gaussian(n, cell.shared_rng("n"), box=PLANE, scale=MEAN_SPREAD)
    truth = float(np.mean(f(points)))
    facts: Mapping[str, Any] = NO_REGIONS
    if cell.method == "central":
        central = baselines.central_mean(points, f, PLANE, epsilon=epsilon, rng=rng)
        value, expected = central.value, central.stderr**2
    elif cell.method == "ldp":
        local = baselines.local_mean(points, f, PLANE, epsilon=epsilon, rng=rng)
        value, expected = local.value, local.stderr**2
    elif cell.method in ("paper", "published"):
        run = simulate(points, _papers_task(cell, DEPTHS["mean"]), rng=rng)
        noisy, scale = _laplace_values(run, points, f, (1 - PAPER_SHARE) * epsilon, rng)
        value, expected, facts = float(np.mean(noisy)), float(np.sum(2 * scale**2)) / n**2, facts_of(run)
    else:
        value, expected, facts = _our_mean(cell, points, f, rng)
    error = value - truth
    return [{"error": error, "squared_error": error**2, "expected_mse": expected, **facts}]


def _our_mean(cell: Cell, points: Floats, f: Any, rng: np.random.Generator) -> tuple[float, float, Row]:
    """`semilocal.mean`, in its two steps: the result of one call does not tell who was moved."""
    run, split, ledger = _our_partition(cell, points, rng)
    found = release.mean(run, points, f, epsilon=split.value, rng=rng, ledger=ledger)
    return found.value, found.stderr**2, facts_of(run)


def _our_partition(cell: Cell, points: Floats, rng: np.random.Generator) -> tuple[Run, Split, Ledger]:
    epsilon, accounting = float(cell["epsilon"]), accounting_of(cell.method)
    return partition_for_values(
        points, PLANE, epsilon=epsilon, delta=DELTA, k=cell["k"], rng=rng, accounting=accounting
    )


def _papers_task(cell: Cell, depth: int) -> Task:
    return task_of(cell.method, "values", box=PLANE, epsilon=float(cell["epsilon"]), k=cell["k"], depth=depth)


def _laplace_values(
    run: Run, points: Floats, f: Any, epsilon: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Values as the published code releases them, Laplace noise of scale (range over the region) / epsilon."""
    ranges = f.range_over(run.partition.boxes)
    scale = ((ranges[:, 1] - ranges[:, 0]) / epsilon)[run.regions]
    return f(points) + rng.laplace(size=len(points)) * scale, scale


# -- Figure 1 ------------------------------------------------------------------------------------------------------


def density_trial(cell: Cell) -> list[Row]:
    """Release a bump's value for everybody once; parameters ``n``, ``epsilon``, ``k``."""
    released = released_values(cell)
    off = released.values - gaussian_bump(BUMP_SPREAD)(released.points)
    return [{"value_mse": float(np.mean(off**2)), "mean_error": float(np.mean(off)), **released.facts}]


class Released(NamedTuple):
    """Points float64[n, 2], everybody's released value float64[n], the partition if there is one, and its facts."""

    points: Floats
    values: Floats
    partition: Partition | None
    facts: Mapping[str, Any]


def released_values(cell: Cell) -> Released:
    """Return what `density_trial` measures, for the pictures."""
    epsilon, rng, f = float(cell["epsilon"]), cell.rng(), gaussian_bump(BUMP_SPREAD)
    points = synthetic.truncated_gaussian(cell["n"], cell.shared_rng("n"), box=PLANE, scale=BUMP_SPREAD)
    if cell.method == "ldp":
        low, high = f.range_over(np.array([[PLANE.lower, PLANE.upper]]))[0]
        noisy = f(points) + rng.laplace(scale=(high - low) / epsilon, size=len(points))
        return Released(points, noisy, None, NO_REGIONS)
    if cell.method in ("paper", "published"):
        run = simulate(points, _papers_task(cell, DEPTHS["density"]), rng=rng)
        return Released(
            points, _laplace_values(run, points, f, (1 - PAPER_SHARE) * epsilon, rng)[0], run.partition, facts_of(run)
        )
    run, split, ledger = _our_partition(cell, points, rng)
    found = release.values(run, points, f, epsilon=split.value, rng=rng, ledger=ledger)
    return Released(points, found.value, run.partition, facts_of(run))


# -- range queries -------------------------------------------------------------------------------------------------


def draw_people(source: str, n: int, rng: np.random.Generator) -> People:
    """Return the people of a trial, its queries, their true counts, and the smallest denominator of the error.

    Parameters
    ----------
    source : str
        ``"clusters"`` (uniform queries) or a dataset (anchored queries), which is read from the folder that
        SEMILOCAL_DATA names.
    """
    if source == "clusters":
        points = synthetic.clusters(n, rng)
        boxes = workloads.uniform_queries(QUERIES["clusters"], rng)
        return points, boxes, count_points(points, boxes), workloads.uniform_floor(n)
    points = data.sample_users(source, n, rng).points
    boxes, counts = workloads.anchored_queries(points, QUERIES["anchored"], rng)
    return points, boxes, counts, workloads.anchored_floor(n)


def _people_of(cell: Cell) -> People:
    """The people of a cell; all methods meet the same ones, so neighbouring cells find them drawn."""
    read = dict(cell.parameters).get("data")
    return _drawn(cell.figure, cell["source"], cell["n"], cell.seed, cell.run, read)


@functools.lru_cache(maxsize=4)
def _drawn(figure: str, source: str, n: int, seed: int, run: int, _data: Any) -> People:
    rng = Cell.of(figure, "", seed=seed, run=run, n=n, source=source).shared_rng("n", "source")
    return draw_people(source, n, rng)


def counts_trial(cell: Cell) -> list[Row]:
    """Answer a workload of range queries once; parameters ``source``, ``n``, ``epsilon``, ``k``."""
    points, boxes, truth, floor = _people_of(cell)
    depth = DEPTHS["clusters" if cell["source"] == "clusters" else "real"]
    ask, run = _counted(cell.method, points, float(cell["epsilon"]), cell["k"], cell.rng(), depth)
    facts = NO_REGIONS if run is None else facts_of(run)
    return [{"mre": mean_relative_error(ask(boxes).value, truth, floor=floor), **facts}]


def _counted(
    method: str, points: Floats, epsilon: float, k: int, rng: np.random.Generator, depth: int
) -> tuple[Asked, Run | None]:
    box = synthetic.UNIT_SQUARE
    if method in ("ours-core", "ours-uniform", "paper", "published"):
        run = simulate(points, task_of(method, "counts", box=box, epsilon=epsilon, k=k, depth=depth), rng=rng)
        if method.startswith("ours"):
            return release.counts(run).query, run
        return _noisy_counts(run, (1 - PAPER_SHARE) * epsilon, rng).query, run
    if method == "kanonymous":
        return baselines.kanonymous_quadtree(points, box, k=k).query, None
    makers: Mapping[str, Callable[..., baselines.SpatialCounts]] = {
        "privtree": baselines.privtree,
        "ldp-kdtree": baselines.ldp_kdtree,
        "ldp-quadtree": baselines.ldp_quadtree,
        "ahead": baselines.ahead,
    }
    if method not in makers:
        raise InvalidInput(f"no way to count is called {method!r}")
    return makers[method](points, box, epsilon=epsilon, rng=rng).query, None


def _noisy_counts(run: Run, epsilon: float, rng: np.random.Generator) -> BoxCounts:
    """Crowds as the published code releases them: Laplace noise of scale (side of the region) / epsilon per person."""
    boxes = run.partition.boxes
    side = (boxes[:, 1] - boxes[:, 0]).max(axis=1)
    crowds = run.partition.crowds.astype(np.float64)
    # the sum of n Laplace draws is the difference of two Gamma(n) draws
    noise = side / epsilon * (rng.standard_gamma(crowds) - rng.standard_gamma(crowds))
    return BoxCounts(boxes, np.maximum(crowds + noise, 0.0))


def tradeoff_task(epsilon: float, k: int, rule: Any, accounting: Any, tau: float, max_trims: int) -> Task:
    """Return the task of one choice for the sparse."""
    return Task.build(
        synthetic.UNIT_SQUARE, epsilon=float(epsilon), delta=DELTA, k=k, rule=rule, accounting=accounting, tau=tau,
        max_trims=max_trims,
    )  # fmt: skip


def tradeoff_trial(cell: Cell) -> list[Row]:
    """Answer range queries under one choice for the sparse; parameters also ``rule``, ``accounting``, ``tau``,
    ``max_trims``."""
    points, boxes, truth, floor = _people_of(cell)
    names = ("epsilon", "k", "rule", "accounting", "tau", "max_trims")
    task = tradeoff_task(*(cell[name] for name in names))
    run = simulate(points, task, rng=cell.rng())
    error = mean_relative_error(release.counts(run).query(boxes).value, truth, floor=floor)
    return [{"mre": error, "worst_loss": float(run.losses.max()), "worst_bound": task.epsilon_worst, **facts_of(run)}]


# -- learning ------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def housing() -> tuple[Floats, Integers, float]:
    """Return California Housing: positions in the unit square (scaled from its public box), labels, the median value.

    The label is 1 where the median house value of the block group exceeds the median over all of them.
    """
    positions = data.load("california_housing")
    lower, upper = np.array(positions.box.lower), np.array(positions.box.upper)
    values = california_housing()[1]
    middle = float(np.median(values))
    return (positions.points - lower) / (upper - lower), (values > middle).astype(np.int64), middle


def classifier_trial(cell: Cell) -> list[Row]:
    """Train on released positions, test on true ones; parameters ``epsilon``, ``k``, ``classifiers``.

    One row per classifier with F1, precision and recall of the class 1 on the 30 % that were held out.
    """
    points, labels, _ = housing()
    points, labels = points[: cell["rows"]], labels[: cell["rows"]]
    order = cell.shared_rng("rows").permutation(len(points))
    cut = round(0.7 * len(points))
    train, test = order[:cut], order[cut:]
    rng = cell.rng()
    features, run = _released_points(cell.method, points[train], float(cell["epsilon"]), cell["k"], rng)
    facts = NO_REGIONS if run is None else facts_of(run)
    rows = []
    for name in cell["classifiers"].split(", "):
        model = _classifier(name, int(rng.integers(2**31)))
        model.fit(features, labels[train])
        rows.append({"classifier": name, **_scores(labels[test], model.predict(points[test])), **facts})
    return rows


def _released_points(
    method: str, points: Floats, epsilon: float, k: int, rng: np.random.Generator
) -> tuple[Floats, Run | None]:
    box = synthetic.UNIT_SQUARE
    if method == "exact":
        return points, None
    if method == "ldp":
        return baselines.laplace_points(points, box, epsilon=epsilon, rng=rng).points, None
    if method == "geo":
        return baselines.planar_laplace(points, box, epsilon=epsilon, rng=rng).points, None
    task = task_of(method, "points", box=box, epsilon=epsilon, k=k, depth=DEPTHS["density"])
    run = simulate(points, task, rng=rng)
    if method == "sldp-split":
        return release.resample(run, points, epsilon=(1 - PAPER_SHARE) * epsilon, rng=rng).points, run
    return release.quantize(run, points).points, run


def _classifier(name: str, seed: int) -> Any:
    try:
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.neighbors import KNeighborsClassifier
    except ImportError:
        raise MissingExtra("scikit-learn", "experiments") from None
    if name == FOREST:
        return RandomForestClassifier(n_estimators=50, max_depth=8, random_state=seed)
    if name == NEIGHBOURS:
        return KNeighborsClassifier(n_neighbors=15, weights="distance")
    if name == LOGISTIC:
        return LogisticRegression()
    raise InvalidInput(f"no classifier is called {name!r}; there are {FOREST}, {NEIGHBOURS}, {LOGISTIC}")


def _scores(truth: Integers, said: Integers) -> Row:
    hit = int(np.count_nonzero((truth == 1) & (said == 1)))
    claimed, real = int(np.count_nonzero(said == 1)), int(np.count_nonzero(truth == 1))
    precision, recall = hit / claimed if claimed else 0.0, hit / real if real else 0.0
    return {"f1": 2 * hit / max(claimed + real, 1), "precision": precision, "recall": recall}
