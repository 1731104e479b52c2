"""The promise of a crowd, on hard shapes, over thousands of seeded runs.

The promise: fewer than k participants are published in a participant's region with probability at most delta, for
everybody, however often they are moved. Participants of one run are dependent, so the unit of evidence is the run, and
every run contributes one number with mean at most 0 under the promise,

    D = [crowd below k] - delta,

once for a participant in the worst place of the shape and once for the mean over all participants. Test by betting:
for a fixed stake s the product of (1 + s * D) over independent runs has mean at most 1, so by Markov's inequality it
exceeds 1/ALARM with probability at most ALARM, whatever the distribution of D; so does the mean over several stakes.
By Ville's inequality this holds for the largest product on the way as well: the alarm may be raised after any run. All
runs of a test are played side by side in one tree, by the same machine as a single one. With ALARM = 1e-8 and fewer
than 100 tests, the false-alarm rate of this file is below 1e-6.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from semilocal import Box, Task, simulate
from semilocal.errors import NoCrowdWarning
from tests.helpers.forest import play_side_by_side

ALARM = 1e-8
RUNS = 1000  # a share of 2 delta raises the alarm in 99.7 % of all cases; in 500 runs it would in 61 %
CORNER_RUNS = 250
LEVELS = 10  # above the runs: 1,024 cells
K, DELTA, TRIMS = 15, 0.1, 3
SQUARE = Box((0, 0), (1, 1))
Floats = npt.NDArray[np.float64]
Rng = np.random.Generator


def wealth(differences: Floats, lowest: float) -> float:
    """Mean over stakes of the product of 1 + stake * D, the largest on the way; D is never below ``lowest``."""
    assert differences.min() >= lowest
    stakes = np.geomspace(0.05, 0.95, 6) / -lowest
    logs = np.log1p(stakes[:, None] * differences).cumsum(axis=1)
    return float(np.mean(np.exp(np.minimum(logs, 600.0)), axis=0).max())


# -- hard shapes; participant 0 is in the worst place --------------------------------------------------------------


def half_empty(rng: Rng) -> Floats:
    """One short of a crowd in the right half."""
    left, right = rng.random((100, 2)) * [0.5, 1], rng.random((K - 1, 2)) * [0.5, 1] + [0.5, 0]
    return np.concatenate([right, left])


def coastline(rng: Rng) -> Floats:
    """Land below a wave, and a few swimmers."""
    x = rng.random(110)
    land = np.column_stack([x, rng.random(110) * (0.5 + 0.2 * np.sin(6 * x))])
    return np.concatenate([rng.random((9, 2)) * [1, 0.1] + [0, 0.9], land])


def tight_cluster(rng: Rng) -> Floats:
    """Nearly everybody in one place, and strays far away."""
    return np.concatenate([0.75 + 0.25 * rng.random((K - 2, 2)), 0.3 + rng.normal(0, 1e-3, (110, 2))])


def line(rng: Rng) -> Floats:
    """On the diagonal, thinning out; participant 0 at its thin end."""
    t = np.sort(rng.beta(1.5, 5, 120))[::-1]
    return np.column_stack([t, t])


def duplicates(rng: Rng) -> Floats:
    """Two addresses, one of them one short of a crowd."""
    return np.concatenate([np.full((K - 1, 2), (0.8, 0.7)), np.full((100, 2), (0.3, 0.7))])


def just_a_crowd(rng: Rng) -> Floats:
    """k = n."""
    return rng.random((K, 2))


def two_too_few(rng: Rng) -> Floats:
    """Both halves are one short."""
    return np.concatenate([rng.random((K - 1, 2)) * [0.5, 1], rng.random((K - 1, 2)) * [0.5, 1] + [0.5, 0]])


SHAPES: dict[str, Callable[[Rng], Floats]] = {
    shape.__name__.replace("_", " "): shape
    for shape in (half_empty, coastline, tight_cluster, line, duplicates, just_a_crowd, two_too_few)
}


def task_of(rule: Any, **options: Any) -> Task:
    settings: dict[str, Any] = {"epsilon": 2.0, "delta": DELTA, "k": K, "max_depth": LEVELS + 4, **options}
    return Task.build(SQUARE, rule=rule, max_trims=TRIMS if rule == "trim" else 0, **settings)


@cache
def evidence(task: Task, shape: Callable[[Rng], Floats], *, delta: float, runs: int) -> tuple[Floats, Floats]:
    """D of every run: float64[runs] for participant 0, and for the mean over all participants."""
    rng = np.random.default_rng(20240)
    shapes = [shape(rng) for _ in range(runs)]
    side = play_side_by_side(shapes, task, LEVELS, rng=rng)
    alone = side.run.partition.crowds[side.run.regions] < task.k
    shares = np.bincount(side.which, alone) / np.bincount(side.which)
    return alone[side.first].astype(np.float64) - delta, shares - delta


LOWEST = -DELTA


@pytest.mark.parametrize("rule", ["all", "trim"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_share_without_a_crowd_stays_within_the_promise(shape: str, rule: str) -> None:
    worst, mean = evidence(task_of(rule), SHAPES[shape], delta=DELTA, runs=RUNS)
    assert wealth(worst, LOWEST) < 1 / ALARM
    assert wealth(mean, LOWEST) < 1 / ALARM


@pytest.mark.parametrize("shape", ["half empty", "coastline", "tight cluster", "line", "duplicates", "two too few"])
def test_the_rule_that_keeps_no_crowd_is_caught(shape: str) -> None:
    worst, mean = evidence(task_of("each"), SHAPES[shape], delta=DELTA, runs=60)
    assert max(wealth(worst, LOWEST), wealth(mean, LOWEST)) > 1 / ALARM


def test_a_crowd_test_that_is_too_lax_is_caught() -> None:
    """The planted bug: the tests are made for four times the delta that is promised."""
    lax = msgspec.structs.replace(task_of("all"), delta=4 * DELTA)
    worst, _ = evidence(lax, SHAPES["half empty"], delta=DELTA, runs=400)
    assert wealth(worst, LOWEST) > 1 / ALARM


def test_the_test_is_not_won_by_waste() -> None:
    """The promise is nearly used up in the worst place: the share without a crowd is not far below delta."""
    worst, _ = evidence(task_of("all"), SHAPES["half empty"], delta=DELTA, runs=RUNS)
    share = float(np.mean(worst + DELTA))
    # Hoeffding: the observed share is within 0.1 of the true one but for 2 exp(-2 * 1000 * 0.01) < 1e-8.
    assert 0 < share <= DELTA + 0.1


# -- many trims on one path, and many children ---------------------------------------------------------------------


def corners(rng: Rng, dimensions: int) -> Floats:
    """Everybody in one corner, one short of a crowd in the opposite one: a test can err in every round of the path.

    The noise of a test is that of the many, and much larger than k. So a child passes by mistake about as often with
    the few who were moved into it as with k - 1, and mistakes add up along the path.
    """
    few = 1 - CORNER * rng.random((K - 1, dimensions))
    return np.concatenate([few, CORNER * rng.random((MANY, dimensions))])


CORNER, MANY, CORNER_DELTA = 1e-8, 1500, 0.05
CORNERS: dict[str, tuple[int, int, dict[str, Any]]] = {  # dimensions, levels above the runs, task
    "binary, core": (1, 8, {"epsilon": 0.7, "max_trims": 16, "max_depth": 28}),
    "binary, uniform": (1, 8, {"epsilon": 11.9, "max_trims": 16, "accounting": "uniform", "max_depth": 28}),
    "fanout 4": (2, 4, {"epsilon": 1.0, "max_trims": 12, "tree": "quad", "max_depth": 24}),
    "fanout 8": (3, 3, {"epsilon": 1.5, "max_trims": 8, "tree": "quad", "max_depth": 20}),
    "fanout 16": (4, 2, {"epsilon": 2.0, "max_trims": 6, "tree": "quad", "max_depth": 15}),
}


def corner_evidence(name: str) -> Floats:
    """D of participant 0, who is in the sparse corner, in every run.

    Without a limit on visitors, which refuses most mistakes of such a path and would hide how many there are.
    """
    dimensions, levels, options = CORNERS[name]
    domain, rng = Box((0,) * dimensions, (1,) * dimensions), np.random.default_rng(20242)
    task = Task.build(domain, delta=CORNER_DELTA, k=K, max_visitors=1.0, **options)
    shapes = [corners(rng, dimensions) for _ in range(CORNER_RUNS)]
    side = play_side_by_side(shapes, task, levels, rng=rng)
    alone = side.run.partition.crowds[side.run.regions[side.first]] < K
    return alone.astype(np.float64) - CORNER_DELTA


@pytest.mark.parametrize("name", CORNERS)
def test_delta_holds_for_who_is_moved_again_and_again(name: str) -> None:
    assert wealth(corner_evidence(name), -CORNER_DELTA) < 1 / ALARM


@pytest.mark.parametrize("name", CORNERS)
def test_tests_of_a_path_that_do_not_share_delta_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: every single test may err with the delta that is promised for the whole path.

    Power: of 500 other runs 30 % to 49 % had no crowd, where 5 % are promised. 40 of 250 runs raise the alarm, and with
    25 % they fail to with probability 2e-4.
    """
    monkeypatch.setattr(Task, "delta_test", property(lambda task: task.delta))
    assert wealth(corner_evidence(name), -CORNER_DELTA) > 1 / ALARM


@pytest.mark.parametrize("rule", ["all", "trim"])
@pytest.mark.parametrize("size", [0, 1, K - 1])
def test_fewer_than_k_share_one_region_and_are_warned_every_time(size: int, rule: str) -> None:
    task = task_of(rule)
    for seed in range(50):
        rng = np.random.default_rng(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run = simulate(rng.random((size, 2)), task, rng=rng)
        assert [warning.category for warning in caught] == [NoCrowdWarning]
        assert run.partition.cells.tolist() == [1]
        assert run.partition.crowds.tolist() == [size]


def test_the_bet_raises_no_alarm_for_a_promise_that_is_just_kept_and_one_for_a_broken_one() -> None:
    rng = np.random.default_rng(1)
    kept = (rng.random(RUNS) < DELTA).astype(np.float64) - DELTA
    broken = (rng.random(RUNS) < 2.5 * DELTA).astype(np.float64) - DELTA
    assert wealth(kept, LOWEST) < 1 / ALARM < wealth(broken, LOWEST)
    assert math.isfinite(wealth(np.ones(RUNS) - DELTA, LOWEST))
