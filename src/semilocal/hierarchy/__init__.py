"""Public trees of cells over a domain. Outside this package cells and codes are plain numbers without structure."""

from __future__ import annotations

from typing import TypeAlias

from .base import ROOT, Cells, Hierarchy
from .dyadic import MAX_BITS, BinaryTree, Quadtree
from .sphere import SphereTree
from .tables import TableTree

AnyTree: TypeAlias = BinaryTree | Quadtree | SphereTree | TableTree  # what a task can name
Halved: TypeAlias = BinaryTree | SphereTree | TableTree  # at most two children per cell: what a pooled tree refines

__all__ = [
    "MAX_BITS", "ROOT", "AnyTree", "BinaryTree", "Cells", "Halved", "Hierarchy", "Quadtree", "SphereTree",
    "TableTree",
]  # fmt: skip
