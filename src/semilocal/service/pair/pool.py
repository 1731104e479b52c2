"""The evaluation of reports in a pool of processes: one job is one level of one chunk of a tree's reports.

A process keeps the states of its chunks between levels, and a chunk always goes to the same process. A job says
everything that has happened to its chunk, and the reports can be loaded again: a process without its states begins at
the root. So a process that is killed is replaced, and its jobs of this level are repeated; nothing else is lost.

Knows shares and processes. Knows no database, HTTP or noise. Every process imports this module, so it imports little.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import EvaluationFailed, StoreUnavailable, printable
from ...sharing.evaluate import Half
from ...sharing.report import Shape

__all__ = ["MEMORY", "Chunks", "Job", "Move", "Pool", "Reports", "Tree"]

MEMORY = 1 << 30  # bytes of states that all processes keep; what is above is computed again at every level
LOOK = 0.2  # seconds between two looks whether the pair is still counted
TRIES = 10  # processes that may die in a row before a level is given up for now
AHEAD = 2  # jobs that wait at a process: reports of so many chunks are in memory twice

Words = npt.NDArray[np.uint64]
Tags = npt.NDArray[np.uint8]
Found = tuple[Words, Tags]  # sums uint64[2 m, w], and tags uint8[n, b] where the whole level was wanted


class Tree(NamedTuple):
    """The tree that a job belongs to: the pair, its sizes, which server this is, and a digest of all that."""

    pair: bytes
    shape: Shape
    server: int
    digest: bytes


class Move(NamedTuple):
    """What happened to a chunk: children that were opened (packed int64), or reports that were dropped (bool)."""

    opened: bytes | None
    dropped: bytes | None


class Job(NamedTuple):
    """What is to be evaluated of a chunk after some moves: a level, or the sums over some ``reports`` (bool)."""

    tree: Tree
    chunk: int
    moves: tuple[Move, ...]
    reports: bytes | None


class Reports(NamedTuple):
    """The reports of a chunk."""

    public: list[bytes]
    private: list[bytes]


class Chunks:
    """The chunks that a process keeps.

    Parameters
    ----------
    memory : int
        Most bytes of states beside those of the roots.
    """

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._kept: dict[tuple[Tree, int], tuple[Half, tuple[Move, ...]]] = {}

    def evaluate(self, job: Job, reports: Reports | None) -> Found | None:
        """Do a job; None if it needs the reports."""
        tree = job.tree
        half, done = self._kept.pop((tree, job.chunk), (None, ()))
        if half is None or done != job.moves[: len(done)]:
            if reports is None:
                return None
            self._kept = {key: kept for key, kept in self._kept.items() if key[0].pair != tree.pair or key[0] == tree}
            half, done = Half(tree.pair, tree.shape, tree.server, *reports), ()
        for move in job.moves[len(done) :]:
            if move.dropped is not None:
                half.drop(_flags(move.dropped))
            if move.opened is not None:
                rows = np.frombuffer(move.opened, dtype="<i8").astype(np.int64)
                half.open(rows, keep=self.kept_bytes() + 16 * len(rows) * len(half) <= self._memory)
        self._kept[tree, job.chunk] = half, job.moves
        if job.reports is not None:
            return half.sums_of(_flags(job.reports)), np.empty((0, 0), dtype=np.uint8)
        share = half.expand()
        return share.sums, share.tags if half.level else np.concatenate([half.value_digests, share.tags], axis=1)

    def forget(self, pair: bytes) -> None:
        """Forget a pair: these are shares."""
        self._kept = {key: kept for key, kept in self._kept.items() if key[0].pair != pair}

    def kept_bytes(self) -> int:
        """Memory of all states."""
        return sum(half.kept_bytes for half, _ in self._kept.values())


def _flags(packed: bytes) -> npt.NDArray[np.bool_]:
    return np.frombuffer(packed, dtype=bool)


class Pool:
    """The processes of a server.

    Parameters
    ----------
    processes : int
        Started when there is work, ended when no pair is counted; 0 evaluates in the thread that asks, for tests.
    """

    def __init__(self, processes: int) -> None:
        self._executors: list[ProcessPoolExecutor | None] = [None] * processes
        self._here = Chunks(MEMORY)
        self._pairs: set[bytes] = set()
        self._guard = threading.Lock()
        self._stopped = False

    def evaluate(
        self, jobs: Sequence[Job], load: Callable[[int], Reports], look: Callable[[int], None] = lambda done: None
    ) -> list[Found]:
        """What comes out of the jobs of one tree, in their order.

        Parameters
        ----------
        load : callable
            The reports of a job by its number.
        look : callable
            Is told now and then how many jobs are done; raises if they are not wanted any more.

        Raises
        ------
        EvaluationFailed
            If a job cannot be done.
        StoreUnavailable
            If the server stops.
        """
        with self._guard:
            self._pairs |= {job.tree.pair for job in jobs}
        if self._executors:
            found = _Run(self, jobs, load, look).results()
        else:
            found = [self._do_here(number, jobs, load, look) for number in range(len(jobs))]
        look(len(jobs))
        return found

    def _do_here(
        self, number: int, jobs: Sequence[Job], load: Callable[[int], Reports], look: Callable[[int], None]
    ) -> Found:
        look(number)
        with self._guard, _naming(number, jobs):
            found = self._here.evaluate(jobs[number], None) or self._here.evaluate(jobs[number], load(number))
        assert found is not None
        return found

    def lane(self, job: Job) -> int:
        """The number of the process that has a chunk; chunks of several trees begin at different ones."""
        return (job.tree.digest[0] + job.chunk) % len(self._executors)

    def executor(self, lane: int, broken: ProcessPoolExecutor | None = None) -> ProcessPoolExecutor:
        """A process that lives, in the place of one that does not."""
        with self._guard:
            if self._stopped:
                raise StoreUnavailable("the server stops")
            found = self._executors[lane]
            if found is None or found is broken:
                found = self._executors[lane] = ProcessPoolExecutor(
                    1, multiprocessing.get_context("spawn"), initializer=_begin,
                    initargs=(MEMORY // len(self._executors),),
                )  # fmt: skip
            return found

    def forget(self, pair: bytes) -> None:
        """Forget a pair that has ended; without another pair the processes end."""
        with self._guard:
            self._pairs.discard(pair)
            self._here.forget(pair)
            running = [one for one in self._executors if one is not None]
            if not self._pairs:
                self._executors = [None] * len(self._executors)
        for one in running:
            if self._pairs:
                try:
                    one.submit(_forget, pair)
                except BrokenProcessPool:  # it has forgotten everything
                    continue
            else:
                one.shutdown(wait=False)

    def stop(self) -> None:
        """End all processes, and everybody who waits."""
        with self._guard:
            self._stopped = True
            running = [one for one in self._executors if one is not None]
        for one in running:
            one.shutdown(wait=False, cancel_futures=True)


class _Run:
    """The jobs of one level on their way through the processes."""

    def __init__(
        self, pool: Pool, jobs: Sequence[Job], load: Callable[[int], Reports], look: Callable[[int], None]
    ) -> None:
        self._pool, self._jobs, self._load, self._look = pool, jobs, load, look
        self._lanes: dict[int, deque[int]] = {}
        for number, job in enumerate(jobs):
            self._lanes.setdefault(pool.lane(job), deque()).append(number)
        self._going: dict[Future[Found | None], tuple[int, ProcessPoolExecutor]] = {}
        self._found: dict[int, Found] = {}
        self._deaths = 0  # since the last result

    def results(self) -> list[Found]:
        last = 0.0
        try:
            while len(self._found) < len(self._jobs):
                if time.monotonic() - last > LOOK:
                    self._look(len(self._found))
                    last = time.monotonic()
                self._fill()
                done, _ = wait(self._going, timeout=LOOK, return_when=FIRST_COMPLETED)
                for future in done:
                    self._take(future)
        finally:
            for future in self._going:
                future.cancel()
        return [self._found[number] for number in range(len(self._jobs))]

    def _fill(self) -> None:
        busy = Counter(self._pool.lane(self._jobs[number]) for number, _ in self._going.values())
        for lane, numbers in self._lanes.items():
            for _ in range(min(len(numbers), AHEAD - busy[lane])):
                self._submit(numbers.popleft(), None)

    def _submit(self, number: int, reports: Reports | None, broken: ProcessPoolExecutor | None = None) -> None:
        executor = self._pool.executor(self._pool.lane(self._jobs[number]), broken)
        try:
            self._going[executor.submit(_evaluate, self._jobs[number], reports)] = number, executor
        except (BrokenProcessPool, RuntimeError):  # it died, or was shut down, while nobody looked
            self._died(number, executor)

    def _take(self, future: Future[Found | None]) -> None:
        number, executor = self._going.pop(future)
        with _naming(number, self._jobs):
            try:
                found = future.result()
            except (BrokenProcessPool, CancelledError):  # killed, or shut down
                return self._died(number, executor)
            if found is not None:
                self._found[number], self._deaths = found, 0
                return None
            reports = self._load(number)
        return self._submit(number, reports)

    def _died(self, number: int, executor: ProcessPoolExecutor) -> None:
        self._deaths += 1
        if self._deaths > TRIES * AHEAD:
            raise EvaluationFailed(f"{_name(number, self._jobs)}: its process was killed {TRIES} times")
        self._look(len(self._found))
        self._submit(number, None, executor)


@contextmanager
def _naming(number: int, jobs: Sequence[Job]) -> Iterator[None]:
    """Says which part of the reports an error is about."""
    try:
        yield
    except (StoreUnavailable, EvaluationFailed):
        raise
    except Exception as error:
        raise EvaluationFailed(f"{_name(number, jobs)}: {type(error).__name__}: {printable(str(error))}") from error


def _name(number: int, jobs: Sequence[Job]) -> str:
    return f"part {number + 1} of {len(jobs)} cannot be evaluated"


# -- in a process ------------------------------------------------------------------------------------------------------


_chunks = Chunks(MEMORY)


def _begin(memory: int) -> None:
    """The first thing that a process does."""
    global _chunks
    _chunks = Chunks(memory)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    """End with the server, however it ends: a process holds shares."""
    parent.join()
    os._exit(1)


def _evaluate(job: Job, reports: Reports | None) -> Found | None:
    return _chunks.evaluate(job, reports)


def _forget(pair: bytes) -> None:
    _chunks.forget(pair)
