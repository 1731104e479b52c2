"""Why a cell was split, trimmed or left as it is, in words.

Everything said here follows from a closed round, which is public. Knows the numbers of a round. Knows no participants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers
from ..geometry.earth import is_map
from ..geometry.sides import side_unit
from ..hierarchy.base import Cells, Hierarchy
from ..protocol.rule import PlayedRound, crowds_needed, randomizers, too_many_visitors, too_small
from ..protocol.task import Task
from ..randomizer.base import Randomizer
from ..words import number_of

__all__ = ["ChildIntervals", "child_spread", "part_names", "stop_reasons", "trim_reasons"]

NORMAL = 1.959963984540054  # two-sided 95 %


class ChildIntervals(NamedTuple):
    """What a round says about the children of its cells.

    Attributes
    ----------
    low, high : float64[m, fanout]
        95 % interval of the noise around each estimate, within 0 and the responders; NaN where there is no child.
    crowds : int64[m, fanout]
        The crowd that each child has to prove: k, or more because of the visitors that may be in it.
    needed : float64[m, fanout]
        The estimate with which it does; infinite if the cell has too few responders for that.
    """

    low: Floats
    high: Floats
    crowds: Integers
    needed: Floats


def child_spread(task: Task, played: PlayedRound) -> ChildIntervals:
    """Intervals of the estimates of a round, and what they are measured against."""
    shape = played.ruling.estimates.shape
    low, high, needed = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.inf)
    if not played.tally.shape[1]:  # a roll call: cells that end here may have no parts
        return ChildIntervals(low, high, np.full(shape, task.k), needed)
    crowds = crowds_needed(task, played.frontier, played.responders)
    for rows, randomizer in randomizers(task, played.cells):
        size = played.responders[rows]
        columns = slice(randomizer.fanout)
        estimates = played.ruling.estimates[rows, columns]
        share = np.clip(estimates / np.maximum(size, 1)[:, None], 0.0, 1.0)
        outside, inside = randomizer.variance(0.0), randomizer.variance(1.0)  # linear in the share
        error = np.sqrt(size[:, None] * (outside + (inside - outside) * share))
        low[rows, columns] = np.clip(estimates - NORMAL * error, 0, size[:, None])
        high[rows, columns] = np.clip(estimates + NORMAL * error, 0, size[:, None])
        needed[rows, columns] = _needed(task, randomizer, size, crowds[rows, columns])
    return ChildIntervals(low, high, crowds, needed)


def _needed(task: Task, randomizer: Randomizer, size: Integers, crowds: Integers) -> Floats:
    """The estimates with which the children of cells prove their crowds: float64[m, children]."""
    liars, out = task.tolerate_liars, np.full(crowds.shape, np.inf)
    for crowd in np.unique(crowds).tolist():
        rows, children = np.nonzero((crowds == crowd) & (size - liars >= crowd)[:, None])
        tally = randomizer.threshold(size[rows] - liars, k=crowd, delta=task.delta_test) + liars
        out[rows, children] = randomizer.estimate(np.repeat(tally[:, None], randomizer.fanout, axis=1), size[rows])[
            :, 0
        ]
    return out


def part_names(hierarchy: Hierarchy, cells: Cells, numbers: Integers) -> list[str]:
    """What children are called, by where they are in their cells: "west half", "north-east quarter", "lower half of x".

    Parameters
    ----------
    cells : uint64[m]
    numbers : int64[m]
        The child of each cell.
    """
    if not len(cells):
        return []
    labels = hierarchy.names(hierarchy.child(cells, numbers))
    if any(labels):
        return [f"part {label!r}" for label in labels]
    around, inside = hierarchy.boxes(cells), hierarchy.boxes(hierarchy.child(cells, numbers))
    whole = inside[:, 1] - inside[:, 0] > 0.75 * (around[:, 1] - around[:, 0])
    upper = inside.mean(axis=1) > around.mean(axis=1)
    globe, names = is_map(hierarchy.box), hierarchy.box.names
    return [_part(full, high, names, globe=globe) for full, high in zip(whole.tolist(), upper.tolist(), strict=True)]


def _part(full: Sequence[bool], high: Sequence[bool], names: Sequence[str], *, globe: bool) -> str:
    cut = [axis for axis, kept in enumerate(full) if not kept]
    size = {0: "whole", 1: "half", 2: "quarter"}.get(len(cut), "part")
    if globe:
        words = {0: ("west", "east"), 1: ("south", "north")}
        return "-".join([*(words[axis][high[axis]] for axis in reversed(cut))]) + f" {size}"
    sides = ", ".join(f"{'upper' if high[axis] else 'lower'} {names[axis]}" for axis in cut)
    return f"{size} of {sides}" if cut else size


def stop_reasons(task: Task, played: PlayedRound, rows: Integers, spread: ChildIntervals) -> list[str]:
    """Why paths ended in these rows of a round: one sentence or two per row.

    With rule "each" the regions are the children that were left behind; each then has its own row.
    """
    if not played.tally.shape[1]:
        return [f"Not split: the task ends here, after {number_of(task.max_rounds, 'round')}."] * len(rows)
    estimates = np.where(np.isnan(played.ruling.estimates[rows]), np.inf, played.ruling.estimates[rows])
    passing = (estimates >= spread.needed[rows]) & np.isfinite(estimates)
    weakest = np.argmin(np.where(passing, np.inf, estimates), axis=1)
    crowded = too_many_visitors(task, played.frontier.rows(rows), passing, estimates, played.responders[rows])
    names = part_names(task.hierarchy, played.cells[rows], weakest)
    small = too_small(task, played.cells[rows]) if task.min_side else np.zeros(len(rows), dtype=bool)
    out = []
    for place, row in enumerate(rows.tolist()):
        child = int(weakest[place])
        responders, needed, crowd = int(played.responders[row]), spread.needed[row, child], spread.crowds[row, child]
        if small[place]:
            least = " by ".join(f"{side:g}" for side in task.min_side)
            unit = f"{least} {side_unit(task.box)}".strip()
            out.append(f"Not split: its parts would have sides below the task's resolution, {unit}.")
            continue
        if not np.isfinite(needed):
            proof = _crowd(task, int(crowd))
            out.append(f"Not split: {_people(responders)} answered, too few to prove {proof} in a part.")
            continue
        found = _estimate(estimates[place, child], spread.low[row, child], spread.high[row, child])
        words = f"Not split: the {names[place]} is estimated at {found}; {_proof(task, float(needed), int(crowd))}."
        if task.rule == "trim" and passing[place].any():
            used = int(played.frontier.trims[row])
            if used >= task.max_trims:
                words += f" It was not trimmed: this path has had its {number_of(task.max_trims, 'TRIM')}."
            elif crowded[place]:
                words += (
                    f" It was not trimmed: then more than {100 * task.max_visitors:g} % of the people in what is kept "
                    "could be visitors, moved there from elsewhere."
                )
            else:
                words += f" It was not trimmed: it may hold more than {100 * task.tau:g} % of the cell."
        out.append(words)
    return out


def trim_reasons(
    task: Task, played: PlayedRound, rows: Integers, numbers: Integers, spread: ChildIntervals
) -> list[str]:
    """Why children were trimmed off, or left behind with rule "each": one text per (row, child)."""
    out = []
    for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
        found = _estimate(played.ruling.estimates[row, number], spread.low[row, number], spread.high[row, number])
        proof = _proof(task, float(spread.needed[row, number]), int(spread.crowds[row, number]))
        if task.rule == "each":
            out.append(f"Left behind: estimated at {found}; {proof}.")
        else:
            out.append(
                f"Trimmed in round {played.number}: estimated at {found} of {int(played.responders[row]):,}; {proof}. "
                "Participants here were moved to random places of the part that was kept."
            )
    return out


def _proof(task: Task, needed: float, crowd: int) -> str:
    if not np.isfinite(needed):
        return f"too few answered to prove {_crowd(task, crowd)}"
    return f"it takes {needed:,.0f} to prove {_crowd(task, crowd)}"


def _crowd(task: Task, crowd: int) -> str:
    if crowd == task.k:
        return f"a crowd of k = {task.k}"
    return (
        f"a crowd of {crowd:,} (more than k = {task.k}, because at most {100 * task.max_visitors:g} % may be visitors, "
        "moved there from elsewhere)"
    )


def _estimate(value: float, low: float, high: float) -> str:
    return f"{max(value, 0.0):,.0f} ({low:,.0f} to {high:,.0f})"


def _people(count: int) -> str:
    return number_of(count, "participant")
