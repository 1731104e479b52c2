"""The walk gives every box what its leaves have there; shapes of all kinds agree."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.geometry.areas import Lattice
from semilocal.protocol.estimate import Parts, Walls
from semilocal.protocol.partition import Away, Partition
from semilocal.release.public import public_tree
from semilocal.release.tree import CountTree
from semilocal.release.walk import TreeWalk
from tests.helpers.release_runs import run_of


def boxes_in(dimensions: int, number: int, seed: int = 1) -> np.ndarray:
    boxes = np.sort(np.random.default_rng(seed).random((number, 2, dimensions)), axis=1)
    boxes[: number // 4, 1] = boxes[: number // 4, 0] + 1e-3
    return boxes


def leaf_shares(tree: CountTree, boxes: np.ndarray) -> np.ndarray:
    """Which share of each leaf each box takes, part by part."""
    parts = tree.parts
    return np.add.reduceat(
        tree.hierarchy.shares(parts.cells, boxes) * parts.share,
        np.searchsorted(parts.piece, np.arange(len(tree.leaves))), axis=1,
    )  # fmt: skip


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"rule": "all"}, {"tree": "quad"}])
def test_answers_are_sums_over_the_parts_of_all_leaves(dimensions: int, options: dict[str, Any]) -> None:
    """Oracle: the share of every part in every box, one by one."""
    if options.get("tree") == "quad":
        options = {**options, "max_depth": 4}
    _, run = run_of(dimensions, seed=7, **options)
    tree = public_tree(run.partition)
    boxes = boxes_in(dimensions, 60)
    found = TreeWalk.of(tree).query(boxes)
    shares = leaf_shares(tree, boxes)
    assert found.value == pytest.approx(shares @ tree.people[tree.leaves])
    expected = [slow_variance(tree, row) + slow_inside(tree, row) for row in shares]
    assert found.stderr**2 == pytest.approx(expected, rel=1e-6, abs=1e-3)
    assert (found.most >= found.value - 1e-6).all()


@pytest.mark.parametrize("seed", range(4))
def test_any_tree_of_intervals_is_walked(seed: int) -> None:
    tree = random_tree(np.random.default_rng(seed), unbiased=True)
    boxes = boxes_in(1, 40)
    found, shares = TreeWalk.of(tree).query(boxes), leaf_shares(tree, boxes)
    assert found.value == pytest.approx(shares @ tree.people[tree.leaves])
    assert found.plain == pytest.approx(0.8 * found.value)  # the unbiased numbers
    assert found.most.tolist() == [tree.total] * 40
    noise = np.array([slow_variance(tree, row) for row in shares])
    assert found.stderr**2 == pytest.approx(noise + [slow_inside(tree, row) for row in shares])
    planted = noise + [slow_inside(tree, row) for row in np.roll(shares, 1, axis=0)]
    assert found.stderr**2 != pytest.approx(planted)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("rounding", [None, 1 / 64])
def test_many_boxes_are_answered_like_few(
    dimensions: int, rounding: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Oracle: the walk that opens all rows; boxes have sides on edges of cells, infinite and without length."""
    points = np.random.default_rng(5).beta(2, 5, (20_000, dimensions))
    box = sl.Box((0.0,) * dimensions, (1.0,) * dimensions)
    counted = sl.counts(points, box, epsilon=4.0, trust="curator", rounding=rounding, rng=np.random.default_rng(6))
    boxes = boxes_in(dimensions, 400)
    boxes[100:200] = np.clip(np.round(boxes[100:200] * 64) / 64, 0, 1)
    boxes[200:220, 0], boxes[210:230, 1], boxes[230:240, 1] = -np.inf, np.inf, boxes[230:240, 0]
    few = counted.answer(boxes)
    monkeypatch.setattr("semilocal.release.walk._MANY", 1)
    for planted in (False, True):
        many = counted.answer(boxes)
        for name in ("value", "stderr", "plain", "noise"):
            assert (getattr(many, name) == pytest.approx(getattr(few, name), rel=1e-9, abs=1e-9)) is not planted, name
        for walk in counted.__dict__["_walks"].values():
            assert walk.lines is not None
            assert len(walk.lines.keys) > 100
            walk.lines.entries[:, :7] *= 1.01  # planted: tables that are off


def test_on_a_lattice_a_box_takes_lines_and_not_lengths() -> None:
    """All people are at multiples of 1/8: a box from just after one line to just after the next holds one line."""
    lattice = Lattice((0.125,))
    task = sl.Task.build(sl.Box((0.0,), (1.0,)), epsilon=2.0)
    low, high = (np.array([code], dtype=np.uint64) for code in task.hierarchy.ends)
    crowd = np.array([4_000])
    tree = public_tree(Partition(task, low, high, crowd, 0 * crowd, Walls.none(1), Away.nobody()))
    boxes = np.array([[[0.01], [0.13]], [[0.01], [0.124]]])
    value = TreeWalk.of(tree, lattice).query(lattice.measure(boxes)).value
    assert value == pytest.approx([500.0, 0.0], abs=0.01)
    assert TreeWalk.of(tree).query(boxes).value[1] > 400  # planted: lengths


def random_tree(rng: np.random.Generator, *, unbiased: bool = False) -> CountTree:
    """Ten children of the root and two levels of halves below; numbers and errors are made up."""
    hierarchy = sl.BinaryTree(sl.Box((0.0,), (1.0,)), 12)
    low, high = hierarchy.ends
    edges, children = [np.array([low, high], dtype=np.uint64)], []
    for level in range(3):
        above = edges[-1]
        if level:
            new = np.array([rng.integers(one + 1, two) for one, two in pairwise(above)])
        else:
            new = rng.choice(np.arange(low + 8, high, 8), 9, replace=False)
        new = new.astype(np.uint64)
        edges.append(np.unique(np.concatenate([above, new])))
        children.append(np.diff(np.searchsorted(edges[-1], above)))
    lower = np.concatenate([edge[:-1] for edge in edges])
    upper = np.concatenate([edge[1:] for edge in edges])
    counts = np.concatenate([*children, np.zeros(len(edges[-1]) - 1, dtype=np.int64)])
    first = 1 + np.concatenate([[0], np.cumsum(counts)])
    parent = np.concatenate([[0], np.repeat(np.arange(len(counts)), counts)])
    weight, rest = rng.random(len(lower)), rng.random(len(lower))
    weight[1:] /= np.bincount(parent[1:], weight[1:])[parent[1:]]
    rest[1:] /= np.bincount(parent[1:], rest[1:])[parent[1:]]
    people = np.ones(len(lower))
    for row in range(1, len(lower)):
        people[row] = people[parent[row]] * (upper[row] - lower[row]) / (upper[parent[row]] - lower[parent[row]])
    leaves = np.arange(len(lower) - len(edges[-1]) + 1, len(lower))
    inside = hierarchy.interval_cells(lower[leaves], upper[leaves])
    piece = np.repeat(np.arange(len(leaves)), np.diff(inside[0]))
    size = np.diff(np.stack(hierarchy.span(inside[1])), axis=0)[0].astype(np.float64) + 1.0
    share = size / (upper - lower)[leaves].astype(np.float64)[piece]
    error = np.concatenate([[0.0], rng.random(len(lower) - 1)])
    return CountTree(
        hierarchy, lower, upper, first, 500.0 * people, weight, rest, error, Parts(inside[1], piece, share),
        np.full(len(lower), 0.2), 0.5, 400.0 * people if unbiased else None,
    )  # fmt: skip


def slow_variance(tree: CountTree, shares: Floats) -> float:
    """The recursion as house.md writes it: one question, shares of all leaves."""
    total, taken = 0.0, np.zeros(len(tree))
    taken[tree.leaves] = shares
    for row in reversed(range(len(tree))):
        below = slice(tree.first[row], tree.first[row + 1])
        if below.start < below.stop:
            mean = tree.rest[below] @ taken[below]
            total += float(tree.error[below] @ (taken[below] - mean) ** 2)
            taken[row] = tree.weight[below] @ taken[below]
    return total


def slow_inside(tree: CountTree, shares: Floats) -> float:
    """Chance and clumps, and what leans alike on top of them: one question, shares of all leaves."""
    people, cut = tree.people[tree.leaves], shares * np.maximum(1.0 - shares, 0.0)
    clumps = tree.clumped[tree.leaves] * np.maximum(tree.squares[tree.leaves] - people, 0.0)
    return float((people + clumps) @ cut + tree.lean * (2.0 * np.sqrt(clumps) @ cut) ** 2)


def test_noise_of_a_row_is_the_variance_of_a_question_about_it() -> None:
    tree = random_tree(np.random.default_rng(7))
    lower, upper = tree.lower[tree.leaves], tree.upper[tree.leaves]
    for row in range(1, len(tree)):
        inside = (lower >= tree.lower[row]) & (upper <= tree.upper[row])
        assert tree.noise[row] == pytest.approx(slow_variance(tree, inside.astype(np.float64)))
