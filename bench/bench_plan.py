"""How near a plan is to what other people of the same place give, by what the planner knows of the place.

    python -m bench.bench_plan --data FOLDER [--plays 12] [--people 20000] [--seed 31]

The users of each file of real positions are divided into two halves at random (rows, where it names nobody). The second
half is asked. The forecast knows made-up towns, the positions of the first half, or a map that was collected from as
many of the first half at epsilon = 1. One row per epsilon, way and number: what was found as multiples of the forecast,
in brackets if that is not within a factor of 1.5. Every row of a file counts as one participant. Maps are scaled to the
unit square.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import semilocal as sl
from bench import machine
from semilocal.arrays import Floats
from semilocal.errors import InvalidInput
from semilocal.io.points import read_points
from semilocal.lab.experiments.data import load
from semilocal.lab.planner import SIZES, TOWNS, TRUSTS, Density, Forecast, density_of, forecast, mapped, resampled
from semilocal.simulation.synthetic import UNIT_SQUARE

FILES = (
    "california_housing", "gowalla_nyc", "porto", "gowalla", "brightkite", "gowalla_more_users",
    "brightkite_last_checkin",
)  # fmt: skip
FACTOR = 1.5
MAP_EPSILON = 1.0


def halves(name: str, folder: Path, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Positions of one half of a file's people, and of the other, scaled to the unit square."""
    source = load(name, folder)
    lower, upper = np.array(source.box.lower), np.array(source.box.upper)
    points, people = (source.points - lower) / (upper - lower), np.arange(len(source.points))
    for column in ("user", "taxi"):
        try:
            people = read_points(source.path, columns=["longitude", "latitude"], labels=[column]).labels[column]
        except InvalidInput:
            continue
    first = (rng.random(int(people.max()) + 1) < 0.5)[people]
    return points[first], points[~first]


def ways(first: Floats, n: int, rng: np.random.Generator) -> Iterator[tuple[str, Density]]:
    """What a planner may know of the place, by name."""
    for kind in TOWNS:
        yield f"towns, {kind}", density_of(kind, UNIT_SQUARE)
    yield "positions", resampled(first, UNIT_SQUARE)
    earlier = resampled(first, UNIT_SQUARE)(n, rng)
    for trust in reversed(TRUSTS):
        with warnings.catch_warnings(action="ignore"):
            counts = sl.counts(earlier, UNIT_SQUARE, epsilon=MAP_EPSILON, trust=trust, rng=rng)
        yield f"map, {trust}", mapped(counts, UNIT_SQUARE)


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
    parser.add_argument("--plays", type=int, default=12)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=31)
    given = parser.parse_args()
    print(machine.line(), end="\n\n")
    ratios: dict[tuple[float, str, str], list[float]] = {}
    for place, name in enumerate(FILES):
        rng = np.random.default_rng([given.seed, place])
        first, second = halves(name, given.data, rng)
        n = min(given.people, len(first), len(second))
        print(f"{name}: {len(first):,} and {len(second):,} positions, {n:,} participants", file=sys.stderr, flush=True)
        known = dict(ways(first, n, rng))
        for epsilon in (1.0, 2.0):
            told, real = (
                {way: _told(density, n, epsilon, given) for way, density in each.items()}
                for each in (known, {"": resampled(second, UNIT_SQUARE)})
            )
            for way, plan in told.items():
                for number, forecasted in plan.items():
                    ratios.setdefault((epsilon, way, number), []).append(real[""][number] / forecasted)
    print(f"| ε | known | number | range | {' | '.join(FILES)} |\n|---|---|---|---|" + "---|" * len(FILES))
    for (epsilon, way, number), found in sorted(ratios.items()):
        cells = [f"{one:.2f}" if 1 / FACTOR <= one <= FACTOR else f"({one:.2f})" for one in found]
        print(f"| {epsilon:g} | {way} | {number} | {min(found):.2f} to {max(found):.2f} | {' | '.join(cells)} |")
    return 0


def _told(density: Density, n: int, epsilon: float, given: argparse.Namespace) -> dict[str, float]:
    return numbers(forecast(density, UNIT_SQUARE, n=n, epsilon=epsilon, plays=given.plays, seed=given.seed))


if __name__ == "__main__":
    sys.exit(main())
