"""How often 95 % intervals of counts hold the truth, by kind of box, and how wide they are; with --means, of means.

    python -m bench.bench_coverage [--trust nobody] [--runs 10] [--seed 90210] [--people 20000] [--k 20] [--delta 1e-6]
                                   [--data FOLDER] [--only NAME ...] [--rounding STEP] [--means]

Ordinary boxes have sides of 1 to 15 % of each axis around a random person; the grid is 32 x 32, cells with 20 people or
more; the others lie along edges of regions. Answers that are exact do not count. "Half width" is that of the intervals
of ordinary boxes over the mean distance of the values from the truth: 2.5 if errors were normal and the interval told
all. The band to reach is 88 to 99 %; with a curator or two servers it is 92 to 99 %. One row per population; the files
of real positions (--data) are sampled without replacement, one row a person. ``california_housing`` has coordinates
rounded to 0.01 degrees, and ``california_unrounded`` spreads them over their squares; --rounding 0.01 tells the release
about the former.

--means: means of both coordinates, one call each with the defaults for k and delta. There "half width" is over the root
mean square of the errors: 2 if errors were normal.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import semilocal as sl
from bench import machine
from semilocal.arrays import Floats
from semilocal.lab.experiments.data import load
from semilocal.lab.experiments.trials import ring
from semilocal.simulation import synthetic
from tests.helpers.coverage import KINDS, Covered, coverage, rate

WIDE = sl.Box((-10, -10), (10, 10))
UNIT = synthetic.UNIT_SQUARE
EPSILONS = (1.0, 2.0)
FILES = (
    "california_housing", "california_unrounded", "gowalla_nyc", "porto", "gowalla", "brightkite", "gowalla_more_users",
    "brightkite_last_checkin",
)  # fmt: skip

Draw = Callable[[int, np.random.Generator], Floats]

SHAPES: dict[str, tuple[sl.Box, Draw]] = {
    "uniform": (UNIT, synthetic.uniform),
    "five clusters": (UNIT, synthetic.clusters),
    "Gaussian": (WIDE, lambda number, rng: synthetic.truncated_gaussian(number, rng, box=WIDE, scale=1.5)),
    "ring": (UNIT, ring),
    "exponential": (UNIT, lambda number, rng: np.clip(rng.exponential(0.12, (number, 2)), 0.0, 1.0)),
}


def positions(name: str, folder: Path) -> tuple[sl.Box, Draw]:
    """A population drawn from a file."""
    step = 0.01 if name == "california_unrounded" else 0.0
    source = load("california_housing" if step else name, folder)

    def draw(number: int, rng: np.random.Generator) -> Floats:
        drawn = source.points[rng.choice(len(source.points), min(number, len(source.points)), replace=False)]
        return source.box.clip(drawn + rng.uniform(-0.5, 0.5, drawn.shape) * step)[0] if step else drawn

    return source.box, draw


def row(name: str, box: sl.Box, draw: Draw, epsilon: float, given: argparse.Namespace) -> str:
    """One line of the table: coverage with its standard error between runs."""
    rng = np.random.default_rng(given.seed)
    crowd = {"k": given.k, "delta": given.delta} if given.trust == "nobody" else {}
    found: dict[str, list[Covered]] = {kind: [] for kind in KINDS}
    for _ in range(given.runs):
        points = draw(given.people, rng)
        result = sl.counts(points, box, epsilon=epsilon, trust=given.trust, rng=rng, **crowd)
        for kind, one in coverage(points, result, rng, ordinary=400, rounding=given.rounding).items():
            found[kind].append(one)
    cells = []
    for rows in found.values():
        asked, good, *_ = np.array(rows).T
        mean, error = rate(good, asked) if asked.any() else (float("nan"), float("nan"))
        cells.append(f"{100 * mean:.1f} ({100 * error:.1f})" if asked.any() else "exact")
    *_, width, error = np.mean(found[KINDS[0]], axis=0)
    return f"| {name} | {epsilon:g} | {' | '.join(cells)} | {width / error:.1f} |"


def mean_row(name: str, box: sl.Box, draw: Draw, epsilon: float, given: argparse.Namespace) -> str:
    """One line of the table of means; lengths as shares of the box."""
    rng, rows = np.random.default_rng(given.seed), []
    for _ in range(given.runs):
        points = draw(given.people, rng)
        for axis, (low, high) in enumerate(zip(box.lower, box.upper, strict=True)):
            f = sl.functions.coordinate(axis)
            found = sl.mean(points, f, box, epsilon=epsilon, trust=given.trust, rng=rng)
            ends, truth = found.interval(), float(points[:, axis].mean())
            held = ends[0] <= truth <= ends[1]
            rows.append((held, (found.value - truth) / (high - low), (ends[1] - ends[0]) / (high - low) / 2))
    held, off, half = np.array(rows).T
    error = float(np.sqrt(np.mean(off**2)))
    return f"| {name} | {epsilon:g} | {held.sum():.0f} of {len(held)} | {error:.4f} | {half.mean() / error:.1f} |"


def populations(given: argparse.Namespace) -> Iterator[tuple[str, tuple[sl.Box, Draw]]]:
    """What the table is about, with its names."""
    for name in (*(FILES if given.data else ()), *SHAPES):
        if not given.only or name in given.only:
            yield name, SHAPES[name] if name in SHAPES else positions(name, given.data)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trust", choices=("nobody", "two-servers", "curator"), default="nobody")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=90210)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--data", type=Path, help="folder of the real datasets")
    parser.add_argument("--only", nargs="*", help="names of populations")
    parser.add_argument("--rounding", type=float, help="step that coordinates are known to be multiples of")
    parser.add_argument("--means", action="store_true", help="intervals of means instead")
    given = parser.parse_args()
    print(machine.line(), end="\n\n")
    make, columns = row, [*KINDS, "half width / error"]
    if given.means:
        make, columns = mean_row, ["held", "error", "half width / error"]
    print(f"| N = {given.people:,}, trust = {given.trust} | ε | {' | '.join(columns)} |")
    print("|---|---|" + "---|" * len(columns))
    for name, (box, draw) in populations(given):
        for epsilon in EPSILONS:
            print(make(name, box, draw, epsilon, given), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
