"""Which intervals of counts hold the truth, by kind of box."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.lab.baselines.boxes import count_points
from semilocal.protocol.partition import Partition
from semilocal.release import Counts, counts

KINDS = ("ordinary boxes", "grid cells", "cells of regions", "halves of cells", "cells above")
SIDES = (0.01, 0.15)  # of ordinary boxes, as a share of each axis
GRID = 32
GRID_PEOPLE = 20  # cells of the grid with fewer do not count


class Covered(NamedTuple):
    """Boxes of one kind in one run whose answers are not exact.

    How many, covered, covered by a third of the width; mean half width of the intervals and mean distance of the values
    from the truth, in people.
    """

    asked: int
    covered: int
    covered_by_third: int
    width: float
    error: float


def boxes_of(points: Floats, result: Counts, rng: np.random.Generator, *, ordinary: int) -> dict[str, Floats]:
    """Boxes around random people, a grid, and boxes along the edges of regions; by kind.

    The cells of a region of the local protocol, a union of cells, are represented by the largest one.
    """
    partition = result.partition
    hierarchy, box = partition.task.hierarchy, partition.task.box
    width = np.array(box.upper) - np.array(box.lower)
    middle = points[rng.integers(0, len(points), ordinary)]
    half = rng.uniform(*SIDES, middle.shape) * width / 2
    around = np.stack([middle - half, middle + half], axis=1)
    if isinstance(partition, Partition):
        own = hierarchy.largest_cells(partition.lower, partition.upper)
    else:
        own = partition.cells
    above, cells = [np.empty(0, dtype=np.uint64)], own
    while len(cells := np.unique(hierarchy.parent(cells[hierarchy.depth(cells) > 0]))) > 1:
        above.append(cells)
    aligned = (
        own,
        hierarchy.children(own[hierarchy.depth(own) < hierarchy.max_depth]),
        np.unique(np.concatenate(above)),
    )
    return dict(zip(KINDS, (around, box.grid([GRID] * box.dimensions), *map(hierarchy.boxes, aligned)), strict=True))


def coverage(
    points: Floats, run: sl.Run | Counts, rng: np.random.Generator, *, ordinary: int = 200,
    rounding: float | None = None,
) -> dict[str, Covered]:  # fmt: skip
    """Ask for all kinds of boxes. Exact answers must be right, and no value may lie outside its interval."""
    result = counts(run) if isinstance(run, sl.Run) else run
    upper, found = result.partition.task.box.upper, {}
    by_kind = boxes_of(points, result, rng, ordinary=ordinary)
    boxes, kinds = np.concatenate(list(by_kind.values())), np.repeat(list(by_kind), list(map(len, by_kind.values())))
    answers = result.answer(boxes, rounding=rounding)  # all kinds at once: a call costs more than a box
    truth = count_points(points, np.stack([boxes[:, 0], np.where(boxes[:, 1] == upper, np.inf, boxes[:, 1])], 1))
    exact, ends = answers.stderr == 0, answers.interval()
    assert np.abs(answers.value[exact] - truth[exact]).max(initial=0.0) < 1e-6
    assert ((ends[:, 0] <= answers.value) & (answers.value <= ends[:, 1])).all()
    for kind in by_kind:
        some = ~exact & (kinds == kind) & ((truth >= GRID_PEOPLE) | (kind != "grid cells"))
        (low, high), true, half = ends[some].T, truth[some], ends[some] @ [-0.5, 0.5]
        more = (0.0, -2 * half / 3)  # on either side
        held = (int(np.count_nonzero((low - one <= true) & (true <= high + one))) for one in more)
        off = np.abs(answers.value[some] - true)
        found[kind] = Covered(len(true), *held, *(float(one.mean()) if len(one) else 0.0 for one in (half, off)))
    return found


def rate(covered: npt.ArrayLike, asked: npt.ArrayLike) -> tuple[float, float]:
    """Coverage and its standard error between runs; one entry per run."""
    hits, total = np.asarray(covered, dtype=np.float64), np.asarray(asked, dtype=np.float64)
    mean = float(hits.sum() / total.sum())
    return mean, float(np.sqrt(np.sum((hits - mean * total) ** 2)) / total.sum())
