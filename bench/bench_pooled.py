"""Speed (time of the processor) and memory of a whole curator run, with the noise of the operating system.

Prints Markdown tables for ``bench/RESULTS.md``::

    python -m bench.bench_pooled [--people 10000000] [--epsilon 1.0]
"""

from __future__ import annotations

import argparse
import os
import time
import tracemalloc

import numpy as np
import scipy.special  # noqa: F401  # loading it takes 0.13 s, once, and is no part of a run

import semilocal as sl
from bench import machine
from semilocal.pooled import MemoryCounter, PooledTask, estimate, play
from semilocal.pooled.noise import from_entropy
from semilocal.simulation import synthetic


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=10_000_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--memory", action="store_true", help="measure memory (slower) in place of time")
    args = parser.parse_args()
    print(machine.line(), end="\n\n")
    rng = np.random.default_rng(1)
    points = synthetic.clusters(args.people, rng)
    task = PooledTask.build(sl.Box((0, 0), (1, 1)), epsilon=args.epsilon, trust="curator")
    if args.memory:
        tracemalloc.start()
    else:
        codes = task.hierarchy.codes(points)
        start = time.process_time()
        np.sort(codes)
        sort = time.process_time() - start
        del codes
    start = time.process_time()
    counter = MemoryCounter(task, points, from_entropy(os.urandom))
    counted = time.process_time()
    published = play(task, counter)
    played = time.process_time()
    found = estimate(published.tree)
    end = time.process_time()
    print("| people | final cells | what | figure |\n|---|---|---|---|")
    head = f"| {args.people:,} | {len(found.counts):,} |"
    if args.memory:
        peak = tracemalloc.get_traced_memory()[1]
        print(f"{head} bytes per person beside the positions | {peak / args.people:.1f} |")
        return
    print(f"{head} sort of the codes alone | {sort:.2f} s |")
    print(f"{head} codes and sort | {counted - start:.2f} s |")
    print(f"{head} play | {played - counted:.2f} s |")
    print(f"{head} estimates | {end - played:.2f} s |")
    print(f"{head} all, in sorts (target 8) | {(end - start) / sort:.1f} |")


if __name__ == "__main__":
    main()
