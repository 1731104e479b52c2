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
from bench import machine
from semilocal.protocol.promise import Trust

PARTICIPANTS = 1_000_000
TURNS = 7
MOST_RATIO = 15.0
QUERIES = 100_000
SIDES = 0.01, 0.15  # of boxes around people, as parts of the domain's
MOST_SECONDS = 6.0  # of processor time
MOST_FIRST = 0.3


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
    """What; seconds for the first query, tree and walk included; for all of them with intervals; that on the clock."""
    centres, widths = np.array([[0, 0], [4, 4], [-5, 3], [3, -6]]), np.array([1.5, 0.4, 0.8, 0.2])
    crowd = rng.choice(4, PARTICIPANTS, p=[0.4, 0.2, 0.2, 0.2])
    points = (centres[crowd] + widths[crowd, None] * rng.normal(size=(PARTICIPANTS, 2))).clip(-10, 10)
    middles, sides = points[rng.integers(0, PARTICIPANTS, QUERIES)], 20.0 * rng.uniform(*SIDES, (QUERIES, 2))
    boxes = np.stack([middles - sides / 2, middles + sides / 2], axis=1).clip(-10, 10)
    box = sl.Box((-10, -10), (10, 10))
    out = []
    kinds: list[tuple[float, Trust]] = [(1.0, "nobody"), (2.0, "two-servers"), (0.8, "curator"), (9.0, "curator")]
    for epsilon, trust in kinds:
        options: dict[str, Any] = {"delta": 0.05, "k": 20} if trust == "nobody" else {}
        result = sl.counts(points, box, epsilon=epsilon, trust=trust, rng=rng, **options)
        first = seconds(partial(_ask, result, boxes[:1]))
        start = time.perf_counter()
        every = seconds(partial(_ask, result, boxes))
        clock = time.perf_counter() - start
        out.append((f"{len(result.partition):,} cells, {trust}", first, every, clock))
    return out


def _ask(result: Any, boxes: Any) -> object:
    return result.answer(boxes).interval()


def main() -> int:
    """Print Markdown rows; return 1 if a limit is missed."""
    print(machine.line(), end="\n\n")
    rng = np.random.default_rng(1)
    ratio, took = value_ratio(rng)
    asked = query_seconds(rng)
    print("| what | measured | limit |")
    print("|---|---|---|")
    print(f"| mean release, {PARTICIPANTS:,} participants | {took:.2f} s, {ratio:.1f} x Laplace | {MOST_RATIO:g} x |")
    for name, first, every, clock in asked:
        times = f"{first:.2f} s; {every:.1f} s ({clock:.1f} s)"
        print(f"| first query; {QUERIES:,} queries (on the clock), {name} | {times} | {MOST_FIRST}; {MOST_SECONDS} s |")
    slow = any(first > MOST_FIRST or every > MOST_SECONDS for _, first, every, _ in asked)
    return int(ratio > MOST_RATIO or slow)


if __name__ == "__main__":
    sys.exit(main())
