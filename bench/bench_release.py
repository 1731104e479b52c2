"""Speed of the releases: values for many participants, and range queries over many regions.

    python bench/bench_release.py

The cost of a value release is stated as a multiple of drawing as many Laplace variates with numpy, both measured in
turns in the same run; the median of the ratios counts. Times are processor times of one core.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import semilocal as sl

PARTICIPANTS = 1_000_000
TURNS = 7
MOST_RATIO = 15.0
MOST_SECONDS = 2.0


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


def query_seconds(rng: np.random.Generator) -> tuple[int, float, float]:
    """Regions, seconds for the first 100,000 queries (index and intervals included) and for the next."""
    points = rng.normal(0, 1.5, (600_000, 2)).clip(-10, 10)
    result = sl.counts(points, sl.Box((-10, -10), (10, 10)), epsilon=1.0, trust="nobody", delta=0.05, k=20, rng=rng)
    lower = rng.uniform(-10, 8, (100_000, 2))
    boxes = np.stack([lower, lower + rng.uniform(0.01, 4, lower.shape)], axis=1)
    first = seconds(lambda: result.query(boxes).interval())
    return len(result.partition), first, seconds(lambda: result.query(boxes).interval())


def main() -> int:
    """Print Markdown rows; return 1 if a limit is missed."""
    rng = np.random.default_rng(1)
    ratio, took = value_ratio(rng)
    regions, first, again = query_seconds(rng)
    print("| what | measured | limit |")
    print("|---|---|---|")
    print(f"| mean release, {PARTICIPANTS:,} participants | {took:.2f} s, {ratio:.1f} x Laplace | {MOST_RATIO:g} x |")
    print(f"| 100,000 queries with intervals, {regions:,} regions, first | {first:.2f} s | {MOST_SECONDS:g} s |")
    print(f"| the same again | {again:.2f} s | |")
    return int(ratio > MOST_RATIO or first > MOST_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
