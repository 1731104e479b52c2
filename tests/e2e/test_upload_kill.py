"""``semilocal join`` is killed at every request of its upload; the next start sends the same bytes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from semilocal.device.vault import unpack
from tests.helpers.fake_pair import FakePair, sample_pair
from tests.helpers.fake_server import Problem, problem_body
from tests.helpers.forked import Forked

WAIT = 120  # seconds after which a busy machine has failed


class Servers:
    """Both servers of a pair on real sockets; one request, counted from 0, is never answered."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.uploads: list[bytes] = []
        self.silent_at: int | None = None
        self.reached, self.released = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self.listeners = [ThreadingHTTPServer(("127.0.0.1", 0), _handler(self)) for _ in range(2)]
        origins = [f"http://127.0.0.1:{listener.server_address[1]}" for listener in self.listeners]
        pair = sample_pair()
        self.fake = FakePair(
            msgspec.structs.replace(
                pair,
                leader=msgspec.structs.replace(pair.leader, origin=origins[0]),
                helper=msgspec.structs.replace(pair.helper, origin=origins[1]),
            )
        )

    def answer(self, method: str, path: str, host: str, body: bytes) -> tuple[int, bytes] | None:
        with self._lock:
            number = len(self.requests)
            self.requests.append(f"{method} {path}")
            if method == "PUT":
                self.uploads.append(body)
        if path == "/healthz":
            return 200, b"{}"
        if number == self.silent_at:
            self.reached.set()
            self.released.wait(WAIT)
            return None
        try:
            return self.fake.answer(method, path, {"host": host}, body)
        except Problem as problem:
            return problem.status, problem_body(problem.status, problem.token)


def _handler(servers: Servers) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            found = servers.answer(self.command, self.path, self.headers["host"], body)
            if found is None:
                self.close_connection = True
                return
            status, data = found
            kind = "problem+json" if status >= 400 else "json" if data[:1] == b"{" else "msgpack"
            self.send_response(status)
            self.send_header("content-type", f"application/{kind}")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_PUT = do_GET

        def log_message(self, *arguments: Any) -> None: ...

    return Handler


@contextmanager
def running() -> Iterator[Servers]:
    servers = Servers()
    threads = [threading.Thread(target=listener.serve_forever, daemon=True) for listener in servers.listeners]
    for thread in threads:
        thread.start()
    try:
        yield servers
    finally:
        servers.released.set()
        for listener in servers.listeners:
            listener.shutdown()
            listener.server_close()


def join(servers: Servers, vault: Path) -> Forked:
    words = ["join", servers.fake.url, "--position", "0.3,0.7", "--yes", "--vault", str(vault), "--spread", "0"]
    return Forked(words, None, os.environ)


@pytest.mark.slow
def test_a_killed_upload_goes_on_with_the_same_bytes(tmp_path: Path) -> None:
    with running() as servers:
        assert join(servers, tmp_path / "whole").wait(WAIT) == 0
        asked = list(servers.requests)
        assert asked[-1].startswith("PUT")
    moments = [number for number, request in enumerate(asked) if "/healthz" not in request]
    assert len(moments) >= 4
    for moment in moments:
        with running() as servers:
            servers.silent_at = moment
            vault = tmp_path / f"vault-{moment}"
            device = join(servers, vault)
            assert servers.reached.wait(WAIT)
            device.kill()
            device.wait(WAIT)
            sealed = unpack(vault.read_bytes(), vault).uploads
            assert bool(sealed) == asked[moment].startswith("PUT")
            servers.silent_at = None
            servers.released.set()
            assert join(servers, vault).wait(WAIT) == 0
            assert len(set(servers.uploads)) == 1
            assert len(servers.fake.stored) == 1
            (entry,) = unpack(vault.read_bytes(), vault).uploads
            assert entry.receipt
            assert [line.spent for line in unpack(vault.read_bytes(), vault).ledger.lines] == ["2"]
