"""Shared reports: what a device and a server spend, against AES alone.

    python -m bench.bench_sharing

Times are of the processor, the best of several, so that a busy machine counts little.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from bench import machine
from bench.reports import public_parts
from semilocal import Box
from semilocal.device.upload import make_upload
from semilocal.pooled import PooledTask
from semilocal.sharing.pair import Operator, PairTask
from semilocal.sharing.point import FixedKeys
from semilocal.sharing.report import Shape, shard
from semilocal.sharing.sealing import public_key, verifying_key
from semilocal.sharing.verify import Half

TASK = bytes(32)
LEVELS, PEOPLE, CROWD = 40, 20_000, 60
BLOCKS = 4  # AES blocks per report and child: the child, its payload, two for its proof


def best(job: Callable[[], object], times: int) -> float:
    """Least processor time of a job, in seconds."""
    out = []
    for _ in range(times):
        start = time.process_time()
        job()
        out.append(time.process_time() - start)
    return min(out)


def pair_of(levels: int) -> PairTask:
    """A pair of two operators over the unit square."""
    pooled = PooledTask.build(Box((0, 0), (1, 1)), epsilon=1.0, trust="two-servers", max_depth=levels)
    first, second = (
        Operator(name, f"https://{name}.example", verifying_key(name.encode() * 16), public_key(name.encode() * 16))
        for name in ("ay", "be")
    )
    return PairTask(pooled, first, second)


def clustered(rng: np.random.Generator, n: int, levels: int) -> np.ndarray:
    """Codes of people in five clumps on a line."""
    centres = rng.random(5) * 0.8 + 0.1
    at = np.clip(rng.normal(centres[rng.integers(5, size=n)], 0.02), 0, 1 - 1e-9)
    return (at * 2.0**levels).astype(np.int64)


def main() -> None:
    print(machine.line(), end="\n\n")
    rng = np.random.default_rng(1)
    shape = Shape(LEVELS)
    path = rng.integers(2, size=LEVELS).tolist()
    report = best(lambda: shard(TASK, bytes(16), shape, path, bytes(32)), 50)
    pair = pair_of(LEVELS)
    whole = best(lambda: make_upload(pair, (0.3, 0.7), bytes(32), token="t" * 43).to_bytes(), 50)
    size = len(make_upload(pair, (0.3, 0.7), bytes(32), token="t" * 43).to_bytes())
    print(f"device: {whole * 1e3:.2f} ms and {size} bytes for {LEVELS} levels (limits 2 ms, 2600 bytes)")
    print(f"        of these {report * 1e3:.2f} ms for the report, the rest for two envelopes and the message")

    keys = FixedKeys(TASK)
    blocks = rng.integers(2**63, size=(64, 128, 2), dtype=np.uint64)
    aes = best(lambda: keys.encrypt("payload", blocks), 50) / (64 * 128)

    levels = 24
    codes = clustered(rng, PEOPLE, levels)
    paths = ((codes[:, None] >> np.arange(levels - 1, -1, -1)) & 1).astype(np.uint8)
    nonces, private, other = ([rng.bytes(16) for _ in range(PEOPLE)] for _ in range(3))
    public = public_parts(TASK, nonces, paths, (private, other))
    half = Half(TASK, Shape(levels), 0, nonces, public, private)
    start, pairs, regions = time.process_time(), 0, 0
    cells: np.ndarray = np.zeros(1, dtype=np.int64)
    for level in range(levels):
        half.verify_init()
        pairs += 2 * half.cells * PEOPLE
        children = (2 * cells[:, None] + [0, 1]).ravel()
        crowds = np.bincount(np.searchsorted(children, codes >> (levels - level - 1)), minlength=len(children))
        inside = np.isin(children, codes >> (levels - level - 1))
        rows = np.flatnonzero(inside & (crowds[: len(children)] >= CROWD))
        regions += len(children) - len(rows)
        if not len(rows):
            break
        half.open(rows)
        cells = children[rows]
    spent = time.process_time() - start
    print(
        f"server: {PEOPLE} people to {regions} regions in {spent:.2f} s, {pairs / spent / 1e6:.1f} million (report, "
        f"child) a second with the check (limits 3 s, 15 million)"
    )
    print(f"ratio to AES alone ({BLOCKS} blocks each): {spent / pairs / (BLOCKS * aes):.1f}")


if __name__ == "__main__":
    main()
