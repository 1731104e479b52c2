"""Which intervals of counts hold the truth, by kind of query."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import semilocal as sl
from semilocal.geometry.index import count_points
from semilocal.release import counts

KINDS = ("regions", "halves", "trimmed parts", "unions")

Floats = npt.NDArray[np.float64]


class Covered(NamedTuple):
    """Queries of one kind in one run whose answers are not exact: how many, covered, and covered by half the width."""

    asked: int
    covered: int
    covered_by_half: int


def aligned(run: sl.Run) -> dict[str, Floats]:
    """Boxes along the edges of regions: regions, their children, trimmed parts, and cells above regions."""
    partition, hierarchy = run.partition, run.task.hierarchy
    depths = hierarchy.depth(partition.cells)
    above = [
        partition.cells[depths > levels] >> np.uint64(hierarchy.level_bits * levels)
        for levels in range(1, int(depths.max()))
    ]
    cells = (partition.cells, hierarchy.children(partition.cells), partition.trimmed_cells)
    unions = np.unique(np.concatenate([np.empty(0, dtype=np.uint64), *above]))
    return dict(zip(KINDS, map(hierarchy.boxes, (*cells, unions)), strict=True))


def coverage(points: Floats, run: sl.Run) -> dict[str, Covered]:
    """Ask for all aligned boxes. Exact answers must be right."""
    upper, result, found = run.task.box.upper, counts(run), {}
    for kind, boxes in aligned(run).items():
        answers = result.query(boxes)
        closed = np.stack([boxes[:, 0], np.where(boxes[:, 1] == upper, np.inf, boxes[:, 1])], axis=1)
        truth = count_points(points, closed)
        exact = answers.stderr == 0
        assert np.abs(answers.value[exact] - truth[exact]).max(initial=0.0) < 1e-6
        (low, high), true = answers.interval()[~exact].T, truth[~exact]
        quarter = (high - low) / 4
        found[kind] = Covered(
            len(true),
            int(np.count_nonzero((low - 1e-9 <= true) & (true <= high + 1e-9))),
            int(np.count_nonzero((low + quarter <= true) & (true <= high - quarter))),
        )
    return found


def rate(covered: npt.ArrayLike, asked: npt.ArrayLike) -> tuple[float, float]:
    """Coverage and its standard error between runs; one entry per run."""
    hits, total = np.asarray(covered, dtype=np.float64), np.asarray(asked, dtype=np.float64)
    mean = float(hits.sum() / total.sum())
    return mean, float(np.sqrt(np.sum((hits - mean * total) ** 2)) / total.sum())
