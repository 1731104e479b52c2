"""The Merkle tree against RFC 6962, written here a second time from the RFC's recursive definitions."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from semilocal import Box, Task
from semilocal.errors import InvalidInput
from semilocal.protocol.messages import decode
from semilocal.transcript.checkpoints import Checkpoint, Seal, check_signature, next_head, public_key, seal_round
from semilocal.transcript.merkle import MerkleLog, leaf_hash, merkle_root

SPEC = Path(__file__).parents[3] / "spec" / "transcript.md"

# -- the RFC, recursively ----------------------------------------------------------------------------------------


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _split(n: int) -> int:
    """The largest power of two smaller than n."""
    power = 1
    while power * 2 < n:
        power *= 2
    return power


def rfc_root(entries: list[bytes]) -> bytes:
    """MTH of section 2.1."""
    if not entries:
        return _hash(b"")
    if len(entries) == 1:
        return _hash(b"\x00" + entries[0])
    k = _split(len(entries))
    return _hash(b"\x01" + rfc_root(entries[:k]) + rfc_root(entries[k:]))


def entries_of(n: int) -> list[bytes]:
    return [i.to_bytes(4, "big") * (i % 3) for i in range(n)]


# -- tests -------------------------------------------------------------------------------------------------------


def test_roots_are_those_of_the_rfcs_recursion_and_of_the_growing_log() -> None:
    for n in range(70):
        entries = entries_of(n)
        leaves = [leaf_hash(entry) for entry in entries]
        assert merkle_root(leaves) == rfc_root(entries)
        log = MerkleLog()
        for start in range(0, n, 7):
            log.extend(leaves[start : start + 7])
            assert log.root() == rfc_root(entries[: min(start + 7, n)])
        assert log.size == n


def test_roots_are_those_of_the_published_test_entries() -> None:
    """The eight entries that the Certificate Transparency implementations test with."""
    entries = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
    roots = {
        1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        4: "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        6: "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        7: "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    }
    leaves = [leaf_hash(bytes.fromhex(entry)) for entry in entries]
    for n, root in roots.items():
        assert merkle_root(leaves[:n]).hex() == root


def test_a_wrong_tree_is_caught_by_the_same_comparison() -> None:
    """Planted bug: a tree that repeats an odd node instead of moving it up."""

    def doubled(level: list[bytes]) -> bytes:
        while len(level) > 1:
            level = level + level[-1:] if len(level) % 2 else level
            level = [_hash(b"\x01" + level[i] + level[i + 1]) for i in range(0, len(level), 2)]
        return level[0]

    leaves = [leaf_hash(entry) for entry in entries_of(5)]
    assert doubled(leaves) != rfc_root(entries_of(5))
    assert doubled(leaves[:4]) == rfc_root(entries_of(4))


# -- checkpoints ---------------------------------------------------------------------------------------------------

KEY = bytes(range(32))
TASK = Task.build(Box((0,), (1,)), epsilon=1.0, delta=0.01, k=20, server_key=public_key(KEY))


def test_seals_are_signed_with_the_key_of_the_task_and_no_other() -> None:
    seal = seal_round(TASK.id, Checkpoint(TASK.id, 1, 3, bytes(32)), key=KEY)
    assert check_signature(seal, TASK)
    assert decode(seal.to_bytes(), Seal) == seal
    other = seal_round(TASK.id, Checkpoint(TASK.id, 1, 3, bytes(32)), key=bytes(32))
    assert other.head == seal.head
    assert not check_signature(other, TASK)
    unsigned = seal_round(TASK.id, Checkpoint(TASK.id, 1, 3, bytes(32)))
    assert not check_signature(unsigned, TASK)


def test_a_head_stands_for_all_checkpoints_before_it() -> None:
    points = [Checkpoint(TASK.id, t, 3 * t, hashlib.sha256(bytes([t])).digest()) for t in (1, 2, 3)]
    heads = [TASK.id]
    for point in points:
        heads.append(next_head(heads[-1], point))
    changed = Checkpoint(TASK.id, 1, 3, hashlib.sha256(b"other").digest())
    head = next_head(TASK.id, changed)
    for point in points[1:]:
        head = next_head(head, point)
    assert head != heads[-1]


def test_seals_that_are_not_canonical_are_refused() -> None:
    data = seal_round(TASK.id, Checkpoint(TASK.id, 1, 3, bytes(32)), key=KEY).to_bytes()
    for broken in (data[:-1], data + b"\x00", b"", b"\xc0"):
        with pytest.raises(InvalidInput, match="Seal"):
            decode(broken, Seal)


def test_the_specifications_vectors_hold() -> None:
    text = SPEC.read_text("utf-8")
    rows = dict(re.findall(r"^\| `([a-z0-9 ]+)` \| `([0-9a-f]*)` \|$", text, flags=re.MULTILINE))
    assert len(rows) == 7
    leaves = [leaf_hash(data) for data in (b"a", b"b", b"c", b"d", b"e")]
    assert leaves[0].hex() == rows["leaf a"]
    assert merkle_root(leaves[:3]).hex() == rows["root 3"]
    assert merkle_root(leaves).hex() == rows["root 5"]
    point = Checkpoint(bytes(range(32)), 1, 3, merkle_root(leaves[:3]))
    assert point.to_bytes().hex() == rows["checkpoint"]
    assert public_key(KEY).hex() == rows["public key"]
    seal = seal_round(point.task, point, key=KEY)
    assert seal.head.hex() == rows["head"]
    assert seal.signature.hex() == rows["signature"]
