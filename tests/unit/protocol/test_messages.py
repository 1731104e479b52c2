"""Bytes: every message has one form, and whatever else arrives is refused as malformed, never anything worse."""

from __future__ import annotations

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
from semilocal.protocol.messages import (
    Clip,
    Entry,
    Head,
    Message,
    Outcome,
    Question,
    Slice,
    ValueClosed,
    ValueQuery,
    ValueReport,
    Verdict,
    decode,
    encode,
    seed_of,
)
from semilocal.protocol.task import Rule
from semilocal.testing import unit_box
from tests.helpers.pair import STEADY

KINDS: tuple[Any, ...] = (Task, Query, Report, Slice, Closed, ValueQuery, ValueReport, ValueClosed)

ids = st.binary(min_size=32, max_size=32)
names = st.binary(min_size=16, max_size=16)
rounds = st.integers(1, 65536)
edges = st.sets(st.integers(0, 2**63), min_size=2, max_size=8).map(sorted)
regions = edges.map(lambda found: tuple(zip(found[::2], found[1::2], strict=False)))
region = regions.map(lambda found: found[0])
word = st.integers(-(2**63), 2**64 - 1)
answers = st.none() | word | st.lists(word, max_size=9).map(tuple)
sums = st.lists(st.integers(-(2**53) + 1, 2**53 - 1), min_size=2, max_size=9).map(tuple)
reports = st.builds(
    lambda task, round_, name, where, answer, own: Report(task, round_, name, where[0], where[1], answer, own),
    ids, rounds, names, region, answers, names,
)  # fmt: skip
value_reports = st.builds(
    lambda task, round_, name, where, answer: ValueReport(task, round_, name, where[0], where[1], answer),
    ids, rounds, names, region, st.integers(-(2**31) + 1, 2**31 - 1),
)  # fmt: skip


@st.composite
def questions(draw: st.DrawFn) -> Question:
    found = draw(st.sets(st.integers(0, 2**63), min_size=3, max_size=9).map(sorted))
    start, stop, asked = sorted(draw(st.sets(st.integers(0, 2**32), min_size=3, max_size=3)))
    threshold = draw(st.integers(0, 2**53 - 1))
    return Question(found[0], found[-1], tuple(found[1:-1]), asked, start, stop, draw(rounds), threshold)


queries = st.builds(
    lambda task, round_, one: Query(task, round_, tuple(one)), ids, rounds, st.lists(questions(), max_size=1)
)


@st.composite
def slices(draw: st.DrawFn) -> Slice:
    people = sorted(draw(st.sets(names, max_size=5)))
    entries = tuple(Entry(name, draw(answers), draw(names)) for name in people)
    return Slice(draw(ids), draw(rounds), *draw(region), entries)


@st.composite
def closings(draw: st.DrawFn) -> Closed:
    heads = tuple(Head(*where, draw(st.integers(1, 2**32)), draw(ids)) for where in draw(regions))
    outcomes: st.SearchStrategy[Outcome] = st.sampled_from(["split", "wall", "more"])
    verdicts = tuple(Verdict(draw(outcomes), draw(sums)) for _ in range(draw(st.integers(0, 4))))
    return Closed(draw(ids), draw(rounds), heads, verdicts, draw(st.just(b"") | ids), draw(st.booleans()))


@st.composite
def value_queries(draw: st.DrawFn) -> ValueQuery:
    clips = []
    for where in draw(regions):
        low, high = sorted(draw(st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))))
        clips.append(Clip(*where, low, high))
    return ValueQuery(draw(ids), draw(rounds), draw(ids), draw(st.integers(0, 7)), tuple(clips))


@st.composite
def value_closings(draw: st.DrawFn) -> ValueClosed:
    found = draw(regions)
    outputs = st.dictionaries(st.integers(-100, 100), st.integers(1, 2**31), min_size=1, max_size=4)
    counts = tuple(tuple(sorted(draw(outputs).items())) for _ in found)
    return ValueClosed(draw(ids), draw(rounds), draw(ids), draw(st.integers(0, 7)), found, counts)


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
    rules: list[Rule] = ["all", "cut"] if noise == RandomizedResponse(epsilon, 2) else ["all"]
    rule = draw(st.sampled_from(rules))
    return Task(
        hierarchy=tree, randomizer=noise, rule=rule, k=draw(st.integers(1, 2**20)),
        delta=draw(st.floats(1e-15, 0.5, exclude_max=True)), answers=draw(st.integers(1, 64 if rule == "cut" else 1)),
        max_rounds=draw(st.integers(1, 1000)), quorum=draw(st.floats(1e-9, 1.0)), window=draw(st.integers(1, 10**8)),
        server_key=draw(st.sampled_from([b"", bytes(range(32))])), chain=draw(st.just(b"") | ids),
    )  # fmt: skip


messages = queries | reports | slices() | closings() | tasks() | value_queries() | value_reports | value_closings()
SOME = settings(STEADY, max_examples=50)  # other ones in every test


@SOME
@given(messages)
def test_the_bytes_are_the_specification_s(message: Message) -> None:
    """Against the second implementation of canonical MessagePack."""
    fields = msgspec.to_builtins(message, builtin_types=(bytes,))
    assert encode(message) == pack(fields)


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
    question = Question(4, 8, (5,), 40, 0, 14, 2, 9)
    many = tuple(Question(row, row + 1 + 2, (row + 1,), 9, 0, 9, 7, 5) for row in range(64, 256, 3))
    entries = tuple(Entry(bytes([row]) * 16, row % 2, bytes(16)) for row in range(20))
    part = Slice(task.id, 2, 4, 8, entries)
    head = Head(4, 8, 20, part.digest())
    return [
        encode(message)
        for message in (
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


QUESTION = (4, 8, (5, 6), 40, 0, 14, 2, 9)


@pytest.mark.parametrize(
    "changes",
    [{0: 8}, {0: -1}, {1: 2**63 + 1}, {2: ()}, {2: (4,)}, {2: (8,)}, {2: (6, 5)}, {2: (5, 5)}, {3: 13}, {4: 14},
     {4: -1}, {6: 0}, {7: -1}],
)  # fmt: skip
def test_impossible_questions_are_refused(changes: dict[int, Any]) -> None:
    Question(*QUESTION)
    with pytest.raises(InvalidInput):
        Question(*[changes.get(row, value) for row, value in enumerate(QUESTION)])


def test_a_question_has_parts_and_decides_if_it_has_a_threshold() -> None:
    question = Question(*QUESTION)
    assert question.parts == ((4, 5), (5, 6), (6, 8))
    assert question.decides
    assert not msgspec.structs.replace(question, threshold=0).decides


def test_regions_of_a_message_ascend_and_do_not_overlap() -> None:
    one, other = (Question(lower, lower + 4, (lower + 1,), 2, 0, 2, 2, 1) for lower in (4, 6))
    with pytest.raises(InvalidInput, match="not overlap"):
        Query(bytes(32), 2, (one, other))
    with pytest.raises(InvalidInput, match="not overlap"):
        Closed(bytes(32), 2, (Head(4, 8, 1, bytes(32)), Head(0, 4, 1, bytes(32))), (), b"", False)


def test_entries_of_a_slice_ascend_each_name_once() -> None:
    entry = Entry(bytes(16), None, bytes(16))
    with pytest.raises(InvalidInput, match="ascend"):
        Slice(bytes(32), 1, 4, 8, (entry, entry))


def test_the_seed_of_a_draw_changes_with_everything_in_a_closing() -> None:
    head = Head(4, 8, 20, bytes(32))
    closed = Closed(bytes(32), 2, (head,), (Verdict("wall", (12, 8)),), bytes(32), False)
    others = [
        msgspec.structs.replace(closed, round=3),
        msgspec.structs.replace(closed, heads=(msgspec.structs.replace(head, digest=b"1" * 32),)),
        msgspec.structs.replace(closed, preimage=b"1" * 32),
        msgspec.structs.replace(closed, verdicts=(Verdict("wall", (11, 9)),)),
    ]
    assert len({seed_of(one) for one in (closed, *others)}) == 5
