"""Range counts on the tables of DPBench (Hay et al. 2016), by its 2-D protocol, with a curator and with two servers.

    python -m bench.bench_dpbench --data FOLDER [--runs 3] [--people 10000 100000 1000000] [--trust curator two-servers]

128 x 128 cells, people drawn from each table (multinomial), 2,000 ranges with sides uniform in 1 to 128 cells placed
uniformly. Epsilon is 0.2 for any move of one person, which is 0.1 for taking part. Printed is the mean absolute error
as a share of all people, x 10^-4, and its geometric mean over the nine tables, which has a limit.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.pooled.task import Trust

SIDE, EPSILON, RANGES = 128, 0.2, 2_000
BOX = sl.Box((0, 0), (SIDE, SIDE))
LIMITS: dict[tuple[str, int], float] = {
    ("curator", 10_000): 60, ("curator", 100_000): 9.8, ("curator", 1_000_000): 1.5,
    ("two-servers", 10_000): 76, ("two-servers", 100_000): 13.5, ("two-servers", 1_000_000): 2.0,
}  # fmt: skip


def error(table: Floats, people: int, trust: Trust, seed: int) -> float:
    """Mean absolute error of one run, as a share of all people."""
    rng = np.random.default_rng(seed)
    cells = rng.multinomial(people, (table / table.sum()).ravel())
    places = np.stack(np.divmod(np.repeat(np.arange(SIDE * SIDE), cells), SIDE), axis=1) + 0.5
    counted = sl.counts(places, BOX, epsilon=EPSILON, trust=trust, rng=rng, max_depth=14)
    side = rng.integers(1, SIDE + 1, (RANGES, 2))
    low = rng.integers(0, SIDE - side + 1)
    high = low + side
    passed = np.zeros((SIDE + 1, SIDE + 1))
    passed[1:, 1:] = cells.reshape(SIDE, SIDE).cumsum(0).cumsum(1)
    true = passed[high[:, 0], high[:, 1]] - passed[low[:, 0], high[:, 1]]
    true -= passed[high[:, 0], low[:, 1]] - passed[low[:, 0], low[:, 1]]
    answers = counted.query(np.stack([low, high], axis=1).astype(np.float64))
    return float(np.abs(answers.value - true).mean() / people)


def main() -> None:
    """Print the table; a limit that is missed ends the program with an error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("SEMILOCAL_DATA", "../shared/data"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--people", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--trust", nargs="+", choices=("curator", "two-servers"), default=["curator", "two-servers"])
    given = parser.parse_args()
    tables = np.load(Path(given.data) / "dpbench" / "tables2d.npz")
    whole = {name: tables[name].astype(float).reshape(SIDE, 2, SIDE, 2).sum((1, 3)) for name in tables.files}
    print(
        f"| trust | people | {' | '.join(name.removesuffix('_256_256') for name in whole)} | geometric mean | limit |"
    )
    missed = 0
    for trust in given.trust:
        for people in given.people:
            found = [
                np.mean([error(table, people, trust, given.seed + run) for run in range(given.runs)])
                for table in whole.values()
            ]
            mean, limit = 1e4 * float(np.exp(np.mean(np.log(found)))), LIMITS.get((trust, people), np.inf)
            missed += mean > limit
            row = " | ".join(f"{1e4 * one:.3g}" for one in found)
            print(f"| {trust} | {people:,} | {row} | {mean:.3g} | {limit:g} |", flush=True)
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
