"""The transcript: every message in order, one hash that stands for all of them, and proofs against that hash.

The root is the Merkle tree hash of RFC 6962 (SHA-256) over the canonical bytes of the events:
the task; then for each round the query, the reports by ascending pseudonym, and the closing; if values are asked for,
the plan stands before the first value query.

    proof         convinces a holder of the root(s) that
    inclusion     an event is at a given place of the transcript
    consistency   a later transcript begins with all events of an earlier one

Knows bytes and hashes. Knows no files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from ..errors import InvalidInput
from ..protocol.messages import Message, encode

__all__ = [
    "MerkleLog", "SavedLog", "check_consistency", "check_inclusion", "consistency_proof", "inclusion_proof",
    "leaf_hash", "merkle_root", "node_hash", "transcript_root",
]  # fmt: skip

DIGEST = 32


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


# -- proofs ------------------------------------------------------------------------------------------------------


def inclusion_proof(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """Hashes beside the path from leaf ``index`` to the root, from the bottom up (RFC 6962, 2.1.1).

    Parameters
    ----------
    leaves : sequence of bytes
        Leaf hashes of the whole transcript.
    index : int
        From 0.

    Examples
    --------
    >>> leaves = [leaf_hash(data) for data in (b"a", b"b", b"c")]
    >>> proof = inclusion_proof(leaves, 1)
    >>> check_inclusion(leaves[1], 1, size=3, proof=proof, root=merkle_root(leaves))
    True
    """
    if not 0 <= index < len(leaves):
        raise InvalidInput(f"index must be from 0 to {len(leaves) - 1}; got {index}")
    level, proof = list(leaves), []
    while len(level) > 1:
        beside = index ^ 1
        if beside < len(level):
            proof.append(level[beside])
        level, index = _pair(level), index >> 1
    return tuple(proof)


def check_inclusion(leaf: bytes, index: int, *, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether the proof shows that a leaf hash is leaf ``index`` of the ``size`` leaves under the root."""
    if not 0 <= index < size or any(len(beside) != DIGEST for beside in proof):
        return False
    node, last, steps = leaf, size - 1, iter(proof)
    while last:
        if index & 1 or index < last:
            beside = next(steps, None)
            if beside is None:
                return False
            node = node_hash(beside, node) if index & 1 else node_hash(node, beside)
        index, last = index >> 1, last >> 1
    return next(steps, None) is None and node == root


def consistency_proof(leaves: Sequence[bytes], old: int) -> tuple[bytes, ...]:
    """Hashes that link the root of the first ``old`` leaves with the root of all (RFC 6962, 2.1.2).

    Empty for ``old`` of 0 and for all leaves.
    """
    if not 0 <= old <= len(leaves):
        raise InvalidInput(f"old must be from 0 to {len(leaves)}; got {old}")
    if old in (0, len(leaves)):
        return ()
    level, last, proof = list(leaves), old - 1, []
    while last & 1:  # climb to the largest subtree that ends where the old transcript ended
        level, last = _pair(level), last >> 1
    if last:
        proof.append(level[last])
    while len(level) > 1:
        if last & 1:
            proof.append(level[last - 1])
        elif last + 1 < len(level):
            proof.append(level[last + 1])
        level, last = _pair(level), last >> 1
    return tuple(proof)


def check_consistency(old_root: bytes, new_root: bytes, *, old: int, size: int, proof: Sequence[bytes]) -> bool:
    """Whether the proof shows that the transcript of ``size`` events begins with the ``old`` events of the other.

    Parameters
    ----------
    old_root, new_root : bytes
        The roots of two checkpoints.
    old, size : int
        Their sizes.
    proof : sequence of bytes
    """
    if not 0 <= old <= size or any(len(node) != DIGEST for node in proof):
        return False
    if old == 0:
        return not proof and old_root == hashlib.sha256().digest()
    if old == size:
        return not proof and old_root == new_root
    last, end = old - 1, size - 1
    while last & 1:
        last, end = last >> 1, end >> 1
    steps = iter(proof)
    start: bytes | None = next(steps, None) if last else old_root
    if start is None:
        return False
    before = after = start
    while end:
        if last & 1 or last < end:
            node = next(steps, None)
            if node is None:
                return False
            if last & 1:
                before, after = node_hash(node, before), node_hash(node, after)
            else:
                after = node_hash(after, node)
        last, end = last >> 1, end >> 1
    return next(steps, None) is None and before == old_root and after == new_root


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
