"""A whole crowd of real devices in one process, for tests, demonstrations and measurements.

Every device is an agent with its own vault, its own secret and its own checks; they share connections and one copy of
every public message. Knows how to run many and how to sum up. It holds everybody's position: never use it with
positions that are not yours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from ...arrays import short_repr
from ...protocol.participant import Policy
from ...protocol.path import Path
from ...protocol.promise_words import losses_words
from ...words import number_of
from ..agent import Agent
from ..channel import Channel, split_url
from ..summary import Summary
from ..transport import LeanWire
from .many import AT_ONCE, own_values, run_many, story

__all__ = ["AT_ONCE", "SwarmResult", "run_swarm"]


class SwarmResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a crowd.

    Attributes
    ----------
    summaries : tuple of Summary
        Of the devices that did not fail, in the order of the points.
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
        lines = story(self.summaries, self.failures, self.reports, self.seconds)
        done = [summary for summary in self.summaries if summary.outcome == "finished"]
        if done:
            lines += _losses(done)
        return "\n".join(lines)


def _losses(done: list[Summary]) -> list[str]:
    task = done[0].task
    assert task is not None
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
    url: str, points: npt.ArrayLike, *, policy: Policy, tokens: Sequence[str] = (),
    channel: Channel | None = None, folder: str | os.PathLike[str] | None = None,
    entropy: Callable[[int], bytes] = os.urandom, show: bool = True, new_server: bool = False,
    values: npt.ArrayLike | None = None,
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
    new_server : bool
        Whether vaults that were kept may join at a server that they do not know.
    values : array_like, shape (n,), optional
        The devices' own values, if the plan asks for one.
    """
    own: LeanWire | None = None
    each = iter(own_values(values, points))
    if channel is None:
        server = split_url(url)[0]
        own = LeanWire(server)
        channel = Channel(server, own, at_once=AT_ONCE, kept=folder is not None)
    shared, paths = channel, dict[bytes, Path]()
    try:
        ends = await run_many(
            lambda vault, position, token: Agent(
                url, vault, position=position, policy=policy, channel=shared, token=token, paths=paths,
                value=next(each), new_server=new_server,
            ),
            points, tokens, delivered=lambda: shared.delivered, folder=folder, entropy=entropy, show=show,
        )  # fmt: skip
    finally:
        if own is not None:
            await channel.aclose()
            await own.aclose()
    return SwarmResult(
        summaries=tuple(ends.summaries), failures=tuple(ends.failures), reports=shared.delivered, seconds=ends.seconds
    )
