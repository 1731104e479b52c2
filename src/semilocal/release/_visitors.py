"""Who lives in which cell of a run's tree, and who only acts from there.

A TRIM moves the people of a trimmed part to places drawn evenly from the part that is kept. From then on they are
*visitors* there: they act from cells where they do not live. How many people a trimmed part has is known from that
round's estimate. Visitors divide evenly at every later division, so the visitors of a region are known as well as
those estimates are. Everybody else in a region's exact crowd lives there.

Knows a tree. Knows no queries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers
from ._law import UNKNOWN, Law, learn
from ._tree import NONE, Tree

__all__ = ["Population", "divided", "population"]

_PASSES = 2


class Population(NamedTuple):
    """Expected numbers per cell: float64[n] each.

    ``people`` live in the cell; those of the root are all participants. ``noise`` is their variance in trimmed parts
    and 0 elsewhere. ``visitors`` act from the cell and live elsewhere; ``doubt`` is the variance of their number.
    ``common`` is by how much all parts together may hold more or fewer people, see :func:`few_people`.
    """

    people: Floats
    noise: Floats
    visitors: Floats
    doubt: Floats
    common: Floats
    lower: Floats
    law: Law


def population(tree: Tree) -> Population:
    """Follow the visitors from the root down; then nobody is counted twice."""
    found = _follow(tree, UNKNOWN)
    for _ in range(_PASSES):
        found = _follow(tree, _learn(tree, found))
    return found


def _learn(tree: Tree, found: Population) -> Law:
    some = divided(tree, found)
    return learn(tree.depths[some.cells], some.people, some.estimates, some.noise)


class Divided(NamedTuple):
    """Cells that were asked about, int64[m], and how their people divide."""

    cells: Integers
    people: Floats
    estimates: Floats
    noise: Floats


def divided(tree: Tree, found: Population) -> Divided:
    """..."""
    partition, task = tree.partition, tree.partition.task
    fanout = tree.children.shape[1]
    asked = np.full((len(tree.cells), fanout), np.nan)
    extra = np.zeros(len(tree.cells))
    inner = np.flatnonzero(tree.children[:, 0] != NONE)
    asked[inner] = np.where(tree.exists[inner], tree.acting[tree.children[inner]], np.nan)
    trimmed = inner[tree.trims[inner] != NONE]
    row = tree.trims[trimmed]
    scale = tree.acting[trimmed] / np.maximum(partition.trims.responders[row], 1)
    asked[trimmed] = scale[:, None] * partition.trims.estimates[row]
    extra[trimmed] = scale**2 * partition.trims.responders[row] * task.randomizer.variance(task.tau)
    regions = np.flatnonzero(tree.is_region)
    asked[regions] = partition.estimates[tree.regions[regions]]
    extra[regions] = tree.acting[regions] * task.randomizer.variance(1.0 / fanout)
    cells = np.flatnonzero(~np.isnan(asked).all(axis=1) & (tree.acting > 0))
    weights = task.hierarchy.child_weights(tree.cells[cells])
    portion = weights / weights.sum(axis=1, keepdims=True)
    visitors = np.minimum(found.visitors[cells], tree.acting[cells])
    even = 1.0 / fanout
    noise = extra[cells] + visitors * even * (1.0 - even) + found.doubt[cells] * even**2
    return Divided(cells, tree.acting[cells] - visitors, asked[cells] - visitors[:, None] * portion, noise)


def _follow(tree: Tree, law: Law) -> Population:
    task, trims = tree.partition.task, tree.partition.trims
    fanout = tree.children.shape[1]
    people, noise, visitors, doubt, common, lower = np.zeros((6, len(tree.cells)))
    per_responder = task.randomizer.variance(task.tau)
    for level in tree.levels:
        leaving, unsure = np.zeros((2, len(level)))
        for child in range(fanout):
            at = np.flatnonzero(tree.exists[level, child] & ~tree.kept[level, child])
            if not len(at):
                continue
            cell, row = level[at], tree.trims[level[at]]
            scale = tree.acting[cell] / np.maximum(trims.responders[row], 1)  # who dropped out later counts no more
            portion = tree.portions[cell, child]
            even = visitors[cell] * portion
            part = tree.children[cell, child]
            error = scale**2 * trims.responders[row] * per_responder
            error += even * (1.0 - portion) + doubt[cell] * portion**2
            estimate, residents = scale * trims.estimates[row, child] - even, tree.acting[cell] - visitors[cell]
            people[part], noise[part], common[part], lower[part] = law.few_people(estimate, error, residents, tree.depths[cell])
            leaving[at] += people[part]
            unsure[at] += noise[part]
        ways = np.where(tree.kept[level], tree.portions[level], 0.0)
        ways /= ways.sum(axis=1, keepdims=True)
        for child in range(fanout):
            stay = tree.kept[level, child]
            below = tree.children[level[stay], child]
            visitors[below] = ((visitors[level] + leaving) * ways[:, child])[stay]
            doubt[below] = ((doubt[level] + unsure) * ways[:, child] ** 2)[stay]
    rate = _settle(tree, visitors)
    people *= rate
    regions = tree.is_region
    people[regions] = tree.acting[regions] - rate[regions] * visitors[regions]
    tree.add_up(people)
    return Population(people, noise, visitors, doubt, common * rate, lower * rate, law)


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
