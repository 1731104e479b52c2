"""What ``join`` and ``swarm`` have in common: the task behind a URL, and a server that may not answer.

Knows how long to wait and what to say meanwhile. Nothing here depends on a position.
"""

from __future__ import annotations

import asyncio
import math
import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

from ..errors import InvalidInput, ServerViolation, printable
from ..protocol.messages import decode
from ..protocol.plan import Plan
from ..protocol.task import Task
from .options import advanced, number, option, server_url

if TYPE_CHECKING:
    from ..device.channel import Channel
    from ..pooled.asked import AskedValue
    from ..sharing.pair import PairTask

__all__ = ["Found", "Patience", "TaskUrl", "find_task", "reach", "say"]


class Found(NamedTuple):
    """What a URL leads to: the id, the task, and the plan of releases, which a task of two servers does not have."""

    name: str
    task: Task | PairTask
    plan: Plan | None

    def check_value(self, value: float | None) -> None:
        """Refuse a value of people's own that is missing, that the task does not ask for, or outside its range."""
        if isinstance(self.task, Task):
            asked: Plan | AskedValue | None = self.plan
            words = "" if self.plan is None else self.plan.own_words
        else:
            asked = self.task.asked
            words = asked.words if asked is not None and asked.own else ""
        if value is None and words:
            raise InvalidInput(f"--value is missing: the task asks for {words}")
        if value is not None and not words:
            raise InvalidInput("--value: the task asks for no value of people's own; leave the option out")
        if value is not None and asked is not None:
            asked.check_value(value)


FIRST_ANSWER = 2.0  # seconds after which a silent server is spoken of

Patience = Annotated[
    float,
    advanced("give up if the server does not answer for this many seconds before anything is sent; after that it is "
             "tried for an hour", "S", number(0)),
]  # fmt: skip
TaskUrl = Annotated[str, option("the task, https://server/tasks/ID, or a server with one open task", "URL", server_url)]


def say(line: str) -> None:
    """A line for the owner on stderr, at once."""
    print(f"semilocal: {printable(line, most=1000)}", file=sys.stderr, flush=True)


async def reach(server: str, *, patience: float) -> None:
    """Wait until a semilocal server answers at all, and no portal or other site; says so when it does not.

    Raises
    ------
    Unreachable
        If it does not within the patience.
    """
    from ..device.channel import JSON, describe
    from ..device.transport import HttpxWire, new_client
    from ..errors import Lost, Unreachable

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
    from ..device.channel import only_task, split_url
    from ..device.vault import read_task

    name = split_url(url)[1] or await only_task(channel)
    task = await channel.message(f"/tasks/{name}", lambda data: read_task(data, name))
    if isinstance(task, Task):
        plan = await channel.message(f"/tasks/{name}/plan", lambda data: decode(data, Plan))
        if plan is not None:
            return Found(name, task, plan)
    elif task is not None:
        return Found(name, task, None)
    raise ServerViolation("malformed", "the server does not publish its task and its plan")
