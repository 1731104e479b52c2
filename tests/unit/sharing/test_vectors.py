"""The vectors of shared reports, played by the package and by an evaluator written from the text alone."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import reference_sharing as reference

SPEC = Path(__file__).parents[3] / "spec"
VECTORS = json.loads((SPEC / "vectors" / "sharing.json").read_text(encoding="utf-8"))
NAMES = [
    "payload 0", "payload 2", "payload -1", "payload 1 + 2^63", "count changed at one level",
    "value changed at one level", "garbage", "another device's key", "value out of range",
    "value tree for another value", "leaf of the value tree worth 2", "equal root seeds with flipped control bits",
    "one bit flipped",
]  # fmt: skip


def seen(vector: dict[str, Any], server: int) -> Any:
    return reference.evaluate(
        bytes.fromhex(vector["task"]), vector["levels"], vector["value_bits"], server,
        bytes.fromhex(vector["public"]), bytes.fromhex(vector["private"][server]),
    )  # fmt: skip


def test_the_reference_has_a_right_aes() -> None:
    key, plain = bytes(range(16)), bytes.fromhex("00112233445566778899aabbccddeeff")
    assert reference.Aes(key)(plain).hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"  # FIPS 197, appendix C.1


@pytest.mark.parametrize("vector", [v for v in VECTORS["positive"] if "tags" in v], ids=lambda v: v["name"])
def test_the_reference_computes_the_same_tags_and_shares(vector: dict[str, Any]) -> None:
    for server in (0, 1):
        tags, words = seen(vector, server)
        assert [tag.hex() for tag in tags] == vector["tags"][server]
        for level, nodes in enumerate(words):
            found = [[str(word) for word in nodes[path]] for path in sorted(nodes)]
            assert found == vector["sums"][server][level]
    assert vector["tags"][0] == vector["tags"][1]


@pytest.mark.parametrize("vector", VECTORS["positive"], ids=lambda v: v["name"])
def test_the_payload_lies_on_the_path_and_nowhere_else(vector: dict[str, Any]) -> None:
    (tags, first), (others, second) = seen(vector, 0), seen(vector, 1)
    assert tags == others
    worth = (1,) if vector["value"] is None else (1, vector["value"])
    for level, nodes in enumerate(first):
        on_path = tuple(vector["path"][: level + 1])
        for path, words in nodes.items():
            difference = tuple((a - b) % 2**64 for a, b in zip(words, second[level][path], strict=True))
            assert difference == (worth if path == on_path else (0,) * len(worth))


@pytest.mark.parametrize("vector", VECTORS["negative"], ids=lambda v: v["name"])
def test_the_reference_rejects_every_forged_report(vector: dict[str, Any]) -> None:
    assert seen(vector, 0)[0] != seen(vector, 1)[0]


@pytest.mark.parametrize("vector", VECTORS["asked"], ids=lambda v: v["name"])
def test_the_reference_rounds_values_as_devices_do(vector: dict[str, Any]) -> None:
    task = bytes.fromhex(vector["task"])
    assert hashlib.sha256(bytes.fromhex(vector["pair"])).digest() == task
    sent = set()
    for device in vector["devices"]:
        word = reference.rounding_word(bytes.fromhex(device["secret"]), task)
        assert str(word) == device["word"]
        found = reference.rounded(device["value"], vector["low"], vector["high"], vector["value_bits"], word)
        assert found == device["sent"]
        sent.add(found)
    assert {0, 2 ** vector["value_bits"] - 1} <= sent or "coordinate" in vector["name"]


def test_there_is_a_vector_for_every_attack() -> None:
    names = [vector["name"] for vector in VECTORS["negative"]]
    second = [
        f"second node by {how} at the {where} level"
        for where in ("first", "middle", "last")
        for how in ("seed", "bit", "both")
    ]
    assert set(names) == {*NAMES, *second}
