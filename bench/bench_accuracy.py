"""Accuracy on the reference experiments: mean squared error of means, mean relative error of range counts.

Prints Markdown tables for ``bench/RESULTS.md``. The reference numbers (the authors' published code, rerun) are read
from a folder that holds ``mean_mse.csv`` and ``range_mre.csv``::

    python -m bench.bench_accuracy --reference FOLDER [--runs 20] [--only mean|counts]
    python -m bench.bench_accuracy --only pooled|choice [--runs 20]

The last two need the datasets (SEMILOCAL_DATA). "pooled" compares the pooled tree with PrivTree where both promise the
same: epsilon if a participant is added or removed (delta = 0; the pooled tree's N is public), 2 epsilon for any move.
"choice" chooses the rule's constants on three datasets at a time and shows what they give on the fourth.

Losses have delta = 0; delta = 0.05 is for the crowd of k = 20 (a research setting). With accounting "core" epsilon is
between two positions inside a region; a moved position against those inside costs (1 + T) reports, and the shares of
moved participants stand in each row. With "uniform" epsilon is for a moved position against any inside.
"""

from __future__ import annotations

import argparse
import csv
import functools
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

import semilocal as sl
from semilocal import baselines, release
from semilocal.experiments import trials, workloads
from semilocal.geometry.index import count_points
from semilocal.io.progress import track
from semilocal.pooled import MemoryCounter, PooledTask, Trust, estimate, play, replay, rule, spread_inside
from semilocal.pooled.noise import from_generator
from semilocal.protocol.mark import Mark
from semilocal.protocol.task import Accounting
from semilocal.release import split as jobs
from semilocal.release.boxes import BoxCounts, mean_relative_error
from semilocal.simulation import synthetic

K, DELTA = 20, 0.05
GAUSSIAN = sl.Box((-10, -10), (10, 10))
MEAN_TARGETS = {1.0: 0.015, 2.0: 1.5e-3, 4.0: 3e-4, 8.0: 1.5e-4, 12.0: 1e-4}
COUNT_TARGETS = {1.0: 0.35, 2.0: 0.20, 3.0: 0.15}
ACCOUNTINGS: tuple[Accounting, ...] = ("core", "uniform")
MOVED = "moved 1 / 2 / more"
SOURCES = ("gowalla", "brightkite", "porto", "clusters")
EPSILONS = (0.25, 0.5, 1.0, 2.0)
SERVER_TARGETS = {0.5: 1.3, 1.0: 1.0, 2.0: 1.0}
SETTINGS: dict[str, dict[str, float]] = {
    "ours": {},
    "threshold / 1.3": {"threshold": 1 / 1.3},
    "threshold x 1.3": {"threshold": 1.3},
    "opening share 0.09": {"share": 0.09},
    "opening share 0.17": {"share": 0.17},
    "no benefit of the doubt": {"DOUBT": 0.0},
    "twice the doubt": {"DOUBT": 1.0},
    "short memory": {"FORGET": 0.25},
    "long memory": {"FORGET": 0.8},
    "evenest 0.03": {"EVENEST": 0.03},
    "evenest 0.3": {"EVENEST": 0.3},
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=Path, help="folder with mean_mse.csv and range_mre.csv")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("mean", "counts", "pooled", "choice"))
    args = parser.parse_args()
    start = time.perf_counter()
    if args.reference is None and args.only in (None, "mean", "counts"):
        parser.error("--reference is needed for means and counts")
    if args.only in (None, "mean"):
        for line in means(args.reference / "mean_mse.csv", args.runs, args.seed):
            print(line, flush=True)
    if args.only in (None, "counts"):
        for line in counts(args.reference / "range_mre.csv", args.runs, args.seed):
            print(line, flush=True)
    if args.only in ("pooled", "choice"):
        for line in (pooled if args.only == "pooled" else choice)(args.runs, args.seed):
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
                answers = release.counts(run).answer(queries).value
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


def pooled(runs: int, seed: int) -> Iterator[str]:
    """Rows of the comparison with PrivTree: mean relative error of the paper's range queries."""
    yield from _header(
        ("data", "ε added/removed (any move: twice)", "PrivTree", "curator", "ratio", "two servers", "ratio")
    )
    ratios = []
    for source in SOURCES:
        for epsilon in EPSILONS:
            errors = np.array(
                [_compared(source, epsilon, seed, run) for run in track(range(runs), f"{source} {epsilon:g}")]
            )
            base, curator, servers = errors.mean(axis=0)
            ratios.append(curator / base)
            first = f"{curator / base:.2f} {'ok' if curator / base <= 0.95 else 'MISSED'}"
            most = SERVER_TARGETS.get(epsilon)
            second = f"{servers / base:.2f}" + ("" if most is None else " ok" if servers / base <= most else " MISSED")
            yield f"| {source} | {epsilon:g} | {base:.3f} | {curator:.3f} | {first} | {servers:.3f} | {second} |"
    yield f"\nCurator, mean of the ratios: {np.mean(ratios):.2f} (target 0.8)."


def choice(runs: int, seed: int) -> Iterator[str]:
    """Rows of the choice of constants: the best on three datasets, and what it gives on the one left out."""
    found = {name: np.empty(len(SOURCES)) for name in SETTINGS}
    for place, source in enumerate(SOURCES):
        bases = {e: [_privtree(source, e, seed, run) for run in range(runs)] for e in EPSILONS}
        for name, setting in track(list(SETTINGS.items()), source):
            ratios = [
                np.mean([_pooled(source, e, seed, run, "curator", setting) for run in range(runs)]) / np.mean(bases[e])
                for e in EPSILONS
            ]
            found[name][place] = np.mean(ratios)
    yield from _header(("constants", *SOURCES))
    for name, ratios_of in found.items():
        yield f"| {name} | {' | '.join(f'{ratio:.3f}' for ratio in ratios_of)} |"
    yield from _header(("left out", "chosen on the others", "curator / PrivTree on the one left out", "with ours"))
    for place, source in enumerate(SOURCES):
        best = min(found, key=lambda name: float(np.delete(found[name], place).mean()))
        yield f"| {source} | {best} | {found[best][place]:.3f} | {found['ours'][place]:.3f} |"


def _compared(source: str, epsilon: float, seed: int, run: int) -> tuple[float, float, float]:
    curator, servers = (_pooled(source, epsilon, seed, run, trust, {}) for trust in ("curator", "two-servers"))
    return _privtree(source, epsilon, seed, run), curator, servers


@functools.lru_cache(maxsize=200)
def _people(source: str, seed: int, run: int) -> trials.People:
    return trials.draw_people(source, 20_000, np.random.default_rng([seed, run, SOURCES.index(source)]))


def _privtree(source: str, epsilon: float, seed: int, run: int) -> float:
    points, boxes, truth, floor = _people(source, seed, run)
    rng = np.random.default_rng([seed, run, int(100 * epsilon)])
    answers = baselines.privtree(points, synthetic.UNIT_SQUARE, epsilon=epsilon, rng=rng).query(boxes).value
    return mean_relative_error(answers, truth, floor=floor)


def _pooled(source: str, epsilon: float, seed: int, run: int, trust: Trust, setting: dict[str, float]) -> float:
    """Error of the pooled tree; ``setting`` changes constants of its rule."""
    points, boxes, truth, floor = _people(source, seed, run)
    rng = np.random.default_rng([seed, run, int(100 * epsilon), len(trust)])
    task = PooledTask.build(synthetic.UNIT_SQUARE, epsilon=2 * epsilon, trust=trust)
    fields = {"threshold": task.threshold * setting.get("threshold", 1.0), "opening_share": setting.get("share", 0.125)}
    task = msgspec.structs.replace(task, **fields)
    usual = {name: getattr(rule, name) for name in ("DOUBT", "FORGET", "EVENEST")}
    for name, value in usual.items():
        setattr(rule, name, setting.get(name, value))
    found = estimate(replay(play(task, MemoryCounter(task, points, from_generator(rng)), mark=Mark(seeded=True))))
    for name, value in usual.items():
        setattr(rule, name, value)
    tree, cells, counts = spread_inside(task.hierarchy, found.tree.cells, found.counts)
    answers = BoxCounts(tree.boxes(cells), counts).query(boxes).value
    return mean_relative_error(answers, truth, floor=floor)


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
