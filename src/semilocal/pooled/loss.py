"""The promise of a pooled task, in words and numbers.

A person who moves from x to y changes the difference of the smallest common cell w by two, one difference of every
opened cell below w on either path by one, and two final counts by one. Each path spends all that was left at w, no
more: the loss is ``epsilon * left(w) / UNITS``, exactly, and 0 inside one final cell (PROOF.md).

Knows what a task costs. Knows no tree and no data.
"""

from __future__ import annotations

from ..protocol.promise import Guarantee, Mark, marked
from .task import PooledTask

__all__ = ["guarantee", "presence_note"]


def guarantee(
    task: PooledTask, *, releases: tuple[tuple[str, float], ...] = (), mark: Mark | None = None, area: str = "domain"
) -> Guarantee:
    """The promise of a task whose positions lie in an ``area``.

    ``releases`` are what else is published about the same reports, with its loss for any change of one person's
    position, near or far; half of it if a person is added or removed.
    """
    more = sum(loss for _, loss in releases)
    return Guarantee.plain(
        task.trust,
        task.epsilon + more,
        ladder=(("in the same final cell", more), (f"anywhere in the {area}", task.epsilon + more)),
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
