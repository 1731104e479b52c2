"""The curve, enumerated: every place once, no jumps, every prefix of every length a box; and the slow walk."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from semilocal import BinaryTree, Box, Quadtree
from semilocal.hierarchy.dyadic import along_curve, ends_on_grid, next_halving

SMALL = [(d, levels) for d in range(1, 9) for levels in (1, 2, 3) if d * levels <= 14] + [(1, 9), (2, 6), (2, 7)]
small = pytest.mark.parametrize(("d", "levels"), SMALL)


def paths_of(d: int, levels: int) -> npt.NDArray[np.uint64]:
    """The path along the curve of every place of the grid."""
    grid = np.arange(1 << d * levels, dtype=np.uint64)
    out = np.empty_like(grid)
    along_curve(grid, d, levels, out, np.empty((2, len(grid)), dtype=np.uint64))
    return out


def ticks_of(grid: npt.NDArray[np.uint64], d: int, levels: int) -> npt.NDArray[np.int64]:
    bits = grid.astype(np.int64)[:, None] >> np.arange(d * levels)[::-1] & 1
    return np.asarray((bits.reshape(len(grid), levels, d) << np.arange(levels)[::-1, None]).sum(axis=1))


def walk(d: int, levels: int) -> npt.NDArray[np.int64]:
    """Ticks along the curve: int64[2**(d * levels), d]."""
    return ticks_of(np.argsort(paths_of(d, levels)).astype(np.uint64), d, levels)


def jumps(ticks: npt.NDArray[np.int64]) -> int:
    """Steps that do not lead to a neighbour."""
    return int(np.count_nonzero(np.abs(np.diff(ticks, axis=0)).sum(axis=1) != 1))


@small
def test_the_curve_visits_every_place_once_and_never_jumps(d: int, levels: int) -> None:
    assert np.sort(paths_of(d, levels)).tolist() == list(range(1 << d * levels))
    assert jumps(walk(d, levels)) == 0


def test_the_order_of_interleaved_bits_would_be_seen_to_jump() -> None:
    assert jumps(ticks_of(np.arange(64, dtype=np.uint64), 2, 3)) == 31


@small
def test_every_prefix_is_a_box_and_its_two_parts_are_halves(d: int, levels: int) -> None:
    ticks = walk(d, levels)
    for bits in range(d * levels + 1):
        prefixes = np.arange(1 << bits, dtype=np.uint64)
        inside = ticks.reshape(1 << bits, -1, d)
        low, high = inside.min(axis=1), inside.max(axis=1)
        assert (np.prod(high - low + 1, axis=1) == inside.shape[1]).all()
        length = np.full(len(prefixes), bits)
        found = ends_on_grid(prefixes, length, d)
        have = -(-bits // d)
        rest = levels - have
        assert (ticks_of(found[0], d, have) << rest == low).all()
        assert ((ticks_of(found[1], d, have) + 1 << rest) - 1 == high).all()
        if bits < d * levels:
            axis, upper_first = next_halving(prefixes, length, d)
            middles = ticks.reshape(1 << bits, 2, -1, d).mean(axis=2)
            step = middles[:, 1] - middles[:, 0]
            assert (np.count_nonzero(step, axis=1) == 1).all()
            assert (np.abs(step).argmax(axis=1) == axis).all()
            assert ((step.sum(axis=1) < 0) == upper_first).all()


@pytest.mark.parametrize("d", range(1, 9))
def test_a_code_is_the_beginning_of_the_code_one_level_deeper(d: int) -> None:
    box, points = Box((0.0,) * d, (1.0,) * d), np.random.default_rng(d).random((200, d))
    deepest = BinaryTree(box, min(60, 50 * d)).codes(points)
    for depth in range(1, min(60, 50 * d)):
        assert (BinaryTree(box, depth).codes(points) == deepest >> np.uint64(min(60, 50 * d) - depth)).all()
    assert (Quadtree(box, 7).codes(points) == BinaryTree(box, 7 * d).codes(points)).all()


@pytest.mark.parametrize(("d", "depth"), [(2, 7), (2, 8), (3, 7), (3, 8), (5, 6)])
def test_codes_that_follow_each_other_touch_also_where_the_last_level_is_begun(d: int, depth: int) -> None:
    tree = BinaryTree(Box((0.0,) * d, (1.0,) * d), depth)
    first, last = tree.tick_bounds(np.arange(*tree.ends, dtype=np.uint64))
    apart = np.maximum(first[1:] - last[:-1], first[:-1] - last[1:])  # 1 where they meet on an axis, less inside
    assert (apart.max(axis=1) == 1).all()
    assert ((apart == 1).sum(axis=1) == 1).all()


def test_the_curve_of_two_axes_is_the_well_known_one() -> None:
    assert walk(2, 1).tolist() == [[0, 0], [0, 1], [1, 1], [1, 0]]
    assert walk(2, 2)[:5].tolist() == [[0, 0], [1, 0], [1, 1], [0, 1], [0, 2]]
