"""The loss that is stated is the loss: enumerated over all small trees, exact for every pair, never above epsilon.

Planted bugs (noise of half the size; a budget that is not reduced along a path) must break the bound.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from semilocal import Box
from semilocal.pooled import UNITS, PooledTask, Tree, play, replay
from semilocal.pooled.play import Level, next_level
from semilocal.pooled.task import guarantee
from semilocal.protocol.promise import Mark
from tests.helpers.pooled_runs import largest_log_ratio, seeded, small_task

OTHERS = np.array([0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.6, 0.8, 0.9])
PLACES = np.array([0.01, 0.15, 0.4, 0.55, 0.99])  # every quarter, and one of them twice
NUMBERS = (-30, -2, 1, 30)  # what a difference may come out as: far out on both sides, and in between


class Scripted:
    """A counter whose differences a test chooses; counts are zero."""

    people = len(OTHERS) + 1

    def __init__(self, script: tuple[int, ...]) -> None:
        self.script = list(script)

    def differences(self, depth: int, cells: npt.NDArray[np.uint64], units: npt.NDArray[np.int64]) -> np.ndarray:
        return np.array([self.script.pop(0) for _ in cells], dtype=np.int64)

    def counts(self, cells: npt.NDArray[np.uint64], units: npt.NDArray[np.int64]) -> np.ndarray:
        return np.zeros(len(cells), dtype=np.int64)


def all_trees(task: PooledTask) -> Iterator[Tree]:
    """Every tree of two levels whose differences are among NUMBERS."""
    seen = set()
    for script in itertools.product(NUMBERS, repeat=3):
        published = play(task, Scripted(script))
        key = published.to_bytes()
        if key not in seen:
            seen.add(key)
            yield replay(published)


def worlds(place: float) -> np.ndarray:
    return np.append(OTHERS, place)[:, None]


def loss_between(tree: Tree, x: float, y: float) -> float:
    """The theorem's bound: what was left at the last opened cell that holds both places; 0 inside one final cell."""
    left = [0]
    for level in tree.levels:
        one, other = tree.task.hierarchy.locate([[x], [y]], level.depth)
        left += level.left[level.opened & (level.cells == one) & (one == other)].tolist()
    return left[-1] * tree.task.epsilon / UNITS


def worst(trees: list[Tree]) -> tuple[float, float]:
    """Largest log-likelihood ratio over trees and pairs, and the largest excess over what is stated for the pair."""
    ratios, excess = [], []
    for tree in trees:
        for x, y in itertools.permutations(PLACES, 2):
            ratio = largest_log_ratio(tree, worlds(x), worlds(y))
            stated = loss_between(tree, x, y)
            ratios.append(ratio)
            excess.append(ratio - stated)
    return max(ratios), max(excess)


def test_the_stated_loss_bounds_every_output_and_is_reached() -> None:
    tasks = [small_task(threshold=threshold) for threshold in (2.0, 4.0, 5.0)]
    task, trees = tasks[0], [tree for task in tasks for tree in all_trees(task)]
    assert len(trees) > 40
    assert {len(tree.cells) for tree in trees} == {2, 3, 4}
    ratio, excess = worst(trees)
    assert excess <= 1e-9
    assert ratio == pytest.approx(task.epsilon, abs=1e-9)  # some output reaches it: no smaller number is true


def test_noise_of_half_the_size_would_be_seen() -> None:
    task = small_task()
    louder = msgspec.structs.replace(task, epsilon=2 * task.epsilon)
    planted = [dataclasses.replace(tree, task=louder) for tree in all_trees(task)]
    ratio = max(largest_log_ratio(tree, worlds(PLACES[0]), worlds(PLACES[-1])) for tree in planted)
    assert ratio > 1.5 * task.epsilon


def test_a_budget_that_is_not_reduced_along_a_path_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(task: PooledTask, level: Level, differences: npt.NDArray[np.int64]) -> Level:
        below = next_level(task, level, differences)
        return dataclasses.replace(below, left=np.full_like(below.left, 1024))

    task = small_task()
    monkeypatch.setattr(sys.modules["semilocal.pooled.play"], "next_level", forgetful)
    ratio = max(largest_log_ratio(tree, worlds(PLACES[0]), worlds(PLACES[-1])) for tree in all_trees(task))
    assert ratio > 1.1 * task.epsilon


def test_reports_of_one_person_share_the_promise() -> None:
    points = np.random.default_rng(0).random((900, 1))
    task = small_task(max_reports=3)
    tree = replay(seeded(task, points, 1))
    moved = np.concatenate([points, np.full((3, 1), 0.01)]), np.concatenate([points, np.full((3, 1), 0.99)])
    differences = [np.where(np.arange(len(level)) >= 0, 10**6, 0) for level in tree.differences]
    far = dataclasses.replace(tree, differences=tuple(differences))
    ratios = [largest_log_ratio(far, *pair) for pair in (moved, moved[::-1])]
    assert max(ratios) <= task.epsilon + 1e-9
    assert loss_between(tree, 0.01, 0.99) == task.epsilon


def test_the_promise_says_what_is_known() -> None:
    found = guarantee(small_task(), mark=Mark(seeded=True))
    assert found.epsilon == found.anywhere == 2.0
    assert found.delta == 0
    text = found.explain()
    assert "epsilon = 1 (delta = 0) for everything but the number of reports, which is public" in text
    assert "curator" in text
    assert "in the same final cell: 0; anywhere in the domain: 2" in text
    both = guarantee(PooledTask.build(Box((0,), (1,)), epsilon=1.0, trust="two-servers"), releases=(("a mean", 1.0),))
    assert "either operator alone" in both.explain()
    assert "in the same final cell: 1; anywhere in the domain: 2" in both.explain()
