"""The Merkle tree against RFC 6962's recursive definition, and the checkpoints over its roots."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from reference_client import merkle_tree_hash

from semilocal import Box, Task
from semilocal.protocol.messages import Checkpoint, Seal, decode
from semilocal.transcript.checkpoints import MerkleLog, merkle_root, public_key, seal_round, signature_fault

SPEC = Path(__file__).parents[3] / "spec" / "transcript.md"

# Roots of the first n of these entries, as the certificate-transparency projects publish them for RFC 6962.
ENTRIES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


@pytest.mark.parametrize("size", range(1, 9))
def test_known_answers(size: int) -> None:
    assert merkle_root([bytes.fromhex(entry) for entry in ENTRIES[:size]]).hex() == ROOTS[size - 1]


@pytest.mark.parametrize("size", [*range(70), 127, 128, 129, 1000, 1023, 1025])
def test_a_log_that_is_saved_as_it_grows_has_the_root_of_the_rfcs_recursion(size: int) -> None:
    entries = [i.to_bytes(4, "big") * (i % 3) for i in range(size)]
    log = MerkleLog()
    for start in range(0, size, 7):
        log = MerkleLog.from_bytes(log.to_bytes())
        log.add(entries[start : start + 7])
        assert log.root() == merkle_tree_hash(entries[: min(start + 7, size)])
    assert log.root() == merkle_root(entries) == merkle_tree_hash(entries)
    assert log.size == size
    assert len(log.to_bytes()) < 600


def test_padding_the_last_level_is_caught() -> None:
    """Planted bug: repeating an odd node at the end, as some other trees do, gives another root."""

    def padded(entries: list[bytes]) -> bytes:
        level = [hashlib.sha256(b"\x00" + entry).digest() for entry in entries]
        while len(level) > 1:
            level = level + level[-1:] * (len(level) % 2)
            level = [hashlib.sha256(b"\x01" + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=True)]
        return level[0]

    entries = [bytes([number]) for number in range(5)]
    assert padded(entries) != merkle_tree_hash(entries)
    assert padded(entries[:4]) == merkle_tree_hash(entries[:4])


# -- checkpoints ---------------------------------------------------------------------------------------------------

KEY = bytes(range(32))
TASK = Task.build(Box((0,), (1,)), epsilon=1.0, delta=0.01, k=20, server_key=public_key(KEY))


def test_seals_are_signed_with_the_key_of_the_task_and_no_other() -> None:
    seal = seal_round(TASK.id, Checkpoint(TASK.id, 1, 3, bytes(32)), key=KEY)
    assert signature_fault(seal, TASK) is None
    assert decode(seal.to_bytes(), Seal) == seal
    other = seal_round(TASK.id, Checkpoint(TASK.id, 1, 3, bytes(32)), key=bytes(32))
    assert other.head == seal.head
    assert signature_fault(other, TASK) is not None
    unsigned = seal_round(TASK.id, Checkpoint(TASK.id, 1, 3, bytes(32)))
    assert signature_fault(unsigned, TASK) is not None


def test_the_specifications_vectors_hold() -> None:
    text = SPEC.read_text("utf-8")
    rows = dict(re.findall(r"^\| `([a-z0-9 ]+)` \| `([0-9a-f]*)` \|$", text, flags=re.MULTILINE))
    assert len(rows) == 7
    events = [b"a", b"b", b"c", b"d", b"e"]
    assert merkle_root(events[:1]).hex() == rows["leaf a"]
    assert merkle_root(events[:3]).hex() == rows["root 3"]
    assert merkle_root(events).hex() == rows["root 5"]
    point = Checkpoint(bytes(range(32)), 1, 3, merkle_root(events[:3]))
    assert point.to_bytes().hex() == rows["checkpoint"]
    assert public_key(KEY).hex() == rows["public key"]
    seal = seal_round(point.task, point, key=KEY)
    assert seal.head.hex() == rows["head"]
    assert seal.signature.hex() == rows["signature"]
