"""What the door takes, and what it does not: sizes, times and numbers of connections, on real sockets."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from semilocal.service.door import Door, raise_file_limit
from semilocal.testing import Server
from tests.helpers.flood import REQUEST, greedy, half_open, raised_file_limit
from tests.helpers.nginx import peak_memory
from tests.helpers.served import SOON, answer, served
from tests.helpers.service import sample_task


def refusal(data: bytes) -> tuple[int, str]:
    """Status and token of a refusal in our words."""
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    document = json.loads(body)
    assert document["type"] == f"urn:semilocal:problem:{document['token']}"
    assert document["status"] == int(head.split()[1])
    return document["status"], document["token"]


def send_until_refused(connection: socket.socket, piece: bytes, *, most: int) -> int:
    """Send the same piece on and on; how many bytes were taken."""
    sent = 0
    connection.settimeout(SOON)
    try:
        while sent < most:
            sent += connection.send(piece)
    except (ConnectionError, TimeoutError):
        pass
    return sent


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(3000)) + b"\r\n",
    ],
    ids=["url", "header", "headers"],
)
def test_a_head_that_is_too_large_is_refused_in_our_words(tmp_path: Path, head: bytes) -> None:
    with served(tmp_path) as address, socket.create_connection(address) as connection:
        connection.sendall(head)
        assert refusal(answer(connection)) == (413, "too-large")


@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\nX: ", b"GET / HTTP/1.1\r\nX"])
def test_a_head_that_never_ends_is_cut_off(tmp_path: Path, start: bytes) -> None:
    with served(tmp_path) as address, socket.create_connection(address) as connection:
        connection.sendall(start)
        taken = send_until_refused(connection, b"a" * 1000, most=50_000_000)
        assert taken < 10_000_000  # the buffers of the system on both sides, not of the server
        assert Door.limits.head_bytes < 1 << 20


def test_what_is_not_http_is_refused_in_our_words(tmp_path: Path) -> None:
    with served(tmp_path) as address, socket.create_connection(address) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
        assert refusal(answer(connection)) == (400, "malformed")


@pytest.mark.parametrize("first", [b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\n", REQUEST + b"GET"])
def test_a_slow_head_is_refused(tmp_path: Path, first: bytes) -> None:
    whole = first.startswith(REQUEST)  # it must be read in time, on a busy machine too
    with (
        served(tmp_path, head_seconds=5.0 if whole else 0.3) as address,
        socket.create_connection(address) as connection,
    ):
        connection.sendall(first)
        data = answer(connection)
        if whole:
            assert data.startswith(b"HTTP/1.1 200")
            data = data[data.index(b"HTTP/1.1 408") :]
        assert refusal(data) == (408, "too-slow")


def test_a_slow_body_ends(tmp_path: Path) -> None:
    path = f"/tasks/{sample_task().id.hex()}/participants/{bytes(16).hex()}"
    head = f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n".encode()
    with served(tmp_path, body_seconds=0.3) as address, socket.create_connection(address) as connection:
        connection.sendall(head + b"{")
        assert answer(connection) == b""


def test_a_body_that_goes_on_after_its_refusal_ends(tmp_path: Path) -> None:
    head = b"PUT /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"
    with served(tmp_path, body_seconds=0.3) as address, socket.create_connection(address) as connection:
        connection.sendall(head)
        taken = send_until_refused(connection, b"a" * 1000, most=1_000_000_000)
        assert taken < 1_000_000_000


def test_requests_sent_ahead_of_their_answers_are_limited(tmp_path: Path) -> None:
    with served(tmp_path) as address, socket.create_connection(address) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(REQUEST * 2000)
        assert answer(connection).count(b"HTTP/1.1 200") <= Door.limits.pipelined + 1
    with served(tmp_path) as address, socket.create_connection(address) as connection:
        connection.sendall(REQUEST * 4 + REQUEST.replace(b"Host: x", b"Host: x\r\nConnection: close"))
        assert answer(connection).count(b"HTTP/1.1 200") == 5


def test_connections_that_only_wait_keep_nobody_out(tmp_path: Path) -> None:
    with served(tmp_path, connections=32, head_seconds=600.0, body_seconds=600.0) as address:
        idle = []
        for number in range(200):
            connection = socket.create_connection(address)
            connection.sendall([b"", b"GET /ta", b"PUT /tasks HTTP/1.1\r\nContent-Length: 9\r\n\r\nx"][number % 3])
            idle.append(connection)
        url = f"http://{address[0]}:{address[1]}"
        for _ in range(3):
            assert httpx2.get(f"{url}/tasks", timeout=SOON).status_code == 200
        for connection in idle:
            connection.close()


def test_a_worker_full_of_requests_refuses_more_in_our_words(tmp_path: Path) -> None:
    task = sample_task().id.hex()
    poll = f"GET /tasks/{task}/state?after=0&wait=25 HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    with served(tmp_path, connections=8) as address:
        polls = [socket.create_connection(address) for _ in range(8)]
        for connection in polls:
            connection.sendall(poll)
        deadline = time.monotonic() + SOON
        while True:
            with socket.create_connection(address) as late:
                late.sendall(REQUEST.replace(b"Host: x", b"Host: x\r\nConnection: close"))
                data = answer(late)
            if b" 503 " in data[:20]:
                break
            assert time.monotonic() < deadline
        assert refusal(data) == (503, "overloaded")
        assert b"retry-after: " in data
        for connection in polls:
            connection.close()


def test_an_answer_that_nobody_reads_is_given_up(tmp_path: Path) -> None:
    ended = threading.Event()

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(10_000):  # far more than all buffers on the way hold
            await send({"type": "http.response.body", "body": bytes(10_000), "more_body": True})
        ended.set()

    with served(tmp_path, app=endless, write_seconds=0.3) as address, socket.create_connection(address) as connection:
        connection.sendall(REQUEST)
        assert ended.wait(SOON)


def test_the_file_limit_is_raised_and_some_are_kept(tmp_path: Path) -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (300, 900))\n"
        "from semilocal.service.door import raise_file_limit\n"
        "print(raise_file_limit(), resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "900 (900, 900)"
    assert raise_file_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_half_open_connections_at_the_file_limit_do_not_keep_a_device_out(tmp_path: Path) -> None:
    """A real server that may open 400 files, and 1,050 connections that send half a request each."""
    server = Server(f"sqlite:///{tmp_path / 'service.db'}", log=tmp_path / "log.txt")
    with raised_file_limit() as hard:
        if hard < 2000:
            pytest.skip(f"the test itself needs 2,000 descriptors; the system allows {hard}")
    server.start(files=400)
    try:
        with half_open(server.port, 1050):
            assert httpx2.get(f"{server.url}/tasks", timeout=SOON).status_code == 200
            assert httpx2.get(f"{server.url}/healthz", timeout=SOON).json()["status"] == "ok"
    finally:
        server.stop()
    log = (tmp_path / "log.txt").read_text()
    assert "Too many open files" not in log
    assert "the oldest that waits is closed" in log


def test_one_connection_takes_less_than_two_megabytes(tmp_path: Path) -> None:
    """Forty connections that send as much as they can: the memory of a real server grows by less than 2 MB each."""
    server = Server(f"sqlite:///{tmp_path / 'service.db'}", log=tmp_path / "log.txt")
    server.start()
    assert server.process is not None
    before = peak_memory(server.process.pid)
    try:
        with greedy(server.port, 40):
            assert httpx2.get(f"{server.url}/tasks", timeout=SOON).status_code == 200
            assert peak_memory(server.process.pid) - before < 40 * (2 << 20)
    finally:
        server.stop()
