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

from ..arrays import Floats
from ._tree import Tree

__all__ = ["Population", "few_people", "population"]

_ODDS_EMPTY = 9.0  # an estimate must be this much likelier with people than without to speak for people
_FAR = 8.0  # an estimate so many standard errors below zero says no more than a nearer one
_LOG_ROOT = 0.5 * float(np.log(2.0 * np.pi))
_MOST_LOG = 700.0  # exp stays finite


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


def population(tree: Tree) -> Population:
    """Follow the visitors from the root down; then nobody is counted twice."""
    task, trims = tree.partition.task, tree.partition.trims
    fanout = tree.children.shape[1]
    people, noise, visitors, doubt, common = np.zeros((5, len(tree.cells)))
    per_responder = task.randomizer.variance(task.tau)
    for level in tree.levels:
        leaving, unsure = np.zeros((2, len(level)))
        for child in range(fanout):
            at = np.flatnonzero(tree.exists[level, child] & ~tree.kept[level, child])
            cell, row = level[at], tree.trims[level[at]]
            scale = tree.acting[cell] / np.maximum(trims.responders[row], 1)  # who dropped out later counts no more
            portion = tree.portions[cell, child]
            even = visitors[cell] * portion
            part = tree.children[cell, child]
            error = scale**2 * trims.responders[row] * per_responder
            error += even * (1.0 - portion) + doubt[cell] * portion**2
            estimate, residents = scale * trims.estimates[row, child] - even, tree.acting[cell] - visitors[cell]
            people[part], noise[part], common[part] = few_people(estimate, error, residents)
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
    return Population(people, noise, visitors, doubt, common * rate)


def few_people(estimate: Floats, noise: Floats, most: Floats) -> tuple[Floats, Floats, Floats]:
    """How many people a trimmed part has, given a noisy estimate.

    How many of the trimmed parts are empty nobody knows: none, as in a plain, or all but those whose estimate says
    otherwise, as in a country of deserts and seas. In a part that is not empty, all numbers up to half the cell are
    equally likely. The answer lies in the middle of the two views. The doubt between them is common to all parts, so
    it adds up where chance would average out.

    Parameters
    ----------
    estimate, noise : float64[m]
        A normal estimate and its variance.
    most : float64[m]
        People in the cell.

    Returns
    -------
    mean, variance, common : float64[m]
        ``variance`` is the mean of those that the two views have; ``common`` is half the difference between them, which
        ``variance`` must not count again.
    """
    from scipy.special import log_ndtr  # loaded at first use: it takes a while

    error = np.sqrt(noise)
    away = np.maximum(estimate / error, -_FAR)
    below = log_ndtr(away)
    full = error * (away + np.exp(-0.5 * away**2 - _LOG_ROOT - below))  # a normal law cut off at zero
    squares = noise + error * away * full
    # How likely the estimate is in a part that is not empty, against one that is.
    against = np.exp(np.minimum(below + _LOG_ROOT + 0.5 * away**2, _MOST_LOG)) * error / np.maximum(0.5 * most, 1.0)
    view = against / (against + _ODDS_EMPTY)
    middle = 0.5 * (1.0 + view)
    variance = squares * middle - full**2 * 0.5 * (1.0 + view**2)
    return full * middle, np.maximum(variance, 0.0), 0.5 * full * (1.0 - view)


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
