"""Bytes: every message has one form, and whatever else arrives is refused as malformed, never anything worse."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_client import pack

from semilocal import (
    BinaryTree,
    Box,
    Closed,
    DiscreteLaplace,
    PaperLaplace,
    Quadtree,
    Query,
    RandomizedResponse,
    Report,
    Task,
)
from semilocal.errors import InvalidInput
from semilocal.protocol.messages import Message, decode, encode
from semilocal.protocol.task import Rule
from semilocal.testing import unit_box
from tests.helpers.pair import STEADY

KINDS: tuple[Any, ...] = (Task, Query, Report, Closed)

ids = st.binary(min_size=32, max_size=32)
rounds = st.integers(1, 65536)
cell = st.integers(1, 2**64 - 1)
cells = st.sets(cell, max_size=6).map(lambda found: tuple(sorted(found)))
sums = st.lists(st.integers(-(2**53) + 1, 2**53 - 1), max_size=9).map(tuple)
children = st.sets(st.integers(0, 255), max_size=9).map(lambda found: tuple(sorted(found)))
queries = st.builds(Query, ids, rounds, cells)
word = st.integers(-(2**63), 2**64 - 1)
answers = st.none() | word | st.lists(word, max_size=9).map(tuple)
reports = st.builds(Report, ids, rounds, st.binary(min_size=16, max_size=16), cell, answers)


@st.composite
def closings(draw: st.DrawFn) -> Closed:
    asked = draw(cells)
    sizes = tuple(draw(st.integers(0, 2**32)) for _ in asked)
    tallies, kept = (tuple(draw(rows) for _ in asked) for rows in (sums, children))
    return Closed(draw(ids), draw(rounds), asked, sizes, tallies, kept)


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    low = draw(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=4))
    box = Box(tuple(low), tuple(value + draw(st.floats(1.0, 1e6)) for value in low))
    depth = draw(st.integers(1, 5))
    tree: BinaryTree | Quadtree = BinaryTree(box, depth) if draw(st.booleans()) else Quadtree(box, depth)
    epsilon = draw(st.floats(0.001, 40.0))
    kinds: list[RandomizedResponse | DiscreteLaplace | PaperLaplace] = [
        RandomizedResponse(epsilon, tree.fanout),
        DiscreteLaplace(epsilon, tree.fanout),
        PaperLaplace(2.0 / epsilon, tree.fanout, "paper"),
    ]
    noise = draw(st.sampled_from(kinds))
    rules: list[Rule] = ["all", "trim", "each"]
    rule = draw(st.sampled_from(rules))
    return Task(
        hierarchy=tree, randomizer=noise, rule=rule, k=draw(st.integers(1, 2**20)),
        delta=draw(st.floats(1e-15, 0.5, exclude_max=True)),
        max_trims=draw(st.integers(0, 255)) if rule == "trim" else 0,
        tau=draw(st.floats(1e-9, 0.5, exclude_max=True)), accounting=draw(st.sampled_from(["core", "uniform"])),
        max_rounds=draw(st.integers(1, depth)), quorum=draw(st.floats(1e-9, 1.0)), window=draw(st.integers(1, 10**8)),
        server_key=draw(st.sampled_from([b"", bytes(range(32))])),
    )  # fmt: skip


messages = queries | reports | closings() | tasks()
SOME = settings(STEADY, max_examples=50)  # other ones in every test


@SOME
@given(messages)
def test_decoding_encoded_bytes_gives_the_message_back(message: Message) -> None:
    data = encode(message)
    kind: Any = type(message)
    assert decode(data, kind) == message
    assert encode(decode(data, kind)) == data


@SOME
@given(messages)
def test_the_bytes_are_the_specification_s(message: Message) -> None:
    """Against the second implementation of canonical MessagePack."""
    fields = msgspec.to_builtins(message, builtin_types=(bytes,))
    assert encode(message) == pack(fields)


@SOME
@given(messages)
def test_a_message_is_of_one_kind(message: Message) -> None:
    for kind in KINDS:
        if not isinstance(message, kind):
            with pytest.raises(InvalidInput):
                decode(encode(message), kind)


@SOME
@given(tasks())
def test_the_id_of_a_task_is_the_hash_of_its_bytes(task: Task) -> None:
    assert task.id == hashlib.sha256(encode(task)).digest() == decode(encode(task), Task).id


@SOME
@given(messages)
def test_messages_are_frozen(message: Message) -> None:
    for field in message.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(message, field, getattr(message, field))


@SOME
@given(messages, st.data())
def test_no_prefix_and_no_extension_of_a_message_is_a_message(message: Message, data: st.DataObject) -> None:
    raw = encode(message)
    kind: Any = type(message)
    with pytest.raises(InvalidInput):
        decode(raw[: data.draw(st.integers(0, len(raw) - 1))], kind)
    with pytest.raises(InvalidInput):
        decode(raw + data.draw(st.binary(min_size=1, max_size=20)), kind)


def samples() -> list[bytes]:
    """One of each kind, and long ones."""
    task = Task.build(unit_box(2), epsilon=1.0, delta=0.05, k=20)
    many = tuple(range(64, 128))
    return [
        encode(message)
        for message in (
            task,
            Task.paper(unit_box(3), epsilon=1.0, delta=0.05, k=20),
            Query(task.id, 1, (1,)),
            Query(task.id, 7, many),
            Report(task.id, 2, bytes(16), 3, 1),
            Report(task.id, 2, bytes(16), 3, (5, -9, 1000, -100000)),
            Report(task.id, 2, bytes(16), 3, None),
            Closed(task.id, 1, (1,), (1000,), ((730, 270),), ((0,),)),
            Closed(task.id, 7, many, (300,) * 64, ((150, 150),) * 64, ((0, 1),) * 64),
        )
    ]


def mutate(data: bytes, rng: np.random.Generator, pool: list[bytes]) -> bytes:
    """A few random changes: flips, new bytes, cuts, repeats, and pieces of other messages."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(0, len(out) + 1))
        to = min(at + int(rng.integers(1, 9)), len(out))
        match int(rng.integers(0, 6)):
            case 0 if at < len(out):
                out[at] ^= 1 << int(rng.integers(0, 8))
            case 1 if at < len(out):
                out[at] = int(rng.integers(0, 256))
            case 2:
                out[at:at] = rng.bytes(int(rng.integers(1, 9)))
            case 3:
                del out[at:to]
            case 4:
                out[at:at] = out[at:to]
            case _:
                other = pool[int(rng.integers(0, len(pool)))]
                start = int(rng.integers(0, len(other)))
                out[at:to] = other[start : start + int(rng.integers(1, 40))]
    return bytes(out)


def test_decoding_anything_gives_a_message_with_these_bytes_or_invalid_input() -> None:
    """5,000 inputs, random and mutated, read as every kind: no other error, and never a second form of a message.

    The seed is fixed and nothing is estimated, so there is no false alarm.
    """
    rng, pool = np.random.default_rng(11), samples()
    read = 0
    for number in range(5000):
        if number % 5 == 0:
            data = rng.bytes(int(rng.integers(0, 120)))
        else:
            data = mutate(pool[int(rng.integers(0, len(pool)))], rng, pool)
        for kind in KINDS:
            try:
                message = decode(data, kind)
            except InvalidInput:
                continue
            assert encode(message) == data
            read += 1
    assert read > 100  # some mutations are messages again: the test is not vacuous


def test_a_lenient_decoder_is_caught() -> None:
    """Planted bug: a decoder without the canonical check takes second forms of messages, which the fuzzing finds."""
    rng, pool = np.random.default_rng(11), samples()
    found = 0
    for _ in range(5000):
        data = mutate(pool[int(rng.integers(0, len(pool)))], rng, pool)
        for kind in KINDS:
            try:
                found += msgspec.msgpack.encode(msgspec.msgpack.decode(data, type=kind)) != data
            except (msgspec.DecodeError, ValueError):
                continue
    assert found > 0


@pytest.mark.parametrize("depth", [100, 10_000, 1_000_000])
@pytest.mark.parametrize("bracket", [b"\x91", b"\x81\x01", b"\xdd\x00\x00\x00\x01"])
def test_deep_nesting_is_refused(depth: int, bracket: bytes) -> None:
    for kind in KINDS:
        with pytest.raises(InvalidInput):
            decode(bracket * depth + b"\x01", kind)
        with pytest.raises(InvalidInput):
            decode(b"\x94\xa5query\xc4\x20" + bytes(32) + b"\x01" + bracket * depth + b"\x01", kind)


@pytest.mark.parametrize("claimed", [2**16, 2**28, 2**32 - 1])
@pytest.mark.parametrize("header", [0xDD, 0xDF, 0xDB, 0xC6, 0xC9])
def test_a_huge_length_that_is_only_claimed_is_refused_at_once(claimed: int, header: int) -> None:
    lie = bytes([header]) + claimed.to_bytes(4, "big")
    for data in (lie, b"\x94\xa5query\xc4\x20" + bytes(32) + b"\x01" + lie, b"\x94\xa5query" + lie):
        for kind in KINDS:
            with pytest.raises(InvalidInput):
                decode(data, kind)
