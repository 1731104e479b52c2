"""A worker of the evaluation: takes a chunk of reports from the database, computes what is ordered, stores the result.

Any number of them work on one database, in the server's own processes and on other machines of the same operator. A
worker keeps the states of its chunks between levels. If it dies, its leases end and others compute its chunks from the
beginning; a result that is stored twice is stored once.

Knows the tables, secrets and reports. Knows no HTTP, noise or clock.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import NamedTuple

from ...errors import InvalidInput, StoreUnavailable, printable
from ...sharing.envelope import Role
from ...sharing.evaluate import Half
from ...sharing.pair import PairTask
from ...sharing.wire import split_ids
from ..keys import Keyring
from ..stores.chunks import ChunkClaim, choose
from ..stores.pairs import PairTables
from .keys import PairSecrets
from .orders import Order, compute, flags_of

__all__ = ["LEASE", "MEMORY", "ChunkWorker"]

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
