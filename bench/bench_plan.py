"""How near a plan on made-up towns is to what files of real positions give.

    python -m bench.bench_plan --data FOLDER [--plays 96] [--file-plays 24] [--people 20000] [--seed 31] [--only NAME]

One row per setting: the forecast, and each file as a multiple of it: the error of a count, the margin of a mean (half
its 95 % interval), the error of that mean, regions, their median crowd, the share of people who are moved, rounds,
bytes sent and received, and the size of a typical region. Maps are scaled to the unit square.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from bench.bench_coverage import FILES
from semilocal.experiments.datasets.load import load
from semilocal.planner import Density, Forecast, density_of, forecast, resampled
from semilocal.simulation.synthetic import UNIT_SQUARE

SETTINGS = ((1.0, 1e-6, 50), (1.0, 1e-3, 50), (2.0, 0.05, 20))


def places(name: str, folder: Path) -> Density:
    """Positions of a file, scaled to the unit square."""
    source = load(name, folder)
    lower, upper = np.array(source.box.lower), np.array(source.box.upper)
    return resampled((source.points - lower) / (upper - lower), UNIT_SQUARE)


def numbers(plan: Forecast) -> tuple[float, ...]:
    """What is compared."""
    errors = plan.count_error, plan.mean_margin, plan.mean_error
    return *errors, plan.regions, plan.crowd, plan.moved, plan.rounds, plan.sent, plan.received, plan.area


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the real datasets")
    parser.add_argument("--plays", type=int, default=96)
    parser.add_argument("--file-plays", type=int, default=24)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--only", nargs="*", help="names of files")
    arguments = parser.parse_args()
    names = [name for name in FILES if name != "california_unrounded" and name in (arguments.only or FILES)]
    print(f"| ε, delta, k | forecast | {' | '.join(names)} |\n|---|---|" + "---|" * len(names))
    for epsilon, delta, k in SETTINGS:

        def play(
            density: Density, plays: int, epsilon: float = epsilon, delta: float = delta, k: int = k
        ) -> tuple[float, ...]:
            rng = np.random.default_rng(arguments.seed)
            return numbers(
                forecast(
                    density, UNIT_SQUARE, n=arguments.people, epsilon=epsilon, delta=delta, k=k, rng=rng, plays=plays
                )
            )

        guess = play(density_of("clustered", UNIT_SQUARE), arguments.plays)
        shares = ", ".join(f"{100 * share:.2f} %" for share in guess[:3])
        rest = ", ".join(f"{number:.3g}" for number in guess[3:])
        cells = [f"{epsilon:g}, {delta:g}, {k}", f"{shares}, {rest}"]
        for name in names:
            real = play(places(name, arguments.data), arguments.file_plays)
            cells.append(", ".join(f"{found / told:.2f}" for found, told in zip(real, guess, strict=True)))
        print(f"| {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
