"""Names of the command line."""

from __future__ import annotations

from .pair import PairResult, pair_counts, pair_document

__all__ = ["PairResult", "pair_counts", "pair_document"]
