"""The device's commands: ``join`` for one device, ``swarm`` for a whole crowd of test devices.

``add_parsers`` adds them to a parser's sub-commands; each sets ``run``, a function of the parsed arguments that returns
the exit code. Knows arguments and printing. Knows nothing that a library user could not call.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from ...arrays import exact
from ...errors import InvalidInput, ServerViolation
from ...protocol.participant import Policy
from ...protocol.task import Task
from ..positions import describe, parse_position, points_for

__all__ = ["add_parsers", "run_join", "run_swarm_command"]

DEFAULT_MAX_EPSILON = "10"
_EXIT = {"finished": 0, "lost": 3, "cancelled": 3, "refused": 4, "unfinished": 5}


def add_parsers(subparsers: Any) -> None:
    """Add the device's commands to what ``ArgumentParser.add_subparsers`` returned."""
    join = subparsers.add_parser(
        "join",
        help="take part in a campaign with one position",
        description="Take part in a campaign. The position never leaves this device; what does is a few bits through "
        "noise. Stopping and starting again is safe at any moment: the vault knows where to go on.",
    )
    join.add_argument("url", metavar="URL", help="the task, https://server/tasks/ID, or a server with one open task")
    join.add_argument("--token", default="", help="the one-time token to enrol with")
    join.add_argument(
        "--position", required=True, metavar="P",
        help="such as 37.77,-122.42 (latitude, longitude if the task's axes are named so, else in the order of its "
        "axes) or name=number,…; write --position=-12,3 if it begins with a minus",
    )  # fmt: skip
    join.add_argument("--vault", metavar="FILE", help="secret and state (default: ~/.local/share/semilocal/vault)")
    join.add_argument(
        "--max-epsilon", metavar="E", default=None,
        help="most that all tasks of this vault together may cost inside your regions, worst case "
        f"(a new vault has {DEFAULT_MAX_EPSILON}; kept in the vault)",
    )  # fmt: skip
    join.add_argument(
        "--max-exposure", metavar="X", default=None,
        help="most that may be lost to servers that lie: every answer counts (default: no limit but the task's rounds)",
    )  # fmt: skip
    _add_policy(join)
    join.add_argument("--spread", type=float, default=1.0, metavar="S", help="send up to S seconds late (default: 1)")
    join.set_defaults(run=run_join)

    swarm = subparsers.add_parser(
        "swarm",
        help="run a whole crowd of real devices, for tests and demonstrations",
        description="Run one real device per position of a file. For tests and demonstrations: one process then knows "
        "everybody's position.",
    )
    swarm.add_argument("url", metavar="URL", help="the task, https://server/tasks/ID, or a server with one open task")
    swarm.add_argument("--points", required=True, metavar="FILE", help="positions: CSV, Parquet or GeoJSON")
    swarm.add_argument("--devices", type=int, metavar="N", help="how many, drawn without repetition (default: all)")
    swarm.add_argument("--tokens", metavar="FILE", help="one token per line; leave out where enrolment is open")
    swarm.add_argument("--vaults", metavar="FOLDER", help="keep the vaults there (default: in memory)")
    swarm.add_argument("--seed", type=int, default=0, help="which positions are drawn (not the noise; default: 0)")
    swarm.add_argument("--drop-outside", action="store_true", help="leave out positions outside the domain, and say so")
    swarm.add_argument("--max-epsilon", type=float, default=1e6, metavar="E", help="as for join, per device")
    swarm.add_argument("--max-exposure", type=float, default=None, metavar="X", help="as for join, per device")
    swarm.add_argument("--quiet", action="store_true", help="no progress")
    _add_policy(swarm)
    swarm.set_defaults(run=run_swarm_command)


def _add_policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--min-k", type=int, default=2, metavar="K", help="smallest crowd to accept (default: 2)")
    parser.add_argument(
        "--max-delta", type=float, metavar="D",
        help="largest chance of missing that crowd, however often one is moved (default: any)",
    )  # fmt: skip
    parser.add_argument("--allow-no-crowd", action="store_true", help="join tasks that keep no crowd, too")


def run_join(arguments: argparse.Namespace) -> int:
    """Join a task with one position and follow it to its end; the exit code."""
    from ...device.channel import Channel
    from ...device.transport import new_client
    from ...device.vault import Vault

    place = Path(arguments.vault) if arguments.vault else default_vault()
    limit = None if arguments.max_exposure is None else float(exact(arguments.max_exposure))

    async def follow() -> int:
        async with new_client(connections=4) as client:
            with Vault.open(place) as vault:
                ledger = vault.contents.ledger
                cap = arguments.max_epsilon or ledger.max_epsilon or DEFAULT_MAX_EPSILON
                vault.set_caps(max_epsilon=cap, max_exposure=arguments.max_exposure or ledger.max_exposure)
                return await _join(arguments, vault, Channel(_server(arguments.url), client), limit)

    _warn_plain_http(arguments.url)
    return asyncio.run(follow())


async def _join(arguments: argparse.Namespace, vault: Any, channel: Any, limit: float | None) -> int:
    from ...device.agent import Agent

    ledger = vault.contents.ledger
    cap = ledger.cap("epsilon")
    policy = _policy(arguments, float(cap), limit)
    running = [entry for entry in vault.contents.memberships if entry.server == channel.url and not entry.over]
    url = f"{channel.url}/tasks/{running[0].task_id.hex()}" if len(running) == 1 else arguments.url
    name, task = await _find_task(channel, arguments.url if _names_task(arguments.url) else url)
    position = parse_position(arguments.position, task.box)
    print(task.statement())
    print(f"Your position, which stays in {vault.path}: {describe(position, task.box)}.", flush=True)
    agent = Agent(
        f"{channel.url}/tasks/{name}", vault, position=position, policy=policy, token=arguments.token, channel=channel,
        notify=lambda line: print(line, flush=True), spread=arguments.spread,
    )  # fmt: skip
    summary = await agent.run()
    print(summary.text())
    return _EXIT[summary.outcome]


def run_swarm_command(arguments: argparse.Namespace) -> int:
    """Run a crowd of devices; the exit code is 0 if every device has a region."""
    from ...device.channel import Channel
    from ...device.swarm.run import AT_ONCE, run_swarm
    from ...device.transport import LeanWire

    tokens: list[str] = []
    if arguments.tokens:
        tokens = [line.strip() for line in Path(arguments.tokens).read_text().splitlines() if line.strip()]
    policy = _policy(arguments, arguments.max_epsilon, arguments.max_exposure)

    async def crowd() -> int:
        wire = LeanWire(_server(arguments.url))
        try:
            channel = Channel(_server(arguments.url), wire, at_once=AT_ONCE)
            name, task = await _find_task(channel, arguments.url)
            points, said = points_for(arguments.points, task.box, drop_outside=arguments.drop_outside)
            print(f"{said}.", flush=True)
            wanted = len(points) if arguments.devices is None else arguments.devices
            if not 1 <= wanted <= len(points):
                raise InvalidInput(f"--devices must be from 1 to the {len(points)} positions in the file; got {wanted}")
            chosen = np.random.default_rng(arguments.seed).permutation(len(points))[:wanted]
            result = await run_swarm(
                f"{channel.url}/tasks/{name}", points[np.sort(chosen)], policy=policy, tokens=tokens, channel=channel,
                folder=arguments.vaults, show=not arguments.quiet,
            )  # fmt: skip
            await channel.aclose()
        finally:
            await wire.aclose()
        print(result.text())
        good = all(summary.outcome == "finished" for summary in result.summaries)
        return 0 if good and not result.failures else 1

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(crowd())


def _policy(arguments: argparse.Namespace, max_epsilon: float, max_exposure: float | None) -> Policy:
    return Policy(
        max_epsilon=max_epsilon, max_exposure=max_exposure, min_k=arguments.min_k,
        max_delta=math.inf if arguments.max_delta is None else arguments.max_delta,
        allow_no_crowd=arguments.allow_no_crowd,
    )  # fmt: skip


def default_vault() -> Path:
    """Where a device keeps its vault unless told otherwise."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "semilocal" / "vault"


async def _find_task(channel: Any, url: str) -> tuple[str, Task]:
    """Id and task behind a URL; the agent checks them again, and pins them."""
    from ...device.pinned import only_task, pinned_task, split_url

    name = split_url(url)[1] or await only_task(channel)
    task = await channel.message(f"/tasks/{name}", lambda data: pinned_task(data, name))
    if task is None:
        raise ServerViolation("malformed", "the server does not show its task")
    return name, task


def _server(url: str) -> str:
    from ...device.pinned import split_url

    return split_url(url)[0]


def _names_task(url: str) -> bool:
    from ...device.pinned import split_url

    return bool(split_url(url)[1])


def _warn_plain_http(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        warning = "http is not encrypted; whoever listens learns your region and your key. Use https."
        print(f"Warning: {warning}", file=sys.stderr)


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
