"""Range counts agree with the dense sum over all boxes, everywhere, and refuse what makes no sense."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from semilocal.errors import InvalidInput
from semilocal.lab.baselines.boxes import SpatialCounts, mean_relative_error
from semilocal.lab.index import count_points
from semilocal.protocol.promise import Guarantee

Floats = npt.NDArray[np.float64]


def counted(boxes: Floats, counts: npt.ArrayLike) -> SpatialCounts:
    return SpatialCounts(boxes, np.asarray(counts, dtype=np.float64), Guarantee.plain("curator", None))


def random_tiling(rng: np.random.Generator, number: int, dimensions: int, *, dyadic: bool) -> Floats:
    """Guillotine cuts of [-1, 2]^d into disjoint boxes; dyadic cuts share edges, others hardly do."""
    boxes = [np.array([[-1.0] * dimensions, [2.0] * dimensions])]
    while len(boxes) < number:
        cut = boxes.pop(int(rng.integers(len(boxes))))
        axis = int(rng.integers(dimensions))
        at = cut[0, axis] + (0.5 if dyadic else rng.uniform(0.05, 0.95)) * (cut[1, axis] - cut[0, axis])
        left, right = cut.copy(), cut.copy()
        left[1, axis] = right[0, axis] = at
        boxes += [left, right]
    return np.array(boxes)


def random_queries(rng: np.random.Generator, tiling: Floats, number: int) -> Floats:
    """Wide, thin, aligned, empty, outside, surrounding and infinite boxes."""
    dimensions = tiling.shape[2]
    free = np.sort(rng.uniform(-1.5, 2.5, (number, 2, dimensions)), axis=1)
    thin = free.copy()
    axis = rng.integers(dimensions, size=number)
    thin[np.arange(number), 1, axis] = thin[np.arange(number), 0, axis] + 1e-3
    edges = np.stack([rng.choice(np.unique(tiling[:, :, a]), (number, 2)) for a in range(dimensions)], axis=2)
    mixed = np.sort(np.where(rng.random((number, 2, dimensions)) < 0.5, edges, free), axis=1)
    empty = free.copy()
    empty[:, 1] = np.where(rng.random((number, dimensions)) < 0.6, empty[:, 0], empty[:, 1])
    special = np.array(
        [
            [[-5.0] * dimensions, [-2.0] * dimensions],
            [[-9.0] * dimensions, [9.0] * dimensions],
            [[2.0] * dimensions, [3.0] * dimensions],
            [[-np.inf] * dimensions, [np.inf] * dimensions],
            [[-1.0] * dimensions, [2.0] * dimensions],
            [[-np.inf] * dimensions, [0.3] * dimensions],
        ]
    )
    return np.concatenate((free, thin, np.sort(edges, axis=1), mixed, empty, special))


def dense(counts: SpatialCounts, queries: Floats) -> Floats:
    """The definition, one (query, box) pair at a time."""
    share = np.ones((len(queries), len(counts)))
    for axis in range(queries.shape[2]):
        low, high = counts.boxes[:, 0, axis], counts.boxes[:, 1, axis]
        overlap = np.minimum(high, queries[:, 1, axis, None]) - np.maximum(low, queries[:, 0, axis, None])
        share *= np.clip(overlap, 0, None) / (high - low)
    return np.asarray(share @ counts.counts)


def assert_dense(counts: SpatialCounts, queries: Floats) -> None:
    scale = np.abs(counts.counts).sum() / max(len(counts), 1)
    np.testing.assert_allclose(counts.query(queries), dense(counts, queries), rtol=1e-9, atol=1e-9 * scale)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("dyadic", [True, False])
@pytest.mark.parametrize("number", [1, 7, 300])
def test_answers_equal_the_dense_sum_on_random_tilings(dimensions: int, dyadic: bool, number: int) -> None:
    rng = np.random.default_rng([dimensions, dyadic, number])
    tiling = random_tiling(rng, number, dimensions, dyadic=dyadic)
    counts = counted(tiling, rng.normal(20, 30, number))
    assert_dense(counts, random_queries(rng, tiling, 300))


@pytest.mark.parametrize("dimensions", [1, 2, 4])
def test_the_whole_domain_holds_everybody_exactly(dimensions: int) -> None:
    rng = np.random.default_rng(6)
    tiling = random_tiling(rng, 400, dimensions, dyadic=True)
    crowds = rng.integers(0, 10**6, 400)
    counts = counted(tiling, crowds)
    whole = counts.query([[[-1.0] * dimensions, [2.0] * dimensions], [[-np.inf] * dimensions, [np.inf] * dimensions]])
    assert whole.tolist() == [crowds.sum()] * 2


@pytest.mark.parametrize("dimensions", [1, 2, 3, 6])
def test_points_are_counted_exactly_with_ties_on_every_edge(dimensions: int) -> None:
    rng = np.random.default_rng(dimensions)
    points = rng.integers(0, 9, (500, dimensions)).astype(float)  # a coarse grid: many ties, many points on edges
    corners = np.sort(rng.integers(-1, 11, (400, 2, dimensions)), axis=1).astype(float)
    inside = (points >= corners[:, None, 0]) & (points < corners[:, None, 1])
    assert np.array_equal(count_points(points, corners), inside.all(axis=2).sum(axis=1))


def test_bad_queries_are_refused() -> None:
    counts = counted(np.array([[[0.0, 0.0], [1.0, 1.0]]]), [1])
    for bad in ([[0.0, 1.0]], [[[0.0], [1.0]]], [[[0.0, np.nan], [1.0, 1.0]]], [[[0.5, 0.0], [0.4, 1.0]]]):
        with pytest.raises(InvalidInput, match="boxes"):
            counts.query(bad)
        with pytest.raises(InvalidInput, match="boxes"):
            count_points([[0.5, 0.5]], bad)
    for points in ([[np.nan, 0.0]], [[[0.0]]], [["x", "y"]]):
        with pytest.raises(InvalidInput, match="points"):
            count_points(points, [[[0.0, 0.0], [1.0, 1.0]]])
    for estimate, truth, floor in (
        ([1.0], [1.0, 2.0], 1.0),
        ([], [], 1.0),
        ([1.0], [1.0], 0.0),
        ([np.nan], [1.0], 1.0),
    ):
        with pytest.raises(InvalidInput):
            mean_relative_error(estimate, truth, floor)
