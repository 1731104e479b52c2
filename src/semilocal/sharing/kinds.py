"""Which bytes are about two servers, by how they begin; what they hold is checked elsewhere.

Knows the first bytes of two messages, and needs no cryptography.
"""

from __future__ import annotations

__all__ = ["is_pair_task", "is_signed_tree"]

_PAIR_TASK = b"\xa4type\xa9pair-task"  # after one byte with the number of fields
_SIGNED_TREE = b"signed-tree"  # after the bytes of an array and of a string


def is_pair_task(data: bytes) -> bool:
    """Whether bytes begin like those of a :class:`~semilocal.sharing.pair.PairTask`."""
    return data[1 : 1 + len(_PAIR_TASK)] == _PAIR_TASK


def is_signed_tree(data: bytes) -> bool:
    """Whether bytes begin like those of a :class:`~semilocal.sharing.wire.SignedTree`, the transcript of a pair."""
    return data[2 : 2 + len(_SIGNED_TREE)] == _SIGNED_TREE
