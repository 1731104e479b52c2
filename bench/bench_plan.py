"""How near a plan on made-up towns is to what files of real positions give.

    python -m bench.bench_plan --data FOLDER [--plays 24] [--people 20000] [--seed 31]

One row per epsilon, kind of towns and number: the forecast, and what the files give as multiples of it, in brackets if
that is not within a factor of 1.5. Errors are of boxes with 500 people. Maps are scaled to the unit square.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from bench import machine
from semilocal.lab.experiments.data import load
from semilocal.lab.planner import SIZES, TOWNS, TRUSTS, Density, Forecast, density_of, forecast, resampled
from semilocal.simulation.synthetic import UNIT_SQUARE

FILES = (
    "california_housing", "gowalla_nyc", "porto", "gowalla", "brightkite", "gowalla_more_users",
    "brightkite_last_checkin",
)  # fmt: skip
FACTOR = 1.5


def places(name: str, folder: Path) -> Density:
    """Positions of a file, scaled to the unit square."""
    source = load(name, folder)
    lower, upper = np.array(source.box.lower), np.array(source.box.upper)
    return resampled((source.points - lower) / (upper - lower), UNIT_SQUARE)


def numbers(plan: Forecast) -> dict[str, float]:
    """What is compared, by name."""
    found = {name: float(plan.plays[name].mean()) for name in ("regions", "rounds", "messages")}
    for trust in TRUSTS:
        means = plan.errors[trust].mean(axis=0)
        found |= {f"{trust}, {size:,}": float(mean) for size, mean in zip(SIZES, means, strict=True)}
    return found


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the real datasets")
    parser.add_argument("--plays", type=int, default=24)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=31)
    given = parser.parse_args()
    print(machine.line(), end="\n\n")
    print(f"| ε | towns | number | forecast | {' | '.join(FILES)} |\n|---|---|---|---|" + "---|" * len(FILES))
    for epsilon in (1.0, 2.0):

        def told(density: Density, epsilon: float = epsilon) -> dict[str, float]:
            plan = forecast(density, UNIT_SQUARE, n=given.people, epsilon=epsilon, plays=given.plays, seed=given.seed)
            return numbers(plan)

        real = [told(places(name, given.data)) for name in FILES]
        for kind in TOWNS:
            for name, number in told(density_of(kind, UNIT_SQUARE)).items():
                ratios = [found[name] / number for found in real]
                cells = [f"{one:.2f}" if 1 / FACTOR <= one <= FACTOR else f"({one:.2f})" for one in ratios]
                print(f"| {epsilon:g} | {kind} | {name} | {number:.3g} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
