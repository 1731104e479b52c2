"""Reports as columns: reads the canonical bytes of many reports of a round at once.

Almost all reports of a round have the same length and differ only in pseudonym, cell and answer, so they are read as
a matrix of bytes. Whatever does not fit is decoded one by one and refused with a reason. Both kinds of reports,
``Report`` and ``ValueReport``, have the same six fields.

Knows MessagePack. Knows no rule and no rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Integers, Words, is_integer
from ..errors import InvalidInput
from ..protocol.messages import AnyReport, Report, ValueReport, decode, prefix_of

__all__ = ["Columns", "Kind", "read_reports", "report_runs"]

Kind: TypeAlias = type[Report] | type[ValueReport]
Matrix = npt.NDArray[np.uint8]

_KINDS: tuple[Kind, ...] = (Report, ValueReport)
_ROLL_CALL = np.int64(np.iinfo(np.int64).min)  # the answer of a roll call
_SIZES = {0: 1, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9}  # bytes of an unsigned number by its first byte; 0: below 0x80


class Columns(NamedTuple):
    """The reports of a round, in the order of the transcript; only those that could be read.

    Attributes
    ----------
    pseudonyms : list of bytes
    cells : uint64[n]
    answers : int64[n] or int64[n, fanout]
        int64[n, 0] if nobody answered anything (a roll call).
    events : int64[n]
        Which of the given events each report is.
    refused : list of (int, str)
        Events that are no such reports, and why.
    """

    pseudonyms: list[bytes]
    cells: Words
    answers: Integers
    events: Integers
    refused: list[tuple[int, str]]


def report_runs(data: bytes, bounds: Integers) -> Iterator[tuple[Kind | None, int, int]]:
    """The events of a frame in order: runs of reports of one kind, and every other event by itself.

    Yields the kind (None for no report), the first event and the one after the last.
    """
    numbers = np.zeros(len(bounds) - 1, dtype=np.int64)
    buffer = np.frombuffer(data, dtype=np.uint8)
    lengths = np.diff(bounds)
    for number, kind in enumerate(_KINDS, start=1):
        prefix = np.frombuffer(prefix_of(kind), dtype=np.uint8)
        long_enough = np.flatnonzero(lengths >= len(prefix))
        heads = buffer[bounds[long_enough][:, None] + np.arange(len(prefix))]
        numbers[long_enough[(heads == prefix).all(axis=1)]] = number
    breaks = np.flatnonzero(np.diff(numbers, prepend=-1) | (numbers == 0)).tolist()
    for first, last in pairwise([*breaks, len(numbers)]):
        yield (_KINDS[numbers[first] - 1] if numbers[first] else None), first, last


def read_reports(data: bytes, bounds: Integers, *, kind: Kind, task: bytes, round_: int, width: int | None) -> Columns:
    """Read consecutive reports of one round.

    Parameters
    ----------
    data : bytes
    bounds : int64[n + 1]
        Where each event begins and the last one ends.
    kind : Report or ValueReport
    task, round_
        That all of them must name.
    width : int or None
        Numbers in an answer: None for a single one, 0 in a roll call.
    """
    size = len(bounds) - 1
    cells, answers = np.zeros(size, dtype=np.uint64), np.zeros(size, dtype=np.int64)
    names = np.zeros((size, 16), dtype=np.uint8)
    read = np.zeros(size, dtype=bool)
    if not width:
        prefix = prefix_of(kind) + msgspec.msgpack.encode(task) + msgspec.msgpack.encode(round_) + b"\xc4\x10"
        _read_matrices(data, bounds, prefix, names, cells, answers, read, roll_call=width == 0)
    vectors: dict[int, tuple[int, ...]] = {}
    refused: list[tuple[int, str]] = []
    for place in np.flatnonzero(~read).tolist():
        try:
            report: AnyReport = decode(data[bounds[place] : bounds[place + 1]], kind)
            answer = _fit(report, task, round_, width)
        except InvalidInput as error:
            refused.append((place, str(error)))
            continue
        names[place] = np.frombuffer(report.pseudonym, dtype=np.uint8)
        cells[place], read[place] = report.cell, True
        if isinstance(answer, int):
            answers[place] = answer
        else:
            vectors[place] = answer
    events = np.flatnonzero(read)
    joined = names[events].tobytes()
    pseudonyms = [joined[start : start + 16] for start in range(0, len(joined), 16)]
    if width is not None:
        rows = np.zeros((len(events), width), dtype=np.int64)
        for row, place in enumerate(events.tolist() if width else []):
            rows[row] = vectors[place]
        return Columns(pseudonyms, cells[events], rows, events, refused)
    return Columns(pseudonyms, cells[events], answers[events], events, refused)


def _read_matrices(
    data: bytes, bounds: Integers, prefix: bytes, names: Matrix, cells: Words, answers: Integers,
    read: Flags, *, roll_call: bool,
) -> None:  # fmt: skip
    """Fill in the rows that have the expected prefix and canonical numbers; leave the others unread."""
    buffer = np.frombuffer(data, dtype=np.uint8)
    lengths = np.diff(bounds)
    head = len(prefix) + 16
    wanted = np.frombuffer(prefix, dtype=np.uint8)
    for length in np.unique(lengths).tolist():
        if length < head + 2:
            continue
        places = np.flatnonzero(lengths == length)
        first = int(bounds[places[0]])
        if len(places) == places[-1] - places[0] + 1:  # side by side: no copy
            rows = buffer[first : first + len(places) * length].reshape(-1, length)
        else:
            rows = buffer[bounds[places][:, None] + np.arange(length)]
        fits = (rows[:, : len(prefix)] == wanted).all(axis=1)
        markers = np.where(rows[:, head] < 0x80, 0, rows[:, head])
        for marker in np.unique(markers[fits]).tolist():
            cell_size = _SIZES.get(marker, 0)
            if not cell_size or not 1 <= length - head - cell_size <= 5:
                continue
            chosen = fits & (markers == marker)
            cell, cell_canonical = _numbers(rows[:, head : head + cell_size])
            answer, answer_canonical = _numbers(rows[:, head + cell_size :])
            if roll_call:
                answer_canonical = (rows[:, head + cell_size :] == 0xC0).all(axis=1) & (length == head + cell_size + 1)
                answer = np.full(len(rows), _ROLL_CALL)
            good = chosen & cell_canonical & answer_canonical & (cell != 0)
            at = places[good]
            names[at] = rows[good, len(prefix) : head]
            cells[at], answers[at], read[at] = cell[good].view(np.uint64), answer[good], True


def _numbers(rows: Matrix) -> tuple[Integers, Flags]:
    """Numbers in MessagePack, one per row, all of the same length, and whether each is canonical."""
    size = rows.shape[1]
    first = rows[:, 0].astype(np.int64)
    nothing = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=bool)
    if size == 1:
        return np.where(first < 0x80, first, first - 256), (first < 0x80) | (first >= 0xE0)
    step = {2: 0, 3: 1, 5: 2, 9: 3}.get(size)
    if step is None:
        return nothing
    body = np.ascontiguousarray(rows[:, 1:])
    unsigned = body.view(f">u{size - 1}")[:, 0].astype(np.uint64)
    signed = body.view(f">i{size - 1}")[:, 0].astype(np.int64)
    least = np.uint64(0x80 if step == 0 else 1 << (8 << (step - 1)))
    most = -32 if step == 0 else -(1 << ((8 << (step - 1)) - 1))
    positive, negative = first == 0xCC + step, first == 0xD0 + step
    return np.where(positive, unsigned.view(np.int64), signed), (positive & (unsigned >= least)) | (
        negative & (signed < most)
    )


def _fit(report: AnyReport, task: bytes, round_: int, width: int | None) -> int | tuple[int, ...]:
    """The answer, if the report is for this task and round and has an answer of this width."""
    if report.task != task:
        raise InvalidInput("the report belongs to another task")
    if report.round != round_:
        raise InvalidInput(f"the report is for round {report.round}")
    answer = report.answer
    if width == 0 and answer is None:
        return int(_ROLL_CALL)
    if width is None and is_integer(answer) and abs(answer) < 2**63:
        return answer
    if width and isinstance(answer, tuple) and len(answer) == width and all(abs(value) < 2**62 for value in answer):
        return answer
    raise InvalidInput(f"the answer {answer!r} is none of this round")
