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
from semilocal.errors import InvalidInput
from semilocal.pooled import PooledTask, Tree, estimate, play, replay
from semilocal.pooled.loss import guarantee, ladder, loss_between
from semilocal.pooled.rule import Level, next_level
from semilocal.protocol.mark import Mark
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


def worst(trees: list[Tree]) -> tuple[float, float]:
    """Largest log-likelihood ratio over trees and pairs, and the largest excess over what is stated for the pair."""
    ratios, excess = [], []
    for tree in trees:
        for x, y in itertools.permutations(PLACES, 2):
            ratio = largest_log_ratio(tree, worlds(x), worlds(y))
            stated = float(loss_between(tree, [[x]], [[y]])[0])
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


@pytest.fixture(scope="module")
def tree() -> Tree:
    rng = np.random.default_rng(8)
    task = PooledTask.build(Box((0, 0), (1, 1)), epsilon=2.0, trust="curator")
    return replay(seeded(task, np.clip(rng.normal(0.6, 0.1, (4000, 2)), 0, 1), 2))


def test_the_loss_is_a_graded_metric(tree: Tree) -> None:
    rng = np.random.default_rng(1)
    x, y, z = rng.normal(0.6, 0.1, (3, 400, 2)).clip(0, 1)
    loss = loss_between(tree, x, y)
    assert (loss == loss_between(tree, y, x)).all()
    assert (loss <= tree.task.epsilon).all()
    assert (loss_between(tree, x, z) <= np.maximum(loss, loss_between(tree, y, z))).all()
    assert ((loss == 0) == (tree.find(x) == tree.find(y))).all()
    across = loss_between(tree, [[0.4, 0.5]], [[0.6, 0.5]])
    assert across[0] == tree.task.epsilon


def test_the_loss_is_what_was_left_where_two_paths_part(tree: Tree) -> None:
    """The walk down, level by level: the last opened cell that holds both decides."""
    rng = np.random.default_rng(2)
    x = rng.normal(0.6, 0.1, (300, 2)).clip(0, 1)
    y = (x + rng.normal(0, 0.02, x.shape)).clip(0, 1)
    same = tree.find(x) == tree.find(y)
    assert 0 < np.count_nonzero(same) < len(same)
    left = np.zeros(len(x), dtype=np.int64)
    for level in tree.levels:
        one, other = (tree.task.hierarchy.locate(points, level.depth) for points in (x, y))
        known = dict(zip(level.cells[level.opened].tolist(), level.left[level.opened].tolist(), strict=True))
        for row in np.flatnonzero((one == other) & ~same):
            left[row] = known.get(int(one[row]), left[row])
    assert loss_between(tree, x, y).tolist() == (left * (tree.task.epsilon / 1024)).tolist()


def test_a_ladder_over_very_many_cells_says_nearly_the_same(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """People at even distances stand for all: their losses have nearly the same quantiles."""
    counts = estimate(tree).counts
    every = ladder(tree, counts)
    monkeypatch.setattr(sys.modules["semilocal.pooled.loss"], "_MOST_PLACES", 4 * len(counts))
    assert len(sys.modules["semilocal.pooled.loss"]._stand_ins(counts)[0]) == 4 * len(counts)
    for few, all_places in zip(ladder(tree, counts), every, strict=True):
        assert few.words == all_places.words
        assert few[1:] == pytest.approx(all_places[1:], abs=0.05)


def test_reports_of_one_person_share_the_promise() -> None:
    points = np.random.default_rng(0).random((900, 1))
    task = small_task(max_reports=3)
    tree = replay(seeded(task, points, 1))
    moved = np.concatenate([points, np.full((3, 1), 0.01)]), np.concatenate([points, np.full((3, 1), 0.99)])
    differences = [np.where(np.arange(len(level)) >= 0, 10**6, 0) for level in tree.differences]
    far = dataclasses.replace(tree, differences=tuple(differences))
    ratios = [largest_log_ratio(far, *pair) for pair in (moved, moved[::-1])]
    assert max(ratios) <= task.epsilon + 1e-9
    assert loss_between(tree, [[0.01]], [[0.99]])[0] == task.epsilon


def test_the_ladder_climbs_from_nothing_to_epsilon(tree: Tree) -> None:
    rungs = ladder(tree, estimate(tree).counts)
    assert rungs[0].half == rungs[0].most == 0.0
    assert rungs[-1].half == rungs[-1].most == tree.task.epsilon
    by_distance = [rung for rung in rungs if rung.words.startswith("within")]
    assert len(by_distance) == 3
    assert all(a.half <= b.half and a.most <= b.most for a, b in itertools.pairwise(by_distance))
    assert all(rung.half <= rung.most for rung in rungs)
    assert 0 < rungs[1].half < tree.task.epsilon


def test_kilometres_are_used_where_axes_are_degrees() -> None:
    task = PooledTask.build(Box((-9, 41), (-8, 42), names=("longitude", "latitude")), epsilon=1.0, trust="two-servers")
    points = np.random.default_rng(0).normal((-8.6, 41.15), 0.01, (3000, 2))
    found = estimate(replay(seeded(task, points, 0)))
    words = [rung.words for rung in ladder(found.tree, found.counts)]
    assert words[2:5] == ["within 1 km", "within 10 km", "within 100 km"]


def test_the_promise_says_what_is_known(tree: Tree) -> None:
    found = guarantee(tree.task, ladder(tree, estimate(tree).counts), mark=Mark(seeded=True))
    assert found.epsilon == found.anywhere == 2.0
    assert found.delta == 0
    text = found.explain()
    assert "epsilon = 1 (delta = 0) for everything but the number of reports, which is public" in text
    assert "curator" in text
    assert "in the same final cell (for half of the people): 0" in text
    both = guarantee(PooledTask.build(Box((0,), (1,)), epsilon=1.0, trust="two-servers"))
    assert "either operator alone" in both.explain()


def test_positions_come_in_pairs(tree: Tree) -> None:
    with pytest.raises(InvalidInput, match="equally many"):
        loss_between(tree, [[0.1, 0.1]], [[0.2, 0.2], [0.3, 0.3]])
    with pytest.raises(InvalidInput):
        loss_between(tree, [[0.1, 1.1]], [[0.2, 0.2]])
