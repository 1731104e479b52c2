"""Public parts of many shared reports at once: a device takes a millisecond each, and benchmarks want a million.

The bytes are those of :func:`semilocal.sharing.report.shard`; a test compares them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from semilocal.sharing.point import PROOF_WORDS, Blocks, FixedKeys, KeyName, root_states

Words = npt.NDArray[np.uint64]

_ONE = np.uint64(1)


def public_parts(
    task: bytes, nonces: list[bytes], paths: npt.NDArray[np.uint8], seeds: tuple[list[bytes], list[bytes]]
) -> list[bytes]:
    """What n devices without a value publish.

    Parameters
    ----------
    task : bytes
        The task's id, 32 bytes.
    nonces : list of bytes
        The reports' ids, 16 bytes each.
    paths : uint8[n, levels]
        Which child at each depth, 0 or 1.
    seeds : (list of bytes, list of bytes)
        The secret seeds for server 0 and server 1, 16 bytes each.
    """
    keys, (n, levels) = FixedKeys(task), paths.shape
    states = [root_states(task, b"place", nonces, seeds[server], server) for server in (0, 1)]
    right_bits = np.empty((n, levels), np.uint8)
    words = np.empty((n, levels, 2 + 1 + PROOF_WORDS), np.uint64)
    for level in range(levels):
        bit = paths[:, level].astype(np.uint64)
        right_kept = bit.astype(bool)[:, None]
        raw = [(_hash(keys, "child-0", state), _hash(keys, "child-1", state)) for state in states]
        left, right = raw[0][0] ^ raw[1][0], raw[0][1] ^ raw[1][1]
        seed = np.where(right_kept, left, right)  # cancels the child that is left
        left_bit, right_bit = (left[:, 0] & _ONE) ^ bit ^ _ONE, (right[:, 0] & _ONE) ^ bit
        seed[:, 0] = (seed[:, 0] & ~_ONE) | left_bit
        kept = seed.copy()
        kept[:, 0] = np.where(right_kept[:, 0], (seed[:, 0] & ~_ONE) | right_bit, seed[:, 0])
        masks = [np.uint64(0) - (state[:, :1] & _ONE) for state in states]
        states = [np.where(right_kept, raw[b][1], raw[b][0]) ^ (masks[b] & kept) for b in (0, 1)]
        first, second = (_hash(keys, "payload", state)[:, 0] for state in states)
        difference = _ONE - first + second
        right_bits[:, level], words[:, level, :2] = right_bit, seed
        words[:, level, 2] = np.where(states[0][:, 0] & _ONE, difference, np.uint64(0) - difference)
        for start, names in ((3, ("proof-0a", "proof-1a")), (5, ("proof-0b", "proof-1b"))):
            one, other = (
                np.where(right_kept, _hash(keys, names[1], state), _hash(keys, names[0], state))  # type: ignore[arg-type]
                for state in states
            )
            words[:, level, start : start + 2] = one ^ other
    packed = np.packbits(right_bits, axis=1, bitorder="little")
    return [row.tobytes() for row in np.concatenate([packed, words.reshape(n, -1).view(np.uint8)], axis=1)]


def _hash(keys: FixedKeys, name: KeyName, blocks: Blocks) -> Blocks:
    return keys.encrypt(name, blocks) ^ blocks
