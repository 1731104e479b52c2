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
from .canonical import read_canonical
from .plan import MAX_RELEASES, Plan
from .task import ID_BYTES, Task

__all__ = [
    "AnyClosed", "AnyQuery", "AnyReport", "Checkpoint", "Clip", "Closed", "Entry", "Event", "Head", "Message", "Query",
    "Question", "Report", "Seal", "Slice", "ValueClosed", "ValueQuery", "ValueReport", "Verdict", "decode",
    "decode_closed", "decode_event", "decode_query", "decode_report", "encode", "prefix_of", "seed_of",
]  # fmt: skip

PSEUDONYM_BYTES = 16
NONCE_BYTES = 16
DIGEST_BYTES = 32
SIGNATURE_BYTES = 64
MAX_ROUND = 2**16
MAX_CODE = 2**63
MAX_RESPONDERS = 2**32
MAX_SUM = 2**53  # sums stay exact in doubles, and no sum of them leaves 64 bits
MAX_FANOUT = 256
MAX_OUTPUT = 2**31
_DRAW = b"semilocal/2/draw"

Outcome = Literal["split", "wall", "more"]


class _Regional:
    """A message that names a region."""

    __slots__ = ()

    if TYPE_CHECKING:  # fields of the messages
        lower: int
        upper: int

    @property
    def region(self) -> tuple[int, int]:
        """Its codes: lower to before upper."""
        return self.lower, self.upper


class Question(_Regional, msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
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
        _check_region(self.lower, self.upper)
        if not 1 <= len(self.cuts) < MAX_FANOUT or any(one >= other for one, other in pairwise(self._edges)):
            raise InvalidInput("the cuts of a question must ascend, strictly inside its region")
        if not 0 <= self.start < self.stop <= self.asked <= MAX_RESPONDERS:
            raise InvalidInput("a question asks places start to before stop of the asked ones")
        if not 1 <= self.drawn <= MAX_ROUND or not 0 <= self.threshold < MAX_SUM:
            raise InvalidInput("a question has the round of its draw, from 1, and a threshold of at least 0")

    @property
    def _edges(self) -> tuple[int, ...]:
        return (self.lower, *self.cuts, self.upper)

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """The parts that the cuts make."""
        return tuple(pairwise(self._edges))

    @property
    def decides(self) -> bool:
        """Whether the region may split by it."""
        return self.threshold > 0


class Query(msgspec.Struct, frozen=True, array_like=True, tag="query", forbid_unknown_fields=True):
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

    __repr__ = short_repr

    def __post_init__(self) -> None:
        _check_header(self.task, self.round)
        _check_regions([question.region for question in self.questions])


class Report(_Regional, msgspec.Struct, frozen=True, array_like=True, tag="report", forbid_unknown_fields=True):
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

    def __post_init__(self) -> None:
        _check_header(self.task, self.round)
        _check_sender(self.pseudonym, self.lower, self.upper)
        if len(self.nonce) != NONCE_BYTES:
            raise InvalidInput(f"nonce must be {NONCE_BYTES} bytes; got {len(self.nonce)}")


class Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A report inside a slice."""

    pseudonym: bytes
    answer: int | tuple[int, ...] | None
    nonce: bytes

    def __post_init__(self) -> None:
        if len(self.pseudonym) != PSEUDONYM_BYTES or len(self.nonce) != NONCE_BYTES:
            raise InvalidInput("the pseudonym and the nonce of an entry are 16 bytes each")


class Slice(_Regional, msgspec.Struct, frozen=True, array_like=True, tag="slice", forbid_unknown_fields=True):
    """All reports that name one region in a round, ascending by pseudonym. Follows from the transcript's reports."""

    task: bytes
    round: int
    lower: int
    upper: int
    entries: tuple[Entry, ...]

    __repr__ = short_repr

    def __post_init__(self) -> None:
        _check_header(self.task, self.round)
        _check_region(self.lower, self.upper)
        if any(one.pseudonym >= other.pseudonym for one, other in pairwise(self.entries)):
            raise InvalidInput("the entries of a slice must ascend by pseudonym, each once")

    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes (32 bytes)."""
        return hashlib.sha256(encode(self)).digest()


class Head(_Regional, msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a closing says about a region's slice: how many reports it has, and its hash."""

    lower: int
    upper: int
    reports: int
    digest: bytes

    def __post_init__(self) -> None:
        _check_region(self.lower, self.upper)
        if not 1 <= self.reports <= MAX_RESPONDERS or len(self.digest) != DIGEST_BYTES:
            raise InvalidInput("a slice has at least one report and a hash of 32 bytes")


class Verdict(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What follows from the answers to a question so far."""

    # "split": the region is cut; "wall": it is not, and the question is over; "more": the second portion is asked in
    # the next round
    outcome: Outcome
    tally: tuple[int, ...]  # sums of all answers to the question, of both portions: one number per part

    def __post_init__(self) -> None:
        if not 2 <= len(self.tally) <= MAX_FANOUT or not all(-MAX_SUM < number < MAX_SUM for number in self.tally):
            raise InvalidInput(f"a tally has 2 to {MAX_FANOUT} numbers below 2^53 in absolute value")


class Closed(msgspec.Struct, frozen=True, array_like=True, tag="closed", forbid_unknown_fields=True):
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

    __repr__ = short_repr

    def __post_init__(self) -> None:
        _check_header(self.task, self.round)
        _check_regions([head.region for head in self.heads])
        if len(self.preimage) not in (0, DIGEST_BYTES):
            raise InvalidInput(f"a preimage has {DIGEST_BYTES} bytes, or none")


class Clip(_Regional, msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A region of a round of values, and the range that values are clipped to there."""

    lower: int
    upper: int
    low: float
    high: float

    def __post_init__(self) -> None:
        _check_region(self.lower, self.upper)
        if not self.low <= self.high < float("inf") or self.low == float("-inf"):
            raise InvalidInput(f"values are clipped to a finite range; got {self.low} to {self.high}")


class ValueQuery(msgspec.Struct, frozen=True, array_like=True, tag="value-query", forbid_unknown_fields=True):
    """Asks everybody with a region for the value of one release."""

    task: bytes
    round: int  # numbered on from the partition's last round
    plan: bytes  # digest of the plan
    index: int  # which release of the plan
    clips: tuple[Clip, ...]  # all regions, ascending

    __repr__ = short_repr

    def __post_init__(self) -> None:
        _check_value_header(self.task, self.round, self.plan, self.index)
        _check_regions([clip.region for clip in self.clips])


class ValueReport(
    _Regional, msgspec.Struct, frozen=True, array_like=True, tag="value-report", forbid_unknown_fields=True
):
    """A participant's value: an integer of the mechanism's alphabet."""

    task: bytes  # of the query
    round: int
    pseudonym: bytes
    lower: int  # the participant's region (public by design)
    upper: int
    answer: int

    def __post_init__(self) -> None:
        _check_header(self.task, self.round)
        _check_sender(self.pseudonym, self.lower, self.upper)
        if abs(self.answer) >= MAX_OUTPUT:
            raise InvalidInput(f"answer must be below 2^31; got {self.answer}")


class ValueClosed(msgspec.Struct, frozen=True, array_like=True, tag="value-closed", forbid_unknown_fields=True):
    """Closes a round of values."""

    task: bytes  # as in the query
    round: int
    plan: bytes
    index: int
    regions: tuple[tuple[int, int], ...]  # regions with reports, ascending
    # per region the outputs that were reported, ascending, and how often
    counts: tuple[tuple[tuple[int, int], ...], ...]

    __repr__ = short_repr

    def __post_init__(self) -> None:
        _check_value_header(self.task, self.round, self.plan, self.index)
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


class Checkpoint(msgspec.Struct, frozen=True, array_like=True, tag="checkpoint", forbid_unknown_fields=True):
    """The transcript's root after a round."""

    task: bytes
    round: int
    size: int  # number of events so far
    root: bytes  # merkle tree hash over them

    def __post_init__(self) -> None:
        if len(self.task) != ID_BYTES or len(self.root) != DIGEST_BYTES:
            raise InvalidInput("task and root of a checkpoint must be 32 bytes each")
        if not 1 <= self.round <= MAX_ROUND or not 1 <= self.size < 2**63:
            raise InvalidInput(f"a checkpoint has a round from 1 and a size from 1; got {self.round} and {self.size}")

    def to_bytes(self) -> bytes:
        """Canonical bytes."""
        return encode(self)


class Seal(msgspec.Struct, frozen=True, array_like=True, tag="seal", forbid_unknown_fields=True):
    """A checkpoint in the chain, signed if the task pins a key."""

    checkpoint: Checkpoint
    head: bytes  # of the chain, after this checkpoint
    signature: bytes = b""  # 64 bytes; empty if it is not signed

    def __post_init__(self) -> None:
        if len(self.head) != DIGEST_BYTES or len(self.signature) not in (0, SIGNATURE_BYTES):
            raise InvalidInput("the head of a seal must be 32 bytes, its signature 64 or none")

    def to_bytes(self) -> bytes:
        """Canonical bytes."""
        return encode(self)


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


def _check_header(task: bytes, round_: int) -> None:
    if len(task) != ID_BYTES:
        raise InvalidInput(f"task must be an id of {ID_BYTES} bytes; got {len(task)}")
    if not 1 <= round_ <= MAX_ROUND:
        raise InvalidInput(f"round must be from 1 to {MAX_ROUND}; got {round_}")


def _check_region(lower: int, upper: int) -> None:
    if not 0 <= lower < upper <= MAX_CODE:
        raise InvalidInput(f"a region is codes lower to before upper, below 2^63; got {lower} to {upper}")


def _check_regions(regions: Sequence[tuple[int, int]]) -> None:
    end = 0
    for lower, upper in regions:
        _check_region(lower, upper)
        if lower < end:
            raise InvalidInput(f"regions must ascend and not overlap; got one that begins at {lower}, before {end}")
        end = upper


def _check_sender(pseudonym: bytes, lower: int, upper: int) -> None:
    if len(pseudonym) != PSEUDONYM_BYTES:
        raise InvalidInput(f"pseudonym must be {PSEUDONYM_BYTES} bytes; got {len(pseudonym)}")
    _check_region(lower, upper)


def _check_value_header(task: bytes, round_: int, plan: bytes, index: int) -> None:
    _check_header(task, round_)
    if len(plan) != DIGEST_BYTES:
        raise InvalidInput(f"plan must be a digest of {DIGEST_BYTES} bytes; got {len(plan)}")
    if not 0 <= index < MAX_RELEASES:
        raise InvalidInput(f"index must be from 0 to {MAX_RELEASES - 1}; got {index}")
