"""How often 95 % intervals hold the truth, and how wide they are: by population, kind of trust and kind of question.

    python -m bench.bench_coverage [--trust nobody ...] [--runs 4] [--seed 90210] [--people 20000] [--data FOLDER]
                                   [--file POINTS.csv] [--only NAME ...] [--epsilon 1 2] [--k 20] [--delta 1e-6]
                                   [--rounding STEP]

Each cell has the intervals that hold the truth in percent, their standard error between runs, and the mean half width
in people (of means: in thousandths of the axis). Answers that are exact do not count. The band is 90 to 99 %; for
"blocks" at least 88 %. Questions do not look at the map:

blocks, boxes: sides of 0.05 to 1 % and of 1 to 15 % of each axis, around a random person.
anywhere: sides of 0.05 to 15 % around a uniform place. polygons: stars with dents around a person. unions: of three
boxes around people. grid: 32 x 32 cells, those with 20 people or more. means: both coordinates, a call each.

Populations of the first group were used to choose parts of the model. Those of the second chose nothing, and were
looked at. Those of the third were written down before the model was, and measured once when it was done. The files of
real positions and tables need --data; --file adds one of the reader's own, x and y in its first two columns. Files are
sampled without replacement, one row a person. Below each group stand the lowest and highest coverage, and the
geometric mean of the half widths, by which two versions are compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import shapely

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.lab.baselines.boxes import count_points
from semilocal.lab.experiments.data import load, table
from semilocal.lab.experiments.trials import ring
from semilocal.simulation import synthetic
from tests.helpers.coverage import rate

UNIT = synthetic.UNIT_SQUARE
KINDS = ("blocks", "boxes", "anywhere", "polygons", "unions", "grid", "means")
BOXES, SHAPES, GRID, GRID_PEOPLE = 400, 60, 32, 20
TRUSTS = ("nobody", "two-servers", "curator")
Draw = Callable[[int, np.random.Generator], Floats]
Rows = list[tuple[float, float, float]]  # per run: intervals, those that hold the truth, sum of the half widths


def spiral(number: int, rng: np.random.Generator) -> Floats:
    """A shape: people along a spiral, denser towards its middle."""
    turn = rng.random(number)
    angle, radius = 14.0 * turn, 0.02 + 0.42 * turn + rng.normal(0, 0.006, number)
    return np.asarray(np.clip(0.5 + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1), 0.0, 1.0))


def towns(number: int, rng: np.random.Generator) -> Floats:
    """Sixty towns with sizes by Zipf's law, and one person in ten in the country."""
    middle, size = rng.random((60, 2)), 1.0 / np.arange(1, 61)
    home = rng.choice(60, number, p=size / size.sum())
    points = middle[home] + rng.normal(size=(number, 2)) * (0.03 * size[home, None] ** 0.4)
    return np.clip(np.where(rng.random((number, 1)) < 0.1, rng.random((number, 2)), points), 0.0, 1.0)


def streets(number: int, rng: np.random.Generator) -> Floats:
    """People on forty straight streets, each along an axis, crowded towards one end of it."""
    place, along, popular = rng.random(40), rng.random(40) < 0.5, rng.dirichlet(np.full(40, 0.7))
    street = rng.choice(40, number, p=popular)
    points = np.stack([rng.beta(1.0, 2.0, number), np.clip(place[street] + rng.normal(0, 5e-4, number), 0, 1)], axis=1)
    return np.where(along[street, None], points, points[:, ::-1])


def comb(number: int, rng: np.random.Generator) -> Floats:
    """A table of counts like a comb: people stand on every tenth of 200 columns, few of 200 rows hold most."""
    column, row = rng.integers(0, 20, number) * 10, rng.choice(200, number, p=rng.dirichlet(np.full(200, 0.1)))
    return (np.stack([column, row], axis=1) + 0.5) / 200.0


def check_ins(number: int, rng: np.random.Generator) -> Floats:
    """Rows of users who come back to the same places: five places of each, near home, some visited often."""
    users = number // 20
    home = synthetic.towns(users, rng)
    places = np.clip(home[:, None] + rng.normal(0, 0.02, (users, 5, 2)) * rng.random((users, 1, 1)), 0.0, 1.0)
    often = rng.dirichlet(np.full(5, 0.5), users).cumsum(axis=1)
    user = rng.integers(0, users, number)
    return np.asarray(places[user, np.minimum((rng.random((number, 1)) > often[user]).sum(axis=1), 4)])


def cascade(number: int, rng: np.random.Generator) -> Floats:
    """A random cascade: each of twelve halvings, along x and y in turn, takes a share by a law of Beta(2, 2)."""
    share = np.ones((1, 1))
    for level in range(12):
        first, across = rng.beta(2.0, 2.0, share.shape), level % 2
        rows, columns = share.shape
        halves = np.stack([share * first, share * (1.0 - first)], axis=1 + across)
        share = halves.reshape((rows, 2 * columns) if across else (2 * rows, columns))
    cell = rng.choice(share.size, number, p=share.ravel())
    return np.asarray((np.stack(np.divmod(cell, share.shape[1]), axis=1) + rng.random((number, 2))) / share.shape)


def moons(number: int, rng: np.random.Generator) -> Floats:
    """Two half circles that hold each other."""
    angle, second = np.pi * rng.random(number), rng.random(number) < 0.5
    arc = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    arc = np.where(second[:, None], np.array([1.0, 0.5]) - arc, arc) + rng.normal(0, 0.06, (number, 2))
    return np.asarray(np.clip(0.25 + 0.25 * arc + [0.1, 0.15], 0.0, 1.0))


def motorways(number: int, rng: np.random.Generator) -> Floats:
    """Six slanted motorways; half of the people stand at 80 junctions on them, a tenth live anywhere."""
    ends = rng.random((6, 2, 2))
    road = rng.choice(6, number, p=rng.dirichlet(np.full(6, 2.0)))
    junction, size = rng.random((6, 80)), rng.dirichlet(np.full(80, 0.4), 6).cumsum(axis=1)
    at = junction[road, np.minimum((rng.random((number, 1)) > size[road]).sum(axis=1), 79)]
    along = np.where(rng.random(number) < 0.55, at, rng.random(number))[:, None]
    points = ends[road, 0] * (1.0 - along) + ends[road, 1] * along + rng.normal(0, 0.0015, (number, 2))
    return np.clip(np.where(rng.random((number, 1)) < 0.1, rng.random((number, 2)), points), 0.0, 1.0)


def coast(number: int, rng: np.random.Generator) -> Floats:
    """A city whose density falls exponentially, and a bay where nobody lives: its shore is a wave."""
    turn, wave = rng.random(2), rng.random(2)
    points = np.empty((0, 2))
    while len(points) < number:
        angle, radius = 2 * np.pi * rng.random(number), 0.09 * rng.gamma(2.0, 1.0, number)
        some = 0.4 + 0.2 * turn + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        shore = 0.42 + 0.04 * np.sin(9.0 * some[:, 1] + 6.0 * wave[0]) + 0.02 * np.sin(31.0 * some[:, 1] + wave[1])
        points = np.concatenate([points, some[(some > 0).all(axis=1) & (some < 1).all(axis=1) & (some[:, 0] > shore)]])
    return points[:number]


MADE: dict[str, Draw] = {
    "uniform": synthetic.uniform, "five clusters": synthetic.clusters, "ring": ring,
    "Gaussian": lambda number, rng: synthetic.truncated_gaussian(number, rng, box=UNIT, scale=0.075, centre=(0.5, 0.5)),
    "spiral": spiral, "towns": towns, "streets": streets, "comb": comb, "check-ins": check_ins,
    "cascade": cascade, "two moons": moons, "motorways": motorways, "city at a bay": coast,
}  # fmt: skip
USED = ("uniform", "five clusters", "ring", "Gaussian", "gowalla", "porto", "brightkite", "california_housing")
UNUSED = (
    "spiral", "towns", "streets", "comb", "check-ins", "gowalla_nyc", "brightkite_last_checkin", "Loan_2D_256_256",
    "Stroke_2D_256_256", "cabspottingS_256_256",
)  # fmt: skip
HELD_OUT = (
    "cascade", "two moons", "motorways", "city at a bay", "gowalla_more_users", "Adult_2D_256_256",
    "BeijingTaxiE_256_256", "MDSalary2D_256_256", "checkin_256_256",
)  # fmt: skip


def population(name: str, given: argparse.Namespace) -> tuple[sl.Box, Draw]:
    """A population by its name; files and tables are drawn from without replacement."""
    if name in MADE:
        return UNIT, MADE[name]
    if name.endswith("_256_256"):
        cells = table(name, given.data)
        share, box = cells.ravel() / cells.sum(), UNIT
        return (
            box,
            lambda number, rng: (np.stack(np.divmod(rng.choice(len(share), number, p=share), 128), 1) + 0.5) / 128,
        )
    if name == "own file":
        points = np.loadtxt(given.file, delimiter=",", skiprows=1, usecols=(0, 1))
        low, high = points.min(axis=0), points.max(axis=0)
        box = sl.Box(tuple(low.tolist()), tuple(high.tolist()))
    else:
        source = load(name, given.data)
        points, box = source.points, source.box
    return box, lambda number, rng: points[rng.choice(len(points), min(number, len(points)), replace=False)]


def questions(points: Floats, box: sl.Box, rng: np.random.Generator) -> dict[str, Any]:
    """Areas of each kind: boxes float64[q, 2, 2], or polygons."""
    low, width = np.array(box.lower), np.array(box.upper) - np.array(box.lower)

    def around(number: int, sides: tuple[float, float], *, people: bool = True) -> Floats:
        half = sides[0] * (sides[1] / sides[0]) ** rng.random((number, 2)) * width / 2
        middle = points[rng.integers(0, len(points), number)] if people else low + rng.random((number, 2)) * width
        return np.stack([np.maximum(middle - half, box.lower), np.minimum(middle + half, box.upper)], axis=1)

    angles = np.linspace(0, 2 * np.pi, 9, endpoint=False)
    rays = rng.uniform(0.4, 1.0, (SHAPES, 9, 1)) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    stars = points[rng.integers(0, len(points), (SHAPES, 1))] + rng.uniform(0.01, 0.08, (SHAPES, 1, 1)) * width * rays
    inside = shapely.box(*box.lower, *box.upper)
    three = around(3 * SHAPES, (0.01, 0.15)).reshape(-1, 4)
    return {
        "blocks": around(BOXES, (0.0005, 0.01)),
        "boxes": around(BOXES, (0.01, 0.15)),
        "anywhere": around(BOXES, (0.0005, 0.15), people=False),
        "polygons": shapely.intersection(shapely.polygons(stars), inside),
        "unions": shapely.union_all(shapely.box(*three.T).reshape(-1, 3), axis=1),
        "grid": box.grid((GRID, GRID)),
    }


def asked(points: Floats, box: sl.Box, epsilon: float, trust: str, given: argparse.Namespace, rng: Any) -> Rows:
    """One run: a row for each kind of question."""
    crowd = {"k": given.k, "delta": given.delta} if trust == "nobody" else {}
    options: dict[str, Any] = {"epsilon": epsilon, "trust": trust, "rng": rng, **crowd}
    result, rows = sl.counts(points, box, **options), []
    for kind, areas in questions(points, box, rng).items():
        answers = result.answer(areas, rounding=given.rounding)
        if isinstance(areas, np.ndarray) and areas.ndim == 3:
            truth = count_points(points, np.where(areas == np.array([[-np.inf], [1]]) * box.upper, np.inf, areas))
        else:
            truth = np.array([np.count_nonzero(shapely.intersects_xy(area, *points.T)) for area in areas])
        some = (answers.stderr > 0) & ((truth >= GRID_PEOPLE) | (kind != "grid"))
        (least, most), truth = answers.interval()[some].T, truth[some]
        held = (least <= truth) & (truth <= most)
        rows.append((float(len(truth)), float(np.count_nonzero(held)), float((most - least).sum() / 2)))
    found = []
    for axis in (0, 1):
        mean = sl.mean(points, sl.functions.coordinate(axis), box, **options)
        least, most = mean.interval()
        width = 1e-3 * (box.upper[axis] - box.lower[axis])
        found.append((1.0, float(least <= points[:, axis].mean() <= most), (most - least) / 2 / width))
    return [*rows, tuple(np.sum(found, axis=0).tolist())]


def main() -> int:
    """Print a table for each kind of trust."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trust", choices=TRUSTS, nargs="*", default=TRUSTS)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=90210)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--epsilon", type=float, nargs="*", default=(1.0, 2.0))
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--data", type=Path, help="folder of the real datasets")
    parser.add_argument("--file", type=Path, help="positions of your own: a CSV with a header, x and y first")
    parser.add_argument("--only", nargs="*", help="names of populations")
    parser.add_argument("--rounding", type=float, help="step that coordinates are known to be multiples of")
    given = parser.parse_args()
    own = ["own file"] if given.file else []
    groups = {"used": USED, "looked at": (*UNUSED, *own), "held out": HELD_OUT}
    for trust in given.trust:
        print(f"\n| {trust}, N = {given.people:,} | group | ε | {' | '.join(KINDS)} |")
        print("|---" * (3 + len(KINDS)) + "|")
        every = []
        for group, names in groups.items():
            for name in names:
                if name not in (given.only or names) or not (given.data or name in MADE or name == "own file"):
                    continue
                box, draw = population(name, given)
                for epsilon in given.epsilon:
                    rng = np.random.default_rng(given.seed)
                    runs = [asked(draw(given.people, rng), box, epsilon, trust, given, rng) for _ in range(given.runs)]
                    number, held, width = np.array(runs).transpose(2, 1, 0)
                    cells = []
                    for place in range(len(KINDS)):
                        share, error = rate(held[place], number[place])
                        half = width[place].sum() / number[place].sum()
                        every.append((place, 100 * share, half))
                        cells.append(f"{100 * share:.1f} ({100 * error:.1f}) ± {half:.3g}")
                    print(f"| {name} | {group} | {epsilon:g} | {' | '.join(cells)} |", flush=True)
        place, share, half = np.array(every).T
        ends = [
            f"{np.nanmin(share[place == one]):.1f} to {np.nanmax(share[place == one]):.1f}" for one in range(len(KINDS))
        ]
        means = [f"{np.exp(np.nanmean(np.log(half[place == one]))):.4g}" for one in range(len(KINDS))]
        print(f"| lowest to highest | | | {' | '.join(ends)} |")
        print(f"| half width, geometric mean | | | {' | '.join(means)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
