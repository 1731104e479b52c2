"""``semilocal swarm``: one real device per position of a file, for tests and demonstrations.

One process then knows everybody's position.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from ...arrays import Floats
from ...errors import MOST_LINES, InvalidInput, printable
from ...io.files import read_text
from ...io.points import fit, read_for_box, read_points
from ...protocol.participant import Policy
from ...protocol.task import Task
from ...simulation.people import draw_rows
from ...words import number_of
from ..catalogue import DONE, FOUND
from ..devices import Consent, TaskUrl, answering, check_asked, find_task, reach, say, server_of
from ..job_options import People
from ..options import advanced, existing, flat, number, option, whole
from ..people import person_labels, row_owners

if TYPE_CHECKING:
    from ...sharing.pair import PairTask

__all__ = ["SwarmOptions", "run"]


@flat
@dataclass(frozen=True, kw_only=True)
class SwarmOptions:
    """The crowd and its limits."""

    points: Annotated[
        Path,
        existing("positions: CSV, Parquet or GeoJSON; labels, in the column called as the table, where the task has a "
                 "table of labels; no positions are needed where the task asks for values alone"),
    ]  # fmt: skip
    devices: Annotated[int | None, option("how many, drawn without repetition (all)", "N", whole(1))] = None
    tokens: Annotated[Path | None, existing("one token per line; leave out where enrolment is open")] = None
    value: Annotated[str | None, option("column with the devices' own values, if the task asks for one", "COLUMN")] = (
        None
    )
    drop_outside: Annotated[bool, option("leave out positions outside the domain")] = False
    seed: Annotated[int, option("which positions are drawn, not the noise", "S", whole(0))] = 0
    quiet: Annotated[bool, option("no progress")] = False
    max_epsilon: Annotated[float, advanced("as for join, per device", "E", number(0))] = 1e6
    min_k: Annotated[int, advanced("smallest crowd to accept", "K", whole(1))] = 2
    max_delta: Annotated[float | None, advanced("largest chance of missing that crowd (any)", "D", number(0))] = None
    allow: Consent = Consent()


def run(url: TaskUrl, /, *, options: SwarmOptions, people: People = People()) -> int:
    """Run a crowd of devices; 0 if every device has a region."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_crowd(url, options, people))


async def _crowd(url: str, args: SwarmOptions, people: People) -> int:
    from ...device.channel import Channels
    from ...device.swarm import AT_ONCE, run_swarm
    from ...device.transport import LeanWire

    tokens = (
        [] if args.tokens is None else [line.strip() for line in read_text(args.tokens).splitlines() if line.strip()]
    )
    policy = Policy(
        max_epsilon=args.max_epsilon, min_k=args.min_k,
        max_delta=1.0 if args.max_delta is None else args.max_delta, allow_no_crowd=args.allow.allow_no_crowd,
    )  # fmt: skip
    server = server_of(url)
    await reach(server, patience=args.allow.patience)
    connect = Channels(LeanWire, at_once=AT_ONCE, notify=say, kept=False)
    try:
        async with answering(server, patience=args.allow.patience):
            found = await find_task(connect(server), url)
        name, task, _ = found
        check_asked(found, given=args.value is not None)
        points, values = _positions(args, people, task)
        options: dict[str, Any] = {
            "policy": policy, "tokens": tokens, "show": not args.quiet, "values": values,
        }  # fmt: skip
        task_url = f"{server}/tasks/{name}"
        result = await run_swarm(task_url, points, connect=connect, allow_bucket=args.allow.allow_bucket, **options)
    finally:
        await connect.aclose()
    print(printable(result.text(), most=MOST_LINES, lines=True))
    everybody = all(summary.outcome in ("finished", "uploaded") for summary in result.summaries)
    return DONE if everybody and not result.failures else FOUND


def _positions(args: SwarmOptions, people: People, task: Task | PairTask) -> tuple[Floats, Floats | None]:
    """Positions of the devices, float64[n, 0] if the task needs none, and their values if a column is named."""
    rng = np.random.default_rng(args.seed)
    tree = task.hierarchy if isinstance(task, Task) else task.pooled.hierarchy
    needed = isinstance(task, Task) or task.needs_place
    columns: dict[str, Any] = {"labels": person_labels(people), "values": () if args.value is None else (args.value,)}
    if needed:
        table = read_for_box(args.points, tree.box, words=tree.leaves or None, **columns)
        line = f"{number_of(len(table), 'position')} from the columns {', '.join(table.names)}"
        if args.drop_outside:  # how many are outside is not public: it is the difference of both numbers
            line = f"positions from the columns {', '.join(table.names)}; those outside the domain are left out"
    else:
        table = read_points(args.points, columns=columns["values"], **columns)
        line = f"{number_of(len(table), 'value')} from the column {table.names[0]}; the task needs no positions"
    owners = row_owners(people, table, pooled=not isinstance(task, Task))
    rows = np.arange(len(table)) if owners is None else draw_rows(owners, rows_per_user=1, rng=rng)
    if not needed:
        points = np.empty((len(rows), 0))
    elif args.drop_outside:
        rows = rows[tree.box.inside(table.points)[rows]]
        points = table.points[rows]
    else:
        points = fit(table, tree.box, devices=True)[0][rows]
    print(f"{line}.", flush=True)
    wanted = len(points) if args.devices is None else args.devices
    if wanted > len(points) or not len(points):
        there = (
            "people inside the domain"
            if args.drop_outside
            else f"{number_of(len(points), 'person', 'people')} in the file"
        )
        raise InvalidInput(f"--devices must be from 1 to the {there}; got {wanted}")
    drawn = np.sort(rng.permutation(len(points))[:wanted])
    values = [column[rows[drawn]] for column in table.values.values()]
    return points[drawn], values[0] if values else None


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
