"""Rounds of values for a whole population: what the devices of a finished run would give.

Knows runs and positions. Knows no estimates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from semilocal.errors import InvalidInput
from semilocal.protocol.column import Column, read_column
from semilocal.protocol.curator import Curator
from semilocal.protocol.messages import Event, ValueQuery
from semilocal.protocol.plan import Plan
from semilocal.simulation.simulate import LOST, Devices, Run


def play_values(
    run: Run, points: npt.ArrayLike, plan: Plan, secrets: Sequence[bytes], *, values: npt.ArrayLike | None = None
) -> tuple[Event, ...]:
    """Play the rounds of values that follow a run with secrets; returns what follows the run's events.

    Parameters
    ----------
    run : Run
        With events.
    points : array_like, shape (n, d)
    plan : Plan
    secrets : sequence of bytes
        As for the run.
    values : array_like, shape (n,), optional
        People's own values, if the plan asks for one.
    """
    if not run.events:
        raise InvalidInput("the run has no transcript: simulate it with secrets")
    positions = run.check_points(points)
    curator = Curator.replay(run.task, run.events, plan)
    devices = Devices(secrets, run.task.hierarchy.codes(positions), run.task.id)
    present = run.regions != LOST
    out: list[Event] = [plan] if plan.asked else []
    while isinstance(query := curator.query(), ValueQuery):
        f = plan.releases[query.index].build()
        if isinstance(f, Column):
            f = read_column(np.empty(0) if values is None else values, (f.low, f.high), name=f.name)
        given = devices.values(curator, query, np.asarray(f(positions), dtype=np.float64).tolist(), present)
        out += [query, *given, curator.close(given)]
    return tuple(out)
