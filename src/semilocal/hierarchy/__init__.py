"""Public trees of cells over a domain. Outside this package cells and codes are plain numbers without structure."""

from __future__ import annotations

from typing import TypeAlias

from .base import ROOT, Cells, Hierarchy
from .dyadic import MAX_BITS, BinaryTree, Quadtree
from .sphere import SphereTree

Halved: TypeAlias = BinaryTree | SphereTree  # every cell has two children: what a pooled tree refines

__all__ = ["MAX_BITS", "ROOT", "BinaryTree", "Cells", "Halved", "Hierarchy", "Quadtree", "SphereTree"]
