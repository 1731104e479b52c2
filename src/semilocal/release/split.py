"""Names of the command line and the planner."""

from __future__ import annotations

from typing import Any

from ..accounting import Ledger
from .job import Job, Split, _whole_domain, plan_split
from .means import count_rows

__all__ = ["Split", "partition_for_values", "plan_split"]


def partition_for_values(
    points: Any, box: Any, *, epsilon: float, delta: float, k: int, rng: Any, cap: Any = None, progress: Any = None,
    values_only: bool = False, **options: Any,
) -> tuple[Any, Split, Ledger]:  # fmt: skip
    """Split the budget and find the partition that values will be released on."""
    job = Job(
        question="means", data=points, box=box, epsilon=epsilon, trust="nobody", delta=delta, k=k, rng=rng, cap=cap,
        progress=progress, options=options,
    )  # fmt: skip
    task: Any
    split, task = job._divided(count_rows(points))
    if values_only:
        split, task = Split(0.0, epsilon), job.planned()
    if split.tree:
        return job._play(points, task), split, Ledger.of(task, cap=cap)
    return _whole_domain(task, points, job._mark), split, Ledger(cap=cap)
