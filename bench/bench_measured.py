"""What the promise costs on real data: the tables of docs/explanation/measured.md.

    python -m bench.bench_measured --data FOLDER [--runs 3]

Nobody is trusted; 20,000 participants, one row of a file each, k = 20, delta = 10^-6, a square around each dataset.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

import semilocal as sl
from semilocal.arrays import Floats, Integers
from semilocal.lab.experiments.data import sample_users
from semilocal.tabular import markdown

SOURCES = ("california_housing", "gowalla", "brightkite", "porto")
PEOPLE = 20_000
EPSILONS = (1.0, 2.0)  # with one answer about lines inside a region
TASKS = (2, 3, 5)
GROWN = 0.5  # of a side, by which the boxes of several tasks reach further at most


def answered(run: sl.Run, points: Floats) -> Iterator[tuple[int, float]]:
    """Of every wall the answers about it, and the share of its region's members above it."""
    partition, walls = run.partition, run.partition.walls
    codes = np.sort(run.task.hierarchy.codes(points))
    ends = np.append(np.searchsorted(codes, partition.lower), len(codes))
    for region, crowd in enumerate(np.diff(ends).tolist()):
        rows = slice(walls.first[region], walls.first[region + 1])
        above = ends[region + 1] - np.searchsorted(codes, walls.cuts[rows])
        yield from zip(walls.asked[rows].tolist(), (above / crowd).tolist(), strict=True)


def loss(run: sl.Run, points: Floats) -> float:
    """Mean over participants of the loss between their place and that of a random member of their region."""
    answer = run.task.epsilon / run.task.answers
    return sum(asked * answer * 2 * share * (1 - share) for asked, share in answered(run, points)) / len(points)


def gains(run: sl.Run, points: Floats) -> tuple[float, float]:
    """How much more often a member's place is guessed with their answer: the mean over participants, and the most.

    Places are guessed in proportion to the probability of the answer from there.
    """
    odds = np.exp(run.task.epsilon / run.task.answers)
    mean, most, number = 0.0, 1.0, len(points)
    for asked, share in answered(run, points):
        for side in (share, 1 - share):
            true, false = odds / (odds * side + 1 - side), 1 / (side + odds * (1 - side))
            mean += asked * side * ((odds * true + false) / (odds + 1) - 1) / number
            most = max(most, true if side > 0 else 1.0)
    return 1 + mean, most


def alone(points: Floats, tasks: int, rng: np.random.Generator) -> float:
    """The share of people who share all their regions of several tasks with fewer than k."""
    regions: list[Integers] = []
    for _ in range(tasks):
        lower, upper = -rng.uniform(0, GROWN, 2), 1 + rng.uniform(0, GROWN, 2)
        task = sl.Task.build(sl.Box(tuple(lower.tolist()), tuple(upper.tolist())), epsilon=1.0)
        regions.append(sl.simulate(points, task, rng=rng).partition.locate(points))
    _, group, size = np.unique(np.stack(regions), axis=1, return_inverse=True, return_counts=True)
    return float(np.mean(size[group.ravel()] < task.k))


def main() -> None:
    """Print the three tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with the datasets")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    fine: list[tuple[str, ...]] = [
        ("data", "epsilon", "regions", "typical crowd", "smallest", "rounds", "answers", "loss")
    ]
    several: list[tuple[str, ...]] = [("data", *(f"{tasks} tasks" for tasks in TASKS))]
    gained: dict[float, list[tuple[float, float]]] = {epsilon: [] for epsilon in EPSILONS}
    square = sl.Box((0, 0), (1, 1))
    for name in SOURCES:
        rng = np.random.default_rng(1)
        people = [sample_users(name, PEOPLE, rng, folder=given.data) for _ in range(given.runs)]
        for epsilon in EPSILONS:
            runs = [sl.simulate(points, sl.Task.build(square, epsilon=epsilon), rng=rng) for points in people]
            rows = [
                (len(crowds := run.partition.crowds), np.median(crowds), crowds.min(), run.rounds,
                 run.answers / PEOPLE, loss(run, points)) for run, points in zip(runs, people, strict=True)
            ]  # fmt: skip
            mean = np.mean(rows, axis=0)
            fine.append((name, f"{epsilon:g}", *(f"{x:.0f}" for x in mean[:4]), f"{mean[4]:.1f}", f"{mean[5]:.2f}"))
            gained[epsilon] += map(gains, runs, people)
        shares = [np.mean([alone(points, tasks, rng) for points in people]) for tasks in TASKS]
        several.append((name, *(f"{share:.0%}".replace("%", " %") for share in shares)))
    won: list[tuple[str, ...]] = [("epsilon", "mean", "at most", "e^epsilon")]
    for epsilon, found in gained.items():
        mean, most = np.mean([each for each, _ in found]), max(each for _, each in found)
        won.append((f"{epsilon:g}", f"x {mean:.2f}", f"x {most:.1f}", f"{np.exp(epsilon):.1f}"))
    print(markdown(fine), markdown(won), markdown(several), sep="\n\n")


if __name__ == "__main__":
    main()
