"""Reports that a malicious device could make, and a check that can be weakened on purpose.

A forger knows everything about its own report: it fits the payload correction so that sums agree wherever that is
possible, and the proof to the child of its choice. What is left to catch it are the proofs of the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from semilocal.sharing.point import KeyName
from semilocal.sharing.report import SEED, ScalarTree, Shape, SharedReport
from semilocal.sharing.verify import Half

TASK = bytes(range(32))
NONCE = bytes(range(16, 32))
WORD = (1 << 64) - 1
How = Literal["seed", "bit", "both"]


def second_node(
    shape: Shape, path: Sequence[int], entropy: bytes, *, level: int, how: How, proof: Literal["kept", "lost", "both"],
    task: bytes = TASK, nonce: bytes = NONCE,
) -> SharedReport:  # fmt: skip
    """A point function that is not zero at the child next to the path at one level."""
    tree = ScalarTree(task, b"place", nonce)
    parts = (entropy[:SEED], entropy[SEED : 2 * SEED])
    states = tree.roots(parts)
    right_bits, body = 0, bytearray()
    for depth, kept in enumerate(path):
        raw = [(tree.hash("child-0", state), tree.hash("child-1", state)) for state in states]
        lost = 1 - kept
        seed = (raw[0][lost] ^ raw[1][lost]) & ~1
        bits = [(raw[0][side] ^ raw[1][side] ^ (1 if side == kept else 0)) & 1 for side in (0, 1)]
        forged = depth == level
        if forged and how in ("seed", "both"):
            seed ^= 0x5A5A5A << 40
        if forged and how in ("bit", "both"):
            bits[lost] ^= 1
        both = [[raw[b][side] ^ (seed | bits[side] if states[b] & 1 else 0) for b in (0, 1)] for side in (kept, lost)]
        right_bits |= bits[1] << depth
        body += (seed | bits[0]).to_bytes(16, "little")
        nodes = both if forged else both[:1]
        worth = sum((tree.hash("payload", pair[0]) & WORD) - (tree.hash("payload", pair[1]) & WORD) for pair in nodes)
        sign = sum((pair[0] & 1) - (pair[1] & 1) for pair in nodes)
        missing = (1 - worth) & WORD
        # 2 c = missing has a solution only if missing is even; then the sums agree
        correction = {1: missing, -1: -missing, 2: missing >> 1, -2: -(missing >> 1), 0: 0}[sign]
        body += (correction & WORD).to_bytes(8, "little")
        for letter in "ab":
            hashes = []
            for side, pair in zip((kept, lost), both, strict=True):
                name: KeyName = f"proof-{side}{letter}"  # type: ignore[assignment]
                hashes.append(tree.hash(name, pair[0]) ^ tree.hash(name, pair[1]))
            fitted = {"kept": hashes[0], "lost": hashes[1], "both": hashes[0] ^ hashes[1]}[proof if forged else "kept"]
            body += fitted.to_bytes(16, "little")
        states = both[0]
    return SharedReport(nonce, right_bits.to_bytes(-(-len(path) // 8), "little") + bytes(body), parts)


def worth(
    shape: Shape, path: Sequence[int], entropy: bytes, payload: Sequence[int], *, task: bytes = TASK,
    nonce: bytes = NONCE, bits: Sequence[int] = (), leaf: int = 1,
) -> SharedReport:  # fmt: skip
    """Well-formed point functions with any payload, and with any leaf of the value tree worth anything."""
    size = shape.private_bytes
    parts = (entropy[:size], entropy[size : 2 * size])
    public = ScalarTree(task, b"place", nonce).corrections(path, payload, (parts[0][:SEED], parts[1][:SEED]))
    if shape.value_bits:
        public += ScalarTree(task, b"value", nonce).corrections(bits, (leaf,), (parts[0][SEED:], parts[1][SEED:]))
    return SharedReport(nonce, public, parts)


def equal_seeds(path: Sequence[int], payloads: Sequence[int], *, nonce: bytes = NONCE, flip: int = 0) -> SharedReport:
    """Both servers get one seed; nothing is corrected but the control bits along the path and the payloads."""
    right = sum((step ^ flip) << depth for depth, step in enumerate(path))
    body = b"".join(
        (1 - step ^ flip).to_bytes(16, "little") + (payload & WORD).to_bytes(8, "little") + bytes(32)
        for step, payload in zip(path, payloads, strict=True)
    )
    return SharedReport(nonce, right.to_bytes(-(-len(path) // 8), "little") + body, (b"\x10" * 16, b"\x10" * 16))


def halves(shape: Shape, reports: Sequence[SharedReport], task: bytes = TASK) -> tuple[Half, Half]:
    """Both servers' halves of these reports."""
    nonces, public = [report.nonce for report in reports], [report.public for report in reports]
    first, second = (
        Half(task, shape, server, nonces, public, [report.private[server] for report in reports]) for server in (0, 1)
    )
    return first, second


Weaken = Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]


def caught(
    shape: Shape, reports: Sequence[SharedReport], *, weaken: Weaken = lambda tags: tags
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Evaluate all levels with every cell opened.

    Returns
    -------
    rejected : bool[n]
    leaves : int64[2^levels, n]
        Count payload of every report at every deepest cell, whether or not it was rejected.
    """
    both = halves(shape, reports)
    rejected = (weaken(both[0].tags) != weaken(both[1].tags)).any(axis=1)
    for level in range(shape.levels):
        shares = [half.verify_init() for half in both]
        rejected |= (weaken(shares[0].tags) != weaken(shares[1].tags)).any(axis=1)
        if level == shape.levels - 1:
            break
        for half in both:
            half.open(np.arange(2 << level))
    single = [
        np.stack([half.sums_of(np.arange(len(reports)) == who)[:, 0] for who in range(len(reports))], axis=1)
        for half in both
    ]
    return rejected, (single[0] - single[1]).astype(np.int64)
