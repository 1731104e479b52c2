"""How often 95 % intervals of counts hold the truth, by kind of box; with --means, those of means.

    python -m bench.bench_coverage [--trust nobody] [--runs 10] [--seed 90210] [--people 20000] [--k 20] [--delta 0.05]
                                   [--tree binary] [--data FOLDER] [--only NAME ...] [--snap STEP] [--rounding STEP]
                                   [--means] [--quantiles] [--hard] [--countries CODE ...]

Ordinary boxes have sides of 1 to 15 % of each axis around a random person; the grid is 32 x 32, cells with 20 people or
more; the others lie along edges of regions, and the last column has all of these together. Answers that are exact do
not count. The band to reach is 90 to 99 %; with a curator or two servers it is 92 to 99 %. One row per population; the
files of real positions (--data) are sampled without replacement, one position a person. ``california_housing`` has
coordinates rounded to 0.01 degrees, and ``california_unrounded`` spreads them over their squares; --rounding 0.01 tells
the release about the former. --snap rounds all positions before they are counted; without --rounding the release looks
for the step by itself, with --rounding 0 it takes none.

--countries DE FR: places and people of these countries instead (bench/countries.py), none of which chose the model.

--hard: maps made to be hard instead; "whole town" has one box a run, around all of a town of 97 in 100 people.

--quantiles: how large errors are, in standard errors, in half of all answers, 80, 90, 95 and 99 %: around the expected
number, for ordinary boxes and along edges. Normal errors would have 0.67, 1.28, 1.64, 1.96 and 2.58.

--means: means of both coordinates, one call each with the defaults for k and delta. "Half width" is that of the
interval over the root mean square of the errors: 2 if errors were normal and the interval told all.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import semilocal as sl
from bench import countries
from semilocal.arrays import Floats
from semilocal.experiments.datasets.load import load
from semilocal.geometry.index import count_points
from semilocal.pooled import PooledTask
from semilocal.release import counts
from semilocal.release.pooled_counts import pooled_counts, run_pooled
from semilocal.simulation import synthetic
from tests.helpers.coverage import KINDS, Counted, Covered, boxes_of, coverage, rate

WIDE = sl.Box((-10, -10), (10, 10))
UNIT = synthetic.UNIT_SQUARE
FILES = (
    "california_housing", "california_unrounded", "gowalla_nyc", "porto", "gowalla", "brightkite", "gowalla_more_users",
    "brightkite_last_checkin",
)  # fmt: skip

Draw = countries.Draw
TOWN, TOWN_WIDTH, IN_TOWN = (0.3, 0.6), 0.004, 0.97  # middle, standard deviation, share of the people


def ring(number: int, rng: np.random.Generator) -> Floats:
    """People around a circle."""
    angle, radius = rng.uniform(0, 2 * np.pi, number), rng.normal(0.3, 0.04, number)
    return np.asarray(np.clip(0.5 + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1), 0.0, 1.0))


SHAPES: dict[str, tuple[sl.Box, Draw]] = {
    "uniform": (UNIT, lambda number, rng: synthetic.uniform(number, rng)),
    "five clusters": (UNIT, lambda number, rng: synthetic.clusters(number, rng)),
    "Gaussian": (WIDE, lambda number, rng: synthetic.truncated_gaussian(number, rng, box=WIDE, scale=1.5)),
    "ring": (UNIT, ring),
    "exponential": (UNIT, lambda number, rng: np.clip(rng.exponential(0.12, (number, 2)), 0.0, 1.0)),
}


def six_squares(number: int, rng: np.random.Generator) -> Floats:
    """Nobody lives elsewhere, and the first lines of the tree cut all of them in the middle."""
    middles = np.array([(2, 2), (1, 1), (3, 1), (1, 3), (3, 3), (2, 1)]) / 4
    return np.asarray(middles[rng.integers(0, 6, number)] + rng.uniform(-0.01, 0.01, (number, 2)))


def town(number: int, rng: np.random.Generator, share: float = 1.0) -> Floats:
    """A small town; the others live anywhere."""
    inside = rng.random(number) < share
    return np.where(inside[:, None], rng.normal(TOWN, TOWN_WIDTH, (number, 2)), rng.random((number, 2)))


def wide_town(number: int, rng: np.random.Generator) -> Floats:
    """One smooth town anywhere; with few people or a large k it has a few regions."""
    return np.asarray(np.clip(rng.normal(rng.uniform(0.3, 0.7, 2), 0.15, (number, 2)), 0.0, 1.0))


HARD: dict[str, tuple[sl.Box, Draw]] = {
    "six squares": (UNIT, six_squares),
    "town in a desert": (UNIT, town),
    "town in a country": (UNIT, lambda number, rng: town(number, rng, IN_TOWN)),
    "wide town": (UNIT, wide_town),
}


def positions(name: str, folder: Path) -> tuple[sl.Box, Draw]:
    """A population drawn from a file."""
    rounding = 0.01 if name == "california_unrounded" else 0.0
    source = load("california_housing" if rounding else name, folder)

    def draw(number: int, rng: np.random.Generator) -> Floats:
        drawn = source.points[rng.choice(len(source.points), min(number, len(source.points)), replace=False)]
        return source.box.clip(drawn + rng.uniform(-0.5, 0.5, drawn.shape) * rounding)[0] if rounding else drawn

    return source.box, draw


def counted(
    points: Floats, box: sl.Box, epsilon: float, rng: np.random.Generator, arguments: argparse.Namespace
) -> Counted:
    """One run."""
    if arguments.trust == "nobody":
        task = sl.Task.build(box, epsilon=epsilon, delta=arguments.delta, k=arguments.k, tree=arguments.tree)
        return counts(sl.simulate(points, task, rng=rng))
    return pooled_counts(run_pooled(PooledTask.build(box, epsilon=epsilon, trust=arguments.trust), points, rng=rng))


def row(name: str, box: sl.Box, draw: Draw, epsilon: float, arguments: argparse.Namespace) -> str:
    """One line of the table."""
    rng = np.random.default_rng(arguments.seed)
    found: dict[str, list[Covered]] = {kind: [] for kind in KINDS}
    for _ in range(arguments.runs):
        points = draw(arguments.people, rng)
        if arguments.snap:
            points = box.clip(np.round(points / arguments.snap) * arguments.snap)[0]
        run = counted(points, box, epsilon, rng, arguments)
        for kind, one in coverage(points, run, rng, ordinary=400, rounding=arguments.rounding).items():
            found[kind].append(one)
    cells, together = [], [np.array(rows) for rows in list(found.values())[2:]]
    for rows in (*map(np.array, found.values()), np.sum(together, axis=0)):
        asked, good, *_ = rows.T
        mean, error = rate(good, asked) if asked.any() else (float("nan"), float("nan"))
        cells.append(f"{100 * mean:.1f} ({100 * error:.1f})" if asked.any() else "exact")
    return f"| {name} | {epsilon:g} | {' | '.join(cells)} |"


def town_row(epsilon: float, arguments: argparse.Namespace) -> str:
    """One line about boxes around a whole town; no other column."""
    rng, held = np.random.default_rng(arguments.seed), []
    around = np.array([[TOWN, TOWN]]) + 5 * TOWN_WIDTH * np.array([[[-1], [1]]])
    for _ in range(arguments.runs):
        points = town(arguments.people, rng, IN_TOWN)
        ((low, high),) = counted(points, UNIT, epsilon, rng, arguments).answer(around).interval()
        held.append(low <= count_points(points, around)[0] <= high)
    return f"| whole town | {epsilon:g} | {sum(held)} of {len(held)} |"


def quantile_row(name: str, box: sl.Box, draw: Draw, epsilon: float, arguments: argparse.Namespace) -> str:
    """One line about sizes of errors, and the ends between which 95 % of them lie."""
    rng = np.random.default_rng(arguments.seed)
    found: dict[bool, list[Floats]] = {True: [], False: []}  # ordinary boxes, and boxes along edges
    for _ in range(arguments.runs):
        points = draw(arguments.people, rng)
        run = counted(points, box, epsilon, rng, arguments)
        kinds = boxes_of(points, run, rng, ordinary=400)
        for kind in (KINDS[0], *KINDS[2:]):
            answers, truth = run.answer(kinds[kind]), count_points(points, kinds[kind])
            off = truth - (answers.fewer + answers.more) / 2
            some = answers.stderr > 0
            found[kind == KINDS[0]].append(off[some] / answers.stderr[some])
    cells = []
    for errors in map(np.concatenate, found.values()):
        sizes = np.quantile(np.abs(errors), [0.5, 0.8, 0.9, 0.95, 0.99])
        low, high = np.quantile(errors, [0.025, 0.975])
        cells += [", ".join(f"{size:.2f}" for size in sizes), f"{low:.2f} to {high:.2f}"]
    return f"| {name} | {epsilon:g} | {' | '.join(cells)} |"


def mean_row(name: str, box: sl.Box, draw: Draw, epsilon: float, arguments: argparse.Namespace) -> str:
    """One line of the table of means; lengths as shares of the box."""
    rng, rows = np.random.default_rng(arguments.seed), []
    for _ in range(arguments.runs):
        points = draw(arguments.people, rng)
        for axis, (low, high) in enumerate(zip(box.lower, box.upper, strict=True)):
            f = sl.functions.coordinate(axis)
            found = sl.mean(points, f, box, epsilon=epsilon, trust=arguments.trust, rng=rng)
            ends, truth = found.interval(), float(points[:, axis].mean())
            held = ends[0] <= truth <= ends[1]
            rows.append((held, (found.value - truth) / (high - low), (ends[1] - ends[0]) / (high - low) / 2))
    held, off, half = np.array(rows).T
    error = float(np.sqrt(np.mean(off**2)))
    return f"| {name} | {epsilon:g} | {held.sum():.0f} of {len(held)} | {error:.4f} | {half.mean() / error:.1f} |"


def populations(arguments: argparse.Namespace) -> Iterator[tuple[str, tuple[sl.Box, Draw]]]:
    """What the table is about, with its names."""
    if arguments.countries:
        for name in (f"{code} {kind}" for code in arguments.countries for kind in ("places", "people")):
            found = countries.population(name)
            if found is not None:
                yield name, found
        return
    made_up = HARD if arguments.hard else SHAPES
    for name in (*(FILES if arguments.data else ()), *made_up):
        if not arguments.only or name in arguments.only:
            yield name, made_up[name] if name in made_up else positions(name, arguments.data)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trust", choices=("nobody", "two-servers", "curator"), default="nobody")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=90210)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--delta", type=float, default=0.05)
    parser.add_argument("--tree", choices=("binary", "quad"), default="binary", help="where nobody is trusted")
    parser.add_argument("--data", type=Path, help="folder of the real datasets")
    parser.add_argument("--only", nargs="*", help="names of populations")
    parser.add_argument(
        "--countries", nargs="*", metavar="CODE", help="people of these countries, in place of all others"
    )
    parser.add_argument("--rounding", type=float, help="step that coordinates are known to be multiples of")
    parser.add_argument("--snap", type=float, help="round positions to multiples of a step before they are counted")
    parser.add_argument("--hard", action="store_true", help="maps made to be hard, in place of the usual shapes")
    parser.add_argument("--means", action="store_true", help="intervals of means instead")
    parser.add_argument("--quantiles", action="store_true", help="sizes of errors in standard errors instead")
    arguments = parser.parse_args()
    crowd = f", k = {arguments.k}" if arguments.trust == "nobody" else ""
    make, columns = row, [*KINDS, "along edges"]
    if arguments.means:
        make, columns = mean_row, ["held", "error", "half width / error"]
    elif arguments.quantiles:
        make, columns = quantile_row, ["ordinary boxes", "95 % of them", "along edges", "95 % of them"]
    crowd = "" if arguments.means else crowd
    print(f"| N = {arguments.people:,}, trust = {arguments.trust}{crowd} | ε | {' | '.join(columns)} |")
    print("|---|---|" + "---|" * len(columns))
    for name, (box, draw) in populations(arguments):
        for epsilon in (1.0, 2.0):
            print(make(name, box, draw, epsilon, arguments), flush=True)
    for epsilon in (1.0, 2.0) if arguments.hard and not arguments.only else ():
        print(town_row(epsilon, arguments), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
