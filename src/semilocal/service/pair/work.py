"""The processes of a machine that evaluate: started, watched, and restarted when they die.

Knows processes and databases by their URL. Knows no HTTP or noise.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess

from ...errors import StoreUnavailable
from ..faults import Seldom
from ..keys import Keyring
from ..stores.base import open_store
from ..stores.chunks import Fault
from ..stores.pairs import PairTables
from .chunk_worker import LEASE, MEMORY, ChunkWorker

__all__ = ["OwnWorkers", "Processes"]

log = logging.getLogger("semilocal.service")
SOON, SELDOM = 0.002, 0.2  # seconds between two looks into the database
_LOADED = ["semilocal.service.pair.work", "semilocal.service.stores.sqlite"]  # before processes are forked
IDLE = 60.0  # seconds without work after which a process of a server ends
PAUSE = 1.0  # seconds after a fault, and before a process is started again that died soon
Progress = Callable[[int, int, Fault | None], None]


class Processes:
    """Worker processes on a database.

    Parameters
    ----------
    count : int
    url : str
        Of the database.
    keys : Keyring
        The operator's. They go to the processes through a pipe, not through the environment.
    name : str
        Of this machine in the leases; workers are called ``name/0`` and so on. A worker that is started again has the
        name of the one that died, and goes on with its chunks at once.
    lease : float
    idle : float or None
        Seconds without work after which a process ends; None: never.
    """

    def __init__(
        self, count: int, url: str, keys: Keyring, name: str, *, lease: float = LEASE, idle: float | None = IDLE
    ) -> None:
        self._given = (url, tuple(keys.private.values()))
        self._name, self._lease, self._idle = name, lease, idle
        self._running: list[BaseProcess | None] = [None] * count
        self._started = [0.0] * count
        self._guard = threading.Lock()

    def watch(self) -> None:
        """Start every process that does not run."""
        now = time.monotonic()
        with self._guard:
            for number, process in enumerate(self._running):
                if process is not None and process.is_alive():
                    continue
                if process is not None and process.exitcode:
                    if now - self._started[number] < PAUSE:
                        continue
                    log.warning("a worker process ended with %s; it is started again", process.exitcode)
                self._running[number], self._started[number] = self._start(number), now

    def pids(self) -> list[int]:
        """Of the processes that run."""
        with self._guard:
            return [
                process.pid
                for process in self._running
                if process is not None and process.is_alive() and process.pid is not None
            ]

    def stop(self) -> None:
        """End all processes."""
        with self._guard:
            running = [one for one in self._running if one is not None]
            self._running = [None] * len(self._running)
        for process in running:
            process.kill()  # a worker has nothing to lose
        for process in running:
            process.join()

    def _start(self, number: int) -> BaseProcess:
        memory = MEMORY // len(self._running)
        # Forked from a small process of its own that has everything loaded: a worker that died is back at once.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_LOADED)
        process = context.Process(
            target=_run, args=(*self._given, f"{self._name}/{number}", self._lease, memory, self._idle), daemon=True
        )
        process.start()
        return process


class OwnWorkers:
    """The workers of a server, and how it waits for results.

    Parameters
    ----------
    count : int
        Processes, started when there is work; 0 evaluates in the thread that waits, for tests.
    tables : PairTables
    url : str
    keys : Keyring
    lease : float
    """

    def __init__(self, count: int, tables: PairTables, url: str, keys: Keyring, *, lease: float = LEASE) -> None:
        self._tables = tables
        self._processes = Processes(count, url, keys, "server", lease=lease) if count else None
        self._here = ChunkWorker(tables, keys, "server/0", lease=lease)
        self._guard = threading.Lock()
        self._stopped = threading.Event()

    def wait(self, task: bytes, digest: bytes, count: int, progress: Progress = lambda *_: None) -> None:
        """Return when an order has a given number of results.

        Parameters
        ----------
        progress : callable
            Is told how many results there are, of how many, and which chunk cannot be computed.

        Raises
        ------
        StoreUnavailable
            If the database does not answer, or the server stops.
        """
        begun = time.monotonic()
        while True:
            done = self._tables.finished(task, digest)
            slow = time.monotonic() - begun > PAUSE
            progress(done, count, self._tables.fault(task) if slow and done < count else None)
            if done >= count:
                return
            if self._stopped.is_set():
                raise StoreUnavailable("the server stops")
            row = self._tables.row(task)
            if row is None or row.phase != "levels":
                raise StoreUnavailable("the pair is not counted any more")
            if self._processes is None:
                with self._guard:
                    worked = self._here.step(of=task)
                if worked:
                    continue
            else:
                self._processes.watch()
            self._stopped.wait(_pause(since=begun))

    def pids(self) -> list[int]:
        """Of the processes that run."""
        return [] if self._processes is None else self._processes.pids()

    def forget(self) -> None:
        """Forget what this process itself has of ended pairs."""
        with self._guard:
            self._here.forget()

    def stop(self) -> None:
        """End all processes, and everybody who waits."""
        self._stopped.set()
        if self._processes is not None:
            self._processes.stop()


def _pause(*, since: float) -> float:
    """Seconds until the next look: short at first, then an eighth of the time that was waited."""
    return min(max((time.monotonic() - since) / 8, SOON), SELDOM)


# -- in a worker -------------------------------------------------------------------------------------------------------


def _run(url: str, seeds: tuple[bytes, ...], name: str, lease: float, memory: int, idle: float | None) -> None:
    """The life of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    keys = Keyring.of(seeds)
    while True:
        try:
            store = open_store(url, worker=name)
            break
        except StoreUnavailable:
            time.sleep(PAUSE)
    worker = ChunkWorker(store.pairs, keys, name, lease=lease, memory=memory)
    threading.Thread(target=_renew, args=(worker, lease / 3), daemon=True).start()
    worked = failed = time.monotonic()
    seldom = Seldom()
    while idle is None or time.monotonic() - worked < idle:
        try:
            found = worker.step(retry=time.monotonic() - failed >= PAUSE)
        except Exception as error:  # whatever is wrong with one chunk: others wait
            failed = time.monotonic()
            if seldom.allow(type(error)):
                log.warning("worker %s: %s: %s", name, type(error).__name__, error)
            if isinstance(error, StoreUnavailable):
                time.sleep(PAUSE)
            continue
        if found:
            worked = time.monotonic()
        else:
            time.sleep(_pause(since=worked))


def _end_with(parent: BaseProcess) -> None:
    """End with the parent, however it ends: a worker holds shares."""
    parent.join()
    os._exit(1)


def _renew(worker: ChunkWorker, seconds: float) -> None:
    while True:
        time.sleep(seconds)
        with contextlib.suppress(StoreUnavailable):
            worker.renew()
