"""The transcript's Merkle tree, one leaf at a time.

Keeps the roots of the perfect subtrees to the left of the next leaf: one hash per set bit of the number of leaves, so
that a checkpoint over millions of reports takes a few hundred bytes. Gives the root of
:func:`semilocal.protocol.transcript.merkle_root`.

Knows hashes. Knows no messages, files or databases.
"""

from __future__ import annotations

import hashlib

import msgspec

from ..protocol.transcript import leaf_hash, node_hash

__all__ = ["MerkleFold"]


class MerkleFold:
    """A growing list of leaves.

    Examples
    --------
    >>> from semilocal.protocol.transcript import merkle_root
    >>> fold = MerkleFold()
    >>> for data in (b"a", b"b", b"c"):
    ...     fold.append(data)
    >>> fold.root() == merkle_root([leaf_hash(data) for data in (b"a", b"b", b"c")])
    True
    """

    def __init__(self, size: int = 0, peaks: tuple[bytes, ...] = ()) -> None:
        self.size = size
        self._peaks = list(peaks)

    def append(self, data: bytes) -> None:
        """Add one leaf, given its bytes."""
        node = leaf_hash(data)
        size = self.size
        while size & 1:
            node = node_hash(self._peaks.pop(), node)
            size >>= 1
        self._peaks.append(node)
        self.size += 1

    def root(self) -> bytes:
        """Root over all leaves so far (32 bytes)."""
        if not self._peaks:
            return hashlib.sha256().digest()
        node = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            node = node_hash(peak, node)
        return node

    def to_bytes(self) -> bytes:
        """The state, to go on later."""
        return msgspec.msgpack.encode([self.size, self._peaks])

    @classmethod
    def from_bytes(cls, data: bytes) -> MerkleFold:
        """The fold that ``to_bytes`` wrote."""
        size, peaks = msgspec.msgpack.decode(data, type=tuple[int, tuple[bytes, ...]])
        return cls(size, peaks)
