"""The channel says when a server falls silent, now and then while it is tried again, and when it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from semilocal.device.channel import Channel, Retry
from semilocal.device.transport import HttpxWire, Response
from semilocal.errors import Lost

URL = "http://server.test"


class Clock:
    """Time that sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


class Wire(HttpxWire):
    """Loses requests until a time, then answers."""

    def __init__(self, clock: Clock, until: float) -> None:
        self._clock, self._until = clock, until

    async def request(self, method: str, url: str, content: bytes | None, headers: Mapping[str, str]) -> Response:
        if self._clock.now < self._until:
            raise Lost("ConnectError")
        return Response(200, b"{}", "application/json")


def notices(until: float, *, kept: bool = True) -> list[str]:
    clock, lines = Clock(), list[str]()
    retry = Retry(first=1.0, longest=2.0, patience=1000.0)

    async def scene() -> None:
        channel = Channel(
            URL, Wire(clock, until), clock=clock, jitter=lambda: 1.0, retry=retry, notify=lines.append, kept=kept,
        )  # fmt: skip
        assert (await channel.send("GET", "/tasks")).status == 200
        assert (await channel.send("GET", "/tasks")).status == 200
        await channel.aclose()

    asyncio.run(scene())
    return lines


def test_silence_is_said_at_once_and_every_ten_seconds_until_it_ends() -> None:
    lines = notices(60.0)
    assert (
        lines[0]
        == f"{URL} does not answer (ConnectError); trying again. You can stop safely: the vault remembers the state."
    )
    assert lines[-1] == f"{URL} answers again."
    assert 5 <= len(lines) - 1 <= 7  # sixty seconds of silence


def test_whose_vaults_are_in_memory_is_not_told_that_stopping_is_safe() -> None:
    lines = notices(60.0, kept=False)
    assert "vaults are in memory" in lines[0]
    assert not any("safely" in line for line in lines)
