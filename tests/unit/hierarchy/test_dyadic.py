"""What the trees promise: every valid point is in exactly one cell of every depth, and cells are plain arithmetic.

The oracle is slow and in pure Python: it finds slices by bisection on the float edges that the module's docstring
defines, and walks paths bit by bit along the curve of spec/reference_trees.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from reference_trees import Boxes

from semilocal import BinaryTree, Box, Quadtree
from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.hierarchy.dyadic import MAX_BITS, along_curve, ends_on_grid, next_halving
from semilocal.hierarchy.ranks import SortedCodes

Tree = BinaryTree | Quadtree
fixed = settings(derandomize=True, deadline=None, max_examples=60)


def cube(d: int, low: float = 0.0, high: float = 1.0) -> Box:
    return Box((low,) * d, (high,) * d)


# -- the oracle ----------------------------------------------------------------------------------------------------


def edges(tree: Tree, axis: int) -> Callable[[int], float]:
    """The lower edge of any slice."""
    low, high, bits = tree.box.lower[axis], tree.box.upper[axis], tree.tick_bits
    return lambda tick: low + (high - low) * math.ldexp(tick, -bits)


def edge(tree: Tree, axis: int, tick: int) -> float:
    return edges(tree, axis)(tick)


def slow_tick(tree: Tree, axis: int, x: float) -> int:
    """Largest slice whose lower edge is not above x."""
    low, high, lower = 0, 2**tree.tick_bits, edges(tree, axis)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if lower(middle) <= x else (low, middle)
    return low


def slow(tree: Tree) -> Boxes:
    return Boxes(msgspec.to_builtins(tree))


def slow_path(tree: Tree, ticks: list[int]) -> list[int]:
    """The cells of all depths from the root down."""
    code = slow(tree).code(ticks)
    return [code >> tree.level_bits * (tree.max_depth - depth) for depth in range(tree.max_depth + 1)]


def inside(tree: Tree, boxes: npt.NDArray[np.float64], points: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Half-open membership; the upper edge of the domain belongs to the cells that end there."""
    ends = (boxes[:, 1] == tree.box.upper) & (points == tree.box.upper)
    return np.asarray(((boxes[:, 0] <= points) & ((points < boxes[:, 1]) | ends)).all(axis=1))


def deepest(kind: type[Tree], box: Box, most: int = MAX_BITS) -> Tree:
    for depth in range(most, 0, -1):
        try:
            return kind(box, depth)
        except InvalidInput:
            continue
    raise AssertionError(f"no tree at all for {box}")


def hard_points(tree: Tree, rng: np.random.Generator, size: int = 200) -> npt.NDArray[np.float64]:
    """Uniform points, points on and next to edges of all depths, and the corners."""
    columns = []
    for axis, (low, high) in enumerate(zip(tree.box.lower, tree.box.upper, strict=True)):
        uniform = low + (high - low) * rng.random(size)
        depth = rng.integers(0, tree.tick_bits + 1, size=size)
        ticks = [int(rng.integers(0, 2 ** int(d) + 1)) << (tree.tick_bits - int(d)) for d in depth]
        on = np.array([edge(tree, axis, tick) for tick in ticks])
        column = np.concatenate([uniform, on, np.nextafter(on, np.inf), np.nextafter(on, -np.inf), [low, high]])
        columns.append(rng.permutation(np.clip(column, low, high)))
    return np.column_stack(columns)


BOXES = {
    "unit": Box((0,), (1,)),
    "upper end is no edge": Box((-0.1,), (0.30000000000000004,)),
    "thirds": Box((1 / 3,), (2 / 3,)),
    "tenths": Box((0.1, -0.7), (0.7, 0.1)),
    "far from zero": Box((1e15,), (1e15 + 1e4,)),
    "far below zero": Box((-1e9, 5e5), (-1e9 + 7.3, 5e5 + 0.1)),
    "huge": Box((-8e307,), (8.9e307,)),
    "denormal": Box((0.0,), (3.3e-310,)),
    "denormal and not at zero": Box((-1e-312,), (2e-311,)),
    "smallest normal": Box((2.2250738585072014e-308,), (5e-308,)),
    "mixed": Box((0, -1e300, 1e-300), (1e-300, 1e300, 3e-300)),
    "geographic": Box((-180, -90), (180, 90), names=("longitude", "latitude")),
}
KINDS: tuple[type[Tree], ...] = (BinaryTree, Quadtree)
both = pytest.mark.parametrize("kind", KINDS)
dimensions = pytest.mark.parametrize("d", range(1, 9))


def check_points(tree: Tree, points: npt.NDArray[np.float64]) -> None:
    """Every promise about points and their cells, against the oracle, at every depth."""
    ticks = [[slow_tick(tree, axis, float(x)) for axis, x in enumerate(point)] for point in points]
    assert tree.ticks(points).tolist() == ticks
    paths = [slow_path(tree, tick) for tick in ticks]
    for depth in range(tree.max_depth + 1):
        cells = tree.locate(points, depth)
        assert cells.tolist() == [path[depth] for path in paths]
        assert inside(tree, tree.boxes(cells), points).all()


# -- points --------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("name", BOXES)
def test_points_of_hard_boxes_are_in_the_cells_that_the_edges_say(name: str, kind: type[Tree]) -> None:
    tree = deepest(kind, BOXES[name])
    check_points(tree, hard_points(tree, np.random.default_rng(1), 40))


@both
@dimensions
def test_points_of_all_dimensions_are_in_the_cells_that_the_edges_say(d: int, kind: type[Tree]) -> None:
    box = Box(tuple(np.linspace(-0.1, 5, d)), tuple(np.linspace(0.30000000000000004, 100 / 3, d)))
    tree = deepest(kind, box)
    check_points(tree, hard_points(tree, np.random.default_rng(d), 20))


@fixed
@given(
    kind=st.sampled_from(KINDS),
    low=st.floats(-1e308, 1e308),
    high=st.floats(-1e308, 1e308),
    depth=st.integers(1, MAX_BITS),
    share=st.lists(st.floats(0, 1), min_size=1, max_size=10),
)
@example(kind=BinaryTree, low=-0.1, high=0.30000000000000004, depth=50, share=[1.0, 0.5, 0.25])
@example(kind=BinaryTree, low=0.0, high=5e-322, depth=4, share=[0.0, 0.3, 1.0])
@example(kind=BinaryTree, low=1e16, high=1e16 + 64, depth=3, share=[0.5, 0.99])
def test_any_box_that_is_accepted_gives_every_point_one_cell(
    kind: type[Tree], low: float, high: float, depth: int, share: list[float]
) -> None:
    assume(low < high and math.isfinite(high - low))
    try:
        tree = kind(Box((low,), (high,)), depth)
    except InvalidInput:
        # Refused as too deep; then an edge of the grid really is close to its neighbours: 4 or fewer float steps.
        assert (high - low) * 0.5**depth < 4.01 * np.spacing(max(abs(low), abs(high)))
        return
    points = np.array([[min(max(low + (high - low) * s, low), high)] for s in share] + [[low], [high]])
    on = [edge(tree, 0, slow_tick(tree, 0, float(x))) for x in points[:, 0]]
    points = np.concatenate([points, np.clip(np.array(on), low, high)[:, None]])
    points = np.concatenate([points, np.clip(np.nextafter(points, -np.inf), low, high)])
    check_points(tree, points)


# -- cells ---------------------------------------------------------------------------------------------------------


def test_cells_between_levels_or_below_the_tree_are_refused() -> None:
    quad = Quadtree(Box((0, 0), (1, 1)), 4)
    for cell in (2, 3, 8, 32):
        with pytest.raises(InvalidInput, match="fanout 4, depth 4"):
            quad.depth([cell])
    with pytest.raises(InvalidInput, match="not cells"):
        BinaryTree(Box((0,), (1,)), 4).depth([32])
    with pytest.raises(InvalidInput, match="root has no parent"):
        quad.parent([4, 1])
    with pytest.raises(InvalidInput, match="depth 4 have no children"):
        quad.children([4**4])


# -- the tree itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", range(1, 9))
def test_a_tree_deeper_than_its_codes_or_than_floats_can_tell_is_refused(d: int) -> None:
    box = cube(d)
    with pytest.raises(InvalidInput, match="at most 60"):
        BinaryTree(box, 61)
    with pytest.raises(InvalidInput, match=f"at most {60 // d}"):
        Quadtree(box, 60 // d + 1)
    if d == 1:
        with pytest.raises(InvalidInput, match="narrower than floats can tell on axis 'x0'"):
            BinaryTree(box, 51)
        BinaryTree(box, 50)
    else:
        BinaryTree(box, 60)
        Quadtree(box, 60 // d)


@both
@pytest.mark.parametrize("depth", [0, -1, 1.0, True, "3", None])
def test_an_impossible_depth_of_a_tree_is_refused(kind: type[Tree], depth: Any) -> None:
    with pytest.raises(InvalidInput, match="max_depth must be an integer of at least 1"):
        kind(Box((0,), (1,)), depth)
    with pytest.raises(InvalidInput, match=r"box must be a semilocal\.Box"):
        kind("box", 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_the_cells_beside_a_cell_touch_its_halves_and_have_its_size(d: int) -> None:
    tree = BinaryTree(cube(d), max_depth=12)
    rng = np.random.default_rng(d)
    cells = tree.codes(rng.random((200, d))) >> rng.integers(1, 13, 200).astype(np.uint64)
    beside, halves = tree.beside(cells), [2 * cells, 2 * cells + np.uint64(1)]
    end, seen = 1 << tree.tick_bits, 0
    for found, half in zip(beside, halves, strict=True):
        assert (tree.depth(found) == tree.depth(cells)).all()
        for cell, other, low, high, own, to in zip(
            cells, found, *tree.tick_bounds(cells), *tree.tick_bounds(half), strict=True
        ):
            (axis,) = np.flatnonzero((low != own) | (high != to))  # the one that is halved
            upper = own[axis] > low[axis]
            (on,), (first_is_upper,) = tree.halvings([cell])
            assert (on, first_is_upper) == (axis, upper == (half is halves[0]))
            place = high[axis] + 1 if upper else low[axis] - 1
            (first,), (last,) = tree.tick_bounds([other])
            if not 0 <= place < end:
                assert other == cell
                continue
            seen += 1
            at, there = (first, last) if upper else (last, first)
            assert at[axis] == place, there
            others = np.arange(d) != axis
            assert ((first <= high) & (low <= last))[others].all()
    assert seen > 20


def test_a_grid_of_halves_has_the_edges_of_cells() -> None:
    box = Box((-9.6, 40.1), (-7.6, 42.2))
    tree = BinaryTree(box, max_depth=20)
    cells = tree.boxes(np.arange(2**10, 2**11))
    grid = box.grid((32, 32))
    for side in (0, 1):
        for axis in (0, 1):
            assert set(grid[:, side, axis].tolist()) == set(cells[:, side, axis].tolist())


# -- many points -------------------------------------------------------------------------------------------------------


@both
def test_many_points_have_the_codes_of_each_and_none_outside_gets_one(kind: type[Tree]) -> None:
    tree = kind(cube(2), 20)
    points = np.random.default_rng(1).random((140_000, 2))  # several pieces of work
    points[::1000] = points[::1000].round(1)  # edges of cells
    codes = tree.codes(points)
    some = np.r_[0:3000, 131_000:132_000, 139_000:140_000]
    assert len(tree.codes(np.empty((0, 2)))) == 0
    assert np.array_equal(codes[some], tree.codes(points[some]))
    assert np.array_equal(codes[some], tree.interleave(tree.ticks(points[some])))
    for row, value, words in ((139_999, 1.0000001, "outside"), (0, -1e-300, "outside"), (70_000, np.nan, "NaN")):
        wrong = points.copy()
        wrong[row, 1] = value
        with pytest.raises(OutsideDomain, match=f"1 of 140000 points .*{words}.* index {row};"):
            tree.codes(wrong)


@pytest.mark.parametrize("depth", [6, 40])
def test_many_ranks_that_are_asked_for_at_once_are_those_of_one_search(depth: int) -> None:
    tree = BinaryTree(Box((0, 0), (1, 1)), depth)
    rng = np.random.default_rng(depth)
    codes = np.sort(tree.codes(rng.random((5_000, 2))))
    asked = tree.codes(rng.random((40_000, 2)))
    ranks = SortedCodes(codes)
    assert np.array_equal(ranks.below(asked), np.searchsorted(codes, asked, side="left"))
    assert np.array_equal(ranks.up_to(asked), np.searchsorted(codes, asked, side="right"))
    assert len(ranks) == 5_000


@pytest.mark.parametrize("dimensions", range(1, 6))
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_paths_in_a_part_go_on_where_that_of_its_cell_ends(dimensions: int, levels: int) -> None:
    """Planted: the same part without its turn, which gives other cells."""
    rng, depth, differ = np.random.default_rng(dimensions), levels * dimensions, False
    whole = BinaryTree(Box((0,) * dimensions, (1,) * dimensions), depth + 2 * dimensions + 1)
    for bucket in rng.integers(1 << depth, 2 << depth, 8).tolist():
        part = whole.below(bucket)
        lower, upper = np.array(part.box.lower), np.array(part.box.upper)
        points = lower + (upper - lower) * rng.random((60, dimensions))
        codes = whole.codes(points)
        assert (whole.ancestors(codes, depth) == bucket).all()
        own = part.codes(points)
        assert np.array_equal(codes, (np.uint64(bucket - 1) << np.uint64(part.max_depth)) + own)
        for below in range(part.max_depth):
            cells = part.ancestors(own, below)
            same = whole.ancestors(codes, depth + below)
            assert np.array_equal(part.boxes(cells), whole.boxes(same))
            assert all(np.array_equal(*pair) for pair in zip(part.halvings(cells), whole.halvings(same), strict=True))
        differ |= not np.array_equal(BinaryTree(part.box, part.max_depth).codes(points), own)
        assert part.below(1 << dimensions) == whole.below(bucket << dimensions)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(part), type=BinaryTree) == part
    assert differ == (dimensions > 1)


def test_a_whole_tree_does_not_name_its_turn() -> None:
    assert b"turn" not in msgspec.msgpack.encode(BinaryTree(Box((0, 0), (1, 1)), 4))


def test_parts_and_turns_that_do_not_exist_are_refused() -> None:
    tree = BinaryTree(Box((0, 0), (1, 1)), 4)
    with pytest.raises(InvalidInput, match="multiple of 2"):
        tree.below(2)
    with pytest.raises(InvalidInput, match="turn must be"):
        BinaryTree(tree.box, 4, 8)
    with pytest.raises(InvalidInput, match="turn must be"):
        BinaryTree(Box((0,), (1,)), 4, 1)


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


def test_the_curve_of_two_axes_is_the_well_known_one() -> None:
    assert walk(2, 1).tolist() == [[0, 0], [0, 1], [1, 1], [1, 0]]
    assert walk(2, 2)[:5].tolist() == [[0, 0], [1, 0], [1, 1], [0, 1], [0, 2]]
