"""One recursion from leaves to root: the variance of any question, whatever the tree."""

from __future__ import annotations

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.protocol.density import Parts
from semilocal.release.tree import CountTree, Taken


def random_tree(rng: np.random.Generator, *, unbiased: bool = False) -> CountTree:
    """Three levels with one to four children each; numbers and errors are made up."""
    hierarchy = sl.BinaryTree(sl.Box((0.0,), (1.0,)), 12)
    low, high = hierarchy.ends
    edges, children = [np.array([low, high], dtype=np.uint64)], []
    for _ in range(3):
        above = edges[-1]
        new = rng.choice(np.arange(low + 1, high, dtype=np.uint64), 9, replace=False)
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


@pytest.mark.parametrize("seed", range(4))
def test_many_questions_have_the_variance_of_the_plain_recursion(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = random_tree(rng)
    shares = rng.random((6, len(tree.leaves))) * (rng.random((6, len(tree.leaves))) < 0.6)
    question, leaf = np.nonzero(shares)
    order = rng.permutation(len(question))
    taken = Taken(question[order], tree.leaves[leaf[order]], shares[question, leaf][order])
    assert tree.variance(taken, 6) == pytest.approx([slow_variance(tree, row) for row in shares])
    planted = Taken(taken.question, taken.row, np.ones(len(taken.share)))
    assert tree.variance(planted, 6) != pytest.approx([slow_variance(tree, row) for row in shares])


def test_noise_of_a_row_is_the_variance_of_a_question_about_it() -> None:
    tree = random_tree(np.random.default_rng(7))
    rows = np.arange(1, len(tree))
    alone = Taken(np.arange(len(rows)), rows, np.ones(len(rows)))
    assert tree.noise[rows] == pytest.approx(tree.variance(alone, len(rows)))


def test_clumps_of_leaves_that_are_cut_lean_alike() -> None:
    """Half of the clumps' variance is common; chance is not. Planted: all of it independent."""
    tree = random_tree(np.random.default_rng(8))
    two = tree.leaves[:2]
    taken = Taken(np.zeros(2, dtype=np.int64), two, np.full(2, 0.5))
    people = tree.people[two]
    clumps = 0.2 * np.maximum(people**2 + tree.noise[two] - people, 0.0) / 4
    expected = people.sum() / 4 + clumps.sum() / 2 + np.sqrt(clumps).sum() ** 2 / 2
    assert tree.inside(taken, 1) == pytest.approx([expected])
    assert tree.inside(taken, 1)[0] > people.sum() / 4 + clumps.sum()
