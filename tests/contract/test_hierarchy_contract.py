"""What every hierarchy promises (`semilocal.hierarchy.base`), on box trees, the sphere and tables."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal import BinaryTree, Box, Quadtree
from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.hierarchy import ROOT, Cells, Hierarchy, SphereTree
from semilocal.hierarchy.tables import from_cuts, from_labels, in_twos
from tests.helpers.areas import AREAS

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
DEEP: list[Hierarchy] = [
    BinaryTree(Box((-0.1, 0, 3), (0.3, 7, 4)), 50), Quadtree(Box((0, 0, 0), (1, 2, 3)), 20),
    BinaryTree(Box((0,), (1,)), 45), BinaryTree(Box((0,) * 8, (1,) * 8), 60), SphereTree(40),
]  # fmt: skip
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
        assert tree.all_at(cells, depth)
        assert not tree.all_at(cells, depth + 1)


@every
def test_children_are_numbered_and_know_their_parent(tree: Hierarchy) -> None:
    for cells in levels(tree)[:-1]:
        widths, children = tree.fanouts(cells), tree.children(cells)
        assert widths.min() >= 1
        assert widths.max() <= tree.fanout
        assert tree.parent(children).tolist() == np.repeat(cells, widths).tolist()
        assert tree.number(children).tolist() == [number for width in widths for number in range(width)]
        rows, numbers = tree.child_rows(cells)
        assert tree.child(cells[rows], numbers).tolist() == children.tolist()
        assert tree.child_mask(cells).sum(axis=1).tolist() == widths.tolist()


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
        if depth:
            assert tree.child_of(codes, depth - 1).tolist() == tree.number(cells).tolist()


@pytest.mark.parametrize("tree", [*HIERARCHIES.values(), *DEEP], ids=str)
def test_a_head_is_the_beginning_of_a_code(tree: Hierarchy) -> None:
    points = points_of(tree)
    if tree.cells_are_boxes:  # edges of cells, and the numbers beside them
        corners = tree.boxes(tree.locate(points, min(tree.max_depth, 12))).reshape(-1, tree.box.dimensions)
        around = [corners, np.nextafter(corners, -np.inf), np.nextafter(corners, np.inf)]
        points = np.clip(np.concatenate([points, *around]), tree.box.lower, tree.box.upper)
    first, last = tree.span([ROOT])
    bits = int(last[0] - first[0]).bit_length()
    assert tree.tail_bits == max(bits - 32, 0)
    assert tree.heads(points).dtype == np.uint32
    assert tree.heads(points).tolist() == [
        (code - int(first[0])) >> tree.tail_bits for code in tree.codes(points).tolist()
    ]


@every
def test_every_code_of_the_kept_children_is_drawn_by_its_share_of_the_words(tree: Hierarchy) -> None:
    """All words that begin a code's share, and the last ones before it: exact, no sampling."""
    rng = np.random.default_rng(8)
    for cells in levels(tree)[:-1]:
        cell = cells[rng.integers(len(cells)) :][:1]
        kept = tree.child_mask(cell) & (rng.random((1, tree.fanout)) < 0.5)
        kept[0, 0 if not kept.any() else kept.argmax()] = True
        first, last = (
            edge.tolist() for edge in tree.span(tree.child(np.repeat(cell, kept.sum()), kept[0].nonzero()[0]))
        )
        places = [(low, high) for low, high in zip(first, last, strict=True)]
        total = sum(high - low + 1 for low, high in places)
        before = 0
        for low, high in places:
            for code in {low, (low + high) // 2, high}:
                place = before + code - low
                edges = -(-place * 2**64 // total), -(-(place + 1) * 2**64 // total) - 1  # the words of this place
                drawn = tree.spread(np.repeat(cell, 2), np.repeat(kept, 2, axis=0), np.array(edges, dtype=np.uint64))
                assert drawn.tolist() == [code, code]
            before += high - low + 1


@every
def test_children_weigh_as_many_codes_as_they_have(tree: Hierarchy) -> None:
    for cells in levels(tree)[:-1]:
        weights = tree.child_weights(cells)
        assert (weights > 0).tolist() == tree.child_mask(cells).tolist()
        rows, numbers = tree.child_rows(cells)
        first, last = (edge.astype(object) for edge in tree.span(tree.child(cells[rows], numbers)))
        sizes = np.zeros(weights.shape, dtype=object)
        sizes[rows, numbers] = last - first + 1
        for weighed, size in zip(weights.tolist(), sizes.tolist(), strict=True):
            assert all(part.is_integer() for part in weighed)
            assert [int(part) * sum(size) for part in weighed] == [part * int(sum(weighed)) for part in size]


@every
def test_the_middle_of_a_code_has_that_code(tree: Hierarchy) -> None:
    codes = tree.codes(points_of(tree))
    assert tree.codes(tree.middles(codes)).tolist() == codes.tolist()


@every
def test_what_is_no_cell_and_who_is_outside_is_refused(tree: Hierarchy) -> None:
    deepest = levels(tree)[-1]
    for wrong in ([0], [2**62], [[ROOT]], [1.5]):
        with pytest.raises(InvalidInput):
            tree.depth(wrong)
        assert not tree.all_at(wrong, 0)
    with pytest.raises(InvalidInput):
        tree.parent([ROOT])
    with pytest.raises(InvalidInput):
        tree.number([ROOT])
    with pytest.raises(InvalidInput):
        tree.children(deepest[:1])
    for number in (-1, tree.fanout):
        with pytest.raises(InvalidInput):
            tree.child([ROOT], number)
    with pytest.raises(OutsideDomain):
        tree.codes([np.array(tree.box.upper) + 1])


def test_digests_tell_hierarchies_apart_and_repeat() -> None:
    digests = {tree.digest() for tree in HIERARCHIES.values()}
    assert len(digests) == len(HIERARCHIES)
    assert from_cuts("x", AREAS).digest() == from_cuts("x", AREAS).digest() != from_cuts("y", AREAS).digest()


def test_the_table_has_cells_with_different_numbers_of_children() -> None:
    tree = from_cuts("x", AREAS)
    assert set(np.concatenate([tree.fanouts(cells) for cells in levels(tree)[:-1]]).tolist()) == {1, 2, 3, 4, 5}
