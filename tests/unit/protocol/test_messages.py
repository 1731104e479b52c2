"""Bytes: every message has one form, and whatever else arrives is refused as malformed, never anything worse."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from reference_client import pack

from semilocal import Closed, Query, Report, Task
from semilocal.errors import InvalidInput
from semilocal.protocol.messages import (
    Clip,
    Entry,
    Head,
    Message,
    Question,
    Slice,
    ValueClosed,
    ValueQuery,
    ValueReport,
    Verdict,
    decode,
    encode,
)
from semilocal.testing import unit_box

KINDS: tuple[Any, ...] = (Task, Query, Report, Slice, Closed, ValueQuery, ValueReport, ValueClosed)


def samples() -> list[Message]:
    """One of each kind, and long ones."""
    task = Task.build(unit_box(2), epsilon=1.0, delta=0.05, k=20)
    question = Question(4, 8, (5,), 40, 0, 14, 2, 9)
    many = tuple(Question(row, row + 1 + 2, (row + 1,), 9, 0, 9, 7, 5) for row in range(64, 256, 3))
    entries = tuple(Entry(bytes([row]) * 16, row % 2, bytes(16)) for row in range(20))
    part = Slice(task.id, 2, 4, 8, entries)
    head = Head(4, 8, 20, part.digest())
    return [
        task,
        Task.paper(unit_box(3), epsilon=1.0, delta=0.05, k=20),
        Query(task.id, 1, ()),
        Query(task.id, 2, (question,)),
        Query(task.id, 7, many),
        Report(task.id, 2, bytes(16), 4, 8, 1, bytes(16)),
        Report(task.id, 2, bytes(16), 4, 8, (5, -9, 1000, -100000), bytes(16)),
        Report(task.id, 2, bytes(16), 4, 8, None, bytes(16)),
        part,
        Closed(task.id, 2, (head,), (Verdict("split", (12, 8)),), bytes(32), False),
        Closed(task.id, 1, (head,), (), b"", True),
        ValueQuery(task.id, 9, bytes(32), 0, (Clip(4, 8, 0.0, 1.0),)),
        ValueReport(task.id, 9, bytes(16), 4, 8, -1),
        ValueClosed(task.id, 9, bytes(32), 0, ((4, 8),), (((-1, 3), (1, 17)),)),
    ]


SAMPLES = samples()


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_the_bytes_are_the_specification_s_and_no_prefix_or_extension_is_a_message(message: Message) -> None:
    """Against the second implementation of canonical MessagePack."""
    data, kind = encode(message), type(message)
    assert data == pack(msgspec.to_builtins(message, builtin_types=(bytes,)))
    assert decode(data, kind) == message
    for broken in (*(data[:end] for end in range(len(data))), data + b"\x00", data + data):
        with pytest.raises(InvalidInput):
            decode(broken, kind)


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
    rng, pool = np.random.default_rng(11), list(map(encode, SAMPLES))
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
    rng, pool = np.random.default_rng(11), list(map(encode, SAMPLES))
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
