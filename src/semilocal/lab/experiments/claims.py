"""Where the paper's text does not hold: each statement with an exact computation or a seeded simulation.

Knows the paper's formulas, as they are printed, and how to check them. Draws no picture: it prints a table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from ...functions import squared_norm
from ...protocol.task import Task
from ...randomizer import DiscreteLaplace, PaperLaplace
from ...simulation import synthetic
from ..audit.exact import laplace_sum_tail, randomizer_loss
from ..baselines.boxes import count_points
from .methods import CROWD, DELTA, DEPTHS, PAPER_SHARE, At, paper_regions, published_regions
from .report import Claim, Output
from .runner import Scalar, source_version, stream
from .summary import FigureOptions, write_csv
from .trials import MEAN_CROWD, MEAN_SPREAD, PLANE, facts_of

SIZES = (2_000, 16_000, 32_000, 64_000)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 12.0)


def ratio_of_one_report(epsilon: float) -> tuple[float, float]:
    """Return the log of the largest probability ratio of a report with noise of scale 1/ε, by enumeration.

    All reports about two children with integer-valued Laplace noise of that scale, in exact arithmetic; and the ratio
    of the event "first entry at least 1, second at most 0" under continuous noise.

    Examples
    --------
    >>> loss, event = ratio_of_one_report(1.0)
    >>> round(loss, 6), round(event, 3)
    (2.0, 7.389)
    """
    above = {True: 0.5, False: 0.5 * math.exp(-epsilon)}  # P(entry >= 1) with and without the participant
    event = (above[True] * 0.5) / (above[False] * (1 - (1 - 0.5 * math.exp(-epsilon))))
    return randomizer_loss(DiscreteLaplace(2 * epsilon, 2)), event  # its noise has scale 2 / (2 ε)


def margin_failure(responders: int, delta: float) -> float:
    """Return the probability that the summed noise of a child, of scale 1, exceeds the printed margin."""
    return laplace_sum_tail(responders, float(PaperLaplace(1.0, 2, "paper").margin_of(responders, delta=delta)))


def one_way_neighbours(people: int, k: int) -> tuple[int, int]:
    """Return how many (dataset, moved dataset) pairs are neighbours, and how many of them not the other way round.

    All placements of the people on the two halves of a domain, which is split if both halves hold k. X' is a
    neighbour of X if one user moves inside its region of X.

    Examples
    --------
    >>> one_way_neighbours(2, 1)  # two people in one half, one of them moves: both are alone, and cannot move back
    (4, 4)
    """
    neighbours = one_way = 0
    for before, after in _moves(people):
        if not _split(before, k):  # otherwise the region is one half, and the user cannot leave it
            neighbours += 1
            one_way += _split(after, k)
    return neighbours, one_way


def splits_undone(people: int, k: int, *, needed: int) -> int:
    """Return how many moves turn a split that needed `needed` people on each side into one with fewer than k."""
    return sum(_split(before, needed) and not _split(after, k) for before, after in _moves(people))


def _moves(people: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    for halves in itertools.product((0, 1), repeat=people):
        for user in range(people):
            yield halves, (*halves[:user], 1 - halves[user], *halves[user + 1 :])


def _split(halves: tuple[int, ...], k: int) -> bool:
    return min(sum(halves), len(halves) - sum(halves)) >= k


def all_claims(seed: int, *, sizes: tuple[int, ...] = SIZES) -> tuple[Claim, ...]:
    """Check every claim; simulations use the seed."""
    return (
        _report_cost(),
        *_margins(),
        *_rule_all(seed, sizes),
        _published_crowds(seed),
        _neighbours(),
        _free_counts(seed),
        _depth_is_free(),
    )


def make(options: FigureOptions) -> Output:
    """Print the table, and write it to ``claims.csv``."""
    found = all_claims(options.seed, sizes=SIZES[:2] if options.quick else SIZES)
    first: dict[str, Scalar] = {"version": source_version(), "seed": options.seed}
    rows = [{**first, "claim": c.text, "holds": c.holds, "measured": c.measured} for c in found]
    write_csv(options.out / "claims.csv", rows)
    words = {True: "holds", False: "does not hold"}
    text = "\n".join(f"{words[claim.holds]:>13}  {claim.text}\n{'':15}{claim.measured}" for claim in found)
    return Output(claims=found, text=text)


def _report_cost() -> Claim:
    losses = [(epsilon, *ratio_of_one_report(epsilon)) for epsilon in (0.5, 1.0, 2.0)]
    measured = "; ".join(f"ε = {e:g}: loss {loss:.4f}, an event with ratio {event:.3f}" for e, loss, event in losses)
    return Claim(
        "One report with noise Lap(1/ε) on every entry costs ε (adjacency: another child; δ = 0)",
        False,
        f"it costs 2 ε, by enumeration of all reports: {measured}",
    )


def _margins() -> Iterator[Claim]:
    failure = margin_failure(1_000_000, 1e-6)
    yield Claim(
        "The noise of a child stays below the printed margin Δ except with probability δ",
        failure <= 1e-6,
        f"n = 10⁶, δ = 10⁻⁶: {failure:.2g}, {failure / 1e-6:.0f} times too often",
    )
    failures = {n: margin_failure(n, DELTA) for n in (10, 100, 1_000, 10_000, 100_000, 1_000_000)}
    worst = max(failures, key=failures.__getitem__)
    yield Claim(
        "The same at the δ = 0.05 of the experiments",
        max(failures.values()) <= DELTA,
        f"largest failure probability {failures[worst]:.3g} (n = {worst:,}) over n = 10 … 10⁶",
    )


def _rule_all(seed: int, sizes: tuple[int, ...]) -> tuple[Claim, Claim]:
    regions: list[int] = []
    worse = 0
    for n, epsilon in itertools.product(sizes, EPSILONS):
        rng = stream("claims", "all", n, epsilon, seed)
        points = synthetic.truncated_gaussian(n, rng, box=PLANE, scale=MEAN_SPREAD)
        found = paper_regions(points, At(PLANE, epsilon, MEAN_CROWD, rng, DEPTHS["mean"]), PAPER_SHARE)
        regions.append(len(found))
        expected = found.mean(points, squared_norm(), epsilon=(1 - PAPER_SHARE) * epsilon, rng=rng).stderr ** 2
        worse += expected > 2 * (200 / epsilon) ** 2 / n
    number = f"{min(regions)}" if min(regions) == max(regions) else f"{min(regions)} to {max(regions)}"
    return (
        Claim(
            "The algorithm as printed (split only if every child passes) gives a data-adaptive partition of "
            "N(0, 1.5²) in [-10, 10]²",
            False,
            f"it stops at {number} regions in all {len(regions)} settings (N = {', '.join(f'{n:,}' for n in sizes)}; "
            "ε = 0.5 … 12)",
        ),
        Claim(
            "With it, a mean is estimated better than under local DP",
            worse == 0,
            f"the expected error is larger than local DP's in {worse} of {len(regions)} settings: half of ε is left "
            "for the values, and f has the range 200 on a quarter of the domain as on all of it",
        ),
    )


def _published_crowds(seed: int) -> Claim:
    parts = []
    for epsilon in (1.0, 3.0):
        rng = stream("claims", "each", epsilon, seed)
        points = synthetic.clusters(20_000, rng)
        at = At(synthetic.UNIT_SQUARE, epsilon, CROWD, rng, DEPTHS["clusters"])
        regions = published_regions(points, at, PAPER_SHARE)
        facts = facts_of(regions, CROWD)
        alone = int(np.count_nonzero(regions.crowds == 1))
        parts.append(
            f"ε = {epsilon:g}: {100 * facts['regions_below']:.0f} % of the {facts['regions']:,} regions (of those that "
            f"hold somebody), {100 * facts['participants_below']:.1f} % of the participants, {alone} people alone"
        )
    return Claim(
        "The partitions behind the figures keep k participants in a region",
        False,
        "the published code lets each child go on by itself. Clusters, N = 20,000, k = 20, below k: "
        + "; ".join(parts),
    )


def _neighbours() -> Claim:
    people, k = 8, 3
    pairs, one_way = one_way_neighbours(people, k)
    undone, repaired = (splits_undone(people, k, needed=needed) for needed in (k, k + 1))
    return Claim(
        "Neighbouring is symmetric, so one inequality gives both directions",
        one_way == 0,
        f"{people} people, two halves, k = {k}: of {pairs} neighbouring pairs {one_way} are not neighbours the other "
        f"way round. {undone} moves undo a split that needed k on each side, {repaired} one that needed k + 1: with "
        "that threshold both directions hold",
    )


def _free_counts(seed: int) -> Claim:
    rng = stream("claims", "counts", seed)
    points = synthetic.clusters(20_000, rng)
    regions = paper_regions(points, At(synthetic.UNIT_SQUARE, 1.0, CROWD, rng, DEPTHS["clusters"]), 1.0)
    same = bool(np.array_equal(regions.crowds, count_points(points, regions.boxes)))
    return Claim(
        "The number of participants in a region needs noise (half of ε in the range queries)",
        not same,
        f"who answers for a cell is public: what is published gives all {len(regions):,} crowds exactly, and a move "
        "inside a region does not change them",
    )


def _depth_is_free() -> Claim:
    depths = (1, 10, 30)
    losses = {depth: Task.paper(PLANE, epsilon=0.5, delta=DELTA, k=CROWD, max_depth=depth).epsilon for depth in depths}
    return Claim(
        "The loss inside the released region does not grow with the depth (rule all; δ concerns the crowd only)",
        len(set(losses.values())) == 1,
        "; ".join(f"at most {depth} rounds: ε = {loss:g}" for depth, loss in losses.items())
        + ". Positions in one region differ in their child in the last round only",
    )
