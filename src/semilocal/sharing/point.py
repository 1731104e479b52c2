"""An incremental point function in two shares: keys for many devices, and one level for many reports at once.

A device's path runs from the root to the deepest cell of its position. At every node of the tree each server has a
*state* of 16 bytes whose lowest bit is the *control bit*.

    off the path   both servers have the same state: everything they derive from it cancels
    on the path    the states look random and their control bits differ: the correction of the level applies once

From a state follow two raw children, ``G_child-0`` and ``G_child-1``. The server whose control bit is set xors the
level's correction on them. Words ``G_payload(state) + t * correction`` add up, server 0 minus server 1, to the payload
on the path and to zero everywhere else. ``G_proof-side`` (32 bytes, xor the level's proof where t is set) is equal on
both servers at every node; see :mod:`semilocal.sharing.verify`.

The construction is an incremental distributed point function (Boneh, Boyle, Corrigan-Gibbs, Gilboa and Ishai, 2021),
with node proofs as in verifiable point functions (de Castro and Polychroniadou, 2022), folded per side.

``G_j(x) = AES(k_j, x) xor x`` with keys that follow from the task and the tree. The state of the root is a hash of the
seed with the task, the tree and the report's id (the *nonce*): under another id a seed is worth nothing. A block is two
little-endian words: ``uint64[..., 2]``.

Shapes: n reports, m cells, w payload words (1: a count; 2: a count and a value). All words are modulo 2^64.
Knows AES and arrays. Knows no server, clock, file or random generator: seeds are arguments.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from ..arrays import Words
from ..errors import InvalidInput, MissingExtra

try:
    from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
except ImportError:  # pragma: no cover - the extra is there in the tests
    raise MissingExtra("cryptography", "service") from None

Blocks = npt.NDArray[np.uint64]
TreeName = Literal[b"place", b"value"]
KeyName = Literal["child-0", "child-1", "payload", "proof-0a", "proof-0b", "proof-1a", "proof-1b"]
KEY_NAMES: tuple[KeyName, ...] = get_args(KeyName)
BLOCK = 16
NONCE = 16  # bytes of a report's id
MAX_LEVELS = 40
PROOF_WORDS = 4
SLACK = BLOCK // 8  # words: ``update_into`` wants room for one block more than it writes
_LABEL = b"semilocal/2/sharing/"
_ONE = np.uint64(1)
_EVEN = ~_ONE
_CHILDREN: tuple[KeyName, KeyName] = ("child-0", "child-1")


def root_state(task: bytes, tree: TreeName, nonce: bytes, seed: bytes) -> bytes:
    """The state of a root before its control bit is set: 16 bytes of a hash of task, tree, report's id and seed."""
    if len(nonce) != NONCE:
        raise InvalidInput(f"a report's id has {NONCE} bytes; got {len(nonce)}")
    return hashlib.sha256(_LABEL + task + tree + b"/root" + nonce + seed).digest()[:BLOCK]


def ciphers(task: bytes, tree: TreeName) -> dict[KeyName, CipherContext]:
    """AES with each of the seven keys of one tree; a key is 16 bytes of a hash of task, tree and name."""
    if len(task) != 32:
        raise InvalidInput(f"a task's id has 32 bytes; got {len(task)}")
    label = _LABEL + task + tree + b"/"
    keys = {name: hashlib.sha256(label + name.encode()).digest()[:BLOCK] for name in KEY_NAMES}
    return {name: Cipher(algorithms.AES(key), modes.ECB()).encryptor() for name, key in keys.items()}


class FixedKeys:
    """The seven hash functions of one tree."""

    def __init__(self, task: bytes, tree: TreeName = b"place") -> None:
        if sys.byteorder != "little":  # pragma: no cover - no such machine here
            raise InvalidInput("sharing needs a little-endian machine")
        self._ciphers = ciphers(task, tree)

    def encrypt(self, name: KeyName, blocks: Blocks, room: Blocks | None = None) -> Blocks:
        """AES of every block, in the same shape.

        ``blocks`` must be contiguous. They are written into ``room``, at least ``SLACK`` words longer, or fresh memory.
        """
        if room is None:
            room = np.empty(blocks.size + SLACK, dtype=np.uint64)
        if blocks.size:
            self._ciphers[name].update_into(blocks.view(np.uint8).data, room.view(np.uint8).data)
        return room[: blocks.size].reshape(blocks.shape)


class Corrections(NamedTuple):
    """The public corrections of n reports: of one level, or of all with a first axis for the level."""

    seed: Blocks  # uint64[n, 2]: for the left child as it is; for the right child with ``right`` as its lowest bit
    right: Words  # uint64[n], 0 or 1
    payload: Words  # uint64[n, w]
    proof: Words  # uint64[n, 4]

    def at(self, place: int | slice | tuple[int, slice | npt.NDArray[np.intp]]) -> Corrections:
        """Those of one level, of some reports, or of both."""
        return Corrections(*(np.ascontiguousarray(part[place]) for part in self))

    @staticmethod
    def from_bytes(reports: list[bytes], *, levels: int, width: int) -> Corrections:
        """All levels. Per report: the right bits (level 0 is the lowest one), then per level seed, payload, proof."""
        size = correction_bytes(levels, width)
        wrong = set(map(len, reports)) - {size}
        if wrong:
            raise InvalidInput(f"the public part of a report with {levels} levels has {size} bytes; got {min(wrong)}")
        raw = np.frombuffer(b"".join(reports), dtype=np.uint8).reshape(len(reports), size)
        packed = -(-levels // 8)
        bits = np.unpackbits(raw[:, :packed], axis=1, bitorder="little")
        if bits[:, levels:].any():
            raise InvalidInput("the bits after the last level must be 0")
        words = np.ascontiguousarray(raw[:, packed:]).view("<u8").reshape(len(reports), levels, 2 + width + PROOF_WORDS)
        words = np.ascontiguousarray(words.transpose(1, 0, 2))
        right = bits[:, :levels].T.astype(np.uint64)
        return Corrections(words[:, :, :2], right, words[:, :, 2 : 2 + width], words[:, :, 2 + width :])


def correction_bytes(levels: int, width: int) -> int:
    """Bytes of one report's corrections."""
    return -(-levels // 8) + levels * (BLOCK + 8 * width + 8 * PROOF_WORDS)


def root_states(task: bytes, tree: TreeName, nonces: Sequence[bytes], seeds: Sequence[bytes], server: int) -> Blocks:
    """States of the roots of n reports: uint64[n, 2]; the lowest bit is the server's number."""
    joined = b"".join(root_state(task, tree, nonce, seed) for nonce, seed in zip(nonces, seeds, strict=True))
    states = np.frombuffer(joined, dtype="<u8").astype(np.uint64).reshape(len(nonces), 2)
    states[:, 0] = (states[:, 0] & _EVEN) | np.uint64(server)
    return states


class Side(NamedTuple):
    """What one server knows of all left, or of all right, children of m cells."""

    states: Blocks  # uint64[m, n, 2]
    words: Words  # uint64[m, n, w], payload words without the server's sign: server 0 minus server 1 is the payload
    proof: Words  # uint64[n, 4], xor of the proofs of these children


class Room:
    """Memory for some (cell, report) pairs that is used again and again: fresh memory costs more than AES."""

    def __init__(self, pairs: int) -> None:
        self.corrected, self.children, self.cipher, self.words = (
            np.empty(2 * pairs + SLACK, np.uint64) for _ in range(4)
        )


def sides(keys: FixedKeys, states: Blocks, correction: Corrections, room: Room) -> Iterator[Side]:
    """The left, then the right children of m cells with contiguous states uint64[m, n, 2].

    They lie in the room, which has space for m * n pairs: those of the left are gone when those of the right come.
    """
    corrected = _corrected(states, correction.seed, room)
    yield _side(keys, keys.encrypt("child-0", states, room.children), corrected, 0, correction, room)
    # The two corrections differ in the lowest bit only.
    corrected[..., 0] ^= states[..., 0] & ((correction.seed[:, 0] & _ONE) ^ correction.right)
    yield _side(keys, keys.encrypt("child-1", states, room.children), corrected, 1, correction, room)


def _side(keys: FixedKeys, children: Blocks, corrected: Blocks, side: int, correction: Corrections, room: Room) -> Side:
    children ^= corrected
    proof = _proof(keys, children, side, correction.proof, room)
    return Side(children, payloads(keys, children, correction.payload, room), proof)


def payloads(keys: FixedKeys, states: Blocks, correction: Words, room: Room) -> Words:
    """Payload words of nodes, without the server's sign: uint64[m, n, w], in the room.

    ``correction``, uint64[n, w], is of the level that led to these nodes.
    """
    m, n, width = *states.shape[:2], correction.shape[1]
    cipher = keys.encrypt("payload", states, room.cipher)
    words = _view(room.words, (m, n, width))
    for word in range(width):
        np.bitwise_xor(cipher[..., word], states[..., word], out=words[..., word])
    bits, product = _view(room.cipher, (2, m, n))
    np.bitwise_and(states[..., 0], _ONE, out=bits)
    for word in range(width):
        np.multiply(bits, correction[:, word], out=product)
        words[..., word] += product
    return words


def descend(
    keys: FixedKeys, states: Blocks, correction: Corrections, rows: npt.NDArray[np.int64], room: Room
) -> Blocks:
    """States of some children only, uint64[r, n, 2]: rows 2 i and 2 i + 1 are the left and the right one of cell i."""
    out = np.empty((len(rows), states.shape[1], 2), dtype=np.uint64)
    for side, name in enumerate(_CHILDREN):
        chosen = np.flatnonzero(rows % 2 == side)
        if len(chosen):
            above = states[rows[chosen] // 2]
            seed = correction.seed
            if side:
                seed = seed.copy()
                seed[:, 0] = (seed[:, 0] & _EVEN) | correction.right
            found = keys.encrypt(name, above, room.children)
            found ^= _corrected(above, seed, room)
            out[chosen] = found
    return out


def _corrected(states: Blocks, seed: Blocks, room: Room) -> Blocks:
    """``x xor (seed where t is set)`` of every state x: uint64[m, n, 2].

    Every step runs over whole rows of memory. A loop over the two words of a block would be many times slower.
    """
    out, bits = _view(room.corrected, states.shape), _view(room.cipher, states.shape)
    lowest = np.zeros_like(seed)
    lowest[:, 0] = _ONE
    np.bitwise_and(states, lowest, out=bits)  # t, 0, t, 0 ...
    flat, spread = bits.reshape(-1), out.reshape(-1)
    spread[:1] = flat[:1]
    np.bitwise_or(flat[1:], flat[:-1], out=spread[1:])  # t, t, t, t ...
    out *= seed
    out ^= states
    return out


def _proof(keys: FixedKeys, states: Blocks, side: int, proof: Words, room: Room) -> Words:
    """Xor over cells of ``hash(state) xor (t and proof)``: the parts are added up before they are combined."""
    own = np.bitwise_xor.reduce(states, axis=0)
    out = np.empty((states.shape[1], PROOF_WORDS), dtype=np.uint64)
    for half, letter in enumerate("ab"):
        part = keys.encrypt(f"proof-{side}{letter}", states, room.cipher)  # type: ignore[arg-type]
        out[:, 2 * half : 2 * half + 2] = np.bitwise_xor.reduce(part, axis=0) ^ own
    out ^= (np.uint64(0) - (own[:, :1] & _ONE)) & proof  # all ones where the lowest bit is set
    return out


def _view(room: Words, shape: tuple[int, ...]) -> Words:
    """The beginning of a flat array in another shape."""
    return room[: math.prod(shape)].reshape(shape)
