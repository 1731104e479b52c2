"""The same order everywhere: the page's device (in node) and the second client of spec/ against the package."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import reference_trees

from semilocal import BinaryTree, Box, Quadtree
from semilocal.hierarchy import Hierarchy, SphereTree
from semilocal.hierarchy.tables import from_cuts, from_labels
from tests.helpers import HANG

ORDER = Path(__file__).parents[2] / "page" / "order.mjs"
TREES: list[Hierarchy] = [
    *(BinaryTree(Box((-0.1,) * d, (7.3,) * d), min(50, 8 * d - 1)) for d in range(1, 9)),
    *(Quadtree(Box((0,) * d, (1,) * d), 5) for d in (1, 2, 3, 5, 8)),
    BinaryTree(Box((-10, 35), (5, 45), names=("lon", "lat")), 60),
    BinaryTree(Box((0, 0), (1, 1)), 7),
    BinaryTree(Box((0, 0, 0), (1, 1, 1)), 2),
    SphereTree(23),
    from_cuts("x", [[0, 0.5, 2, 7], [0, 0.2, 0.5, 1, 1.5, 2, 3, 7]]),
    from_labels("code", [("a", "a1", "a1x"), ("a", "a1", "a1y"), ("a", "a2"), ("b", "b1"), ("c",)]),
]
IN_A_BROWSER = [tree for tree in TREES if isinstance(tree, BinaryTree)]
each = pytest.mark.parametrize("number", range(len(TREES)), ids=lambda number: str(TREES[number])[:60])


def case(tree: Hierarchy) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    points = rng.uniform(tree.box.lower, tree.box.upper, (40, tree.box.dimensions))
    codes = tree.codes(points)
    cells = [tree.ancestors(codes[row : row + 1], int(rng.integers(tree.max_depth + 1)))[0] for row in range(40)]
    low, high = tree.ends
    ends = np.sort(rng.integers(low, high, (15, 2)), axis=1) + np.array([0, 1])
    return {
        "hierarchy": msgspec.to_builtins(tree), "points": points.tolist(), "cells": [str(cell) for cell in cells],
        "intervals": [[str(one), str(other)] for one, other in [*ends.tolist(), (low, high)]],
    }  # fmt: skip


def expected(tree: Hierarchy, told: dict[str, Any]) -> dict[str, Any]:
    cells = np.array(told["cells"], dtype=np.uint64)
    lower, upper = np.array(told["intervals"], dtype=np.uint64).T
    first, found = tree.interval_cells(lower, upper)
    return {
        "ends": [str(end) for end in tree.ends],
        "codes": [str(code) for code in tree.codes(told["points"]).tolist()],
        "boxes": tree.boxes(cells).tolist(),
        "sides": tree.sides(cells).tolist(),
        "smallest": tree.smallest_sides.tolist(),
        "intervals": [[str(cell) for cell in part.tolist()] for part in np.split(found, first[1:-1])],
        "largest": [str(cell) for cell in tree.largest_cells(lower, upper).tolist()],
        "lengths": tree.interval_sides(lower, upper).tolist(),
    }


@pytest.fixture(scope="module")
def in_node() -> list[dict[str, Any]]:
    node = shutil.which("node")
    if node is None:
        from tests.helpers.service import unmet

        unmet("node is not installed")
    assert node is not None
    told = json.dumps([case(tree) for tree in IN_A_BROWSER])
    done = subprocess.run([node, str(ORDER)], input=told, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize("number", range(len(IN_A_BROWSER)), ids=lambda number: str(IN_A_BROWSER[number])[:60])
def test_the_page_has_the_same_order(in_node: list[dict[str, Any]], number: int) -> None:
    told, tree = in_node[number], IN_A_BROWSER[number]
    right = expected(tree, case(tree))
    for name in ("ends", "codes", "intervals", "largest"):
        assert told[name] == right[name]
    for name in ("boxes", "sides", "lengths", "smallest"):  # sines and cosines may be rounded differently
        assert np.array(told[name]) == pytest.approx(np.array(right[name]), rel=1e-12, abs=1e-9), name
    if tree.cells_are_boxes:
        assert told["boxes"] == right["boxes"]


@each
def test_the_second_client_has_the_same_order(number: int) -> None:
    tree = TREES[number]
    told = case(tree)
    right, other = expected(tree, told), reference_trees.tree_of(told["hierarchy"])
    pairs = [(int(lower), int(upper)) for lower, upper in told["intervals"]]
    assert [str(end) for end in other.ends] == right["ends"]
    assert [str(other.code_of(point)) for point in told["points"]] == right["codes"]
    assert [[str(cell) for cell in other.interval_cells(*pair)] for pair in pairs] == right["intervals"]
    assert [str(other.largest_cell(*pair)) for pair in pairs] == right["largest"]
    assert np.array([other.interval_sides(*pair) for pair in pairs]) == pytest.approx(np.array(right["lengths"]))
    if isinstance(other, reference_trees.Boxes):
        assert [list(other.box(int(cell))) for cell in told["cells"]] == right["boxes"]
