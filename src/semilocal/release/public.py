"""The tree of a run where nobody is trusted: regions with exact numbers, and pieces between their walls.

The joint estimate (protocol/estimate.py) is made once more, with a prior whose strength is learnt from the answers
(empirical Bayes): how often each strength occurs from those of all regions, and which one a region has from its own.
Its errors are those of the observed information: noise of the answers, sampling of a crowd
without replacement, and the prior. Given its neighbours a wall does not depend on the others (a Markov chain), so a
region divides at one wall after the other, the one with most answers first.

A prior that is spread by length blurs crowds, and regions around a crowd err alike then. So the estimate is made again
with a prior that is spread as neighbouring regions let expect. It is what intervals are about.

How unevenly people lie inside a piece is learnt from the walls in the middle of regions, by the method of moments: how
far the answers put the share above a wall from what the neighbouring regions let expect, without noise and chance.
People are about as uneven at every scale.

Knows a partition. Knows no questions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers, ranges
from ..protocol.estimate import Pieces, estimate, evidence, lengths, parts_of, shares_above
from ..protocol.partition import Partition
from .tree import CountTree, told_together

LEAN = 0.25  # leaves around a crowd lean towards it; chosen with five populations, each left out in turn
_STRENGTHS = tuple(4.0**power for power in range(6))  # people
_STEPS = 100  # of expectation-maximisation for how often each strength occurs
_STIFFEST = 1e9  # curvature: a share that is known to 3e-5
_MIDDLE = 0.2, 0.8  # of a region's length; walls nearer to an end were put there because answers showed a crowd
_BATCH = 1 << 22  # numbers in the matrices of a batch
_CODES = 2.0**40  # that an expected share is rounded to


@lru_cache(maxsize=4)
def public_tree(partition: Partition) -> CountTree:
    """The tree that follows from a partition; the same for everybody who holds the public log."""
    pieces, strength = pieces_of(partition)
    regions, people, error = _regions(partition)
    levels = [
        _Level(np.array([0]), pieces.first[-1:], np.ones(1), np.ones(1), np.zeros(1)),
        _Level(pieces.first[:-1], pieces.first[1:], regions, regions, error),
    ]
    levels += _divisions(partition, pieces, people, strength)
    begin, end, weight, rest, own = (np.concatenate(column) for column in zip(*levels, strict=True))
    starts = np.cumsum([0, *(len(level.begin) for level in levels)])
    children = np.zeros(len(begin), dtype=np.int64)
    for above, below, start in zip(levels[:-1], levels[1:], starts[:-2], strict=True):
        parents = np.searchsorted(above.begin, below.begin, side="right") - 1
        children[start : start + len(above.begin)] = np.bincount(parents, minlength=len(above.begin))
    first = 1 + np.concatenate([[0], np.cumsum(children)])
    held, sloping = np.empty((2, len(begin)))
    for out, share in ((held, pieces.share), (sloping, _sloping(partition, strength))):
        passed = np.concatenate([[0.0], np.cumsum(share * np.repeat(people, np.diff(pieces.first)))])
        out[:] = np.maximum(passed[end] - passed[begin], 0.0)
        out[: len(people) + 1] = people.sum(), *people  # without the rounding of sums
    return CountTree(
        partition.task.hierarchy, pieces.lower[begin], pieces.upper[end - 1], first, held, weight, rest, own,
        parts_of(partition.task.hierarchy, pieces, people), np.full(len(held), clumped(partition)), LEAN,
        sloping=sloping, mark=partition.mark,
    )  # fmt: skip


def pieces_of(partition: Partition) -> tuple[Pieces, Floats]:
    """The pieces of all regions with the learnt prior, and its strength in each region, in people: float64[m]."""
    strength, walls = _strengths(partition), partition.walls
    return estimate(partition.lower, partition.upper, walls, partition.truth, prior=strength), strength


def _strengths(partition: Partition) -> Floats:
    """Strength of the prior of each region: the posterior mean of 1 / (1 + strength), the chance to be together."""
    lower, upper, walls, chance = partition.lower, partition.upper, partition.walls, partition.truth
    asked, together = np.diff(walls.first) > 0, 1.0 / (1.0 + np.array(_STRENGTHS))
    if not asked.any():
        return np.ones(len(partition))
    found = np.stack(
        [evidence(estimate(lower, upper, walls, chance, prior=each), walls, chance, each) for each in _STRENGTHS]
    )
    likelihood, often = np.exp(found - found.max(axis=0)), np.full(len(together), 1.0 / len(together))
    some = np.compress(asked, likelihood, axis=1)
    for _ in range(_STEPS - 1):
        often *= some @ (1.0 / (often @ some)) / some.shape[1]
    posterior = likelihood * often[:, None]
    posterior /= posterior.sum(axis=0)
    return np.asarray(1.0 / (together @ posterior) - 1.0)


def clumped(partition: Partition) -> float:
    """Chance that two people of a piece are in the same place, apart from what its parts show."""
    walls, chance = partition.walls, partition.truth
    region = np.repeat(np.arange(len(partition)), np.diff(walls.first))
    expected = _expected_above(partition)
    lower, upper = (codes.astype(np.float64)[region] for codes in (partition.lower, partition.upper))
    length = (upper - walls.cuts) / (upper - lower)
    some = np.flatnonzero((length > _MIDDLE[0]) & (length < _MIDDLE[1]))
    length, expected, asked = length[some], expected[some], walls.asked[some]
    crowd = partition.crowds[region[some]]
    share = (walls.yes[some] / asked - (1.0 - chance)) / (2.0 * chance - 1.0)
    sampled = np.maximum(1.0 - asked / crowd, 0.0) / 4.0
    error = (chance * (1.0 - chance) / (2.0 * chance - 1.0) ** 2 + sampled) / asked
    even = length * (1.0 - length)
    found = ((share - expected) ** 2 - error - expected * (1.0 - expected) / crowd) / even
    return min(told_together(found, error / (4.0 * even)), 1.0)


def _expected_above(partition: Partition) -> Floats:
    """Share of its region that is above each wall, as if nobody had answered: float64[w].

    Each region is one piece then, and its neighbours say where its people are.
    """
    walls, regions = partition.walls, np.arange(len(partition))
    whole = Pieces(np.append(regions, len(regions)), partition.lower, partition.upper, np.ones(len(regions)))
    parts = parts_of(partition.task.hierarchy, whole, partition.crowds.astype(np.float64))
    begin, end = (ends.astype(np.float64) for ends in partition.task.hierarchy.span(parts.cells))
    at = np.searchsorted(begin, walls.cuts.astype(np.float64), side="right") - 1
    passed = np.cumsum(parts.share) - parts.share
    below = (walls.cuts - begin[at]) / (end[at] - begin[at] + 1.0)
    return np.asarray(1.0 + np.repeat(regions, np.diff(walls.first)) - passed[at] - below * parts.share[at])


def _sloping(partition: Partition, strength: Floats) -> Floats:
    """Shares of pieces whose prior is spread as the neighbours let expect, not by length: float64[p].

    Cuts are moved to where as many codes are below them as people are expected.
    """
    below = np.clip(1.0 - _expected_above(partition), 0.0, 1.0)
    cuts = np.maximum(np.rint(below * _CODES), 1.0).astype(np.uint64)
    lower, upper = np.zeros(len(partition), np.uint64), np.full(len(partition), int(_CODES) + 1, np.uint64)
    moved = partition.walls._replace(cuts=cuts)
    return estimate(lower, upper, moved, partition.truth, prior=strength).share


class _Level(NamedTuple):
    """Rows of one depth of a tree, along the order; pieces begin to before end."""

    begin: Integers
    end: Integers
    weight: Floats
    rest: Floats
    error: Floats

    def take(self, rows: Integers) -> _Level:
        return _Level(self.begin[rows], self.end[rows], self.weight[rows], self.rest[rows], self.error[rows])


def _divisions(partition: Partition, pieces: Pieces, people: Floats, strength: Floats) -> list[_Level]:
    """How regions divide at their walls, level by level below the regions."""
    counts = np.diff(partition.walls.first)
    order = np.argsort(counts, kind="stable")
    order = order[int(np.searchsorted(counts[order], 1)) :]
    found: list[list[_Level]] = []
    begin = 0
    while begin < len(order):
        widest = int(counts[order[min(begin + 255, len(order) - 1)]])
        rows = order[begin : begin + max(256, _BATCH // widest**2)]
        begin += len(rows)
        matrices = _covariances(partition, pieces, np.sort(rows), strength)
        for depth, level in enumerate(_divide(partition, pieces, np.sort(rows), matrices, people)):
            if depth == len(found):
                found.append([])
            found[depth].append(level)
    joined = [_Level(*(np.concatenate(column) for column in zip(*parts, strict=True))) for parts in found]
    return [level.take(np.argsort(level.begin)) for level in joined]


def _divide(partition: Partition, pieces: Pieces, rows: Integers, matrices: Floats, people: Floats) -> list[_Level]:
    """The levels below some regions; their walls' covariances float64[r, w + 2, w + 2] have an edge of zeros."""
    walls = partition.walls
    region, begin, end = np.arange(len(rows)), pieces.first[rows], pieces.first[rows + 1]
    levels: list[_Level] = []
    while True:
        several = end - begin > 1
        region, begin, end = region[several], begin[several], end[several]
        if not len(region):
            return levels
        # Wall j of a region is between its pieces j and j + 1, which is row begin - region's number of pieces before.
        wide = end - begin - 1
        passed = np.cumsum(wide) - wide
        inside = np.repeat(begin - rows[region] - passed, wide) + np.arange(int(wide.sum()))
        most = np.maximum.reduceat(walls.asked[inside], passed)
        hits = np.flatnonzero(walls.asked[inside] == np.repeat(most, wide))
        cut = inside[hits[np.searchsorted(hits, passed)]] + rows[region] + 1  # the first piece above the wall
        low, middle, high = (place - pieces.first[rows[region]] for place in (begin, cut, end))
        last = pieces.first[rows[region] + 1] - pieces.first[rows[region]]
        high = np.where(high == last, 0, high)  # the share above a region's end is known, as that above its begin is
        at = matrices[region]
        each = np.arange(len(region))

        def cov(a: Integers, b: Integers, at: Floats = at, each: Integers = each) -> Floats:
            return np.asarray(at[each, a, b])

        whole = cov(low, low) + cov(high, high) - 2.0 * cov(low, high)
        part = cov(low, low) + cov(middle, middle) - 2.0 * cov(low, middle)
        both = cov(low, low) - cov(low, high) - cov(middle, low) + cov(middle, high)
        passes = np.divide(both, whole, out=np.full(len(region), 0.5), where=whole > 0)
        own = np.maximum(part - passes * both, 0.0) * people[rows[region]] ** 2
        zeros = np.zeros(len(region))
        levels.append(
            _Level(
                np.stack([begin, cut], axis=1).ravel(),
                np.stack([cut, end], axis=1).ravel(),
                np.stack([passes, 1.0 - passes], axis=1).ravel(),
                np.stack([zeros, zeros + 1.0], axis=1).ravel(),
                np.stack([own, zeros], axis=1).ravel(),
            )
        )
        region, begin, end = np.repeat(region, 2), levels[-1].begin, levels[-1].end


def _covariances(partition: Partition, pieces: Pieces, rows: Integers, strength: Floats) -> Floats:
    """Covariances of the shares above the walls of some regions: float64[r, w + 1, w + 1].

    Row and column 0 are zeros, for what is known exactly: the share above a region's begin and above its end.
    """
    walls, chance = partition.walls.rows(rows), partition.truth
    some = _some(pieces, rows)
    counts, crowd = np.diff(walls.first), np.maximum(partition.crowds[rows], 1).astype(np.float64)
    above, asked = shares_above(some, counts), walls.asked
    noise = chance * (1.0 - chance) / (2.0 * chance - 1.0) ** 2
    sampled = np.maximum(1.0 - asked / np.repeat(crowd, counts), 0.0)
    known = asked / (noise + above * (1.0 - above) * sampled)
    # A finite crowd is as uneven as the prior says, and by chance.
    finite = strength[rows] * crowd / (strength[rows] + crowd)
    strengths = np.repeat(finite, np.diff(some.first)) * lengths(some)
    stiff = np.minimum(strengths / np.maximum(some.share, 1e-150) ** 2, _STIFFEST)
    width = int(counts.max())
    row = np.repeat(np.arange(len(rows)), counts)
    column = np.arange(len(asked)) - np.repeat(walls.first[:-1], counts)
    piece = np.arange(len(asked)) + row
    matrix = np.zeros((len(rows), width, width))
    diagonal = np.arange(width)
    matrix[:, diagonal, diagonal] = 1.0
    matrix[row, column, column] = known + stiff[piece] + stiff[piece + 1]
    inner = column > 0
    for one, two in ((0, 1), (1, 0)):
        matrix[row[inner], column[inner] - one, column[inner] - two] = -stiff[piece[inner]]
    out = np.zeros((len(rows), width + 1, width + 1))
    out[:, 1:, 1:] = np.linalg.inv(matrix)
    return out


def _regions(partition: Partition) -> tuple[Floats, Floats, Floats]:
    """Shares of regions, their people and the variance of these, with those who announced no region of their own."""
    people, error = partition.crowds.astype(np.float64), np.zeros(len(partition))
    away = partition.away
    for low, high, number in zip(away.lower.tolist(), away.upper.tolist(), away.people.tolist(), strict=True):
        inside = (partition.lower >= low) & (partition.upper <= high)
        share = np.where(inside, partition.crowds + 1.0 / len(partition), 0.0)
        share /= share.sum()
        people += number * share
        error += number * (1.0 + (number - 1.0) / 3.0) * share * (1.0 - share)  # as clumped as any division
    total = people.sum()
    return people / total if total else np.full(len(people), 1.0 / len(people)), people, error


def _some(pieces: Pieces, rows: Integers) -> Pieces:
    counts = np.diff(pieces.first)[rows]
    first = np.concatenate([[0], np.cumsum(counts)])
    at = ranges(pieces.first[rows], counts)
    return Pieces(first, pieces.lower[at], pieces.upper[at], pieces.share[at])
