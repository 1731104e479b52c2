"""The root of a transcript is RFC 6962's, and says everything about the messages and their order."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_client import merkle_tree_hash

from semilocal import Task
from semilocal.protocol.messages import encode
from semilocal.testing import cluster, participants_at, play, unit_box
from semilocal.transcript.merkle import leaf_hash, merkle_root, transcript_root
from tests.helpers.pair import STEADY

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


def test_the_root_of_nothing_is_the_hash_of_nothing() -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert merkle_root([]).hex() == transcript_root([]).hex() == empty == hashlib.sha256().hexdigest()


@pytest.mark.parametrize("size", range(1, 9))
def test_known_answers(size: int) -> None:
    entries = [bytes.fromhex(entry) for entry in ENTRIES[:size]]
    assert merkle_root([leaf_hash(entry) for entry in entries]).hex() == ROOTS[size - 1]


@pytest.mark.parametrize("size", [*range(130), 255, 256, 257, 1000, 1023, 1025])
def test_level_by_level_is_the_recursive_definition(size: int) -> None:
    entries = [number.to_bytes(3, "big") for number in range(size)]
    assert merkle_root([leaf_hash(entry) for entry in entries]) == merkle_tree_hash(entries)


@STEADY
@given(st.lists(st.binary(max_size=40), max_size=40))
def test_any_list_has_the_recursive_definition_s_root(entries: list[bytes]) -> None:
    assert merkle_root([leaf_hash(entry) for entry in entries]) == merkle_tree_hash(entries)


def test_padding_the_last_level_is_caught() -> None:
    """Planted bug: repeating an odd node at the end, as some other trees do, gives another root."""

    def padded(level: list[bytes]) -> bytes:
        while len(level) > 1:
            level = level + level[-1:] * (len(level) % 2)
            level = [hashlib.sha256(b"\x01" + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=True)]
        return level[0]

    entries = [bytes([number]) for number in range(5)]
    assert padded([leaf_hash(entry) for entry in entries]) != merkle_tree_hash(entries)


def test_the_root_of_a_play_depends_on_every_message_and_on_their_order() -> None:
    task = Task.build(unit_box(1), epsilon=4.0, delta=0.05, k=3, max_depth=3)
    events = play(task, participants_at(task, cluster(20, 1))).events
    root = transcript_root(events)
    assert root == merkle_tree_hash([encode(event) for event in events])
    roots = {transcript_root(events[:i] + events[i + 1 :]) for i in range(len(events))}
    pairs = range(len(events) - 1)
    swapped = {transcript_root([*events[:i], events[i + 1], events[i], *events[i + 2 :]]) for i in pairs}
    assert len(roots) == len(events)
    assert root not in roots | swapped
