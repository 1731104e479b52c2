"""All messages, as frozen values with canonical bytes, and the one codec.

    server -> all      Query              opens a round of the partition: what is asked in which region
    device -> server   Report             names the region a participant is in, and answers if it was drawn
    server -> all      Slice              all reports of one region in a round, by pseudonym
    server -> all      Closed             closes the round: hashes of slices, what follows, a part of the next draw
    server -> all      ValueQuery         opens a round of values: which release, clipped to which range
    device -> server   ValueReport        f at the participant's position, clipped and scaled, through the mechanism
    server -> all      ValueClosed        closes it: how often each output came
    server -> all      Checkpoint, Seal   the transcript's root after a round, in a chain, signed

The task (:mod:`.task`) and the plan of releases (:mod:`.plan`) go through the same codec. Bytes are MessagePack, fields
in the order written here; a message is accepted only if encoding it again gives the same bytes. A region is named by
its codes, ``lower`` to before ``upper``. Knows the form of messages. Whether one is legal at a moment is for the
machines to say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import msgspec

from ..arrays import short_repr
from ..errors import InvalidInput
from .plan import MAX_RELEASES, Plan
from .task import ID_BYTES, Task, read_canonical

PSEUDONYM_BYTES = 16
MAX_ROUND = 2**16
MAX_CODE = 2**63
MAX_RESPONDERS = 2**32
MAX_SUM = 2**53  # sums stay exact in doubles, and no sum of them leaves 64 bits
MAX_FANOUT = 256
MAX_OUTPUT = 2**31
_DRAW = b"semilocal/2/draw"

# What a field of this name holds, in any message: bytes, or an integer from a number to before another.
_BYTES = {
    "task": (ID_BYTES,), "plan": (ID_BYTES,), "pseudonym": (PSEUDONYM_BYTES,), "nonce": (16,), "digest": (32,),
    "root": (32,), "head": (32,), "preimage": (0, 32), "signature": (0, 64),
}  # fmt: skip
_NUMBERS = {
    "round": (1, MAX_ROUND + 1), "drawn": (1, MAX_ROUND + 1), "index": (0, MAX_RELEASES), "threshold": (0, MAX_SUM),
    "reports": (1, MAX_RESPONDERS + 1), "size": (1, 2**63),
}  # fmt: skip

Outcome = Literal["split", "wall", "more"]
Region: TypeAlias = tuple[int, int]  # codes: lower to before upper


class _Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What all messages share: fields are checked by their names, whether a message is made or read."""

    __repr__ = short_repr

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name in _BYTES and len(value) not in _BYTES[name]:
                raise InvalidInput(f"{name} must be {' or '.join(map(str, _BYTES[name]))} bytes; got {len(value)}")
            if name in _NUMBERS and not _NUMBERS[name][0] <= value < _NUMBERS[name][1]:
                low, high = _NUMBERS[name]
                raise InvalidInput(f"{name} must be from {low} to {high - 1}; got {value}")

    def to_bytes(self) -> bytes:
        """Canonical bytes."""
        return _encoder.encode(self)


class _Regional(_Message, frozen=True):
    """A message that names a region by the codes ``lower`` to before ``upper``."""

    if TYPE_CHECKING:  # fields of the messages

        @property
        def lower(self) -> int: ...

        @property
        def upper(self) -> int: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_regions([self.region])

    @property
    def region(self) -> tuple[int, int]:
        """Its codes: lower to before upper."""
        return self.lower, self.upper


class Question(_Regional, frozen=True):
    """What is asked in one region: "which part are you in?", put to drawn members."""

    lower: int  # the region: codes lower to before upper
    upper: int
    cuts: tuple[int, ...]  # codes where the parts meet, ascending, strictly inside the region; one with rule "cut"
    asked: int  # m: how many members were drawn for the question. The threshold is for this number
    start: int  # the places in the draw that answer in this round: from start to before stop
    stop: int
    drawn: int  # the round whose seed draws; an earlier one if this is the second portion of a question
    # t: the region splits if every part gets at least so many answers. 0: nothing is decided, the answers only refine
    # the estimate of an ended region
    threshold: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(self.cuts) < MAX_FANOUT or any(one >= other for one, other in self.parts):
            raise InvalidInput("the cuts of a question must ascend, strictly inside its region")
        if not 0 <= self.start < self.stop <= self.asked <= MAX_RESPONDERS:
            raise InvalidInput("a question asks places start to before stop of the asked ones")

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """The parts that the cuts make."""
        return tuple(pairwise((self.lower, *self.cuts, self.upper)))

    @property
    def decides(self) -> bool:
        """Whether the region may split by it."""
        return self.threshold > 0


class Query(_Message, frozen=True, tag="query"):
    """Opens a round of the partition.

    Attributes
    ----------
    task : bytes
        The task's id.
    round : int
        From 1. Round 1 asks nothing: who reports in it is on the roster.
    questions : tuple of Question
        At most one per region, ascending.
    """

    task: bytes
    round: int
    questions: tuple[Question, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_regions([question.region for question in self.questions])


class Report(_Regional, frozen=True, tag="report"):
    """A participant says which region it is in, and answers if it was drawn.

    Attributes
    ----------
    task, round
        Of the query.
    pseudonym : bytes
        Who; 16 bytes, for this task only.
    lower, upper : int
        The participant's region (public by design).
    answer : int, tuple of int or None
        The randomizer's answer to the region's question; None where only the region is announced.
    nonce : bytes
        16 bytes that nobody else can predict: the participant's part of the next draw.
    """

    task: bytes
    round: int
    pseudonym: bytes
    lower: int
    upper: int
    answer: int | tuple[int, ...] | None
    nonce: bytes


class Entry(_Message, frozen=True):
    """A report inside a slice."""

    pseudonym: bytes
    answer: int | tuple[int, ...] | None
    nonce: bytes


class Slice(_Regional, frozen=True, tag="slice"):
    """All reports that name one region in a round, ascending by pseudonym. Follows from the transcript's reports."""

    task: bytes
    round: int
    lower: int
    upper: int
    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(one.pseudonym >= other.pseudonym for one, other in pairwise(self.entries)):
            raise InvalidInput("the entries of a slice must ascend by pseudonym, each once")

    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes (32 bytes)."""
        return hashlib.sha256(self.to_bytes()).digest()


class Head(_Regional, frozen=True):
    """What a closing says about a region's slice: how many reports it has, and its hash."""

    lower: int
    upper: int
    reports: int
    digest: bytes


class Verdict(_Message, frozen=True):
    """What follows from the answers to a question so far."""

    # "split": the region is cut; "wall": it is not, and the question is over; "more": the second portion is asked in
    # the next round
    outcome: Outcome
    tally: tuple[int, ...]  # sums of all answers to the question, of both portions: one number per part

    def __post_init__(self) -> None:
        if not 2 <= len(self.tally) <= MAX_FANOUT or not all(-MAX_SUM < number < MAX_SUM for number in self.tally):
            raise InvalidInput(f"a tally has 2 to {MAX_FANOUT} numbers below 2^53 in absolute value")


class Closed(_Message, frozen=True, tag="closed"):
    """Closes a round of the partition.

    Attributes
    ----------
    task, round
        As in the query.
    heads : tuple of Head
        The slices of all regions that somebody named, ascending.
    verdicts : tuple of Verdict
        One per question of the query, in its order.
    preimage : bytes
        The next preimage of the task's hash chain; empty if the task has none.
    finished : bool
        Whether the partition is finished.
    """

    task: bytes
    round: int
    heads: tuple[Head, ...]
    verdicts: tuple[Verdict, ...]
    preimage: bytes
    finished: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_regions([head.region for head in self.heads])


class Clip(_Regional, frozen=True):
    """A region of a round of values, and the range that values are clipped to there."""

    lower: int
    upper: int
    low: float
    high: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low <= self.high < float("inf") or self.low == float("-inf"):
            raise InvalidInput(f"values are clipped to a finite range; got {self.low} to {self.high}")


class ValueQuery(_Message, frozen=True, tag="value-query"):
    """Asks everybody with a region for the value of one release."""

    task: bytes
    round: int  # numbered on from the partition's last round
    plan: bytes  # digest of the plan
    index: int  # which release of the plan
    clips: tuple[Clip, ...]  # all regions, ascending

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_regions([clip.region for clip in self.clips])


class ValueReport(_Regional, frozen=True, tag="value-report"):
    """A participant's value: an integer of the mechanism's alphabet."""

    task: bytes  # of the query
    round: int
    pseudonym: bytes
    lower: int  # the participant's region (public by design)
    upper: int
    answer: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if abs(self.answer) >= MAX_OUTPUT:
            raise InvalidInput(f"answer must be below 2^31; got {self.answer}")


class ValueClosed(_Message, frozen=True, tag="value-closed"):
    """Closes a round of values."""

    task: bytes  # as in the query
    round: int
    plan: bytes
    index: int
    regions: tuple[tuple[int, int], ...]  # regions with reports, ascending
    # per region the outputs that were reported, ascending, and how often
    counts: tuple[tuple[tuple[int, int], ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_regions(self.regions)
        if len(self.regions) != len(self.counts):
            raise InvalidInput("regions and counts must have one entry per region each")
        for row in self.counts:
            outputs = [output for output, _ in row]
            if not row or outputs != sorted(set(outputs)) or any(count < 1 for _, count in row):
                raise InvalidInput("counts must have ascending outputs that were reported at least once")

    @property
    def responders(self) -> tuple[int, ...]:
        """Reports per region."""
        return tuple(sum(count for _, count in row) for row in self.counts)


class Checkpoint(_Message, frozen=True, tag="checkpoint"):
    """The transcript's root after a round."""

    task: bytes
    round: int
    size: int  # number of events so far
    root: bytes  # merkle tree hash over them


class Seal(_Message, frozen=True, tag="seal"):
    """A checkpoint in the chain, signed if the task pins a key."""

    checkpoint: Checkpoint
    head: bytes  # of the chain, after this checkpoint
    signature: bytes = b""  # 64 bytes; empty if it is not signed


AnyQuery: TypeAlias = Query | ValueQuery
AnyReport: TypeAlias = Report | ValueReport
AnyClosed: TypeAlias = Closed | ValueClosed
Event: TypeAlias = Task | Plan | AnyQuery | AnyReport | AnyClosed  # what a transcript holds
Message: TypeAlias = Event | Slice | Checkpoint | Seal
M = TypeVar("M", bound=msgspec.Struct)

_encoder = msgspec.msgpack.Encoder()
_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(kind)
    for kind in (Task, Plan, Query, Report, Slice, Closed, ValueQuery, ValueReport, ValueClosed, Checkpoint, Seal)
}
_queries, _reports, _closings, _arrays = (
    msgspec.msgpack.Decoder(kinds)
    for kinds in (AnyQuery, AnyReport, AnyClosed, Plan | AnyQuery | AnyReport | AnyClosed)
)
_MAPS = frozenset([*range(0x80, 0x90), 0xDE, 0xDF])  # first bytes of a MessagePack map


def encode(message: Message) -> bytes:
    """Canonical bytes of a message."""
    return _encoder.encode(message)


def decode(data: bytes, kind: type[M]) -> M:
    """The message of one kind in canonical bytes; anything else is refused with a reason."""
    return read_canonical(data, _decoders[kind], kind.__name__)  # type: ignore[no-any-return]


def decode_query(data: bytes) -> AnyQuery:
    """The query of a round of either kind in canonical bytes."""
    return read_canonical(data, _queries, "Query or ValueQuery")  # type: ignore[no-any-return]


def decode_report(data: bytes) -> AnyReport:
    """The report of either kind in canonical bytes."""
    return read_canonical(data, _reports, "Report or ValueReport")  # type: ignore[no-any-return]


def decode_closed(data: bytes) -> AnyClosed:
    """The closing of a round of either kind in canonical bytes."""
    return read_canonical(data, _closings, "Closed or ValueClosed")  # type: ignore[no-any-return]


def decode_event(data: bytes) -> Event:
    """The message of a transcript in canonical bytes, whichever it is."""
    if data[:1] and data[0] in _MAPS:
        return decode(data, Task)
    return read_canonical(data, _arrays, "message of a transcript")  # type: ignore[no-any-return]


def seed_of(closed: Closed) -> bytes:
    """What draws the members of the round after a closing: SHA-256 of its bytes, nonces and preimage included."""
    return hashlib.sha256(_DRAW + encode(closed)).digest()


def prefix_of(kind: type[msgspec.Struct]) -> bytes:
    """The first bytes of every message of a kind other than Task: the array's header and the tag."""
    tag = str(kind.__struct_config__.tag).encode()
    return bytes([0x91 + len(kind.__struct_fields__), 0xA0 + len(tag)]) + tag


def _check_regions(regions: Sequence[tuple[int, int]]) -> None:
    end = 0
    for lower, upper in regions:
        if not 0 <= lower < upper <= MAX_CODE:
            raise InvalidInput(f"a region is codes lower to before upper, below 2^63; got {lower} to {upper}")
        if lower < end:
            raise InvalidInput(f"regions must ascend and not overlap; got one that begins at {lower}, before {end}")
        end = upper
