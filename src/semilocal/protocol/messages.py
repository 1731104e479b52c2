"""All messages, as frozen values with canonical bytes, and the one codec.

    server -> all      Query, Closed             a round of the partition: which cells are asked about; what follows
    device -> server   Report                    which child of its cell a participant is in, through the randomizer
    server -> all      ValueQuery, ValueClosed   a round of values: which release; how often each output came
    device -> server   ValueReport               f at the participant's (moved) position, scaled, through the mechanism
    server -> all      Checkpoint, Seal          the transcript's root after a round, in a chain, signed

The task (:mod:`.task`) and the plan of releases (:mod:`.plan`) go through the same codec. Bytes are MessagePack, fields
in the order written here; a message is accepted only if encoding it again gives the same bytes. Knows the form of
messages. Whether one is legal at a moment is for the machines to say.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import msgspec

from ..arrays import short_repr
from ..errors import InvalidInput
from .canonical import read_canonical
from .plan import MAX_RELEASES, Plan
from .task import ID_BYTES, Task

__all__ = [
    "AnyClosed", "AnyQuery", "AnyReport", "Checkpoint", "Closed", "Event", "Message", "Query", "Report", "Seal",
    "ValueClosed", "ValueQuery", "ValueReport", "decode", "decode_closed", "decode_event", "decode_query",
    "decode_report", "encode", "prefix_of",
]  # fmt: skip

PSEUDONYM_BYTES = 16
DIGEST_BYTES = 32
SIGNATURE_BYTES = 64
MAX_ROUND = 2**16
MAX_RESPONDERS = 2**32
MAX_SUM = 2**53  # sums stay exact in doubles, and no sum of them leaves 64 bits
MAX_FANOUT = 256
MAX_OUTPUT = 2**31


class Query(msgspec.Struct, frozen=True, array_like=True, tag="query", forbid_unknown_fields=True):
    """Opens a round.

    Attributes
    ----------
    task : bytes
        The task's id.
    round : int
        From 1. Cells of round t have depth t - 1.
    cells : tuple of int
        The frontier, ascending. A participant whose cell is not in it has nothing to answer.
    """

    task: bytes
    round: int
    cells: tuple[int, ...]

    __repr__ = short_repr

    def __post_init__(self) -> None:
        _check_header(self.task, self.round)
        _check_cells(self.cells)


class Report(msgspec.Struct, frozen=True, array_like=True, tag="report", forbid_unknown_fields=True):
    """A participant's answer in a round.

    Attributes
    ----------
    task, round
        Of the query that is answered.
    pseudonym : bytes
        Who answers; 16 bytes, for this task only.
    cell : int
        The participant's cell (public by design).
    answer : int, tuple of int or None
        The randomizer's report; None in a roll call, which asks nothing but presence.
    """

    task: bytes
    round: int
    pseudonym: bytes
    cell: int
    answer: int | tuple[int, ...] | None

    def __post_init__(self) -> None:
        _check_header(self.task, self.round)
        _check_sender(self.pseudonym, self.cell)


class Closed(msgspec.Struct, frozen=True, array_like=True, tag="closed", forbid_unknown_fields=True):
    """Closes a round: for every cell the responders, the tally, and which children go on.

    Attributes
    ----------
    task, round, cells
        As in the query.
    responders : tuple of int
        Number of reports per cell.
    tally : tuple of tuple of int
        Sums of the reports per cell; empty rows in a roll call.
    kept : tuple of tuple of int
        Children that go on, ascending: all of them is SPLIT, none is STOP, some is TRIM (or, with rule "each", those
        that go on by themselves).
    """

    task: bytes
    round: int
    cells: tuple[int, ...]
    responders: tuple[int, ...]
    tally: tuple[tuple[int, ...], ...]
    kept: tuple[tuple[int, ...], ...]

    __repr__ = short_repr

    def __post_init__(self) -> None:
        _check_header(self.task, self.round)
        _check_cells(self.cells)
        if not len(self.cells) == len(self.responders) == len(self.tally) == len(self.kept):
            raise InvalidInput("cells, responders, tally and kept must have one entry per cell each")
        if not all(0 <= number <= MAX_RESPONDERS for number in self.responders):
            raise InvalidInput(f"responders must be from 0 to {MAX_RESPONDERS}")
        if not all(len(row) <= MAX_FANOUT and all(-MAX_SUM < number < MAX_SUM for number in row) for row in self.tally):
            raise InvalidInput(f"a tally has at most {MAX_FANOUT} numbers below 2^53 in absolute value")
        for children in self.kept:
            inside = not children or 0 <= children[0] <= children[-1] < MAX_FANOUT
            if list(children) != sorted(set(children)) or not inside:
                raise InvalidInput(f"kept children must be ascending, different and from 0 to {MAX_FANOUT - 1}")


class ValueQuery(msgspec.Struct, frozen=True, array_like=True, tag="value-query", forbid_unknown_fields=True):
    """Asks everybody with a region for the value of one release.

    Attributes
    ----------
    task : bytes
    round : int
        Numbered on from the partition's last round.
    plan : bytes
        Digest of the plan.
    index : int
        Which release of the plan.
    """

    task: bytes
    round: int
    plan: bytes
    index: int

    def __post_init__(self) -> None:
        _check_value_header(self.task, self.round, self.plan, self.index)


class ValueReport(msgspec.Struct, frozen=True, array_like=True, tag="value-report", forbid_unknown_fields=True):
    """A participant's value: an integer of the mechanism's alphabet.

    Attributes
    ----------
    task, round
        Of the query.
    pseudonym : bytes
    cell : int
        The participant's region (public by design).
    answer : int
    """

    task: bytes
    round: int
    pseudonym: bytes
    cell: int
    answer: int

    def __post_init__(self) -> None:
        _check_header(self.task, self.round)
        _check_sender(self.pseudonym, self.cell)
        if abs(self.answer) >= MAX_OUTPUT:
            raise InvalidInput(f"answer must be below 2^31; got {self.answer}")


class ValueClosed(msgspec.Struct, frozen=True, array_like=True, tag="value-closed", forbid_unknown_fields=True):
    """Closes a round of values.

    Attributes
    ----------
    task, round, plan, index
        As in the query.
    cells : tuple of int
        Regions with reports, ascending.
    counts : tuple of tuple of (int, int)
        Per region the outputs that were reported, ascending, and how often.
    """

    task: bytes
    round: int
    plan: bytes
    index: int
    cells: tuple[int, ...]
    counts: tuple[tuple[tuple[int, int], ...], ...]

    __repr__ = short_repr

    def __post_init__(self) -> None:
        _check_value_header(self.task, self.round, self.plan, self.index)
        _check_cells(self.cells)
        if len(self.cells) != len(self.counts):
            raise InvalidInput("cells and counts must have one entry per region each")
        for row in self.counts:
            outputs = [output for output, _ in row]
            if not row or outputs != sorted(set(outputs)) or any(count < 1 for _, count in row):
                raise InvalidInput("counts must have ascending outputs that were reported at least once")

    @property
    def responders(self) -> tuple[int, ...]:
        """Reports per region."""
        return tuple(sum(count for _, count in row) for row in self.counts)


class Checkpoint(msgspec.Struct, frozen=True, array_like=True, tag="checkpoint", forbid_unknown_fields=True):
    """The transcript's root after a round.

    Attributes
    ----------
    task : bytes
    round : int
    size : int
        Number of events so far.
    root : bytes
        Merkle tree hash over them.
    """

    task: bytes
    round: int
    size: int
    root: bytes

    def __post_init__(self) -> None:
        if len(self.task) != ID_BYTES or len(self.root) != DIGEST_BYTES:
            raise InvalidInput("task and root of a checkpoint must be 32 bytes each")
        if not 1 <= self.round <= MAX_ROUND or not 1 <= self.size < 2**63:
            raise InvalidInput(f"a checkpoint has a round from 1 and a size from 1; got {self.round} and {self.size}")

    def to_bytes(self) -> bytes:
        """Canonical bytes."""
        return encode(self)


class Seal(msgspec.Struct, frozen=True, array_like=True, tag="seal", forbid_unknown_fields=True):
    """A checkpoint in the chain, signed if the task pins a key.

    Attributes
    ----------
    checkpoint : Checkpoint
    head : bytes
        Of the chain, after this checkpoint.
    signature : bytes
        64 bytes; empty if it is not signed.
    """

    checkpoint: Checkpoint
    head: bytes
    signature: bytes = b""

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
Message: TypeAlias = Event | Checkpoint | Seal
M = TypeVar("M", bound=msgspec.Struct)

_encoder = msgspec.msgpack.Encoder()
_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(kind)
    for kind in (Task, Plan, Query, Report, Closed, ValueQuery, ValueReport, ValueClosed, Checkpoint, Seal)
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
    """The message of one kind in canonical bytes; anything else is refused with a reason.

    Examples
    --------
    >>> query = Query(bytes(32), 1, (1,))
    >>> decode(encode(query), Query) == query
    True
    """
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
    """The message of a transcript in canonical bytes, whichever it is.

    Examples
    --------
    >>> type(decode_event(encode(ValueQuery(bytes(32), 3, bytes(32), 0)))).__name__
    'ValueQuery'
    """
    if data[:1] and data[0] in _MAPS:
        return decode(data, Task)
    return read_canonical(data, _arrays, "message of a transcript")  # type: ignore[no-any-return]


def prefix_of(kind: type[msgspec.Struct]) -> bytes:
    """The first bytes of every message of a kind other than Task: the array's header and the tag."""
    tag = str(kind.__struct_config__.tag).encode()
    return bytes([0x91 + len(kind.__struct_fields__), 0xA0 + len(tag)]) + tag


def _check_header(task: bytes, round_: int) -> None:
    if len(task) != ID_BYTES:
        raise InvalidInput(f"task must be an id of {ID_BYTES} bytes; got {len(task)}")
    if not 1 <= round_ <= MAX_ROUND:
        raise InvalidInput(f"round must be from 1 to {MAX_ROUND}; got {round_}")


def _check_cells(cells: tuple[int, ...]) -> None:
    previous = 0
    for cell in cells:
        if not previous < cell < 2**64:
            raise InvalidInput(f"cells must be ascending positive 64-bit numbers; got {cell} after {previous}")
        previous = cell


def _check_sender(pseudonym: bytes, cell: int) -> None:
    if len(pseudonym) != PSEUDONYM_BYTES:
        raise InvalidInput(f"pseudonym must be {PSEUDONYM_BYTES} bytes; got {len(pseudonym)}")
    _check_cells((cell,))


def _check_value_header(task: bytes, round_: int, plan: bytes, index: int) -> None:
    _check_header(task, round_)
    if len(plan) != DIGEST_BYTES:
        raise InvalidInput(f"plan must be a digest of {DIGEST_BYTES} bytes; got {len(plan)}")
    if not 0 <= index < MAX_RELEASES:
        raise InvalidInput(f"index must be from 0 to {MAX_RELEASES - 1}; got {index}")
