"""Rounds of values for a whole population at once: what the devices of a finished run would give.

Positions, scaling and outputs are the device's (:mod:`semilocal.protocol.values`, the mechanism), so that with the same
entropy the same integers come out. Knows runs and positions. Knows no estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, Words
from ..functions import BoundedFunction
from ..hierarchy.base import Cells
from ..protocol.column import Column
from ..protocol.curator import Curator
from ..protocol.messages import Event, ValueClosed, ValueQuery, ValueReport
from ..protocol.plan import Plan
from ..protocol.values import unit_values
from ..randomizer.values.mechanisms import AnyMechanism
from .entropy import DeviceSecrets, Entropy
from .run import LOST, Run

__all__ = ["Given", "ValueRound", "give_values", "play_values", "value_events", "value_messages"]


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
    low, width : float64[n]
        Range of the function over each participant's region: it starts at ``low``.
    """

    who: Integers
    regions: Integers
    outputs: Integers
    low: Floats
    width: Floats


@dataclass(frozen=True, eq=False)
class ValueRound:
    """One round of values: its query, who answered what, and its closing."""

    query: ValueQuery
    given: Given
    closed: ValueClosed


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
    acting = run.acting(points)
    who = np.flatnonzero(run.regions != LOST)
    regions = run.regions[who].astype(np.int64)
    positions = acting if len(who) == len(acting) else acting[who]
    if isinstance(f, Column):
        f(acting)  # refuses another number of values
        f = f.rows(who)
    unit, low, width = unit_values(f, positions, run.partition.boxes, of=regions)
    return Given(who, regions, mechanism.release(unit, words(who)), low, width)


def play_values(
    run: Run,
    points: npt.ArrayLike,
    plan: Plan,
    secrets: Sequence[bytes] | Entropy,
    *,
    values: npt.ArrayLike | None = None,
) -> list[ValueRound]:
    """Play the rounds of values that follow a run, with the noise that devices derive from their secrets.

    Parameters
    ----------
    run : Run
    points : array_like, shape (n, d)
    plan : Plan
    secrets : sequence of bytes, or Entropy
        One per participant, or what else the noise is derived from, as for the run.
    values : array_like, shape (n,), optional
        People's own values, if the plan asks for one.
    """
    entropy = DeviceSecrets(secrets, plan.task) if isinstance(secrets, Sequence) else secrets
    curator = Curator(run.task, plan)
    for played in run.rounds:
        curator.step(played.responders, played.tally)
    cells, out = run.partition.cells, []
    while isinstance(query := curator.query(), ValueQuery):
        release = plan.releases[query.index]
        assert release.mechanism is not None

        def words(who: Integers, index: int = query.index, count: int = release.mechanism.words) -> Words:
            return entropy.values(who, plan.digest, index, cells[run.regions[who]], count)

        f = release.build()
        if isinstance(f, Column):
            f = f.of(np.empty(0) if values is None else values)
        given = give_values(run, points, f, release.mechanism, words)
        tally = curator.tally()
        tally.add(cells[given.regions], given.outputs)
        closed = curator.close(*tally.close())
        assert isinstance(closed, ValueClosed)
        out.append(ValueRound(query, given, closed))
    return out


def value_events(run: Run, plan: Plan, rounds: Sequence[ValueRound]) -> Iterator[Event]:
    """What follows the run's events in the transcript: the plan, then the query, reports and closing of every round."""
    if rounds:
        yield plan
    cells: Cells = run.partition.cells
    for played in rounds:
        query, given = played.query, played.given
        yield query
        yield from value_messages(query, run.pseudonyms(given.who), cells[given.regions], given.outputs)
        yield played.closed


def value_messages(query: ValueQuery, names: list[bytes], cells: Cells, outputs: Integers) -> Iterator[ValueReport]:
    """Reports of a round of values as messages, by ascending pseudonym."""
    rows = zip(names, cells.tolist(), outputs.tolist(), strict=True)
    for name, cell, output in sorted(rows):
        yield ValueReport(query.task, query.round, name, cell, output)
