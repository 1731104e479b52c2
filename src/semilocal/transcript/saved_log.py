"""The transcript's Merkle tree between two transactions: a log that can be saved and continued.

Keeps one hash per set bit of the number of leaves, so a checkpoint over millions of reports takes a few hundred bytes.
Knows hashes. Knows no messages, files or databases.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from .merkle import MerkleLog, leaf_hash

__all__ = ["SavedLog"]


class SavedLog(MerkleLog):
    """A ``MerkleLog`` of events given by their bytes, with a state that fits into a column.

    Examples
    --------
    >>> log = SavedLog()
    >>> log.add([b"a", b"b", b"c"])
    >>> again = SavedLog.from_bytes(log.to_bytes())
    >>> again.add([b"d"])
    >>> again.size, again.root() == SavedLog.of([b"a", b"b", b"c", b"d"]).root()
    (4, True)
    """

    @classmethod
    def of(cls, events: Iterable[bytes]) -> SavedLog:
        """A log of these events."""
        log = cls()
        log.add(events)
        return log

    def add(self, events: Iterable[bytes]) -> None:
        """Add events."""
        self.extend([leaf_hash(event) for event in events])

    def to_bytes(self) -> bytes:
        """The state, to go on later."""
        return msgspec.msgpack.encode([self.size, self._peaks])

    @classmethod
    def from_bytes(cls, data: bytes) -> SavedLog:
        """The log that ``to_bytes`` wrote."""
        log = cls()
        log.size, log._peaks = msgspec.msgpack.decode(data, type=tuple[int, list[bytes | None]])
        return log
