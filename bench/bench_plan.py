"""How near a plan on made-up towns is to what files of real positions give.

    python -m bench.bench_plan --data FOLDER [--plans 8] [--file-plays 24] [--people 20000] [--seed 31] [--only NAME]

One row per setting and number. The forecast is the middle of several plans with the default number of plays each, and
so are the ends of the range that a plan prints. Files come as multiples of the forecast, in brackets if they are
outside the range. Numbers without a range (rounds, messages, bytes) never have brackets. Maps are scaled to the unit
square.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from semilocal.lab.experiments.data import load
from semilocal.lab.planner import Density, Forecast, density_of, forecast, resampled
from semilocal.simulation.synthetic import UNIT_SQUARE

FILES = (
    "california_housing", "gowalla_nyc", "porto", "gowalla", "brightkite", "gowalla_more_users",
    "brightkite_last_checkin",
)  # fmt: skip
SETTINGS = ((1.0, 1e-6, 20), (1.0, 0.05, 20), (2.0, 1e-6, 20))
PLAYS = 12  # the default of `semilocal plan`
NUMBERS = ("count_error", "mean_margin", "regions", "crowd", "rounds", "messages", "sent", "received")


def places(name: str, folder: Path) -> Density:
    """Positions of a file, scaled to the unit square."""
    source = load(name, folder)
    lower, upper = np.array(source.box.lower), np.array(source.box.upper)
    return resampled((source.points - lower) / (upper - lower), UNIT_SQUARE)


def middle(numbers: list[float]) -> float:
    """The geometric mean: factors up and down count alike."""
    return float(np.exp(np.mean(np.log(numbers))))


def rows(setting: tuple[float, float, int], files: dict[str, Density], arguments: argparse.Namespace) -> list[str]:
    """All rows of one setting."""
    epsilon, delta, k = setting

    def play(density: Density, plays: int, *seed: int) -> Forecast:
        return forecast(
            density, UNIT_SQUARE, n=arguments.people, epsilon=epsilon, delta=delta, k=k, plays=plays,
            rng=np.random.default_rng([arguments.seed, *seed]),
        )  # fmt: skip

    towns = density_of("clustered", UNIT_SQUARE)
    plans = [play(towns, PLAYS, number) for number in range(arguments.plans)]
    real = [play(density, arguments.file_plays) for density in files.values()]
    out = []
    for name in NUMBERS:
        told = middle([getattr(plan, name) for plan in plans])
        ends = [middle([plan.ranges[name][end] for plan in plans]) for end in (0, 1)] if name in plans[0].ranges else []
        cells = [f"{epsilon:g}, {delta:g}, {k}", name, f"{told:.3g}", " to ".join(f"{end:.3g}" for end in ends)]
        for found in real:
            number = getattr(found, name)
            inside = not ends or ends[0] <= number <= ends[1]
            cells.append(f"{number / told:.2f}" if inside else f"({number / told:.2f})")
        out.append(f"| {' | '.join(cells)} |")
    return out


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the real datasets")
    parser.add_argument("--plans", type=int, default=8)
    parser.add_argument("--file-plays", type=int, default=24)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--only", nargs="*", help="names of files")
    arguments = parser.parse_args()
    names = [name for name in FILES if name in (arguments.only or FILES)]
    files = {name: places(name, arguments.data) for name in names}
    print(f"| ε, delta, k | number | forecast | range | {' | '.join(names)} |\n|---|---|---|---|" + "---|" * len(names))
    for setting in SETTINGS:
        print("\n".join(rows(setting, files, arguments)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
