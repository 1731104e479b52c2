"""What is wrong with TLS is said at once and in words, by every command that opens a connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from semilocal.device.channel import Channel, Retry
from semilocal.device.transport import LeanWire, new_client
from semilocal.errors import Unreachable
from semilocal.testing import MockClock, cluster
from tests.helpers.commands import refused, write_people
from tests.helpers.nginx import certificate

NAME = "0" * 64


class Listener:
    """Accepts connections; with a context it speaks TLS, without one it answers in the clear."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=16)
        self._socket.settimeout(0.1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.connections = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Listener:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = self._socket.accept()
                self.connections += 1
                connection.settimeout(5)
                with connection, contextlib.suppress(OSError):
                    if self._context is None:
                        connection.recv(1)
                        connection.sendall(b"HTTP/1.1 400 x\r\nContent-Length: 0\r\n\r\n")
                    else:
                        self._context.wrap_socket(connection, server_side=True).close()


@pytest.fixture(params=["untrusted", "no TLS"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Listener]:
    context = None
    if request.param == "untrusted":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate(tmp_path))
    with Listener(context) as listener:
        yield listener


def test_every_command_says_it_at_once(capsys: pytest.CaptureFixture[str], server: Listener, tmp_path: Path) -> None:
    points = write_people(tmp_path / "devices.csv", cluster(5))
    url = server.url
    commands: list[tuple[object, ...]] = [
        ("join", f"{url}/tasks/{NAME}", "--position", "0.5,0.5", "--yes", "--vault", tmp_path / "vault"),
        ("swarm", f"{url}/tasks/{NAME}", "--points", points, "--quiet"),
        ("campaign", "list", "--url", url),
        ("transcript", url, NAME, "--out", tmp_path / "t.slt"),
    ]
    for words in commands:
        before = server.connections
        said = refused(capsys, *words)  # one line on stderr: nothing was tried again before it
        assert any(
            part in said for part in ("certificate", "WRONG_VERSION", "wrong version", "RECORD", "record layer")
        ), said
        assert server.connections == before + 1
    assert not (tmp_path / "vault").exists()


@pytest.mark.parametrize("lean", [True, False])
def test_a_device_on_its_way_says_it_with_the_first_try_and_stays_patient(server: Listener, lean: bool) -> None:
    """A hotel's portal may be in between for an hour: the device waits, but its owner knows why."""
    lines: list[str] = []

    async def scene() -> None:
        client = new_client()
        wire = LeanWire(server.url) if lean else client
        retry = Retry(first=1.0, longest=1.0, patience=5.0)
        channel = Channel(server.url, wire, retry=retry, notify=lines.append, clock=MockClock(0.0))
        try:
            await channel.send("GET", "/tasks")
        finally:
            await channel.aclose()
            await client.aclose()

    with pytest.raises(Unreachable, match="TLS: "):
        asyncio.run(scene())
    assert lines[0].startswith(f"{server.url} does not answer (TLS: ")
