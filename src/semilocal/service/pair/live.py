"""What a server keeps in memory about a pair, and how it is read back from the database.

The database is the truth: :func:`build_play` comes back to the same point after a crash, from the closed set and the
stored steps. Methods here block; callers run them in threads.

Knows the tables, secrets and workers. Knows no HTTP or clock.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

from ...errors import InvalidInput
from ...sharing.envelope import Role
from ...sharing.pair import PairTask
from ...sharing.wire import MAX_TREE, Closing, split_ids
from ..stores.chunks import Fault
from ..stores.pairs import PairRow, PairTables, StepRow
from .evaluator import ChunkEvaluator
from .keys import PairSecrets
from .play import Play
from .work import OwnWorkers

__all__ = ["CLOSE", "HELPER_ANSWERS", "LivePair", "build_play"]

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
