"""A private PostgreSQL in a temporary folder."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from semilocal.testing import free_port


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
