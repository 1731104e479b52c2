"""Public trees of cells over a domain. Outside this package cells and codes are plain numbers without structure."""

from __future__ import annotations

from .base import ROOT, Cells, Hierarchy
from .dyadic import MAX_BITS, BinaryTree, Quadtree
from .sphere import SphereTree

__all__ = ["MAX_BITS", "ROOT", "BinaryTree", "Cells", "Hierarchy", "Quadtree", "SphereTree"]
