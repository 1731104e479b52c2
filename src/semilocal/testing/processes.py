"""Real processes: the server, and a private PostgreSQL."""

from __future__ import annotations

import contextlib
import http.client
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
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
def running_server(database: str, *, log: Path | None = None) -> Iterator[Server]:
    """Run a real server on a free port, and stop it at the end; the administrator's token is :data:`ADMIN_TOKEN`."""
    server = Server(database, log=log)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class Postgres:
    """A private PostgreSQL cluster in a temporary folder; call :meth:`stop` at the end.

    Parameters
    ----------
    fsync : bool
        Whether writes reach the disk. Without it only a machine that fails loses something: what a killed process has
        written is with the system, and a commit waits for that in either case.

    Raises
    ------
    RuntimeError
        If PostgreSQL's server programs are not installed, or do not start.
    """

    def __init__(self, *, fsync: bool = True) -> None:
        self.fsync = fsync
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
        if not found:
            raise RuntimeError("PostgreSQL's server programs are not installed (no /usr/lib/postgresql/*/bin/pg_ctl)")
        self.bin = found[-1].parent
        self.home = Path(tempfile.mkdtemp(prefix="semilocal-pg-"))
        self.user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None  # it refuses to run as root
        if self.user is not None:
            os.chown(self.home, self.user.pw_uid, self.user.pw_gid)
        self.port = free_port()
        self.data = self.home / "data"
        self.names = 0
        self._run("initdb", "-D", str(self.data), "-U", "semilocal", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        self.start()

    def start(self) -> None:
        """Start the cluster."""
        settings = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.home}"
            f" -c max_connections=100 -c shared_buffers=64MB -c fsync={self.fsync} -c synchronous_commit=on"
        )
        self._run("pg_ctl", "-D", str(self.data), "-l", str(self.home / "server.log"), "-w", "-o", settings, "start")

    def new_database(self) -> str:
        """Make an empty database; returns its URL."""
        self.names += 1
        name = f"test{self.names}"
        self._run("createdb", "-h", str(self.home), "-p", str(self.port), "-U", "semilocal", name)
        return f"postgresql://semilocal@127.0.0.1:{self.port}/{name}"

    def kill(self) -> None:
        """Kill every process of the cluster at once, as a crash does."""
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
        processes = [pid, *(int(child) for child in found.stdout.split())]
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for process in processes:
            with contextlib.suppress(OSError):  # gone, or dead and not yet collected by its parent
                while Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
                    time.sleep(0.01)
        # A dead process that was not collected still has its number: PostgreSQL would take it for a running server.
        (self.data / "postmaster.pid").unlink()
        for lock in self.home.glob(".s.PGSQL.*.lock"):
            lock.unlink()

    def stop(self) -> None:
        """Kill the cluster and remove its folder."""
        with contextlib.suppress(OSError, ValueError):
            self.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        options: dict[str, Any] = {}
        if self.user is not None:
            options = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        with open(self.home / "log.txt", "ab") as log:
            done = subprocess.run(
                [str(self.bin / program), *arguments],
                stdout=log, stderr=log, cwd="/", timeout=120, check=False, **options,
            )  # fmt: skip
        if done.returncode:
            raise RuntimeError((self.home / "log.txt").read_text()[-2000:])
