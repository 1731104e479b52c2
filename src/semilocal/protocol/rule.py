"""The verdicts: the only place where a split is decided, from responders and tallies alone.

    rule     a cell is …                                                        crowd of k
    "all"    SPLIT if every child passes the crowd test, else STOP              kept
    "trim"   SPLIT if every child passes; else TRIM to the children that pass,  kept; each TRIM costs
             if the others together are sparse and the path has trims left;     those it moves a report
             else STOP
    "each"   every passing child goes on by itself, a failing child is a        NOT kept
             region at once

A cell whose children have a side below the task's ``min_side`` is always a STOP: no region gets smaller than that.

After TRIM, a participant in a trimmed child acts from a uniform place of the kept children (``Hierarchy.spread``), a
*visitor* there. How many visitors a cell has, and how sure that is, follows from public estimates. With rule "trim" and
``max_visitors`` below 1, they make no regions: a child passes only if its tally proves v / ``max_visitors`` people (and
k), v being the visitors in it, and a TRIM is given only if no kept child then has a larger share of them; both with
``VISITOR_QUANTILE`` standard errors of v to spare.

Verdicts are functions of reports that are public anyway, so the loss inside the region does not depend on the rule
(docs/explanation/proofs.md, Theorem 1). What visitors forbid is never more than k alone allows: the crowd of k is kept
as before.

Also the only place that says where a path ends. Knows one round. Knows no participants, positions or randomness.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, Integers, over_columns, short_repr
from ..geometry.sides import at_least
from ..hierarchy.base import ROOT, Cells
from ..randomizer.base import Randomizer
from ..randomizer.widths import with_fanout
from .task import Task
from .visitors import already_there, coming

__all__ = [
    "Ended", "Frontier", "PlayedRound", "Ruling", "crowds_needed", "decide", "first_frontier", "frontier_at",
    "no_frontier", "possible", "proceed", "randomizers", "roll_call", "too_many_visitors", "too_small",
]  # fmt: skip

TRIM_QUANTILE = 1.6448536269514722  # one-sided 95 %: how sure we are that the trimmed share is below tau
VISITOR_QUANTILE = 3.090232306167813  # one-sided 99.9 %: how sure we are that a child has no more visitors
_NOBODY_PROVES = 2.0**53  # people: more than any round has, and a float holds it


class Frontier(NamedTuple):
    """The cells of a round, ascending, with what the rule remembers of their paths.

    Attributes
    ----------
    cells : uint64[m]
    trims : int64[m]
        TRIM verdicts on the path so far.
    expected : float64[m]
        Estimated number of participants from the parent's round; NaN for the root.
    visitors : float64[m]
        How many of the participants were moved, by the estimates of the TRIMs on the path; 0 for the root.
    doubt : float64[m]
        The variance of that number; 0 for the root.
    """

    cells: Cells
    trims: Integers
    expected: Floats
    visitors: Floats
    doubt: Floats

    def rows(self, chosen: Integers | Flags | slice) -> Frontier:
        """Some of the cells."""
        return Frontier(
            self.cells[chosen], self.trims[chosen], self.expected[chosen], self.visitors[chosen], self.doubt[chosen]
        )


class Ended(NamedTuple):
    """The paths that end in a round.

    Attributes
    ----------
    cells : uint64[e]
        The regions: the cell itself, or with rule "each" the child that was left behind.
    rows : int64[e]
        The row of the frontier that each of them comes from: its participants last reported for that cell.
    """

    cells: Cells
    rows: Integers


class Ruling(NamedTuple):
    """What follows from a round's tallies.

    Attributes
    ----------
    kept : bool[m, fanout]
        Children that go on; bool[m, 0] after a roll call.
    estimates : float64[m, fanout]
        Estimated responders in each child; NaN where a cell has no such child, and after a roll call.
    frontier : Frontier
        The next round's cells: the kept children.
    ended : Ended
        The paths that end here.
    trimmed : bool[m]
        Cells with the verdict TRIM: only some of their children go on, with everybody.
    """

    kept: Flags
    estimates: Floats
    frontier: Frontier
    ended: Ended
    trimmed: Flags


@dataclass(frozen=True, eq=False)
class PlayedRound:
    """A round that is over: what was asked, counted and decided.

    Attributes
    ----------
    number : int
    frontier : Frontier
        The cells asked about.
    responders : int64[m]
    tally : int64[m, fanout]
        int64[m, 0] in a roll call.
    ruling : Ruling
    """

    number: int
    frontier: Frontier
    responders: Integers
    tally: Integers
    ruling: Ruling

    __repr__ = short_repr

    @property
    def cells(self) -> Cells:
        """The cells asked about: uint64[m]."""
        return self.frontier.cells

    @property
    def kept(self) -> Flags:
        """The children that go on: bool[m, fanout], or bool[m, 0] in a roll call."""
        return self.ruling.kept


def first_frontier() -> Frontier:
    """The frontier of round 1: the whole domain."""
    return frontier_at([ROOT])


def no_frontier() -> Frontier:
    """The frontier after the last round: nothing."""
    return frontier_at([])


def frontier_at(
    cells: npt.ArrayLike, *, trims: npt.ArrayLike = 0, expected: npt.ArrayLike = np.nan, visitors: npt.ArrayLike = 0.0,
    doubt: npt.ArrayLike = 0.0,
) -> Frontier:  # fmt: skip
    """These cells, with what is remembered of their paths: one number for each cell, or one for all."""
    array = np.asarray(cells, dtype=np.uint64)
    floats = (np.full(array.shape, number).astype(np.float64) for number in (expected, visitors, doubt))
    return Frontier(array, np.full(array.shape, trims).astype(np.int64), *floats)


def decide(task: Task, frontier: Frontier, responders: npt.ArrayLike, tally: npt.ArrayLike) -> Ruling:
    """Verdicts for all cells of a round.

    Parameters
    ----------
    frontier : Frontier
        m cells.
    responders : int[m]
    tally : int[m, fanout]

    Examples
    --------
    >>> from semilocal import Box, Task
    >>> task = Task.build(Box((0,), (1,)), epsilon=1.0, delta=0.05, k=20)
    >>> decide(task, first_frontier(), [1000], [[510, 490]]).kept.tolist()
    [[True, True]]
    >>> decide(task, first_frontier(), [1000], [[730, 270]]).kept.tolist()
    [[True, False]]
    >>> decide(task, first_frontier(), [10], [[5, 5]]).kept.tolist()
    [[False, False]]
    """
    size = np.asarray(responders, dtype=np.int64)
    sums = np.asarray(tally, dtype=np.int64)
    kept, estimates = np.zeros(sums.shape, dtype=bool), np.full(sums.shape, np.nan)
    for rows, randomizer in randomizers(task, frontier.cells):
        columns = slice(randomizer.fanout)
        judged = _judge(task, randomizer, frontier.rows(rows), size[rows], sums[rows, columns])
        kept[rows, columns], estimates[rows, columns] = judged
    if task.min_side:
        kept[too_small(task, frontier.cells)] = False
    return proceed(task, frontier, kept, estimates, size)


def randomizers(task: Task, cells: Cells) -> Iterator[tuple[Integers | slice, Randomizer]]:
    """For every number of children that occurs: the rows of the cells that have it, and their randomizer.

    The rows are ``slice(None)`` where all cells of the hierarchy have as many.
    """
    if task.hierarchy.has_one_fanout:
        yield slice(None), task.randomizer
        return
    widths = task.hierarchy.fanouts(cells)
    for width in np.unique(widths).tolist():
        yield np.flatnonzero(widths == width), with_fanout(task.randomizer, width)


def _judge(
    task: Task, randomizer: Randomizer, frontier: Frontier, size: Integers, sums: Integers
) -> tuple[Flags, Floats]:
    """Which children go on, and the estimates, for cells with as many children as the randomizer has."""
    estimates = randomizer.estimate(sums, size)
    measured = np.where(np.isnan(frontier.expected), size, frontier.expected) if task.size_from == "estimate" else size
    # Whatever liars say, each adds at most one to a tally: without them the rest must still prove a crowd.
    liars = task.tolerate_liars
    passing = randomizer.passes(sums - liars, measured - liars, k=task.k, delta=task.delta_test)
    if task.max_visitors < 1.0 and _has_visitors(frontier):
        needed = crowds_needed(task, frontier, size)[:, : randomizer.fanout]
        rows, children = np.nonzero(passing & (needed > task.k))
        tally, crowds = sums[rows, children] - liars, needed[rows, children]
        passing[rows, children] = randomizer.proves(tally, size[rows] - liars, crowds, delta=task.delta_test)
    if task.rule == "each":
        return passing, estimates
    every = over_columns(np.logical_and, passing)
    goes_on = every
    if task.rule == "trim":
        trimmed = ~every & over_columns(np.logical_or, passing) & (frontier.trims < task.max_trims)
        trimmed &= _sparse(task, randomizer, estimates, passing, size)
        if task.max_visitors < 1.0:
            rows = np.flatnonzero(trimmed)
            trimmed[rows] = ~too_many_visitors(task, frontier.rows(rows), passing[rows], estimates[rows], size[rows])
        goes_on = every | trimmed
    return passing & goes_on[:, None], estimates


def crowds_needed(task: Task, frontier: Frontier, responders: Integers) -> Integers:
    """How many people the tally of each child has to prove, liars aside: int64[m, fanout], at least k.

    The errors of the tally and of the visitors are independent, so their variances add up. The crowd test allows for
    that of the tally already.
    """
    cells, limit = frontier.cells, task.max_visitors
    if limit == 1.0:
        return np.full((len(cells), task.hierarchy.fanout), task.k)
    own, variance = already_there(frontier.visitors, frontier.doubt, task.hierarchy.child_weights(cells))
    tally = _noise(task, cells, responders, np.ones(len(cells), dtype=np.int64))[:, None]
    with np.errstate(over="ignore"):
        doubt = np.sqrt(tally + variance / limit / limit) - np.sqrt(tally)
        crowds = np.minimum(np.ceil(own / limit + VISITOR_QUANTILE * doubt), _NOBODY_PROVES)
    return np.maximum(crowds.astype(np.int64), task.k)


def too_many_visitors(task: Task, frontier: Frontier, kept: Flags, estimates: Floats, responders: Integers) -> Flags:
    """Whether after a TRIM to these children one of them may hold more visitors than allowed: bool[m].

    Parameters
    ----------
    frontier : Frontier
        m cells with at most c children.
    kept : bool[m, c]
    estimates : float64[m, c]
    responders : int64[m]
    """
    if task.max_visitors == 1.0:
        return np.zeros(len(kept), dtype=bool)
    visitors, doubt, come = _visitors(task, frontier, kept, estimates, responders)
    most = task.max_visitors * (estimates + come)
    return np.asarray(over_columns(np.logical_or, kept & (visitors + VISITOR_QUANTILE * np.sqrt(doubt) > most)))


def _visitors(
    task: Task, frontier: Frontier, kept: Flags, estimates: Floats, responders: Integers
) -> tuple[Floats, Floats, Floats]:
    """Visitors in each kept child after the verdict, their variance, and those who come by it: float64[m, c] each."""
    weights = task.hierarchy.child_weights(frontier.cells)[:, : kept.shape[1]]
    left = over_columns(np.add, (~kept & (weights > 0)).astype(np.int64))
    own, own_variance = already_there(frontier.visitors, frontier.doubt, weights)
    come, come_variance = coming(own, weights, kept, estimates, _noise(task, frontier.cells, responders, left))
    return own + come, own_variance + come_variance, come


def _has_visitors(frontier: Frontier) -> bool:
    """Whether there may be a visitor anywhere; an estimate of none leaves a doubt."""
    return bool(frontier.visitors.any() or frontier.doubt.any())


def _noise(task: Task, cells: Cells, responders: Integers, members: Integers) -> Floats:
    """Variance of the estimated number of people in so many children of each cell: float64[m]."""
    out = np.zeros(len(cells))
    for rows, randomizer in randomizers(task, cells):
        out[rows] = responders[rows] * _variances(randomizer, task.tau)[members[rows]]
    return out


@lru_cache(maxsize=256)
def _variances(randomizer: Randomizer, tau: float) -> Floats:
    """The same per responder, for no child, one, … and all: float64[fanout + 1]."""
    groups = range(1, randomizer.fanout + 1)
    return np.array([0.0, *(randomizer.variance(tau, members=members) for members in groups)])


def too_small(task: Task, cells: Cells) -> Flags:
    """Whether a child of each cell would have a side below the task's limit: bool[m]."""
    hierarchy = task.hierarchy
    large = at_least(hierarchy.sides(hierarchy.children(cells)), task.min_side)
    out = np.zeros(len(cells), dtype=bool)
    out[hierarchy.child_rows(cells)[0][~large]] = True
    return out


def proceed(task: Task, frontier: Frontier, kept: Flags, estimates: Floats, responders: Integers) -> Ruling:
    """What follows if these children go on, whether or not the tallies say so.

    Parameters
    ----------
    frontier : Frontier
        m cells, above the deepest level.
    kept : bool[m, fanout]
    estimates : float64[m, fanout]
    responders : int64[m]
    """
    hierarchy = task.hierarchy
    weights = hierarchy.child_weights(frontier.cells)
    left = ~kept & (weights > 0)
    any_kept = over_columns(np.logical_or, kept)
    trimmed = any_kept & over_columns(np.logical_or, left) if task.rule == "trim" else np.zeros(len(kept), dtype=bool)
    visitors = doubt = np.zeros(kept.shape)
    if trimmed.any() or (task.rule == "trim" and _has_visitors(frontier)):
        visitors, doubt, _ = _visitors(task, frontier, kept, estimates, responders)
    rows, numbers = np.nonzero(kept)
    cells, trims = hierarchy.child(frontier.cells[rows], numbers), (frontier.trims + trimmed)[rows]
    following = Frontier(cells, trims, estimates[kept], visitors[kept], doubt[kept])
    if task.rule == "each":
        rows, numbers = np.nonzero(left)
        ended = Ended(hierarchy.child(frontier.cells[rows], numbers), rows)
    else:
        rows = np.flatnonzero(~any_kept)
        ended = Ended(frontier.cells[rows], rows)
    return Ruling(np.ascontiguousarray(kept), estimates, following, ended, trimmed)


def roll_call(task: Task, frontier: Frontier) -> Ruling:
    """What follows from a roll call: every path ends."""
    size = len(frontier.cells)
    nothing = np.full((size, task.randomizer.fanout), np.nan)
    everybody = Ended(frontier.cells, np.arange(size))
    return Ruling(np.zeros((size, 0), dtype=bool), nothing, no_frontier(), everybody, np.zeros(size, dtype=bool))


def possible(task: Task, cells: Cells, responders: Integers, tally: Integers) -> bool:
    """Whether the reports of every cell can have these sums; children that a cell does not have count nothing."""
    if np.any(responders < 0):
        return False
    if not task.hierarchy.has_one_fanout and np.any(tally[~task.hierarchy.child_mask(cells)]):
        return False
    return all(
        bool(randomizer.possible(tally[rows, : randomizer.fanout], responders[rows]).all())
        for rows, randomizer in randomizers(task, cells)
    )


def _sparse(task: Task, randomizer: Randomizer, estimates: Floats, passing: Flags, size: Integers) -> Flags:
    """Whether the failing children together surely hold at most a share tau of the responders: bool[m]."""
    failing = over_columns(np.add, (~passing).astype(np.int64))
    likely = over_columns(np.add, np.where(passing, 0.0, estimates))
    bound = likely + TRIM_QUANTILE * np.sqrt(size * _variances(randomizer, task.tau)[failing])
    return np.asarray(bound <= task.tau * size)
