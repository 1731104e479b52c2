"""Many independent runs in one: each has a cell of its own, some levels down one tree.

A round costs about as much for one cell as for a thousand. Cells know nothing of each other: noise is drawn for each,
and a verdict depends on the cell's own sums and path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from semilocal import Run, Task
from semilocal.arrays import Floats, Integers
from semilocal.hierarchy.base import ROOT, Cells
from semilocal.protocol.curator import Curator
from semilocal.protocol.rule import PlayedRound, proceed
from semilocal.simulation.coded import CodedPopulation
from semilocal.simulation.simulate import play
from semilocal.simulation.sorted import Detail, SortedPopulation

__all__ = ["Side", "play_side_by_side"]


class Side(NamedTuple):
    """Runs side by side.

    Attributes
    ----------
    run : Run
        With the participants of all runs, one after the other.
    which : int64[n]
        The run that each participant is in.
    tops : uint64[m]
        The cell that each run has for its domain, ascending.
    """

    run: Run
    which: Integers
    tops: Cells

    @property
    def first(self) -> Integers:
        """The first participant of each run: int64[m]."""
        return np.searchsorted(self.which, np.arange(len(self.tops)))

    def of(self, cells: Cells) -> Integers:
        """Which run each cell is in: int64[c]."""
        hierarchy = self.run.task.hierarchy
        depth = int(hierarchy.depth(self.tops)[0])
        return np.searchsorted(self.tops, hierarchy.ancestors(hierarchy.span(cells)[0], depth))


class _Forest(Curator):
    """Splits all cells of the first rounds, whatever their tallies are: the runs begin below."""

    def __init__(self, task: Task, levels: int) -> None:
        super().__init__(task)
        self._levels = levels

    def judge(self, responders: npt.ArrayLike, tally: npt.ArrayLike) -> PlayedRound:
        """What closes the open round."""
        played = super().judge(responders, tally)
        if self.round > self._levels:
            return played
        estimates = played.ruling.estimates
        return replace(
            played,
            ruling=proceed(
                self.task, self.frontier, np.ones(estimates.shape, dtype=bool), estimates, played.responders
            ),
        )


def play_side_by_side(
    shapes: Sequence[Floats], task: Task, levels: int, *, rng: np.random.Generator, detail: Detail = "tallies"
) -> Side:
    """Play the task below each cell of a level, one run in each.

    Parameters
    ----------
    shapes : sequence of float64[n, d]
        The participants of each run, in the unit cube.
    task : Task
        Of so many levels more than a single run has. The cells of the level have the proportions of the whole.
    levels : int
    detail : {"tallies", "reports"}
        As in :func:`semilocal.simulate`.
    """
    hierarchy = task.hierarchy
    cells = np.array([ROOT], dtype=np.uint64)
    for _ in range(levels):
        cells = hierarchy.children(cells)
    tops = cells[: len(shapes)]
    which = np.repeat(np.arange(len(tops)), [len(shape) for shape in shapes])
    low, high = np.moveaxis(hierarchy.boxes(tops), 1, 0)
    points = low[which] + np.concatenate(shapes) * (high - low)[which]
    population = (
        CodedPopulation(task, points, rng=rng)
        if detail == "tallies"
        else SortedPopulation(task, points, rng=rng, detail=detail)
    )
    run = play(_Forest(task, levels), population)
    assert (hierarchy.ancestors(hierarchy.codes(points), levels) == tops[which]).all()
    assert (hierarchy.depth(run.partition.cells) >= levels).all()
    return Side(run, which, tops)
