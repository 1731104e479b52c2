"""Who is moved, who shares a region with people that live elsewhere, and what an attacker gets who knows everybody.

Prints the Markdown tables of ``docs/explanation/measured.md``; all data is public::

    SEMILOCAL_DATA=FOLDER python -m bench.bench_moved [--participants 20000] [--k 50] [--runs 5]
    SEMILOCAL_DATA=FOLDER python -m bench.bench_moved --only-regions [--first 1000] [--runs 400] [--delta 1e-6]

The second one only counts regions that are mostly visitors, in many runs.

What moving does is shown without a limit on visitors (``max_visitors=1``) and with the default one. More than half of
the crowd of a region that is "mostly visitors" was moved there: the truth, which only a simulation knows.

"Guessing": an attacker knows the positions of all members of a region, but not who is where, and sees the whole
transcript. It guesses a member's position in proportion to the likelihood of their reports. The table shows how much
more often that is right than a guess without the transcript. Which places were drawn for those who were moved is known
to their devices alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

import semilocal as sl
from semilocal.arrays import Floats, Integers
from semilocal.experiments.datasets import load
from semilocal.geometry.index import count_points

UNIT = sl.Box((0.0, 0.0), (1.0, 1.0))
SOURCES = ("california_housing", "gowalla", "brightkite", "porto")
LIMITS = (1.0, 0.5)
K, DELTA = 50, 1e-6


def people(source: str, size: int, rng: np.random.Generator) -> Floats:
    return load.sample_users(source, size, rng).points


def task_of(epsilon: float, **options: Any) -> sl.Task:
    return sl.Task.build(UNIT, epsilon=epsilon, **{"k": K, "delta": DELTA, **options})


# -- moved participants --------------------------------------------------------------------------------------------


def moved_row(source: str, size: int, runs: int) -> list[str]:
    rows = []
    for seed in range(runs):
        rng = np.random.default_rng([seed, 1])
        run = sl.simulate(people(source, size, rng), task_of(1.0), rng=rng)
        trims = run.partition.path_trims[run.regions]
        moved = run.moves > 0
        elsewhere = np.bincount(run.regions[moved], minlength=len(run.partition)) / run.partition.crowds
        rows.append([moved.mean(), trims.mean(), trims.max(), elsewhere[run.regions].mean(),
                     elsewhere[run.regions[moved]].mean()])  # fmt: skip
    share, mean, most, usual, own = np.mean(rows, axis=0)
    return [source, f"{100 * share:.1f} %", f"{mean:.1f}", f"{most:.0f}", f"{100 * usual:.1f} %", f"{100 * own:.0f} %"]


# -- what an attacker gets -------------------------------------------------------------------------------------------


def children_by_round(run: sl.Run, points: Floats) -> Iterator[Integers]:
    """The child that each participant was in, round by round, as the transcript and its position tell.

    -1 where a moved participant may have been in either with the same chance: in a round that ends in a TRIM, and in
    the last one. In a round that ends in a SPLIT it was in the child that its path takes.
    """
    tree, cells = run.task.hierarchy, run.partition.cells[run.regions]
    own, inside = tree.codes(points), tree.span(cells)[0]
    moved = np.zeros(len(points), dtype=bool)
    for depth in range(len(run.rounds)):
        above, children, path = tree.ancestors(inside, depth), tree.child_of(own, depth), tree.child_of(inside, depth)
        trimmed = np.isin(above, run.partition.trims.cells)
        yield np.where(moved, np.where(trimmed | (above == cells), -1, path), children)
        moved |= trimmed & (children != path)


def gains(source: str, epsilon: float, size: int, seed: int) -> tuple[Integers, Floats, Floats]:
    """Moves of each participant, chance of a right guess with the transcript, and without."""
    rng = np.random.default_rng([seed, 2])
    points = people(source, size, rng)
    secrets = [rng.bytes(32) for _ in range(size)]
    run = sl.simulate(points, task_of(epsilon), secrets=secrets, detail="reports")
    answers = np.full((len(run.rounds), size), -1)
    for number, played in enumerate(run.rounds):
        assert played.reports is not None
        if played.reports.answers.ndim == 1:
            answers[number, played.reports.participants] = played.reports.answers
    children = np.array(list(children_by_round(run, points)))
    right = np.zeros(size)
    for region, crowd in enumerate(run.partition.crowds):
        who = np.flatnonzero(run.regions == region)
        asked = (answers[:, who] >= 0).all(axis=1)
        either = np.log((1.0 + np.exp(epsilon)) / 2.0)
        scores = np.zeros((len(who), len(who)))
        for number in np.flatnonzero(asked).tolist():
            there = children[number, who]
            scores += np.where(there < 0, either, epsilon * (answers[number, who][:, None] == there))
        weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
        right[who] = np.diagonal(weights) / weights.sum(axis=1)
        assert len(who) == crowd
    return run.moves.astype(np.int64), right, 1.0 / run.partition.crowds[run.regions]


def attack_row(epsilon: float, size: int, runs: int) -> list[str]:
    found = [gains(source, epsilon, size, seed) for source in SOURCES for seed in range(runs)]
    moves, right, blind = (np.concatenate(column) for column in zip(*found, strict=True))
    row = [f"{epsilon:g}"]
    for low, high in ((0, 0), (1, 1), (2, 4), (5, 99)):
        chosen = (moves >= low) & (moves <= high)
        row.append(f"x {right[chosen].mean() / blind[chosen].mean():.1f}" if chosen.sum() >= 100 else "too few")
    return row


# -- several tasks ---------------------------------------------------------------------------------------------------


def joint_row(source: str, size: int, runs: int) -> list[str]:
    """Share of participants who share all their regions with fewer than k, themselves included."""
    shares: dict[int, list[float]] = {2: [], 3: [], 5: []}
    for seed in range(runs):
        rng = np.random.default_rng([seed, 3])
        points, regions = people(source, size, rng), []
        for _ in range(5):
            low, high = -rng.random(2) * 0.5, 1 + rng.random(2) * 0.5
            box = sl.Box(tuple(low.tolist()), tuple(high.tolist()))
            regions.append(sl.simulate(points, sl.Task.build(box, epsilon=1.0, delta=DELTA, k=K), rng=rng).regions)
        for count, found in shares.items():
            _, which, crowds = np.unique(np.array(regions[:count]), axis=1, return_inverse=True, return_counts=True)
            found.append(float((crowds[which.ravel()] < K).mean()))
    return [source, *(f"{100 * np.mean(found):.0f} %" for found in shares.values())]


# -- what moving does ------------------------------------------------------------------------------------------------


def effect_row(source: str, epsilon: float, limit: float, k: int, size: int, runs: int) -> list[str]:
    """Regions that are mostly visitors, and errors of counts and means, which have all of epsilon each."""
    rows = []
    for seed in range(runs):
        rng = np.random.default_rng([seed, 4])
        points = people(source, size, rng)
        run = sl.simulate(points, task_of(epsilon, k=k, max_visitors=limit), rng=rng)
        crowds = run.partition.crowds
        visitors = np.bincount(run.regions[run.moves > 0], minlength=len(crowds))
        mostly = visitors > 0.5 * crowds
        half = rng.uniform(0.005, 0.075, (2000, 2))
        around = points[rng.integers(0, size, 2000)]
        boxes = np.stack([np.maximum(around - half, 0.0), np.minimum(around + half, 1.0)], axis=1)
        truth = count_points(points, boxes)
        off = sl.release.counts(run).answer(boxes).value - truth
        means = [
            sl.mean(points, sl.functions.coordinate(axis), UNIT, epsilon=epsilon, trust="nobody", delta=DELTA, k=k,
                    max_visitors=limit, rng=rng).value - points[:, axis].mean()
            for axis in (0, 1)
        ]  # fmt: skip
        rows.append([len(crowds), mostly.sum(), (visitors == crowds).sum(), crowds[mostly].sum() / size,
                     (visitors / crowds).max(),
                     np.sqrt(np.mean(off**2)), np.mean(np.abs(off) / np.maximum(truth, 0.001 * size)),
                     np.square(means).mean()])  # fmt: skip
    regions, mostly, empty, share, _, error, relative, square = np.mean(rows, axis=0)
    most = np.max(rows, axis=0)[4]
    return [source, f"{epsilon:g}", f"{limit:g}", f"{regions:.0f}", f"{mostly:.1f}", f"{empty:.1f}",
            f"{100 * share:.1f} %", f"{100 * most:.0f} %",
            f"{error:.0f}", f"{relative:.2f}", f"{np.sqrt(square):.2g}"]  # fmt: skip


def regions_row(source: str, epsilon: float, delta: float, k: int, size: int, seeds: range) -> list[str]:
    """Regions of many runs that are mostly visitors, and the shares of visitors in these."""
    total, shares = 0, []
    for seed in seeds:
        rng = np.random.default_rng([seed, 9])
        run = sl.simulate(people(source, size, rng), task_of(epsilon, delta=delta, k=k), rng=rng)
        crowds = run.partition.crowds
        share = np.bincount(run.regions[run.moves > 0], minlength=len(crowds)) / crowds
        total += len(crowds)
        shares += share[share > 0.5].tolist()
    return [source, f"{epsilon:g}", f"{len(shares)} of {total:,}", ", ".join(f"{100 * one:.0f} %" for one in shares)]


def show(head: list[str], rows: Iterable[list[str]]) -> None:
    for row in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--participants", type=int, default=20_000)
    parser.add_argument("--k", type=int, default=K, help="smallest crowd where it is shown what moving does")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sources", default=",".join(SOURCES), help="datasets where it is shown what moving does")
    parser.add_argument("--only-effect", action="store_true", help="only what moving does to regions, counts and means")
    parser.add_argument("--only-regions", action="store_true", help="only count regions that are mostly visitors")
    parser.add_argument("--delta", type=float, default=DELTA, help="with --only-regions")
    parser.add_argument("--first", type=int, default=0, help="with --only-regions: the first seed")
    args = parser.parse_args()
    size, runs = args.participants, args.runs
    if args.only_regions:
        print(f"{size:,} participants, k = {args.k}, delta = {args.delta:g}, {runs} runs from seed {args.first}\n")
        seeds = range(args.first, args.first + runs)
        rows = [(source, epsilon) for source in args.sources.split(",") for epsilon in (1.0, 2.0)]
        head = ["data", "epsilon", "mostly visitors", "their shares"]
        show(head, (regions_row(*row, args.delta, args.k, size, seeds) for row in rows))
        return
    print(f"{size:,} participants, k = {args.k} and then {K}, delta = {DELTA:g}, {runs} runs\n")
    head = ["data", "epsilon", "max_visitors", "regions", "mostly visitors", "without residents",
            "people in the former", "largest share of visitors",
            "error of a count", "relative", "error of a mean"]  # fmt: skip
    cases = [(source, epsilon, limit) for source in args.sources.split(",") for epsilon in (1.0, 2.0)
             for limit in LIMITS]  # fmt: skip
    show(head, (effect_row(*case, args.k, size, runs) for case in cases))
    if args.only_effect:
        return
    head = ["data", "moved", "T, mean", "T, largest", "of one's crowd live elsewhere", "the same, for moved people"]
    show(head, [moved_row(source, size, runs) for source in SOURCES])
    head = ["epsilon", "not moved", "moved once", "2 to 4 times", "5 times or more"]
    show(head, [attack_row(epsilon, size // 2, max(runs // 5, 1)) for epsilon in (1.0, 2.0, 4.0)])
    head = ["data", "2 tasks", "3 tasks", "5 tasks"]
    show(head, [joint_row(source, size, runs) for source in SOURCES])


if __name__ == "__main__":
    main()
