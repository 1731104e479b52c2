"""What a finished pair of two servers publishes: cells, counts in boxes, and the promise they come with.

Everything is computed from the signed transcript, which is replayed first. Knows a transcript. Knows no HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from ...release.means import Mean, Means
from ...release.pair import PairResult, pair_counts, pair_document
from ...sharing.pair import EXPERIMENTAL, PairTask
from ...sharing.wire import SignedTree
from ..results import Published, mean_document

__all__ = ["PairFindings", "read_findings"]


@dataclass(frozen=True, eq=False)
class PairFindings(Published):
    """The result of a pair."""

    counts: PairResult
    transcript: bytes
    pair: PairTask

    @cached_property
    def document(self) -> bytes:
        """Everything, as JSON."""
        return msgspec.json.encode(pair_document(self.transcript, self.counts))

    def means_in(self, areas: Any, level: float) -> list[dict[str, Any]]:
        """The mean that was released, if there is one, for boxes float[q, 2, d] or polygons, ready for JSON."""
        asked, found = self.pair.asked, self.counts
        if asked is None:
            return []
        everybody = found if isinstance(found, Mean) else None
        return [mean_document(asked.what, everybody, found if isinstance(found, Means) else None, areas, level)]


@lru_cache(maxsize=16)
def read_findings(transcript: bytes) -> PairFindings:
    """The result in a transcript; refuses one that does not hold."""
    pair, counts = SignedTree.from_bytes(transcript).task, pair_counts(transcript)
    return PairFindings(pair.id, EXPERIMENTAL, counts, counts.guarantee, transcript, pair)
