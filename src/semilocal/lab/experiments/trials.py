"""One trial of each experiment: draw people, run one method, measure its error and its crowds.

Knows populations, methods and errors. Draws no picture. All randomness comes from the trial: the people and queries
from ``trial.shared_rng``, so that all methods meet the same ones, the noise from ``trial.rng``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import Floats, Integers
from ...datasets import california_housing
from ...errors import InvalidInput, optional
from ...functions import gaussian_bump, squared_norm
from ...geometry.box import Box
from ...simulation import synthetic
from ..baselines.boxes import count_points, earth_movers_distance, mean_relative_error
from .data import TABLE_SIDE, load, sample_people, sample_users, table
from .methods import DELTA, DEPTHS, At, Regions, Released, way_of
from .runner import Trial

Row = dict[str, Any]
People = tuple[Floats, Floats, Integers, float]

PLANE = Box((-10.0, -10.0), (10.0, 10.0), names=("x", "y"))
MEAN_SPREAD = 1.5
MEAN_CROWD = 100  # the paper's Q in the mean experiments
BUMP_SPREAD = 2.0
QUERIES = {"clusters": 100, "anchored": 200, "ranges": 2_000}
MAP_SIDE = 32  # cells per axis of the maps that are compared by the earth mover's distance
TABLES = "dpbench/"  # what the names of sources begin with that are tables of counts
PATIENCE = 1_000  # rounds of candidates before a workload is called impossible
FOREST = "random forest"
NEIGHBOURS = "k nearest neighbours"
LOGISTIC = "logistic regression"
# Beside every figure: what stands for one participant in it.
PARTICIPANTS = {
    "drawn": "Every position that is drawn stands for one participant.",
    "row": "One row of a dataset (a check-in, a point of a taxi trip) stands for one participant, as in the paper: the "
    "files have too few people for this N. A person with m rows would lose up to m times the ε shown.",
    "block": "One block group of the census stands for one participant.",
    "person": "Every participant is a different person; one of their rows is drawn at random.",
}
FACTS = ("regions", "regions_below", "participants_below")


def facts_of(regions: Regions | None, k: int) -> Row:
    """What a method did to crowds; nothing is known without regions.

    ``regions``; ``regions_below`` and ``participants_below``: shares of the regions that hold somebody, and of
    participants, with fewer than k in the region.
    """
    if regions is None:
        return dict.fromkeys(FACTS)
    crowds = regions.crowds
    inhabited = crowds > 0
    small = inhabited & (crowds < k)
    return {
        "regions": len(crowds),
        "regions_below": int(small.sum()) / max(int(inhabited.sum()), 1),
        "participants_below": int(crowds[small].sum()) / max(int(crowds.sum()), 1),
    }


# -- the mean of a function ----------------------------------------------------------------------------------------


def mean_trial(trial: Trial) -> list[Row]:
    """Estimate the mean of the squared norm once; parameters ``n``, ``epsilon``, ``k``.

    Rows hold the error, its square, and ``expected_mse``: the variance that the regions found imply (for the baselines
    the exact one), which is less noisy than a square.
    """
    f = squared_norm()
    points = synthetic.truncated_gaussian(trial["n"], trial.shared_rng("n"), box=PLANE, scale=MEAN_SPREAD)
    found = way_of(trial.method, "values")(points, f, _at(trial, PLANE, "mean"))
    value, stderr = found.result
    error = value - float(np.mean(f(points)))
    facts = facts_of(found.regions, trial["k"])
    return [{"error": error, "squared_error": error**2, "expected_mse": stderr**2, **facts}]


def _at(trial: Trial, box: Box, depth: str) -> At:
    delta = float(trial.get("delta", DELTA))
    return At(box, float(trial["epsilon"]), trial["k"], trial.rng(), DEPTHS[depth], delta)


# -- Figure 1 ------------------------------------------------------------------------------------------------------


def density_trial(trial: Trial) -> list[Row]:
    """Release a bump's value for everybody once; parameters ``n``, ``epsilon``, ``k``."""
    points, found = released_values(trial)
    off = found.result - gaussian_bump(BUMP_SPREAD)(points)
    facts = facts_of(found.regions, trial["k"])
    return [{"value_mse": float(np.mean(off**2)), "mean_error": float(np.mean(off)), **facts}]


def released_values(trial: Trial) -> tuple[Floats, Released]:
    """What `density_trial` measures, for the pictures: the people, and everybody's released value."""
    points = synthetic.truncated_gaussian(trial["n"], trial.shared_rng("n"), box=PLANE, scale=BUMP_SPREAD)
    return points, way_of(trial.method, "each")(points, gaussian_bump(BUMP_SPREAD), _at(trial, PLANE, "density"))


# -- range queries -------------------------------------------------------------------------------------------------


def uniform_queries(m: int, rng: np.random.Generator) -> Floats:
    """Boxes in the unit square, float64[m, 2, 2]: each side U(0.1, 0.3), the place uniform among those that fit."""
    size = rng.uniform(0.1, 0.3, size=(m, 2))
    lower = rng.uniform(0.0, 1.0 - size)
    return np.stack([lower, lower + size], axis=1)


# Width and height of m boxes around people, float64[m, 2], as shares of the unit square's side, by name.
ASKED: dict[str, Callable[[int, np.random.Generator], Floats]] = {
    "paper": lambda m, rng: np.exp(rng.uniform(np.log(1 / 256), np.log(1 / 8), size=(m, 2))),  # log-uniform
    "blocks": lambda m, rng: np.repeat(rng.uniform(0.002, 0.01, size=(m, 1)), 2, axis=1),  # squares: "this block"
    "cities": lambda m, rng: np.tile([1 / 360, 1 / 180], (m, 1)),  # one degree, where the unit square is the world
}


def anchored_queries(
    points: Floats, m: int, rng: np.random.Generator, *, asked: str = "paper", fewest: int = 20,
    largest_share: float = 0.05,
) -> tuple[Floats, Integers]:  # fmt: skip
    """Boxes that each contain a data point, float64[m, 2, 2], and their exact counts, int64[m]: no private ones.

    One of the points (float64[n, 2], in the unit square) is drawn, and the sides of a box, as `ASKED` says; the box
    lies so that the point is at a uniform place in it, and may reach over the border of the square; it is kept if its
    true count is between `fewest` and `largest_share` of all points, both included.
    """
    most = largest_share * len(points)
    if most < fewest:
        raise InvalidInput(
            f"no count lies between {fewest} and {most:g}: {len(points)} points are too few; take at least "
            f"{fewest / largest_share:.0f}"
        )
    kept: list[Floats] = []
    counted: list[Integers] = []
    have = 0
    for _ in range(PATIENCE):
        anchors = points[rng.integers(len(points), size=2 * m)]
        size = ASKED[asked](2 * m, rng)
        lower = anchors - rng.random((2 * m, 2)) * size
        boxes = np.stack([lower, lower + size], axis=1)
        counts = count_points(points, boxes)
        good = (counts >= fewest) & (counts <= most)
        kept.append(boxes[good])
        counted.append(counts[good])
        have += int(np.count_nonzero(good))
        if have >= m:
            return np.concatenate(kept)[:m], np.concatenate(counted)[:m]
    raise InvalidInput(
        f"only {have} of {m} queries with a count in [{fewest}, {most:g}] were found among "
        f"{2 * m * PATIENCE:,} candidates; "
        "the points are too few, or too many of them share one place"
    )


def anchored_floor(n: int) -> float:
    """The smallest denominator of the error on real data: 10·max(1, 10⁻⁴n)."""
    return 10.0 * max(1.0, 1e-4 * n)


def uniform_floor(n: int) -> float:
    """The smallest denominator of the error on the synthetic clusters: 10⁻⁴n."""
    return 1e-4 * n


def ring(n: int, rng: np.random.Generator) -> Floats:
    """People around a circle in the unit square, radius 0.35 with a spread of 0.02: float64[n, 2]."""
    angle, radius = rng.uniform(0.0, 2.0 * np.pi, n), rng.normal(0.35, 0.02, n)
    around = 0.5 + radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return np.asarray(np.clip(around, 0.0, 1.0))


MADE = {"clusters": synthetic.clusters, "uniform": synthetic.uniform, "ring": ring}  # populations, by name


def table_people(name: str, n: int, rng: np.random.Generator, *, data: Path | None = None) -> People:
    """People of a table of counts and range queries by the protocol of DPBench: as :func:`draw_people`.

    n people are drawn from the table's shape and stand in the middle of their cells. A range has sides uniform in 1 to
    128 cells on each axis, and a uniform place.
    """
    shape = table(name, data)
    held = rng.multinomial(n, shape.ravel() / shape.sum())
    cells = np.stack(np.divmod(np.repeat(np.arange(len(held)), held), TABLE_SIDE), axis=1)
    side = rng.integers(1, TABLE_SIDE + 1, (QUERIES["ranges"], 2))
    low = rng.integers(0, TABLE_SIDE - side + 1)
    high = low + side
    before = np.zeros((TABLE_SIDE + 1, TABLE_SIDE + 1), dtype=np.int64)
    before[1:, 1:] = held.reshape(shape.shape).cumsum(axis=0).cumsum(axis=1)
    (x0, y0), (x1, y1) = low.T, high.T
    counts = before[x1, y1] - before[x0, y1] - before[x1, y0] + before[x0, y0]
    return (cells + 0.5) / TABLE_SIDE, np.stack([low, high], axis=1) / TABLE_SIDE, counts, anchored_floor(n)


def draw_people(
    source: str, n: int, rng: np.random.Generator, *, data: Path | None = None, stands_for: str = "row",
    asked: str = "paper",
) -> People:  # fmt: skip
    """The participants of a trial, its queries, their true counts, and the smallest denominator of the error.

    ``source`` is ``"clusters"`` (uniform queries); ``"uniform"``, ``"ring"`` or a dataset (anchored queries, with sides
    as ``asked`` says); ``"dpbench/…"``, a table of DPBench (its ranges). For one participant stands any row of a
    dataset, or one row of a different "person" each time. ``data`` is the folder of the datasets.
    """
    if source.startswith(TABLES):
        return table_people(source.removeprefix(TABLES), n, rng, data=data)
    if source == "clusters":
        points = synthetic.clusters(n, rng)
        boxes = uniform_queries(QUERIES["clusters"], rng)
        return points, boxes, count_points(points, boxes), uniform_floor(n)
    if source in MADE:
        points = MADE[source](n, rng)
    else:
        sample = sample_people if stands_for == "person" else sample_users
        points = sample(source, n, rng, folder=data)
    # a block may hold one person; of the paper's boxes and of cities those are asked for that hold a few
    fewest, largest_share = (1, 1.0) if asked == "blocks" else (20, 0.05)
    boxes, counts = anchored_queries(
        points, QUERIES["anchored"], rng, asked=asked, fewest=fewest, largest_share=largest_share
    )
    return points, boxes, counts, anchored_floor(n)


@functools.lru_cache(maxsize=4)
def _people_of(trial: Trial, data: Path | None) -> People:
    """The people of all trials that differ in nothing else but the method, epsilon, k and delta."""
    drawn = {"stands_for": trial.get("stands_for", "row"), "asked": trial.get("asked", "paper")}
    return draw_people(trial["source"], trial["n"], trial.shared_rng("n", "source"), data=data, **drawn)


def counts_trial(trial: Trial, *, data: Path | None = None) -> list[Row]:
    """Answer range queries once; parameters are ``n``, ``epsilon``, ``k``, and those of `draw_people`.

    Rows hold the mean relative error, the mean absolute error in people, and with ``maps`` the earth mover's
    distance between the answers about a grid of 32 x 32 cells and the truth.
    """
    alike = {name: value for name, value in trial.parameters if name not in ("epsilon", "k", "delta")}
    people = Trial.of(trial.figure, "", seed=trial.seed, run=trial.run, **alike)
    points, boxes, truth, floor = _people_of(people, data)
    at = _at(trial, synthetic.UNIT_SQUARE, "clusters" if trial["source"] == "clusters" else "real")
    if trial["source"].startswith(TABLES):
        at = at._replace(finest=TABLE_SIDE.bit_length() - 1)
    found = way_of(trial.method, "counts")(points, at)
    answers = found.result(boxes)
    row: Row = {"mre": mean_relative_error(answers, truth, floor=floor), "mae": float(np.abs(answers - truth).mean())}
    if trial.get("maps"):
        low = np.stack(np.divmod(np.arange(MAP_SIDE**2), MAP_SIDE), axis=1) / MAP_SIDE
        squares = np.stack([low, low + 1 / MAP_SIDE], axis=1)
        places = np.minimum((points * MAP_SIDE).astype(np.int64), MAP_SIDE - 1) @ [MAP_SIDE, 1]
        maps = found.result(squares), np.bincount(places, minlength=MAP_SIDE**2)
        row["moved"] = earth_movers_distance(*(one.reshape(MAP_SIDE, MAP_SIDE) for one in maps))
    return [{**row, **facts_of(found.regions, trial["k"])}]


# -- learning ------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def housing() -> tuple[Floats, Integers, float]:
    """California Housing: positions in the unit square (scaled from its public box), labels, the median value.

    The label is 1 where the median house value of the block group exceeds the median over all of them.
    """
    positions = load("california_housing")
    lower, upper = np.array(positions.box.lower), np.array(positions.box.upper)
    values = california_housing()[1]
    middle = float(np.median(values))
    return (positions.points - lower) / (upper - lower), (values > middle).astype(np.int64), middle


def classifier_trial(trial: Trial) -> list[Row]:
    """Train on released positions, test on true ones; parameters ``epsilon``, ``k``, ``classifiers``.

    One row per classifier with F1, precision and recall of the class 1 on the 30 % that were held out.
    """
    score = optional("sklearn.metrics", "experiments").precision_recall_fscore_support
    points, labels, _ = housing()
    points, labels = points[: trial["rows"]], labels[: trial["rows"]]
    order = trial.shared_rng("rows").permutation(len(points))
    cut = round(0.7 * len(points))
    train, test = order[:cut], order[cut:]
    at = _at(trial, synthetic.UNIT_SQUARE, "density")
    found = way_of(trial.method, "points")(points[train], labels[train], at)
    features, taught = found.result
    facts = facts_of(found.regions, trial["k"])
    rows = []
    for name in trial["classifiers"].split(", "):
        model = classifier(name, int(at.rng.integers(2**31)))
        model.fit(features, taught)
        told = model.predict(points[test])
        precision, recall, f1, _ = score(labels[test], told, average="binary", zero_division=0)
        rows.append({"classifier": name, "f1": f1, "precision": precision, "recall": recall, **facts})
    return rows


def classifier(name: str, seed: int) -> Any:
    """A classifier of scikit-learn by its name in the figures."""
    parts = ("ensemble", "linear_model", "neighbors")
    ensemble, linear, neighbors = (optional(f"sklearn.{part}", "experiments") for part in parts)
    if name == FOREST:
        return ensemble.RandomForestClassifier(n_estimators=50, max_depth=8, random_state=seed)
    if name == NEIGHBOURS:
        return neighbors.KNeighborsClassifier(n_neighbors=15, weights="distance")
    if name == LOGISTIC:
        return linear.LogisticRegression()
    raise InvalidInput(f"no classifier is called {name!r}; there are {FOREST}, {NEIGHBOURS}, {LOGISTIC}")
