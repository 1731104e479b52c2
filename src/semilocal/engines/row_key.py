"""Noise of rows by their numbers: AES of row and cell under a key of the round, for whole batches at once.

Devices derive their noise by HMAC, one report at a time. For rows of a table that one program holds, a block cipher
does the same for whole batches: what a row draws depends on the key, the task, the round, its number and its cell
alone.

Needs the package ``cryptography``, loaded at first use. Knows keys and numbers. Knows no positions.
"""

from __future__ import annotations

import hashlib

import numpy as np

from ..arrays import Integers, Words
from ..errors import InvalidInput, MissingExtra
from ..hierarchy.base import Cells

__all__ = ["KEY_BYTES", "RowKey"]

KEY_BYTES = 32
_REPORT, _MOVE, _VALUE, _NAME = b"report", b"move", b"value", b"pseudonym"
_WORDS = 2  # of a block


class RowKey:
    """Entropy of rows in one task; see :class:`semilocal.simulation.entropy.Entropy`.

    Parameters
    ----------
    key : bytes
        32 bytes. Anyone who knows it can remove the noise: protect it, or throw it away, like the rows.
    task : bytes
        The task's id.

    Examples
    --------
    >>> noise = RowKey(bytes(32), bytes(32))
    >>> cells = np.array([1, 1], np.uint64)
    >>> words = noise.reports(np.array([0, 1]), 1, cells, 3)
    >>> words.shape, bool((words[1] == noise.reports(np.array([1]), 1, cells[:1], 3)[0]).all())
    ((2, 3), True)
    """

    def __init__(self, key: bytes, task: bytes) -> None:
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise InvalidInput(f"key must be {KEY_BYTES} bytes; got {type(key).__name__}")
        self._key, self._task = key, task

    def reports(self, who: Integers, round_: int, cells: Cells, words: int) -> Words:
        """Entropy of reports: uint64[m, words]."""
        return self._drawn(_REPORT, round_, who, cells, words)

    def moves(self, who: Integers, round_: int, cells: Cells) -> Words:
        """Entropy of places: uint64[m]."""
        return self._blocks(_MOVE, round_, 0, who, cells)[:, 0]

    def values(self, who: Integers, plan: bytes, index: int, cells: Cells, words: int) -> Words:
        """Entropy of values: uint64[m, words]; ``plan`` is the digest."""
        return self._drawn(_VALUE + plan, index, who, cells, words)

    def pseudonyms(self, who: Integers) -> list[bytes]:
        """Names of rows, 16 bytes each, in no order: where a file is sorted by place, its order tells the places."""
        names = self._blocks(_NAME, 0, 0, who, np.zeros(len(who), dtype=np.uint64)).astype(">u8").tobytes()
        return [names[start : start + 16] for start in range(0, len(names), 16)]

    def _drawn(self, label: bytes, round_: int, who: Integers, cells: Cells, words: int) -> Words:
        """As many blocks as the words need: uint64[m, words]; none where there is nothing to choose."""
        parts = [self._blocks(label, round_, part, who, cells) for part in range(-(-words // _WORDS))]
        return np.concatenate([np.empty((len(who), 0), dtype=np.uint64), *parts], axis=1)[:, :words]

    def _blocks(self, label: bytes, round_: int, part: int, who: Integers, cells: Cells) -> Words:
        """One encrypted block per row: uint64[m, 2]."""
        try:
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        except ImportError:
            raise MissingExtra("cryptography", "device") from None
        named = b"semilocal/1/row-key/" + label + round_.to_bytes(4, "big") + part.to_bytes(4, "big")
        own = hashlib.sha256(self._key + self._task + named).digest()
        blocks = np.empty((len(who), _WORDS), dtype=">u8")
        blocks[:, 0], blocks[:, 1] = who, cells
        sealed = Cipher(algorithms.AES(own), modes.ECB()).encryptor().update(blocks.tobytes())
        return np.frombuffer(sealed, dtype=">u8").astype(np.uint64).reshape(-1, _WORDS)
