"""One recursion from leaves to root: the variance of any question, whatever the tree; here it is slow and plain."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.protocol.estimate import Parts
from semilocal.release.tree import CountTree


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
