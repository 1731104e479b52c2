"""Uploads on their way into the database: the leader opens its envelope, so that a bad one is refused at the door.

Runs in the writer's thread, a batch at a time. Knows envelopes and the tables. Knows no HTTP or clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...errors import InvalidInput
from ...sharing.envelope import open_envelope
from ...sharing.wire import Upload
from ..campaign import token_hash
from ..stores.base import Applied, Outcome
from ..stores.pairs import NOT_OPEN, PairTables, UploadRow
from .keys import PairSecrets
from .live import LivePair

__all__ = ["REASONS", "IncomingUpload", "UploadStore"]

REASONS = {
    "bad-upload": "the leader's envelope does not open: it was sealed for another key, pair, report or public part",
    "not-open-yet": "uploads begin when both operators have confirmed the pair",
    "uploads-closed": "uploads are closed; this one was not stored before",
}


class IncomingUpload(NamedTuple):
    """An upload with the sizes of its pair; ``digest`` is of its bytes."""

    live: LivePair
    upload: Upload
    digest: bytes

    @property
    def task(self) -> bytes:
        """The pair."""
        return self.live.task


class UploadStore:
    """Where a writer puts uploads.

    Parameters
    ----------
    tables : PairTables
    """

    def __init__(self, tables: PairTables) -> None:
        self._tables = tables

    def apply(self, batch: Sequence[IncomingUpload]) -> Applied:
        """Open and store a batch."""
        outcomes: list[Outcome] = ["bad-upload"] * len(batch)
        groups: dict[bytes, list[tuple[int, UploadRow]]] = {}
        for place, (live, upload, digest) in enumerate(batch):
            if live.secrets is None:
                outcomes[place] = NOT_OPEN[live.row.phase]
            elif (row := _opened(live, live.secrets, upload, digest)) is not None:
                groups.setdefault(live.task, []).append((place, row))
        full = set()
        for task, rows in groups.items():
            found, is_full = self._tables.add(task, [row for _, row in rows])
            for (place, _), outcome in zip(rows, found, strict=True):
                outcomes[place] = outcome
            if is_full:
                full.add(task)
        return Applied(outcomes, full)


def _opened(live: LivePair, secrets: PairSecrets, upload: Upload, digest: bytes) -> UploadRow | None:
    """An upload as it is stored; None if the leader's envelope does not open."""
    try:
        private = open_envelope(
            upload.leader_envelope, secrets.opening_key, role="leader", task=live.task, report=upload.id,
            public=upload.public,
        )  # fmt: skip
    except InvalidInput:
        return None
    token = None if upload.token is None else token_hash(upload.token)
    masked = secrets.masked(private, upload.id)
    return UploadRow(upload.id, upload.bucket, digest, upload.public, masked, upload.helper_envelope, token)
