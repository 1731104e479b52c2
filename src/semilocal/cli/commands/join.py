"""``semilocal join``: take part in a campaign with one position.

The position stays on this device; for a task of two servers it leaves in two sealed shares. Stopping and starting again
is safe at any moment: the vault knows where to continue.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from ...arrays import exact
from ...errors import MOST_LINES, InvalidInput, ServerViolation, printable
from ...geometry.places import parse_numbers
from ...protocol.plan import Plan
from ...protocol.policy import MAX_DELTA, MAX_EPSILON, MIN_K, Policy, check_task
from ...protocol.task import Task
from ..arguments import amount, describe_position, number, parse_position, whole
from ..devices import (
    Found,
    NewServer,
    Patience,
    TaskUrl,
    answering,
    find_task,
    own_value,
    reach,
    read_value,
    say,
    server_of,
    warn_plain_http,
)
from ..exits import DONE, FOUND
from ..hidden import HIDDEN_HELP, read_hidden
from ..options import FILE, group, option

if TYPE_CHECKING:
    from ...device.channel import Channels
    from ...device.swarm.many import Device
    from ...device.vault import Vault
    from ...sharing.pair import PairTask

__all__ = ["JoinOptions", "default_vault", "run"]


@group()
@dataclass(frozen=True, kw_only=True)
class JoinOptions:
    """Who takes part, and the owner's limits.

    Attributes
    ----------
    yes
        take part without being asked
    dry_run
        show what would be sent, send nothing, write nothing
    vault
        secret and state (~/.local/share/semilocal/vault)
    min_side
        never name a region without a whole cell of such sides: one number or one per axis, in kilometres for longitude
        and latitude, else in units of the axes (no limit). A server that lies can lead you to the smallest you allow
    allow_no_crowd
        join tasks that keep no crowd, too
    allow_bucket
        with two servers: join tasks that make your coarse cell public, too
    spread
        send up to S seconds late
    """

    token: Annotated[str | None, option(help=f"the one-time token to enrol with (SEMILOCAL_TOKEN); {HIDDEN_HELP}")] = (
        None
    )
    position: Annotated[
        str | None,
        option(
            metavar="P",
            help=f"required where the task needs a place (SEMILOCAL_POSITION); {HIDDEN_HELP}; such as 37.77,-122.42 "
            "(latitude, longitude if the task's axes are called so, else in the order of its axes), name=number,… or, "
            "in a table of labels, a label such as J45",
        ),
    ] = None
    value: Annotated[
        str | None,
        option(metavar="V", help=f"your own value, if the task asks for one (SEMILOCAL_VALUE); {HIDDEN_HELP}"),
    ] = None
    yes: bool = False
    dry_run: bool = False
    vault: Annotated[Path | None, FILE] = None
    max_epsilon: Annotated[
        str | None,
        option(
            amount,
            metavar="E",
            help="most that all tasks of this vault together may cost, worst case: between any two places of your "
            f"region, delta 0, also if the server lies (a new vault has {MAX_EPSILON}; kept in the vault)",
        ),
    ] = None
    min_k: Annotated[int | None, option(whole(1), "K", f"smallest crowd to accept ({MIN_K})")] = None
    max_delta: Annotated[
        float | None, option(number(0), "D", f"largest chance of missing that crowd ({MAX_DELTA:g})")
    ] = None
    min_side: Annotated[str | None, option(metavar="S[,S]")] = None
    allow_no_crowd: bool = False
    new_server: NewServer = False
    allow_bucket: bool = False
    spread: Annotated[float, option(number(0), "S")] = 1.0
    patience: Patience = 30.0


class _Request(NamedTuple):
    """What an owner asks for: the address, what was hidden, and the options."""

    url: str
    token: str
    position: str
    value: str
    options: JoinOptions


def run(url: TaskUrl, /, *, options: JoinOptions = JoinOptions()) -> int:
    """Join a task and follow it to its end."""
    place = options.vault or default_vault()
    if place.is_dir():
        raise InvalidInput(f"--vault {place}: is a folder; give the name of a file")
    if not (options.yes or options.dry_run or sys.stdin.isatty()):
        raise InvalidInput("nobody can be asked here: give --yes to take part, or --dry-run to see what would be sent")
    token = read_hidden(options.token, option="--token", variable="SEMILOCAL_TOKEN")
    position = read_hidden(options.position, option="--position", variable="SEMILOCAL_POSITION")
    value = read_hidden(options.value, option="--value", variable="SEMILOCAL_VALUE")
    _limits(options, max_epsilon=math.inf)  # refuses before a server is asked
    read_value(value)
    return asyncio.run(_follow(_Request(url, token, position, value, options), place))


async def _follow(asked: _Request, place: Path) -> int:
    from ...device.channel import Channels
    from ...device.transport import new_client
    from ...device.vault import Vault

    server = server_of(asked.url)
    await reach(server, patience=asked.options.patience)
    async with new_client(connections=4) as client:
        connect = Channels(lambda origin: client, notify=say)
        if asked.options.dry_run:
            async with answering(server, patience=asked.options.patience):
                found = await find_task(connect(server), asked.url)
            print(await _shown(asked, found, connect, server))
            if refused := _refused(asked.options, found, place):
                print(f"With these limits your device would refuse, and send none of it: {refused}.")
            print("Nothing was sent and nothing was written.")
            return DONE
        with Vault.open(place) as vault:
            return await _join(asked, vault, connect, server)


async def _shown(asked: _Request, found: Found, connect: Channels, server: str) -> str:
    """What the owner sees before deciding; a pair is compared on both servers first."""
    name, task, plan = found
    own_value(found, asked.value)
    if isinstance(task, Task):
        assert plan is not None
        warn_plain_http(server)
        return _preview(task, plan, _position(asked, task), server)
    from ...device.upload import fetch_both
    from ..pair_device import check_options, preview

    check_options(asked.options.min_k, asked.options.max_delta)
    for operator in (task.leader, task.helper):
        warn_plain_http(operator.origin)
        await reach(operator.origin, patience=asked.options.patience)
    async with answering(f"{task.leader.origin} or {task.helper.origin}", patience=asked.options.patience):
        pair = await fetch_both(name, server, connect)
    return preview(pair, _position(asked, pair))


async def _join(asked: _Request, vault: Vault, connect: Channels, server: str) -> int:
    from ...device.binding import check_operators, check_server
    from ..pair_device import stored_url

    running = [entry for entry in vault.contents.memberships if entry.server == server and not entry.over]
    url = asked.url
    if url.rstrip("/") == server:
        joined = [f"{server}/tasks/{entry.task_id.hex()}" for entry in running]
        url = joined[0] if len(joined) == 1 else stored_url(vault, server) or url
    async with answering(server, patience=asked.options.patience):
        found = await find_task(connect(server), url)
    name, task, _ = found
    task_id = bytes.fromhex(name)
    if vault.contents.membership(task_id) is None and vault.contents.upload(task_id) is None:
        if not asked.options.new_server:  # before the owner reads and decides
            if isinstance(task, Task):
                check_server(vault.contents, server, task)
            else:
                check_operators(vault.contents, task)
        print(await _shown(asked, found, connect, server), flush=True)
        if not asked.options.yes and not _agreed():
            print("Nothing was sent.")
            return DONE
    else:
        warn_plain_http(server)
        print(f"You joined this task before; going on with it. Your secret stays in {vault.path}.", flush=True)
    device = _device(asked, f"{server}/tasks/{name}", found, vault, connect)
    summary = await device.run()
    print(printable(summary.text(), most=MOST_LINES, lines=True))
    return DONE if summary.outcome in ("finished", "stopped", "uploaded") else FOUND


def _device(asked: _Request, url: str, found: Found, vault: Vault, connect: Channels) -> Device:
    from ...device.agent import Agent
    from ...device.upload import Uploader

    task = found.task
    options: dict[str, Any] = {
        "policy": _policy(asked.options, vault), "token": asked.token, "spread": asked.options.spread,
        "notify": lambda line: print(printable(line, most=1000), flush=True), "new_server": asked.options.new_server,
        "value": own_value(found, asked.value),
    }  # fmt: skip
    position = _position(asked, task)
    if isinstance(task, Task):
        return Agent(url, vault, position=position, channel=connect(server_of(url)), **options)
    return Uploader(url, vault, position=position, connect=connect, allow_bucket=asked.options.allow_bucket, **options)


def _position(asked: _Request, task: Task | PairTask) -> tuple[float, ...]:
    """The owner's position in the order of the task's axes; empty if the task needs none."""
    if not (isinstance(task, Task) or task.needs_place):
        return ()
    if not asked.position:
        raise InvalidInput("--position is missing; --position - asks for it, so that no list of processes shows it")
    tree = task.hierarchy if isinstance(task, Task) else task.pooled.hierarchy
    return parse_position(asked.position, tree.box, leaves=tree.leaves, hints=sys.stderr.isatty())


def _preview(task: Task, plan: Plan, position: tuple[float, ...], server: str) -> str:
    """What taking part means, and everything that would leave this device."""
    from ...protocol.promise import promise

    sent = [
        "an enrolment: a pseudonym made for this task alone, a key for it, and your token if you have one",
        "the region you are in, each time it is cut: in the clear, under that pseudonym",
        "an answer when you are drawn: on which side of a line you are, through noise; of your answers at most "
        f"{task.answers} will be about {'a line' if task.answers == 1 else 'lines'} inside your region",
    ]
    promised = promise(task, plan)
    described = describe_position(position, task.box, leaves=task.hierarchy.leaves)
    sent += [f"one noisy answer: {plan.releases[index]}" for index in plan.asked]
    return "\n".join(
        [
            promised.text(),
            f"Your position, which stays on this device: {described}.",
            *([f"Your value ({plan.own_words}) leaves this device through noise only."] if plan.own_words else []),
            f"What would be sent to {server}:",
            *(f"  - {line}" for line in sent),
            f"What it costs you: {promised.sentence()}",
        ]
    )


def _agreed() -> bool:
    return input("Take part? [y/N] ").strip().lower() in ("y", "yes")


def _refused(options: JoinOptions, found: Found, place: Path) -> str:
    """Why a device with these limits would not join; a cap that only the vault knows is not looked at."""
    from ...device.upload import check_pair

    cap = options.max_epsilon or (MAX_EPSILON if not place.exists() else None)
    try:
        policy = _limits(options, max_epsilon=math.inf if cap is None else float(exact(cap)))
        if isinstance(found.task, Task):
            assert found.plan is not None
            check_task(found.task, found.plan, policy)
        else:
            check_pair(found.task, policy, allow_bucket=options.allow_bucket)
    except ServerViolation as violation:
        return violation.reason
    return ""


def _policy(options: JoinOptions, vault: Vault) -> Policy:
    """The owner's limits: those of the command line, those in the vault, and the defaults of a device."""
    ledger = vault.contents.ledger
    cap = options.max_epsilon or ledger.max_epsilon or MAX_EPSILON
    vault.set_cap(cap)
    return _limits(options, max_epsilon=float(exact(cap)))


def _limits(options: JoinOptions, *, max_epsilon: float) -> Policy:
    limits: dict[str, Any] = {"min_k": options.min_k, "max_delta": options.max_delta}
    if options.min_side is not None:
        limits["min_side"] = parse_numbers(options.min_side, "--min-side")
    return Policy(
        max_epsilon=max_epsilon,
        allow_no_crowd=options.allow_no_crowd,
        **{name: value for name, value in limits.items() if value is not None},
    )


def default_vault() -> Path:
    """Where a device keeps its vault unless it is named."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "semilocal" / "vault"
