"""The tree is a function of what was published: it replays, and a transcript that breaks the rule is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from semilocal import Box
from semilocal.errors import InvalidInput
from semilocal.pooled import UNITS, MemoryCounter, PooledTask, Published, estimate, play, replay
from semilocal.pooled.noise import from_entropy, from_generator, from_secret
from semilocal.pooled.play import difference_noise, next_level, root_level
from tests.helpers.pooled_runs import seeded


@pytest.fixture(scope="module")
def published() -> Published:
    rng = np.random.default_rng(3)
    points = np.clip(rng.normal(0.3, 0.05, (3000, 2)), 0, 1)
    task = PooledTask.build(Box((0, 0), (1, 1)), epsilon=1.0, trust="two-servers")
    return seeded(task, points, 5)


def test_the_transcript_gives_the_same_tree_and_estimates(published: Published) -> None:
    again = Published.from_bytes(published.to_bytes())
    assert again.to_bytes() == published.to_bytes()
    one, other = estimate(replay(published)), estimate(replay(again))
    assert (one.counts == other.counts).all()
    assert (one.tree.cells == published.cells).all()
    assert len(published.cells) > 50


def test_final_cells_cover_the_domain_in_order(published: Published) -> None:
    tree = replay(published)
    first, last = tree.task.hierarchy.span(tree.cells)
    assert first[0] == 1 << tree.task.hierarchy.path_bits  # type: ignore[union-attr]
    assert (first[1:] == last[:-1] + np.uint64(1)).all()
    assert last[-1] == (2 << tree.task.hierarchy.path_bits) - 1  # type: ignore[union-attr]
    inside = np.random.default_rng(0).random((500, 2))
    boxes = tree.task.hierarchy.boxes(tree.cells)[tree.find(inside)]
    assert ((inside >= boxes[:, 0]) & (inside <= boxes[:, 1])).all()


def test_every_path_spends_its_budget_and_no_more(published: Published) -> None:
    tree = replay(published)
    spent = np.zeros(len(tree.cells), dtype=np.int64)
    for level in tree.levels:
        for cell, price in zip(level.cells[level.opened].tolist(), level.price[level.opened].tolist(), strict=True):
            below = tree.task.hierarchy.span(np.array([cell], dtype=np.uint64))
            first = tree.task.hierarchy.span(tree.cells)[0]
            spent[(first >= below[0]) & (first <= below[1])] += price
    assert (spent + tree.units == UNITS).all()
    assert (tree.units > 0).all()


CHANGES: dict[str, Callable[[Published], dict[str, Any]]] = {
    "a level is missing": lambda it: {"opened": it.opened[:-1], "differences": it.differences[:-1]},
    "a level is added": lambda it: {
        "opened": (*it.opened, it.cells[:1]),
        "differences": (*it.differences, np.array([1])),
    },
    "another cell": lambda it: {"opened": (it.opened[0], it.opened[1] ^ np.uint64(1), *it.opened[2:])},
    "another number": lambda it: {"differences": (-it.differences[0] - 900, *it.differences[1:])},
    "another total": lambda it: {"people": 30},
    "a final cell is missing": lambda it: {"cells": it.cells[:-1], "counts": it.counts[:-1]},
    "a final count is missing": lambda it: {"counts": it.counts[:-1]},
    "a number too many": lambda it: {"differences": (np.array([1, 2]), *it.differences[1:])},
    "another task": lambda it: {"task": PooledTask.build(it.task.box, epsilon=0.5, trust="two-servers")},
    "a negative total": lambda it: {"people": -1},
    "a count no tree can have": lambda it: {"counts": it.counts + 2**62 + 5 * np.abs(it.counts).max()},
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_transcript_that_breaks_the_rule_is_refused(published: Published, what: str) -> None:
    with pytest.raises(InvalidInput):
        replay(dataclasses.replace(published, **CHANGES[what](published)))


def test_bytes_that_are_not_canonical_are_refused(published: Published) -> None:
    for data in (b"", published.to_bytes() + b"\0", published.to_bytes()[:-1]):
        with pytest.raises(InvalidInput, match="published tree"):
            Published.from_bytes(data)


@pytest.mark.parametrize("people", [0, 1, 5])
def test_few_people_give_one_cell_and_their_number(people: int) -> None:
    task = PooledTask.build(Box((0,), (1,)), epsilon=1.0, trust="curator")
    found = estimate(replay(seeded(task, np.full((people, 1), 0.5), 1)))
    assert found.tree.cells.tolist() == [1]
    assert found.counts.tolist() == [people]


@pytest.mark.parametrize("dimensions", [1, 2, 3, 8])
def test_a_crowd_is_found_in_any_dimension(dimensions: int) -> None:
    task = PooledTask.build(Box((0,) * dimensions, (1,) * dimensions), epsilon=4.0, trust="curator")
    points = np.full((5000, dimensions), 0.7)
    found = estimate(replay(play(task, MemoryCounter(task, points, from_entropy(__import__("os").urandom)))))
    crowd = found.tree.find(np.full((1, dimensions), 0.7))[0]
    # 200 times the scale of the noise of a whole path: never in practice
    assert abs(found.counts[crowd] - 5000) < 200 / task.path_budget
    assert task.hierarchy.depth(found.tree.cells)[crowd] >= 8


def test_a_retry_with_the_same_secret_publishes_the_same_bytes() -> None:
    task = PooledTask.build(Box((0,), (1,)), epsilon=2.0, trust="curator")
    points = np.random.default_rng(1).beta(2, 20, (2000, 1))

    class Derived(MemoryCounter):
        def differences(self, depth, cells, units):  # type: ignore[no-untyped-def]
            self._words = from_secret(bytes(32), task.id + depth.to_bytes(2, "big"), cells)
            return super().differences(depth, cells, units)

        def counts(self, cells, units):  # type: ignore[no-untyped-def]
            self._words = from_secret(bytes(32), task.id + b"final", cells)
            return super().counts(cells, units)

    runs = [play(task, Derived(task, points, from_generator(np.random.default_rng(i)))).to_bytes() for i in range(2)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("people", [1_000, 10**6, 10**12])
def test_opening_never_costs_less_than_its_share_of_a_whole_path(people: int) -> None:
    task = PooledTask.build(Box((0, 0), (1, 1)), epsilon=0.2, trust="curator", max_depth=14)
    level = root_level(task, people)
    while level.opened.any():
        assert level.price[level.opened].min() >= UNITS // (8 * task.hierarchy.max_depth)
        level = next_level(task, level, np.zeros(np.count_nonzero(level.opened), dtype=np.int64))


@pytest.mark.parametrize("difference", [1_000, 1_400, -5_000])
def test_a_half_that_seems_empty_is_not_certain_to_be_empty(difference: int) -> None:
    task = PooledTask.build(Box((0, 0), (1, 1)), epsilon=0.2, trust="curator", max_depth=14)
    root = root_level(task, 1_000)
    noise = difference_noise(task, root.price)
    halves = next_level(task, root, np.array([difference]))
    assert (halves.variance >= noise[0] / 4).all()
    assert halves.size.sum() == pytest.approx(1_000)
