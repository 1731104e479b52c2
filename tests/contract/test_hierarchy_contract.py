"""What every hierarchy promises (`semilocal.hierarchy.base`), on box trees, the sphere and tables."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal import BinaryTree, Box, Quadtree
from semilocal.arrays import Integers
from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.hierarchy import ROOT, Cells, Hierarchy, SphereTree
from semilocal.hierarchy.tables import from_cuts, from_labels, in_twos
from tests.helpers import AREAS

HIERARCHIES: dict[str, Hierarchy] = {
    "binary, one axis": BinaryTree(Box((0,), (1,)), 5),
    "binary, two axes": BinaryTree(Box((-1, 2), (3, 2.5)), 6),
    "quad, one axis": Quadtree(Box((-0.1,), (0.30000000000000004,)), 4),
    "quad, two axes": Quadtree(Box((0, 0), (1, 1)), 3),
    "quad, three axes": Quadtree(Box((0, 0, 0), (1, 2, 3)), 2),
    "sphere": SphereTree(8),
    "table of cuts": from_cuts("x", AREAS),
    "table in twos": in_twos(from_cuts("x", AREAS)),
    "table of labels": from_labels("code", [("a", "a1", "a1x"), ("a", "a1", "a1y"), ("a", "a2"), ("b", "b1"), ("c",)]),
}
every = pytest.mark.parametrize("tree", HIERARCHIES.values(), ids=HIERARCHIES)


def levels(tree: Hierarchy) -> list[Cells]:
    """All cells, level by level, found from the root."""
    out = [np.array([ROOT], dtype=np.uint64)]
    for _ in range(tree.max_depth):
        out.append(tree.children(out[-1]))
    return out


def points_of(tree: Hierarchy, size: int = 400) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    drawn: np.ndarray[tuple[int, int], np.dtype[np.float64]] = np.random.default_rng(4).uniform(
        tree.box.lower, tree.box.upper, (size, tree.box.dimensions)
    )
    return np.concatenate([drawn, [tree.box.lower], [tree.box.upper]])


@every
def test_every_level_ascends_along_the_curve_and_has_its_depth(tree: Hierarchy) -> None:
    for depth, cells in enumerate(levels(tree)):
        first, last = tree.span(cells)
        assert np.all(np.diff(cells.astype(np.int64)) > 0)
        assert np.all(np.diff(first.astype(np.int64)) > 0)
        assert np.all(first <= last)
        assert tree.depth(cells).tolist() == [depth] * len(cells)


@every
def test_children_are_numbered_and_know_their_parent(tree: Hierarchy) -> None:
    for cells in levels(tree)[:-1]:
        widths, children = tree.fanouts(cells), tree.children(cells)
        assert widths.min() >= 1
        assert widths.max() <= tree.fanout
        assert tree.parent(children).tolist() == np.repeat(cells, widths).tolist()
        assert tree.number(children).tolist() == [number for width in widths for number in range(width)]


@every
def test_the_fanout_is_that_of_the_widest_cell_and_the_deepest_level_has_none(tree: Hierarchy) -> None:
    above = np.concatenate(levels(tree)[:-1])
    assert tree.fanouts(above).max() == tree.fanout
    assert not tree.fanouts(levels(tree)[-1]).any()


@every
def test_children_cover_their_cell_without_gap_or_overlap(tree: Hierarchy) -> None:
    for cells in levels(tree)[:-1]:
        first, last = tree.span(cells)
        begins, ends = tree.span(tree.children(cells))
        starts = np.cumsum(tree.fanouts(cells)) - tree.fanouts(cells)
        assert begins[starts].tolist() == first.tolist()
        assert ends[np.append(starts[1:], len(ends)) - 1].tolist() == last.tolist()
        assert (begins[1:] - ends[:-1]).tolist() == [1] * (len(begins) - 1)


@every
def test_a_position_is_in_one_cell_of_every_depth_and_inside_its_box(tree: Hierarchy) -> None:
    points = points_of(tree)
    codes = tree.codes(points)
    for depth in range(tree.max_depth + 1):
        cells = tree.locate(points, depth)
        first, last = tree.span(cells)
        assert np.all((first <= codes) & (codes <= last))
        assert tree.ancestors(codes, depth).tolist() == cells.tolist()
        lower, upper = tree.boxes(cells).transpose(1, 0, 2)
        assert np.all((lower <= points) & (points <= upper))


@every
def test_no_cell_has_a_side_shorter_than_the_smallest(tree: Hierarchy) -> None:
    sides = tree.sides(levels(tree)[-1]).min(axis=0)
    assert tree.smallest_sides.tolist() == pytest.approx(sides.tolist())


@every
def test_the_middle_of_a_code_has_that_code(tree: Hierarchy) -> None:
    codes = tree.codes(points_of(tree))
    assert tree.codes(tree.middles(codes)).tolist() == codes.tolist()


# -- intervals of codes ------------------------------------------------------------------------------------------------


def intervals_of(tree: Hierarchy, size: int = 200) -> tuple[Integers, Integers]:
    """Random intervals, single codes, and the whole."""
    low, high = tree.ends
    ends = np.sort(np.random.default_rng(5).integers(low, high, (size, 2)), axis=1)
    ends[:20, 1] = ends[:20, 0]
    ends[20] = low, high - 1
    return ends[:, 0], ends[:, 1] + 1


def all_cells(tree: Hierarchy) -> list[tuple[int, int, int, int]]:
    """Cell, depth, first code, code after the last; from the root down."""
    cells = np.concatenate(levels(tree))
    first, last = tree.span(cells)
    return list(
        zip(cells.tolist(), tree.depth(cells).tolist(), first.tolist(), (last + np.uint64(1)).tolist(), strict=True)
    )


@every
def test_an_interval_has_the_fewest_cells_and_one_of_them_is_the_largest(tree: Hierarchy) -> None:
    lower, upper = intervals_of(tree)
    first, cells = tree.interval_cells(lower, upper)
    largest = tree.largest_cells(lower, upper).tolist()
    assert first[0] == 0
    assert first[-1] == len(cells)
    for row, (low, high) in enumerate(zip(lower.tolist(), upper.tolist(), strict=True)):
        inside = [(cell, begin, end) for cell, _, begin, end in all_cells(tree) if low <= begin and end <= high]
        most: list[tuple[int, int, int]] = []  # the cells that no other one inside holds; coarser ones come first
        for cell, begin, end in inside:
            if not any(other <= begin and end <= to for _, other, to in most):
                most.append((cell, begin, end))
        most.sort(key=lambda one: one[1])
        assert cells[first[row] : first[row + 1]].tolist() == [cell for cell, _, _ in most]
        assert largest[row] == max(most, key=lambda one: one[2] - one[1])[0]


@every
def test_the_coarsest_of_some_codes_begins_the_coarsest_cell(tree: Hierarchy) -> None:
    lower, upper = intervals_of(tree)
    lower, upper = lower[lower > tree.ends[0]], upper[lower > tree.ends[0]]
    halves: Hierarchy = tree
    if isinstance(tree, Quadtree):  # the boxes that prefixes of any length are
        halves = BinaryTree(tree.box, tree.max_depth * tree.box.dimensions)
    depths: dict[int, int] = {}
    for _, depth, begin, _ in all_cells(halves):
        depths.setdefault(begin, depth)
    found = tree.coarsest(lower, upper - 1).tolist()
    for low, high, code in zip(lower.tolist(), upper.tolist(), found, strict=True):
        assert code == min(range(low, high), key=lambda one: (depths[one], one))


@every
def test_areas_boxes_and_sides_of_an_interval_are_those_of_its_cells(tree: Hierarchy) -> None:
    lower, upper = intervals_of(tree, 60)
    first, cells = tree.interval_cells(lower, upper)
    areas, boxes = tree.interval_areas(lower, upper), tree.interval_boxes(lower, upper)
    assert tree.interval_sides(lower, upper).tolist() == tree.sides(tree.largest_cells(lower, upper)).tolist()
    for row in range(60):
        own = cells[first[row] : first[row + 1]]
        assert areas[row] == pytest.approx(tree.areas(own).sum())
        assert boxes[row, 0].tolist() == tree.boxes(own)[:, 0].min(axis=0).tolist()
        assert boxes[row, 1].tolist() == tree.boxes(own)[:, 1].max(axis=0).tolist()
    assert areas[20] == pytest.approx(tree.areas([ROOT])[0])


@every
def test_names_of_intervals_are_short_and_differ(tree: Hierarchy) -> None:
    lower, upper = intervals_of(tree)
    names = tree.interval_names(lower, upper)
    assert len(set(names)) == len({*zip(lower.tolist(), upper.tolist(), strict=True)})
    assert 0 < min(map(len, names)) <= max(map(len, names)) <= 40


@every
def test_no_intervals_and_none_at_all_are_told_apart(tree: Hierarchy) -> None:
    none = np.empty(0, dtype=np.uint64)
    first, cells = tree.interval_cells(none, none)
    assert first.tolist() == [0]
    assert not len(cells)
    assert tree.interval_boxes(none, none).shape == (0, 2, tree.box.dimensions)
    assert tree.interval_sides(none, none).shape == (0, tree.box.dimensions)
    for method in (tree.interval_areas, tree.largest_cells, tree.interval_names, tree.coarsest):
        assert len(method(none, none)) == 0
    low, high = tree.ends
    for wrong in (
        ([low], [low]),
        ([low - 1], [high]),
        ([low], [high + 1]),
        ([high], [low]),
        ([low], []),
        ([0.5], [high]),
    ):
        for check in (tree.interval_cells, tree.interval_areas, tree.largest_cells, tree.interval_names):
            with pytest.raises(InvalidInput, match="interval"):
                check(*wrong)
    with pytest.raises(InvalidInput, match="first code"):
        tree.coarsest([low], [low + 1])


@pytest.mark.parametrize(
    "tree",
    [BinaryTree(Box((-1, 2), (3, 2.5)), 9), BinaryTree(Box((0, 0), (1, 1)), 40), Quadtree(Box((0, 0), (1, 1)), 5)],
    ids=str,
)
def test_an_interval_of_a_box_is_one_outline_with_the_area_of_its_cells(tree: BinaryTree | Quadtree) -> None:
    lower, upper = intervals_of(tree)
    areas = tree.interval_areas(lower, upper)
    for rings, area, box in zip(
        tree.interval_polygons(lower, upper), areas.tolist(), tree.interval_boxes(lower, upper), strict=True
    ):
        signed = []
        for ring in rings:
            x, y = np.array(ring).T
            signed.append(float((x[:-1] * y[1:] - x[1:] * y[:-1]).sum() / 2))
            assert ring[0] == ring[-1]
            assert len({tuple(point) for point in ring}) == len(ring) - 1
        assert sum(signed) == pytest.approx(area, rel=1e-9, abs=1e-12)
        assert [one > 0 for one in signed] == [True] + [False] * (len(rings) - 1)  # one outer ring: it is connected
        assert np.min(rings[0], axis=0).tolist() == box[0].tolist()
        assert np.max(rings[0], axis=0).tolist() == box[1].tolist()
    assert tree.interval_polygons(*([end] for end in tree.ends)) == tree.polygons([ROOT])


def test_outlines_of_the_sphere_are_those_of_its_cells_and_other_dimensions_have_none() -> None:
    sphere = HIERARCHIES["sphere"]
    lower, upper = intervals_of(sphere, 30)
    first, cells = sphere.interval_cells(lower, upper)
    for row, rings in enumerate(sphere.interval_polygons(lower, upper)):
        own = sphere.polygons(cells[first[row] : first[row + 1]])
        assert rings == [ring for one in own for ring in one]
    solid = HIERARCHIES["quad, three axes"]
    with pytest.raises(InvalidInput, match="two dimensions"):
        solid.interval_polygons(*([end] for end in solid.ends))


@every
def test_what_is_no_cell_and_who_is_outside_is_refused(tree: Hierarchy) -> None:
    deepest = levels(tree)[-1]
    for wrong in ([0], [2**62], [[ROOT]], [1.5]):
        with pytest.raises(InvalidInput):
            tree.depth(wrong)
    with pytest.raises(InvalidInput):
        tree.parent([ROOT])
    with pytest.raises(InvalidInput):
        tree.number([ROOT])
    with pytest.raises(InvalidInput):
        tree.children(deepest[:1])
    with pytest.raises(OutsideDomain):
        tree.codes([np.array(tree.box.upper) + 1])


def test_digests_tell_hierarchies_apart_and_repeat() -> None:
    digests = {tree.digest() for tree in HIERARCHIES.values()}
    assert len(digests) == len(HIERARCHIES)
    assert from_cuts("x", AREAS).digest() == from_cuts("x", AREAS).digest() != from_cuts("y", AREAS).digest()


def test_the_table_has_cells_with_different_numbers_of_children() -> None:
    tree = from_cuts("x", AREAS)
    assert set(np.concatenate([tree.fanouts(cells) for cells in levels(tree)[:-1]]).tolist()) == {1, 2, 3, 4, 5}
