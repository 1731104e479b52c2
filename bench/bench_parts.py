"""Speed of single parts, each with its limit: import, crowd thresholds, value mechanisms, workloads.

    python -m bench.bench_parts

Times are processor times of one core, the best of several turns. Limits hold on an idle machine.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from bench import machine
from semilocal import RandomizedResponse
from semilocal.lab.experiments import trials
from semilocal.randomizer.values import best
from semilocal.simulation import synthetic

TURNS = 5


def seconds(work: Callable[[], object]) -> float:
    """Processor time of the quickest of several calls."""
    times = []
    for _ in range(TURNS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def import_seconds() -> float:
    """Processor time of ``import semilocal`` in a fresh process."""
    return fresh_seconds("import semilocal")


def help_seconds() -> float:
    """Processor time of ``semilocal --help`` in a fresh process, the start of Python included."""
    return fresh_seconds("from semilocal.cli.main import main; main(['--help'])", start="0.0")


def fresh_seconds(work: str, *, start: str = "time.process_time()") -> float:
    """Processor time of some code in a fresh process."""
    code = f"import sys, time; start = {start}; {work}; print(time.process_time() - start, file=sys.stderr)"
    runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True) for _ in range(TURNS)]
    return min(float(run.stderr) for run in runs)


def threshold_seconds() -> float:
    """Exact crowd thresholds of 100,000 different cell sizes."""
    return seconds(lambda: RandomizedResponse(1.0, 2).threshold(np.arange(20, 100_020), k=20, delta=1e-6))


def release_ratio(epsilon: float) -> float:
    """A million released values, as a multiple of a million Laplace draws."""
    mechanism, rng, count = best(epsilon), np.random.default_rng(1), 10**6
    units = rng.random(count)

    def whole() -> object:
        return mechanism.release(units, rng.integers(0, 2**64, size=count, dtype=np.uint64))

    return seconds(whole) / seconds(lambda: rng.laplace(size=count))


def workload_seconds() -> float:
    """The paper's workload of 200 anchored queries on 20,000 positions."""
    points, rng = synthetic.clusters(20_000, np.random.default_rng(14)), np.random.default_rng(15)
    return seconds(lambda: trials.anchored_queries(points, 200, rng))


def main() -> int:
    """Print Markdown rows; return 1 if a limit is missed."""
    print(machine.line(), end="\n\n")
    rows = [
        ("import semilocal", import_seconds(), 0.3, "s"),
        ("semilocal --help", help_seconds(), 0.4, "s"),
        ("thresholds of 100,000 cell sizes", threshold_seconds(), 1.0, "s"),
        *((f"a million values at epsilon {e:g}", release_ratio(e), 10.0, "x Laplace draws") for e in (0.5, 1.0, 4.0)),
        ("200 anchored queries on 20,000 positions", workload_seconds(), 0.5, "s"),
    ]
    print("| what | measured | limit |")
    print("|---|---|---|")
    for what, measured, limit, unit in rows:
        print(f"| {what} | {measured:.2f} {unit} | {limit:g} |")
    return int(any(measured > limit for _, measured, limit, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
