"""Who lives in which cell of a run's tree, and who only acts from there.

A TRIM moves the people of a trimmed part to places drawn evenly from the part that is kept. From then on they are
*visitors* there: they act from cells where they do not live. How many people a trimmed part has follows from that
round's estimate and from how cells of this run divide (``_law``). Visitors divide evenly at every later division, so
the visitors of a region are known as well as those numbers are. Everybody else in a region's exact crowd lives there.

Knows a tree. Knows no queries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers
from ..randomizer.widths import with_fanout
from ._law import UNKNOWN, WHOLE, Law, learn
from ._tree import NONE, Tree

__all__ = ["Divided", "Population", "divided", "population"]

_PASSES = 2  # the law needs numbers of visitors, which need the law; a third pass changes nothing


class Population(NamedTuple):
    """Expected numbers per cell: float64[n] each.

    ``people`` live in the cell; those of the root are all participants. ``noise`` is their variance in trimmed parts
    and 0 elsewhere, ``common`` their standard deviation by the doubt about the law, and ``unsure`` by how much they
    exceed those who are surely there (see :class:`semilocal.release._law.Expected`). ``visitors`` act from the cell and
    live elsewhere; ``doubt`` is the variance of their number. ``mistaken`` is for how many more people the estimate of
    a trimmed part is taken if its cell has one visitor more than expected; for one at most in all parts of a cell.
    ``law`` is how cells divide.
    """

    people: Floats
    noise: Floats
    visitors: Floats
    doubt: Floats
    common: Floats
    unsure: Floats
    mistaken: Floats
    law: Law


class Divided(NamedTuple):
    """How the people of cells divide that were asked about, by all that is public.

    Attributes
    ----------
    cells : int64[m]
        Rows of the tree.
    people : float64[m]
        Who live there, or act from there and live in a trimmed part of it.
    estimates : float64[m, fanout]
        How many of them live in each child; NaN for no such child.
    noise : float64[m]
        Variance of each estimate. Those of cells that were split are exact, but for the visitors.
    """

    cells: Integers
    people: Floats
    estimates: Floats
    noise: Floats


def population(tree: Tree) -> Population:
    """Learn the law, and follow the visitors from the root down; then nobody is counted twice."""
    found = _follow(tree, UNKNOWN)
    for _ in range(_PASSES):
        some = divided(tree, found)
        found = _follow(tree, learn(tree.depths[some.cells], some.people, some.estimates, some.noise))
    return found


def divided(tree: Tree, found: Population) -> Divided:
    """What splits, TRIMs and last rounds say about the children of cells, visitors taken out."""
    task, trims = tree.partition.task, tree.partition.trims
    estimates, noise = np.full(tree.children.shape, np.nan), np.zeros(len(tree.cells))
    inner = tree.children[:, 0] != NONE
    estimates[inner] = np.where(tree.exists[inner], tree.acting[tree.children[inner]], np.nan)
    cut = np.flatnonzero(tree.trims != NONE)
    row = tree.trims[cut]
    scale = tree.acting[cut] / np.maximum(trims.responders[row], 1)  # who dropped out later counts no more
    estimates[cut] = scale[:, None] * trims.estimates[row]
    noise[cut] = scale**2 * trims.responders[row] * _per_responder(tree, cut, task.tau)
    regions = np.flatnonzero(tree.is_region)
    estimates[regions] = tree.partition.estimates[tree.regions[regions]]
    noise[regions] = tree.acting[regions] * _per_responder(tree, regions)
    cells = np.flatnonzero((tree.exists & ~np.isnan(estimates)).any(axis=1) & (tree.acting > 0))
    weights = task.hierarchy.child_weights(tree.cells[cells])
    portions = weights / weights.sum(axis=1, keepdims=True)
    visitors, even = np.minimum(found.visitors[cells], tree.acting[cells]), 1.0 / tree.exists[cells].sum(axis=1)
    return Divided(
        cells, tree.acting[cells] - visitors, estimates[cells] - visitors[:, None] * portions,
        noise[cells] + visitors * even * (1.0 - even) + found.doubt[cells] * even**2,
    )  # fmt: skip


def _per_responder(tree: Tree, cells: Integers, share: float | None = None) -> Floats:
    """What each report adds to the variance of a child's estimate; with an even share if none is given: float64[m]."""
    widths, out = np.maximum(tree.exists[cells].sum(axis=1), 2), np.zeros(len(cells))
    for width in np.unique(widths).tolist():
        randomizer = with_fanout(tree.partition.task.randomizer, width)
        out[widths == width] = randomizer.variance(1.0 / width if share is None else share)
    return out


def _follow(tree: Tree, law: Law) -> Population:
    """Follow the visitors under a law that is given."""
    task, trims = tree.partition.task, tree.partition.trims
    people, noise, visitors, doubt, common, unsure, mistaken = np.zeros((7, len(tree.cells)))
    for depth, level in enumerate(tree.levels):
        at, child = np.nonzero(tree.exists[level] & ~tree.kept[level])
        cell, part = level[at], tree.children[level[at], child]
        row, portion, widths = tree.trims[cell], tree.portions[cell, child], tree.exists[cell].sum(axis=1)
        scale, even = tree.acting[cell] / np.maximum(trims.responders[row], 1), visitors[cell] * portion
        error = scale**2 * trims.responders[row] * _per_responder(tree, cell, task.tau)
        error += even * (1.0 - portion) + doubt[cell] * portion**2
        estimate, residents = scale * trims.estimates[row, child] - even, tree.acting[cell] - visitors[cell]
        for width in np.unique(widths).tolist():
            same = np.flatnonzero(widths == width)
            expected = law.few_people(estimate[same], error[same], residents[same], depth=depth, fanout=width)
            people[part[same]], noise[part[same]], common[part[same]] = expected[:3]
            unsure[part[same]] = expected.mean - expected.surely
            # By how much a mean grows with a normal estimate: by the ratio of their variances, under any law.
            mistaken[part[same]] = portion[same] * expected.variance / (error[same] + WHOLE)
        mistaken[part] /= np.maximum(np.bincount(at, mistaken[part], minlength=len(level)), 1.0)[at]
        leaving = np.bincount(at, people[part], minlength=len(level))
        spread = np.bincount(at, noise[part], minlength=len(level))
        ways = np.where(tree.kept[level], tree.portions[level], 0.0)
        ways /= ways.sum(axis=1, keepdims=True)
        stays, way = np.nonzero(tree.kept[level])
        below, portion = tree.children[level[stays], way], ways[stays, way]
        visitors[below] = (visitors[level] + leaving)[stays] * portion
        doubt[below] = (doubt[level] + spread)[stays] * portion**2
    rate = _settle(tree, visitors)
    people *= rate
    regions = tree.is_region
    people[regions] = tree.acting[regions] - rate[regions] * visitors[regions]
    tree.add_up(people)
    return Population(people, noise, visitors, doubt, common * rate, unsure * rate, mistaken, law)


def _settle(tree: Tree, visitors: Floats) -> Floats:
    """Part of the visitors that regions can give back to trimmed parts, since they cannot exceed a crowd: float64[n].

    That of a trimmed part is the mean over the places its people were sent to.
    """
    regions = np.flatnonzero(tree.is_region)
    given = np.minimum(visitors[regions], tree.acting[regions])
    rate = np.zeros(len(visitors))
    rate[regions] = np.divide(given, visitors[regions], out=np.zeros(len(given)), where=visitors[regions] > 0)
    for level in reversed(tree.levels):
        children, kept = tree.children[level], tree.kept[level]
        ways = np.where(kept, tree.portions[level], 0.0)
        rate[level] = (ways * rate[children]).sum(axis=1) / ways.sum(axis=1)
        parents, which = np.nonzero(tree.exists[level] & ~kept)
        rate[children[parents, which]] = rate[level[parents]]
    return rate
