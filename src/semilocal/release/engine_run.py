"""A task played on the rows of an engine: the result that a run in memory gives, and every row with its region.

Knows tasks and sources. Knows no positions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arrays import as_integer, short_repr, shown
from ..engines.histogram import Lookup
from ..engines.run import SourceRun
from ..engines.source import Source
from ..errors import InvalidInput
from ..geometry.box import Box
from ..hierarchy.base import Hierarchy
from ..pooled.task import PooledTask
from ..protocol.task import Task
from ..simulation.people import MAX_ROWS_PER_USER, draw_key
from .count_release import CountsRelease, counts
from .pooled_counts import PooledCounts, pooled_counts, run_pooled
from .streamed import play_rows
from .whom import crowd_of, pooled_options, which_trust

__all__ = ["AnyTask", "EngineRun", "choosing_key", "planned_task", "run_on", "task_of"]

AnyTask = Task | PooledTask


@dataclass(frozen=True, eq=False)
class EngineRun:
    """A finished run on an engine.

    Attributes
    ----------
    result : CountsRelease or PooledCounts
        What :func:`semilocal.counts` gives for the same rows in memory: ``query``, ``partition``, ``to_geojson``,
        ``guarantee``, ``spent`` and all the rest.
    hierarchy : Hierarchy
    lookup : Lookup
        Which region each code ends in.
    source : Source
        The rows. Keep the run as long as what ``attach`` gave is in use.
    """

    result: CountsRelease | PooledCounts
    hierarchy: Hierarchy
    lookup: Lookup
    source: Source

    __repr__ = short_repr

    def attach(self, **options: Any) -> Any:
        """Every row with the index of its region in ``result.partition``, in the engine's own form.

        That is as private as the rows: it tells where each of them is. See the source's ``attach`` for the options.
        """
        return self.source.attach(self.hierarchy, self.lookup, **options)


def task_of(
    box: Box | None,
    *,
    epsilon: float,
    trust: Any,
    delta: float | None = None,
    k: int | None = None,
    rows_per_person: int = 1,
    **options: Any,
) -> AnyTask:
    """The task that a job with these options plays; see :func:`semilocal.mean` for them."""
    whom = which_trust(trust)
    if whom == "nobody":
        return Task.build(box, epsilon=epsilon, **crowd_of(delta, k), **options)
    chosen = pooled_options(whom, delta, k, options)
    return PooledTask.build(box, epsilon=epsilon, trust=whom, max_reports=rows_per_person, **chosen)


def planned_task(box: Box | None, task: AnyTask | None, rows_per_person: int, options: dict[str, Any]) -> AnyTask:
    """The task of a call that gives one, or a box and options."""
    if task is not None:
        if box is not None or options:
            named = ", ".join([*(["box"] if box is not None else []), *options])
            raise InvalidInput(f"give a task, or a box and options, not both; got a task and {named}")
        return task
    if not isinstance(box, Box) and (box is not None or options.get("hierarchy") is None):
        raise InvalidInput(f"box must be a semilocal.Box, or give a hierarchy or a task; got {shown(box)}")
    if "epsilon" not in options:
        raise InvalidInput("epsilon is missing: the most that anybody may lose")
    return task_of(box, rows_per_person=rows_per_person, **{"trust": None, **options})


def choosing_key(person: str | None, rows_per_person: int, rng: np.random.Generator | None) -> int:
    """The key by which rows are chosen, from the driver's randomness. Checks what is asked for."""
    as_integer(rows_per_person, "rows_per_user", low=1, high=MAX_ROWS_PER_USER)
    if person is None and rows_per_person != 1:
        raise InvalidInput("rows_per_user needs person, the column that says whose row it is")
    return 0 if person is None else draw_key(np.random.default_rng() if rng is None else rng)


def run_on(
    source: Source, task: AnyTask, *, rows_per_person: int = 1, rng: np.random.Generator | None = None
) -> EngineRun:
    """Play a task on a source.

    Parameters
    ----------
    source : Source
    task : Task or PooledTask
        With a pooled task epsilon is for any change of one person's position anywhere; with a ``Task`` it is for two
        positions inside a region, and what is played is a simulation of devices.
    rows_per_person : int
        The most rows that anybody has in the source: what a person loses is stated for all of them.
    rng : numpy.random.Generator, optional
        Seeded noise, which protects nobody; the result says so. Without it the noise is the operating system's. The
        same seed gives the same bytes as in memory.
    """
    if isinstance(task, PooledTask):
        if task.max_reports != rows_per_person:
            raise InvalidInput(
                f"the task allows {task.max_reports} reports of everybody, the source has {rows_per_person} rows; "
                "make both the same"
            )
        published = run_pooled(task, source, rng=rng)
        return EngineRun(
            pooled_counts(published), task.hierarchy, Lookup.plain(task.hierarchy, published.cells), source
        )
    run: SourceRun = play_rows(source, task, rng=rng)
    result = counts(run.partition)
    result = replace(result, spent=result.spent.times(rows_per_person))
    return EngineRun(result, task.hierarchy, run.lookup, source)
