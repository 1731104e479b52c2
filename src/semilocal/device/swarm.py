"""A whole crowd of real devices in one process, for tests, demonstrations and measurements.

Every device is an agent, or an upload to two servers, with its own vault, its own secret and its own checks; they share
connections and one copy of every public message. Knows how to run many and how to sum up. It holds everybody's
position: never use it with positions that are not yours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import as_column, short_repr
from ..errors import InvalidInput, SemilocalError
from ..io.progress import Progress, duration
from ..protocol.policy import Policy
from ..protocol.promise import losses_words
from ..protocol.region import Path as Rounds
from ..protocol.task import Task
from ..sharing.pair import EXPERIMENTAL, PairTask
from ..words import number_of
from .agent import Agent
from .channel import Channels, only_task, split_url
from .disk import MemoryDisk
from .summary import Summary
from .transport import LeanWire
from .upload import Uploader
from .vault import Vault, read_task

TICK = 0.2  # seconds between two looks at the counter
AT_ONCE = 32  # requests in flight: more only makes the pool of connections slower


class Device(Protocol):
    """One device with a vault of its own; it does its part, and tells how it went."""

    async def run(self) -> Summary: ...


class SwarmResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a crowd."""

    summaries: tuple[Summary, ...]  # of the devices that did not fail, in the order of the points
    failures: tuple[str, ...]  # devices that ended with an error, in words
    reports: int  # enrolments, reports and uploads that the server accepted
    seconds: float

    __repr__ = short_repr

    @property
    def uploaded(self) -> int:
        """Devices that hold a signed receipt of two servers."""
        return sum(summary.outcome == "uploaded" for summary in self.summaries)

    def text(self) -> str:
        """How many devices ended in which way, crowds and losses; then failures and refusals, in plain words."""
        outcomes = Counter(summary.outcome for summary in self.summaries)
        counts = ", ".join(f"{number:,} {outcome}" for outcome, number in outcomes.most_common())
        rate = self.reports / self.seconds if self.seconds else 0.0
        lines = [
            f"{number_of(len(self.summaries) + len(self.failures), 'device')}: {counts or 'none'}"
            + (f", {len(self.failures):,} failed" if self.failures else "")
            + f"; {number_of(self.reports, 'request')} accepted in {duration(self.seconds)} ({rate:,.0f}/s)."
        ]
        lines += [f"Failed: {count:,} x {text}" for text, count in Counter(self.failures).most_common(5)]
        refusals = Counter(f"{one.reason} [{one.token}]" for one in self.summaries if one.outcome == "refused")
        lines += [f"Refused: {count:,} x {text}" for text, count in refusals.most_common(5)]
        done = [summary for summary in self.summaries if summary.outcome in ("finished", "uploaded")]
        return "\n".join([*lines, *(_losses(done) if done else [])])


def _losses(done: list[Summary]) -> list[str]:
    task = done[0].task
    assert task is not None
    if isinstance(task, PairTask):
        loss = f"Loss of every device: {task.cost_words}."
        return [loss, task.collusion, EXPERIMENTAL]
    members = {summary.region: summary.members for summary in done if summary.members is not None}
    crowds = np.array(list(members.values()))
    crowd = f"promised k = {task.k} except with probability {task.delta:g}" if task.keeps_crowd else "no crowd promised"
    largest = losses_words(max(summary.epsilon for summary in done), own=done[0].own)
    return [
        f"{number_of(len(crowds), 'region')} (public by design), crowds from {crowds.min()} to {crowds.max()}, median "
        f"{np.median(crowds):g}; {crowd}.",
        f"A device answered {np.mean([summary.answered for summary in done]):.1f} questions. Largest loss, releases "
        f"included: {largest}.",
    ]


async def run_swarm(
    url: str, points: npt.ArrayLike, *, policy: Policy, tokens: Sequence[str] = (), connect: Channels | None = None,
    entropy: Callable[[int], bytes] = os.urandom, show: bool = True, values: npt.ArrayLike | None = None,
    allow_bucket: bool = False,
) -> SwarmResult:  # fmt: skip
    """Run one device per point until all of them are done; an error ends one device alone. Vaults are in memory.

    Parameters
    ----------
    url : str
        ``https://server/tasks/{id}``; of two servers, that of either operator.
    points : array_like, shape (n, d)
        In the order of the task's axes.
    policy : Policy
        The same for all.
    tokens : sequence of str
        One per point, or none where enrolment is open.
    connect : Channels, optional
        Made and closed here, on a :class:`LeanWire`, if left out.
    values : array_like, shape (n,), optional
        The devices' own values, if the task asks for one.
    """
    positions = np.atleast_2d(np.asarray(points, dtype=np.float64)).tolist()
    people = len(positions)
    if tokens and len(tokens) < people:
        raise InvalidInput(f"every device needs its own token; got {len(tokens)} tokens for {people} devices")
    each_token = list(tokens) or [""] * people
    each_value = [None] * people if values is None else as_column(values, "values", people).tolist()
    channels = Channels(LeanWire, at_once=AT_ONCE, kept=False) if connect is None else connect
    disk = MemoryDisk()
    vaults = [Vault.open(f"device-{i:06d}", disk=disk, entropy=entropy) for i in range(people)]
    loop = asyncio.get_running_loop()
    began, done = loop.time(), asyncio.Event()
    watcher = asyncio.ensure_future(_watch(channels, done, show))
    try:
        make = await _maker(url, channels, policy, allow_bucket)
        devices = [make(*one) for one in zip(vaults, positions, each_token, each_value, strict=False)]
        ends = await asyncio.gather(*(_run(device) for device in devices))
    finally:
        done.set()
        await watcher
        for vault in vaults:
            vault.close()
        if connect is None:
            await channels.aclose()
    return SwarmResult(
        summaries=tuple(end for end in ends if not isinstance(end, str)),
        failures=tuple(end for end in ends if isinstance(end, str)),
        reports=channels.delivered,
        seconds=loop.time() - began,
    )


async def _maker(
    url: str, connect: Channels, policy: Policy, allow_bucket: bool
) -> Callable[[Vault, Sequence[float], str, float | None], Device]:
    """What makes a device for the task: an agent, or an upload to two servers."""
    server, name = split_url(url)
    channel = connect(server)
    name = name or await only_task(channel)
    task = await channel.message(f"/tasks/{name}", lambda data: read_task(data, name))
    url = f"{server}/tasks/{name}"
    rounds = dict[bytes, Rounds]()

    def make(vault: Vault, position: Sequence[float], token: str, value: float | None) -> Device:
        mine: dict[str, Any] = {"policy": policy, "position": position, "token": token, "value": value}
        if isinstance(task, Task):
            return Agent(url, vault, channel=channel, paths=rounds, **mine)
        return Uploader(url, vault, connect=connect, allow_bucket=allow_bucket, **mine)

    return make


async def _run(device: Device) -> Summary | str:
    """The summary of one device, or its error in words."""
    try:
        return await device.run()
    except SemilocalError as error:
        return f"{type(error).__name__}: {error}"


async def _watch(channels: Channels, done: asyncio.Event, show: bool) -> None:
    with Progress(None, "enrolments and reports", show=show) as progress:
        seen = 0
        while not done.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), TICK)
            now = channels.delivered
            progress.advance(now - seen)
            seen = now
