"""A client in this process that sends prepared requests over many connections, for benchmarks of what wrk cannot send.

Knows sockets and times. Reads whole answers and counts those with status 201.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple


class Measured(NamedTuple):
    """One run: reports per second, latencies in ms, and the server's processor time per report in microseconds.

    ``loop`` is that of the event loop's thread alone.
    """

    rate: float
    p50: float
    p99: float
    refused: int
    took: float
    processor: float = 0.0
    loop: float = 0.0


class Load:
    """Connections that each send one request after another and note how long the answers took."""

    def __init__(self, requests: list[bytes], seconds: float) -> None:
        self.requests, self.next = requests, 0
        self.end = time.perf_counter() + seconds
        self.latencies: list[float] = []
        self.refused = 0
        self.open = 0
        self.done = asyncio.get_running_loop().create_future()

    def take(self) -> bytes | None:
        if self.next >= len(self.requests) or time.perf_counter() > self.end:
            return None
        self.next += 1
        return self.requests[self.next - 1]


class Sender(asyncio.Protocol):
    """One keep-alive connection, one request at a time."""

    def __init__(self, load: Load) -> None:
        self.load, self.buffer = load, b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.load.open += 1
        self.send()

    def send(self) -> None:
        request = self.load.take()
        if request is None:
            self.transport.close()
            return
        self.sent = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = 0
        place = head.lower().find(b"content-length: ")
        if place >= 0:
            length = int(head[place + 16 :].split(b"\r\n", 1)[0])
        if len(rest) < length:
            return
        self.buffer = b""
        if head[9:12] == b"201":
            self.load.latencies.append(time.perf_counter() - self.sent)
        else:
            self.load.refused += 1
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        self.load.open -= 1
        if not self.load.open and not self.load.done.done():
            self.load.done.set_result(None)


async def measure(port: int, requests: list[bytes], *, connections: int, seconds: float) -> Measured:
    """Send requests over that many connections for that long."""
    loop = asyncio.get_running_loop()
    load = Load(requests, seconds)
    begun = time.perf_counter()
    await asyncio.gather(*(loop.create_connection(lambda: Sender(load), "127.0.0.1", port) for _ in range(connections)))
    await load.done
    took = time.perf_counter() - begun
    latencies = sorted(load.latencies)
    if not latencies:
        raise SystemExit("no report was accepted")
    return Measured(
        len(latencies) / took,
        1e3 * latencies[len(latencies) // 2],
        1e3 * latencies[int(len(latencies) * 0.99)],
        load.refused,
        took,
    )
