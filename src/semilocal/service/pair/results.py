"""What a finished pair of two servers publishes: cells, counts in boxes, and the promise they come with.

Everything is computed from the signed transcript, which is replayed first. Knows a transcript. Knows no HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from ...io.regions import AnyPartition
from ...release.counts import Rounding
from ...release.means import Mean, Means
from ...release.pair import PairResult, pair_counts, pair_document
from ...sharing.pair import EXPERIMENTAL, PairTask
from ...sharing.wire import SignedTree
from ..results import RegionFiles, counts_document, mean_document

__all__ = ["PairFindings", "read_findings"]


@dataclass(frozen=True, eq=False)
class PairFindings(RegionFiles):
    """The result of a pair.

    Attributes
    ----------
    transcript : bytes
    pair : PairTask
    counts : PairResult
    """

    transcript: bytes
    pair: PairTask
    counts: PairResult

    @cached_property
    def document(self) -> bytes:
        """Everything, as JSON."""
        return msgspec.json.encode(pair_document(self.transcript, self.counts))

    @property
    def partition(self) -> AnyPartition:
        """The final cells."""
        return self.counts.partition

    def count(self, areas: Any, level: float, rounding: Rounding = None) -> dict[str, Any]:
        """Numbers of reports in boxes float[q, 2, d] or polygons with intervals, ready for JSON."""
        return counts_document(
            self.pair.id, self.counts, areas, level, rounding, note=EXPERIMENTAL, promise=self.counts.guarantee
        )

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
    return PairFindings(transcript, SignedTree.from_bytes(transcript).task, pair_counts(transcript))
