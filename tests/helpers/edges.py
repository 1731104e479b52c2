"""Positions that rounding gets wrong first: on the edges of cells, a float beside them, at the ends of the box."""

from __future__ import annotations

import numpy as np

from semilocal.arrays import Floats, Integers
from semilocal.engines.keys import axis_bits, keys_of_cells
from semilocal.geometry.box import Box
from semilocal.hierarchy.dyadic import BinaryTree, BoxTree, Quadtree

BOXES = [
    Box((0,), (1,)),
    Box((-10, -10), (10, 10)),
    Box((-180, -90), (180, 90)),
    Box((0.1, -0.3), (0.7, 1e6)),
    Box((-5e307,), (5e307,)),
    Box((-8.9e307, 0), (8.9e307, 1e-300)),
    Box((0,), (1e-308,)),
    Box((0,), (2.0**-1040,)),
    Box((1e15,), (1e15 + 1000,)),
    Box((-0.0, 5e5), (1e-5, 5e5 + 1)),
    Box((0, 0, 0), (1, 3, 7.7)),
    Box((-0.1,) * 4, (0.3,) * 4),
    Box((-0.1,) * 5, (1 / 3,) * 5),
    Box((-0.7,) * 6, (0.1,) * 6),
    Box((-1e-3,) * 7, (0.3,) * 7),
    Box((-0.1,) * 8, (0.3,) * 8),
]


def deepest_trees(box: Box) -> list[BoxTree]:
    """A binary tree and a quadtree, as deep as floats allow in this box with as many halvings on every axis."""
    return [_deepest(kind, box) for kind in (BinaryTree, Quadtree)]


def _deepest(kind: type[BoxTree], box: Box) -> BoxTree:
    step = box.dimensions if kind is BinaryTree else 1
    for depth in range(60 // box.dimensions * step, 0, -step):
        try:
            return kind(box, depth)
        except ValueError:
            continue
    raise AssertionError(f"no tree fits into {box}")


def whole_levels_of(tree: BoxTree) -> list[int]:
    """Some depths of the path at which cells have keys: none, one, half and all levels of the curve."""
    step, levels = tree.box.dimensions, tree.path_bits // tree.box.dimensions
    return sorted({0, step, levels // 2 * step, levels * step})


def edge_points(tree: BoxTree, bits: int, rng: np.random.Generator, *, size: int = 300) -> Floats:
    """Positions on and beside the edges of cells of this depth of the path, and some anywhere: float64[size, d]."""
    columns = []
    for low, high, width in zip(tree.box.lower, tree.box.upper, axis_bits(tree, bits), strict=True):
        slices = rng.integers(0, 2**width, size, endpoint=True)
        column = low + (high - low) * (slices * 0.5**width)
        column = np.where(rng.random(size) < 0.2, low + (high - low) * rng.random(size), column)
        for _ in range(3):
            beside = np.nextafter(column, rng.choice([-np.inf, np.inf], size))
            column = np.where(rng.random(size) < 0.3, beside, column)
        ends = [low, high, np.nextafter(low, high), np.nextafter(high, low), 0.0, -0.0, 5e-324, -5e-324]
        column[rng.choice(size, len(ends), replace=False)] = ends
        columns.append(np.clip(column, low, high))
    return np.stack(columns, axis=1)


def true_keys(tree: BoxTree, points: Floats, bits: int) -> Integers:
    """The keys of positions, from the hierarchy's own codes: int64[n]."""
    return keys_of_cells(tree, tree.codes(points) >> np.uint64(tree.path_bits - bits), bits)
