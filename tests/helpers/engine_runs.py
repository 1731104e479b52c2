"""Runs in memory and over a source, and what must be equal in both."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from semilocal import Box, Run, Task, simulate
from semilocal.arrays import Floats
from semilocal.engines.run import SourceRun, run_source
from semilocal.engines.source import Attached, Source

SEED = 20


class PointsSource(Source):
    """The smallest source: positions float64[n, d] in batches that end in odd places."""

    def __init__(self, points: Floats, box: Box) -> None:
        super().__init__(box)
        self.points = points

    def batches(self, *others: str) -> Iterator[Floats]:
        for start in range(0, len(self.points), 1777):
            yield self.points[start : start + 1777]


def box_of(dimensions: int) -> Box:
    """A box whose edges are no round numbers in binary."""
    return Box((-10.1,) * dimensions, (9.7,) * dimensions)


def people(rows: int, dimensions: int, *, kind: str = "normal", seed: int = 1) -> Floats:
    """Positions of a crowd: a bell, rounded to tenths (so that many lie on edges and on each other), or a spike."""
    rng = np.random.default_rng([seed, dimensions])
    points = np.clip(rng.normal(0.0, 1.5, (rows, dimensions)), -10.1, 9.7)
    if kind == "rounded":
        points = np.round(points, 1)
    if kind == "spike":
        points[: rows // 2] = points[0]
    return points


def digest(task: Task, found: Run | SourceRun) -> str:
    """SHA-256 of everything public: regions, crowds, answers about walls, and every split."""
    out = hashlib.sha256(task.to_bytes())
    out.update(f"{found.rounds} {found.answers} {found.announcements}".encode())
    partition = found.partition
    for part in (partition.lower, partition.upper, partition.crowds, *partition.walls, *found.splits):
        out.update(f"{part.dtype}{part.shape}".encode())
        out.update(np.ascontiguousarray(part).tobytes())
    return out.hexdigest()


def joined(parts: Any) -> Attached:
    """All batches of rows as one."""
    return Attached(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


@lru_cache(maxsize=1)  # the rows are compared after the run
def _in_memory(points: bytes, dimensions: int, task: Task) -> Run:
    return simulate(np.frombuffer(points).reshape(-1, dimensions), task, rng=np.random.default_rng(SEED))


def compare(points: Floats, task: Task, source: Source) -> SourceRun:
    """Run the task in memory and over the source with the same seed, and compare everything, row by row."""
    ours = _in_memory(points.tobytes(), points.shape[1], task)
    theirs = run_source(source, task, rng=np.random.default_rng(SEED))
    assert digest(task, ours) == digest(task, theirs)
    assert theirs.participants == len(points)
    return theirs


def same_rows(points: Floats, task: Task, attached: Attached) -> None:
    """Compare where every row ended with the run in memory."""
    ours = _in_memory(points.tobytes(), points.shape[1], task)
    assert np.array_equal(attached.regions, ours.regions)
