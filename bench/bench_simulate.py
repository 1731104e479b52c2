"""Time and memory of a whole simulated run against sorting as many numbers: `make bench`, or run this file.

Prints Markdown rows for bench/RESULTS.md. Ratios are measured in one run on one machine.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from semilocal import Box, Task, simulate

BOX = Box((-10, -10), (10, 10))
TASK = Task.build(BOX, epsilon=1.0, delta=0.05, k=20)


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Best time of several calls."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return float(best)


def population(size: int, rng: np.random.Generator) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The paper's first experiment."""
    points: np.ndarray[tuple[int, int], np.dtype[np.float64]] = np.clip(rng.normal(0.0, 1.5, size=(size, 2)), -10, 10)
    return points


def main() -> None:
    """Measure 10^6 and, unless told `small`, 10^7 participants."""
    rng = np.random.default_rng(20)
    head = ("participants", "regions", "sort (s)", "simulate (s)", "ratio (limit 10)", "codes", "sort", "rest", "bytes")
    print("| " + " | ".join(head) + " |")
    print("|---|---|---|---|---|---|---|---|---|")
    for size in (10**6,) if "small" in sys.argv else (10**6, 10**7):
        points = population(size, rng)
        repeats = 5 if size == 10**6 else 2
        numbers = rng.integers(0, 2**63, size=size, dtype=np.uint64)
        sort = seconds(lambda numbers=numbers: np.sort(numbers), repeats)  # type: ignore[misc]
        whole = seconds(lambda points=points: simulate(points, TASK, rng=rng), repeats)  # type: ignore[misc]
        codes = seconds(lambda points=points: TASK.hierarchy.codes(points), repeats)  # type: ignore[misc]
        tracemalloc.start()
        run = simulate(points, TASK, rng=rng)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        parts = [codes / whole, sort / whole, 1 - (codes + sort) / whole]
        print(
            f"| {size:,} | {len(run.partition):,} | {sort:.3f} | {whole:.3f} | {whole / sort:.1f} | "
            + " | ".join(f"{share:.0%}" for share in parts)
            + f" | {peak / size:.0f} |"
        )


if __name__ == "__main__":
    main()
