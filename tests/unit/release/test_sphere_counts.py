"""Counts on the whole Earth: the same calls and promises as on a box, in every mode of trust."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.errors import InvalidInput
from semilocal.pooled.estimate import PooledPartition
from tests.helpers.pooled_variance import variance_of

TREE = sl.SphereTree(36)
CITIES = np.array([[13.4, 52.5], [-74.0, 40.7], [139.7, 35.7], [179.5, -16.5], [0.0, -89.0]])
QUERIES = np.array([
    [[-180, -90], [180, 90]], [[-180, 0], [180, 90]], [[0, 30], [40, 70]], [[170, -30], [180, 0]],
    [[-180, -90], [180, -80]],
])  # fmt: skip


def people(size: int = 20_000) -> Floats:
    """Five cities, one across the date line and one at a pole."""
    rng = np.random.default_rng(11)
    points = CITIES[rng.integers(0, 5, size)] + rng.normal(0, 2.0, (size, 2))
    return np.stack([(points[:, 0] + 180) % 360 - 180, np.clip(points[:, 1], -90, 90)], axis=1)


@pytest.fixture(scope="module", params=["nobody", "curator", "two-servers"])
def counted(request: pytest.FixtureRequest) -> Any:
    rng = np.random.default_rng(2)
    return sl.counts(people(), hierarchy=TREE, epsilon=2.0, trust=request.param, rng=rng)


def test_the_whole_earth_holds_everybody_and_boxes_hold_whom_their_interval_says(counted: Any) -> None:
    """Intervals of level 0.999999 for five boxes: a false alarm in at most 5 of 10^6 runs, if they cover."""
    points, found = people(), counted.query(QUERIES)
    inside = [np.count_nonzero(((points >= low) & (points < high)).all(axis=1)) for low, high in QUERIES]
    low, high = found.interval(0.999999).T
    assert np.all((low <= inside) & (inside <= high))
    assert np.all(high[1:] - low[1:] < len(points) / 2)
    assert found.value[0] == pytest.approx(len(points))
    assert found.stderr[0] == 0
    assert counted.total == len(points)
    moved = counted.answer(QUERIES + np.array([12.0, 0.0])).value  # a map that is 12 degrees off is noticed
    assert np.any((moved[2:4] < low[2:4]) | (moved[2:4] > high[2:4]))


def test_noise_is_told_apart_from_how_people_lie(counted: Any) -> None:
    """Boxes that cut cells have both. Public regions have means of what is possible, so no noise of that kind."""
    found = counted.query(QUERIES)
    if not isinstance(counted.partition, PooledPartition):
        assert not found.noise.any()
        return
    estimates = counted.partition.estimates
    taken = TREE.shares(estimates.tree.cells, queries=QUERIES)
    assert found.noise == pytest.approx(variance_of(estimates, taken))
    assert (found.noise[1:] < found.stderr[1:] ** 2).all()


def test_positions_and_means_work_as_on_a_box() -> None:
    points = people(6_000)
    for trust in ("nobody", "curator"):
        rng = np.random.default_rng(4)
        drawn = sl.points(points, hierarchy=TREE, epsilon=2.0, trust=trust, rng=rng).points
        assert drawn.shape == points.shape
        TREE.box.check(drawn)
        latitude = sl.functions.coordinate(1)
        found = sl.mean(points, latitude, hierarchy=TREE, epsilon=2.0, trust=trust, rng=rng)
        assert abs(found.value - points[:, 1].mean()) < 8 * found.stderr + 0.5


def test_loss_by_distance_is_told_only_where_it_is_true() -> None:
    found = sl.counts(people(3_000), hierarchy=TREE, epsilon=2.0, trust="curator", rng=np.random.default_rng(1))
    text = found.guarantee.explain()
    assert "same final cell" in text
    assert "km" not in text


def test_what_the_hierarchy_says_already_is_refused() -> None:
    points, box = people(100), sl.Box((0, 0), (1, 1))
    with pytest.raises(InvalidInput, match="box"):
        sl.counts(points, box, hierarchy=TREE, epsilon=1.0, trust="curator")
    with pytest.raises(InvalidInput, match="max_depth"):
        sl.counts(points, hierarchy=TREE, max_depth=9, epsilon=1.0, trust="curator")
    with pytest.raises(InvalidInput, match="tree"):
        sl.counts(points, hierarchy=TREE, tree="quad", epsilon=1.0, trust="nobody")
    with pytest.raises(InvalidInput, match="box"):
        sl.counts(points, epsilon=1.0, trust="curator")
    with pytest.raises(InvalidInput, match="hierarchy"):
        sl.counts(points, hierarchy=box, epsilon=1.0, trust="curator")  # type: ignore[arg-type]


def test_a_polygon_that_is_a_box_is_answered_as_the_box_and_regions_hold_their_residents(counted: Any) -> None:
    corners = QUERIES[2].tolist()
    (west, south), (east, north) = corners
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    polygon, box = (counted.query(asked) for asked in ([{"type": "Polygon", "coordinates": [ring]}], [corners]))
    assert polygon.value == pytest.approx(box.value)
    assert polygon.stderr == pytest.approx(box.stderr)
    low, high = counted.interval(0.95).T
    residents = np.bincount(counted.locate(people()), minlength=len(counted.partition))
    assert np.mean((low <= residents + 0.5) & (residents - 0.5 <= high)) > 0.9


def test_a_region_across_the_date_line_is_replaced_by_a_place_inside_it() -> None:
    rng = np.random.default_rng(6)
    points = np.stack([179.0 + 2 * rng.random(3_000), rng.normal(0, 1, 3_000)], axis=1)
    points[:, 0] = (points[:, 0] + 180) % 360 - 180
    found = sl.points(points, hierarchy=TREE, epsilon=4.0, trust="nobody", k=500, rng=rng)
    assert found.partition.locate(found.points).tolist() == found.regions.tolist()
    assert np.abs(found.points[:, 0]).min() > 90
