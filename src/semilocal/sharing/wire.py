"""What devices and the two servers send each other, as frozen values with canonical bytes.

    device -> leader   Upload                                one report: public part, two envelopes
    leader -> device   Receipt                               signed: these bytes are stored
    leader -> helper   Proposal        ProposalAnswer        a pair, and whether the helper's operator confirmed it
    leader -> helper   Forward         ForwardAnswer         reports with the helper's envelopes
    leader -> helper   Closing         ClosingAnswer         which reports take part; nothing is added afterwards
    leader -> helper   LevelCheck      LevelCheckAnswer      digests of tags; the tags of chunks that differ
    leader -> helper   LevelSums       LevelSumsAnswer       rejected reports and noisy differences
    leader -> helper   Finish          FinishAnswer          noisy final counts
    leader -> helper   Signature       Signature             of the finished transcript, one from each
    both -> all        SignedTree                            the public transcript

Bytes are MessagePack arrays that begin with the message's name, fields in the order written here. A message is accepted
only if its sizes are allowed and encoding it again gives the same bytes. Lists of ids and numbers are joined bytes: ids
of 16 bytes, numbers as little-endian integers of 64 bits.

Knows the form of messages. Knows no server, clock, file or random generator. Whether a message is due is for the
servers to say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import ClassVar, Literal, Self

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import short_repr
from ..errors import InvalidInput
from ..pooled.play import Published
from ..protocol.canonical import read_canonical
from ..words import check_name
from .envelope import OVERHEAD, REPORT_ID
from .pair import PairTask
from .point import correction_bytes
from .signing import SIGNATURE, is_signed, sign

__all__ = [
    "HOUR", "MAX_BODY", "MAX_FORWARD", "MAX_REPORTS", "MAX_TREE", "MAX_UPLOAD", "MAX_VALUE_TREE", "BucketTree",
    "Closing", "ClosingAnswer", "Finish", "FinishAnswer", "Forward", "ForwardAnswer", "LevelCheck", "LevelCheckAnswer",
    "LevelSums", "LevelSumsAnswer", "Message", "Outcome", "Proposal", "ProposalAnswer", "Receipt", "Sealed",
    "Signature", "SignedTree", "Upload", "join_ids", "numbers_of", "pack_numbers", "split_ids",
]  # fmt: skip

Integers = npt.NDArray[np.int64]
Outcome = Literal["stored", "replayed", "undecryptable", "closed"]

MAX_UPLOAD = 4096  # bytes of an upload: 40 levels take 2.4 kB
MAX_FORWARD = 500  # reports of one request
MAX_TREE = 500_000  # reports of one tree: their tags must fit into one answer
MAX_VALUE_TREE = 400_000  # the same where tags are longer, because reports carry a value
MAX_BODY = 48 << 20  # bytes of a request between servers
MAX_TOKEN = 200
HOUR = 3600
_DIGEST = 32
MAX_REPORTS = 2_000_000  # of a pair: their ids must fit into one request
MAX_LEVEL = 40


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Encoding and decoding, the same for all."""

    limit: ClassVar[int] = MAX_BODY
    earlier: ClassVar[bytes] = b""  # what the bytes of an earlier version begin with, if there is one
    __repr__ = short_repr

    def to_bytes(self) -> bytes:
        """Canonical bytes."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The message that these canonical bytes stand for; refuses all others."""
        what = cls.__name__
        if len(data) > cls.limit:
            raise InvalidInput(f"a message of kind {what} has at most {cls.limit} bytes; got {len(data)}")
        if cls.earlier and data.startswith(cls.earlier):
            raise InvalidInput(f"this message of kind {what} has an earlier version of the wire; update who made it")
        return read_canonical(data, msgspec.msgpack.Decoder(cls), f"message of kind {what}")


# -- devices -----------------------------------------------------------------------------------------------------------


class Upload(Message, frozen=True, tag="upload-2"):
    """All that a device sends.

    Attributes
    ----------
    id : bytes
        The report's name, 16 bytes; also in the path.
    public : bytes
        The public part; its length follows from the pair's shape.
    leader_envelope, helper_envelope : bytes
        The private parts, sealed with ``role``, the pair's id and everything else here, as
        :func:`semilocal.sharing.envelope.info_of` says.
    token : str or None
        The enrolment token, if the leader asks for one.
    bucket : int
        The device's cell of depth ``bucket_depth``; 1, the root, if the pair has no buckets.
    """

    limit: ClassVar[int] = MAX_UPLOAD
    earlier: ClassVar[bytes] = b"\x97\xa6upload"

    id: bytes
    public: bytes
    leader_envelope: bytes
    helper_envelope: bytes
    token: str | None = None
    bucket: int = 1

    def __post_init__(self) -> None:
        check_report(self.id, self.leader_envelope, self.bucket)
        check_report(self.id, self.helper_envelope, self.bucket)
        if self.token is not None and not 1 <= len(self.token) <= MAX_TOKEN:
            raise InvalidInput(f"a token has 1 to {MAX_TOKEN} characters; got {len(self.token)}")

    def check(self, pair: PairTask) -> None:
        """Refuse an upload whose sizes or bucket are not those of the pair."""
        check_parts(pair, self.public, self.leader_envelope, self.bucket)
        check_parts(pair, self.public, self.helper_envelope, self.bucket)


class Receipt(Message, frozen=True, tag="receipt"):
    """What a device gets: the leader has stored these bytes.

    Attributes
    ----------
    task : bytes
        The pair's id.
    id : bytes
        The report's.
    digest : bytes
        SHA-256 of the upload's bytes.
    time : int
        Unix time of this answer, rounded down to the hour.
    signature : bytes
        The leader's.
    """

    limit: ClassVar[int] = 256

    task: bytes
    id: bytes
    digest: bytes
    time: int
    signature: bytes

    def __post_init__(self) -> None:
        check_length(self.task, _DIGEST, "a task's id")
        check_length(self.id, REPORT_ID, "a report's id")
        check_length(self.digest, _DIGEST, "a digest")
        check_length(self.signature, SIGNATURE, "a signature")
        if not 0 <= self.time < 2**40 or self.time % HOUR:
            raise InvalidInput(f"time must be a whole hour in seconds; got {self.time}")

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

    id: bytes
    public: bytes
    envelope: bytes
    bucket: int = 1

    def __post_init__(self) -> None:
        check_report(self.id, self.envelope, self.bucket)

    def check(self, pair: PairTask) -> None:
        """Refuse a report whose sizes or bucket are not those of the pair."""
        check_parts(pair, self.public, self.envelope, self.bucket)


class Forward(Message, frozen=True, tag="forward"):
    """Up to 500 reports, by ascending id."""

    limit: ClassVar[int] = MAX_FORWARD * MAX_UPLOAD

    reports: tuple[Sealed, ...]

    def __post_init__(self) -> None:
        check_count(len(self.reports), 1, MAX_FORWARD, "reports")
        check_ascending([report.id for report in self.reports])


class ForwardAnswer(Message, frozen=True, tag="forward-answer"):
    """What became of each: stored (now or before), replayed (other bytes have this id), undecryptable, closed."""

    outcomes: tuple[Outcome, ...]

    def __post_init__(self) -> None:
        check_count(len(self.outcomes), 1, MAX_FORWARD, "outcomes")


class Closing(Message, frozen=True, tag="closing"):
    """The reports that take part, by ascending id; both servers have all of them."""

    ids: bytes

    def __post_init__(self) -> None:
        check_ascending(split_ids(self.ids))


class ClosingAnswer(Message, frozen=True, tag="closing-answer"):
    """SHA-256 of the ids: the helper has all of them, and takes no more."""

    accepted: bytes

    def __post_init__(self) -> None:
        check_length(self.accepted, _DIGEST, "a digest")


class LevelCheck(Message, frozen=True, tag="level-check"):
    """The leader's digests of the tags of a level, one of 32 bytes per chunk of 4,096 reports."""

    bucket: int
    level: int
    digests: bytes

    def __post_init__(self) -> None:
        check_place(self.bucket, self.level)
        check_multiple(self.digests, _DIGEST, "digests")


class LevelCheckAnswer(Message, frozen=True, tag="level-check-answer"):
    """The chunks whose digests differ, ascending, and the helper's tags of their reports, joined."""

    chunks: tuple[int, ...]
    tags: bytes

    def __post_init__(self) -> None:
        if list(self.chunks) != sorted(set(self.chunks)) or any(chunk < 0 for chunk in self.chunks):
            raise InvalidInput("chunks must be ascending numbers")


class LevelSums(Message, frozen=True, tag="level-sums"):
    """Which reports failed the check of the level, by ascending id, and the leader's noisy differences."""

    bucket: int
    level: int
    rejected: bytes
    numbers: bytes

    def __post_init__(self) -> None:
        check_place(self.bucket, self.level)
        check_ascending(split_ids(self.rejected))
        check_multiple(self.numbers, 8, "numbers")


class LevelSumsAnswer(Message, frozen=True, tag="level-sums-answer"):
    """The helper's noisy differences."""

    numbers: bytes

    def __post_init__(self) -> None:
        check_multiple(self.numbers, 8, "numbers")


class Finish(Message, frozen=True, tag="finish"):
    """The leader's noisy final counts."""

    bucket: int
    numbers: bytes

    def __post_init__(self) -> None:
        check_place(self.bucket, 0)
        check_multiple(self.numbers, 8, "numbers")


class FinishAnswer(Message, frozen=True, tag="finish-answer"):
    """The helper's noisy final counts."""

    numbers: bytes

    def __post_init__(self) -> None:
        check_multiple(self.numbers, 8, "numbers")


class Signature(Message, frozen=True, tag="signature"):
    """A server's signature of the transcript; see :meth:`SignedTree.signature_by`."""

    signature: bytes

    def __post_init__(self) -> None:
        check_length(self.signature, SIGNATURE, "a signature")


# -- the transcript ----------------------------------------------------------------------------------------------------


class BucketTree(Message, frozen=True, tag="bucket-tree"):
    """What was published about one bucket.

    Attributes
    ----------
    bucket : int
        1 if the pair has no buckets.
    published : bytes
        Canonical bytes of :class:`~semilocal.pooled.play.Published`.
    rejected : tuple of int
        Reports that failed the check, per level from the root down.
    """

    bucket: int
    published: bytes
    rejected: tuple[int, ...]

    def __post_init__(self) -> None:
        check_place(self.bucket, 0)
        if len(self.rejected) > MAX_LEVEL or any(not 0 <= number <= MAX_REPORTS for number in self.rejected):
            raise InvalidInput(f"rejected holds at most {MAX_LEVEL} counts of reports")


class SignedTree(Message, frozen=True, tag="signed-tree"):
    """The public transcript of a pair: everything that anybody gets to see.

    Attributes
    ----------
    pair : bytes
        Canonical bytes of the pair task.
    trees : tuple of BucketTree
        One without buckets; else one per bucket that somebody named, ascending.
    leader_signature, helper_signature : bytes
        Over ``pair`` and ``trees``.
    """

    pair: bytes
    trees: tuple[BucketTree, ...]
    leader_signature: bytes
    helper_signature: bytes

    def __post_init__(self) -> None:
        check_length(self.leader_signature, SIGNATURE, "a signature")
        check_length(self.helper_signature, SIGNATURE, "a signature")
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


# msgspec builds what it knows of a type at its first use, and two threads that do so at once crash: do it here.
for _kind in Message.__subclasses__():
    msgspec.msgpack.Decoder(_kind)
