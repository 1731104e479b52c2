"""Accuracy on the reference experiments: mean squared error of means, mean relative error of range counts.

Prints Markdown tables for ``bench/RESULTS.md``. The reference numbers (the authors' published code, rerun) are read
from a folder that holds ``mean_mse.csv`` and ``range_mre.csv``::

    python bench/bench_accuracy.py --reference FOLDER [--runs 20] [--only mean|counts]

Losses are inside a participant's region, delta = 0.05 for the crowd of k = 20 (a research setting). With accounting
"core" epsilon is for participants who are never moved; the shares of those who are moved, and so lose more, stand in
each row. With "uniform" epsilon bounds everybody's loss.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

import semilocal as sl
from semilocal import baselines, release
from semilocal.experiments import workloads
from semilocal.geometry.index import count_points
from semilocal.io.progress import track
from semilocal.protocol.task import Accounting
from semilocal.release import onecall as jobs
from semilocal.release.boxes import mean_relative_error
from semilocal.simulation import synthetic

K, DELTA = 20, 0.05
GAUSSIAN = sl.Box((-10, -10), (10, 10))
MEAN_TARGETS = {1.0: 0.015, 2.0: 1.5e-3, 4.0: 3e-4, 8.0: 1.5e-4, 12.0: 1e-4}
COUNT_TARGETS = {1.0: 0.35, 2.0: 0.20, 3.0: 0.15}
ACCOUNTINGS: tuple[Accounting, ...] = ("core", "uniform")
MOVED = "moved 1 / 2 / more"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=Path, required=True, help="folder with mean_mse.csv and range_mre.csv")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("mean", "counts"))
    args = parser.parse_args()
    start = time.perf_counter()
    if args.only != "counts":
        for line in means(args.reference / "mean_mse.csv", args.runs, args.seed):
            print(line, flush=True)
    if args.only != "mean":
        for line in counts(args.reference / "range_mre.csv", args.runs, args.seed):
            print(line, flush=True)
    print(f"\n{args.runs} runs per row, seed {args.seed}, {time.perf_counter() - start:.0f} s.")


def means(reference: Path, runs: int, seed: int) -> Iterator[str]:
    """Rows of the first experiment: the mean of the squared norm of a truncated Gaussian."""
    f = sl.functions.squared_norm()
    columns = (
        "N",
        "ε",
        "MSE core",
        "95 % upper",
        "target",
        MOVED,
        "MSE uniform",
        MOVED,
        "local_mean",
        "LDP",
        "authors",
    )
    yield from _header(columns)
    for row in track(list(_rows(reference)), "means"):
        size, epsilon = int(row["n"]), float(row["epsilon"])
        cells = []
        for accounting in ACCOUNTINGS:
            rng = np.random.default_rng([seed, size, int(100 * epsilon), len(accounting)])
            errors, moves, local = [], [], []
            for _ in range(runs):
                points = synthetic.truncated_gaussian(size, rng, box=GAUSSIAN, scale=1.5)
                run, split, ledger = jobs.partition_for_values(
                    points, GAUSSIAN, epsilon=epsilon, delta=DELTA, k=K, rng=rng, accounting=accounting
                )
                result = release.mean(run, points, f, epsilon=split.value, rng=rng, ledger=ledger)
                truth = float(f(points).mean())
                errors.append(result.value - truth)
                local.append(baselines.local_mean(points, f, GAUSSIAN, epsilon=epsilon, rng=rng).value - truth)
                moves.append(_moved(run.moves))
            squares = np.square(errors)
            error = float(squares.mean())
            cells.append(f"{error:.2e}")
            if accounting == "core":
                upper = error + 1.645 * float(squares.std()) / np.sqrt(runs)
                target = MEAN_TARGETS.get(epsilon) if size == 64_000 else None
                verdict = "" if target is None else f"{target:g} {'ok' if error <= target else 'MISSED'}"
                cells += [f"{upper:.1e}", verdict]
            cells.append(_shares(moves))
        cells.append(f"{np.mean(np.square(local)):.2e}")
        yield f"| {size} | {epsilon:g} | {' | '.join(cells)} | {row['ldp_mse']} | {row['authors_sldp_mse']} |"


def counts(reference: Path, runs: int, seed: int) -> Iterator[str]:
    """Rows of the clustered experiment: range queries on five clusters."""
    columns = ("N", "ε", "MRE core", "±", "target", MOVED, "MRE uniform", MOVED, "PrivTree (trusted)", "authors")
    yield from _header(columns)
    for row in track(list(_rows(reference)), "counts"):
        size, epsilon = int(row["n"]), float(row["epsilon"])
        cells = []
        for accounting in ACCOUNTINGS:
            rng = np.random.default_rng([seed, size, int(100 * epsilon), len(accounting)])
            errors, moves = [], []
            for _ in range(runs):
                points = synthetic.clusters(size, rng)
                queries = workloads.uniform_queries(100, rng)
                task = sl.Task.build(synthetic.UNIT_SQUARE, epsilon=epsilon, delta=DELTA, k=K, accounting=accounting)
                run = sl.simulate(points, task, rng=rng)
                truth = count_points(points, queries)
                floor = workloads.uniform_floor(size)
                answers = release.counts(run).query(queries).value
                errors.append(mean_relative_error(answers, truth, floor=floor))
                moves.append(_moved(run.moves))
            error = float(np.mean(errors))
            cells.append(f"{error:.3f}")
            if accounting == "core":
                target = COUNT_TARGETS.get(epsilon) if size == 20_000 else None
                verdict = "" if target is None else f"{target:g} {'ok' if error <= target else 'MISSED'}"
                cells += [f"{float(np.std(errors)) / np.sqrt(runs):.3f}", verdict]
            cells.append(_shares(moves))
        yield f"| {size} | {epsilon:g} | {' | '.join(cells)} | {row['privtree_mre']} | {row['authors_sldp_mre']} |"


def _header(columns: tuple[str, ...]) -> Iterator[str]:
    yield f"\n| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"


def _moved(moves: npt.NDArray[np.int16]) -> tuple[float, float, float]:
    return float(np.mean(moves == 1)), float(np.mean(moves == 2)), float(np.mean(moves > 2))


def _shares(moves: list[tuple[float, float, float]]) -> str:
    return " / ".join(f"{100 * share:.2g} %" for share in np.mean(moves, axis=0))


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file)


if __name__ == "__main__":
    main()
