"""Where the people of a region are: the joint estimate from all noisy answers about the walls inside it.

The pieces between a region's walls have unknown shares. An answer about a wall says "at it or above" with probability p
if its sender is there, else q. All answers of present members speak together: expectation-maximisation for the shares
with a Dirichlet prior that is spread by length (local.md 3, step 8).

A wall splits the pieces into those below and those above, so every sum over pieces is a cumulative sum: a step costs as
much as there are walls. Many regions are estimated side by side, padded to the longest of a batch. Sums are taken in
order, never pairwise, so that padding changes no bit of the result.

Two things follow. :func:`learn_strength` finds how smooth people lie: the strength of the prior, learnt from all
answers of a run (empirical Bayes). :func:`parts_of` smooths inside pieces: answers do not tell where in a piece people
are, but beside a crowd most of them are near it. Cells of pieces are divided further, and people shared out by the mean
density around each: the piecewise constant density, smoothed by a kernel as wide as the cell and scaled so that pieces
keep their people (pycnophylactic smoothing). Where cells are no boxes people lie evenly over codes.

Knows cuts, counts of answers and a hierarchy. Knows no participants or rule.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers, ranges
from ..hierarchy.base import Cells, Hierarchy

PRIOR = 0.5  # people: the strength of the prior by which cuts are chosen
STEPS = 60
_BATCH = 1 << 13  # numbers in a padded array: all of them stay in the processor's cache
_LONG = 64  # regions side by side: from then on sums are made row by row


class Walls(NamedTuple):
    """What the members of m regions answered about cuts strictly inside them."""

    first: Integers  # int64[m + 1]: the walls of region i are rows ``first[i]`` to before ``first[i + 1]``
    cuts: Cells  # uint64[w]: ascending within a region
    asked: Integers  # int64[w]: answers of present members about the cut
    yes: Integers  # int64[w]: those of them that say "at the cut or above"

    @staticmethod
    def none(regions: int) -> Walls:
        """No walls in any region."""
        empty = np.empty(0, dtype=np.int64)
        return Walls(np.zeros(regions + 1, dtype=np.int64), np.empty(0, dtype=np.uint64), empty, empty)

    def rows(self, chosen: Integers) -> Walls:
        """Those of some regions: int64[c]."""
        counts = np.diff(self.first)[chosen]
        first = np.concatenate([[0], np.cumsum(counts)])
        at = ranges(self.first[chosen], counts)
        return Walls(first, self.cuts[at], self.asked[at], self.yes[at])


class Pieces(NamedTuple):
    """The pieces between the walls of m regions, along the order."""

    first: Integers  # int64[m + 1]: the pieces of region i are rows ``first[i]`` to before ``first[i + 1]``
    lower: Cells  # uint64[p]: their codes, lower to before upper
    upper: Cells  # uint64[p]
    share: Floats  # float64[p]: estimated share of the region's people; those of a region add up to 1


def estimate(
    lower: Cells, upper: Cells, walls: Walls, p: float, *, prior: float | Floats = PRIOR, steps: int = STEPS
) -> Pieces:
    """Shares of the pieces of m regions.

    Parameters
    ----------
    lower, upper : uint64[m]
        The regions' codes.
    walls : Walls
    p : float
        Chance that an answer tells the true side; q = 1 - p.
    prior : float or float64[m]
        Strength of the prior, in people.

    Examples
    --------
    >>> one = np.array([0], dtype=np.uint64), np.array([8], dtype=np.uint64)
    >>> walls = Walls(np.array([0, 1]), np.array([2], dtype=np.uint64), np.array([100]), np.array([50]))
    >>> estimate(*one, walls, 0.75).share.round(2).tolist()
    [0.5, 0.5]
    """
    counts = np.diff(walls.first)
    first = walls.first + np.arange(len(counts) + 1)
    starts, ends = np.empty(first[-1], dtype=np.uint64), np.empty(first[-1], dtype=np.uint64)
    starts[first[:-1]], ends[first[1:] - 1] = lower, upper
    place = np.arange(len(walls.cuts)) + np.repeat(np.arange(len(counts)), counts)
    starts[place + 1], ends[place] = walls.cuts, walls.cuts
    share, prior = np.ones(first[-1]), np.broadcast_to(prior, len(counts))
    order = np.argsort(counts, kind="stable")
    begin = int(np.searchsorted(counts[order], 1))
    while begin < len(order):
        widest = int(counts[order[min(begin + 255, len(order) - 1)]])
        rows = order[begin : begin + max(256, _BATCH // (widest + 1))]
        begin += len(rows)
        width = int(counts[rows[-1]])
        place = np.arange(width + 1)[:, None]
        exists, piece = place[:-1] < counts[rows], place <= counts[rows]
        at = np.minimum(walls.first[rows] + place[:-1], len(walls.cuts) - 1)
        yes, asked = (np.where(exists, column[at], 0).astype(np.float64) for column in (walls.yes, walls.asked))
        where = np.minimum(first[rows] + place, first[-1] - 1)
        length = np.where(piece, (ends[where] - starts[where]).astype(np.float64), 0.0)
        length /= _running(length)[-1]
        share[where[piece]] = _shares(yes, asked, length, counts[rows], p, prior[rows], steps)[piece]
    return Pieces(first, starts, ends, share)


def _shares(
    yes: Floats, asked: Floats, length: Floats, counts: Integers, p: float, prior: Floats, steps: int
) -> Floats:
    """Shares of padded columns: yes, asked float64[w, r], length float64[w + 1, r] to float64[w + 1, r]."""
    q = 1.0 - p
    share = np.where(length > 0, 0.5 / (counts + 1) + 0.5 * length, 0.0)
    total = _running(asked)[-1] + prior
    added, answers = prior * length / total, 1.0 - prior / total
    yes, asked = yes * ((p - q) / total), asked * ((p - q) / total)
    above, chance, spread, factor = np.empty_like(yes), np.empty_like(yes), np.empty_like(yes), np.empty_like(share)
    step = factor[1:]
    for _ in range(steps):
        _running(share[:0:-1], above[::-1])
        # Chance of "yes" at each wall: q, and p - q more for the people above it.
        np.multiply(above, p - q, out=chance)
        chance += q
        # A piece above a wall explains its yes with p and its no with q, one below the other way round: the difference.
        np.multiply(asked, chance, out=step)
        np.subtract(yes, step, out=step)
        np.subtract(1.0, chance, out=spread)
        spread *= chance
        step /= spread
        # All pieces together explain all answers: so much does the first.
        above *= step
        np.subtract(answers, _running(above, spread)[-1], out=factor[0])
        _running(factor, factor)
        share *= factor
        share += added
    share /= _running(share)[-1]
    return share


def _running(values: Floats, out: Floats | None = None) -> Floats:
    """Sums of the first rows, in order: numpy's are slow across long rows, and calls are slow for short ones."""
    if out is None:
        out = np.empty_like(values)
    if values.shape[1] < _LONG:
        return np.cumsum(values, axis=0, out=out)
    out[:1] = values[:1]
    for row in range(1, len(values)):
        np.add(out[row - 1], values[row], out=out[row])
    return out


# -- how smooth people lie --------------------------------------------------------------------------------------------


STRENGTHS = tuple(2.0**power for power in range(-2, 9))  # people
_MOST_REGIONS = 1 << 11  # evenly taken: they teach the strength as well as all do


def learn_strength(lower: Cells, upper: Cells, walls: Walls, chance: float) -> float:
    """The strength of the prior that makes all answers most likely, of :data:`STRENGTHS`.

    The marginal likelihood of a region by Laplace's approximation, in the logarithms of the shares, over the same
    approximation of the prior's own integral. Without walls it is 1. ``chance`` is that an answer tells the true side.
    """
    asked = np.flatnonzero(np.diff(walls.first))
    if not len(asked):
        return 1.0
    asked = asked[:: -(-len(asked) // _MOST_REGIONS)]
    lower, upper, walls = lower[asked], upper[asked], walls.rows(asked)
    found = [
        evidence(estimate(lower, upper, walls, chance, prior=strength), walls, chance, strength).sum()
        for strength in STRENGTHS
    ]
    return STRENGTHS[int(np.argmax(found))]


def evidence(pieces: Pieces, walls: Walls, chance: float, strength: float) -> Floats:
    """Log marginal likelihood of the answers in each region, up to what does not depend on the strength: float64[m]."""
    counts, first = np.diff(walls.first), pieces.first[:-1]
    share, length = np.maximum(pieces.share, 1e-300), lengths(pieces)
    says_yes = 1.0 - chance + (2.0 * chance - 1.0) * shares_above(pieces, counts)
    no = walls.asked - walls.yes
    likelihood = np.concatenate([[0.0], np.cumsum(walls.yes * np.log(says_yes) + no * np.log(1.0 - says_yes))])
    known = (2.0 * chance - 1.0) ** 2 * (walls.yes / says_yes**2 + no / (1.0 - says_yes) ** 2)
    stiff = strength * length / share**2
    # The determinant of a tridiagonal matrix, wall after wall, all regions side by side.
    determinant, alone = np.zeros((2, len(counts)))
    for wall in range(int(counts.max(initial=0))):
        rows = np.flatnonzero(counts > wall)
        at, piece = walls.first[rows] + wall, first[rows] + wall
        # stiff - stiff^2 / (alone + stiff), written without a difference.
        kept = stiff[piece] * alone[rows] / (alone[rows] + stiff[piece]) if wall else stiff[piece]
        alone[rows] = known[at] + kept
        determinant[rows] += np.log(alone[rows] + stiff[piece + 1])
    posterior = np.add.reduceat((strength * length - 1.0) * np.log(share), first) - determinant / 2
    prior = np.add.reduceat((strength * length - 0.5) * np.log(length), first) - counts * np.log(strength) / 2
    return np.asarray(np.diff(likelihood[walls.first]) + posterior - prior)


def lengths(pieces: Pieces) -> Floats:
    """Lengths of pieces as shares of their regions."""
    length = (pieces.upper - pieces.lower).astype(np.float64)
    whole = np.add.reduceat(length, pieces.first[:-1])
    return np.asarray(length / np.repeat(whole, np.diff(pieces.first)))


def shares_above(pieces: Pieces, counts: Integers) -> Floats:
    """Share of the region above each wall: float64[w]."""
    passed = np.cumsum(pieces.share)
    ends = np.repeat(passed[pieces.first[1:] - 1], counts)
    piece = np.arange(len(ends)) + np.repeat(np.arange(len(counts)), counts)
    return np.clip(ends - passed[piece], 0.0, 1.0)


# -- where they are inside a piece ------------------------------------------------------------------------------------


_HALVINGS = 2  # of each axis, in the cells of a piece
_MOST_CELLS = 1 << 18  # beyond that, fewer halvings
_PASSES = 3  # of the kernel; later ones change nothing that matters
_NOBODY = 1e-100


class Parts(NamedTuple):
    """Cells of all pieces, along the order."""

    cells: Cells  # uint64[c]
    piece: Integers  # int64[c]: ascending
    share: Floats  # float64[c]: expected share of the piece's people; those of a piece add up to 1


def parts_of(hierarchy: Hierarchy, pieces: Pieces, people: Floats) -> Parts:
    """Divide the people of pieces, float64[m] of each region, among their cells."""
    first, cells = hierarchy.interval_cells(pieces.lower, pieces.upper)
    piece = np.repeat(np.arange(len(first) - 1), np.diff(first))
    codes = (pieces.upper - pieces.lower).astype(np.float64)
    if not hierarchy.cells_are_boxes:
        begin, end = hierarchy.span(cells)
        return Parts(cells, piece, ((end - begin).astype(np.float64) + 1.0) / codes[piece])
    lower, upper = hierarchy.boxes(cells).transpose(1, 0, 2)
    reach = (upper - lower) / 2.0
    dimensions, levels = hierarchy.box.dimensions, _HALVINGS
    while levels and len(cells) * 2 ** (levels * dimensions) > _MOST_CELLS:
        levels -= 1
    for _ in range(levels * (dimensions if hierarchy.fanout == 2 else 1)):
        opened = hierarchy.depth(cells) < hierarchy.max_depth
        row = np.repeat(np.arange(len(cells)), np.where(opened, hierarchy.fanout, 1))
        below = cells[row]
        below[opened[row]] = hierarchy.children(cells[opened])
        cells, piece, reach = below, piece[row], reach[row]
    begin, end = hierarchy.span(cells)
    size = (end - begin).astype(np.float64) + 1.0
    total = (pieces.share * np.repeat(people, np.diff(pieces.first)))[piece]
    starts, share = np.searchsorted(piece, np.arange(len(codes))), size / codes[piece]
    middle, box = hierarchy.boxes(cells).mean(axis=1), hierarchy.box
    beside = [np.arange(len(cells))]
    for axis in range(box.dimensions):
        for sign in (-1.0, 1.0):
            place = middle.copy()
            place[:, axis] = np.clip(middle[:, axis] + sign * reach[:, axis], box.lower[axis], box.upper[axis])
            beside.append(np.searchsorted(begin, hierarchy.codes(place), side="right") - 1)
    for _ in range(_PASSES):
        density = total * share / size
        weight = size * (sum(density[at] for at in beside) + _NOBODY)
        share = weight / np.add.reduceat(weight, starts)[piece]
    return Parts(cells, piece, share)
