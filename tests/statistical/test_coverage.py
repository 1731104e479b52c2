"""Intervals cover what they claim to cover.

Coverage is measured over 500 runs; its standard error is taken between runs. If it truly lies in the band from 93 to
98 %, a check fails only if it is measured five standard errors outside, which chance does with probability 6e-7. Where
there are enough releases or queries, a check asks for more: five standard errors inside. Every check is repeated with
a planted bug that it must catch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import semilocal as sl
from semilocal.experiments import populations
from semilocal.rectangles import count_points
from semilocal.release import counts, mean

pytestmark = pytest.mark.slow

RUNS = 500
LOW, HIGH = 0.93, 0.98
SIGMAS = 5.0

Floats = npt.NDArray[np.float64]


def in_band(covered: npt.ArrayLike, asked: npt.ArrayLike, *, name: str = "", sigmas: float = SIGMAS) -> bool:
    """Whether the coverage is inside the band by that many standard errors; one entry per run."""
    hits, total = np.asarray(covered, dtype=np.float64), np.asarray(asked, dtype=np.float64)
    rate = hits.sum() / total.sum()
    error = np.sqrt(np.sum((hits - rate * total) ** 2)) / total.sum()
    print(f"{name} coverage {100 * rate:.2f} % of {int(total.sum())}, standard error {100 * error:.2f} %")
    return bool(LOW + sigmas * error <= rate <= HIGH - sigmas * error)


def test_the_interval_of_a_mean_covers_where_nobody_is_moved() -> None:
    """Planted bug: a standard error of 60 % of the true one."""
    rng = np.random.default_rng(1)
    task = sl.Task.build(populations.UNIT_SQUARE, epsilon=1.0, delta=0.05, k=20, rule="all")
    f = sl.functions.squared_norm()
    good, bad, asked = [], [], []
    for _ in range(RUNS):
        points = populations.uniform(1_000, rng)
        run = sl.simulate(points, task, rng=rng)
        truth = float(f(points).mean())
        results = [mean(run, points, f, epsilon=1.0, rng=rng) for _ in range(16)]
        assert not any(result.biased for result in results)
        distance = np.array([abs(result.value - truth) for result in results])
        half = np.array([(result.interval()[1] - result.interval()[0]) / 2 for result in results])
        good.append(np.count_nonzero(distance <= half))
        bad.append(np.count_nonzero(distance <= 0.6 * half))
        asked.append(len(results))
    assert in_band(good, asked)
    assert not in_band(bad, asked)


def test_where_winsorizing_biases_the_result_says_so_and_the_widened_interval_covers() -> None:
    """The plain interval covers the mean over the positions that participants act from; the widened one the true mean.

    Planted bug: leaving the bias out. Then the true mean is covered too rarely.
    """
    rng = np.random.default_rng(2)
    box = sl.Box((-10, -10), (10, 10))
    f = sl.functions.squared_norm()
    acting, wide, narrow, asked = [], [], [], []
    for _ in range(RUNS):
        points = populations.truncated_gaussian(2_000, rng, box=box, scale=1.5)
        run = sl.simulate(points, sl.Task.build(box, epsilon=2.0, delta=0.05, k=20), rng=rng)
        moved, truth = float(f(run.partition.moved(points)).mean()), float(f(points).mean())
        hits = np.zeros(3, dtype=np.int64)
        for _ in range(8):
            result = mean(run, points, f, epsilon=12.0, rng=rng)
            assert result.biased == (len(run.partition.trims.cells) > 0)
            low, high = result.interval()
            widest = result.interval(widen=True)
            hits += [low <= moved <= high, widest[0] <= truth <= widest[1], low <= truth <= high]
        acting.append(hits[0])
        wide.append(hits[1])
        narrow.append(hits[2])
        asked.append(8)
    assert in_band(acting, asked)
    assert sum(wide) / sum(asked) >= 0.99
    assert not in_band(narrow, asked)


@pytest.mark.parametrize(
    ("population", "size", "epsilon", "options"),
    [
        ("uniform", 2_000, 1.0, {"rule": "all"}),
        ("clusters", 5_000, 1.0, {}),
        ("clusters", 5_000, 3.0, {}),
        ("gaussian", 5_000, 1.0, {}),
        ("gaussian", 5_000, 3.0, {}),
    ],
)
def test_the_intervals_of_counts_cover_along_the_edges_of_regions(
    population: str, size: int, epsilon: float, options: dict[str, Any]
) -> None:
    """Queries: regions, their halves, trimmed parts, and unions of regions (cells above them), each kind by itself.

    Exact answers do not count: all must be right. Planted bug: intervals of half their width.
    """
    rng = np.random.default_rng(3)
    box = sl.Box((-10, -10), (10, 10)) if population == "gaussian" else populations.UNIT_SQUARE
    task = sl.Task.build(box, epsilon=epsilon, delta=0.05, k=20, **options)
    good, bad, asked = ({kind: np.zeros(RUNS) for kind in KINDS} for _ in range(3))
    for number in range(RUNS):
        points = {
            "uniform": lambda: populations.uniform(size, rng),
            "clusters": lambda: populations.clusters(size, rng),
            "gaussian": lambda: populations.truncated_gaussian(size, rng, box=box, scale=1.5),
        }[population]()
        run = sl.simulate(points, task, rng=rng)
        result = counts(run)
        for kind, boxes in aligned(run).items():
            answers = result.query(boxes)
            truth = count_points(
                points, np.stack([boxes[:, 0], np.where(boxes[:, 1] == box.upper, np.inf, boxes[:, 1])], 1)
            )
            exact = answers.stderr == 0
            assert answers.value[exact] == pytest.approx(truth[exact], abs=1e-6)
            (low, high), true = answers.interval()[~exact].T, truth[~exact]
            quarter = (high - low) / 4
            good[kind][number] = np.count_nonzero((low - 1e-9 <= true) & (true <= high + 1e-9))
            bad[kind][number] = np.count_nonzero((low + quarter <= true) & (true <= high - quarter))
            asked[kind][number] = len(true)
    kinds = [kind for kind in KINDS if asked[kind].any()]
    assert kinds == (["halves"] if options else list(KINDS))
    for kind in kinds:
        inside = SIGMAS if kind == "halves" else -SIGMAS
        assert in_band(good[kind], asked[kind], name=kind, sigmas=inside), kind
        assert not in_band(bad[kind], asked[kind], name=f"planted: {kind}", sigmas=-SIGMAS), kind


KINDS = ("regions", "halves", "trimmed parts", "unions")


def aligned(run: sl.Run) -> dict[str, Floats]:
    """Boxes along the edges of regions, by kind."""
    partition, hierarchy = run.partition, run.task.hierarchy
    depths = hierarchy.depth(partition.cells)
    above = [
        partition.cells[depths > levels] >> np.uint64(hierarchy.level_bits * levels)
        for levels in range(1, int(depths.max()))
    ]
    cells = (partition.cells, hierarchy.children(partition.cells).ravel(), partition.trimmed_cells)
    unions = np.unique(np.concatenate([np.empty(0, dtype=np.uint64), *above]))
    return dict(zip(KINDS, map(hierarchy.boxes, (*cells, unions)), strict=True))
