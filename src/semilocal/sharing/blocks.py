"""Hashing of 16-byte blocks with fixed AES keys, for a whole array at once.

``G_j(x) = AES(k_j, x) xor x``. The keys follow from the task, so both servers and every device have the same ones.
A block is two little-endian words: ``uint64[..., 2]``. Its lowest bit is the control bit of a node's state.

Knows AES and arrays. Knows no reports, server, clock or file.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, MissingExtra

try:
    from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
except ImportError:  # pragma: no cover - the extra is there in the tests
    raise MissingExtra("cryptography", "service") from None

__all__ = ["BLOCK", "KEY_NAMES", "SLACK", "Blocks", "FixedKeys", "KeyName", "ciphers", "fixed_key"]

Blocks = npt.NDArray[np.uint64]
KeyName = Literal["child-0", "child-1", "payload", "proof-0a", "proof-0b", "proof-1a", "proof-1b"]
KEY_NAMES: tuple[KeyName, ...] = get_args(KeyName)
BLOCK = 16
_LABEL = b"semilocal/1/sharing/"
SLACK = BLOCK // 8  # words: ``update_into`` wants room for one block more than it writes


def fixed_key(task: bytes, tree: bytes, name: KeyName) -> bytes:
    """The AES-128 key with this name: the first 16 bytes of SHA-256(label, task, tree, name).

    Parameters
    ----------
    task : bytes
        The task's id, 32 bytes.
    tree : bytes
        b"place" for the tree over positions, b"value" for the tree over the bits of a value.

    Examples
    --------
    >>> fixed_key(bytes(32), b"place", "child-0").hex()
    '4d48e951e5ea594e523ed1d1548c6885'
    """
    if len(task) != 32:
        raise InvalidInput(f"a task's id has 32 bytes; got {len(task)}")
    return hashlib.sha256(_LABEL + task + tree + b"/" + name.encode()).digest()[:BLOCK]


def ciphers(task: bytes, tree: bytes) -> dict[KeyName, CipherContext]:
    """AES with each of the seven keys of one tree, block by block."""
    return {name: Cipher(algorithms.AES(fixed_key(task, tree, name)), modes.ECB()).encryptor() for name in KEY_NAMES}


class FixedKeys:
    """The seven hash functions of one tree.

    Parameters
    ----------
    task : bytes
        The task's id, 32 bytes.
    tree : bytes
        b"place" or b"value".
    """

    def __init__(self, task: bytes, tree: bytes = b"place") -> None:
        if sys.byteorder != "little":  # pragma: no cover - no such machine here
            raise InvalidInput("sharing needs a little-endian machine")
        self._ciphers = ciphers(task, tree)

    def encrypt(self, name: KeyName, blocks: Blocks, room: Blocks | None = None) -> Blocks:
        """AES of every block: the same shape. ``blocks`` must be contiguous.

        Parameters
        ----------
        room : uint64[r], optional
            Where to write, at least ``SLACK`` words longer than the blocks; else into fresh memory.
        """
        if room is None:
            room = np.empty(blocks.size + SLACK, dtype=np.uint64)
        if blocks.size:
            self._ciphers[name].update_into(blocks.view(np.uint8).data, room.view(np.uint8).data)
        return room[: blocks.size].reshape(blocks.shape)

    def hash(self, name: KeyName, blocks: Blocks) -> Blocks:
        """``AES(k, x) xor x`` of every block: the same shape.

        Examples
        --------
        >>> keys = FixedKeys(bytes(32))
        >>> keys.hash("child-0", np.zeros((1, 2), dtype=np.uint64)).tobytes().hex()
        '20b534c1ef430d3e87e0c10e3e1c08a5'
        """
        out = self.encrypt(name, blocks)
        out ^= blocks
        return out
