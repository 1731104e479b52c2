"""Commands in processes of their own that need not load anything: they are forked from one that has.

A process that is started anew spends a second on imports; a test that kills twenty of them would wait for little else.
Each of these is a process like any other: it has its own group, dies by ``kill -9``, and shares nothing with the next.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.process
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from semilocal.testing import Server

LOADED = [
    "semilocal.cli.parser", "semilocal.cli.commands.serve",
    "semilocal.cli.commands.join", "semilocal.page.routes",
    "semilocal.service.server", "semilocal.service.stores.sqlite", "semilocal.service.stores.postgres",
    "semilocal.device.agent", "semilocal.device.channel",
    "semilocal.device.transport", "semilocal.device.vault", "semilocal.io.regions", "scipy.special", "uvicorn",
    "tests.helpers.forked",
]  # fmt: skip
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(LOADED)
_starting = threading.Lock()


class Forked:
    """``semilocal`` with arguments, in a process of its own; looks like ``subprocess.Popen`` from outside.

    Parameters
    ----------
    arguments : sequence of str
    log : Path or None
        Where its output is added.
    environment : mapping
        In the place of the parent's.
    """

    def __init__(self, arguments: Sequence[str], log: Path | None, environment: Mapping[str, str]) -> None:
        given = (list(arguments), str(log or os.devnull), dict(environment))
        self._process = _context.Process(target=_run, args=given, daemon=False)
        with _starting:
            self._process.start()
            # Else the next start, in another thread, asks for this one's exit code, too. It can be read once; whoever
            # comes second is told 255.
            multiprocessing.process._children.discard(self._process)  # type: ignore[attr-defined]
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        self._wait_for_group()

    def _wait_for_group(self) -> None:
        """Until it leads its own group: a kill of the group before that would reach nobody."""
        with contextlib.suppress(ProcessLookupError):
            while os.getpgid(self.pid) != self.pid and self._process.is_alive():
                time.sleep(0.001)

    @property
    def returncode(self) -> int | None:
        """As of ``subprocess``: negative for a signal."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise TimeoutError(f"process {self.pid} has not ended after {timeout} s")
        return code

    def terminate(self) -> None:
        """Ask it to stop."""
        self._process.terminate()

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()


class ForkedServer(Server):
    """``semilocal serve``, forked; see ``semilocal.testing.Server``."""

    def _launch(self, arguments: Sequence[str], environment: Mapping[str, str], files: int | None) -> Any:
        assert files is None, "a forked server has the limits of its parent"
        return Forked(arguments, self.log, environment)


def _run(arguments: list[str], log: str, environment: dict[str, str]) -> None:
    os.setsid()
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(sink, number)
    os.environ.clear()
    os.environ.update(environment)
    from semilocal.cli.main import main

    sys.argv = ["semilocal", *arguments]
    sys.exit(main(arguments))


def first_words(process: Forked, log: Path, *, seconds: float) -> None:
    """Wait until a process has written a line, or has ended."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and not (log.exists() and b"\n" in log.read_bytes()):
        assert time.monotonic() < deadline, "the process says nothing"
        time.sleep(0.005)
