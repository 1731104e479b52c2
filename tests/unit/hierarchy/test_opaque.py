"""Cells and codes are plain numbers outside `hierarchy/`: no other package computes with how they are built."""

from __future__ import annotations

import ast
import re

import pytest

from tests.helpers.sources import MODULES, with_text

# An engine computes cells in its own language, so these modules know how a box tree builds them.
SPEAKERS = {name for name in MODULES if name.startswith("engines.")}
INSIDES = {"level_bits", "path_bits", "tick_bits", "tick_bounds", "interleave"}  # of box trees
SHIFTS = (ast.LShift, ast.RShift)
PRODUCTS = (ast.Mult, ast.FloorDiv, ast.Mod, ast.Pow)
SUSPECT = re.compile("|".join([*INSIDES, "bit_length", "fanout", "<<", "(?<!>)>>(?!>)"]))  # all that is found has one


def mentions(node: ast.AST, *words: str) -> bool:
    """Whether any name in the expression contains one of the words."""
    inside = [part for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute)]
    names = [part.id if isinstance(part, ast.Name) else part.attr for part in inside]
    return any(word in name for name in names for word in words)


def insides_used(module: ast.Module) -> list[str]:
    """Expressions that compute with the structure of cells."""
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and node.attr in INSIDES:
            found.append(ast.unparse(node))
        if isinstance(node, ast.Attribute) and node.attr == "bit_length" and mentions(node.value, "cell", "code"):
            found.append(ast.unparse(node))
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, SHIFTS + PRODUCTS):
            sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
            numbers = any(mentions(side, "cell", "code") for side in sides)
            if numbers and (isinstance(node.op, SHIFTS) or any(mentions(side, "fanout") for side in sides)):
                found.append(ast.unparse(node))
    return found


def test_no_other_package_computes_with_the_structure_of_cells() -> None:
    suspects = with_text(SUSPECT)
    assert suspects.keys() & SPEAKERS
    outside = [name for name in suspects if name.split(".")[0] != "hierarchy" and name not in SPEAKERS]
    assert {name: used for name in outside if (used := insides_used(suspects[name]))} == {}


@pytest.mark.parametrize(
    "planted",
    [
        "cells = frontier.cells[rows] << np.uint64(bits) | children",
        "child = state.code >> 3 & 1",
        "codes >>= shift",
        "depth = report.cell.bit_length() - 1",
        "leaf = node.cell * tree.fanout + child",
        "child = after.cell % fanout",
        "bits = task.hierarchy.level_bits",
    ],
)
def test_a_planted_shift_would_be_seen(planted: str) -> None:
    assert SUSPECT.search(planted)
    assert insides_used(ast.parse(planted))
    harmless = "cells = hierarchy.children(frontier.cells[rows]); index >>= 1; size = cells * 2"
    assert not insides_used(ast.parse(harmless))
