"""The rule: what is asked next, of whom, what the answers mean, and when a region ends. Functions of the public log.

    rule     a region …                                            promise
    "cut"    is cut near its estimated median; m drawn members      epsilon between any two places of a region, both
             answer in two portions; SPLIT if both sides show k     ways; k people in it except with probability delta
             people, else the cut is a wall and the next question   per participant
             is put elsewhere
    "all"    is a cell; all members answer once; SPLIT if every     the same, with the paper's definition
             child shows k people, else it ends

Where is cut and when a question is given up is quality, not safety: both theorems (PROOF.md) hold for any choice that
is fixed before the draw. What devices check again is the threshold (:func:`threshold_holds`) and their own book.

Everything works on many regions at once. Knows counts of answers. Knows no participants, positions or randomness.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec
import numpy as np

from ..arrays import Flags, Floats, Integers
from ..geometry.units import at_least
from ..hierarchy.base import Cells
from ..randomizer.base import Randomizer
from .estimate import Pieces, Walls, estimate
from .task import Task
from .thresholds import SLACK, level, levels, needed, passing, tail, thresholds

ROUNDS_OF_A_QUESTION = 3  # two portions, and the announcement
_LOW, _HIGH = 0.4, 0.6  # a cut lies where the estimated share below it is in between
_CHANCE_TO_END = 0.3  # of a split at an even cut, with everybody asked: below it a region ends
_CHANCE_TO_GO_ON = 0.5  # of passing, after the first portion
_PORTION = 0.35  # of the asked, at most
_MANY, _FEW = 1000, 1 / 8  # where at least so many may be asked, at most this share of them is asked all at once
_SHARE_NOISE = 0.12  # standard error of the share that the first portion gives, at least
_FEWEST = 8  # people: fewer are not asked
_NODES = np.array([-1.2, -0.4, 0.4, 1.2])  # standard errors: a normal law in four points
_LEAST_PIECE = 0.1  # of a region's people: smaller pieces are not refined


class Census(NamedTuple):
    """What the public log says about m regions before the next question."""

    lower: Cells  # uint64[m]: codes lower to before upper
    upper: Cells  # uint64[m]
    members: Integers  # int64[m]: roster participants who announced that they are there
    askable: Integers  # int64[m]: F: members who may be asked
    # int64[m]: w: questions whose cut lies strictly inside and that did not split the region, with multiplicity
    failed: Integers
    walls: Walls  # the answers of present members

    def rows(self, chosen: Integers) -> Census:
        """Some of the regions: int64[c]."""
        return Census._make([*(column[chosen] for column in self[:5]), self.walls.rows(chosen)])


class Asking(NamedTuple):
    """The next question of m regions."""

    rows: Integers  # int64[q]: the regions that are asked; the others end
    cuts: Cells  # uint64[q, c]: ascending; 0 where a region has fewer cuts
    asked: Integers  # int64[q]: m: how many members are drawn
    portion: Integers  # int64[q]: how many of them answer first
    threshold: Integers  # int64[q]: t: answers that every part must get. 0 where nothing is decided
    above: Floats  # float64[q]: estimated share of the members at the cut or above, before the question
    variance: Floats  # float64[q]: variance of that share

    def pick(self, chosen: Integers) -> Asking:
        """Some of the questions: int64[c]."""
        return Asking._make(column[chosen] for column in self)

    def with_others(self, rows: Integers, other: Asking) -> Asking:
        """These questions and others, about the regions in ``rows``."""
        return Asking._make([rows, *(np.concatenate(pair) for pair in zip(self[1:], other[1:], strict=True))])


def randomizer_for(task: Task, parts: int) -> Randomizer:
    """What answers about so many parts go through: the task's noise, with the same loss per answer."""
    own = task.randomizer
    return own if parts == own.fanout else msgspec.structs.replace(own, fanout=parts)


def first_portion(task: Task) -> int:
    """The most people that a first portion needs, for a standard error of 0.12 of the share: 64 at epsilon 1."""
    return math.ceil(_answer_noise(task) / (_SHARE_NOISE * _SHARE_NOISE))


def questions(task: Task, census: Census) -> Asking:
    """The next question of every region; regions that are not asked end (local.md 3, steps 1 to 4 and 6)."""
    return _halves(task, census) if task.rule == "cut" else _children(task, census)


def _halves(task: Task, census: Census) -> Asking:
    k, epsilon = task.k, task.randomizer.epsilon
    if task.tolerate_liars:  # a crowd whose test asks for about as many answers as k honest people and the liars do
        k += math.ceil(task.tolerate_liars / (2.0 * task.truth - 1.0))
    bounds = levels(task.delta, census.failed)
    rows = np.flatnonzero(census.askable >= max(2 * k, _FEWEST))
    askable, bounds = census.askable[rows], bounds[rows]
    asked = np.minimum(needed(askable, k, epsilon, bounds), askable)
    t = thresholds(askable, asked, task.k, epsilon, bounds) + task.tolerate_liars  # each liar adds one at the most
    # A question to all F at an even cut; if fewer suffice for an uneven one, it surely splits an even one.
    hopeful = (asked < askable) | (passing(t, asked, epsilon, 0.5) >= _CHANCE_TO_END)
    keep = np.flatnonzero(hopeful & (asked >= _FEWEST))
    rows, asked, t = rows[keep], asked[keep], t[keep]
    some = census.rows(rows)
    pieces = estimate(some.lower, some.upper, some.walls, task.truth)
    lowest, highest = _quantile(pieces, _LOW), _quantile(pieces, _HIGH)
    lowest = np.maximum(lowest, some.lower + np.uint64(1))
    highest = np.minimum(highest, some.upper - np.uint64(1))
    keep = np.flatnonzero(lowest <= highest)
    cuts = np.zeros(len(rows), dtype=np.uint64)
    cuts[keep] = task.hierarchy.coarsest(lowest[keep], highest[keep])
    keep = keep[_large_enough(task, some.lower[keep], cuts[keep]) & _large_enough(task, cuts[keep], some.upper[keep])]
    above, variance = _expected(pieces, cuts)
    # No place between walls divides evenly: one of the two walls around the middle is wrong, or one place holds it.
    again = _thin_wall(some, pieces)
    stuck = (again > 0) & ((above < _LOW - 0.01) | (above > _HIGH + 0.01))
    cuts = np.where(stuck, again, cuts)
    above, variance = _expected(pieces, cuts)
    most = first_portion(task)
    portion = np.minimum(np.maximum(np.minimum((_PORTION * asked).astype(np.int64), most), _FEWEST), asked)
    # A first portion spares people and costs a round. Where many are free, nobody needs to be spared.
    many = (some.askable >= _MANY) & (asked <= _FEW * some.askable)
    portion = np.where(many, asked, portion)
    return Asking(rows[keep], cuts[keep, None], asked[keep], portion[keep], t[keep], above[keep], variance[keep])


def _children(task: Task, census: Census) -> Asking:
    """Rule "all": the children of the cell that a region is, all members at once, one time only."""
    tree = task.hierarchy
    rows = np.flatnonzero((census.failed == 0) & (census.askable >= max(task.crowd, 2)))
    _, cells = tree.interval_cells(census.lower[rows], census.upper[rows])
    counts = tree.fanouts(cells)
    while np.any(counts == 1):  # a path that has nothing to divide goes on with one child
        single = np.flatnonzero(counts == 1)
        cells[single] = tree.children(cells[single])
        counts[single] = tree.fanouts(cells[single])
    above_leaves = counts > 1
    rows, cells, counts = rows[above_leaves], cells[above_leaves], counts[above_leaves]
    at, children = np.repeat(np.arange(len(cells)), counts), tree.children(cells)
    numbers = tree.number(children)
    fits = np.ones(len(rows), dtype=bool)
    np.logical_and.at(fits, at, at_least(tree.sides(children), task.min_side))
    first = tree.span(children)[0]
    cuts = np.zeros((len(rows), tree.fanout - 1), dtype=np.uint64)
    inner = numbers > 0
    cuts[at[inner], numbers[inner] - 1] = first[inner]
    asked = census.askable[rows]
    t = np.zeros(len(rows), dtype=np.int64)
    for parts in np.unique(counts).tolist():
        own = counts == parts
        t[own] = _all_threshold(task, parts, asked[own])
    keep = np.flatnonzero(fits & ((t <= asked) | (task.randomizer.words > 1)))
    nothing = np.zeros(len(keep))
    return Asking(rows[keep], cuts[keep], asked[keep], asked[keep], t[keep], nothing, nothing)


def refinements(task: Task, census: Census) -> Asking:
    """What the free members of ended regions are asked: the largest piece is halved (local.md 3, step 6)."""
    if task.rule != "cut":
        none, empty = np.zeros(0, dtype=np.int64), np.zeros(0)
        return Asking(none, np.zeros((0, 1), dtype=np.uint64), none, none, none, empty, empty)
    most = first_portion(task)
    rows = np.flatnonzero((census.members > 0) & (census.askable >= max(12, most // 4)))
    some = census.rows(rows)
    pieces = estimate(some.lower, some.upper, some.walls, task.truth)
    divisible = np.where(pieces.upper - pieces.lower > 1, pieces.share, -1.0)
    largest = _largest(divisible, pieces.first)
    begin, end = pieces.lower[largest], pieces.upper[largest]
    quarter = (end - begin) >> np.uint64(2)
    lowest, highest = np.maximum(begin + quarter, begin + np.uint64(1)), np.minimum(end - quarter, end - np.uint64(1))
    keep = np.flatnonzero((divisible[largest] >= _LEAST_PIECE) & (lowest <= highest))
    cuts = task.hierarchy.coarsest(lowest[keep], highest[keep])
    group = np.minimum(max(most // 2, 12), some.askable[keep])
    nothing = np.zeros(len(keep))
    return Asking(rows[keep], cuts[:, None], group, group, np.zeros(len(keep), dtype=np.int64), nothing, nothing)


def go_on(task: Task, asking: Asking, answers: Integers, yes: Integers) -> Flags:
    """Whether the rest is asked after the first portion: passing is at least as likely as not (local.md 3, step 4).

    ``answers`` and ``yes``, int64[q]: of the first portion, and those that say "at the cut or above".
    """
    p = task.truth
    q, noise = 1.0 - p, _answer_noise(task)
    left = asking.asked - asking.portion
    count = np.maximum(answers, 1)
    seen, error = (yes / count - q) / (p - q), (noise + 0.2) / count
    middle = (seen * asking.variance + asking.above * error) / (asking.variance + error)
    deviation = np.sqrt(asking.variance * error / (asking.variance + error))
    share = np.clip(middle[:, None] + _NODES * deviation[:, None], 0.0, 1.0)
    t, total, heard, said = (column[:, None] for column in (asking.threshold, answers + left, answers, yes))
    chances = passing(t, total, task.randomizer.epsilon, share, heard=heard, said=said)
    return np.asarray((left > 0) & (chances.mean(axis=1) >= _CHANCE_TO_GO_ON))


def splits(tally: Integers, threshold: Integers) -> Flags:
    """The judgement: whether every part reached the threshold. tally int64[q, parts], threshold int64[q] to bool[q]."""
    return np.asarray((tally >= threshold[:, None]).all(axis=1) & (threshold > 0))


def threshold_holds(task: Task, *, askable: int, asked: int, failed: int, parts: int, threshold: int) -> bool:
    """Whether a published threshold t is large enough: what a device recomputes before it answers or announces.

    ``askable``, ``asked`` and ``failed`` are F, m and w, from the public log.
    """
    if task.rule == "cut":
        honest = max(threshold - task.tolerate_liars, 0)
        own = tail(askable, asked, task.k, task.randomizer.epsilon, honest)
        return parts == 2 and own <= (1.0 + SLACK) * level(task.delta, failed)
    return failed == 0 and asked == askable and threshold >= int(_all_threshold(task, parts, np.array([asked]))[0])


def _all_threshold(task: Task, parts: int, asked: Integers) -> Integers:
    """Rule "all": answers that show k honest people in a part, at least 1. Liars add at most one each: int64[n]."""
    liars = task.tolerate_liars
    honest = randomizer_for(task, parts).threshold(np.maximum(asked - liars, 0), k=task.k, delta=task.delta)
    return np.maximum(honest + liars, 1)


def _answer_noise(task: Task) -> float:
    """Variance that noise gives to the share of one answer: p q / (p - q)^2."""
    p = task.truth
    q = 1.0 - p
    return p * q / ((p - q) * (p - q))


def _thin_wall(some: Census, pieces: Pieces) -> Cells:
    """Of the two walls around each region's middle the one with fewer answers; 0 where there is none: uint64[m]."""
    most = np.iinfo(np.int64).max
    _, row = _before(pieces, np.full(len(some.lower), 0.5))
    answers = np.full(len(pieces.share) + 1, most)  # about the lower end of each piece
    place = np.arange(len(some.walls.cuts)) + np.repeat(np.arange(len(some.lower)), np.diff(some.walls.first))
    answers[place + 1] = some.walls.asked
    below, above = answers[row], np.where(row + 1 < pieces.first[1:], answers[row + 1], most)
    cuts = np.where(below <= above, pieces.lower[row], pieces.upper[row])
    return np.where(np.minimum(below, above) < most, cuts, np.uint64(0))


def _large_enough(task: Task, lower: Cells, upper: Cells) -> Flags:
    if not task.min_side:
        return np.ones(len(lower), dtype=bool)
    return at_least(task.hierarchy.interval_sides(lower, upper), task.min_side)


def _quantile(pieces: Pieces, share: float) -> Cells:
    """The code below which this share of each region's people is: uint64[m]."""
    before, row = _before(pieces, np.full(len(pieces.first) - 1, share))
    inside = np.clip((share - before) / np.maximum(pieces.share[row], 1e-12), 0.0, 1.0)
    length = (pieces.upper[row] - pieces.lower[row]).astype(np.float64)
    return np.minimum(pieces.lower[row] + (length * inside).astype(np.uint64), pieces.upper[row])


def _before(pieces: Pieces, share: Floats) -> tuple[Floats, Integers]:
    """For each region the piece in which its people reach a share, and the share before that piece."""
    counts = np.diff(pieces.first)
    before, row = np.zeros(len(counts)), pieces.first[:-1].copy()
    for place in range(int(counts.max(initial=0)) - 1):  # in order, so that a region's sums do not depend on the others
        go = np.flatnonzero((place + 1 < counts) & (row == pieces.first[:-1] + place))
        go = go[before[go] + pieces.share[row[go]] < share[go]]
        before[go] += pieces.share[row[go]]
        row[go] += 1
    return before, row


def _expected(pieces: Pieces, cuts: Cells) -> tuple[Floats, Floats]:
    """Estimated share of each region at or above its cut, and the variance of that share (a prior of one piece)."""
    region = np.repeat(np.arange(len(cuts)), np.diff(pieces.first))
    length = (pieces.upper - pieces.lower).astype(np.float64)
    cut = np.clip(cuts[region], pieces.lower, pieces.upper)
    part = (pieces.upper - cut).astype(np.float64) / length
    above, variance = np.zeros(len(cuts)), np.zeros(len(cuts))
    np.add.at(above, region, pieces.share * part)
    inner = (part > 0) & (part < 1)
    np.add.at(variance, region[inner], (pieces.share * pieces.share * np.maximum(part * (1 - part), 0.05))[inner])
    return above, variance / 1.6 + 0.002


def _largest(values: Floats, first: Integers) -> Integers:
    """The row of the largest value of each group, the first of equals: int64[m]."""
    counts = np.diff(first)
    most = np.maximum.reduceat(values, first[:-1]) if len(counts) else values[:0]
    at = np.flatnonzero(values == np.repeat(most, counts))
    group = np.repeat(np.arange(len(counts)), counts)[at]
    out = np.empty(len(counts), dtype=np.int64)
    out[group[::-1]] = at[::-1]
    return out
