"""The transcript: every message in order, and one hash that stands for all of them.

The root is the Merkle tree hash of RFC 6962 (SHA-256) over the canonical bytes of the events:
the task; then for each round the query, the reports by ascending pseudonym, and the closing.

Knows bytes and hashes. Knows nothing of what the messages mean.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from .messages import Message, encode

__all__ = ["leaf_hash", "merkle_root", "transcript_root"]


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
        paired = [node_hash(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = paired + level[len(paired) * 2 :]
    return level[0]


def transcript_root(events: Iterable[Message]) -> bytes:
    """The root over all events (32 bytes)."""
    return merkle_root([leaf_hash(encode(event)) for event in events])
