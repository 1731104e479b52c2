"""What a job says at the end: results, what is promised, and what it cost, in words or as one JSON object.

Knows words on the terminal. Prints nothing that is not a function of the public transcript, unless the data is public.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..accounting import Ledger
from ..pooled.loss import guarantee
from ..protocol.promise import Guarantee
from ..protocol.promise_words import FROM_DATA
from ..release.pooled_counts import PooledCounts
from ..release.pooled_mean import PooledMean
from ..release.pooled_points import PooledPoints
from ..release.streamed import AnyRun
from .job_options import JobOptions, Promise

__all__ = ["Outcome", "promise_to_people", "tell"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a job found.

    Attributes
    ----------
    run : Run, SourceRun, PooledCounts, PooledMean or PooledPoints
        What it rests on.
    ledger : Ledger
        What one participant lost.
    found : dict
        For JSON.
    words : list of str
        For people.
    table : str
        Goes to stdout by itself; the words then go to stderr.
    own : str
        The participants' own value and its range, in words; empty if there is none.
    """

    run: AnyRun | PooledCounts | PooledMean | PooledPoints
    ledger: Ledger
    found: dict[str, Any]
    words: list[str]
    table: str = field(default="", repr=False)
    own: str = ""


def tell(command: str, promise: Promise, options: JobOptions, outcome: Outcome) -> None:
    """Print results and promise: as one JSON object, or in words; the whole statement if it is asked for."""
    run, ledger = outcome.run, outcome.ledger
    whole = options.output.json or options.output.explain
    promised = msgspec.structs.replace(promise_to_people(promise, options, run, ledger, whole=whole), own=outcome.own)
    seed, counted = options.output.seed, options.people.counted_in
    if isinstance(run, AnyRun):
        ledger = ledger.settle(run.partition).times(options.people.rows_per_user)
    if options.output.json:
        everything = {"command": command, counted: run.participants, **outcome.found}
        everything |= {"privacy": promised.to_json(), "simulation": run.simulated, "seed": seed}
        print(json.dumps(everything))
        return
    lines = list(outcome.words)
    if seed is not None:
        lines.insert(0, f"Seed {seed} makes the noise repeatable, so it protects nobody.")
    if options.output.explain:
        lines += ["", promised.text(), "", str(ledger)]
    else:
        lines.append(f"Promised: {promised.sentence()}")
        if FROM_DATA in promised.notes:
            lines.append(FROM_DATA)
        if promised.rows > 1:
            lines.append(f"One person may have {promised.rows} rows: the losses are for all of them together.")
        lines.append("The whole statement: --explain.")
    stream = sys.stderr if outcome.table else sys.stdout
    print("\n".join(lines), file=stream, flush=True)
    print(outcome.table, end="")


def promise_to_people(
    promise: Promise,
    options: JobOptions,
    run: AnyRun | PooledCounts | PooledMean | PooledPoints,
    ledger: Ledger,
    *,
    whole: bool = True,
) -> Guarantee:
    """What is promised to a person, who may have several rows; not by distance unless the ``whole`` is asked for."""
    found = _promise(options, run, ledger, whole=whole)
    if promise.bounds != "data":
        return found
    return msgspec.structs.replace(found, notes=(*found.notes, FROM_DATA))


def _promise(
    options: JobOptions, run: AnyRun | PooledCounts | PooledMean | PooledPoints, ledger: Ledger, *, whole: bool
) -> Guarantee:
    if isinstance(run, AnyRun):
        settled = ledger.settle(run.partition).times(options.people.rows_per_user)
        return settled.guarantee(run.partition)
    if isinstance(run, PooledCounts) and not whole:
        return guarantee(run.partition.task, mark=run.partition.mark)
    return run.guarantee  # the noise already grew with the rows per person
