"""Limits of the range counts on the tables of DPBench (Hay et al. 2016), with a curator and with two servers.

    python -m bench.bench_dpbench [--data FOLDER] [--runs 3] [--seed 1]

The same trials as ``semilocal reproduce dpbench``. Printed is the geometric mean over the nine tables of the mean
absolute error as a share of all people, x 10^-4; and the worst of 30 runs on one spiky table, in people.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench import machine
from semilocal.lab.experiments.dpbench import geometric_mean, ranges
from semilocal.lab.experiments.summary import FigureOptions, select

LIMITS: dict[tuple[str, int], float] = {
    ("pooled-curator", 10_000): 60, ("pooled-curator", 100_000): 9.8, ("pooled-curator", 1_000_000): 1.5,
    ("pooled-servers", 10_000): 76, ("pooled-servers", 100_000): 13.5, ("pooled-servers", 1_000_000): 2.0,
}  # fmt: skip
METHODS = ("pooled-curator", "pooled-servers")
SPIKY, SPIKY_PEOPLE, SPIKY_RUNS, SPIKY_LIMIT = "Adult_2D_256_256", 1_000_000, 30, 400


def main() -> None:
    """Print the tables; a limit that is missed ends the program with an error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(machine.line(), end="\n\n")
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        options = FigureOptions(given.runs, given.seed, Path(folder), given.data, workers=0)
        found = ranges(options, METHODS, maps=False)
        print(f"{given.runs} runs\n\n| method | people | x 10⁻⁴ | limit |\n|---|---|---|---|")
        for (method, people), limit in LIMITS.items():
            mean, error = geometric_mean(select(found.summary, method=method, n=people), "mae")
            missed += 1e4 * mean / people > limit
            print(f"| {method} | {people:,} | {1e4 * mean / people:.3g} ± {1e4 * error / people:.1g} | {limit:g} |")
        many = FigureOptions(SPIKY_RUNS, given.seed, Path(folder), given.data, workers=0)
        spiky = ranges(many, METHODS, (SPIKY_PEOPLE,), names=(SPIKY,), most=SPIKY_RUNS, maps=False)
    for method in METHODS:
        worst = max(float(row["mae"]) for row in select(spiky.rows, method=method))
        missed += worst > SPIKY_LIMIT
        words = f"worst of {SPIKY_RUNS} runs on {SPIKY}, {SPIKY_PEOPLE:,} people"
        print(f"{method}: {words}: {worst:.0f}, limit {SPIKY_LIMIT}")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
