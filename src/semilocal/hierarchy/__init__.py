"""Public trees of cells over a domain."""

from __future__ import annotations

from .dyadic import MAX_BITS, ROOT, BinaryTree, Cells, Hierarchy, Quadtree

__all__ = ["MAX_BITS", "ROOT", "BinaryTree", "Cells", "Hierarchy", "Quadtree"]
