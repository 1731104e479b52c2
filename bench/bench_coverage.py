"""How often 95 % intervals of counts hold the truth, by kind of query.

    python bench/bench_coverage.py [--runs 500] [--seed 3] [--held-out] [--data FOLDER] [--real-runs 60]

Populations are the clusters and the Gaussian of the experiments, and with --data the positions of real datasets.
Answers that are exact do not count. The band to reach is 93 to 98 %. The model of intervals was chosen while looking
at these populations with seed 3; --held-out adds shapes that were not looked at.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import semilocal as sl  # noqa: E402
from semilocal.experiments.datasets.load import sample_users  # noqa: E402
from semilocal.simulation import synthetic  # noqa: E402
from tests.helpers.coverage import KINDS, Covered, coverage, rate  # noqa: E402

SIZE = 5_000
WIDE = sl.Box((-10, -10), (10, 10))

Draw = Callable[[np.random.Generator], npt.NDArray[np.float64]]


def ring(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """People around a circle."""
    angle, radius = rng.uniform(0, 2 * np.pi, SIZE), rng.normal(0.3, 0.04, SIZE)
    return np.asarray(np.clip(0.5 + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1), 0.0, 1.0))


HELD_OUT: tuple[tuple[str, Draw], ...] = (
    ("ring", ring),
    ("Gaussian off the centre", lambda rng: np.clip(rng.normal([0.37, 0.61], [0.06, 0.11], (SIZE, 2)), 0.0, 1.0)),
    ("exponential", lambda rng: np.clip(rng.exponential(0.12, (SIZE, 2)), 0.0, 1.0)),
)


def row(name: str, box: sl.Box, draw: Draw, *, epsilon: float, runs: int, seed: int) -> str:
    """One line of the table."""
    rng = np.random.default_rng(seed)
    task = sl.Task.build(box, epsilon=epsilon, delta=0.05, k=20)
    found: dict[str, list[Covered]] = {kind: [] for kind in KINDS}
    for _ in range(runs):
        points = draw(rng)
        for kind, one in coverage(points, sl.simulate(points, task, rng=rng)).items():
            found[kind].append(one)
    cells = []
    for rows in found.values():
        asked, good, _ = np.array(rows).T
        mean, error = rate(good, asked)
        cells.append(f"{100 * mean:.1f} ({100 * error:.1f})")
    return f"| {name} | {epsilon:g} | {' | '.join(cells)} |"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--held-out", action="store_true", help="add shapes that the model was not chosen on")
    parser.add_argument("--data", type=Path, help="folder of the real datasets")
    parser.add_argument("--real-runs", type=int, default=60)
    arguments = parser.parse_args()
    print(f"| population, N = {SIZE:,} | ε | {' | '.join(KINDS)} |")
    print("|---|---|" + "---|" * len(KINDS))
    made: list[tuple[str, sl.Box, Draw]] = [
        ("five clusters", synthetic.UNIT_SQUARE, lambda rng: synthetic.clusters(SIZE, rng)),
        ("Gaussian", WIDE, lambda rng: synthetic.truncated_gaussian(SIZE, rng, box=WIDE, scale=1.5)),
    ]
    if arguments.held_out:
        made += [(name, synthetic.UNIT_SQUARE, draw) for name, draw in HELD_OUT]
    for name, box, draw in made:
        for epsilon in (1.0, 3.0):
            print(row(name, box, draw, epsilon=epsilon, runs=arguments.runs, seed=arguments.seed), flush=True)
    for name in ("gowalla", "brightkite", "porto") if arguments.data else ():

        def people(rng: np.random.Generator, name: str = name) -> npt.NDArray[np.float64]:
            return sample_users(name, SIZE, rng, folder=arguments.data).points

        for epsilon in (1.0, 3.0):
            line = row(
                name, synthetic.UNIT_SQUARE, people, epsilon=epsilon, runs=arguments.real_runs, seed=arguments.seed
            )
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
