"""The check of every report: two servers compare tags and learn nothing but which reports are invalid.

A report's tag at a level is (L, R, d): the xor of the proofs of all visited left children, the same for the right
children, and the payload of the opened cells minus that of their children. On an honest report both servers compute
the same tag, so exchanging it tells neither anything.

Why equal tags make a report worth exactly one person in one place (induction over levels): suppose that exactly one
opened cell differs between the servers and carries the payload (the root does, by definition). L and R compare exactly
its two children, because all others are equal and cancel. A child with equal control bits needs equal hashes, so equal
states (or a collision), and is worth zero. If both children had different control bits, both would need the proof of
the level, on different keys, which takes a collision that the device cannot steer. So at most one child differs, and
d says that it carries the whole payload. The state is hashed *with* its control bit and each side has its own key:
without either, attacks exist, and the tests show them.

Tags are compared in chunks: one digest for ``CHUNK`` reports; single tags only where a digest differs.
Knows tags. Knows no states, peers, clock or file.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput

__all__ = ["CHUNK", "chunks", "differing", "digests"]

CHUNK = 4096
Tags = npt.NDArray[np.uint8]


def chunks(reports: int) -> list[slice]:
    """The slices of reports that have one digest each."""
    return [slice(start, min(start + CHUNK, reports)) for start in range(0, reports, CHUNK)]


def digests(tags: Tags) -> list[bytes]:
    """SHA-256 of the tags of each chunk.

    Parameters
    ----------
    tags : uint8[n, b]
    """
    return [hashlib.sha256(np.ascontiguousarray(tags[part]).tobytes()).digest() for part in chunks(len(tags))]


def differing(own: Tags, other: Tags) -> npt.NDArray[np.bool_]:
    """Which reports have different tags: bool[n].

    Parameters
    ----------
    own, other : uint8[n, b]

    Raises
    ------
    InvalidInput
        If the shapes differ.
    """
    if own.shape != other.shape:
        raise InvalidInput(f"tags must have the shape {own.shape}; got {other.shape}")
    return np.asarray((own != other).any(axis=1))
