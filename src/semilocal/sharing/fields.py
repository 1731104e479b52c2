"""Fields of what devices and the two servers send each other: lists as bytes, and the sizes that are allowed.

Knows the form of fields, and no message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from ..arrays import Integers
from ..errors import InvalidInput
from .envelope import OVERHEAD, REPORT_ID
from .pair import PairTask
from .point import correction_bytes

__all__ = [
    "MAX_LEVEL", "MAX_REPORTS", "check_ascending", "check_count", "check_length", "check_multiple", "check_parts",
    "check_place", "check_report", "join_ids", "numbers_of", "pack_numbers", "split_ids",
]  # fmt: skip

MAX_REPORTS = 2_000_000  # of a pair: their ids must fit into one request
MAX_LEVEL = 40


# -- lists as bytes ----------------------------------------------------------------------------------------------------


def join_ids(ids: Iterable[bytes]) -> bytes:
    """Report ids as one string of bytes."""
    return b"".join(ids)


def split_ids(data: bytes) -> list[bytes]:
    """Report ids, 16 bytes each, of one string of bytes; at most ``MAX_REPORTS``."""
    check_multiple(data, REPORT_ID, "ids")
    check_count(len(data) // REPORT_ID, 0, MAX_REPORTS, "ids")
    return [data[start : start + REPORT_ID] for start in range(0, len(data), REPORT_ID)]


def pack_numbers(numbers: Integers) -> bytes:
    """Numbers as bytes."""
    return numbers.astype("<i8").tobytes()


def numbers_of(data: bytes) -> Integers:
    """Numbers from bytes: int64[m]."""
    return np.frombuffer(data, dtype="<i8").astype(np.int64)


# -- checks ------------------------------------------------------------------------------------------------------------


def check_report(report: bytes, envelope: bytes, bucket: int) -> None:
    """The id, the envelope and the bucket of one report."""
    check_length(report, REPORT_ID, "a report's id")
    if len(envelope) < OVERHEAD:
        raise InvalidInput(f"an envelope has at least {OVERHEAD} bytes; got {len(envelope)}")
    check_place(bucket, 0)


def check_parts(pair: PairTask, public: bytes, envelope: bytes, bucket: int) -> None:
    """The parts of an upload against the shapes of its pair."""
    shape = pair.shape
    check_length(public, shape.public_bytes, "the public part")
    check_length(envelope, shape.private_bytes + OVERHEAD, "an envelope")
    pair.check_bucket(bucket)
    trees = [(0, shape.levels)]
    if shape.value_bits:
        trees.append((correction_bytes(shape.levels, shape.width), shape.value_bits))
    for start, levels in trees:  # each begins with one bit per level
        unused = -levels % 8
        if unused and public[start - (-levels // 8) - 1] >> (8 - unused):
            raise InvalidInput("the public part has a bit set after its last level")


def check_place(bucket: int, level: int) -> None:
    """A bucket and a level."""
    if not 1 <= bucket < 2**62:
        raise InvalidInput(f"a bucket is a cell, at least 1; got {bucket}")
    if not 0 <= level < MAX_LEVEL:
        raise InvalidInput(f"a level is from 0 to {MAX_LEVEL - 1}; got {level}")


def check_length(data: bytes, length: int, what: str) -> None:
    """A field of one length."""
    if len(data) != length:
        raise InvalidInput(f"{what} has {length} bytes; got {len(data)}")


def check_multiple(data: bytes, size: int, what: str) -> None:
    """A list of items of one size."""
    if len(data) % size:
        raise InvalidInput(f"{what} have {size} bytes each; got {len(data)} bytes")


def check_count(count: int, least: int, most: int, what: str) -> None:
    """How many items a list has."""
    if not least <= count <= most:
        raise InvalidInput(f"{what} must be {least} to {most}; got {count}")


def check_ascending(ids: Sequence[bytes]) -> None:
    """Report ids in their order, each once."""
    if any(first >= second for first, second in pairwise(ids)):
        raise InvalidInput("report ids must be ascending and different")
