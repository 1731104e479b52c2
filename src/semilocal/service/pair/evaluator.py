"""The reports of a tree as the server that counts sees them: it writes orders, and waits for results.

The server does not evaluate. Workers do, wherever they run (:mod:`.chunk_worker`). Sums are integers modulo 2^64, so
how reports are cut into chunks changes nothing. What is ordered again after a crash is what was ordered before it, and
its results are there.

Knows the tables, secrets and orders. Knows no HTTP, noise or clock; how to wait is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ...sharing.evaluate import Half, LevelShare
from ...sharing.pair import PairTask
from ...sharing.wire import join_ids
from ..stores.pairs import PairTables
from .keys import PairSecrets
from .orders import Order, read_share, read_sums, root_digest

__all__ = ["CHUNK", "ChunkEvaluator", "Wait"]

CHUNK = 4096  # reports; their states at a level with 600 opened cells take 40 MB
Flags = npt.NDArray[np.bool_]
Wait = Callable[[bytes, bytes, int], None]  # until an order of a task has a given number of results


class ChunkEvaluator:
    """One server's half of the reports of a tree; an ``Evaluator`` of :mod:`semilocal.sharing.party`.

    Parameters
    ----------
    tables : PairTables
    wait : callable
        Returns when all chunks have a result.
    pair : PairTask
    secrets : PairSecrets
    bucket : int
    ids : sequence of bytes
        The reports that take part, ascending.
    chunk : int
        Reports per chunk.
    """

    def __init__(
        self, tables: PairTables, wait: Wait, pair: PairTask, secrets: PairSecrets, bucket: int, ids: Sequence[bytes],
        *, chunk: int = CHUNK,
    ) -> None:  # fmt: skip
        self._tables, self._wait, self._secrets = tables, wait, secrets
        self._task, self._shape, self._ids = pair.id, pair.shape, list(ids)
        parts = [self._ids[start : start + chunk] for start in range(0, len(ids), chunk)]
        self._sizes = [len(part) for part in parts]
        self._digest = root_digest(self._task, bucket, self._ids)
        tables.divide(self._task, bucket, self._digest, [join_ids(part) for part in parts])
        self._number = self._level = 0
        self._cells = 1
        self._rows: npt.NDArray[np.int64] | None = None  # to be opened with the next order
        self._dropped: Flags = np.zeros(len(ids), dtype=bool)  # to be dropped with the next order
        self.accepted: Flags = np.ones(len(ids), dtype=bool)
        self.value_digests: npt.NDArray[np.uint8] = np.empty((len(ids), 0), dtype=np.uint8)

    def expand(self) -> LevelShare:
        """Sums and tags of the level below."""
        if not self._sizes:
            return Half(self._task, self._shape, 0, [], []).expand()
        found = self._ordered(None)
        share, digests = read_share(found, self._sizes, self._shape, cells=self._cells, level=self._level)
        if not self._level:
            self.value_digests = digests
        return share

    def sums_of(self, reports: Flags) -> npt.NDArray[np.uint64]:
        """Sums over some reports only."""
        return read_sums(self._ordered(self._joined(reports)), self._shape)

    def drop(self, rejected: Flags) -> None:
        """Reports that count no longer."""
        self._dropped = self._dropped | (rejected & self.accepted)
        self.accepted = self.accepted & ~rejected

    def open(self, rows: npt.NDArray[np.int64]) -> None:
        """Go one level down."""
        self._rows, self._level, self._cells = rows, self._level + 1, len(rows)

    def _ordered(self, only: bytes | None) -> list[bytes]:
        """The results of an order, chunk by chunk."""
        rows = None if self._rows is None else self._rows.astype("<i8").tobytes()
        order = Order(rows, self._joined(self._dropped), only)
        digest = order.digest(self._digest)
        self._tables.put_order(self._task, self._number, digest, order.to_bytes())
        self._wait(self._task, digest, len(self._sizes))
        sealed = self._tables.results(self._task, digest)
        found = [self._secrets.open_result(digest, chunk, sealed[chunk]) for chunk in range(len(self._sizes))]
        self._number, self._digest, self._rows = self._number + 1, digest, None
        self._dropped = np.zeros(len(self._ids), dtype=bool)
        return found

    def _joined(self, flags: Flags) -> bytes:
        return join_ids(self._ids[place] for place in np.flatnonzero(flags))
