"""What a job says at the end: results, what is promised, and what it cost, in words or as one JSON object.

Knows words on the terminal. Prints nothing that is not a function of the public transcript, unless the data is public.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from ..accounting import Ledger
from ..pooled.loss import guarantee
from ..protocol.promise import Guarantee
from ..protocol.promise_words import FROM_DATA
from ..protocol.rule import PlayedRound, decide
from ..protocol.task import Task
from ..release.pooled_counts import PooledCounts
from ..release.pooled_mean import PooledMean
from ..release.pooled_points import PooledPoints
from ..release.streamed import AnyRun
from ..words import number_of
from .job_options import JobOptions

__all__ = ["Outcome", "promise_to_people", "tell", "trim_limit_advice"]


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


def tell(command: str, options: JobOptions, outcome: Outcome) -> None:
    """Print results and promise: as one JSON object, or in words; the whole statement if it is asked for."""
    run, ledger, shares = outcome.run, outcome.ledger, None
    whole = options.output.json or options.output.explain
    promised = msgspec.structs.replace(promise_to_people(options, run, ledger, whole=whole), own=outcome.own)
    seed, counted = options.output.seed, options.people.counted_in
    if isinstance(run, AnyRun):
        ledger = ledger.settle(run.partition).times(options.people.rows_per_user)
        if options.data.public_data:
            shares = {str(moves): share for moves, share in run.move_shares.items()}
    if options.output.json:
        everything = {"command": command, counted: run.participants, **outcome.found}
        everything |= {"privacy": promised.to_json(), "simulation": run.simulated, "seed": seed}
        print(json.dumps(everything if shares is None else {**everything, "move_shares": shares}))
        return
    lines = list(outcome.words)
    if seed is not None:
        lines.insert(0, f"Seed {seed} makes the noise repeatable, so it protects nobody.")
    if shares is not None:
        moved = "; ".join(f"{number_of(int(moves), 'time')} {100 * share:.3g} %" for moves, share in shares.items())
        lines.append(f"The data is public, so this may be shown: {counted} were moved {moved}.")
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
    options: JobOptions, run: AnyRun | PooledCounts | PooledMean | PooledPoints, ledger: Ledger, *, whole: bool = True
) -> Guarantee:
    """What is promised to a person, who may have several rows; not by distance unless the ``whole`` is asked for."""
    found = _promise(options, run, ledger, whole=whole)
    if options.data.bounds != "data":
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


def trim_limit_advice(task: Task, rounds: Sequence[PlayedRound]) -> str:
    """What to do if the limit of TRIM verdicts stopped a path; empty if it stopped none. From public tallies alone."""
    stopped = 0
    for played in rounds[: task.max_rounds] if task.rule == "trim" else ():
        rows = np.flatnonzero((played.frontier.trims >= task.max_trims) & ~played.kept.any(axis=1))
        if len(rows):
            one_more = np.full(len(rows), task.max_trims - 1, dtype=np.int64)
            frontier = played.frontier.rows(rows)._replace(trims=one_more)
            stopped += int(decide(task, frontier, played.responders[rows], played.tally[rows]).kept.any(axis=1).sum())
    if not stopped:
        return ""
    more = min(max(40, 2 * task.max_trims), task.max_rounds)  # no path has more TRIMs than rounds
    price = f"more moves, so up to {1 + more} x epsilon for a moved position against any inside its region"
    if task.accounting == "uniform":
        price = "each report then has less of epsilon, so other regions get larger"
    paths = "1 path" if stopped == 1 else f"{stopped} paths"
    return (
        f"the limit of {task.max_trims} TRIM verdicts stopped {paths}, so regions there are larger than they need to "
        f"be: the box is larger than the data. Take a smaller public box, or --max-trims {more} "
        f"({price})"
    )
