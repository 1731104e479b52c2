"""Pairs of two servers for tests: fixed keys, small tasks, honest uploads."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from semilocal import Box
from semilocal.hierarchy import Cells
from semilocal.pooled import PooledTask
from semilocal.sharing.pair import Operator, PairTask
from semilocal.sharing.party import derived_noise
from semilocal.sharing.report import SharedReport, shard
from semilocal.sharing.sealing import Role, public_key, seal, verifying_key
from semilocal.sharing.wire import Upload

Integers = npt.NDArray[np.int64]
ROLES: tuple[Role, Role] = ("leader", "helper")
SIGNING = (hashlib.sha256(b"leader signs").digest(), hashlib.sha256(b"helper signs").digest())
SEALING = (hashlib.sha256(b"leader opens").digest(), hashlib.sha256(b"helper opens").digest())


def operator(server: int, **changes: Any) -> Operator:
    """Operator 0 or 1 of the tests."""
    fields: dict[str, Any] = {
        "name": ("City of Ay", "Bee University")[server],
        "origin": ("https://ay.example", "https://bee.example")[server],
        "signing_key": verifying_key(SIGNING[server]),
        "sealing_key": public_key(SEALING[server]),
    }
    return Operator(**(fields | changes))


def pooled_task(**changes: Any) -> PooledTask:
    """A task that opens a few levels with a few hundred people."""
    options: dict[str, Any] = {"epsilon": 40.0, "trust": "two-servers", "max_depth": 9}
    return PooledTask.build(Box((0, 0), (1, 1)), **(options | changes))


def pair_task(**changes: Any) -> PairTask:
    """A pair of the two operators of the tests."""
    bucket_depth, value = changes.pop("bucket_depth", 0), changes.pop("value", msgspec.UNSET)
    return PairTask(pooled_task(**changes), operator(0), operator(1), bucket_depth, value)


def crowd(n: int, seed: int = 4) -> npt.NDArray[np.float64]:
    """Positions in the unit square: float64[n, 2]."""
    rng = np.random.default_rng(seed)
    return np.clip(rng.normal(0.3, 0.12, size=(n, 2)), 0, 1)


def report_id(number: int) -> bytes:
    """The id of a test device's report."""
    return hashlib.sha256(b"report %d" % number).digest()[:16]


def shared_report(pair: PairTask, code: int, number: int, value: int | None = None) -> tuple[int, SharedReport]:
    """A device's bucket and report, always the same."""
    bucket, path = pair.place(code)
    entropy = hashlib.shake_256(b"device %d" % number).digest(2 * pair.shape.private_bytes)
    return bucket, shard(pair.id, report_id(number), pair.shape, path, entropy, value=value)


def sealed_upload(pair: PairTask, report: SharedReport, *, bucket: int = 1, token: str | None = None) -> Upload:
    """An upload of a report, honest or not, in good envelopes."""
    first, second = (
        seal(
            report.private[server],
            pair.operator(role).sealing_key,
            role=role,
            task=pair.id,
            report=report.nonce,
            public=report.public,
            bucket=bucket,
            token=token or "",
        )
        for server, role in enumerate(ROLES)
    )
    return Upload(report.nonce, report.public, first, second, token, bucket)


def upload_of(pair: PairTask, code: int, number: int, *, token: str | None = None, value: int | None = None) -> Upload:
    """An honest upload for a deepest cell, with a value on the grid if the pair asks for one."""
    bucket, report = shared_report(pair, code, number, value)
    return sealed_upload(pair, report, bucket=bucket, token=token)


class SimulatedPair:
    """Counts in the clear, with the noise that the two servers derive; a counter of ``semilocal.pooled.play``.

    Parameters
    ----------
    task : PooledTask
    codes : uint64[n]
        Deepest cells of the accepted reports.
    accepted : bytes
        Digest of their ids.
    secrets : (bytes, bytes)
        Noise secrets of server 0 and server 1.
    """

    def __init__(self, task: PooledTask, codes: Cells, accepted: bytes, secrets: tuple[bytes, bytes]) -> None:
        self.task, self.codes, self.accepted, self.people = task, np.sort(codes), accepted, len(codes)
        self.secrets, self.depth = secrets, 0

    def exact(self, cells: Cells) -> Integers:
        first, last = self.task.hierarchy.span(cells)
        return np.searchsorted(self.codes, last, side="right") - np.searchsorted(self.codes, first)

    def noise(self, what: Literal["difference", "count"], depth: int, cells: Cells, units: Integers) -> Integers:
        first, second = (derived_noise(s, self.task, what, depth, self.accepted, cells, units) for s in self.secrets)
        return first - second

    def differences(self, depth: int, cells: Cells, units: Integers) -> Integers:
        self.depth = depth + 1
        children = self.task.hierarchy.children(cells).reshape(-1, 2)
        return self.exact(children[:, 0]) - self.exact(children[:, 1]) + self.noise("difference", depth, cells, units)

    def counts(self, cells: Cells, units: Integers) -> Integers:
        return self.exact(cells) + self.noise("count", self.depth, cells, units)
