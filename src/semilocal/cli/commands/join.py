"""``semilocal join``: take part in a campaign with one position.

The position stays on this device; for a task of two servers it leaves in two sealed shares. Stopping and starting again
is safe at any moment: the vault knows where to go on.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import MOST_LINES, InvalidInput, printable
from ...geometry.places import parse_numbers
from ...protocol.plan import Plan
from ...protocol.policy import MAX_DELTA, MAX_EXPOSURE, MIN_K, Policy
from ...protocol.task import Task
from ..arguments import describe_position, number, parse_position, server_url, whole
from ..devices import URL_HELP, Found, add_new_server, add_patience, find_task, reach, say, server_of, warn_plain_http
from ..exits import DONE, FOUND
from ..hidden import HIDDEN_HELP, read_hidden

if TYPE_CHECKING:
    from ...device.channel import Channels
    from ...device.swarm.many import Device
    from ...device.vault import Vault
    from ...sharing.pair import PairTask

__all__ = ["add_arguments", "default_vault", "run"]

DEFAULT_MAX_EPSILON = "10"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("url", metavar="URL", type=server_url, help=URL_HELP)
    parser.add_argument("--token", help=f"the one-time token to enrol with (SEMILOCAL_TOKEN); {HIDDEN_HELP}")
    parser.add_argument(
        "--position", metavar="P",
        help=f"required (SEMILOCAL_POSITION); {HIDDEN_HELP}; "
        "such as 37.77,-122.42 (latitude, longitude if the task's axes are called so, else in the order of its "
        "axes) or name=number,…",
    )  # fmt: skip
    parser.add_argument("--yes", action="store_true", help="take part without being asked")
    parser.add_argument("--dry-run", action="store_true", help="show what would be sent, send nothing, write nothing")
    parser.add_argument("--vault", metavar="FILE", type=Path, help="secret and state (~/.local/share/semilocal/vault)")
    parser.add_argument(
        "--max-epsilon", metavar="E", default=None,
        help="most that all tasks of this vault together may cost inside your regions, worst case "
        f"(a new vault has {DEFAULT_MAX_EPSILON}; kept in the vault)",
    )  # fmt: skip
    parser.add_argument(
        "--max-exposure",
        metavar="X",
        default=None,
        help=f"most that may be lost to servers that lie: every answer counts ({MAX_EXPOSURE:g} per task)",
    )
    parser.add_argument("--min-k", type=whole(1), metavar="K", help=f"smallest crowd to accept ({MIN_K})")
    parser.add_argument(
        "--max-delta", type=number(0), metavar="D", help=f"largest chance of missing that crowd ({MAX_DELTA:g})"
    )
    parser.add_argument(
        "--min-side", metavar="S[,S]",
        help="never name a cell with a shorter side: one number or one per axis, in kilometres for longitude and "
        "latitude, else in units of the axes (no limit)",
    )  # fmt: skip
    parser.add_argument("--allow-no-crowd", action="store_true", help="join tasks that keep no crowd, too")
    add_new_server(parser)
    parser.add_argument(
        "--allow-bucket",
        action="store_true",
        help="with two servers: join tasks that make your coarse cell public, too",
    )
    parser.add_argument("--spread", type=number(0), default=1.0, metavar="S", help="send up to S seconds late (1)")
    add_patience(parser)


def run(args: argparse.Namespace) -> int:
    """Join a task and follow it to its end."""
    place = args.vault or default_vault()
    if place.is_dir():
        raise InvalidInput(f"--vault {place}: is a folder; give the name of a file")
    if not (args.yes or args.dry_run or sys.stdin.isatty()):
        raise InvalidInput("nobody can be asked here: give --yes to take part, or --dry-run to see what would be sent")
    args.token = read_hidden(args.token, option="--token", variable="SEMILOCAL_TOKEN")
    args.position = read_hidden(args.position, option="--position", variable="SEMILOCAL_POSITION")
    if not args.position:
        raise InvalidInput("--position is missing; --position - asks for it, so that no list of processes shows it")
    return asyncio.run(_follow(args, place))


async def _follow(args: argparse.Namespace, place: Path) -> int:
    from ...device.channel import Channels
    from ...device.transport import new_client
    from ...device.vault import Vault

    server = server_of(args.url)
    await reach(server, patience=args.patience)
    async with new_client(connections=4) as client:
        connect = Channels(lambda origin: client, notify=say)
        if args.dry_run:
            found = await find_task(connect(server), args.url)
            print(await _shown(args, found, connect, server))
            print("Nothing was sent and nothing was written.")
            return DONE
        with Vault.open(place) as vault:
            return await _join(args, vault, connect, server)


async def _shown(args: argparse.Namespace, found: Found, connect: Channels, server: str) -> str:
    """What the owner sees before deciding; a pair is compared on both servers first."""
    name, task, plan = found
    if isinstance(task, Task):
        assert plan is not None
        warn_plain_http(server)
        return _preview(task, plan, parse_position(args.position, task.box), server)
    from ...device.upload import fetch_both
    from ..pair_device import check_options, preview

    check_options(args)
    for operator in (task.leader, task.helper):
        warn_plain_http(operator.origin)
        await reach(operator.origin, patience=args.patience)
    pair = await fetch_both(name, server, connect)
    return preview(pair, parse_position(args.position, pair.pooled.box))


async def _join(args: argparse.Namespace, vault: Vault, connect: Channels, server: str) -> int:
    from ...device.binding import check_operators, check_server
    from ..pair_device import stored_url

    running = [entry for entry in vault.contents.memberships if entry.server == server and not entry.over]
    url = args.url
    if url.rstrip("/") == server:
        joined = [f"{server}/tasks/{entry.task_id.hex()}" for entry in running]
        url = joined[0] if len(joined) == 1 else stored_url(vault, server) or url
    found = await find_task(connect(server), url)
    name, task, _ = found
    task_id = bytes.fromhex(name)
    if vault.contents.membership(task_id) is None and vault.contents.upload(task_id) is None:
        if not args.new_server:  # before the owner reads and decides
            if isinstance(task, Task):
                check_server(vault.contents, server, task)
            else:
                check_operators(vault.contents, task)
        print(await _shown(args, found, connect, server), flush=True)
        if not args.yes and not _agreed():
            print("Nothing was sent.")
            return DONE
    else:
        warn_plain_http(server)
        print(f"You joined this task before; going on with it. Your secret stays in {vault.path}.", flush=True)
    device = _device(args, f"{server}/tasks/{name}", task, vault, connect)
    summary = await device.run()
    print(printable(summary.text(), most=MOST_LINES, lines=True))
    return DONE if summary.outcome in ("finished", "uploaded") else FOUND


def _device(args: argparse.Namespace, url: str, task: Task | PairTask, vault: Vault, connect: Channels) -> Device:
    from ...device.agent import Agent
    from ...device.upload import Uploader

    options: dict[str, Any] = {
        "policy": _policy(args, vault), "token": args.token, "spread": args.spread,
        "notify": lambda line: print(printable(line, most=1000), flush=True), "new_server": args.new_server,
    }  # fmt: skip
    if isinstance(task, Task):
        position = parse_position(args.position, task.box)
        return Agent(url, vault, position=position, channel=connect(server_of(url)), **options)
    position = parse_position(args.position, task.pooled.box)
    return Uploader(url, vault, position=position, connect=connect, allow_bucket=args.allow_bucket, **options)


def _preview(task: Task, plan: Plan, position: tuple[float, ...], server: str) -> str:
    """What taking part means, and everything that would leave this device."""
    from ...protocol.promise import promise

    sent = [
        "an enrolment: a pseudonym made for this task alone, a key for it, and your token if you have one",
        f"up to {task.max_rounds} answers, one per round, about which part of your cell you are in: each is a small "
        "number drawn through noise",
    ]
    sent += [f"one noisy answer: {plan.releases[index]}" for index in plan.asked]
    return "\n".join(
        [
            task.statement(),
            f"Your position, which stays on this device: {describe_position(position, task.box)}.",
            f"What would be sent to {server}:",
            *(f"  - {line}" for line in sent),
            f"What it costs you: {promise(task, plan).sentence().rstrip('.')}.",
        ]
    )


def _agreed() -> bool:
    return input("Take part? [y/N] ").strip().lower() in ("y", "yes")


def _policy(args: argparse.Namespace, vault: Vault) -> Policy:
    """The owner's limits: those of the command line, those in the vault, and the defaults of a device."""
    from ...arrays import exact

    ledger = vault.contents.ledger
    cap = args.max_epsilon or ledger.max_epsilon or DEFAULT_MAX_EPSILON
    vault.set_caps(max_epsilon=cap, max_exposure=args.max_exposure or ledger.max_exposure)
    given: dict[str, Any] = {"min_k": args.min_k, "max_delta": args.max_delta}
    if args.min_side is not None:
        given["min_side"] = parse_numbers(args.min_side, "--min-side")
    if args.max_exposure is not None:
        given["max_exposure"] = float(exact(args.max_exposure))
    return Policy(
        max_epsilon=float(vault.contents.ledger.cap("epsilon") or 0),
        allow_no_crowd=args.allow_no_crowd,
        **{name: value for name, value in given.items() if value is not None},
    )


def default_vault() -> Path:
    """Where a device keeps its vault unless it is named."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "semilocal" / "vault"
