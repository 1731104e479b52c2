"""Losses and failure chances that need no sampling: finite alphabets are enumerated, tails are summed or integrated.

Knows the mechanisms' exact weights. Draws nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..arrays import Flags, Integers
from ..hierarchy.dyadic import Cells
from ..protocol.rule import Frontier, decide, first_frontier, frontier_at
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
    """Log of a transcript's probability ratio "here" over "there", whether each was moved, and TRIMs on the path."""

    loss: float
    moved: tuple[bool, bool]
    trims: int


def transcript_losses(
    task: Task, others: Sequence[tuple[float, ...]], here: tuple[float, ...], there: tuple[float, ...], *,
    inside: bool = False,
) -> Iterator[TranscriptLoss]:  # fmt: skip
    """Every transcript that both positions can give, for randomized response on a box tree, in exact integers.

    A moved participant acts from a uniform position of the kept part, so each of its further children has the same
    probability; the ratio sums over them. Reports of the others enter by their tallies alone, and all tallies can
    occur; so transcripts with the same verdicts and the same reports of the victim have the same ratio and are listed
    once. Transcripts whose path only one position follows are left out.

    Parameters
    ----------
    inside : bool
        Only transcripts whose region holds the second position, and of those with the same cell and TRIMs only the one
        with the largest ratio: enough for a bound, and fast for many rounds. Only without a limit on visitors, which
        would tell apart what is put together here.
    """
    assert isinstance(task.randomizer, RandomizedResponse)
    assert not inside or task.max_visitors == 1.0
    codes = task.hierarchy.codes(np.array([*others, here, there]))
    level = [_Followed(codes[:-2], 0, codes[-2:], (False, False), Fraction(1), first_frontier())]
    for depth in range(task.max_rounds):
        following: dict[tuple[object, ...], _Followed] = {}
        for node in level:
            for ratio, after in _steps(task, node, depth, inside):
                if after is None:
                    yield TranscriptLoss(_log(ratio), node.moved, int(node.frontier.trims[0]))
                    continue
                key = (*_path(after.frontier), after.drifting, after.moved)
                known = following.setdefault((key, None if inside else ratio), after)
                if ratio > known.ratio:
                    following[key, None] = after
        level = list(following.values())
    for node in level:
        yield TranscriptLoss(_log(node.ratio), node.moved, int(node.frontier.trims[0]))


class _Followed(NamedTuple):
    """Transcripts with the same verdicts so far on the victim's path."""

    others: Cells  # codes of everybody else in the victim's cell who was never moved
    drifting: int  # how many of the others in the cell were moved
    victim: Cells  # uint64[2]: codes of the two positions
    moved: tuple[bool, bool]
    ratio: Fraction
    frontier: Frontier  # one cell


def _steps(task: Task, node: _Followed, depth: int, inside: bool) -> Iterator[tuple[Fraction, _Followed | None]]:
    """Ratios after one round, and where the victim's path goes on; None if it ends.

    Reports outside the victim's cell do not depend on its position.
    """
    size = len(node.others) + node.drifting
    for (pattern, visitors), reports in _verdicts(task, *_path(node.frontier), size).items():
        kept = np.array(pattern)
        goals: list[int | None] = [None, *np.flatnonzero(kept).tolist()]
        for child in goals[1:] or goals:
            steps = {_ratio(task, node, report, child, kept, depth) for report in reports}
            ratios = sorted(node.ratio * step for step in steps if step is not None)
            for ratio in ratios[-1:] if inside else ratios:
                if child is None:
                    yield ratio, None
                    continue
                for following in _follow(task, node, kept, visitors[child], child, ratio, depth):
                    if not (inside and following.moved[1]):
                        yield ratio, following


def _path(frontier: Frontier) -> tuple[int, int, float]:
    """The one cell of a frontier, and what a verdict depends on beside its tally."""
    return int(frontier.cells[0]), int(frontier.trims[0]), float(frontier.visitors[0])


_Verdict = tuple[tuple[bool, ...], tuple[float, ...]]  # children that go on, and the visitors then expected in each


@lru_cache(maxsize=1 << 16)
def _verdicts(task: Task, cell: int, trims: int, visitors: float, others: int) -> dict[_Verdict, list[int]]:
    """Verdicts that can follow, and the victim's reports with which each can."""
    fanout = task.hierarchy.fanout
    tallies = _tallies(others, fanout)
    rows = len(tallies)
    frontier = frontier_at(np.full(rows, cell, dtype=np.uint64), trims=trims, visitors=visitors)
    out: dict[_Verdict, list[int]] = {}
    for report in range(fanout):
        everybody = tallies + np.eye(fanout, dtype=np.int64)[report]
        ruling = decide(task, frontier, np.full(rows, others + 1), everybody)
        expected = np.zeros(ruling.kept.shape)
        if task.max_visitors < 1.0:  # without a limit they decide nothing
            expected[ruling.kept] = ruling.frontier.visitors
        for row in np.unique(np.concatenate([ruling.kept, expected], axis=1), axis=0).tolist():
            verdict = tuple(bool(goes) for goes in row[:fanout]), tuple(row[fanout:])
            out.setdefault(verdict, []).append(report)
    return out


def _ratio(task: Task, node: _Followed, report: int, child: int | None, kept: Flags, depth: int) -> Fraction | None:
    """How much likelier the report and the way into a child (None: the path ends) are "here" than "there".

    None if one of the two positions cannot go there: the cells then tell them apart.
    """
    own = task.hierarchy.child_of(node.victim, depth).tolist()
    here, there = (
        _chance(task, report, child, kept, None if moved else position)
        for moved, position in zip(node.moved, own, strict=True)
    )
    return here / there if here and there else None


def _chance(task: Task, report: int, child: int | None, kept: Flags, own: int | None) -> Fraction:
    """Chance (times 2^64) that a victim in child ``own`` (None: moved, so in any) says this and goes on in a child."""
    assert isinstance(task.randomizer, RandomizedResponse)
    true, other = task.randomizer.weights
    fanout = task.hierarchy.fanout
    total = Fraction(0)
    for place in range(fanout) if own is None else (own,):
        chance = Fraction(true if report == place else other, 1 if own is not None else fanout)
        if child is None or place == child:
            total += chance
        elif not kept[place]:
            total += chance / int(kept.sum())
    return total


def _follow(
    task: Task, node: _Followed, kept: Flags, visitors: float, child: int, ratio: Fraction, depth: int
) -> Iterator[_Followed]:
    """Where the victim's path goes on, for every number of moved others that may come along."""
    tree = task.hierarchy
    places = tree.child_of(node.others, depth)
    leaving = int((~kept[places]).sum())
    own = tree.child_of(node.victim, depth)
    moved = (node.moved[0] or not kept[own[0]], node.moved[1] or not kept[own[1]])
    trims = node.frontier.trims + (not kept.all())
    following = frontier_at(tree.child(node.frontier.cells, [child]), trims=trims, visitors=visitors)
    alone = kept.sum() == 1  # then everybody comes along
    most = node.drifting + leaving
    for drifting in (most,) if alone else range(most + 1):
        yield _Followed(node.others[places == child], drifting, node.victim, moved, ratio, following)


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
