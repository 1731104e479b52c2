"""Rounds of values of the rows of a source, after a keyed run: one scan per round, nothing kept per row.

What a row gives depends on its position, its region and the key alone, so the transcript is the one of the same key in
memory (:func:`semilocal.simulation.values.play_values` with a ``RowKey``), to the root.

Knows rows, plans and reports. The rules are the curator's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..arrays import Integers, short_repr
from ..errors import InvalidInput
from ..functions import BoundedFunction
from ..hierarchy.base import Cells
from ..protocol.column import Column
from ..protocol.curator import Curator
from ..protocol.messages import Event, ValueClosed, ValueQuery
from ..protocol.plan import Plan
from ..protocol.values import unit_values
from ..simulation.values import value_messages
from .keyed import KeyedPopulation, KeyedRun
from .source import attached_batches

__all__ = ["KeyedValues", "play_keyed_values"]


@dataclass(frozen=True, eq=False)
class KeyedValues:
    """Finished rounds of values.

    Attributes
    ----------
    run : KeyedRun
    plan : Plan
    rounds : tuple of (ValueQuery, ValueClosed)
    """

    run: KeyedRun
    plan: Plan
    rounds: tuple[tuple[ValueQuery, ValueClosed], ...]

    __repr__ = short_repr

    @property
    def events(self) -> Iterator[Event]:
        """What follows the run's events in the transcript. Scans as for those."""
        if self.rounds:
            yield self.plan
        population = _population(self.run)
        for query, closed in self.rounds:
            yield query
            for who, cells, outputs in population.shares(partial(_given, self.run, self.plan, query)):
                yield from value_messages(query, population.entropy.pseudonyms(who), cells, outputs)
            yield closed


def play_keyed_values(run: KeyedRun, plan: Plan) -> KeyedValues:
    """Play the rounds of values that follow a keyed run.

    Parameters
    ----------
    run : KeyedRun
        Its key is the key of the values, too.
    plan : Plan
        A release of a value of people's own, such as "own:fare", reads the source's column of that name. All its values
        must be in the public range; that is checked before the first round.
    """
    curator = Curator(run.task, plan)
    for played in run.rounds:
        curator.step(played.responders, played.tally)
    for release in plan.releases:
        if release.mechanism is not None and isinstance(f := release.build(), Column):
            run.source.check_value(f.name, f.low, f.high)
    rounds = []
    while isinstance(query := curator.query(), ValueQuery):
        tally = curator.tally()
        for _, cells, outputs in _given(run, plan, query):
            tally.add(cells, outputs)
        closed = curator.close(*tally.close())
        assert isinstance(closed, ValueClosed)
        rounds.append((query, closed))
    return KeyedValues(run, plan, tuple(rounds))


def _given(run: KeyedRun, plan: Plan, query: ValueQuery) -> Iterator[tuple[Integers, Cells, Integers]]:
    """Numbers of the rows, their regions and the outputs that they give: batch by batch, in the order of the rows."""
    release, entropy, first = plan.releases[query.index], _population(run).entropy, 0
    mechanism, f = release.mechanism, release.build()
    assert mechanism is not None
    read = (f.name,) if isinstance(f, Column) else ()
    for part in attached_batches(run.source, run.task.hierarchy, run.lookup, read):
        who = np.arange(first, first + len(part.regions))
        first += len(who)
        cells = run.partition.cells[part.regions]
        own: BoundedFunction = f.holding(part.others[:, 0]) if isinstance(f, Column) else f
        unit = unit_values(own, part.acting, run.partition.boxes, of=part.regions).unit
        words = entropy.values(who, plan.digest, query.index, cells, mechanism.words)
        yield who, cells, mechanism.release(unit, words)


def _population(run: KeyedRun) -> KeyedPopulation:
    if run.population is None:
        raise InvalidInput("the run has no key; use the run that run_keyed gave")
    return run.population
