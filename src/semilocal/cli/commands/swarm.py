"""``semilocal swarm``: one real device per position of a file, for tests and demonstrations.

One process then knows everybody's position.
"""

from __future__ import annotations

import argparse
import asyncio
import math
from typing import Any

import numpy as np

from ...arrays import Floats
from ...errors import MOST_LINES, InvalidInput, printable
from ...geometry.box import Box
from ...io.files import read_text
from ...io.positions import fit, inside, read_for_box
from ...protocol.participant import Policy
from ...protocol.task import Task
from .. import people
from ..arguments import add_seed, existing_file, number, server_url, whole
from ..devices import URL_HELP, add_new_server, add_patience, find_task, reach, say, server_of
from ..exits import DONE, FOUND

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("url", metavar="URL", type=server_url, help=URL_HELP)
    parser.add_argument(
        "--points", required=True, metavar="FILE", type=existing_file, help="positions: CSV, Parquet or GeoJSON"
    )
    people.add_arguments(parser, several=False)
    parser.add_argument("--devices", type=whole(1), metavar="N", help="how many, drawn without repetition (all)")
    parser.add_argument(
        "--tokens", metavar="FILE", type=existing_file, help="one token per line; leave out where enrolment is open"
    )
    parser.add_argument("--vaults", metavar="FOLDER", help="keep the vaults there (in memory)")
    add_seed(parser, "which positions are drawn, not the noise", default=0)
    parser.add_argument("--drop-outside", action="store_true", help="leave out positions outside the domain")
    parser.add_argument("--max-epsilon", type=number(0), default=1e6, metavar="E", help="as for join, per device")
    parser.add_argument("--max-exposure", type=number(0), metavar="X", help="as for join, per device")
    parser.add_argument("--min-k", type=whole(1), default=2, metavar="K", help="smallest crowd to accept (%(default)s)")
    parser.add_argument("--max-delta", type=number(0), metavar="D", help="largest chance of missing that crowd (any)")
    parser.add_argument("--allow-no-crowd", action="store_true", help="join tasks that keep no crowd, too")
    add_new_server(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_patience(parser)


def run(args: argparse.Namespace) -> int:
    """Run a crowd of devices; 0 if every device has a region."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_crowd(args))


async def _crowd(args: argparse.Namespace) -> int:
    from ...device.channel import Channels
    from ...device.swarm.run import AT_ONCE, SwarmResult, run_swarm
    from ...device.swarm.uploads import UploadsResult, run_uploads
    from ...device.transport import LeanWire

    tokens = (
        [] if args.tokens is None else [line.strip() for line in read_text(args.tokens).splitlines() if line.strip()]
    )
    policy = Policy(
        max_epsilon=args.max_epsilon, max_exposure=args.max_exposure, min_k=args.min_k,
        max_delta=math.inf if args.max_delta is None else args.max_delta, allow_no_crowd=args.allow_no_crowd,
    )  # fmt: skip
    server = server_of(args.url)
    await reach(server, patience=args.patience)
    connect = Channels(LeanWire, at_once=AT_ONCE, notify=say)
    try:
        name, task, _ = await find_task(connect(server), args.url)
        box = task.box if isinstance(task, Task) else task.pooled.box
        points = _positions(args, box)
        options: dict[str, Any] = {
            "policy": policy, "tokens": tokens, "folder": args.vaults, "show": not args.quiet,
            "new_server": args.new_server,
        }  # fmt: skip
        url = f"{server}/tasks/{name}"
        if isinstance(task, Task):
            result: SwarmResult | UploadsResult = await run_swarm(url, points, channel=connect(server), **options)
        else:
            result = await run_uploads(url, points, connect=connect, **options)
    finally:
        await connect.aclose()
    print(printable(result.text(), most=MOST_LINES, lines=True))
    everybody = all(summary.outcome in ("finished", "uploaded") for summary in result.summaries)
    return DONE if everybody and not result.failures else FOUND


def _positions(args: argparse.Namespace, box: Box) -> Floats:
    rng = np.random.default_rng(args.seed)
    table = read_for_box(args.points, box, labels=people.person_labels(args))
    line = f"{len(table):,} positions from the columns {', '.join(table.names)}"
    rows = people.chosen_rows(args, table, rng)
    if args.drop_outside:
        there = inside(table.points, box)[rows]
        if not there.all():
            line += f"; {int(np.count_nonzero(~there)):,} outside the domain were dropped, as asked for"
        points = table.points[rows[there]]
    else:
        points = fit(table, box)[0][rows]
    print(f"{line}.", flush=True)
    wanted = len(points) if args.devices is None else args.devices
    if wanted > len(points) or not len(points):
        raise InvalidInput(f"--devices must be from 1 to the {len(points)} people in the file; got {wanted}")
    return points[np.sort(rng.permutation(len(points))[:wanted])]


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
