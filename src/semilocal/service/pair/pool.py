"""The evaluation of reports in a pool of processes: one job is one level of one chunk of a tree's reports.

A process keeps the states of its chunks between levels, and a chunk always goes to the same process. A job says
everything that has happened to its chunk, and the reports can be loaded again: a process without its states begins at
the root. So a process that is killed is replaced, and its jobs of this level are repeated; nothing else is lost.

Knows shares and processes. Knows no database, HTTP or noise. Every process imports this module, so it imports little.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import EvaluationFailed, StoreUnavailable, printable
from ...sharing.report import Shape
from ...sharing.verify import Half

MEMORY = 1 << 30  # bytes of states that all processes keep; what is above is computed again at every level
LOOK = 0.2  # seconds between two looks whether the pair is still counted
TRIES = 10  # times that the process of a job may be killed before the level is given up for now
AHEAD = 2  # jobs with their reports that wait at a process: the reports are in memory twice

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

    ids: list[bytes]
    public: list[bytes]
    private: list[bytes]


class Chunks:
    """The chunks that a process keeps, with at most so many bytes of states beside those of the roots."""

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
                half.verify_next(_flags(move.dropped))
            if move.opened is not None:
                rows = np.frombuffer(move.opened, dtype="<i8").astype(np.int64)
                half.open(rows, keep=self.kept_bytes() + 16 * len(rows) * len(half) <= self._memory)
        self._kept[tree, job.chunk] = half, job.moves
        if job.reports is not None:
            return half.sums_of(_flags(job.reports)), np.empty((0, 0), dtype=np.uint8)
        return half.verify_init()

    def forget(self, pair: bytes) -> None:
        """Forget a pair: these are shares."""
        self._kept = {key: kept for key, kept in self._kept.items() if key[0].pair != pair}

    def kept_bytes(self) -> int:
        """Memory of all states."""
        return sum(half.kept_bytes for half, _ in self._kept.values())


def _flags(packed: bytes) -> npt.NDArray[np.bool_]:
    return np.frombuffer(packed, dtype=bool)


class Pool:
    """The processes of a server: started when there is work, ended when no pair is counted.

    With 0 of them the thread that asks evaluates, for tests.
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
        """What comes out of the jobs of one tree, in their order, or ``EvaluationFailed``.

        ``load`` gives the reports of a job by its number. ``look`` is told now and then how many jobs are done, and
        raises if they are not wanted any more.
        """
        with self._guard:
            self._pairs |= {job.tree.pair for job in jobs}
        found: dict[int, Found] = {}
        deaths: Counter[int] = Counter()  # how often the process of a job was killed
        asking, needing = deque(range(len(jobs))), deque[int]()  # jobs to be asked, and asked with their reports
        going: dict[Future[Found | None], tuple[int, bool]] = {}
        while len(found) < len(jobs):
            look(len(found))
            while asking:
                number = asking.popleft()
                going[self._submit(jobs[number], None)] = number, False
            while needing and sum(full for _, full in going.values()) < AHEAD * max(len(self._executors), 1):
                number = needing.popleft()
                with _naming(number, jobs):
                    reports = load(number)
                going[self._submit(jobs[number], reports)] = number, True
            for future in wait(going, LOOK, FIRST_COMPLETED).done:
                number, _ = going.pop(future)
                with _naming(number, jobs):
                    try:
                        result = future.result()
                    except (BrokenProcessPool, CancelledError):
                        deaths[number] += 1
                        if deaths[number] >= TRIES:
                            raise ChildProcessError(f"its process was killed {TRIES} times") from None
                        asking.append(number)
                        continue
                if result is None:
                    needing.append(number)
                else:
                    found[number] = result
        look(len(found))
        return [found[number] for number in range(len(jobs))]

    def _submit(self, job: Job, reports: Reports | None) -> Future[Found | None]:
        with self._guard:
            if not self._executors:
                return _done(self._here, job, reports)
            place = (job.tree.digest[0] + job.chunk) % len(self._executors)  # trees begin at different processes
            while not self._stopped:
                executor = self._executors[place]
                if executor is None:
                    context, share = multiprocessing.get_context("spawn"), MEMORY // len(self._executors)
                    executor = ProcessPoolExecutor(1, context, initializer=_begin, initargs=(share,))
                    self._executors[place] = executor
                try:
                    return executor.submit(_evaluate, job, reports)
                except RuntimeError:  # its process was killed
                    self._executors[place] = None
        raise StoreUnavailable("the server stops")

    def forget(self, pair: bytes) -> None:
        """Forget a pair that has ended; without another pair the processes end."""
        with self._guard:
            self._pairs.discard(pair)
            self._here.forget(pair)
            for place, executor in enumerate(self._executors):
                if executor is None:
                    continue
                if not self._pairs:
                    self._executors[place] = None
                    executor.shutdown(wait=False)
                else:
                    with contextlib.suppress(BrokenProcessPool):  # it has forgotten everything
                        executor.submit(_forget, pair)

    def stop(self) -> None:
        """End all processes, and everybody who waits."""
        with self._guard:
            self._stopped = True
            for executor in self._executors:
                if executor is not None:
                    executor.shutdown(wait=False, cancel_futures=True)


def _done(chunks: Chunks, job: Job, reports: Reports | None) -> Future[Found | None]:
    future: Future[Found | None] = Future()
    try:
        future.set_result(chunks.evaluate(job, reports))
    except Exception as error:
        future.set_exception(error)
    return future


@contextlib.contextmanager
def _naming(number: int, jobs: Sequence[Job]) -> Iterator[None]:
    """Says which part of the reports an error is about."""
    try:
        yield
    except StoreUnavailable:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {printable(str(error))}"
        raise EvaluationFailed(f"part {number + 1} of {len(jobs)} cannot be evaluated: {reason}") from error


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
