"""A worker of the evaluation: takes a chunk of reports from the database, computes what is ordered, stores the result.

Any number of them work on one database, in the server's own processes and on other machines of the same operator. A
worker keeps the states of its chunks between levels. If it dies, its leases end and others compute its chunks from the
beginning; a result that is stored twice is stored once.

Knows the tables, secrets and reports. Knows no HTTP, noise or clock.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput, StoreUnavailable, printable
from ...sharing.envelope import Role
from ...sharing.evaluate import Half, LevelShare
from ...sharing.pair import PairTask
from ...sharing.report import Shape
from ...sharing.wire import split_ids
from ..keys import Keyring
from ..stores.chunks import ChunkClaim, choose
from ..stores.pairs import PairTables
from .keys import PairSecrets

__all__ = ["LEASE", "MEMORY", "ChunkWorker", "Order", "compute", "flags_of", "read_share", "read_sums", "root_digest"]

LEASE = 10.0  # seconds after which a chunk of a worker that says nothing is taken over
MEMORY = 1 << 30  # bytes of states that all workers of a machine keep; what is above is computed again at every level
log = logging.getLogger("semilocal.service")


class _Pair(NamedTuple):
    """What a worker knows of a pair."""

    pair: PairTask
    server: int
    secrets: PairSecrets


class _Chunk:
    """A chunk that a worker keeps: its reports, evaluated up to an order."""

    def __init__(self, ids: list[bytes], half: Half, root: bytes) -> None:
        self.ids, self.half = ids, half
        self.number, self.digest = -1, root
        self.order: Order | None = None


class ChunkWorker:
    """One worker.

    Parameters
    ----------
    tables : PairTables
    keys : Keyring
        The signing keys of the operator: without them the stored shares cannot be read.
    owner : str
        Its name in the leases, different for every worker on the database.
    lease : float
        Seconds for which it takes a chunk.
    memory : int
        Most bytes of states that it keeps.

    Attributes
    ----------
    claim : Claim or None
        What it works on now.
    """

    def __init__(
        self, tables: PairTables, keys: Keyring, owner: str, *, lease: float = LEASE, memory: int = MEMORY
    ) -> None:
        self._tables, self._keys, self._owner, self._lease, self._memory = tables, keys, owner, lease, memory
        self._pairs: dict[bytes, _Pair | None] = {}
        self._chunks: dict[tuple[bytes, int], _Chunk] = {}
        self._failed: set[ChunkClaim] = set()
        self.claim: ChunkClaim | None = None

    def step(self, *, of: bytes | None = None, retry: bool = True) -> bool:
        """Compute one chunk; False if there is none to compute.

        Parameters
        ----------
        of : bytes, optional
            Take chunks of this task only.
        retry : bool
            Whether to try chunks again that it could not compute. A worker that does so at once gets to no other.
        """
        if retry:
            self._failed.clear()
        pending = [chunk for chunk in self._tables.pending() if of in (None, chunk.task) and self._knows(chunk.task)]
        sound = [chunk for chunk in pending if ChunkClaim(chunk.task, chunk.digest, chunk.chunk) not in self._failed]
        found = choose(sound, self._owner, Counter(task for task, _ in self._chunks))
        if found is None:
            if not pending:
                self.forget()
            return False
        if self._tables.claim(found, self._owner, seconds=self._lease):
            self.claim = ChunkClaim(found.task, found.digest, found.chunk)
            try:
                self.work_on(self.claim)
            except StoreUnavailable:
                raise  # nothing is wrong with the chunk
            except Exception as error:
                self._failed.add(self.claim)
                self._tables.put_fault(self.claim, f"{type(error).__name__}: {printable(str(error))}")
                raise
            finally:
                self.claim = None
        return True

    def renew(self) -> None:
        """Say that it still works on its chunk; from another thread."""
        claim = self.claim
        if claim is not None:
            self._tables.renew(claim, self._owner, seconds=self._lease)

    def forget(self) -> None:
        """Forget chunks that others have taken over, and pairs that are not counted now: these are shares."""
        if self._chunks:
            owned = self._tables.owned(self._owner)
            self._chunks = {key: chunk for key, chunk in self._chunks.items() if key in owned}
        used = {task for task, _ in self._chunks}
        self._pairs = {task: pair for task, pair in self._pairs.items() if task in used or pair is None}

    def kept_bytes(self) -> int:
        """Memory of all states that it keeps."""
        return sum(chunk.half.kept_bytes for chunk in self._chunks.values())

    def _knows(self, task: bytes) -> bool:
        """Whether it can read a pair and has its key; says so once if not."""
        if task not in self._pairs:
            row, body, seed = self._tables.row(task), self._tables.body(task), self._tables.seed(task)
            if row is None or body is None or seed is None:
                return False
            try:
                pair = PairTask.from_bytes(body)
            except InvalidInput as error:
                log.warning("pair %s cannot be read: %s", task.hex()[:12], error)
                self._pairs[task] = None
                return False
            role: Role = row.role
            key = pair.operator(role).signing_key
            secret = self._keys.private.get(key)
            if secret is None:
                log.warning(
                    "pair %r (%s) pins the key %s…, which this worker does not have: it leaves its chunks to others",
                    row.name, task.hex()[:12], key.hex()[:16],
                )  # fmt: skip
            server = 0 if role == "leader" else 1
            self._pairs[task] = None if secret is None else _Pair(pair, server, PairSecrets(secret, seed))
        return self._pairs[task] is not None

    def work_on(self, claim: ChunkClaim) -> None:
        """Compute a chunk that it has got, and store the result."""
        pair = self._pairs[claim.task]
        assert pair is not None
        chunk = self._brought(claim, pair)
        if chunk is None or chunk.order is None:  # another order has taken the place of this one
            return
        result = compute(chunk.half, chunk.ids, chunk.order)
        self._tables.put_result(claim, pair.secrets.seal_result(claim.digest, claim.chunk, result))

    def _brought(self, claim: ChunkClaim, pair: _Pair) -> _Chunk | None:
        """The chunk at the claimed order, from where it was kept or from the beginning; None if nothing leads there."""
        key = (claim.task, claim.chunk)
        chunk = self._chunks.pop(key, None)
        if chunk is None or not self._follow(claim, chunk):
            self.forget()
            chunk = self._loaded(claim, pair)
            if chunk is None or not self._follow(claim, chunk):
                return None
        self._chunks[key] = chunk
        return chunk

    def _loaded(self, claim: ChunkClaim, pair: _Pair) -> _Chunk | None:
        """A chunk as it was uploaded."""
        row = self._tables.chunk(claim.task, claim.chunk)
        if row is None:
            return None
        ids = split_ids(row.ids)
        wanted = set(ids)
        rows = [
            stored for stored in self._tables.shares(claim.task, row.bucket, ids[0], ids[-1]) if stored.report in wanted
        ]
        if len(rows) != len(ids):
            raise InvalidInput(f"chunk {claim.chunk} has {len(ids)} reports, but {len(rows)} are stored")
        private = [pair.secrets.masked(stored.private, stored.report) for stored in rows]
        half = Half(claim.task, pair.pair.shape, pair.server, [stored.public for stored in rows], private)
        return _Chunk(ids, half, row.root)

    def _follow(self, claim: ChunkClaim, chunk: _Chunk) -> bool:
        """Bring a chunk to the claimed order; False if the stored orders do not lead from one to the other."""
        if chunk.digest != claim.digest:
            for row in self._tables.orders(claim.task, after=chunk.number):
                order = Order.from_bytes(row.body)
                if order.digest(chunk.digest) != row.digest:
                    return False
                self.apply_order(chunk, order)
                chunk.number, chunk.digest, chunk.order = row.number, row.digest, order
                if row.digest == claim.digest:
                    break
        return chunk.digest == claim.digest

    def apply_order(self, chunk: _Chunk, order: Order) -> None:
        """Open and drop what an order says. States are kept as long as there is memory for them."""
        if order.dropped:
            chunk.half.drop(flags_of(chunk.ids, order.dropped))
        rows = order.opened
        if rows is not None:
            needed = 16 * len(rows) * len(chunk.ids)
            chunk.half.open(rows, keep=self.kept_bytes() + needed <= self._memory)


# -- what is to be computed of every chunk of reports, and what comes out, as bytes ----------------------------------


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
