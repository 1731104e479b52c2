"""``semilocal swarm``: one real device per row of a file, for tests and demonstrations.

One process then knows everybody's position. Every row is another device, whoever it belongs to.
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
from ...protocol.policy import Policy
from ...protocol.task import Task
from ...words import number_of
from ..catalogue import DONE, FOUND
from ..devices import Patience, TaskUrl, find_task, reach, say
from ..options import existing, flat, option, whole

if TYPE_CHECKING:
    from ...sharing.pair import PairTask

__all__ = ["SwarmOptions", "run"]

_ANY = Policy(max_epsilon=1e6, min_k=1, max_delta=1.0, allow_no_crowd=True)  # nobody's limits


@flat
@dataclass(frozen=True, kw_only=True)
class SwarmOptions:
    """The crowd."""

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
    seed: Annotated[int, option("which positions are drawn, not the noise", "S", whole(0))] = 0
    quiet: Annotated[bool, option("no progress")] = False
    patience: Patience = 30.0


def run(url: TaskUrl, /, *, options: SwarmOptions) -> int:
    """Run a crowd of devices; 0 if every device has a region."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_crowd(url, options))


async def _crowd(url: str, args: SwarmOptions) -> int:
    from ...device.channel import Channels, split_url
    from ...device.swarm import AT_ONCE, run_swarm
    from ...device.transport import LeanWire

    tokens = [] if args.tokens is None else read_text(args.tokens).split()
    server = split_url(url)[0]
    await reach(server, patience=args.patience)
    connect = Channels(LeanWire, at_once=AT_ONCE, notify=say, kept=False)
    try:
        found = await find_task(connect(server), url)
        if args.value is None:
            found.check_value(None)
        points, values = _positions(args, found.task)
        result = await run_swarm(
            f"{server}/tasks/{found.name}", points, connect=connect, allow_bucket=True, policy=_ANY, tokens=tokens,
            show=not args.quiet, values=values,
        )  # fmt: skip
    finally:
        await connect.aclose()
    print(printable(result.text(), most=MOST_LINES, lines=True))
    everybody = all(summary.outcome in ("finished", "uploaded") for summary in result.summaries)
    return DONE if everybody and not result.failures else FOUND


def _positions(args: SwarmOptions, task: Task | PairTask) -> tuple[Floats, Floats | None]:
    """Positions of the devices, float64[n, 0] if the task needs none, and their values if a column is named."""
    tree = task.hierarchy if isinstance(task, Task) else task.pooled.hierarchy
    values = () if args.value is None else (args.value,)
    if isinstance(task, Task) or task.needs_place:
        table = read_for_box(args.points, tree.box, words=tree.leaves or None, values=values)
        points = fit(table, tree.box)
        what, words = "position", ""
    else:
        table = read_points(args.points, columns=values, values=values)
        points = np.empty((len(table), 0))
        what, words = "value", "; the task needs no positions"
    print(f"{number_of(len(table), what)} from the columns {', '.join(table.names)}{words}.", flush=True)
    wanted = len(points) if args.devices is None else args.devices
    if wanted > len(points):
        raise InvalidInput(f"--devices must be from 1 to the {number_of(len(points), 'row')} in the file; got {wanted}")
    drawn = np.sort(np.random.default_rng(args.seed).permutation(len(points))[:wanted])
    own: Any = list(table.values.values())
    return points[drawn], own[0][drawn] if own else None


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
