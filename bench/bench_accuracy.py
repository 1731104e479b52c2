"""The pooled tree against PrivTree as published: mean relative error of the paper's range queries.

    python -m bench.bench_accuracy --data FOLDER [--runs 12] [--seed 1]

Prints a Markdown table for ``bench/RESULTS.md``. All promise the same: epsilon if a participant is added or removed
(delta = 0; the pooled tree's N is public), 2 epsilon for any move. N = 20,000 rows. What the local protocol reaches is
in ``bench_local.py``, limits on the tables of DPBench in ``bench_dpbench.py``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from bench import machine
from semilocal.lab.experiments.summary import FigureOptions, Study, select
from semilocal.lab.experiments.trials import counts_trial

SOURCES = ("gowalla", "brightkite", "porto", "clusters")
EPSILONS = (0.25, 0.5, 1.0, 2.0)
BASE, OURS = "privtree", {"pooled-curator": "curator", "pooled-servers": "two servers"}
MOST_MEAN = {"pooled-curator": 0.80, "pooled-servers": 1.0}  # of the ratios to PrivTree
MOST_WORST = 0.95  # with a curator
STUDY = Study(
    "bench_accuracy", counts_trial, (BASE, *OURS), {"n": (20_000,), "epsilon": EPSILONS}, ("mre",), SOURCES
)  # fmt: skip


def main() -> None:
    """Print the table; a limit that is missed ends the program with an error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=None)
    given = parser.parse_args()
    print(machine.line(), end="\n\n")
    with tempfile.TemporaryDirectory() as folder:
        summary = STUDY.gather(FigureOptions(given.runs, given.seed, Path(folder), given.data, workers=0)).summary
    print(f"{given.runs} runs, seed {given.seed}; ± is one standard error\n")
    print("| data | ε added/removed (any move: twice) | PrivTree | curator | ratio | two servers | ratio |")
    print("|---" * 7 + "|")
    ratios: dict[str, list[float]] = {method: [] for method in OURS}
    for source in SOURCES:
        for epsilon in EPSILONS:
            rows = {row["method"]: row for row in select(summary, source=source, epsilon=epsilon)}
            if not rows:
                continue
            cells = []
            for method, row in rows.items():
                error = row["mre_std"] / row["runs"] ** 0.5
                cells.append(f"{row['mre_mean']:.3f} ± {error:.3f}")
                if method in OURS:
                    ratios[method].append(row["mre_mean"] / rows[BASE]["mre_mean"])
                    cells.append(f"{ratios[method][-1]:.2f}")
            print(f"| {source} | {epsilon:g} | {' | '.join(cells)} |")
    print()
    means = {method: float(np.mean(found)) for method, found in ratios.items()}
    for method, words in OURS.items():
        print(f"{words}: mean of the ratios {means[method]:.2f}, limit {MOST_MEAN[method]}")
    worst = max(ratios["pooled-curator"])
    print(f"curator: worst ratio {worst:.2f}, limit {MOST_WORST}")
    sys.exit(worst > MOST_WORST or any(means[method] > most for method, most in MOST_MEAN.items()))


if __name__ == "__main__":
    main()
