"""``semilocal audit``: attack what is promised; lower bounds on the true loss."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from ...errors import InvalidInput
from ...protocol.task import Task
from ..catalogue import DONE, FOUND
from ..options import existing, option, whole

__all__ = ["run"]

_NO_PAIRS = (
    "hardly anybody is asked about places inside its region, as in a leaf of a table, so there is nothing to tell two "
    "positions inside it apart by."
)


def run(
    *,
    task: Annotated[Path | None, existing("a task (.json or .msgpack); the whole catalogue if left out")] = None,
    runs: Annotated[int, option("plays per world", "N", whole(1000))] = 200_000,
    seed: Annotated[int, option("of the attacks' randomness", "S", whole(0))] = 1,
) -> int:
    """Audit; 0 if every claim holds and every planted fault was caught."""
    from ...lab.audit import CASES, audit_task, default_task, finding_table

    audited = default_task() if task is None else _read_task(task)
    rng = np.random.default_rng(seed)
    if task is not None:
        findings = audit_task(audited, "transcript", runs=runs, rng=rng)
        if not findings:
            raise InvalidInput(
                f"nothing in this task can be attacked: {_NO_PAIRS} Audit a task whose regions have parts, or see the "
                "whole catalogue without --task"
            )
    else:
        findings = [finding for case in CASES for finding in case(runs, rng)]
    print(finding_table(findings))
    print(
        "\nLosses have delta 0; those of a transcript are between two positions inside the region that it publishes "
        "for one participant. Measured is what an attacker reached: a lower bound on the true loss, not the loss "
        "itself."
    )
    return DONE if all(finding.verdict in ("holds", "caught") for finding in findings) else FOUND


def _read_task(path: Path) -> Task:
    data = path.read_bytes()
    try:
        if path.suffix == ".json":
            return msgspec.json.decode(data, type=Task)
        return msgspec.msgpack.decode(data, type=Task)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidInput(f"{path} holds no task: {error}") from None
