"""The transcript: every message in order, and one hash that stands for all of them.

The root is the Merkle tree hash of RFC 6962 (SHA-256) over the canonical bytes of the events:
the task; then for each round the query, the reports by ascending pseudonym, and the closing; if values are asked for,
the plan stands before the first value query.

Knows bytes and hashes. Knows no files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from ..protocol.messages import Message, encode

__all__ = ["MerkleLog", "SavedLog", "leaf_hash", "merkle_root", "node_hash", "transcript_root"]


def leaf_hash(data: bytes) -> bytes:
    """Hash of one leaf."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Merkle tree hash of leaf hashes; the hash of nothing for no leaves.

    Level by level: an odd node at the end moves up unchanged, which is RFC 6962's tree.

    Examples
    --------
    >>> merkle_root([]).hex()[:8]
    'e3b0c442'
    """
    level = list(leaves)
    if not level:
        return hashlib.sha256().digest()
    while len(level) > 1:
        level = _pair(level)
    return level[0]


def transcript_root(events: Iterable[Message]) -> bytes:
    """The root over all events (32 bytes)."""
    return merkle_root([leaf_hash(encode(event)) for event in events])


def _pair(level: list[bytes]) -> list[bytes]:
    """The next level: hashes of neighbours, and an odd one unchanged."""
    sha256 = hashlib.sha256
    left = level[0 : len(level) & ~1 : 2]
    paired = [sha256(b"\x01" + a + b).digest() for a, b in zip(left, level[1::2], strict=True)]
    return paired + level[len(paired) * 2 :]


class MerkleLog:
    """A growing list of leaves that keeps one hash per set bit of its size, and gives the root at any moment.

    Examples
    --------
    >>> log = MerkleLog()
    >>> log.extend([leaf_hash(b"a"), leaf_hash(b"b"), leaf_hash(b"c")])
    >>> log.root() == merkle_root([leaf_hash(data) for data in (b"a", b"b", b"c")])
    True
    """

    def __init__(self) -> None:
        self.size = 0
        self._peaks: list[bytes | None] = []  # root of the perfect subtree of 2**i leaves, where bit i of size is set

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Add leaf hashes: one hash per leaf and half as many per level above."""
        self.size += len(leaves)
        carry, height = list(leaves), 0
        while carry:
            if height == len(self._peaks):
                self._peaks.append(None)
            peak = self._peaks[height]
            if peak is not None:
                carry.insert(0, peak)
            self._peaks[height] = carry.pop() if len(carry) % 2 else None
            carry, height = _pair(carry), height + 1

    def root(self) -> bytes:
        """Merkle tree hash of all leaves so far (32 bytes)."""
        node: bytes | None = None
        for peak in self._peaks:
            if peak is not None:
                node = peak if node is None else node_hash(peak, node)
        return hashlib.sha256().digest() if node is None else node


# -- the transcript's Merkle tree between two transactions: a log that can be saved and continued --------------------


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
