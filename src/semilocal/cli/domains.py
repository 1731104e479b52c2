"""The public domain that --bounds names, for the columns that hold the positions.

Knows names of axes, boxes and trees. Reads no positions.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InvalidInput
from ..geometry.box import Box
from ..geometry.places import LATITUDE, LONGITUDE
from ..hierarchy import AnyTree, SphereTree
from ..io.trees import read_tree
from .arguments import parse_box

__all__ = ["named_domain"]


def named_domain(bounds: str, names: Sequence[str]) -> tuple[Box, AnyTree | None]:
    """The box, and the tree over it if bounds name one; refuses columns that are not its axes."""
    tree = read_tree(bounds)
    if tree is not None:
        _check_axes(tree, names)
        return tree.box, tree
    box = parse_box(bounds, names=tuple(names))
    first, second = (name.lower() for name in (*names, "", "")[:2])
    if "," not in bounds and first in LATITUDE and second in LONGITUDE:
        raise InvalidInput(
            f"the axes are swapped: --bounds {bounds} has longitude first, and the first column is {names[0]!r}. "
            "Exchange --x and --y"
        )
    return box, None


def _check_axes(tree: AnyTree, names: Sequence[str]) -> None:
    if len(names) != tree.box.dimensions:
        raise InvalidInput(
            f"the tree has {tree.box.dimensions} axes, {', '.join(tree.box.names)}, and the positions {len(names)}; "
            "name the columns with --x and --y, or --columns"
        )
    lowered = [name.lower() for name in names]
    if isinstance(tree, SphereTree) and lowered[0] in LATITUDE and lowered[1] in LONGITUDE:
        raise InvalidInput(f"the axes are swapped: a sphere has longitude first; {names[0]!r} comes first here")
