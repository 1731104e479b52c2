"""Every figure that the local protocol (nobody is trusted) must reach, with its limit.

    python -m bench.bench_local --data FOLDER [--quick] [--runs 8] [--workers N] [--only errors|cities|rounds|speed]

Errors are those of the trials of ``semilocal reproduce``, averages over runs. The others are made here with the
defaults (k = 20, delta = 10^-6). Epsilon is between any two places of one's region. A figure that misses its limit is
printed as NOT REACHED, and the program ends with 1.

Cities: ``brightkite_last_checkin`` has the last position of 50,064 people, one row each, in a box of the world;
``california_housing`` has 20,640 block groups, each stands for one person. The median of the estimates over the runs
counts, and how often 95 % intervals hold the truth, all cities and runs together.

Speed: ``simulate`` for people of the paper's first experiment against the faster ``numpy.sort`` of as many uint64, in
processor time, the best of several. Memory is the peak that is allocated beside the points.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import semilocal as sl
from bench import machine, targets
from semilocal.lab.baselines.boxes import count_points
from semilocal.lab.experiments.data import load, sample_users
from semilocal.lab.experiments.summary import FigureOptions
from semilocal.simulation import synthetic

EPSILON = 1.0
Corners = tuple[float, float, float, float]  # west, south, east, north
# dataset -> city -> its box, and by how much the median may be off
CITIES: dict[str, dict[str, tuple[Corners, float]]] = {
    "brightkite_last_checkin": {
        "London": ((-0.6, 51.2, 0.4, 51.8), 0.30),
        "Tokyo": ((139.0, 35.2, 140.1, 36.0), 0.30),
        "New York": ((-74.3, 40.5, -73.3, 41.0), 0.30),
        "Denver": ((-105.3, 39.4, -104.6, 40.0), 0.30),
    },
    "california_housing": {
        "Los Angeles": ((-118.7, 33.7, -117.6, 34.4), 0.05),
        "San Francisco": ((-122.52, 37.7, -122.35, 37.82), 0.40),
        "San Diego": ((-117.3, 32.6, -116.9, 33.0), 0.40),
        "Sacramento": ((-121.6, 38.4, -121.3, 38.7), 0.40),
    },
}
HELD = 0.88  # share of intervals that hold the truth
FILES, PEOPLE, EPSILONS = ("gowalla", "porto", "brightkite"), 20_000, (1.0, 2.0, 4.0)
MOST_ROUNDS, MOST_MESSAGES = 90, 15.0
SORTS = {10**6: 8.0, 10**7: 6.0}
MOST_BYTES = 24.0
PLANE = sl.Box((-10.0, -10.0), (10.0, 10.0))

Line = tuple[str, bool]


def verdict(good: bool) -> str:
    """The last column of a row."""
    return "reached" if good else "NOT REACHED"


def errors(options: FigureOptions) -> Iterator[Line]:
    """Errors of range counts and means, and F1 of a classifier, against their limits."""
    found = targets.make(options)
    yield found.text, True
    for claim in found.claims:
        yield f"| {claim.text} | {claim.measured} | {verdict(bool(claim.holds))} |", bool(claim.holds)


def cities(data: Path, runs: int, seed: int) -> Iterator[Line]:
    """People in boxes around cities, epsilon = 1, all other settings the defaults."""
    yield "| city | people | median | off by | limit | intervals that hold it | |\n|---|---|---|---|---|---|---|", True
    for source, places in CITIES.items():
        people, rng = load(source, data), np.random.default_rng(seed)
        boxes = np.array([np.reshape(corners, (2, 2)) for corners, _ in places.values()])
        truth = count_points(people.points, boxes)
        estimates, held = [], []
        for _ in range(runs):
            found = sl.counts(people.points, people.box, epsilon=EPSILON, trust="nobody", rng=rng).answer(boxes)
            low, high = found.interval().T
            estimates.append(found.value)
            held.append((low <= truth) & (truth <= high))
        middle, inside = np.median(estimates, axis=0), np.array(held)
        off = np.abs(middle - truth) / truth
        for place, (name, (_, limit)) in enumerate(places.items()):
            good = bool(off[place] <= limit)
            yield (
                f"| {name} | {truth[place]:,} | {middle[place]:,.0f} | {100 * off[place]:.1f} % | {100 * limit:.0f} % "
                f"| {inside[:, place].sum()} of {runs} | {verdict(good)} |",
                good,
            )
        share = float(inside.mean())
        yield (
            f"| all of {source} | {len(people.points):,} | | | {100 * HELD:.0f} % or more | {100 * share:.0f} % | "
            f"{verdict(share >= HELD)} |",
            share >= HELD,
        )


def rounds(data: Path, runs: int, seed: int) -> Iterator[Line]:
    """Rounds and messages of a campaign: the largest number of rounds counts, and messages on average."""
    yield (
        "| data, N = 20,000 | ε | rounds, mean | most (limit 90) | messages of a device, mean (limit 15) | |\n"
        + "|---" * 6
        + "|",
        True,
    )
    for source in FILES:
        for epsilon in EPSILONS:
            rng = np.random.default_rng(seed)
            task = sl.Task.build(synthetic.UNIT_SQUARE, epsilon=epsilon)
            played = [sl.simulate(sample_users(source, PEOPLE, rng, folder=data), task, rng=rng) for _ in range(runs)]
            number = [run.rounds for run in played]
            sent = float(np.mean([(run.answers + run.announcements) / run.participants for run in played]))
            good = max(number) <= MOST_ROUNDS and sent <= MOST_MESSAGES
            cells = f"{np.mean(number):.0f} | {max(number)} | {sent:.1f}"
            yield f"| {source} | {epsilon:g} | {cells} | {verdict(good)} |", good


def speed(sizes: tuple[int, ...]) -> Iterator[Line]:
    """A simulated campaign against sorting, and its memory."""
    head = ("people", "regions", "sort (s)", "simulate (s)", "times sort", "limit", "bytes each (limit 24)", "")
    yield f"| {' | '.join(head)} |\n" + "|---" * len(head) + "|", True
    task = sl.Task.build(PLANE, epsilon=EPSILON)
    for size in sizes:
        rng = np.random.default_rng(20)
        points = np.clip(rng.normal(0.0, 1.5, (size, 2)), -10, 10)
        times = []
        for _ in range(3 if size <= 10**6 else 1):
            start = time.process_time()
            sl.simulate(points, task, rng=rng)
            times.append(time.process_time() - start)
        sort, dispatch = machine.fastest_sort(size)
        tracemalloc.start()
        run = sl.simulate(points, task, rng=rng)
        each = tracemalloc.get_traced_memory()[1] / size
        tracemalloc.stop()
        whole = min(times)
        good = whole <= SORTS[size] * sort and each <= MOST_BYTES
        yield (
            f"| {size:,} | {len(run.partition):,} | {sort:.3f} ({dispatch}) | {whole:.2f} | {whole / sort:.0f} | "
            f"{SORTS[size]:g} | {each:.0f} | {verdict(good)} |",
            good,
        )


def main() -> int:
    """Print the figures; 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the real datasets (or set SEMILOCAL_DATA)")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="one run of the errors, three of the rest, 10^6 people")
    parser.add_argument("--workers", type=int, help="processes for the errors")
    parser.add_argument("--only", choices=("errors", "cities", "rounds", "speed"))
    given = parser.parse_args()
    print(machine.line())
    data = given.data or Path(os.environ.get("SEMILOCAL_DATA", "data"))
    runs = 3 if given.quick else given.runs
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        options = FigureOptions(given.runs, given.seed, Path(folder), data, given.quick, given.workers)
        parts: dict[str, Callable[[], Iterator[Line]]] = {
            "errors": lambda: errors(options),
            "cities": lambda: cities(data, runs, given.seed),
            "rounds": lambda: rounds(data, runs, given.seed),
            "speed": lambda: speed((10**6,) if given.quick else tuple(SORTS)),
        }
        for name, part in parts.items():
            if given.only in (None, name):
                print(f"\n{name} ({'quick' if given.quick else f'{runs} runs'}, seed {given.seed})\n", flush=True)
                for line, good in part():
                    print(line, flush=True)
                    missed += not good
    print(f"\n{missed} NOT REACHED" if missed else "\nall reached")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
