"""The Merkle tree and its proofs against RFC 6962, written here a second time from the RFC's recursive definitions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semilocal import Box, Task
from semilocal.errors import InvalidInput
from semilocal.protocol.messages import decode
from semilocal.transcript.checkpoints import Checkpoint, Seal, check_signature, next_head, public_key, seal_round
from semilocal.transcript.merkle import (
    MerkleLog,
    check_consistency,
    check_inclusion,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    merkle_root,
)

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


def rfc_path(m: int, entries: list[bytes]) -> list[bytes]:
    """PATH of section 2.1.1."""
    if len(entries) == 1:
        return []
    k = _split(len(entries))
    if m < k:
        return [*rfc_path(m, entries[:k]), rfc_root(entries[k:])]
    return [*rfc_path(m - k, entries[k:]), rfc_root(entries[:k])]


def rfc_subproof(m: int, entries: list[bytes], complete: bool) -> list[bytes]:
    """SUBPROOF of section 2.1.2."""
    n = len(entries)
    if m == n:
        return [] if complete else [rfc_root(entries)]
    k = _split(n)
    if m <= k:
        return [*rfc_subproof(m, entries[:k], complete), rfc_root(entries[k:])]
    return [*rfc_subproof(m - k, entries[k:], False), rfc_root(entries[:k])]


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


def test_inclusion_proofs_are_the_rfcs_and_only_the_right_leaf_passes() -> None:
    for n in range(1, 34):
        entries = entries_of(n)
        leaves = [leaf_hash(entry) for entry in entries]
        root = merkle_root(leaves)
        for index in range(n):
            proof = inclusion_proof(leaves, index)
            assert list(proof) == rfc_path(index, entries)
            assert check_inclusion(leaves[index], index, size=n, proof=proof, root=root)
            assert not check_inclusion(leaf_hash(b"other"), index, size=n, proof=proof, root=root)
            assert not check_inclusion(leaves[index], index, size=n, proof=(*proof, root), root=root)
            if proof:
                assert not check_inclusion(leaves[index], index, size=n, proof=proof[:-1], root=root)
            # The same hash may be at another place only where the tree has the same shape and the same leaf.
            for other in range(n):
                if other != index and leaves[other] != leaves[index]:
                    assert not check_inclusion(leaves[index], other, size=n, proof=proof, root=root)


def test_consistency_proofs_are_the_rfcs_and_no_other_history_passes() -> None:
    for n in range(34):
        entries = entries_of(n)
        leaves = [leaf_hash(entry) for entry in entries]
        new = merkle_root(leaves)
        for old in range(n + 1):
            proof = consistency_proof(leaves, old)
            before = merkle_root(leaves[:old])
            assert list(proof) == (rfc_subproof(old, entries, True) if 0 < old < n else [])
            assert check_consistency(before, new, old=old, size=n, proof=proof)
            if old:
                changed = merkle_root([leaf_hash(b"changed"), *leaves[1:old]])
                assert not check_consistency(changed, new, old=old, size=n, proof=proof)
                assert not check_consistency(before, changed, old=old, size=n, proof=proof) or before == changed == new
            if proof:
                assert not check_consistency(before, new, old=old, size=n, proof=proof[:-1])
                assert not check_consistency(before, new, old=old, size=n, proof=(*proof, new))


@settings(max_examples=60, deadline=None)
@given(n=st.integers(2, 300), data=st.data())
def test_one_bit_in_a_proof_is_one_too_many(n: int, data: st.DataObject) -> None:
    leaves = [leaf_hash(entry) for entry in entries_of(n)]
    index, old = data.draw(st.integers(0, n - 1)), data.draw(st.integers(1, n - 1))
    root = merkle_root(leaves)
    checks: list[tuple[tuple[bytes, ...], Callable[[tuple[bytes, ...]], bool]]] = [
        (inclusion_proof(leaves, index),
         lambda p: check_inclusion(leaves[index], index, size=n, proof=p, root=root)),
        (consistency_proof(leaves, old),
         lambda p: check_consistency(merkle_root(leaves[:old]), root, old=old, size=n, proof=p)),
    ]  # fmt: skip
    for proof, check in checks:
        assert check(proof)
        place = data.draw(st.integers(0, len(proof) - 1))
        bit = data.draw(st.integers(0, 255))
        node = bytearray(proof[place])
        node[bit // 8] ^= 1 << bit % 8
        assert not check((*proof[:place], bytes(node), *proof[place + 1 :]))


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


def test_proofs_of_places_that_there_are_not_are_refused() -> None:
    leaves = [leaf_hash(b"a")]
    with pytest.raises(InvalidInput, match="from 0 to 0"):
        inclusion_proof(leaves, 1)
    with pytest.raises(InvalidInput, match="from 0 to 1"):
        consistency_proof(leaves, 2)


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
    assert len(rows) >= 8
    leaves = [leaf_hash(data) for data in (b"a", b"b", b"c", b"d", b"e")]
    assert leaves[0].hex() == rows["leaf a"]
    assert merkle_root(leaves[:3]).hex() == rows["root 3"]
    assert merkle_root(leaves).hex() == rows["root 5"]
    assert b"".join(inclusion_proof(leaves, 2)).hex() == rows["inclusion 2 of 5"]
    assert b"".join(consistency_proof(leaves, 3)).hex() == rows["consistency 3 to 5"]
    point = Checkpoint(bytes(range(32)), 1, 3, merkle_root(leaves[:3]))
    assert point.to_bytes().hex() == rows["checkpoint"]
    assert public_key(KEY).hex() == rows["public key"]
    seal = seal_round(point.task, point, key=KEY)
    assert seal.head.hex() == rows["head"]
    assert seal.signature.hex() == rows["signature"]
