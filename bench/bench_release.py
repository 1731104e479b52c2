"""Speed of the releases: values for many participants, and range queries over many regions.

    python -m bench.bench_release

The cost of a value release is stated as a multiple of drawing as many Laplace variates with numpy, both measured in
turns in the same run; the median of the ratios counts. Times are processor times of one core; queries run on all cores,
so their time on the clock stands beside it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import semilocal as sl

PARTICIPANTS = 1_000_000
TURNS = 7
MOST_RATIO = 15.0
MOST_SECONDS = 1.0


def seconds(work: Callable[[], object]) -> float:
    """Processor time of one call: what others do on the machine does not count."""
    start = time.process_time()
    work()
    return time.process_time() - start


def value_ratio(rng: np.random.Generator) -> tuple[float, float]:
    """Median cost of a mean release in Laplace draws, and its median seconds."""
    points = rng.normal(0, 1.5, (PARTICIPANTS, 2)).clip(-10, 10)
    task = sl.Task.build(sl.Box((-10, -10), (10, 10)), epsilon=1.0, delta=0.05, k=20)
    run = sl.simulate(points, task, rng=rng)
    f = sl.functions.squared_norm()
    turns = []
    for _ in range(TURNS):
        release = seconds(lambda: sl.release.mean(run, points, f, epsilon=1.0, rng=rng))
        laplace = seconds(lambda: rng.laplace(size=PARTICIPANTS))
        turns.append((release / laplace, release))
    ratio, took = np.median(turns, axis=0)
    return float(ratio), float(took)


def query_seconds(rng: np.random.Generator) -> list[tuple[str, float, float, float]]:
    """What, seconds for the first 100,000 queries (index and intervals included), on the clock, and for the next."""
    points, box = rng.normal(0, 1.5, (600_000, 2)).clip(-10, 10), sl.Box((-10, -10), (10, 10))
    public = sl.counts(points, box, epsilon=1.0, trust="nobody", delta=0.05, k=20, rng=rng)
    pooled = sl.counts(points, box, epsilon=0.5, trust="curator", rng=rng)
    lower = rng.uniform(-10, 8, (100_000, 2))
    boxes = np.stack([lower, lower + rng.uniform(0.01, 4, lower.shape)], axis=1)
    corners = np.sort(rng.uniform(-10, 10, (100_000, 2, 2)), axis=1)
    out = []
    for name, result, asked in (
        (f"{len(public.partition):,} public regions", public, boxes),
        (f"a pooled tree, {len(pooled.partition):,} cells", pooled, boxes),
        (f"a pooled tree, {len(pooled.partition):,} cells, boxes with random corners", pooled, corners),
    ):
        start = time.perf_counter()
        first = seconds(partial(_ask, result, asked))
        clock = time.perf_counter() - start
        out.append((name, first, clock, seconds(partial(_ask, result, asked))))
    return out


def _ask(result: Any, boxes: Any) -> object:
    return result.answer(boxes).interval()


def main() -> int:
    """Print Markdown rows; return 1 if a limit is missed."""
    rng = np.random.default_rng(1)
    ratio, took = value_ratio(rng)
    asked = query_seconds(rng)
    print("| what | measured | limit |")
    print("|---|---|---|")
    print(f"| mean release, {PARTICIPANTS:,} participants | {took:.2f} s, {ratio:.1f} x Laplace | {MOST_RATIO:g} x |")
    for name, first, clock, later in asked:
        times = f"{first:.2f} s ({clock:.2f} s); {later:.2f} s"
        print(f"| 100,000 queries with intervals, {name} (on the clock); later | {times} | {MOST_SECONDS:g} s |")
    return int(ratio > MOST_RATIO or any(first > MOST_SECONDS for _, first, _, _ in asked))


if __name__ == "__main__":
    sys.exit(main())
