"""Reports over real sockets: in pieces, ahead of their answers, refused, slow, endless."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from semilocal.protocol.messages import encode
from semilocal.service import http, rounds
from semilocal.service.server import bind, set_up_logging
from semilocal.service.stores.base import Enrolment, Store, open_store
from semilocal.service.stores.sqlite import SQLiteStore
from semilocal.testing import MockClock, build_app
from tests.helpers.service import open_campaign, roster_report, sample_task

SOON = 120.0  # seconds after which a test gives up waiting for what must come
TASK = sample_task(window=10**6)
KEYS = [bytes([number]) * 32 for number in range(1, 9)]
NAMES = [bytes([number]) * 16 for number in range(1, 9)]


def open_round(store: Store) -> None:
    """A campaign whose first round is open; one participant more than will report keeps it so."""
    store.create(open_campaign(TASK), needed=None, deadline=None)
    people = [*zip(NAMES, KEYS, strict=True), (bytes(16), bytes(32))]
    items = [Enrolment(TASK.id, name, hashlib.sha256(key).digest(), None, None) for name, key in people]
    assert set(store.apply(items).outcomes) == {"stored"}
    rounds.start(store, TASK.id, MockClock()())


def request(place: int, body: bytes | None = None, *, more: str = "") -> bytes:
    """A PUT of a report as a client sends it."""
    body = encode(roster_report(TASK, NAMES[place])) if body is None else body
    head = (
        f"PUT /tasks/{TASK.id.hex()}/rounds/1/reports/{NAMES[place].hex()} HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {KEYS[place].hex()}\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@contextlib.contextmanager
def served(tmp_path: Path, *, keep_alive: int = 65) -> Iterator[tuple[str, int]]:
    """The application behind uvicorn, on a real socket, with the options of the service; its address."""
    store = open_store(f"sqlite:///{tmp_path / 'service.db'}")
    open_round(store)
    listener = bind("127.0.0.1", 0)
    config = uvicorn.Config(
        build_app(store, MockClock(), interval=0.05)[0], lifespan="on", http="httptools", log_config=None, ws="none",
        timeout_keep_alive=keep_alive, proxy_headers=False, server_header=False,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        server.should_exit = True
        thread.join()
        store.close()


def answer(connection: socket.socket) -> bytes:
    """All that comes until the connection is closed."""
    connection.settimeout(SOON)
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


class Client:
    """A connection that reads one whole answer after another."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket, self.rest = socket.create_connection(address, timeout=SOON), b""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def read(self) -> tuple[int, dict[str, Any]]:
        """Status and document of the next answer."""
        while b"\r\n\r\n" not in self.rest:
            self._more()
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        headers = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
        assert b"date" in headers
        assert headers[b"cache-control"] == b"no-store"
        while len(self.rest) < int(headers[b"content-length"]):
            self._more()
        size = int(headers[b"content-length"])
        body, self.rest = self.rest[:size], self.rest[size:]
        return int(head.split()[1]), json.loads(body)

    def _more(self) -> None:
        part = self.socket.recv(65_536)
        assert part, "the connection was closed"
        self.rest += part

    def ask(self, data: bytes) -> tuple[int, dict[str, Any]]:
        self.socket.sendall(data)
        return self.read()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with served(tmp_path) as address, Client(address) as connection:
        # A worker gets to know a campaign by its first request.
        assert connection.ask(f"GET /tasks/{TASK.id.hex()}/state HTTP/1.1\r\nHost: x\r\n\r\n".encode())[0] == 200
        yield connection


def digest(data: bytes) -> dict[str, str]:
    return {"digest": hashlib.sha256(data.partition(b"\r\n\r\n")[2]).hexdigest()}


def test_a_report_is_stored_once_and_a_retry_is_told_so(client: Client) -> None:
    assert client.ask(request(0)) == (201, digest(request(0)))
    assert client.ask(request(0)) == (200, digest(request(0)))
    other = encode(roster_report(TASK, NAMES[0], nonce=NAMES[1]))
    status, document = client.ask(request(0, other))
    assert (status, document["token"]) == (409, "other-answer")


def test_a_report_may_come_in_pieces(client: Client) -> None:
    data = request(1)
    for place in range(len(data)):
        client.socket.sendall(data[place : place + 1])
    assert client.read() == (201, digest(data))


def test_answers_come_in_the_order_of_requests(client: Client) -> None:
    state = f"GET /tasks/{TASK.id.hex()}/state HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    client.socket.sendall(request(2) + state + request(3) + request(2) + b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
    answers = [client.read() for _ in range(5)]
    assert [status for status, _ in answers] == [201, 200, 201, 200, 404]
    assert answers[0][1] == answers[3][1] == digest(request(2))
    assert answers[1][1]["round"] == 1
    assert answers[2][1] == digest(request(3))
    assert client.ask(request(4)) == (201, digest(request(4)))


def test_a_connection_that_is_to_be_closed_is_closed_after_the_answer(client: Client) -> None:
    client.socket.sendall(request(5, more="Connection: close\r\n"))
    data = client.rest + answer(client.socket)
    assert data.startswith(b"HTTP/1.1 201")


@pytest.mark.parametrize(
    ("start", "status"),
    [
        (request(6).partition(b"Content")[0], 413),
        (request(6).partition(b"Content")[0].replace(b" HTTP", b"?" + b"x" * 300 + b" HTTP"), 413),
        (b"POST /tasks HTTP/1.1\r\nHost: x\r\n", 401),
        (b"PUT /nowhere HTTP/1.1\r\nHost: x\r\n", 404),
        (b"GET /key HTTP/1.1\r\nHost: x\r\n", 200),
    ],
)  # fmt: skip
def test_what_is_answered_before_its_body_has_come_is_not_read_on(client: Client, start: bytes, status: int) -> None:
    client.socket.sendall(start + b"Content-Length: 50000000\r\n\r\n")
    data = client.rest + answer(client.socket)
    assert data.startswith(b"HTTP/1.1 %d" % status)
    assert b"connection: close" in data
    assert b"x-content-type-options: nosniff" in data
    with pytest.raises(ConnectionError):
        client.socket.sendall(bytes(50_000_000))


def test_a_body_without_end_is_cut_off(client: Client) -> None:
    head = request(6, b"").partition(b"\r\n\r\n")[0].replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    client.socket.sendall(head + b"\r\n\r\n")
    sent = 0
    try:
        while sent < 50_000_000:
            client.socket.sendall(b"3e8\r\n" + bytes(1000) + b"\r\n")
            sent += 1000
    except ConnectionError:
        pass
    assert sent < 10_000_000  # the buffers of the system on both sides


def test_a_body_that_does_not_come_is_given_up(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_SECONDS", 0.3)
    client.socket.sendall(request(6)[:-1])
    data = client.rest + answer(client.socket)
    assert data.startswith(b"HTTP/1.1 408")
    assert b"too-slow" in data


def test_a_client_that_goes_before_its_answer_harms_nobody(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = SQLiteStore.apply

    def slow(self: SQLiteStore, batch: Any) -> Any:
        time.sleep(0.2)
        return apply(self, batch)

    monkeypatch.setattr(SQLiteStore, "apply", slow)
    with Client(client.socket.getpeername()) as other:
        other.socket.sendall(request(0))
    assert client.ask(request(1)) == (201, digest(request(1)))
    assert client.ask(request(0)) == (200, digest(request(0)))


def test_a_connection_that_waits_after_a_report_is_closed_when_its_time_is_over(tmp_path: Path) -> None:
    with served(tmp_path, keep_alive=1) as address, Client(address) as connection:
        connection.socket.sendall(request(0))
        data = answer(connection.socket)
        assert data.startswith(b"HTTP/1.1 201")
        assert data.count(b"HTTP/1.1") == 1


def test_strangers_write_a_line_a_minute_whatever_they_send(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    upgrade = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    server_log = logging.getLogger("uvicorn.error")
    before = list(server_log.filters)
    set_up_logging("info")
    try:
        with served(tmp_path) as address:
            for data in [upgrade, b"this is not HTTP\r\n\r\n"] * 10:
                with socket.create_connection(address, timeout=SOON) as connection:
                    connection.sendall(data)
                    assert connection.recv(100)
    finally:
        server_log.filters[:] = before
    lines = [record.getMessage() for record in caplog.records if record.name == "uvicorn.error"]
    assert "Unsupported upgrade request." in lines
    assert len(lines) == len(set(lines)) <= 3, lines
