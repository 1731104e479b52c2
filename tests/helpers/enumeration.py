"""Every transcript that two positions can give, with its exact probability ratio: the promise by enumeration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from semilocal import RandomizedResponse, Task
from semilocal.arrays import Flags, Integers
from semilocal.hierarchy.dyadic import Cells
from semilocal.protocol.rule import Frontier, decide, first_frontier, frontier_at


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
                    yield TranscriptLoss(math.log(ratio), node.moved, int(node.frontier.trims[0]))
                    continue
                key = (*_path(after.frontier), after.drifting, after.moved)
                known = following.setdefault((key, None if inside else ratio), after)
                if ratio > known.ratio:
                    following[key, None] = after
        level = list(following.values())
    for node in level:
        yield TranscriptLoss(math.log(node.ratio), node.moved, int(node.frontier.trims[0]))


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
    for (pattern, *expected), reports in _verdicts(task, *_path(node.frontier), size).items():
        kept = np.array(pattern)
        goals: list[int | None] = [None, *np.flatnonzero(kept).tolist()]
        for child in goals[1:] or goals:
            steps = {_ratio(task, node, report, child, kept, depth) for report in reports}
            ratios = sorted(node.ratio * step for step in steps if step is not None)
            for ratio in ratios[-1:] if inside else ratios:
                if child is None:
                    yield ratio, None
                    continue
                visitors, doubt = (column[child] for column in expected)
                for following in _follow(task, node, kept, (visitors, doubt), child, ratio, depth):
                    if not (inside and following.moved[1]):
                        yield ratio, following


def _path(frontier: Frontier) -> tuple[int, int, float, float]:
    """The one cell of a frontier, and what a verdict depends on beside its tally."""
    return int(frontier.cells[0]), int(frontier.trims[0]), float(frontier.visitors[0]), float(frontier.doubt[0])


# Children that go on, the visitors then expected in each, and the doubt about them.
_Verdict = tuple[tuple[bool, ...], tuple[float, ...], tuple[float, ...]]


@lru_cache(maxsize=1 << 16)
def _verdicts(
    task: Task, cell: int, trims: int, visitors: float, doubt: float, others: int
) -> dict[_Verdict, list[int]]:
    """Verdicts that can follow, and the victim's reports with which each can."""
    fanout = task.hierarchy.fanout
    tallies = _tallies(others, fanout)
    rows = len(tallies)
    frontier = frontier_at(np.full(rows, cell, dtype=np.uint64), trims=trims, visitors=visitors, doubt=doubt)
    out: dict[_Verdict, list[int]] = {}
    for report in range(fanout):
        everybody = tallies + np.eye(fanout, dtype=np.int64)[report]
        ruling = decide(task, frontier, np.full(rows, others + 1), everybody)
        expected, unsure = np.zeros(ruling.kept.shape), np.zeros(ruling.kept.shape)
        if task.max_visitors < 1.0:  # without a limit they decide nothing
            expected[ruling.kept], unsure[ruling.kept] = ruling.frontier.visitors, ruling.frontier.doubt
        for row in np.unique(np.concatenate([ruling.kept, expected, unsure], axis=1), axis=0).tolist():
            goes, visits, doubts = row[:fanout], row[fanout : 2 * fanout], row[2 * fanout :]
            verdict = tuple(bool(child) for child in goes), tuple(visits), tuple(doubts)
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
    task: Task, node: _Followed, kept: Flags, expected: tuple[float, float], child: int, ratio: Fraction, depth: int
) -> Iterator[_Followed]:
    """Where the victim's path goes on, for every number of moved others that may come along."""
    tree = task.hierarchy
    places = tree.child_of(node.others, depth)
    leaving = int((~kept[places]).sum())
    own = tree.child_of(node.victim, depth)
    moved = (node.moved[0] or not kept[own[0]], node.moved[1] or not kept[own[1]])
    trims = node.frontier.trims + (not kept.all())
    cells, (visitors, doubt) = tree.child(node.frontier.cells, [child]), expected
    following = frontier_at(cells, trims=trims, visitors=visitors, doubt=doubt)
    alone = kept.sum() == 1  # then everybody comes along
    most = node.drifting + leaving
    for drifting in (most,) if alone else range(most + 1):
        yield _Followed(node.others[places == child], drifting, node.victim, moved, ratio, following)


def _tallies(size: int, fanout: int) -> Integers:
    """All ways in which the reports of ``size`` people can fall on the children: int64[m, fanout]."""
    if fanout == 1:
        return np.array([[size]])
    parts = [np.column_stack([np.full(len(rest), first), rest]) for first in range(size + 1)
             for rest in (_tallies(size - first, fanout - 1),)]  # fmt: skip
    return np.concatenate(parts)
