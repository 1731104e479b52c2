"""Names of the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..engines.run import run_source
from ..engines.source import Source
from ..protocol.mark import Mark
from ..protocol.task import Task
from ..simulation.simulate import simulate
from .counts import AnyRun, Rows
from .means import count_rows

__all__ = ["AnyRun", "Rows", "count_rows", "play_rows", "with_mark"]


def play_rows(
    rows: Rows, task: Task, *, rng: np.random.Generator, progress: Callable[[int, int], None] | None = None
) -> Any:
    """A run of the protocol."""
    play: Any = run_source if isinstance(rows, Source) else simulate
    return play(rows, task, rng=rng, progress=progress)


def with_mark(run: AnyRun, mark: Mark) -> AnyRun:
    """The same run, with what is known about its noise."""
    return replace(run, partition=replace(run.partition, mark=mark))
