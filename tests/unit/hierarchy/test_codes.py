"""Cells over the world are geohashes, cells over Web Mercator quadkeys: published examples, and a slow way."""

from __future__ import annotations

import numpy as np
import pytest

import semilocal as sl
from semilocal.hierarchy.codes import cell_names, geohashes, quadkeys

GEOHASH = sl.BinaryTree(sl.Box.world(), max_depth=56)
QUADKEY = sl.Quadtree(sl.Box.mercator(), max_depth=23)


@pytest.mark.parametrize(
    ("longitude", "latitude", "text"),
    [(10.40744, 57.64911, "u4pruydqqvj"), (-5.6, 42.6, "ezs42"), (112.5584, 37.8324, "ww8p1r4t8")],
)
def test_published_geohashes(longitude: float, latitude: float, text: str) -> None:
    cells = GEOHASH.locate([[longitude, latitude]], 5 * len(text) + len(text) % 2)
    assert geohashes(GEOHASH, cells).tolist() == [text]


def slow_geohash(longitude: float, latitude: float, length: int) -> str:
    ends, values, out, bits = [[-180.0, 180.0], [-90.0, 90.0]], (longitude, latitude), "", 0
    for step in range(5 * length):
        axis = step % 2
        middle = sum(ends[axis]) / 2
        upper = values[axis] >= middle
        ends[axis][0 if upper else 1] = middle
        bits = 2 * bits + upper
        if step % 5 == 4:
            out, bits = out + "0123456789bcdefghjkmnpqrstuvwxyz"[bits], 0
    return out


def test_geohashes_are_those_of_halving_by_hand() -> None:
    points = np.random.default_rng(1).uniform((-180, -90), (180, 90), (200, 2))
    for length in (1, 2, 7, 11):
        found = geohashes(GEOHASH, GEOHASH.locate(points, 5 * length + length % 2))
        assert found.tolist() == [slow_geohash(x, y, length) for x, y in points.tolist()]


def tile_quadkey(column: int, row: int, level: int) -> str:
    """The published rule: bits of the row and the column in turns, rows counted from the north."""
    return "".join(str((column >> bit & 1) + 2 * (row >> bit & 1)) for bit in reversed(range(level)))


def test_quadkeys_are_those_of_the_published_rule() -> None:
    assert tile_quadkey(3, 5, 3) == "213"  # the example that it is published with
    edge, rng = sl.Box.mercator().upper[0], np.random.default_rng(2)
    points = rng.uniform(-edge, edge, (200, 2))
    for level in (1, 3, 12, 23):
        column = np.floor((points[:, 0] + edge) / (2 * edge) * 2**level).astype(int)
        row = np.floor((edge - points[:, 1]) / (2 * edge) * 2**level).astype(int)
        found = quadkeys(QUADKEY, QUADKEY.locate(points, level))
        assert found.tolist() == [tile_quadkey(x, y, level) for x, y in zip(column.tolist(), row.tolist(), strict=True)]


def test_a_cell_between_two_lengths_has_the_name_of_what_holds_it() -> None:
    cells = GEOHASH.locate([[10.40744, 57.64911]] * 3, 10)
    below = np.array([cells[0], cells[0] << np.uint64(3), cells[0] << np.uint64(5)])
    assert geohashes(GEOHASH, below)[:2].tolist() == ["u4", "u4"]
    assert geohashes(GEOHASH, below)[2].startswith("u4")
    assert geohashes(GEOHASH, np.array([1], dtype=np.uint64)).tolist() == [""]


def test_only_trees_over_the_world_and_over_web_mercator_have_names() -> None:
    root = np.array([1], dtype=np.uint64)
    assert list(cell_names(GEOHASH, root)) == ["geohash"]
    assert list(cell_names(QUADKEY, root)) == ["quadkey"]
    assert cell_names(sl.BinaryTree(sl.Box((0, 0), (1, 1)), max_depth=4), root) == {}
    backwards = sl.Box((-90, -180), (90, 180), names=("lat", "lon"))
    assert cell_names(sl.BinaryTree(backwards, max_depth=4), root) == {}
