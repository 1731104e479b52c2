"""An evaluator of shared reports written from spec/sharing.md alone: plain Python, its own AES, no other library.

Slow and simple on purpose. It is compared with the package on every vector of ``spec/vectors/sharing.json``.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import NamedTuple

WORD = (1 << 64) - 1


# -- AES-128 (FIPS 197) ----------------------------------------------------------------------------------------------


def _times(a: int, b: int) -> int:
    """Product in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1."""
    out = 0
    while b:
        if b & 1:
            out ^= a
        a = a << 1 ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return out


def _inverse(a: int) -> int:
    """What gives 1 with ``a``, which is a^254; 0 for 0."""
    out = 1
    for _ in range(7):
        a = _times(a, a)
        out = _times(out, a)
    return out


def _substitution() -> list[int]:
    out = []
    for byte in range(256):
        rotated = value = _inverse(byte)
        for shift in range(1, 5):
            rotated ^= (value << shift | value >> (8 - shift)) & 0xFF
        out.append(rotated ^ 0x63)
    return out


_S = _substitution()
# What a byte in each row adds to its mixed column, the first row lowest, after it is substituted.
_MIXED = [
    [sum(_times(_S[byte], (2, 1, 1, 3)[(place - row) % 4]) << 8 * place for place in range(4)) for byte in range(256)]
    for row in range(4)
]


class Aes:
    """Encryption of single blocks under one key of 16 bytes."""

    def __init__(self, key: bytes) -> None:
        words = [list(key[i : i + 4]) for i in range(0, 16, 4)]
        constant = 1
        for i in range(4, 44):
            word = words[i - 1]
            if i % 4 == 0:
                word = [_S[b] for b in word[1:] + word[:1]]
                word[0] ^= constant
                constant = _times(constant, 2)
            words.append([a ^ b for a, b in zip(words[i - 4], word, strict=True)])
        flat = bytes(byte for word in words for byte in word)
        self.keys = [int.from_bytes(flat[i : i + 16], "little") for i in range(0, 176, 16)]

    def __call__(self, block: bytes) -> bytes:
        first, second, third, fourth = _MIXED
        state = int.from_bytes(block, "little") ^ self.keys[0]
        for key in self.keys[1:10]:
            s = state.to_bytes(16, "little")
            state = key
            for c in (0, 4, 8, 12):
                mixed = first[s[c]] ^ second[s[c - 11]] ^ third[s[c - 6]] ^ fourth[s[c - 1]]
                state ^= mixed << 8 * c
        s = state.to_bytes(16, "little")
        last = bytes(_S[s[(i + 4 * (i % 4)) % 16]] for i in range(16))
        return (int.from_bytes(last, "little") ^ self.keys[10]).to_bytes(16, "little")


# -- one server's view of one report ---------------------------------------------------------------------------------


class Level(NamedTuple):
    """Children of the opened cells: path of steps -> (state, payload words), and the tag of the level."""

    nodes: dict[tuple[int, ...], tuple[int, tuple[int, ...]]]
    tag: bytes


class Tree:
    """One point function, seen by one server."""

    def __init__(
        self, task: bytes, tree: bytes, nonce: bytes, levels: int, width: int, server: int, seed: bytes, data: bytes
    ):
        names = ("child-0", "child-1", "payload", "proof-0a", "proof-0b", "proof-1a", "proof-1b")
        label = b"semilocal/2/sharing/" + task + tree + b"/"
        self.ciphers = {name: Aes(hashlib.sha256(label + name.encode()).digest()[:16]) for name in names}
        self.levels, self.width, self.server = levels, width, server
        root = hashlib.sha256(label + b"root" + nonce + seed).digest()[:16]
        self.root = int.from_bytes(root, "little") & ~1 | server
        packed = -(-levels // 8)
        self.right = int.from_bytes(data[:packed], "little")
        size = 16 + 8 * width + 32
        self.parts = [data[packed + i * size : packed + (i + 1) * size] for i in range(levels)]

    def hash(self, name: str, block: int) -> int:
        return int.from_bytes(self.ciphers[name](block.to_bytes(16, "little")), "little") ^ block

    def expand(self, level: int, opened: dict[tuple[int, ...], tuple[int, tuple[int, ...]]]) -> Level:
        part = self.parts[level]
        seed = int.from_bytes(part[:16], "little")
        seeds = (seed, seed & ~1 | self.right >> level & 1)
        correction = [int.from_bytes(part[16 + 8 * i : 24 + 8 * i], "little") for i in range(self.width)]
        proof = part[16 + 8 * self.width :]
        nodes, sides, rest = {}, [0, 0], [0] * self.width
        for path, (state, words) in sorted(opened.items()):
            rest = [a + b for a, b in zip(rest, words, strict=True)]
            for side in (0, 1):
                child = self.hash(f"child-{side}", state) ^ (seeds[side] if state & 1 else 0)
                block = self.hash("payload", child)
                own = tuple(((block >> 64 * i & WORD) + (child & 1) * correction[i]) & WORD for i in range(self.width))
                rest = [a - b for a, b in zip(rest, own, strict=True)]
                nodes[(*path, side)] = (child, own)
                both = self.hash(f"proof-{side}a", child) | self.hash(f"proof-{side}b", child) << 128
                sides[side] ^= both ^ (int.from_bytes(proof, "little") if child & 1 else 0)
        tag = b"".join(value.to_bytes(32, "little") for value in sides)
        return Level(nodes, tag + b"".join((value & WORD).to_bytes(8, "little") for value in rest))


def rounded(value: float, low: float, high: float, bits: int, word: int) -> int:
    """The integer that a device sends for a value, section 6."""
    scaled = min(max((value - low) / (high - low), 0.0), 1.0) * (2**bits - 1)
    down = int(scaled)
    return down + (1 if (word >> 11) * 2.0**-53 < scaled - down else 0)


def rounding_word(secret: bytes, task: bytes) -> int:
    """The word of a device for a task, section 6."""
    return int.from_bytes(hmac.digest(secret, bytes(4) + b"semilocal/1/rounding" + task, "sha256")[:8], "big")


def envelope_info(role: str, task: bytes, report: bytes, public: bytes, bucket: int, token: str) -> bytes:
    """What an envelope is bound to, section 5."""
    hashes = [hashlib.sha256(data).digest() for data in (public, token.encode() if role == "leader" else b"")]
    head = f"semilocal/2/sharing/envelope/{role}/".encode()
    return head + task + report + hashes[0] + bucket.to_bytes(8, "big") + hashes[1]


Nodes = dict[tuple[int, ...], tuple[int, tuple[int, ...]]]


def evaluate(
    task: bytes, nonce: bytes, levels: int, value_bits: int, server: int, public: bytes, private: bytes,
    frontiers: Sequence[Sequence[tuple[int, ...]]],
) -> tuple[list[bytes], list[dict[tuple[int, ...], tuple[int, ...]]]]:  # fmt: skip
    """The tag, and the payload words of the children, of every frontier; a frontier is a list of paths."""
    width = 2 if value_bits else 1
    cut = -(-levels // 8) + levels * (16 + 8 * width + 32)
    first = b""
    root: tuple[int, ...] = (1 - server,)
    if value_bits:
        small = Tree(task, b"value", nonce, value_bits, 1, server, private[16:32], public[cut:])
        opened: Nodes = {(): (small.root, (1 - server,))}
        joined = b""
        for level in range(value_bits):
            found = small.expand(level, opened)
            opened, joined = found.nodes, joined + found.tag
        first = hashlib.sha256(joined).digest()
        share = sum(int("".join(map(str, path)), 2) * words[0] for path, (_, words) in opened.items()) & WORD
        root = (1 - server, share)
    tree = Tree(task, b"place", nonce, levels, width, server, private[:16], public[:cut])
    below: Nodes = {(): (tree.root, root)}
    tags, words = [], []
    for level, frontier in enumerate(frontiers):
        found = tree.expand(level, {path: below[path] for path in frontier})
        below = found.nodes
        tags.append((b"" if level else first) + found.tag)
        words.append({path: own for path, (_, own) in below.items()})
    return tags, words
