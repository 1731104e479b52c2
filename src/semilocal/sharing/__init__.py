"""One person's position in two shares: a point function for two servers that do not collude.

Experimental: nobody independent has reviewed this code yet.

Each server alone sees random bytes. Together they can add up how many people are in each cell, level by level, and
check that every report stands for exactly one person in exactly one place. ``spec/sharing.md`` describes every byte,
PROOF.md says what is true and what is not shown. Needs ``pip install 'semilocal[service]'`` for AES and HPKE; what is
in this file needs neither.
"""

_PAIR_TASK = b"\xa4type\xabpair-task-2"  # after one byte with the number of fields
_SIGNED_TREE = b"signed-tree"  # after the bytes of an array and of a string


def is_pair_task(data: bytes) -> bool:
    """Whether bytes begin like those of a :class:`~semilocal.sharing.pair.PairTask`."""
    return data[1:].startswith(_PAIR_TASK)


def is_signed_tree(data: bytes) -> bool:
    """Whether bytes begin like those of a :class:`~semilocal.sharing.wire.SignedTree`, the transcript of a pair."""
    return data[2 : 2 + len(_SIGNED_TREE)] == _SIGNED_TREE
