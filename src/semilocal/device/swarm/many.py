"""Many devices of one process, side by side: each with its own vault and secret, one line of progress for all.

Knows how to run many, whatever each of them does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ...arrays import as_column
from ...errors import InvalidInput, SemilocalError
from ...io.progress import Progress, duration
from ...words import number_of
from ..disk import Disk, FileDisk, MemoryDisk
from ..vault import Vault

__all__ = ["AT_ONCE", "Device", "Ends", "own_values", "run_many", "story"]

TICK = 0.2  # seconds between two looks at the counter
AT_ONCE = 32  # requests in flight: more only makes the pool of connections slower


class Device(Protocol):
    """One device with a vault of its own."""

    async def run(self) -> Any:
        """Do its part, and give a summary with ``outcome``, ``token`` and ``reason``."""


class Ends(NamedTuple):
    """How all devices ended.

    Attributes
    ----------
    summaries : list
        Of those that ended with one, in the order of the points.
    failures : list of str
        Devices that ended with an error, in words.
    seconds : float
    """

    summaries: list[Any]
    failures: list[str]
    seconds: float


async def run_many(
    make: Callable[[Vault, tuple[float, ...], str], Device], points: npt.ArrayLike, tokens: Sequence[str], *,
    delivered: Callable[[], int], folder: str | os.PathLike[str] | None, entropy: Callable[[int], bytes], show: bool,
) -> Ends:  # fmt: skip
    """Run one device per point until all of them are done; an error ends one device alone.

    Parameters
    ----------
    make : callable
        Takes a vault, a position and a token, and gives a device.
    points : array_like, shape (n, d)
    tokens : sequence of str
        One per point, or none where enrolment is open.
    delivered : callable
        How many requests were accepted so far.
    folder : path or None
        Where the vaults lie; None: in memory.
    entropy : callable
        Gives n secret random bytes.
    show : bool
        Whether to show progress on stderr.
    """
    positions = np.atleast_2d(np.asarray(points, dtype=np.float64)).tolist()
    if tokens and len(tokens) < len(positions):
        raise InvalidInput(f"every device needs its own token; got {len(tokens)} tokens for {len(positions)} devices")
    disk: Disk = MemoryDisk() if folder is None else FileDisk()
    place = Path("memory" if folder is None else folder)
    paths = [place / f"device-{number:06d}" for number in range(len(positions))]
    vaults = [Vault.open(path, disk=disk, entropy=entropy) for path in paths]
    loop = asyncio.get_running_loop()
    began = loop.time()
    done = asyncio.Event()
    watcher = asyncio.ensure_future(_watch(delivered, done, show))
    try:
        each_token = list(tokens) or [""] * len(positions)
        devices = [
            make(vault, tuple(position), token)
            for vault, position, token in zip(vaults, positions, each_token, strict=False)
        ]
        ends = await asyncio.gather(*(_run(device) for device in devices))
    finally:
        done.set()
        await watcher
        for vault in vaults:
            vault.close()
    failures = [end for end in ends if isinstance(end, str)]
    return Ends([end for end in ends if not isinstance(end, str)], failures, loop.time() - began)


def own_values(values: npt.ArrayLike | None, points: npt.ArrayLike) -> list[float | None]:
    """The own value of every device; None for all if there are none."""
    people = len(np.atleast_2d(np.asarray(points)))
    return [None] * people if values is None else list(as_column(values, "values", people).tolist())


def story(summaries: Sequence[Any], failures: Sequence[str], accepted: int, seconds: float) -> list[str]:
    """How many devices ended in which way, in plain words; then failures and refusals, the most frequent first."""
    outcomes = Counter(summary.outcome for summary in summaries)
    counts = ", ".join(f"{number:,} {outcome}" for outcome, number in outcomes.most_common())
    rate = accepted / seconds if seconds else 0.0
    lines = [
        f"{number_of(len(summaries) + len(failures), 'device')}: {counts or 'none'}"
        + (f", {len(failures):,} failed" if failures else "")
        + f"; {number_of(accepted, 'request')} accepted in {duration(seconds)} ({rate:,.0f}/s)."
    ]
    lines += [f"Failed: {count:,} x {text}" for text, count in Counter(failures).most_common(5)]
    refusals = Counter(f"{one.reason} [{one.token}]" for one in summaries if one.outcome == "refused")
    return lines + [f"Refused: {count:,} x {text}" for text, count in refusals.most_common(5)]


async def _run(device: Device) -> Any:
    """The summary of one device, or its error in words."""
    try:
        return await device.run()
    except SemilocalError as error:
        return f"{type(error).__name__}: {error}"


async def _watch(delivered: Callable[[], int], done: asyncio.Event, show: bool) -> None:
    with Progress(None, "enrolments and reports", show=show) as progress:
        seen = 0
        while not done.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), TICK)
            now = delivered()
            progress.advance(now - seen)
            seen = now
