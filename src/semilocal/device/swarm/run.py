"""A whole crowd of real devices in one process, for tests, demonstrations and measurements.

Every device is an agent with its own vault, its own secret and its own checks; they share connections and one copy of
every public message. Knows how to run many and how to sum up. It holds everybody's
position: never use it with positions that are not yours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from ...arrays import short_repr
from ...errors import InvalidInput, SemilocalError
from ...io.progress import Progress, duration
from ...protocol.participant import Policy
from ...protocol.promise import crowds_words, losses_words
from ..agent import Agent
from ..channel import Channel, split_url
from ..disk import Disk, FileDisk, MemoryDisk
from ..summary import Summary
from ..transport import LeanWire
from ..vault import Vault
from .verdict_cache import Verdicts

__all__ = ["SwarmResult", "run_swarm"]

TICK = 0.2  # seconds between two looks at the counter
AT_ONCE = 32  # requests in flight: more only makes the pool of connections slower


class SwarmResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a crowd.

    Attributes
    ----------
    summaries : tuple of Summary
        One per device, in the order of the points.
    failures : tuple of str
        Devices that ended with an error, in words.
    reports : int
        Enrolments and reports that the server accepted.
    seconds : float
    """

    summaries: tuple[Summary, ...]
    failures: tuple[str, ...]
    reports: int
    seconds: float

    __repr__ = short_repr

    def text(self) -> str:
        """Regions, crowds and losses, in plain words."""
        outcomes = Counter(summary.outcome for summary in self.summaries)
        counts = ", ".join(f"{number:,} {outcome}" for outcome, number in outcomes.most_common())
        rate = self.reports / self.seconds if self.seconds else 0.0
        lines = [
            f"{len(self.summaries) + len(self.failures):,} devices: {counts or 'none'}"
            + (f", {len(self.failures):,} failed" if self.failures else "")
            + f"; {self.reports:,} requests accepted in {duration(self.seconds)} ({rate:,.0f}/s)."
        ]
        lines += [f"Failed: {count:,} x {text}" for text, count in Counter(self.failures).most_common(5)]
        refusals = Counter(f"{s.reason} [{s.token}]" for s in self.summaries if s.outcome == "refused")
        lines += [f"Refused: {count:,} x {text}" for text, count in refusals.most_common(5)]
        done = [summary for summary in self.summaries if summary.outcome == "finished"]
        if done:
            lines += _losses(done)
        return "\n".join(lines)


def _losses(done: list[Summary]) -> list[str]:
    task = done[0].task
    assert task is not None
    crowds = {summary.cell: summary.crowd for summary in done}
    known = np.array([crowd for crowd in crowds.values() if crowd is not None])
    lines = [f"{len(crowds):,} regions (public by design)"]
    if len(known):
        lines[0] += f", crowds from {known.min()} to {known.max()}, median {np.median(known):g}; promised k = {task.k}"
    lines[0] += "."
    inside = max(summary.epsilon - summary.trims * task.epsilon for summary in done)
    losses = losses_words(inside, max(summary.epsilon for summary in done))
    crowd = crowds_words([(task.k if task.keeps_crowd else 0, done[0].delta)])[0]
    worst = max(summary.exposure for summary in done)
    lines.append(f"Losses, releases included: {losses}. {crowd}")
    lines.append(f"Largest exposure against a server that lies: epsilon = {worst:g} along the same cells (delta = 0).")
    return lines


async def run_swarm(
    url: str, points: npt.ArrayLike, *, policy: Policy, tokens: Sequence[str] = (),
    channel: Channel | None = None, folder: str | os.PathLike[str] | None = None,
    entropy: Callable[[int], bytes] = os.urandom, show: bool = True,
) -> SwarmResult:  # fmt: skip
    """Run one agent per point until all of them are done.

    Parameters
    ----------
    url : str
        ``https://server/tasks/{id}``.
    points : array_like, shape (n, d)
        In the order of the task's axes.
    policy : Policy
        The same for all.
    tokens : sequence of str
        One per point, or none where enrolment is open.
    channel : Channel, optional
        One on a :class:`LeanWire` is made if left out.
    folder : path, optional
        Where the vaults lie; in memory if left out.
    entropy : callable
        Gives n secret random bytes.
    show : bool
        Whether to show progress on stderr.
    """
    positions = np.atleast_2d(np.asarray(points, dtype=np.float64)).tolist()
    if tokens and len(tokens) < len(positions):
        raise InvalidInput(f"every device needs its own token; got {len(tokens)} tokens for {len(positions)} devices")
    own: LeanWire | None = None
    if channel is None:
        server = split_url(url)[0]
        own = LeanWire(server)
        channel = Channel(server, own, at_once=AT_ONCE)
    disk: Disk = MemoryDisk() if folder is None else FileDisk()
    place = Path("memory" if folder is None else folder)
    paths = [place / f"device-{number:06d}" for number in range(len(positions))]
    vaults = [Vault.open(path, disk=disk, entropy=entropy) for path in paths]
    loop = asyncio.get_running_loop()
    began = loop.time()
    done = asyncio.Event()
    watcher = asyncio.ensure_future(_watch(channel, done, show))
    try:
        verdicts = Verdicts()
        given = list(tokens) or [""] * len(positions)
        agents = [
            Agent(url, vault, position=position, policy=policy, channel=channel, token=token, verdicts=verdicts)
            for vault, position, token in zip(vaults, positions, given, strict=False)
        ]
        ends = await asyncio.gather(*(_run(agent) for agent in agents))
    finally:
        done.set()
        await watcher
        for vault in vaults:
            vault.close()
        if own is not None:
            await channel.aclose()
            await own.aclose()
    return SwarmResult(
        summaries=tuple(end for end in ends if isinstance(end, Summary)),
        failures=tuple(end for end in ends if isinstance(end, str)),
        reports=channel.delivered,
        seconds=loop.time() - began,
    )


async def _run(agent: Agent) -> Summary | str:
    """The end of one device; an error ends that device alone."""
    try:
        return await agent.run()
    except SemilocalError as error:
        return f"{type(error).__name__}: {error}"


async def _watch(channel: Channel, done: asyncio.Event, show: bool) -> None:
    with Progress(None, "enrolments and reports", show=show) as progress:
        seen = 0
        while not done.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), TICK)
            progress.advance(channel.delivered - seen)
            seen = channel.delivered
