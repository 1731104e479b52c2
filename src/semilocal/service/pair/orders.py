"""What is to be computed of every chunk of reports, and what comes out, as bytes.

Orders of a tree form a chain: each one goes on from the state in which those before it leave a chunk. The digest of an
order names all of them, so a result can never be taken for that of another history.

Knows arrays and bytes. Knows no database.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput
from ...sharing.evaluate import Half, LevelShare
from ...sharing.report import Shape
from ...sharing.wire import split_ids

__all__ = ["Order", "compute", "flags_of", "read_share", "read_sums", "root_digest"]

Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
Tags = npt.NDArray[np.uint8]


class Order(msgspec.Struct, frozen=True, array_like=True):
    """One order.

    Attributes
    ----------
    rows : bytes or None
        Children to open first, packed int64; None: the chunk stays at its level.
    dropped : bytes
        Ids of reports that count no longer, joined.
    only : bytes or None
        Wanted are the sums over these reports; None: sums and tags of the level.
    """

    rows: bytes | None
    dropped: bytes
    only: bytes | None

    def to_bytes(self) -> bytes:
        """As it is stored."""
        return _encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Order:
        """Read it back."""
        return _decode(data)

    @property
    def opened(self) -> npt.NDArray[np.int64] | None:
        """Children to open: int64[r]."""
        return None if self.rows is None else np.frombuffer(self.rows, dtype="<i8").astype(np.int64)

    def digest(self, before: bytes) -> bytes:
        """Names this order after those that ``before`` names."""
        return hashlib.sha256(before + self.to_bytes()).digest()


# Made here, before there are threads; see stores/sql.py.
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Order).decode


def root_digest(task: bytes, bucket: int, ids: Sequence[bytes]) -> bytes:
    """Names a tree and its reports: where its chain of orders begins."""
    return hashlib.sha256(task + bucket.to_bytes(8, "big") + b"".join(ids)).digest()


def flags_of(ids: Sequence[bytes], wanted: bytes) -> Flags:
    """Which of the reports are among the joined ids: bool[n]."""
    chosen_ids = set(split_ids(wanted))
    return np.fromiter((report in chosen_ids for report in ids), dtype=bool, count=len(ids))


def compute(half: Half, ids: Sequence[bytes], order: Order) -> bytes:
    """What an order wants of a chunk whose children are opened and whose dropped reports are dropped."""
    if order.only is not None:
        chosen = flags_of(ids, order.only)
        return half.sums_of(chosen).astype("<u8").tobytes() if chosen.any() else b""
    share = half.expand()
    tags = share.tags if half.level else np.concatenate([half.value_digests, share.tags], axis=1)
    return share.sums.astype("<u8").tobytes() + tags.tobytes()


def read_share(
    parts: Iterable[bytes], sizes: Sequence[int], shape: Shape, *, cells: int, level: int
) -> tuple[LevelShare, Tags]:
    """Sums and tags of a level over all chunks, and on level 0 the digests of the value trees: uint8[n, 0 or 32]."""
    sums = np.zeros((2 * cells, shape.width), dtype=np.uint64)
    digests = 32 if shape.value_bits and not level else 0
    tags = []
    for part, size in zip(parts, sizes, strict=True):
        sums += _words(part[: sums.nbytes], shape)
        tags.append(np.frombuffer(part, dtype=np.uint8, offset=sums.nbytes).reshape(size, -1))
    found = np.concatenate(tags)
    return LevelShare(sums, np.ascontiguousarray(found[:, digests:])), np.ascontiguousarray(found[:, :digests])


def read_sums(parts: Iterable[bytes], shape: Shape) -> Words:
    """Sums over some reports, of which a chunk may have none: uint64[2 m, w]."""
    found = [_words(part, shape) for part in parts if part]
    if not found:
        raise InvalidInput("there must be some reports to add up")
    return np.asarray(np.sum(found, axis=0, dtype=np.uint64))


def _words(part: bytes, shape: Shape) -> Words:
    return np.frombuffer(part, dtype="<u8").astype(np.uint64).reshape(-1, shape.width)
