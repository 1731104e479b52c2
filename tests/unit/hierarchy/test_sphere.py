"""The sphere tree: HEALPix pixels, equal areas, outlines that close around poles and the date line."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal.hierarchy import ROOT, SphereTree

EARTH_KM2 = 4 * np.pi * 6371.0088**2

# Longitude, latitude, and the nested pixel at the orders 0, 5, 12 and 20, as the reference implementation gives them.
PIXELS = [
    (13.4, 52.5, (0, 740, 12128959, 794883499534)),
    (-122.42, 37.77, (2, 2445, 40059830, 2625361019365)),
    (151.2, -33.87, (9, 9696, 158870953, 10411766812098)),
    (179.9999, 0.001, (6, 6912, 113246208, 7421703487736)),
    (-179.9999, -0.001, (6, 6399, 104857599, 6871947673351)),
    (0.5, 89.9999, (0, 1023, 16777215, 1099511627771)),
    (-90.0001, -89.99, (10, 10240, 167772160, 10995116299264)),
    (44.0, 41.81, (0, 597, 9787814, 641454194667)),
    (90.0003, -0.0001, (5, 5546, 90876586, 5955687983758)),
]


def spread_points(size: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    rng = np.random.default_rng(5)
    height = rng.uniform(-1, 1, size)
    return np.stack([rng.uniform(-180, 180, size), np.degrees(np.arcsin(height))], axis=1)


@pytest.mark.parametrize("row", PIXELS, ids=lambda row: f"{row[0]:g},{row[1]:g}")
def test_positions_are_in_the_pixels_that_the_reference_gives(row: tuple[float, float, tuple[int, ...]]) -> None:
    tree = SphereTree(44)
    for order, pixel in zip((0, 5, 12, 20), row[2], strict=True):
        depth = (3 if pixel >> (2 * order) >= 8 else 4) + 2 * order
        found = tree.pixels(tree.locate([row[:2]], depth))
        assert [int(column[0]) for column in found] == [order, pixel]


def test_every_split_below_a_quarter_halves_the_area_and_each_level_covers_the_earth() -> None:
    tree = SphereTree(9)
    cells = np.array([ROOT], dtype=np.uint64)
    for depth in range(9):
        children = tree.children(cells)
        assert tree.areas(children).sum() == pytest.approx(EARTH_KM2)
        halves = tree.areas(children).reshape(-1, 2) / tree.areas(cells)[:, None]
        expected = [2 / 3, 1 / 3] if depth == 2 else [0.5, 0.5]
        assert halves == pytest.approx(np.broadcast_to(expected, halves.shape))
        cells = children


def test_true_sides_are_at_most_a_fifth_shorter_than_those_of_a_square() -> None:
    """Along a meridian between two faces, from the corner of the equatorial belt to nearly the pole."""
    tree = SphereTree(41)
    cells = tree.locate([(0.001, latitude) for latitude in (42.0, 50.0, 60.0, 75.0, 89.5)], 30)
    assert np.ptp(tree.sides(cells), axis=1).max() == 0  # squares
    shortest = []
    for (outline,) in tree.polygons(cells):
        corners = np.radians(np.array(outline)[:: (len(outline) - 1) // 4])
        longitude, latitude = corners.T
        steps = [np.diff(latitude), np.diff(longitude) * np.cos((latitude[1:] + latitude[:-1]) / 2)]
        shortest.append(float(6371.0088 * np.hypot(*steps).min()))
    ratios = np.array(shortest) / tree.sides(cells)[:, 0]
    assert np.all(np.diff(ratios) < 0)
    assert 0.79 < ratios[-1] < 0.81
    assert ratios[1] == pytest.approx(6 / 7, abs=0.01)


def test_the_date_line_and_the_poles_have_neighbours_on_both_sides() -> None:
    tree = SphereTree(30)
    west, east = tree.locate([[179.999999, 10.0], [-179.999999, 10.0]], 20)
    assert tree.pixels(np.array([west, east]))[0].tolist() == [8, 8]
    middle = tree.middles(tree.codes([[180.0, 10.0], [-180.0, 10.0]]))
    assert np.abs(np.abs(middle[:, 0]) - 180).max() < 0.1
    poles = tree.codes([[longitude, 90.0] for longitude in (-180.0, -90.0, 0.0, 90.0, 180.0)])
    assert len(np.unique(poles)) == 4
    assert tree.middles(poles)[:, 1].min() > 89.9


def test_a_box_around_a_cell_holds_its_positions_and_a_share_of_it_is_what_lies_inside() -> None:
    tree = SphereTree(12)
    cells = tree.children(tree.children(tree.children(tree.children([ROOT]))))
    queries = np.array([
        [[-180.0, -90.0], [180.0, 90.0]], [[0.0, -90.0], [180.0, 90.0]], [[-180.0, 0.0], [180.0, 90.0]],
        [[-10.0, 35.0], [30.0, 60.0]], [[-np.inf, -np.inf], [np.inf, np.inf]], [[5.0, 5.0], [5.0, 6.0]],
    ])  # fmt: skip
    shares = tree.shares(cells, queries)
    areas = tree.areas(cells)
    corners = np.radians(np.clip(queries[:, :, 1], -90, 90))
    width = np.diff(np.clip(queries[:, :, 0], -180, 180), axis=1)[:, 0] / 360
    expected = EARTH_KM2 * width * np.diff(np.sin(corners), axis=1)[:, 0] / 2
    assert (shares @ areas) == pytest.approx(expected, rel=0.02)
    assert (shares @ areas)[[0, 4]] == pytest.approx([EARTH_KM2] * 2)
    points = spread_points(20_000)
    inside = (points[:, 0] >= -10) & (points[:, 0] < 30) & (points[:, 1] >= 35) & (points[:, 1] < 60)
    located = tree.locate(points, 4)
    for cell, share in zip(cells, shares[3], strict=True):
        there = located == cell
        if np.count_nonzero(there) > 100:
            assert abs(inside[there].mean() - share) < 0.1
        assert not (share == 0 and inside[there].any())


def _shoelace(ring: list[list[float]]) -> float:
    """Area of a ring on the sphere: the integral of sin(latitude) along it."""
    longitude, latitude = np.radians(np.array(ring)).T
    height = np.sin(latitude)
    return float(-np.sum(np.diff(longitude) * (height[1:] + height[:-1]) / 2)) * 6371.0088**2


def test_outlines_close_stay_in_the_world_and_enclose_the_area_of_their_cell() -> None:
    tree = SphereTree(9)
    cells = tree.locate(spread_points(300), 7)
    cells = np.unique(np.concatenate([cells, tree.locate(np.array([[0.1, 90], [-100, -90], [180, 0], [-180, 3]]), 7)]))
    for polygons, area in zip(tree.polygons(cells), tree.areas(cells), strict=True):
        for ring in polygons:
            assert ring[0] == ring[-1]
            assert np.abs(np.array(ring)[:, 0]).max() <= 180
            assert np.abs(np.array(ring)[:, 1]).max() <= 90
            assert np.ptp(np.array(ring)[:, 0]) <= 90
        assert sum(map(_shoelace, polygons)) == pytest.approx(area, rel=0.02)
    crossing = tree.polygons(tree.locate([[180.0, 0.0]], 7))[0]
    assert len(crossing) == 2
