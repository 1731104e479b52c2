"""Rows that come in batches: what a release needs of positions that need not be in memory together.

An array is one batch. A source gives many, in the order of its rows; noise is drawn in that order too, so the size of
the batches changes nothing.

Knows rows and batches. Knows no mechanisms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..engines.run import SourceRun, run_source
from ..engines.source import Source, attached_batches
from ..errors import InvalidInput
from ..functions import BoundedFunction
from ..geometry.box import Box
from ..hierarchy.ranks import SortedCodes
from ..pooled.task import PooledTask
from ..protocol.column import Column
from ..protocol.mark import Mark
from ..protocol.task import Task
from ..simulation.simulate import LOST, Run, simulate

__all__ = [
    "AnyRun", "Rows", "check_reports", "check_source", "check_stored", "count_rows", "play_rows", "position_batches",
    "rows_each", "run_batches", "with_mark",
]  # fmt: skip

Rows = npt.ArrayLike | Source
AnyRun = Run | SourceRun


def count_rows(rows: Rows) -> int:
    """How many rows there are."""
    return rows.count() if isinstance(rows, Source) else len(np.asarray(rows))


def check_source(source: Source, box: Box, *, users: object, rows: int) -> Source:
    """Refuse a source that a job's other arguments do not fit."""
    if users is not None:
        raise InvalidInput("a source chooses the rows of every person by itself; name the column when you open it")
    if rows != source.rows_per_person:
        raise InvalidInput(
            f"the source has up to {source.rows_per_person} rows of every person; got rows_per_user = {rows}"
        )
    if (source.box.lower, source.box.upper) != (box.lower, box.upper):
        raise InvalidInput(f"the source is in {source.box}; got the box {box}")
    return source


def rows_each(run: object) -> int:
    """The most rows that anybody has in a run over a source; 1 for others, whose rows are people."""
    return run.source.rows_per_person if isinstance(run, SourceRun) else 1


def check_reports(rows: Rows | SortedCodes, task: PooledTask) -> None:
    """Refuse a source with more rows of a person than the task's noise is for."""
    if isinstance(rows, Source) and rows.rows_per_person > task.max_reports:
        raise InvalidInput(
            f"the source has up to {rows.rows_per_person} rows of every person, and the task's noise is for "
            f"{task.max_reports}; build the task with max_reports={rows.rows_per_person}"
        )


def play_rows(
    rows: Rows, task: Task, *, rng: np.random.Generator | None, progress: Callable[[int, int], None] | None = None
) -> Any:
    """A run of the protocol: :class:`Run` for an array, :class:`SourceRun` for a source.

    Without a generator the noise is the operating system's, and the run is not marked as seeded.
    """
    draws = np.random.default_rng() if rng is None else rng
    run: AnyRun
    if isinstance(rows, Source):
        run = run_source(rows, task, rng=draws, progress=progress)
    else:
        run = simulate(rows, task, rng=draws, progress=progress)
    return run if rng is not None else with_mark(run, Mark(seeded=False))


def with_mark(run: AnyRun, mark: Mark) -> AnyRun:
    """The same run, with what is known about its noise."""
    return replace(run, partition=replace(run.partition, mark=mark))


def position_batches(rows: Rows, f: BoundedFunction, box: Box) -> Iterator[tuple[Floats, BoundedFunction]]:
    """Positions float64[b, d] inside the box, and f for them: a column is cut as the rows are."""
    if not isinstance(rows, Source):
        yield box.check(rows), f
        return
    seen = 0
    for batch in rows.batches(*_stored(f)):
        yield box.check(batch[:, : box.dimensions]), _part(f, seen, batch[:, box.dimensions :])
        seen += len(batch)


def run_batches(
    run: AnyRun, points: Rows, f: BoundedFunction
) -> Iterator[tuple[Floats, npt.NDArray[np.int32], BoundedFunction]]:
    """Everybody with a region: their positions, their regions, and f for them.

    Yields
    ------
    float64[b, d], int32[b], BoundedFunction
    """
    if isinstance(run, SourceRun):
        seen = 0
        for part in attached_batches(run.source, run.task.hierarchy, run.lookup, _stored(f)):
            yield part.positions, part.regions, _part(f, seen, part.others)
            seen += len(part.regions)
        return
    assert not isinstance(points, Source)
    positions = run.check_points(points)
    if isinstance(f, Column):
        f(positions)  # refuses another number of values
    if (run.regions == LOST).any():
        who = np.flatnonzero(run.regions != LOST)
        yield positions[who], run.regions[who], f.rows(who) if isinstance(f, Column) else f
    else:
        yield positions, run.regions, f


def check_stored(rows: Source, f: BoundedFunction) -> None:
    """Refuse a column that is read with the rows if it is not there, or not inside its public range."""
    for name in _stored(f):
        assert isinstance(f, Column)
        rows.check_value(name, f.low, f.high)


def _stored(f: BoundedFunction) -> tuple[str, ...]:
    """The column that is read with the rows, if f is one."""
    return (f.name,) if isinstance(f, Column) and f.stored else ()


def _part(f: BoundedFunction, start: int, read: Floats) -> BoundedFunction:
    """The function for some rows; ``read`` has the column that came with them."""
    if not isinstance(f, Column):
        return f
    return f.holding(read[:, 0]) if f.stored else f.rows(np.arange(start, start + len(read)))
