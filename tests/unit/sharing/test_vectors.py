"""The vectors of shared reports, played by the package and by an evaluator written from the text alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_sharing as reference
from sharing_forgeries import halves

from semilocal.sharing.report import Shape, SharedReport, shard
from semilocal.sharing.verify import ROOT, LevelShare, Parameter, is_valid

SPEC = Path(__file__).parents[3] / "spec"
VECTORS = json.loads((SPEC / "vectors" / "sharing.json").read_text(encoding="utf-8"))
LIES = {
    "worth nobody", "worth two people", "worth minus one person", "worth one person and 2^63",
    "another count from level 2 on", "another value from level 2 on", "random bytes",
    "the helper's seed of another device", "an honest report under another id", "an honest report of another task",
    "a value out of range", "another value than the value tree's", "a leaf of the value tree worth two",
    "equal seeds and flipped control bits", "one bit flipped", "a level is skipped", "a level is asked twice",
    "a cell below one that was not opened", "a cell twice", "cells out of order", "not from the root",
}  # fmt: skip


def unhexed(pair: Sequence[str]) -> tuple[bytes, bytes]:
    return bytes.fromhex(pair[0]), bytes.fromhex(pair[1])


class Package:
    """The package, asked one operation at a time."""

    def __init__(self, vector: dict[str, Any]) -> None:
        self.vector, self.shape = vector, Shape(vector["levels"], vector["value_bits"])
        self.task = bytes.fromhex(vector["task"])
        reports = [
            SharedReport(bytes.fromhex(one["nonce"]), bytes.fromhex(one["public"]), unhexed(one["private"]))
            for one in vector["reports"]
        ]
        self.halves = halves(self.shape, reports, self.task)
        self.parameters = [
            Parameter(one["level"], np.array([int(f"1{path}", 2) for path in one["frontier"]], np.uint64))
            for one in vector["parameters"]
        ]
        self.shares: list[LevelShare] = []

    def shard(self, report: int) -> bool:
        one = self.vector["reports"][report]
        entropy = bytes.fromhex("".join(one["private"]))
        made = shard(self.task, bytes.fromhex(one["nonce"]), self.shape, one["path"], entropy, value=one["value"])
        return bool(made.public.hex() == one["public"])

    def is_valid(self, parameter: int) -> bool:
        return is_valid(self.parameters[parameter], self.parameters[parameter - 1] if parameter else None)

    def verify_init(self, server: int, parameter: int) -> bool:
        half, now = self.halves[server], self.parameters[parameter]
        if now.level:
            half.open(np.searchsorted(half.parameter.children, now.frontier))
        self.shares = [*self.shares[-1:], share := half.verify_init()]
        return bool([row.tobytes().hex() for row in share.tags] == self.vector["tags"][server][parameter])

    def verify_next(self, parameter: int, report: int) -> bool:
        first, second = self.vector["tags"]
        return bool(first[parameter][report] == second[parameter][report])

    def aggregate(self, server: int, parameter: int) -> bool:
        sums = [[str(word) for word in row] for row in self.shares[server].sums.tolist()]
        return bool(sums == self.vector["sums"][server][parameter])

    def unshard(self, parameter: int) -> bool:
        found = (self.shares[0].sums - self.shares[1].sums).astype(np.int64)
        return bool(found.tolist() == self.vector["results"][parameter])


@pytest.mark.parametrize("vector", VECTORS["positive"] + VECTORS["negative"], ids=lambda v: v["name"])
def test_the_package_does_every_operation_as_the_vector_says(vector: dict[str, Any]) -> None:
    package = Package(vector)
    for step in vector["operations"]:
        asked = {name: value for name, value in step.items() if name not in ("operation", "success")}
        assert getattr(package, step["operation"])(**asked) == step["success"], step
    failed = [step for step in vector["operations"] if not step["success"]]
    assert failed == (vector["operations"][-1:] if vector in VECTORS["negative"] else [])


def seen(vector: dict[str, Any], report: dict[str, Any], server: int) -> tuple[list[bytes], Sequence[Any]]:
    """What the reference makes of a report, at every level that was evaluated."""
    frontiers = [[tuple(map(int, path)) for path in one["frontier"]] for one in vector["parameters"]]
    return reference.evaluate(
        bytes.fromhex(vector["task"]), bytes.fromhex(report["nonce"]), vector["levels"], vector["value_bits"], server,
        bytes.fromhex(report["public"]), bytes.fromhex(report["private"][server]),
        frontiers[: len(vector["tags"][server])],
    )  # fmt: skip


def test_the_reference_has_a_right_aes() -> None:
    key, plain = bytes(range(16)), bytes.fromhex("00112233445566778899aabbccddeeff")
    assert reference.Aes(key)(plain).hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"  # FIPS 197, appendix C.1


@pytest.mark.parametrize("vector", VECTORS["positive"] + VECTORS["negative"], ids=lambda v: v["name"])
def test_the_reference_computes_the_same_tags_and_shares(vector: dict[str, Any]) -> None:
    for server in (0, 1):
        found = [seen(vector, report, server) for report in vector["reports"]]
        assert [[tags[level].hex() for tags, _ in found] for level in range(len(found[0][0]))] == vector["tags"][server]
        for level, expected in enumerate(vector["sums"][server]):
            nodes = [words[level] for _, words in found]
            sums = [
                [str(sum(one[path][word] for one in nodes) % 2**64) for word in range(len(nodes[0][path]))]
                for path in sorted(nodes[0])
            ]
            assert sums == expected


@pytest.mark.parametrize("vector", VECTORS["positive"], ids=lambda v: v["name"])
def test_the_payload_lies_on_the_path_and_nowhere_else(vector: dict[str, Any]) -> None:
    for report in vector["reports"]:
        (tags, first), (others, second) = seen(vector, report, 0), seen(vector, report, 1)
        assert tags == others
        worth = (1,) if report["value"] is None else (1, report["value"])
        for level, nodes in enumerate(first):
            on_path = tuple(report["path"][: level + 1])
            for path, words in nodes.items():
                difference = tuple((a - b) % 2**64 for a, b in zip(words, second[level][path], strict=True))
                assert difference == (worth if path == on_path else (0,) * len(worth))


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


@pytest.mark.parametrize("vector", VECTORS["envelopes"], ids=lambda v: v["role"])
def test_the_reference_binds_envelopes_to_the_same_bytes(vector: dict[str, Any]) -> None:
    task, report, public = (bytes.fromhex(vector[name]) for name in ("task", "report", "public"))
    found = reference.envelope_info(vector["role"], task, report, public, vector["bucket"], vector["token"])
    assert found.hex() == vector["info"]


def test_there_is_a_vector_for_every_lie() -> None:
    second = {
        f"in two places from the {where} level on, by {how}"
        for where in ("first", "middle", "last")
        for how in ("the seed", "the control bit", "both")
    }
    assert {vector["name"] for vector in VECTORS["negative"]} == LIES | second
    assert is_valid(ROOT, None)
