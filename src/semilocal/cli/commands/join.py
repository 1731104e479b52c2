"""``semilocal join``: take part in a campaign with one position.

The position stays on this device; for a task of two servers it leaves in two sealed shares. Stopping and starting again
is safe at any moment: the vault knows where to continue.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from ...arrays import exact
from ...errors import MOST_LINES, InvalidInput, printable
from ...geometry.places import parse_numbers
from ...protocol.policy import MAX_DELTA, MAX_EPSILON, MIN_K, Policy
from ...protocol.promise import device_words
from ...protocol.task import Task
from ...sharing.pair import PairTask
from ..arguments import describe_position, parse_position
from ..catalogue import DONE, FOUND
from ..devices import Found, Patience, TaskUrl, find_task, reach, say
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
    allow_no_crowd: Annotated[bool, advanced("join tasks that keep no crowd, too")] = False
    allow_bucket: Annotated[
        bool, advanced("with two servers: join tasks that make the coarse cell of a device public, too")
    ] = False
    new_server: Annotated[
        bool,
        advanced("take part at an address, or under a signing key, that the vault does not know: only if the operator "
                 "told you that it changed, or if you mean to join at a second server"),
    ] = False  # fmt: skip
    patience: Patience = 30.0

    def policy(self, max_epsilon: str) -> Policy:
        """The owner's limits, and the defaults of a device."""
        given: dict[str, Any] = {"min_k": self.min_k, "max_delta": self.max_delta}
        if self.min_side is not None:
            given["min_side"] = parse_numbers(self.min_side, "--min-side")
        given = {name: value for name, value in given.items() if value is not None}
        return Policy(max_epsilon=float(exact(max_epsilon)), allow_no_crowd=self.allow_no_crowd, **given)


class _Owner(NamedTuple):
    """What an owner asks for: the options, and what was hidden; and how to reach servers."""

    options: JoinOptions
    token: str
    position: str
    value: float | None
    connect: Channels

    def position_in(self, task: Task | PairTask) -> tuple[float, ...]:
        """The position in the order of the task's axes; empty if the task needs none."""
        if not (isinstance(task, Task) or task.needs_place):
            return ()
        if not self.position:
            raise InvalidInput("--position is missing; --position - asks for it, so that no list of processes shows it")
        tree = task.hierarchy if isinstance(task, Task) else task.pooled.hierarchy
        return parse_position(self.position, tree.box, leaves=tree.leaves, hints=sys.stderr.isatty())


def run(url: TaskUrl, /, *, options: JoinOptions = JoinOptions()) -> int:
    """Join a task and follow it to its end."""
    place = options.vault or default_vault()
    if place.is_dir():
        raise InvalidInput(f"--vault {place}: is a folder; give the name of a file")
    if not (options.yes or sys.stdin.isatty()):
        raise InvalidInput("nobody can be asked here: give --yes to take part")
    token, position, value = (
        read_hidden(getattr(options, name), option=f"--{name}", variable=f"SEMILOCAL_{name.upper()}")
        for name in ("token", "position", "value")
    )
    options.policy(MAX_EPSILON)  # refuses before a server is asked
    return asyncio.run(_follow(url, token, position, _read_value(value), options, place))


async def _follow(url: str, token: str, position: str, value: float | None, options: JoinOptions, place: Path) -> int:
    from ...device.channel import Channels, split_url
    from ...device.transport import new_client
    from ...device.vault import Vault

    server = split_url(url)[0]
    await reach(server, patience=options.patience)
    async with new_client(connections=4) as client:
        connect = Channels(lambda origin: client, notify=say)
        with Vault.open(place) as vault:
            return await _join(url, server, _Owner(options, token, position, value, connect), vault)


async def _join(url: str, server: str, owner: _Owner, vault: Vault) -> int:
    from ...device.agent import Agent
    from ...device.upload import Uploader
    from ...device.vault import check_servers

    given, connect = owner.options, owner.connect
    if url.rstrip("/") == server:
        url = _unfinished(vault, server) or url
    found = await find_task(connect(server), url)
    name, task, _ = found
    task_id = bytes.fromhex(name)
    found.check_value(owner.value)
    if vault.contents.membership(task_id) is None and vault.contents.upload(task_id) is None:
        if not given.new_server:  # before the owner reads and decides
            check_servers(vault.contents, task, server)
        print(await _statement(owner, found, server), flush=True)
        if not given.yes and input("Take part? [y/N] ").strip().lower() not in ("y", "yes"):
            print("Nothing was sent.")
            return DONE
    else:
        _warn_plain_http(server)
        print(f"You joined this task before; going on with it. Your secret stays in {vault.path}.", flush=True)
    cap = given.max_epsilon or vault.contents.ledger.max_epsilon or MAX_EPSILON
    vault.set_cap(cap)
    options: dict[str, Any] = {
        "policy": given.policy(cap), "token": owner.token, "spread": given.spread,
        "notify": lambda line: print(printable(line, most=1000), flush=True), "new_server": given.new_server,
        "value": owner.value, "position": owner.position_in(task),
    }  # fmt: skip
    url = f"{server}/tasks/{name}"
    if isinstance(task, Task):
        device: Device = Agent(url, vault, channel=connect(server), **options)
    else:
        device = Uploader(url, vault, connect=connect, allow_bucket=given.allow_bucket, **options)
    summary = await device.run()
    print(printable(summary.text(), most=MOST_LINES, lines=True))
    return DONE if summary.outcome in ("finished", "stopped", "uploaded") else FOUND


async def _statement(owner: _Owner, found: Found, server: str) -> str:
    """What the owner reads before deciding, in the words of the page; a pair is compared on both servers first."""
    name, task, plan = found
    position, warning = owner.position_in(task), ""
    if isinstance(task, Task):
        assert plan is not None
        _warn_plain_http(server)
        words, own = device_words(task, plan), plan.own_words
        described = describe_position(position, task.box, leaves=task.hierarchy.leaves)
    else:
        from ...device.upload import fetch_both

        for option, limit in (("--min-k", owner.options.min_k), ("--max-delta", owner.options.max_delta)):
            if limit is not None:  # an owner who asks for a crowd gets none here
                raise InvalidInput(
                    f"{option}: a task of two servers keeps no crowd, because nobody's region is published; leave the "
                    "option out to join it"
                )
        for operator in (task.leader, task.helper):
            _warn_plain_http(operator.origin)
            await reach(operator.origin, patience=owner.options.patience)
        pair = await fetch_both(name, server, owner.connect)
        hosts = {urlsplit(operator.origin).hostname for operator in (pair.leader, pair.helper)}
        if len(hosts) == 1:
            warning = f"WARNING: both operators are on {hosts.pop()}: one person may run both."
        words, own = pair.device_words(), pair.asked.words if pair.asked is not None and pair.asked.own else ""
        described = describe_position(position, pair.pooled.box) if position else ""
    lines = [
        words["before"],
        warning,
        described and f"Your position: {described}. {words['position']}",
        own and f"Your value: {own}. {words['value']}",
    ]
    return "\n".join(filter(None, lines))


def _unfinished(vault: Vault, server: str) -> str:
    """The address of the only task of this server that the vault has not finished; empty if there is none, or more."""
    tasks = [entry.task_id for entry in vault.contents.memberships if entry.server == server and not entry.over]
    for entry in vault.contents.uploads:
        pair = PairTask.from_bytes(entry.task)
        if not entry.receipt and server in (pair.leader.origin, pair.helper.origin):
            tasks.append(entry.task_id)
    return f"{server}/tasks/{tasks[0].hex()}" if len(tasks) == 1 else ""


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


def default_vault() -> Path:
    """Where a device keeps its vault unless it is named."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "semilocal" / "vault"
