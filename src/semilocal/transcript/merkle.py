"""The transcript: every message in order, and one hash that stands for all of them.

The root is the Merkle tree hash of RFC 6962 (SHA-256) over the canonical bytes of the events:
the task; then for each round the query, the reports by ascending pseudonym, and the closing; if values are asked for,
the plan stands before the first value query.

Knows bytes and hashes. Knows no files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from ..protocol.messages import Message, encode

__all__ = ["MerkleLog", "merkle_root", "transcript_root"]


class MerkleLog:
    """A growing list of events, given by their bytes, that keeps one hash per set bit of its size.

    Its state fits into a column of a database, to go on later.

    Examples
    --------
    >>> log = MerkleLog([b"a", b"b", b"c"])
    >>> again = MerkleLog.from_bytes(log.to_bytes())
    >>> again.add([b"d"])
    >>> again.size, again.root() == merkle_root([b"a", b"b", b"c", b"d"])
    (4, True)
    """

    def __init__(self, events: Iterable[bytes] = ()) -> None:
        self.size = 0
        self._peaks: list[bytes | None] = []  # root of the perfect subtree of 2**i leaves, where bit i of size is set
        self.add(events)

    def add(self, events: Iterable[bytes]) -> None:
        """Add events: one hash each, and half as many per level above."""
        sha256 = hashlib.sha256
        carry, height = [sha256(b"\x00" + event).digest() for event in events], 0
        self.size += len(carry)
        while carry:
            if height == len(self._peaks):
                self._peaks.append(None)
            peak = self._peaks[height]
            if peak is not None:
                carry.insert(0, peak)
            self._peaks[height] = carry.pop() if len(carry) % 2 else None
            carry = [sha256(b"\x01" + a + b).digest() for a, b in zip(carry[::2], carry[1::2], strict=True)]
            height += 1

    def root(self) -> bytes:
        """Merkle tree hash of all events so far (32 bytes); the hash of nothing for none."""
        node: bytes | None = None
        for peak in self._peaks:
            if peak is not None:
                node = peak if node is None else hashlib.sha256(b"\x01" + peak + node).digest()
        return hashlib.sha256().digest() if node is None else node

    def to_bytes(self) -> bytes:
        """The state."""
        return msgspec.msgpack.encode([self.size, self._peaks])

    @classmethod
    def from_bytes(cls, data: bytes) -> MerkleLog:
        """The log that ``to_bytes`` wrote."""
        log = cls()
        log.size, log._peaks = msgspec.msgpack.decode(data, type=tuple[int, list[bytes | None]])
        return log


def merkle_root(events: Iterable[bytes]) -> bytes:
    """The root over the bytes of events (32 bytes).

    Examples
    --------
    >>> merkle_root([]).hex()[:8]
    'e3b0c442'
    """
    return MerkleLog(events).root()


def transcript_root(events: Iterable[Message]) -> bytes:
    """The root over all events (32 bytes)."""
    return merkle_root(map(encode, events))
