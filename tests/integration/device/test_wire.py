"""The lean wire speaks HTTP/1.1 with a server that answers, dawdles, breaks off or talks nonsense."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from semilocal.device import transport as wire_module
from semilocal.device.transport import LeanWire, Response
from semilocal.errors import InvalidInput, Lost, ServerViolation
from tests.helpers import HANG

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


async def with_server(handler: Handler, client: Callable[[LeanWire, str], Awaitable[None]]) -> int:
    """Run a client against a raw server; how many connections were made."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            await handler(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    wire = LeanWire(f"http://127.0.0.1:{port}")
    try:
        await asyncio.wait_for(client(wire, f"http://127.0.0.1:{port}"), HANG)
    finally:
        await wire.aclose()
        server.close()
        await server.wait_closed()
    return connections


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return head + await reader.readexactly(length)


def answering(*pieces: bytes, requests: list[bytes] | None = None, rounds: int = 1000) -> Handler:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(rounds):
            try:
                request = await read_request(reader)
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            if requests is not None:
                requests.append(request)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.001)

    return handler


def test_requests_reuse_one_connection_and_carry_what_they_should() -> None:
    requests: list[bytes] = []

    async def client(wire: LeanWire, url: str) -> None:
        for _ in range(3):
            assert await wire.request("PUT", f"{url}/a/b?c=1", b"body", {"X-Key": "v"}) == Response(200, b"hi")
        assert (await wire.request("GET", url, None, {})).body == b"hi"

    assert asyncio.run(with_server(answering(OK, requests=requests), client)) == 1
    assert requests[0].startswith(b"PUT /a/b?c=1 HTTP/1.1\r\nX-Key: v\r\nContent-Length: 4\r\nHost: 127.0.0.1:")
    assert requests[0].endswith(b"\r\n\r\nbody")
    assert requests[3].startswith(b"GET / HTTP/1.1\r\nHost: ")
    assert b"python" not in requests[0].lower()


def test_pieces_chunks_and_headers_are_put_together() -> None:
    head = [
        b"HTTP/1.1 503 Busy\r\nRETRY-after: 7\r\nContent-type: Text/Plain; a=b\r\nTransfer-",
        b"Encoding: chunked\r\n\r\n",
    ]
    chunked = [*head, b"3\r\nabc\r\n", b"1\r\nd\r\n0\r\n\r\n"]

    async def client(wire: LeanWire, url: str) -> None:
        for _ in range(2):
            assert await wire.request("GET", f"{url}/", None, {}) == Response(503, b"abcd", "text/plain", "7")

    assert asyncio.run(with_server(answering(*chunked), client)) == 1


def test_a_connection_that_ends_is_lost_and_replaced() -> None:
    async def client(wire: LeanWire, url: str) -> None:
        assert (await wire.request("GET", url, None, {})).status == 200
        with pytest.raises(Lost):  # closed right after the second request, before an answer
            await wire.request("GET", url, None, {})
        assert (await wire.request("GET", url, None, {})).status == 200

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await read_request(reader)

    assert asyncio.run(with_server(handler, client)) == 2


def test_an_idle_connection_that_the_server_closed_is_not_used_again() -> None:
    async def client(wire: LeanWire, url: str) -> None:
        for _ in range(3):
            assert (await wire.request("GET", url, None, {})).status == 200
            while any(connection.reusable for connection in wire.idle):  # until the news has come
                await asyncio.sleep(0.01)

    assert asyncio.run(with_server(answering(OK, rounds=1), client)) == 3


def test_connection_close_is_honoured() -> None:
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

    async def client(wire: LeanWire, url: str) -> None:
        for _ in range(2):
            assert (await wire.request("GET", url, None, {})).status == 200

    assert asyncio.run(with_server(answering(closing), client)) == 2


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal", rounds=1), "."),
        (answering(b"220 mail.example ESMTP\r\n"), "not HTTP"),
        (answering(), "TimeoutError"),
    ],
    ids=["half an answer", "nonsense", "silence"],
)
def test_what_is_no_answer_is_lost(monkeypatch: pytest.MonkeyPatch, handler: Handler, words: str) -> None:
    monkeypatch.setattr(wire_module, "TIMEOUT", 0.5)

    async def client(wire: LeanWire, url: str) -> None:
        with pytest.raises(Lost, match=words):
            await wire.request("GET", url, None, {})

    asyncio.run(with_server(handler, client))


def test_a_body_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_module, "MOST_BYTES", 1000)
    endless = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"

    async def client(wire: LeanWire, url: str) -> None:
        with pytest.raises(ServerViolation, match="too-large"):
            await wire.request("GET", url, None, {})

    asyncio.run(with_server(answering(endless, b"x" * 900, b"x" * 900), client))


def test_no_server_is_lost_and_no_url_is_refused() -> None:
    async def refused() -> None:
        with pytest.raises(Lost, match="ConnectionRefusedError"):
            await LeanWire("http://127.0.0.1:9").request("GET", "http://127.0.0.1:9/", None, {})

    asyncio.run(refused())
    for url in ("ftp://here", "http://", "here"):
        with pytest.raises(InvalidInput, match="http"):
            LeanWire(url)
