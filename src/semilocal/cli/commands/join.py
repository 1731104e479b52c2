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
from urllib.parse import urlsplit

from ...arrays import exact
from ...errors import MOST_LINES, InvalidInput, ServerViolation, printable
from ...geometry.places import parse_numbers
from ...protocol.plan import Plan
from ...protocol.policy import MAX_DELTA, MAX_EPSILON, MIN_K, Policy, check_task
from ...protocol.task import Task
from ...sharing.envelope import OVERHEAD, REPORT_ID
from ...sharing.pair import PairTask
from ..arguments import describe_position, parse_position
from ..catalogue import DONE, FOUND
from ..devices import Consent, Found, TaskUrl, find_task, reach, say
from ..options import HIDDEN_HELP, advanced, amount, file, flat, number, option, read_hidden, whole

if TYPE_CHECKING:
    from ...device.channel import Channels
    from ...device.swarm import Device
    from ...device.vault import Vault

__all__ = ["JoinOptions", "default_vault", "run"]


@flat
@dataclass(frozen=True, kw_only=True)
class JoinOptions:
    """Who takes part, and the owner's limits."""

    token: Annotated[
        str | None, option(f"the one-time token to enrol with (SEMILOCAL_TOKEN); {HIDDEN_HELP}", dash=True)
    ] = None
    position: Annotated[
        str | None,
        option(f"required where the task needs a place (SEMILOCAL_POSITION); {HIDDEN_HELP}; such as 37.77,-122.42 "
               "(latitude, longitude if the task's axes are called so, else in the order of its axes), name=number,… "
               "or, in a table of labels, a label such as J45", "P", dash=True),
    ] = None  # fmt: skip
    value: Annotated[
        str | None, option(f"your own value, if the task asks for one (SEMILOCAL_VALUE); {HIDDEN_HELP}", "V", dash=True)
    ] = None
    yes: Annotated[bool, option("take part without being asked")] = False
    dry_run: Annotated[bool, option("show what would be sent, send nothing, write nothing")] = False
    vault: Annotated[Path | None, file("secret and state (~/.local/share/semilocal/vault)")] = None
    max_epsilon: Annotated[
        str | None,
        option("most that all tasks of this vault together may cost, worst case: between any two places of your "
               f"region, delta 0, also if the server lies (a new vault has {MAX_EPSILON}; kept in the vault)",
               "E", amount),
    ] = None  # fmt: skip
    min_k: Annotated[int | None, option(f"smallest crowd to accept ({MIN_K})", "K", whole(1))] = None
    max_delta: Annotated[
        float | None, option(f"largest chance of missing that crowd ({MAX_DELTA:g})", "D", number(0))
    ] = None
    min_side: Annotated[
        str | None,
        option("never name a region without a whole cell of such sides: one number or one per axis, in kilometres for "
               "longitude and latitude, else in units of the axes (no limit). A server that lies can lead you to the "
               "smallest you allow", "S[,S]"),
    ] = None  # fmt: skip
    spread: Annotated[float, advanced("send up to S seconds late", "S", number(0))] = 1.0
    allow: Consent = Consent()


class _Owner(NamedTuple):
    """What an owner asks for: the task's address and its server, what was hidden, the options; and how to reach it."""

    url: str
    server: str
    token: str
    position: str
    value: float | None
    options: JoinOptions
    connect: Channels


def run(url: TaskUrl, /, *, options: JoinOptions = JoinOptions()) -> int:
    """Join a task and follow it to its end."""
    place = options.vault or default_vault()
    if place.is_dir():
        raise InvalidInput(f"--vault {place}: is a folder; give the name of a file")
    if not (options.yes or options.dry_run or sys.stdin.isatty()):
        raise InvalidInput("nobody can be asked here: give --yes to take part, or --dry-run to see what would be sent")
    token, position, value = (
        read_hidden(getattr(options, name), option=f"--{name}", variable=f"SEMILOCAL_{name.upper()}")
        for name in ("token", "position", "value")
    )
    _limits(options, max_epsilon=math.inf)  # refuses before a server is asked
    return asyncio.run(_follow(url, token, position, _read_value(value), options, place))


async def _follow(url: str, token: str, position: str, value: float | None, options: JoinOptions, place: Path) -> int:
    from ...device.channel import Channels, split_url
    from ...device.transport import new_client
    from ...device.vault import Vault

    server = split_url(url)[0]
    await reach(server, patience=options.allow.patience)
    async with new_client(connections=4) as client:
        connect = Channels(lambda origin: client, notify=say)
        owner = _Owner(url, server, token, position, value, options, connect)
        if options.dry_run:
            found = await find_task(connect(server), url)
            print(await _shown(owner, found))
            if refused := _refused(options, found, place):
                print(f"With these limits your device would refuse, and send none of it: {refused}.")
            print("Nothing was sent and nothing was written.")
            return DONE
        with Vault.open(place) as vault:
            return await _join(owner, vault)


async def _shown(owner: _Owner, found: Found) -> str:
    """What the owner sees before deciding; a pair is compared on both servers first."""
    name, task, plan = found
    found.check_value(owner.value)
    if isinstance(task, Task):
        assert plan is not None
        _warn_plain_http(owner.server)
        return _preview(task, plan, _position(owner, task), owner.server)
    from ...device.upload import fetch_both

    for given, limit in (("--min-k", owner.options.min_k), ("--max-delta", owner.options.max_delta)):
        if limit is not None:  # an owner who asks for a crowd gets none here
            raise InvalidInput(
                f"{given}: a task of two servers keeps no crowd, because nobody's region is published; leave the "
                "option out to join it"
            )
    for operator in (task.leader, task.helper):
        _warn_plain_http(operator.origin)
        await reach(operator.origin, patience=owner.options.allow.patience)
    pair = await fetch_both(name, owner.server, owner.connect)
    return _pair_preview(pair, _position(owner, pair))


async def _join(owner: _Owner, vault: Vault) -> int:
    from ...device.agent import Agent
    from ...device.upload import Uploader
    from ...device.vault import check_servers

    server, allow = owner.server, owner.options.allow
    url = owner.url if owner.url.rstrip("/") != server else _unfinished(vault, server) or owner.url
    found = await find_task(owner.connect(server), url)
    name, task, _ = found
    task_id = bytes.fromhex(name)
    if vault.contents.membership(task_id) is None and vault.contents.upload(task_id) is None:
        if not allow.new_server:  # before the owner reads and decides
            check_servers(vault.contents, task, server)
        print(await _shown(owner, found), flush=True)
        if not owner.options.yes and input("Take part? [y/N] ").strip().lower() not in ("y", "yes"):
            print("Nothing was sent.")
            return DONE
    else:
        _warn_plain_http(server)
        print(f"You joined this task before; going on with it. Your secret stays in {vault.path}.", flush=True)
    found.check_value(owner.value)
    options: dict[str, Any] = {
        "policy": _policy(owner.options, vault), "token": owner.token, "spread": owner.options.spread,
        "notify": lambda line: print(printable(line, most=1000), flush=True), "new_server": allow.new_server,
        "value": owner.value, "position": _position(owner, task),
    }  # fmt: skip
    url = f"{server}/tasks/{name}"
    if isinstance(task, Task):
        device: Device = Agent(url, vault, channel=owner.connect(server), **options)
    else:
        device = Uploader(url, vault, connect=owner.connect, allow_bucket=allow.allow_bucket, **options)
    summary = await device.run()
    print(printable(summary.text(), most=MOST_LINES, lines=True))
    return DONE if summary.outcome in ("finished", "stopped", "uploaded") else FOUND


def _unfinished(vault: Vault, server: str) -> str:
    """The address of the only task of this server that the vault has not finished; empty if there is none, or more."""
    tasks = [entry.task_id for entry in vault.contents.memberships if entry.server == server and not entry.over]
    for entry in vault.contents.uploads:
        pair = PairTask.from_bytes(entry.task)
        if not entry.receipt and server in (pair.leader.origin, pair.helper.origin):
            tasks.append(entry.task_id)
    return f"{server}/tasks/{tasks[0].hex()}" if len(tasks) == 1 else ""


def _position(owner: _Owner, task: Task | PairTask) -> tuple[float, ...]:
    """The owner's position in the order of the task's axes; empty if the task needs none."""
    if not (isinstance(task, Task) or task.needs_place):
        return ()
    if not owner.position:
        raise InvalidInput("--position is missing; --position - asks for it, so that no list of processes shows it")
    tree = task.hierarchy if isinstance(task, Task) else task.pooled.hierarchy
    return parse_position(owner.position, tree.box, leaves=tree.leaves, hints=sys.stderr.isatty())


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
            promised.explain(),
            f"Your position, which stays on this device: {described}.",
            *([f"Your value ({plan.own_words}) leaves this device through noise only."] if plan.own_words else []),
            f"What would be sent to {server}:",
            *(f"  - {line}" for line in sent),
            f"What it costs you: {promised.sentence()}",
        ]
    )


def _pair_preview(pair: PairTask, position: tuple[float, ...]) -> str:
    """The same for a task of two servers; the position is empty if none is needed."""
    from ...device.upload import smallest_words

    shape = pair.shape
    size = shape.public_bytes + 2 * (shape.private_bytes + OVERHEAD) + REPORT_ID
    shared, shows = [], []
    if pair.maps:
        shared.append("position")
        shows.append(f"which cell you are in; the smallest cell measures {smallest_words(pair)}")
    if pair.asked is not None:
        shared.append("value" if pair.asked.own else f"value of {pair.asked.name}")
        shows.append(f"your value ({pair.asked.words}), rounded to one of {pair.asked.steps + 1} steps")
    sent = [
        "a name for this report, made for this task alone, and your token if you have one",
        f"one share of your {' and '.join(shared)} that only {pair.leader.name} can open, and one that only "
        f"{pair.helper.name} can open: each alone is random bytes. Both together show {', and '.join(shows)}",
    ]
    if pair.bucket_depth:
        sent.append(f"your cell of depth {pair.bucket_depth}, in the open")
    hosts = {urlsplit(operator.origin).hostname for operator in (pair.leader, pair.helper)}
    warning = [] if len(hosts) == 2 else [f"WARNING: both operators are on {hosts.pop()}: one person may run both."]
    place = "Your position is not needed, and no place is sent."
    if pair.needs_place:
        leaves = "which leaves this device in two shares only"
        if not pair.maps and pair.asked is not None:
            leaves = f"of which only {pair.asked.name} leaves this device, in two shares"
        place = f"Your position, {leaves}: {describe_position(position, pair.pooled.box)}."
    return "\n".join(
        [
            pair.statement(),
            *warning,
            place,
            f"What would be sent, once, about {size:,} bytes, to {pair.leader.origin}, which passes the second share "
            f"on to {pair.helper.origin}:",
            *(f"  - {line}" for line in sent),
            f"What it costs you: {pair.cost_words}.",
        ]
    )


def _read_value(text: str) -> float | None:
    """The number that a text is, None for an empty one; the refusal does not repeat it: it may end up in a log."""
    if not text:
        return None
    try:
        (value,) = parse_numbers(text, "--value")
    except ValueError:  # several numbers, or none
        raise InvalidInput("--value must be one finite number, such as 12.5") from None
    return value


def _warn_plain_http(url: str) -> None:
    """Warn about a connection that anybody on the way can read."""
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        say(
            f"warning: {parts.scheme}://{parts.netloc} is not encrypted: anybody on the way learns that you take part "
            "and your token, and your region and your key where regions are public. Use https."
        )


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
            check_pair(found.task, policy, allow_bucket=options.allow.allow_bucket)
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
        allow_no_crowd=options.allow.allow_no_crowd,
        **{name: value for name, value in limits.items() if value is not None},
    )


def default_vault() -> Path:
    """Where a device keeps its vault unless it is named."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "semilocal" / "vault"
