"""What a server keeps in memory about a pair, and how it is read back from the database.

The database is the truth: :func:`build_play` comes back to the same point after a crash, from the closed set and the
stored steps. Methods here block; callers run them in threads.

Knows the tables, secrets and workers. Knows no HTTP or clock.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput
from ...sharing.envelope import Role
from ...sharing.evaluate import Half, LevelShare
from ...sharing.pair import PairTask
from ...sharing.wire import MAX_TREE, Closing, join_ids, split_ids
from ..stores.chunks import Fault
from ..stores.pairs import PairRow, PairTables, StepRow
from .chunk_worker import Order, read_share, read_sums, root_digest
from .keys import PairSecrets
from .play import Play
from .work import OwnWorkers

__all__ = ["CHUNK", "CLOSE", "HELPER_ANSWERS", "ChunkEvaluator", "LivePair", "Wait", "build_play"]

CLOSE = "close"
HELPER_ANSWERS = "the helper's answer to the proposal"


class LivePair:
    """A pair on this server.

    Attributes
    ----------
    row : PairRow
        Where it stood at the last look.
    waits_for : str or None
        What it waits for, in words.
    progress : (int, int)
        Chunks of reports that are evaluated of the present level, and all of them.
    stuck : str or None
        Which chunk cannot be evaluated and why, in words for the operator.
    failed : bool
        Whether this server could not answer the leader's last step.
    """

    def __init__(self, pair: PairTask, role: Role, row: PairRow) -> None:
        self.pair, self.role, self.row = pair, role, row
        self.task, self.body = pair.id, pair.to_bytes()
        self.secrets: PairSecrets | None = None
        self.play: Play | None = None
        self.lock = asyncio.Lock()
        self.waits_for: str | None = None
        self.progress = (0, 0)
        self.stuck: str | None = None
        self.failed = False
        self.steps = 0
        self.pending: StepRow | None = None  # the leader's request that is not answered yet

    @property
    def server(self) -> int:
        """0 for the leader, 1 for the helper."""
        return 0 if self.role == "leader" else 1

    def drop_play(self) -> None:
        """Forget what is in memory only; it is rebuilt when it is needed."""
        self.play = self.pending = None

    def state(self, *, now: float, fault: str | None) -> dict[str, Any]:
        """Where the pair stands, for everybody; ready for JSON."""
        row, (done, total) = self.row, self.progress
        level = None if self.play is None or self.play.due is None else self.play.due.name
        return {
            "task": self.task.hex(), "kind": "pair", "experimental": True, "role": self.role, "name": row.name,
            "phase": row.phase, "confirmed": row.confirmed, "level": level, "received": row.received,
            "accepted": row.accepted, "refused": row.refused, "waits_for": self._waits(),
            "progress": done / total if total else None, "enrolment": row.enrolment, "deadline": row.deadline,
            "poll_after": 5 if row.ended else 1, "now": math.ceil(now), "fault": fault,
        }  # fmt: skip

    def _waits(self) -> str | None:
        if self.row.ended or self.role == "leader":
            return self.waits_for
        if not self.row.confirmed:
            return f"this server's operator to confirm: semilocal campaign confirm {self.task.hex()[:12]}"
        return f"the leader ({self.pair.leader.name})"

    def note_progress(self, done: int, total: int, fault: Fault | None) -> None:
        """How much of the level is evaluated, and which chunk cannot be."""
        self.progress = (done, total)
        self.stuck = None if fault is None else f"part {fault.chunk + 1} of {total} cannot be evaluated: {fault.why}"


def build_play(live: LivePair, tables: PairTables, workers: OwnWorkers, signing_secret: bytes) -> Play:
    """The play of a closed pair, at the point to which the stored steps lead."""
    secrets = live.secrets
    if secrets is None:
        raise InvalidInput("the secrets of this pair were deleted: it has ended")
    steps = tables.steps(live.task)
    if not steps or steps[0].step != CLOSE:
        raise InvalidInput("the pair is not closed yet")
    live.steps = len(steps)

    def wait(task: bytes, digest: bytes, count: int) -> None:
        workers.wait(task, digest, count, live.note_progress)

    def evaluator(bucket: int, ids: Sequence[bytes]) -> ChunkEvaluator:
        if len(ids) > MAX_TREE:
            raise InvalidInput(f"bucket {bucket} has {len(ids)} reports; a tree takes at most {MAX_TREE}")
        return ChunkEvaluator(tables, wait, live.pair, secrets, bucket, ids)

    closing = Closing.from_bytes(steps[0].request)
    play = Play(
        live.pair, live.role, members_of(live.pair, tables.ids(live.task), split_ids(closing.ids)),
        noise_secret=secrets.noise_secret(live.task), signing_secret=signing_secret, evaluator=evaluator,
    )  # fmt: skip
    play.replay(steps[1:])
    return play


def members_of(pair: PairTask, stored: Sequence[tuple[bytes, int]], ids: Sequence[bytes]) -> dict[int, list[bytes]]:
    """The reports that take part by bucket; refuses ids that are not stored.

    Parameters
    ----------
    stored : sequence of (bytes, int)
        Reports and their buckets, ascending.
    ids : sequence of bytes
        Those that take part, ascending.
    """
    members: dict[int, list[bytes]] = {} if pair.bucket_depth else {1: []}
    bucket_of = dict(stored)
    for report in ids:
        if report not in bucket_of:
            raise InvalidInput(f"report {report.hex()} takes part, but this server does not have it")
        members.setdefault(bucket_of[report], []).append(report)
    return members


# -- the reports of a tree as the server that counts sees them: it writes orders, and waits for results --------------


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
