"""Crowds, measured: how often a participant ends with fewer than k of the roster, against delta.

A bet that needs no distribution. D = (1 if the participant has no crowd, else 0) - delta has a mean of at most 0 if the
promise holds. A stake on D > 0 in every run multiplies what one has by 1 + stake * D, so what one has is at least
1/ALARM with probability at most ALARM, whatever the distribution of D; so does the mean over several stakes. By Ville's
inequality this holds for the largest product on the way as well: the alarm may be raised after any run. With ALARM =
1e-8 and fewer than 100 tests, the false-alarm rate of this file is below 1e-6.

Exact sums for small worlds are in tests/unit/protocol/test_theorems.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest

from semilocal import Box, Curator, Task, simulate
from semilocal.errors import NoCrowdWarning
from semilocal.protocol import curator as curator_module
from semilocal.protocol import rule as rule_module
from semilocal.protocol.messages import Report
from semilocal.protocol.rule import Asking, Census
from semilocal.protocol.thresholds import thresholds
from semilocal.simulation import population as population_module
from tests.helpers.enumeration import aborted_not_counted, late_members_counted, levels_that_do_not_fall

ALARM = 1e-8
K, DELTA = 15, 0.1
SQUARE, LINE = Box((0, 0), (1, 1)), Box((0,), (1,))
Floats = npt.NDArray[np.float64]
Rng = np.random.Generator


def wealth(differences: Floats, lowest: float = -DELTA) -> float:
    """Mean over stakes of the product of 1 + stake * D, the largest on the way; D is never below ``lowest``."""
    assert differences.min() >= lowest
    stakes = np.geomspace(0.05, 0.95, 6) / -lowest
    logs = np.log1p(stakes[:, None] * differences).cumsum(axis=1)
    return float(np.mean(np.exp(np.minimum(logs, 600.0)), axis=0).max())


# -- the rule as it is, on hard shapes; participant 0 is in the worst place ----------------------------------------


def half_empty(rng: Rng) -> Floats:
    """One short of a crowd in the right half."""
    left, right = rng.random((200, 2)) * [0.5, 1], rng.random((K - 1, 2)) * [0.5, 1] + [0.5, 0]
    return np.concatenate([right, left])


def coastline(rng: Rng) -> Floats:
    """Land below a wave, and a few swimmers."""
    x = rng.random(210)
    land = np.column_stack([x, rng.random(210) * (0.5 + 0.2 * np.sin(6 * x))])
    return np.concatenate([rng.random((9, 2)) * [1, 0.1] + [0, 0.9], land])


def tight_cluster(rng: Rng) -> Floats:
    """Nearly everybody in one place, and strays far away."""
    return np.concatenate([0.75 + 0.25 * rng.random((K - 2, 2)), 0.3 + rng.normal(0, 1e-3, (210, 2))])


def duplicates(rng: Rng) -> Floats:
    """Two addresses, one of them one short of a crowd."""
    return np.concatenate([np.full((K - 1, 2), (0.8, 0.7)), np.full((200, 2), (0.3, 0.7))])


def two_too_few(rng: Rng) -> Floats:
    """Both halves are one short."""
    return np.concatenate([rng.random((K - 1, 2)) * [0.5, 1], rng.random((K - 1, 2)) * [0.5, 1] + [0.5, 0]])


SHAPES: dict[str, Callable[[Rng], Floats]] = {
    shape.__name__.replace("_", " "): shape for shape in (half_empty, coastline, tight_cluster, duplicates, two_too_few)
}


def task_of(rule: Any = "cut", **options: Any) -> Task:
    return Task.build(SQUARE, rule=rule, **{"epsilon": 2.0, "delta": DELTA, "k": K, "max_depth": 8, **options})


def evidence(task: Task, shape: Callable[[Rng], Floats], *, runs: int) -> tuple[Floats, Floats]:
    """D of every run: float64[runs] for participant 0, and for the mean over all participants."""
    rng = np.random.default_rng(20240)
    worst, mean = [], []
    for _ in range(runs):
        points = shape(rng)
        partition = simulate(points, task, rng=rng).partition
        alone = partition.crowds[partition.locate(points)] < task.k
        worst.append(float(alone[0]) - DELTA)
        mean.append(float(alone.mean()) - DELTA)
    return np.array(worst), np.array(mean)


@pytest.mark.parametrize("rule", ["all", "cut"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_share_without_a_crowd_stays_within_the_promise(shape: str, rule: str) -> None:
    for found in evidence(task_of(rule), SHAPES[shape], runs=150):
        assert wealth(found) < 1 / ALARM


def test_a_crowd_test_that_is_too_lax_is_caught() -> None:
    """The planted bug: the tests are made for four times the delta that is promised."""
    worst, _ = evidence(task_of("all", delta=4 * DELTA), SHAPES["half empty"], runs=400)
    assert wealth(worst) > 1 / ALARM


@pytest.mark.parametrize("rule", ["all", "cut"])
@pytest.mark.parametrize("size", [0, 1, K - 1])
def test_fewer_than_k_share_one_region_and_are_warned_every_time(size: int, rule: str) -> None:
    task = task_of(rule)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run = simulate(rng.random((size, 2)), task, rng=rng)
        assert [warning.category for warning in caught] == [NoCrowdWarning]
        assert run.partition.crowds.tolist() == [size]


# -- hostile cuts: k - 1 people beside a dense crowd, cut off again and again --------------------------------------


@contextmanager
def cutting_off(module: Any, cut: int) -> Iterator[None]:
    """A rule that asks at one cut, of as few people as the threshold allows, until nobody is left."""

    def ask(task: Task, census: Census) -> Asking:
        found = []
        columns = (census.lower, census.upper, census.askable, census.failed)
        for row, (lower, upper, free, failed) in enumerate(zip(*(one.tolist() for one in columns), strict=True)):
            sizes = np.arange(6, min(free, 120) + 1, 2)
            if not lower < cut < upper or not len(sizes):
                continue
            level = vars(rule_module)["level"](task.delta, failed)
            least = thresholds(
                np.full(len(sizes), free), sizes, task.k, task.randomizer.epsilon, np.full(len(sizes), level)
            )
            possible = np.flatnonzero(2 * least <= sizes)
            if len(possible):
                found.append((row, int(sizes[possible[0]]), int(least[possible[0]])))
        rows, asked, t = np.array(found, dtype=np.int64).reshape(-1, 3).T
        nothing = np.zeros(len(rows))
        return Asking(rows, np.full((len(rows), 1), cut, np.uint64), asked, asked, t, nothing, nothing)

    def nothing(task: Task, census: Census) -> Asking:
        return ask(task, census.rows(np.empty(0, dtype=np.int64)))

    with mock.patch.object(module, "questions", ask), mock.patch.object(module, "refinements", nothing):
        yield


def cut_off(runs: int) -> Floats:
    """D of one of the k - 1 people; a split at that cut leaves them alone."""
    task = Task.build(LINE, epsilon=2.0, delta=DELTA, k=K, max_depth=10)
    points = np.concatenate([np.full((K - 1, 1), 0.9), np.linspace(0.0, 0.5, 400)[:, None]])
    rng = np.random.default_rng(20241)
    cut = int(task.hierarchy.codes([[0.6]])[0])
    with cutting_off(population_module, cut):
        return np.array([float(len(simulate(points, task, rng=rng).partition) > 1) - DELTA for _ in range(runs)])


def test_the_same_cut_again_and_again_stays_within_the_promise() -> None:
    assert wealth(cut_off(400)) < 1 / ALARM


def test_levels_that_do_not_fall_are_caught() -> None:
    """The planted bug: more than half of the runs have no crowd, where 10 % are promised."""
    with levels_that_do_not_fall():
        assert wealth(cut_off(200)) > 1 / ALARM


# -- servers that lose answers, and people who come late, with the real server and real draws --------------------------


def campaign(rng: Rng, *, aborts: bool = False, late: int = 0) -> bool:
    """Whether k - 1 people were cut off. ``aborts``: the server publishes no answer of a round that does not split."""
    task = Task.build(LINE, epsilon=2.0, delta=DELTA, k=4, max_depth=4)
    lower, upper = task.hierarchy.ends
    cut = upper - 4
    places = {rng.bytes(16): upper - 1 if row < task.k - 1 else lower for row in range(300)}
    joining = {rng.bytes(16): upper - 1 for _ in range(late)}
    p = task.randomizer.probabilities[0]  # type: ignore[union-attr]
    with cutting_off(curator_module, cut):
        server = Curator(task)
        while not server.partitioned and len(server.logs) == 1:
            drawn = server.asked_now((lower, upper))
            says = {name: int(rng.random() < p) ^ (places[name] < cut) for name in drawn}
            question = server.logs[lower, upper].question
            if (
                aborts
                and question is not None
                and min(sum(says.values()), len(says) - sum(says.values())) < question.threshold
            ):
                says = {}
            spoken = dict.fromkeys(places if server.round == 1 else joining if server.round == 2 else ()) | says
            places |= joining if server.round == 2 else {}
            server.close(
                [
                    Report(task.id, server.round, name, lower, upper, said, rng.bytes(16))
                    for name, said in spoken.items()
                ]
            )
        return len(server.logs) > 1


def measured(runs: int, **options: Any) -> Floats:
    rng = np.random.default_rng(20243)
    return np.array([float(campaign(rng, **options)) - DELTA for _ in range(runs)])


@pytest.mark.parametrize(
    ("options", "bug"),
    [({}, levels_that_do_not_fall), ({"aborts": True}, aborted_not_counted), ({"late": 40}, late_members_counted)],
)
def test_losses_and_late_joiners_stay_within_the_promise_and_planted_bugs_are_caught(
    options: dict[str, Any], bug: Callable[[], AbstractContextManager[object]]
) -> None:
    for fault, caught in ((nullcontext, False), (bug, True)):
        with fault():
            assert (wealth(measured(300, **options)) > 1 / ALARM) == caught


def test_the_bet_raises_no_alarm_for_a_promise_that_is_just_kept_and_one_for_a_broken_one() -> None:
    rng = np.random.default_rng(1)
    kept = (rng.random(1000) < DELTA).astype(np.float64) - DELTA
    broken = (rng.random(1000) < 2.5 * DELTA).astype(np.float64) - DELTA
    assert wealth(kept) < 1 / ALARM < wealth(broken)
    assert math.isfinite(wealth(np.ones(1000) - DELTA))
