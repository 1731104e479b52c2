"""What was lost: between any two places, by distance, and as a promise in words.

A person who moves from x to y changes the difference of the smallest common cell w by two, one difference of every
opened cell below w on either path by one, and two final counts by one. Each path spends all that was left at w, no
more: the loss is ``epsilon * left(w) / UNITS``, exactly, and 0 inside one final cell (PROOF.md).

Knows a tree and what it cost. Knows no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from ..geometry.box import Box
from ..geometry.places import LATITUDE, LONGITUDE
from ..geometry.units import KILOMETRES_PER_DEGREE
from ..hierarchy.dyadic import Cells
from ..protocol.mark import Mark
from ..protocol.promise import Guarantee, marked
from .play import Tree
from .task import UNITS, PooledTask

__all__ = ["Rung", "guarantee", "ladder", "loss_between", "presence_note"]

Floats = npt.NDArray[np.float64]

_PLACES = 8  # positions per final cell that stand for its people
_MOST_PLACES = 1 << 14  # in all
_SHARES = (0.001, 0.01, 0.1)
_KILOMETRES = (1.0, 10.0, 100.0)


class Rung(NamedTuple):
    """Loss between a person's position and all positions within a distance."""

    words: str
    half: float  # for half of the people it is at most `half`, for 95 in 100 at most `most`; by estimated counts
    most: float


def loss_between(tree: Tree, x: npt.ArrayLike, y: npt.ArrayLike) -> Floats:
    """Loss between positions x and y, float[n, d] each, of one person, for what was published: float64[n].

    No output is more than e^loss times as likely with all of the person's reports at x as at y: the bound for this
    tree. Over all trees that could have come out the bound is the task's epsilon.
    """
    hierarchy = tree.task.hierarchy
    one, other = hierarchy.codes(x), hierarchy.codes(y)
    if one.shape != other.shape:
        raise InvalidInput(f"x and y must be equally many positions; got {len(one)} and {len(other)}")
    return _loss_of_codes(tree, _left_at_cuts(tree), one, other)


def _loss_of_codes(tree: Tree, cuts: npt.NDArray[np.int64], one: Cells, other: Cells) -> Floats:
    """Between deepest cells: what was left at the smallest cell that holds both, which is the most left of any cut."""
    ends = np.sort([np.searchsorted(tree.first_codes, codes, side="right") - 1 for codes in (one, other)], axis=0)
    left = _most_between(cuts, *ends)
    return np.asarray(left * (tree.task.epsilon / UNITS), dtype=np.float64)


def _left_at_cuts(tree: Tree) -> npt.NDArray[np.int64]:
    """What was left at the opened cell that parts each final cell from the next: int64[m - 1]."""
    hierarchy, left = tree.task.hierarchy, np.zeros(len(tree.cells) - 1, dtype=np.int64)
    for level in tree.levels:
        if len(opened := level.cells[level.opened]):
            begin = hierarchy.span(hierarchy.children(opened)[1::2])[0]
            left[np.searchsorted(tree.first_codes, begin) - 1] = level.left[level.opened]
    return left


def _most_between(
    values: npt.NDArray[np.int64], start: npt.NDArray[np.int64], stop: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Largest of ``values[start:stop]`` for each pair, 0 where there is none: int64[n].

    ``most[i]`` is the largest of a power of two of values from i on; two of them, which may overlap, make every range.
    """
    out = np.zeros(len(start), dtype=np.int64)
    most, length = values, 1
    waiting = np.flatnonzero(stop > start)
    while len(waiting):
        begin, end = start[waiting], stop[waiting]
        fits = end - begin < 2 * length
        out[waiting[fits]] = np.maximum(most[begin[fits]], most[end[fits] - length])
        waiting = waiting[~fits]
        if len(waiting):
            most, length = np.maximum(most[:-length], most[length:]), 2 * length
    return out


def ladder(tree: Tree, counts: Floats) -> tuple[Rung, ...]:
    """Loss by distance, nearest first: inside the final cell, to the next cell, within three distances, anywhere.

    Distances are 1, 10 and 100 km where the axes are longitude and latitude, else shares of the domain. Two places on
    both sides of an early cut are told apart by it however near they are, so the rungs are for half of the people and
    for 95 in 100, by the estimated counts float64[m] of the final cells. Where cells are not boxes there are only the
    first and the last rung.
    """
    task, hierarchy = tree.task, tree.task.hierarchy
    same, anywhere = (
        Rung("in the same final cell", 0.0, 0.0),
        Rung("anywhere in the domain", task.epsilon, task.epsilon),
    )
    if not hierarchy.cells_are_boxes:  # the box around two places may leave the cell that holds both
        return same, anywhere
    cells, weights = _stand_ins(counts)
    boxes = hierarchy.boxes(tree.cells[cells])
    sides = boxes[:, 1] - boxes[:, 0]
    places = boxes[:, 0] + _low_discrepancy(_PLACES, task.box.dimensions)[np.arange(len(cells)) % _PLACES] * sides
    reaches = [("in the next final cell", sides), *_distances(task.box, places)]
    lower, upper = np.array(task.box.lower), np.array(task.box.upper)
    rungs, cuts = [same], _left_at_cuts(tree)
    for words, reach in reaches:
        corners = [hierarchy.codes(np.clip(places + sign * reach, lower, upper)) for sign in (-1, 1)]
        losses = _loss_of_codes(tree, cuts, *corners)
        rungs.append(Rung(words, *_quantiles(losses, weights, (0.5, 0.95))))
    return (*rungs, anywhere)


def guarantee(
    task: PooledTask,
    rungs: Sequence[Rung] = (),
    *,
    releases: tuple[tuple[str, float], ...] = (),
    mark: Mark | None = None,
) -> Guarantee:
    """The promise of a task, with the ladder of a finished run if there is one.

    ``releases`` are what else is published about the same reports, with its loss for any change of one person's
    position, near or far; half of it if a person is added or removed.
    """
    more = sum(loss for _, loss in releases)
    return Guarantee.plain(
        task.trust,
        task.epsilon + more,
        ladder=tuple(
            (f"{rung.words} (for {people})", loss + more)
            for rung in rungs
            for people, loss in (("half of the people", rung.half), ("95 in 100 people", rung.most))
        ),
        releases=releases,
        rows=task.max_reports,
        **marked(mark),
        about=f"Domain: {task.box}. Counts of a public tree of cells, at most {task.hierarchy.max_depth} levels.",
        notes=(presence_note(task.path_budget + more / 2),),
    )


def presence_note(loss: float, reports: str = "the number of reports") -> str:
    """What is lost if a person takes part or not, in words: their number is public, exactly."""
    return (
        f"If one person is added or removed: epsilon = {loss:g} (delta = 0) for everything but {reports}, which is "
        "public."
    )


def _distances(box: Box, places: Floats) -> list[tuple[str, Floats]]:
    """In words, and half sides of a box around each position that holds all within that distance: float64[n, d]."""
    names = [name.lower() for name in box.names]
    east, north = ([i for i, name in enumerate(names) if name in spellings] for spellings in (LONGITUDE, LATITUDE))
    if box.dimensions != 2 or not east or not north:
        widths = np.array(box.upper) - np.array(box.lower)
        return [
            (f"within {share:.1%} of the domain's sides", np.broadcast_to(share * widths, places.shape))
            for share in _SHARES
        ]
    found = []
    for km in _KILOMETRES:
        degrees = km / KILOMETRES_PER_DEGREE
        reach = np.full(places.shape, degrees)
        # A degree of longitude is shorter away from the equator: take its length on the box's far side.
        far = np.minimum(np.abs(places[:, north[0]]) + degrees, 89.0)
        reach[:, east[0]] /= np.cos(np.radians(far))
        found.append((f"within {km:g} km", reach))
    return found


def _stand_ins(counts: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """Final cells of the positions that stand for people, and how many people each stands for: int64[n], float64[n].

    Several of every cell; of very many cells, those of people at even distances in the order of the domain.
    """
    if len(counts) * _PLACES <= _MOST_PLACES or not counts.sum() > 0:
        return np.repeat(np.arange(len(counts)), _PLACES), np.repeat(counts, _PLACES)
    before = np.cumsum(counts)
    people = (np.arange(_MOST_PLACES) + 0.5) * (before[-1] / _MOST_PLACES)
    return np.searchsorted(before, people), np.ones(_MOST_PLACES)


def _low_discrepancy(number: int, dimensions: int) -> Floats:
    """Evenly scattered points of the unit cube, always the same (additive recurrence): float64[number, dimensions]."""
    root = 2.0
    for _ in range(40):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    return (0.5 + np.outer(np.arange(1, number + 1), steps)) % 1.0


def _quantiles(values: Floats, weights: Floats, levels: tuple[float, ...]) -> tuple[float, ...]:
    """Smallest values that this share of the weight does not exceed."""
    if not weights.sum() > 0:
        weights = np.ones(len(values))
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(weights[order]) / weights.sum()
    places = np.minimum(np.searchsorted(cumulated, np.array(levels) - 1e-12), len(values) - 1)
    return tuple(float(value) for value in values[order][places])
