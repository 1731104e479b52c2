"""The messages: frozen values with canonical bytes.

    server -> all      Query    which cells are asked about in a round
    device -> server   Report   which child of its cell a participant is in, through the randomizer
    server -> all      Closed   the tally of every cell and what follows from it

Bytes are MessagePack, fields in the order written here; a message is accepted only if encoding it again gives the
same bytes. Knows the form of messages. Knows nothing of what makes them legal at a moment: that is the machines'.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from ..errors import InvalidInput
from .task import Task

__all__ = ["Closed", "Message", "Query", "Report", "decode", "encode"]

ID_BYTES = 32
PSEUDONYM_BYTES = 16
MAX_ROUND = 2**16
MAX_RESPONDERS = 2**32
MAX_SUM = 2**53  # sums stay exact in doubles, and no sum of them leaves 64 bits
MAX_FANOUT = 256


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
        if len(self.pseudonym) != PSEUDONYM_BYTES:
            raise InvalidInput(f"pseudonym must be {PSEUDONYM_BYTES} bytes; got {len(self.pseudonym)}")
        _check_cells((self.cell,))


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


Message = Task | Query | Report | Closed
M = TypeVar("M", Task, Query, Report, Closed)

_encoder = msgspec.msgpack.Encoder()
_decoders: dict[type[Any], msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (Task, Query, Report, Closed)
}


def encode(message: Message) -> bytes:
    """Canonical bytes of a message."""
    return _encoder.encode(message)


def decode(data: bytes, kind: type[M]) -> M:
    """The message in canonical bytes; anything else is refused with a reason.

    Examples
    --------
    >>> query = Query(bytes(32), 1, (1,))
    >>> decode(encode(query), Query) == query
    True
    """
    try:
        message: M = _decoders[kind].decode(data)
    except (msgspec.DecodeError, InvalidInput, ValueError, RecursionError, OverflowError) as error:
        raise InvalidInput(f"not a {kind.__name__}: {error}") from None
    if _encoder.encode(message) != data:
        raise InvalidInput(f"not the canonical bytes of a {kind.__name__}")
    return message


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
