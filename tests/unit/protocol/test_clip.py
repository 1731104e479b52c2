"""Values are clipped to where the region's people are, by public numbers alone."""

from __future__ import annotations

import numpy as np
import pytest

import semilocal as sl
from semilocal import functions
from semilocal.protocol import clip
from semilocal.protocol.clip import clips, cut_off
from semilocal.protocol.column import read_column
from semilocal.protocol.estimate import Walls
from semilocal.protocol.partition import Away, Partition
from semilocal.randomizer.values import best
from semilocal.testing import unit_box

X = functions.coordinate(0)


def line(asked: int, yes: int, *, wall: float = 0.25, crowd: int = 1_000) -> Partition:
    """The unit line as one region with one wall; so many say that they are above it."""
    task = sl.Task.build(unit_box(1), epsilon=1.0)
    low, high = task.hierarchy.ends
    cut = np.array([low + int((high - low) * wall)], dtype=np.uint64)
    walls = Walls(np.array([0, 1]), cut, np.array([asked]), np.array([yes])) if asked else Walls.none(1)
    lower, upper = (np.array([code], dtype=np.uint64) for code in (low, high))
    return Partition(task, lower, upper, np.array([crowd]), np.array([0]), walls, Away.nobody())


def test_nothing_is_cut_where_nobody_answered_or_values_are_their_own() -> None:
    assert clips(line(0, 0), X, 1.0).tolist() == [[0.0, 1.0]]
    age = read_column([3.0, 5.0], (0, 100), name="age")
    assert clips(line(1_000, 500), age, 1.0).tolist() == [[0.0, 100.0]]


def test_more_noise_cuts_more_and_a_crowd_cuts_less() -> None:
    def width(epsilon: float, crowd: int) -> float:
        low, high = clips(line(1_000, 350, crowd=crowd), X, epsilon)[0]
        return float(high - low)

    assert width(0.25, 1_000) <= width(1.0, 1_000) <= width(8.0, 1_000)
    assert width(0.25, 1_000) < width(8.0, 1_000)
    assert width(1.0, 200) <= width(1.0, 100_000)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_range_is_the_best_of_a_finer_grid(epsilon: float) -> None:
    """Oracle: the same cost at all pairs of 200 ends. The chosen one costs at most 2 % more."""
    partition = line(600, 260)
    held, noise = clip._held(partition, X), best(epsilon).worst_variance / 1_000
    clumped = 1.0 / (1.0 + partition.strength)

    def side(end: float, sign: float) -> float:
        mean, spread = held.off(np.array([end]), sign)
        return float(mean[0] ** 2 + clumped * spread[0])

    ends = np.linspace(0, 1, 201)
    above, below = (np.array([side(end, sign) for end in ends]) for sign in (1.0, -1.0))
    cost = noise * (ends[None] - ends[:, None]) ** 2 + below[:, None] + above[None]
    cost[ends[None] < ends[:, None]] = np.inf
    low, high = clips(partition, X, epsilon)[0].tolist()
    chosen = noise * (high - low) ** 2 + side(low, -1.0) + side(high, 1.0)
    assert chosen <= 1.02 * cost.min()
    assert noise > 1.02 * cost.min()  # planted: all of the region's range


def test_what_is_cut_off_is_the_mean_over_an_even_density() -> None:
    """Oracle: people who lie evenly in a region without answers."""
    partition, places = line(0, 0), (np.arange(100_000) + 0.5) / 100_000
    found = cut_off(partition, X, np.array([[0.3, 0.6]]))
    assert found.above[0] == pytest.approx(np.maximum(places - 0.6, 0).mean(), rel=1e-3)
    assert found.below[0] == pytest.approx(np.maximum(0.3 - places, 0).mean(), rel=1e-3)
    spread = np.maximum(places - 0.6, 0).var() + np.maximum(0.3 - places, 0).var()
    assert found.variance[0] == pytest.approx(spread / 2, rel=1e-3)  # without answers the prior has one person
