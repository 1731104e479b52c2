"""``semilocal join``: take part in a campaign with one position; ``semilocal swarm``: one device per row of a file.

The position stays on this device; for a task of two servers it leaves in two sealed shares. Stopping and starting again
is safe at any moment: the vault knows where to continue. A swarm is for tests and demonstrations: one process knows
everybody's position then, and every row is another device, whoever it belongs to.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from ...arrays import Floats, exact
from ...errors import MOST_LINES, InvalidInput, Lost, ServerViolation, Unreachable, printable
from ...geometry.places import parse_numbers
from ...io.files import read_text
from ...io.points import fit, read_for_box, read_points
from ...protocol.messages import decode
from ...protocol.plan import Plan
from ...protocol.policy import MAX_DELTA, MAX_EPSILON, MIN_K, Policy
from ...protocol.promise import device_words
from ...protocol.task import Task
from ...sharing.pair import PairTask
from ...words import number_of
from ..catalogue import DONE, FOUND
from ..options import (
    HIDDEN_HELP,
    advanced,
    amount,
    describe_position,
    existing,
    file,
    flat,
    number,
    option,
    parse_position,
    read_hidden,
    server_url,
    whole,
)

if TYPE_CHECKING:
    from ...device.channel import Channel, Channels
    from ...device.swarm import Device
    from ...device.vault import Vault
    from ...pooled.asked import AskedValue

FIRST_ANSWER = 2.0  # seconds after which a silent server is spoken of
_ANY = Policy(max_epsilon=1e6, min_k=1, max_delta=1.0, allow_no_crowd=True)  # nobody's limits

Patience = Annotated[
    float,
    advanced("give up if the server does not answer for this many seconds before anything is sent; after that it is "
             "tried for an hour", "S", number),
]  # fmt: skip
TaskUrl = Annotated[str, option("the task, https://server/tasks/ID, or a server with one open task", "URL", server_url)]


# -- the task behind a URL, and a server that may not answer: nothing here depends on a position ----------------------


class Found(NamedTuple):
    """What a URL leads to: the id, the task, and the plan of releases, which a task of two servers does not have."""

    name: str
    task: Task | PairTask
    plan: Plan | None

    @property
    def own_words(self) -> str:
        """The value of people's own that the task asks for; empty if it asks for none."""
        if isinstance(self.task, PairTask):
            asked = self.task.asked
            return asked.words if asked is not None and asked.own else ""
        return "" if self.plan is None else self.plan.own_words

    @property
    def tree(self) -> Any:
        """The cells of the domain."""
        return self.task.pooled.hierarchy if isinstance(self.task, PairTask) else self.task.hierarchy

    @property
    def needs_place(self) -> bool:
        """Whether a device needs a position."""
        return not isinstance(self.task, PairTask) or self.task.needs_place

    def check_value(self, value: float | None) -> None:
        """Refuse a value of people's own that is missing, that the task does not ask for, or outside its range."""
        if value is None and self.own_words:
            raise InvalidInput(f"--value is missing: the task asks for {self.own_words}")
        if value is not None and not self.own_words:
            raise InvalidInput("--value: the task asks for no value of people's own; leave the option out")
        asked: Plan | AskedValue | None = self.task.asked if isinstance(self.task, PairTask) else self.plan
        if value is not None and asked is not None:
            asked.check_value(value)


def say(line: str) -> None:
    """A line for the owner on stderr, at once."""
    print(f"semilocal: {printable(line, most=1000)}", file=sys.stderr, flush=True)


async def reach(server: str, *, patience: float) -> None:
    """Wait until a semilocal server answers at all, and no portal or other site; says so when it does not.

    Unreachable is raised if it does not within the patience.
    """
    from ...device.channel import JSON, describe
    from ...device.transport import HttpxWire, new_client

    loop = asyncio.get_running_loop()
    began, pause = loop.time(), 0.5
    async with new_client() as client:
        wire = HttpxWire(client, seconds=FIRST_ANSWER)
        while True:
            try:
                answer = await wire.request("GET", f"{server}/healthz", None, {})
                if answer.status == 200 and answer.media_type == JSON:
                    return
                reason = describe(answer)
            except Lost as error:
                reason = str(error)
            left = patience - (loop.time() - began)
            if reason.startswith("TLS"):  # trying again does not help, and may hide that somebody is in between
                raise Unreachable(
                    f"no secure connection to {server} ({reason}); check the address, this machine's clock, and who "
                    "runs the network: nothing has been sent"
                )
            if left <= 0:
                raise Unreachable(
                    f"no semilocal server answered at {server} for {patience:g} s ({reason}); check the address, or "
                    "try later: nothing has been sent"
                )
            say(f"{server} does not answer ({reason}); trying again for {math.ceil(left)} s")
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, 5.0)


async def find_task(channel: Channel, url: str) -> Found:
    """Id, task and plan behind a URL; the device checks them again, and pins them. A pair task has no plan."""
    from ...device.channel import only_task, split_url
    from ...device.vault import read_task

    name = split_url(url)[1] or await only_task(channel)
    task = await channel.message(f"/tasks/{name}", lambda data: read_task(data, name))
    plan = None
    if isinstance(task, Task):
        plan = await channel.message(f"/tasks/{name}/plan", lambda data: decode(data, Plan))
    if task is None or (isinstance(task, Task) and plan is None):
        raise ServerViolation("malformed", "the server does not publish its task and its plan")
    return Found(name, task, plan)


# -- join --------------------------------------------------------------------------------------------------------------


@flat
class JoinOptions:
    """Who takes part, and the owner's limits."""

    token: Annotated[str | None, option(f"one-time token (SEMILOCAL_TOKEN); {HIDDEN_HELP}", dash=True)] = None
    position: Annotated[
        str | None,
        option(f"required where the task needs a place (SEMILOCAL_POSITION); {HIDDEN_HELP}; such as 37.77,-122.42 "
               "(latitude, longitude if the task's axes are called so, else in the order of its axes), name=number,… "
               "or, in a table of labels, a label such as J45", "P", dash=True),
    ] = None  # fmt: skip
    value: Annotated[str | None, option(f"your own value (SEMILOCAL_VALUE); {HIDDEN_HELP}", "V", dash=True)] = None
    yes: Annotated[bool, option("take part without being asked")] = False
    vault: Annotated[Path | None, file("secret and state (~/.local/share/semilocal/vault)")] = None
    max_epsilon: Annotated[
        str | None,
        option("most that all tasks of this vault together may cost, worst case: between any two places of your "
               f"region, delta 0, also if the server lies (a new vault has {MAX_EPSILON}; kept in the vault)",
               "E", amount),
    ] = None  # fmt: skip
    min_k: Annotated[int | None, option(f"smallest crowd to accept ({MIN_K})", "K", whole(1))] = None
    max_delta: Annotated[float | None, option(f"largest chance to miss that crowd ({MAX_DELTA:g})", "D", number)] = None
    min_side: Annotated[
        str | None,
        option("never name a region without a whole cell of such sides: one number or one per axis, in kilometres for "
               "longitude and latitude, else in units of the axes (no limit). A server that lies can lead you to the "
               "smallest you allow", "S[,S]"),
    ] = None  # fmt: skip
    spread: Annotated[float, advanced("send up to S seconds late", "S", number)] = 1.0
    allow_no_crowd: Annotated[bool, advanced("join tasks that keep no crowd, too")] = False
    allow_bucket: Annotated[bool, advanced("two servers: join tasks that publish a device's coarse cell, too")] = False
    new_server: Annotated[
        bool,
        advanced("take part at an address, or under a signing key, that the vault does not know: only if the operator "
                 "told you that it changed, or if you mean to join at a second server"),
    ] = False  # fmt: skip
    patience: Patience = 30.0

    def policy(self, max_epsilon: str) -> Policy:
        """The owner's limits, and the defaults of a device."""
        sides = None if self.min_side is None else parse_numbers(self.min_side, "--min-side")
        given: dict[str, Any] = {"min_k": self.min_k, "max_delta": self.max_delta, "min_side": sides}
        given = {name: value for name, value in given.items() if value is not None}
        return Policy(max_epsilon=float(exact(max_epsilon)), allow_no_crowd=self.allow_no_crowd, **given)


class _Owner(NamedTuple):
    """What an owner asks for: the options, and what was hidden; and how to reach servers."""

    options: JoinOptions
    token: str
    position: str
    value: float | None
    connect: Channels

    def position_in(self, found: Found) -> tuple[float, ...]:
        """The position in the order of the task's axes; empty if the task needs none."""
        if not found.needs_place:
            return ()
        if not self.position:
            raise InvalidInput("--position is missing; --position - asks for it, so that no list of processes shows it")
        return parse_position(self.position, found.tree.box, leaves=found.tree.leaves, hints=sys.stderr.isatty())


def run(url: TaskUrl, /, *, options: JoinOptions = JoinOptions()) -> int:
    """Join a task and follow it to its end."""
    home = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    place = options.vault or home / "semilocal" / "vault"
    if place.is_dir():
        raise InvalidInput(f"--vault {place}: is a folder; give the name of a file")
    if not (options.yes or sys.stdin.isatty()):
        raise InvalidInput("nobody can be asked here: give --yes to take part")
    token, position, text = (
        read_hidden(getattr(options, name), option=f"--{name}", variable=f"SEMILOCAL_{name.upper()}")
        for name in ("token", "position", "value")
    )
    options.policy(MAX_EPSILON)  # refuses before a server is asked
    try:
        (value,) = parse_numbers(text, "--value") if text else (None,)
    except ValueError:  # several numbers, or none; not repeated, because a refusal may end up in a log
        raise InvalidInput("--value must be one finite number, such as 12.5") from None

    async def follow() -> int:
        from ...device.channel import Channels, split_url
        from ...device.transport import new_client
        from ...device.vault import Vault

        server = split_url(url)[0]
        await reach(server, patience=options.patience)
        async with new_client(connections=4) as client:
            connect = Channels(lambda origin: client, notify=say)
            with Vault.open(place) as vault:
                return await _join(url, server, _Owner(options, token, position, value, connect), vault)

    return asyncio.run(follow())


async def _join(url: str, server: str, owner: _Owner, vault: Vault) -> int:
    from ...device.agent import Agent
    from ...device.upload import Uploader
    from ...device.vault import check_servers

    given, connect = owner.options, owner.connect
    if url.rstrip("/") == server:
        url = _unfinished(vault, server) or url
    found = await find_task(connect(server), url)
    task_id = bytes.fromhex(found.name)
    found.check_value(owner.value)
    if vault.contents.membership(task_id) is None and vault.contents.upload(task_id) is None:
        if not given.new_server:  # before the owner reads and decides
            check_servers(vault.contents, found.task, server)
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
        "value": owner.value, "position": owner.position_in(found),
    }  # fmt: skip
    url = f"{server}/tasks/{found.name}"
    if isinstance(found.task, Task):
        device: Device = Agent(url, vault, channel=connect(server), **options)
    else:
        device = Uploader(url, vault, connect=connect, allow_bucket=given.allow_bucket, **options)
    summary = await device.run()
    print(printable(summary.text(), most=MOST_LINES, lines=True))
    return DONE if summary.outcome in ("finished", "stopped", "uploaded") else FOUND


async def _statement(owner: _Owner, found: Found, server: str) -> str:
    """What the owner reads before deciding, in the words of the page; a pair is compared on both servers first."""
    position, warning, task = owner.position_in(found), "", found.task
    if isinstance(task, Task):
        assert found.plan is not None
        _warn_plain_http(server)
        words = device_words(task, found.plan)
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
        words = (await fetch_both(found.name, server, owner.connect)).device_words()
        hosts = {urlsplit(operator.origin).hostname for operator in (task.leader, task.helper)}
        if len(hosts) == 1:
            warning = f"WARNING: both operators are on {hosts.pop()}: one person may run both."
    described = describe_position(position, found.tree.box, leaves=found.tree.leaves) if position else ""
    lines = [
        words["before"],
        warning,
        described and f"Your position: {described}. {words['position']}",
        found.own_words and f"Your value: {found.own_words}. {words['value']}",
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


def _warn_plain_http(url: str) -> None:
    """Warn about a connection that anybody on the way can read."""
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        say(
            f"warning: {parts.scheme}://{parts.netloc} is not encrypted: anybody on the way learns that you take part "
            "and your token, and your region and your key where regions are public. Use https."
        )


# -- swarm -------------------------------------------------------------------------------------------------------------


@flat
class SwarmOptions:
    """The crowd."""

    points: Annotated[
        Path,
        existing("positions: CSV, Parquet or GeoJSON; labels, in the column called as the table, where the task has a "
                 "table of labels; no positions are needed where the task asks for values alone"),
    ]  # fmt: skip
    devices: Annotated[int | None, option("how many, drawn without repetition (all)", "N", whole(1))] = None
    tokens: Annotated[Path | None, existing("one token per line; leave out where enrolment is open")] = None
    value: Annotated[str | None, option("column with the devices' own values, if asked for", "COLUMN")] = None
    seed: Annotated[int, option("which positions are drawn, not the noise", "S", whole(0))] = 0
    quiet: Annotated[bool, option("no progress")] = False
    patience: Patience = 30.0


def run_swarm(url: TaskUrl, /, *, options: SwarmOptions) -> int:
    """Run a crowd of devices; 0 if every device has a region."""
    factory: Any = None
    with contextlib.suppress(ImportError):
        from uvloop import new_event_loop as factory
    with asyncio.Runner(loop_factory=factory) as runner:
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
        points, values = _positions(args, found)
        result = await run_swarm(
            f"{server}/tasks/{found.name}", points, connect=connect, allow_bucket=True, policy=_ANY, tokens=tokens,
            show=not args.quiet, values=values,
        )  # fmt: skip
    finally:
        await connect.aclose()
    print(printable(result.text(), most=MOST_LINES, lines=True))
    everybody = all(summary.outcome in ("finished", "uploaded") for summary in result.summaries)
    return DONE if everybody and not result.failures else FOUND


def _positions(args: SwarmOptions, found: Found) -> tuple[Floats, Floats | None]:
    """Positions of the devices, float64[n, 0] if the task needs none, and their values if a column is named."""
    tree, values = found.tree, () if args.value is None else (args.value,)
    if found.needs_place:
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
