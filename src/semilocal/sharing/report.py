"""One device's report: where it is and its value, in two shares. Plain Python, one report at a time.

:func:`shard` is what a device runs, and what the vectorised code is compared with. It is written from
``spec/sharing.md`` with integers of 128 bits and shares no arithmetic with :mod:`semilocal.sharing.point`.

    public part     corrections of the tree over places, then of the tree over the value's bits (if there is a value)
    private part b  seed of the place tree, then seed of the value tree (if there is a value): for server b only

Knows the bytes of a report. Knows no server, clock, file or random generator: entropy is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..errors import InvalidInput
from .point import BLOCK, MAX_LEVELS, KeyName, TreeName, ciphers, correction_bytes, root_state

SEED = BLOCK
MAX_VALUE_BITS = 10  # both servers look at every value: 2^10 leaves per report
_WORD = (1 << 64) - 1


class Shape(NamedTuple):
    """The public sizes of all reports of a task."""

    levels: int  # depth of the tree over places, 1 to 40
    value_bits: int = 0  # bits of the value; 0: no value

    @property
    def width(self) -> int:
        """Payload words of the tree over places."""
        return 2 if self.value_bits else 1

    @property
    def public_bytes(self) -> int:
        """Length of the public part.

        Examples
        --------
        >>> Shape(40).public_bytes, Shape(24).public_bytes, Shape(40, 8).public_bytes
        (2245, 1347, 3014)
        """
        extra = correction_bytes(self.value_bits, 1) if self.value_bits else 0
        return correction_bytes(self.levels, self.width) + extra

    @property
    def private_bytes(self) -> int:
        """Length of each private part."""
        return SEED * (2 if self.value_bits else 1)

    def check(self) -> None:
        """Refuse sizes that no task may have."""
        if not 1 <= self.levels <= MAX_LEVELS:
            raise InvalidInput(f"levels must be from 1 to {MAX_LEVELS}; got {self.levels}")
        if not 0 <= self.value_bits <= MAX_VALUE_BITS:
            raise InvalidInput(f"value_bits must be from 0 to {MAX_VALUE_BITS}; got {self.value_bits}")


class SharedReport(NamedTuple):
    """What a device makes: the report's id, the public part, and one private part per server."""

    nonce: bytes
    public: bytes
    private: tuple[bytes, bytes]


class ScalarTree:
    """The hashes of one tree and the corrections along one path, with integers of 128 bits."""

    def __init__(self, task: bytes, tree: TreeName, nonce: bytes) -> None:
        self._task, self._tree, self._nonce = task, tree, nonce
        self._ciphers = ciphers(task, tree)

    def roots(self, seeds: tuple[bytes, bytes]) -> list[int]:
        """Both servers' states of the root."""
        raw = [int.from_bytes(root_state(self._task, self._tree, self._nonce, seed), "little") for seed in seeds]
        return [raw[0] & ~1, raw[1] | 1]

    def hash(self, name: KeyName, block: int) -> int:
        """``AES(k, x) xor x``; a block is a little-endian integer."""
        data = self._ciphers[name].update(block.to_bytes(BLOCK, "little"))
        return int.from_bytes(data, "little") ^ block

    def corrections(self, path: Sequence[int], payload: Sequence[int], seeds: tuple[bytes, bytes]) -> bytes:
        """The public bytes of one point function."""
        states = self.roots(seeds)
        right_bits, body = 0, bytearray()
        for level, kept in enumerate(path):
            raw = [(self.hash("child-0", state), self.hash("child-1", state)) for state in states]
            lost = 1 - kept
            seed = (raw[0][lost] ^ raw[1][lost]) & ~1
            bits = [(raw[0][side] ^ raw[1][side] ^ (1 if side == kept else 0)) & 1 for side in (0, 1)]
            states = [raw[b][kept] ^ (seed | bits[kept] if states[b] & 1 else 0) for b in (0, 1)]
            right_bits |= bits[1] << level
            body += (seed | bits[0]).to_bytes(BLOCK, "little")
            words = [self.hash("payload", state) for state in states]
            for place, value in enumerate(payload):
                difference = value - (words[0] >> 64 * place & _WORD) + (words[1] >> 64 * place & _WORD)
                body += ((difference if states[0] & 1 else -difference) & _WORD).to_bytes(8, "little")
            for letter in ("a", "b"):
                name: KeyName = f"proof-{kept}{letter}"  # type: ignore[assignment]
                body += (self.hash(name, states[0]) ^ self.hash(name, states[1])).to_bytes(BLOCK, "little")
        return right_bits.to_bytes(-(-len(path) // 8), "little") + bytes(body)


def shard(
    task: bytes, nonce: bytes, shape: Shape, path: Sequence[int], entropy: bytes, *, value: int | None = None
) -> SharedReport:
    """A report for one person.

    ``path`` says which child at each of ``shape.levels`` depths, 0 or 1; ``value`` is below ``2^value_bits``, and is
    needed exactly if the shape has one. ``entropy`` is uniform, ``2 * shape.private_bytes``, and used for nothing else.
    """
    shape.check()
    if len(path) != shape.levels or any(step not in (0, 1) for step in path):
        raise InvalidInput(f"a path has {shape.levels} steps, each 0 or 1; got {len(path)} steps")
    if len(entropy) != 2 * shape.private_bytes:
        raise InvalidInput(f"entropy must have {2 * shape.private_bytes} bytes; got {len(entropy)}")
    if (value is None) != (shape.value_bits == 0):
        raise InvalidInput("give a value exactly if the task asks for one")
    parts = (entropy[: shape.private_bytes], entropy[shape.private_bytes :])
    place = ScalarTree(task, b"place", nonce)
    if value is None:
        return SharedReport(nonce, place.corrections(path, (1,), parts), parts)
    if not 0 <= value < 1 << shape.value_bits:
        raise InvalidInput(f"value must be from 0 to {(1 << shape.value_bits) - 1}; got {value}")
    bits = [value >> shift & 1 for shift in reversed(range(shape.value_bits))]
    public = place.corrections(path, (1, value), (parts[0][:SEED], parts[1][:SEED]))
    public += ScalarTree(task, b"value", nonce).corrections(bits, (1,), (parts[0][SEED:], parts[1][SEED:]))
    return SharedReport(nonce, public, parts)
