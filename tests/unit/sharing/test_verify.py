"""Forged reports are rejected wherever they lie, and nobody beside them; weaker checks would accept some of them.

Each lie is a vector, too (test_vectors.py).
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sharing_forgeries import NONCE, TASK, caught, equal_seeds, second_node

from semilocal.sharing.point import FixedKeys, KeyName
from semilocal.sharing.report import Shape, SharedReport, shard
from semilocal.sharing.verify import CHUNK, differing, digests

LEVELS = 5
COUNTS = Shape(LEVELS)
VALUES = Shape(LEVELS, 3)
PATH = (1, 0, 1, 1, 0)


def entropy(seed: int, shape: Shape = COUNTS) -> bytes:
    return np.random.default_rng(seed).bytes(2 * shape.private_bytes)


def same_seeds(payloads: tuple[int, ...] = (1, -1), flip: int = 0) -> list[SharedReport]:
    """The right payload depends on bits that the forger knows: all its choices are here."""
    return [equal_seeds(PATH, chosen, flip=flip) for chosen in itertools.product(payloads, repeat=LEVELS)]


def test_random_bit_flips_are_rejected() -> None:
    rng = np.random.default_rng(10)
    report = shard(TASK, NONCE, VALUES, PATH, entropy(11, VALUES), value=6)
    flipped = []
    for place in rng.choice(8 * VALUES.public_bytes, size=330, replace=False).tolist():
        byte, bit = divmod(place, 8)
        if (byte == 0 and bit >= LEVELS) or (byte == VALUES.public_bytes - 3 * 56 - 1 and bit >= 3):
            continue  # refused as malformed, tested elsewhere
        public = bytearray(report.public)
        public[byte] ^= 1 << bit
        flipped.append(report._replace(public=bytes(public)))
    assert len(flipped) >= 300
    rejected, _ = caught(VALUES, [*flipped, report])
    assert rejected[:-1].all()
    assert not rejected[-1]


# -- weaker checks accept what must not be accepted ------------------------------------------------------------------


def test_sums_alone_would_accept_a_person_in_two_places() -> None:
    def sums_only(tags: np.ndarray) -> np.ndarray:
        return tags[:, 64:]

    reports = [second_node(COUNTS, PATH, entropy(seed), level=4, how="seed", proof="kept") for seed in range(8)]
    rejected, leaves = caught(COUNTS, reports, weaken=sums_only)
    fooled = ~rejected
    assert fooled.any()
    assert ((leaves[:, fooled] != 0).sum(axis=0) > 1).all()


def test_one_xor_over_both_sides_would_accept_a_person_in_two_places() -> None:
    def one_xor(tags: np.ndarray) -> np.ndarray:
        return np.concatenate([tags[:, :32] ^ tags[:, 32:64], tags[:, 64:]], axis=1)

    forged = second_node(COUNTS, PATH, entropy(12), level=4, how="seed", proof="both")
    rejected, leaves = caught(COUNTS, [forged], weaken=one_xor)
    assert not rejected[0]
    assert (leaves[:, 0] != 0).sum() == 2


def test_a_hash_without_the_control_bit_would_accept_equal_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing about such a report is hidden from either server, and no proof was ever needed.

    The bit is still in the state that is xored on the cipher; the forger corrects for it.
    """
    bit = np.array([1, 0], dtype=np.uint64)
    whole = FixedKeys.encrypt

    def blind(self: FixedKeys, name: KeyName, blocks: np.ndarray, room: np.ndarray | None = None) -> np.ndarray:
        return whole(self, name, blocks & ~bit, room)

    monkeypatch.setattr(FixedKeys, "encrypt", blind)

    def without_bit(tags: np.ndarray) -> np.ndarray:
        out = tags.copy()
        if tags.shape[1]:
            out[:, [0, 16, 32, 48]] &= 0xFE  # the states' own control bits, which are xored on the proofs
        return out

    rejected, leaves = caught(COUNTS, same_seeds((0, 2, -2), flip=1), weaken=without_bit)
    assert np.count_nonzero(~rejected) == 1
    assert leaves[:, ~rejected].sum() == 1


# -- digests -----------------------------------------------------------------------------------------------------


def test_digests_differ_exactly_where_a_tag_differs() -> None:
    tags = np.random.default_rng(1).integers(256, size=(2 * CHUNK + 5, 72)).astype(np.uint8)
    other = tags.copy()
    other[CHUNK + 3, 10] ^= 1
    same = [a == b for a, b in zip(digests(tags), digests(other), strict=True)]
    assert same == [True, False, True]
    assert np.flatnonzero(differing(tags, other)).tolist() == [CHUNK + 3]
