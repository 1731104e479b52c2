"""A real server in a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .app import ADMIN_TOKEN, SIGNING_KEY

_START_SECONDS = 120  # a server that does not answer by then has failed, also on a busy machine


def free_port() -> int:
    """A port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """``semilocal serve`` in a process of its own; :func:`running_server` stops it for you.

    Parameters
    ----------
    database : str
        URL of the database.
    port : int, optional
        A free one if left out.
    log : Path, optional
        Where its output goes; nowhere if left out.
    options : sequence of str
        Further options of the command.
    signing_key : bytes
        Private key of 32 bytes; two servers of a pair need different ones.
    """

    def __init__(
        self, database: str, *, port: int | None = None, log: Path | None = None,
        options: Sequence[str] = (), signing_key: bytes = SIGNING_KEY,
    ) -> None:  # fmt: skip
        self.database, self.port, self.log = database, port or free_port(), log
        self.options, self.signing_key = options, signing_key
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, *, wait: bool = True, files: int | None = None) -> None:
        """Start it, and wait until it answers; ``files`` limits how many it may open."""
        source = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        arguments = ["serve", "--db", self.database, "--port", str(self.port)]
        environment = {
            **os.environ, "PYTHONPATH": path, "SEMILOCAL_ADMIN_TOKEN": ADMIN_TOKEN,
            "SEMILOCAL_SIGNING_KEY": self.signing_key.hex(),
        }  # fmt: skip
        self.process = self._launch([*arguments, *self.options], environment, files)
        if wait:
            self.wait()

    def _launch(
        self, arguments: Sequence[str], environment: Mapping[str, str], files: int | None
    ) -> subprocess.Popen[bytes]:
        with open(self.log or os.devnull, "ab") as sink:
            return subprocess.Popen(
                [sys.executable, "-m", "semilocal", *arguments], env=environment, stdout=sink, stderr=sink,
                start_new_session=True, preexec_fn=None if files is None else partial(_limit_files, files),
            )  # fmt: skip

    def wait(self) -> None:
        """Wait until it answers."""
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_well():
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                code = None if self.process is None else self.process.poll()
                printed = self.log.read_text()[-3000:] if self.log else ""
                raise RuntimeError(f"the server did not start (exit code {code}): {printed}")
            time.sleep(0.05)

    def _is_well(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_START_SECONDS)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        return False

    def kill(self) -> None:
        """Kill the server and its processes at once, as a crash does."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """Stop it as an administrator does."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(_START_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None


def _limit_files(most: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextlib.contextmanager
def running_server(database: str, **options: Any) -> Iterator[Server]:
    """Run a :class:`Server` on a free port, and stop it at the end; the admin token is :data:`ADMIN_TOKEN`."""
    server = Server(database, **options)
    server.start()
    try:
        yield server
    finally:
        server.kill()
