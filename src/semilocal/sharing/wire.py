"""What devices and the two servers send each other, as frozen values with canonical bytes.

A device sends an ``Upload`` and gets a ``Receipt``. The leader asks, from ``Proposal`` to ``Signature``, and the helper
answers each. Everybody gets the ``SignedTree``.

Bytes are MessagePack arrays that begin with the message's name, fields in the order written here. A message is read
only if its sizes are allowed and encoding it again gives the same bytes. Lists of ids and numbers are joined bytes: ids
of 16 bytes, numbers as little-endian integers of 64 bits.

Knows the form of messages. Knows no server, clock, file or random generator. Whether a message is due is for the
servers to say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec
import numpy as np
from msgspec import Meta

from ..arrays import Integers, short_repr
from ..errors import InvalidInput
from ..pooled.play import Published
from ..protocol.task import read_canonical
from ..words import check_name
from .pair import PairTask
from .point import correction_bytes
from .sealing import OVERHEAD, REPORT_ID, SIGNATURE, is_signed, sign

Outcome = Literal["stored", "replayed", "undecryptable", "closed"]

MAX_UPLOAD = 4096  # bytes of an upload: 40 levels take 2.4 kB
MAX_FORWARD = 500  # reports of one request
MAX_TREE = 500_000  # reports of one tree: their tags must fit into one answer
MAX_VALUE_TREE = 400_000  # the same where tags are longer, because reports carry a value
MAX_BODY = 48 << 20  # bytes of a request between servers
MAX_TOKEN = 200
MAX_REPORTS = 2_000_000  # of a pair: their ids must fit into one request
HOUR = 3600
_DIGEST = 32
_MAX_LEVEL = 40

ReportId = Annotated[bytes, Meta(min_length=REPORT_ID, max_length=REPORT_ID)]
Digest = Annotated[bytes, Meta(min_length=_DIGEST, max_length=_DIGEST)]
Signed = Annotated[bytes, Meta(min_length=SIGNATURE, max_length=SIGNATURE)]
Envelope = Annotated[bytes, Meta(min_length=OVERHEAD)]
Bucket = Annotated[int, Meta(ge=1, lt=2**62)]  # a cell of depth ``bucket_depth``; 1, the root, if there are no buckets
Depth = Annotated[int, Meta(ge=0, lt=_MAX_LEVEL)]
Count = Annotated[int, Meta(ge=0, le=MAX_REPORTS)]


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Encoding and decoding, the same for all. Sizes that stand in the types are checked when a message is read."""

    limit: ClassVar[int] = MAX_BODY
    lists: ClassVar[dict[str, int]] = {}  # fields that are joined items, and the bytes of an item
    __repr__ = short_repr

    def __post_init__(self) -> None:
        for name, size in self.lists.items():
            data = getattr(self, name)
            if len(data) % size:
                raise InvalidInput(f"{name} have {size} bytes each; got {len(data)} bytes")
            if size == REPORT_ID:
                check_ascending(split_ids(data))

    def to_bytes(self) -> bytes:
        """Canonical bytes."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The message that these canonical bytes stand for; refuses all others."""
        what = cls.__name__
        if len(data) > cls.limit:
            raise InvalidInput(f"a message of kind {what} has at most {cls.limit} bytes; got {len(data)}")
        decoder: msgspec.msgpack.Decoder[Self] = _DECODERS[cls]
        return read_canonical(data, decoder, f"message of kind {what}")


# -- devices -----------------------------------------------------------------------------------------------------------


class Upload(Message, frozen=True, tag="upload-2"):
    """All that a device sends; its envelopes are bound to everything else here (``sealing.info_of``)."""

    limit: ClassVar[int] = MAX_UPLOAD

    id: ReportId  # also in the path
    public: bytes  # its length follows from the pair's shape
    leader_envelope: Envelope
    helper_envelope: Envelope
    token: Annotated[str, Meta(min_length=1, max_length=MAX_TOKEN)] | None = None  # if the leader asks for one
    bucket: Bucket = 1

    def check(self, pair: PairTask) -> None:
        """Refuse an upload whose sizes or bucket are not those of the pair."""
        check_parts(pair, self.bucket, self.public, self.leader_envelope, self.helper_envelope)


class Receipt(Message, frozen=True, tag="receipt"):
    """What a device gets: the leader has stored these bytes."""

    limit: ClassVar[int] = 256

    task: Digest  # the pair's id
    id: ReportId
    digest: Digest  # of the upload's bytes
    time: Annotated[int, Meta(ge=0, lt=2**40, multiple_of=HOUR)]  # unix time of this answer, rounded down
    signature: Signed

    @classmethod
    def issue(cls, secret: bytes, task: bytes, report: bytes, digest: bytes, *, now: float) -> Receipt:
        """A signed receipt; the time is rounded down to the hour."""
        hour = int(now) // HOUR * HOUR
        return cls(task, report, digest, hour, sign(secret, "receipt", task, report, digest, hour.to_bytes(8, "big")))

    def is_good(self, pair: PairTask, upload: bytes) -> bool:
        """Whether the pair's leader signed it for these bytes of an upload."""
        parts = (self.task, self.id, self.digest, self.time.to_bytes(8, "big"))
        return (
            self.task == pair.id
            and self.id == Upload.from_bytes(upload).id
            and self.digest == hashlib.sha256(upload).digest()
            and is_signed(self.signature, pair.leader.signing_key, "receipt", *parts)
        )


# -- between the servers -----------------------------------------------------------------------------------------------


class Proposal(Message, frozen=True, tag="proposal"):
    """A pair that the leader's operator wants to play."""

    limit: ClassVar[int] = 64 << 10

    name: str
    pair: bytes

    def __post_init__(self) -> None:
        check_name(self.name, "a name", most=MAX_TOKEN)


class ProposalAnswer(Message, frozen=True, tag="proposal-answer"):
    """Whether the helper's operator has confirmed it."""

    confirmed: bool


class Sealed(Message, frozen=True, tag="sealed"):
    """A report on its way to the helper."""

    id: ReportId
    public: bytes
    envelope: Envelope
    bucket: Bucket = 1

    def check(self, pair: PairTask) -> None:
        """Refuse a report whose sizes or bucket are not those of the pair."""
        check_parts(pair, self.bucket, self.public, self.envelope)


class Forward(Message, frozen=True, tag="forward"):
    """Up to 500 reports, by ascending id."""

    limit: ClassVar[int] = MAX_FORWARD * MAX_UPLOAD

    reports: Annotated[tuple[Sealed, ...], Meta(min_length=1, max_length=MAX_FORWARD)]

    def __post_init__(self) -> None:
        check_ascending([report.id for report in self.reports])


class ForwardAnswer(Message, frozen=True, tag="forward-answer"):
    """What became of each: stored (now or before), replayed (other bytes have this id), undecryptable, closed."""

    outcomes: Annotated[tuple[Outcome, ...], Meta(min_length=1, max_length=MAX_FORWARD)]


class Closing(Message, frozen=True, tag="closing"):
    """The reports that take part, by ascending id; both servers have all of them."""

    lists: ClassVar[dict[str, int]] = {"ids": REPORT_ID}

    ids: bytes


class ClosingAnswer(Message, frozen=True, tag="closing-answer"):
    """SHA-256 of the ids: the helper has all of them, and takes no more."""

    accepted: Digest


class LevelCheck(Message, frozen=True, tag="level-check"):
    """The leader's digests of the tags of a level, one of 32 bytes per chunk of 4,096 reports."""

    lists: ClassVar[dict[str, int]] = {"digests": _DIGEST}

    bucket: Bucket
    level: Depth
    digests: bytes


class LevelCheckAnswer(Message, frozen=True, tag="level-check-answer"):
    """The chunks whose digests differ, ascending, and the helper's tags of their reports, joined."""

    chunks: tuple[Count, ...]
    tags: bytes

    def __post_init__(self) -> None:
        if list(self.chunks) != sorted(set(self.chunks)):
            raise InvalidInput("chunks must be ascending numbers")


class LevelSums(Message, frozen=True, tag="level-sums"):
    """Which reports failed the check of the level, by ascending id, and the leader's noisy differences."""

    lists: ClassVar[dict[str, int]] = {"rejected": REPORT_ID, "numbers": 8}

    bucket: Bucket
    level: Depth
    rejected: bytes
    numbers: bytes


class LevelSumsAnswer(Message, frozen=True, tag="level-sums-answer"):
    """The helper's noisy differences."""

    lists: ClassVar[dict[str, int]] = {"numbers": 8}

    numbers: bytes


class Finish(Message, frozen=True, tag="finish"):
    """The leader's noisy final counts."""

    lists: ClassVar[dict[str, int]] = {"numbers": 8}

    bucket: Bucket
    numbers: bytes


class FinishAnswer(Message, frozen=True, tag="finish-answer"):
    """The helper's noisy final counts."""

    lists: ClassVar[dict[str, int]] = {"numbers": 8}

    numbers: bytes


class Signature(Message, frozen=True, tag="signature"):
    """A server's signature of the transcript; see :meth:`SignedTree.signature_by`."""

    signature: Signed


# -- the transcript ----------------------------------------------------------------------------------------------------


class BucketTree(Message, frozen=True, tag="bucket-tree"):
    """What was published about one bucket."""

    bucket: Bucket
    published: bytes  # canonical bytes of :class:`~semilocal.pooled.play.Published`
    rejected: Annotated[tuple[Count, ...], Meta(max_length=_MAX_LEVEL)]  # reports that failed the check, per level


class SignedTree(Message, frozen=True, tag="signed-tree"):
    """The public transcript of a pair: everything that anybody gets to see."""

    pair: bytes  # canonical bytes of the pair task
    trees: tuple[BucketTree, ...]  # one without buckets; else one per bucket that somebody named, ascending
    leader_signature: Signed  # over ``pair`` and ``trees``
    helper_signature: Signed

    def __post_init__(self) -> None:
        buckets = [tree.bucket for tree in self.trees]
        if buckets != sorted(set(buckets)):
            raise InvalidInput("the buckets of a transcript must be ascending")

    @property
    def task(self) -> PairTask:
        """The pair."""
        return PairTask.from_bytes(self.pair)

    def published(self) -> tuple[Published, ...]:
        """The published numbers of each bucket; refuses a tree that is not of the pair's task."""
        pair, out = self.task, []
        for tree in self.trees:
            found = Published.from_bytes(tree.published)
            if found.task != pair.tree_task(tree.bucket):
                raise InvalidInput(f"the tree of bucket {tree.bucket} is not of the pair's task")
            out.append(found)
        return tuple(out)

    @staticmethod
    def signature_by(secret: bytes, pair: bytes, trees: Sequence[BucketTree]) -> bytes:
        """A server's signature over a transcript."""
        return sign(secret, "transcript", pair, *(tree.to_bytes() for tree in trees))

    def is_signed_by(self, role: Literal["leader", "helper"]) -> bool:
        """Whether the signature of this server is good, by the key in the pair task."""
        signature = self.leader_signature if role == "leader" else self.helper_signature
        parts = (self.pair, *(tree.to_bytes() for tree in self.trees))
        return is_signed(signature, self.task.operator(role).signing_key, "transcript", *parts)


# -- lists as bytes ----------------------------------------------------------------------------------------------------


def split_ids(data: bytes) -> list[bytes]:
    """Report ids, 16 bytes each, of one string of bytes; at most ``MAX_REPORTS``."""
    if len(data) > MAX_REPORTS * REPORT_ID:
        raise InvalidInput(f"ids must be at most {MAX_REPORTS}; got {len(data) // REPORT_ID}")
    return [data[start : start + REPORT_ID] for start in range(0, len(data), REPORT_ID)]


def pack_numbers(numbers: Integers) -> bytes:
    """Numbers as bytes."""
    return numbers.astype("<i8").tobytes()


def numbers_of(data: bytes) -> Integers:
    """Numbers from bytes: int64[m]."""
    return np.frombuffer(data, dtype="<i8").astype(np.int64)


# -- checks ------------------------------------------------------------------------------------------------------------


def check_parts(pair: PairTask, bucket: int, public: bytes, *envelopes: bytes) -> None:
    """The parts of an upload against the shapes of its pair."""
    shape = pair.shape
    if len(public) != shape.public_bytes:
        raise InvalidInput(f"the public part has {shape.public_bytes} bytes; got {len(public)}")
    for envelope in envelopes:
        if len(envelope) != (length := shape.private_bytes + OVERHEAD):
            raise InvalidInput(f"an envelope has {length} bytes; got {len(envelope)}")
    pair.check_bucket(bucket)
    trees = [(0, shape.levels)]
    if shape.value_bits:
        trees.append((correction_bytes(shape.levels, shape.width), shape.value_bits))
    for start, levels in trees:  # each begins with one bit per level
        unused = -levels % 8
        if unused and public[start - (-levels // 8) - 1] >> (8 - unused):
            raise InvalidInput("the public part has a bit set after its last level")


def check_ascending(ids: Sequence[bytes]) -> None:
    """Report ids in their order, each once."""
    if any(first >= second for first, second in pairwise(ids)):
        raise InvalidInput("report ids must be ascending and different")


# msgspec builds what it knows of a type at its first use, and two threads that do so at once crash: do it here.
_DECODERS: dict[type[Message], msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in Message.__subclasses__()
}
