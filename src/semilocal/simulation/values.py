"""Rounds of values for a whole population at once: what the devices of a finished run would give.

Values are clipped to where the region's people are (:mod:`semilocal.protocol.clip`, public) and scaled, as a device
does, so that with the same entropy the same integers come out. Knows runs and positions. Knows no estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, Words
from ..errors import InvalidInput
from ..functions import BoundedFunction
from ..protocol.clip import clips
from ..protocol.column import Column
from ..protocol.curator import Curator
from ..protocol.messages import Event, ValueQuery
from ..protocol.plan import Plan
from ..randomizer.values.mechanisms import AnyMechanism
from .devices import Devices
from .run import LOST, Run

__all__ = ["Given", "give_values", "play_values"]


@dataclass(frozen=True, eq=False)
class Given:
    """The outputs of a mechanism for everybody with a region.

    Attributes
    ----------
    who : int64[n]
        Participants.
    regions : int64[n]
        Their regions, as rows of the partition.
    outputs : int64[n]
    clips : float64[m, 2]
        The range that values are clipped to in each region of the partition.
    """

    who: Integers
    regions: Integers
    outputs: Integers
    clips: Floats


def give_values(
    run: Run, points: npt.ArrayLike, f: BoundedFunction, mechanism: AnyMechanism, words: Callable[[Integers], Words]
) -> Given:
    """The value of everybody with a region, through the mechanism.

    Parameters
    ----------
    run : Run
    points : array_like, shape (n, d)
        Positions of the run's participants, in their order.
    words : callable
        Gives the entropy uint64[m, mechanism.words] of the participants int64[m].
    """
    positions = run.check_points(points)
    who = np.flatnonzero(run.regions != LOST)
    regions = run.regions[who].astype(np.int64)
    values = np.asarray(f(positions), dtype=np.float64)[who]
    ranges = clips(run.partition, f, mechanism.epsilon)
    low, width = ranges[regions, 0], ranges[regions, 1] - ranges[regions, 0]
    unit = np.divide(values - low, width, out=np.full(len(low), 0.5), where=width > 0)
    return Given(who, regions, mechanism.release(np.clip(unit, 0.0, 1.0, out=unit), words(who)), ranges)


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
            f = f.of(np.empty(0) if values is None else values)
        given = devices.values(curator, query, np.asarray(f(positions), dtype=np.float64).tolist(), present)
        out += [query, *given, curator.close(given)]
    return tuple(out)
