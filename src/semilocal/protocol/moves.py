"""Where a TRIM moves a participant: to the nearest point of the nearest kept child.

Knows cells. Knows no participants.
"""

from __future__ import annotations

from ..arrays import Flags
from ..hierarchy.base import Cells
from .task import Task

__all__ = ["move_codes"]


def move_codes(task: Task, codes: Cells, cells: Cells, kept: Flags) -> Cells:
    """Deepest cells after a TRIM.

    Parameters
    ----------
    codes : uint64[n]
        Deepest cells before.
    cells : uint64[n]
        The trimmed ancestor of each.
    kept : bool[n, fanout]
        Its children that go on; at least one per row.

    Returns
    -------
    uint64[n]
    """
    return task.hierarchy.nearest(codes, cells, kept)
