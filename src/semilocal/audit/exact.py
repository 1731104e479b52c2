"""Losses and failure chances that need no sampling: finite alphabets are enumerated, tails are summed or integrated.

Knows the mechanisms' exact weights. Draws nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ..arrays import Flags, Integers
from ..hierarchy.dyadic import Cells
from ..protocol.rule import Frontier, decide, first_frontier
from ..protocol.task import Task
from ..randomizer import DiscreteLaplace, RandomizedResponse
from ..randomizer.values.base import Mechanism

__all__ = [
    "TranscriptLoss",
    "crowd_test_failure",
    "laplace_sum_tail",
    "liar_pass_chance",
    "randomizer_loss",
    "transcript_losses",
    "value_loss",
]  # fmt: skip


def randomizer_loss(randomizer: RandomizedResponse | DiscreteLaplace) -> float:
    """Log of the largest ratio of two children's probabilities of the same report, over the whole alphabet.

    Adjacency: any two children. Delta: 0.

    Examples
    --------
    >>> randomizer_loss(RandomizedResponse(1.0, 4)) <= 1.0
    True
    """
    if isinstance(randomizer, RandomizedResponse):
        true, other = randomizer.weights
        return _log(Fraction(true, other))
    weights = randomizer.alphabet[1]
    # Two entries change: one from 1 to 0, one from 0 to 1. y has the weight of 1 - y when the entry is truly 1.
    ratios = [Fraction(a, b) for a, b in zip(weights, reversed(weights), strict=True)]
    return _log(max(ratios)) + _log(max(1 / ratio for ratio in ratios))


def value_loss(mechanism: Mechanism, *, grid: int = 64) -> float:
    """Log of the largest ratio of two values' probabilities of the same output.

    Adjacency: any two values in [0, 1], on a grid of ``grid + 1`` values and both ends. Delta: 0.
    """
    rows = [mechanism.probabilities(step / grid) for step in range(grid + 1)]
    worst = Fraction(1)
    for column in zip(*rows, strict=True):
        high, low = max(column), min(column)
        if low == 0 and high:
            return math.inf
        if low:
            worst = max(worst, Fraction(high, low))
    return _log(worst)


def crowd_test_failure(task: Task, responders: int) -> float:
    """Exact chance that a child with k - 1 of so many responders passes the crowd test (randomized response)."""
    return liar_pass_chance(task, responders, honest=task.k - 1, liars=0)


def liar_pass_chance(task: Task, responders: int, *, honest: int, liars: int) -> float:
    """Exact chance that a child passes with so many honest responders in it, if all liars say that they are in it.

    Liars cannot do better: each adds at most one to a tally. Summed in one convolution of two binomials.

    Parameters
    ----------
    responders : int
        Of the cell, liars included.
    honest : int
        Honest responders in the child.
    """
    from scipy.stats import binom

    randomizer = task.randomizer
    assert isinstance(randomizer, RandomizedResponse)
    p, p0 = randomizer.probabilities
    tolerated = task.tolerate_liars
    threshold = int(randomizer.threshold([responders - tolerated], k=task.k, delta=task.delta_test)[0]) + tolerated
    inside = np.arange(honest + 1)
    rest = responders - liars - honest
    needed = threshold - liars - inside
    return float(binom.pmf(inside, honest, p) @ binom.sf(needed - 1, rest, p0))


def laplace_sum_tail(size: int, margin: float) -> float:
    """Exact chance that the sum of ``size`` Laplace numbers of scale 1 is at least ``margin``.

    The sum is the difference of two gamma numbers of shape ``size``; one is integrated out.
    """
    from scipy.stats import gamma

    spread = math.sqrt(size)
    grid = np.linspace(max(size - 12 * spread, 0.0), size + 12 * spread, 200_001)
    return float(np.trapezoid(gamma.pdf(grid, size) * gamma.sf(grid + margin, size), grid))


# -- whole transcripts ---------------------------------------------------------------------------------------------


class TranscriptLoss(NamedTuple):
    """Log of a transcript's probability ratio "here" over "there", moves at the two positions, TRIMs on the path."""

    loss: float
    moves: tuple[int, int]
    trims: int


def transcript_losses(
    task: Task, others: Sequence[tuple[float, ...]], here: tuple[float, ...], there: tuple[float, ...], *,
    inside: bool = False,
) -> Iterator[TranscriptLoss]:  # fmt: skip
    """Every transcript that both positions can give, for randomized response, in exact integers.

    Reports of the others enter by their tallies alone, and all tallies can occur; so transcripts with the same verdicts
    and the same reports of the victim have the same ratio and are listed once. Transcripts whose path only one
    position follows are left out.

    Parameters
    ----------
    inside : bool
        Only transcripts whose region holds the second position, and of those with the same verdicts only the one with
        the largest ratio: enough for a bound, and fast for many rounds.
    """
    assert isinstance(task.randomizer, RandomizedResponse)
    codes = task.hierarchy.codes(np.array([*others, here, there]))
    start = _Followed(codes[:-2], codes[-2:], Fraction(1), (0, 0), first_frontier())
    yield from _transcripts(task, start, 1, inside)


class _Followed(NamedTuple):
    """Transcripts with the same verdicts so far on the victim's path."""

    others: Cells  # deepest cells of everybody else in the victim's cell
    victim: Cells  # uint64[2]: of the victim at the two positions
    ratio: Fraction
    moves: tuple[int, int]
    frontier: Frontier  # one cell


def _transcripts(task: Task, node: _Followed, round_: int, inside: bool) -> Iterator[TranscriptLoss]:
    """Follow the victim's cell; reports outside it do not depend on the victim's position."""
    trims = int(node.frontier.trims[0])
    if round_ > task.max_rounds:
        yield TranscriptLoss(_log(node.ratio), node.moves, trims)
        return
    fanout, tree = task.hierarchy.fanout, task.hierarchy
    children = tree.child_of(node.victim, round_ - 1)
    tallies = _tallies(len(node.others), fanout)
    patterns: dict[tuple[bool, ...], set[Fraction]] = {}
    for report in range(fanout):
        everybody = tallies + np.eye(fanout, dtype=np.int64)[report]
        cells, counted, expected = node.frontier
        rows = len(everybody)
        frontier = Frontier(np.repeat(cells, rows), np.repeat(counted, rows), np.repeat(expected, rows))
        ruling = decide(task, frontier, np.full(len(everybody), len(node.others) + 1), everybody)
        for kept in np.unique(ruling.kept, axis=0).tolist():
            factors = patterns.setdefault(tuple(kept), set())
            factors.add(node.ratio * _factor(task, report, children.tolist()))
    for pattern, ratios in patterns.items():
        for ratio in (max(ratios),) if inside else sorted(ratios):
            if not any(pattern):
                yield TranscriptLoss(_log(ratio), node.moves, trims)
                continue
            following = _follow(task, node, np.array(pattern), ratio, round_ - 1)
            if following is not None and not (inside and following.moves[1]):
                yield from _transcripts(task, following, round_ + 1, inside)


def _follow(task: Task, node: _Followed, kept: Flags, ratio: Fraction, depth: int) -> _Followed | None:
    """Where the victim's path goes on; None if the two positions part, which its cells then show."""
    codes, tree, moves = np.concatenate([node.others, node.victim]), task.hierarchy, node.moves
    trims = node.frontier.trims
    if not kept.all():
        away = ~kept[tree.child_of(codes, depth)]
        moves = (moves[0] + int(away[-2]), moves[1] + int(away[-1]))
        trims = trims + 1
        cells = np.repeat(node.frontier.cells, len(codes))
        codes = task.hierarchy.nearest(codes, cells, np.tile(kept, (len(codes), 1)))
    ends = tree.child_of(codes, depth)
    if ends[-1] != ends[-2]:
        return None
    cell = tree.child(node.frontier.cells, ends[-1:])
    stay = codes[:-2][ends[:-2] == ends[-1]]
    return _Followed(stay, codes[-2:], ratio, moves, Frontier(cell, trims, node.frontier.expected))


def _factor(task: Task, report: int, children: list[int]) -> Fraction:
    assert isinstance(task.randomizer, RandomizedResponse)
    true, other = task.randomizer.weights
    here, there = (true if report == child else other for child in children)
    return Fraction(here, there)


def _tallies(size: int, fanout: int) -> Integers:
    """All ways in which the reports of so many can fall on the children: int64[m, fanout]."""
    if fanout == 1:
        return np.array([[size]])
    parts = [np.column_stack([np.full(len(rest), first), rest]) for first in range(size + 1)
             for rest in (_tallies(size - first, fanout - 1),)]  # fmt: skip
    return np.concatenate(parts)


def _log(ratio: Fraction) -> float:
    """Natural logarithm; Python divides large integers exactly before it rounds."""
    return math.log(ratio.numerator / ratio.denominator)
