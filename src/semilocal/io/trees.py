"""Hierarchies named on the command line: the sphere, or a table in a JSON file.

Knows one text and one file format. Knows no positions.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..errors import InvalidInput
from ..hierarchy import AnyTree, SphereTree, TableTree
from ..hierarchy.tables import from_cuts, from_labels

_LEVELS = 40  # of a sphere: cells of about 25 m


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    """A table in a file: cuts on every level, or the path of labels of every leaf."""

    name: str
    cuts: list[list[float]] | None = None
    paths: list[list[str]] | None = None


def read_tree(text: str) -> AnyTree | None:
    """The tree that a text names, "sphere" or a JSON file; None if it names none, as a box does.

    A file is ``{"name": "age", "cuts": [[0, 18, 65], ...]}`` or ``{"name": "code", "paths": [["IX", "I21"], ...]}``.

    Examples
    --------
    >>> read_tree("sphere")
    SphereTree(max_depth=40)
    >>> read_tree("world") is None
    True
    """
    if text == "sphere":
        return SphereTree(_LEVELS)
    return _read_table(Path(text)) if text.lower().endswith(".json") else None


def label_tree(text: str | None) -> TableTree | None:
    """The table of labels that a text names; None if it names none."""
    tree = read_tree(text) if text else None
    return tree if isinstance(tree, TableTree) and tree.leaves else None


def _read_table(path: Path) -> TableTree:
    try:
        table = msgspec.json.decode(path.read_bytes(), type=_Table)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror or error}") from None
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{path} is not a table: {error}; give name, and cuts or paths") from None
    if (table.cuts is None) == (table.paths is None):
        raise InvalidInput(f"{path}: give cuts (edges of every level) or paths (labels of every leaf), one of them")
    try:
        return (
            from_cuts(table.name, table.cuts) if table.cuts is not None else from_labels(table.name, table.paths or [])
        )
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None
