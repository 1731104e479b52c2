"""Speed of thresholds, each part with its limit.

    python -m bench.bench_thresholds

Times are processor times of one core, the best of several turns. Limits hold on an idle machine; one that is missed
ends the program with an error.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from bench import machine
from semilocal.protocol import thresholds as module
from semilocal.protocol.thresholds import level, needed, threshold, thresholds

TURNS, REGIONS, K, EPSILON = 5, 10_000, 20, 1.0


def forget() -> None:
    """Empty every memory of the module."""
    for known in (module._known, module._binomial, module._matrix, module._large_law):
        known.cache_clear()


def seconds(work: Callable[[], object], *, cold: bool) -> float:
    """Processor time of the quickest of several calls."""
    times = []
    for _ in range(TURNS):
        if cold:
            forget()
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    """Print the times and their limits."""
    rng = np.random.default_rng(1)
    people = rng.integers(20, 401, REGIONS)
    levels = np.array([level(1e-6, w) for w in range(12)])[rng.integers(0, 12, REGIONS)]
    asked = needed(people, K, EPSILON, levels)
    large = people[:100] * 100
    fresh = iter(range(1, 1_000_000))  # a level that nobody has asked for: only the laws are remembered
    rows: list[tuple[str, float, float]] = [
        (
            "one threshold, laws warm",
            seconds(lambda: threshold(300, 150, K, EPSILON, 1e-6 / next(fresh)), cold=False),
            1e-3,
        ),
        ("one threshold, asked before", seconds(lambda: threshold(300, 150, K, EPSILON, 1e-6), cold=False), 1e-4),
        ("10^4 regions, cold", seconds(lambda: thresholds(people, asked, K, EPSILON, levels), cold=True), 0.3),
        ("10^4 regions, warm", seconds(lambda: thresholds(people, asked, K, EPSILON, levels), cold=False), 0.05),
        ("10^4 sizes, cold", seconds(lambda: needed(people, K, EPSILON, levels), cold=True), 0.6),
        ("10^4 sizes, warm", seconds(lambda: needed(people, K, EPSILON, levels), cold=False), 0.05),
        ("10^5 asked, cold", seconds(lambda: threshold(10**6, 10**5, K, EPSILON, 1e-21), cold=True), 0.02),
        ("10^2 sizes, k = 2000, cold", seconds(lambda: needed(large, 2000, EPSILON, levels[:100]), cold=True), 3.0),
        ("k = 2^20, cold", seconds(lambda: threshold(3 * 10**6, 2 * 10**6, 1 << 20, EPSILON, 1e-12), cold=True), 0.5),
    ]
    print(machine.line(), end="\n\n")
    print("| what | time | limit | |\n|---|---|---|---|")
    for name, taken, limit in rows:
        print(f"| {name} | {1e3 * taken:.3f} ms | {1e3 * limit:g} ms | {'ok' if taken <= limit else 'MISSED'} |")
    if any(taken > limit for _, taken, limit in rows):
        sys.exit("a limit was missed")


if __name__ == "__main__":
    main()
