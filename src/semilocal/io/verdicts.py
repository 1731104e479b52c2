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
from ..protocol.rule import Played, randomizers, too_small
from ..protocol.task import Task

__all__ = ["Spread", "child_spread", "part_names", "stop_reasons", "trim_reasons"]

_NORMAL = 1.959963984540054  # two-sided 95 %


class Spread(NamedTuple):
    """What a round says about the children of its cells.

    Attributes
    ----------
    low, high : float64[m, fanout]
        95 % interval of the noise around each estimate, within 0 and the responders; NaN where there is no child.
    needed : float64[m]
        The estimate with which a child proves a crowd of k; infinite if the cell has too few responders for that.
    """

    low: Floats
    high: Floats
    needed: Floats


def child_spread(task: Task, played: Played) -> Spread:
    """Intervals of the estimates of a round, and what they are measured against."""
    shape = played.ruling.estimates.shape
    low, high, needed = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape[0], np.inf)
    liars = task.tolerate_liars
    if not played.tally.shape[1]:
        return Spread(low, high, needed)
    for rows, randomizer in randomizers(task, played.cells):
        size = played.responders[rows]
        columns = slice(randomizer.fanout)
        estimates = played.ruling.estimates[rows, columns]
        share = np.clip(estimates / np.maximum(size, 1)[:, None], 0.0, 1.0)
        outside, inside = randomizer.variance(0.0), randomizer.variance(1.0)  # linear in the share
        error = np.sqrt(size[:, None] * (outside + (inside - outside) * share))
        low[rows, columns] = np.clip(estimates - _NORMAL * error, 0, size[:, None])
        high[rows, columns] = np.clip(estimates + _NORMAL * error, 0, size[:, None])
        enough = size - liars >= task.k
        tally = randomizer.threshold(size[enough] - liars, k=task.k, delta=task.delta_test) + liars
        wide = np.repeat(tally[:, None], randomizer.fanout, axis=1)
        needed[np.arange(len(needed))[rows][enough]] = randomizer.estimate(wide, size[enough])[:, 0]
    return Spread(low, high, needed)


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


def stop_reasons(task: Task, played: Played, rows: Integers, spread: Spread) -> list[str]:
    """Why paths ended in these rows of a round: one sentence or two per row.

    With rule "each" the regions are the children that were left behind; each then has its own row.
    """
    if not played.tally.shape[1]:
        return [f"Not split: this is as far as the task goes, after {task.max_rounds} rounds."] * len(rows)
    estimates = np.where(np.isnan(played.ruling.estimates[rows]), np.inf, played.ruling.estimates[rows])
    weakest = np.argmin(estimates, axis=1)
    passing = (estimates >= spread.needed[rows][:, None]) & np.isfinite(estimates)
    names = part_names(task.hierarchy, played.cells[rows], weakest)
    small = too_small(task, played.cells[rows]) if task.min_side else np.zeros(len(rows), dtype=bool)
    out = []
    for place, row in enumerate(rows.tolist()):
        responders, needed = int(played.responders[row]), float(spread.needed[row])
        if small[place]:
            least = " by ".join(f"{side:g}" for side in task.min_side)
            unit = f"{least} {side_unit(task.box)}".strip()
            out.append(f"Not split: its parts would have sides below the task's resolution, {unit}.")
            continue
        if not np.isfinite(needed):
            out.append(
                f"Not split: {_people(responders)} answered, too few to prove a crowd of k = {task.k} in a part."
            )
            continue
        child = weakest[place]
        found = _estimate(estimates[place, child], spread.low[row, child], spread.high[row, child])
        words = f"Not split: the {names[place]} is estimated at {found}; {_proof(task, needed)}."
        if task.rule == "trim" and passing[place].any():
            used = int(played.frontier.trims[row])
            if used >= task.max_trims:
                words += f" It was not trimmed: this path has had its {task.max_trims} TRIMs."
            else:
                words += f" It was not trimmed: it may hold more than {100 * task.tau:g} % of the cell."
        out.append(words)
    return out


def trim_reasons(task: Task, played: Played, rows: Integers, numbers: Integers, spread: Spread) -> list[str]:
    """Why children were trimmed off, or left behind with rule "each": one text per (row, child)."""
    out = []
    for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
        found = _estimate(played.ruling.estimates[row, number], spread.low[row, number], spread.high[row, number])
        proof = _proof(task, float(spread.needed[row]))
        if task.rule == "each":
            out.append(f"Left behind: estimated at {found}; {proof}.")
        else:
            out.append(
                f"Trimmed in round {played.number}: estimated at {found} of {int(played.responders[row]):,}; {proof}. "
                "Participants here were moved into the regions beside it."
            )
    return out


def _proof(task: Task, needed: float) -> str:
    if not np.isfinite(needed):
        return f"too few answered to prove a crowd of k = {task.k}"
    return f"it takes {needed:,.0f} to prove a crowd of k = {task.k}"


def _estimate(value: float, low: float, high: float) -> str:
    return f"{max(value, 0.0):,.0f} ({low:,.0f} to {high:,.0f})"


def _people(count: int) -> str:
    return "1 participant" if count == 1 else f"{count:,} participants"
