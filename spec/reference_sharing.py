"""An evaluator of shared reports written from spec/sharing.md alone: plain Python, its own AES, no other library.

Slow and simple on purpose. It is compared with the package on every vector of ``spec/vectors/sharing.json``.
"""

from __future__ import annotations

import hashlib
import hmac
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


def _substitution() -> list[int]:
    inverse = [0] * 256
    for a in range(1, 256):
        for b in range(1, 256):
            if _times(a, b) == 1:
                inverse[a] = b
                break
    out = []
    for value in inverse:
        rotated = value
        for shift in range(1, 5):
            rotated ^= (value << shift | value >> (8 - shift)) & 0xFF
        out.append(rotated ^ 0x63)
    return out


_S = _substitution()
_DOUBLE = [_times(a, 2) for a in range(256)]


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
        self.keys = [[byte for word in words[i : i + 4] for byte in word] for i in range(0, 44, 4)]

    def __call__(self, block: bytes) -> bytes:
        state = [a ^ b for a, b in zip(block, self.keys[0], strict=True)]
        for number, key in enumerate(self.keys[1:], start=1):
            state = [_S[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
            if number < 10:
                mixed = []
                for c in range(0, 16, 4):
                    column = state[c : c + 4]
                    for r in range(4):
                        a, b = column[r], column[(r + 1) % 4]
                        mixed.append(_DOUBLE[a] ^ _DOUBLE[b] ^ b ^ column[(r + 2) % 4] ^ column[(r + 3) % 4])
                state = mixed
            state = [a ^ b for a, b in zip(state, key, strict=True)]
        return bytes(state)


# -- one server's view of one report ---------------------------------------------------------------------------------


class Level(NamedTuple):
    """Children of the opened cells: path of steps -> (state, payload words), and the tag of the level."""

    nodes: dict[tuple[int, ...], tuple[int, tuple[int, ...]]]
    tag: bytes


class Tree:
    """One point function, seen by one server."""

    def __init__(self, task: bytes, tree: bytes, levels: int, width: int, server: int, seed: bytes, data: bytes):
        names = ("child-0", "child-1", "payload", "proof-0a", "proof-0b", "proof-1a", "proof-1b")
        label = b"semilocal/1/sharing/" + task + tree + b"/"
        self.ciphers = {name: Aes(hashlib.sha256(label + name.encode()).digest()[:16]) for name in names}
        self.levels, self.width, self.server = levels, width, server
        self.root = int.from_bytes(seed, "little") & ~1 | server
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


def evaluate(
    task: bytes, levels: int, value_bits: int, server: int, public: bytes, private: bytes
) -> tuple[list[bytes], list[dict[tuple[int, ...], tuple[int, ...]]]]:
    """Tags (value tree first, if there is one) and the payload words of all cells, level by level, all cells opened."""
    width = 2 if value_bits else 1
    cut = -(-levels // 8) + levels * (16 + 8 * width + 32)
    tags: list[bytes] = []
    root: tuple[int, ...] = (1 - server,)
    if value_bits:
        small = Tree(task, b"value", value_bits, 1, server, private[16:32], public[cut:])
        opened: dict[tuple[int, ...], tuple[int, tuple[int, ...]]] = {(): (small.root, (1 - server,))}
        joined = b""
        for level in range(value_bits):
            found = small.expand(level, opened)
            opened, joined = found.nodes, joined + found.tag
        tags.append(joined)
        share = sum(int("".join(map(str, path)), 2) * words[0] for path, (_, words) in opened.items()) & WORD
        root = (1 - server, share)
    tree = Tree(task, b"place", levels, width, server, private[:16], public[:cut])
    opened = {(): (tree.root, root)}
    words = []
    for level in range(levels):
        found = tree.expand(level, opened)
        opened = found.nodes
        tags.append(found.tag)
        words.append({path: own for path, (_, own) in opened.items()})
    return tags, words
