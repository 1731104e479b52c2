"""Evaluation of many reports on all cores: blocks of reports, each kept by one worker process.

The event loop and the database's threads never evaluate. A worker keeps the states of its blocks between levels; what
travels are sums, tags and commands. Sums are integers modulo 2^64, so how reports are cut into blocks changes nothing.
If a worker dies everything is rebuilt from the database.

Knows reports and processes. Knows no HTTP, noise or database.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput
from ...sharing.evaluate import Half, LevelShare
from ...sharing.report import Shape

__all__ = ["BLOCK", "BlockEvaluator", "Workers", "expand_level"]

BLOCK = 4096  # reports; their states at a level with 600 opened cells take 40 MB
MEMORY = 1 << 30  # bytes of states that all workers together keep; what is above is computed again at every level
Flags = npt.NDArray[np.bool_]
_KEYS = itertools.count()
_HALVES: dict[tuple[int, int], Half] = {}  # in a worker: the blocks that it keeps


class Workers:
    """Worker processes, started at first use.

    Parameters
    ----------
    processes : int
        How many; 0 evaluates in one thread of this process, for tests.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._executors: list[Executor] = []
        self._guard = threading.Lock()

    def executors(self) -> list[Executor]:
        """One executor per worker, so that a block stays where it is."""
        with self._guard:
            if not self._executors:
                self._executors = [self._executor() for _ in range(max(self._processes, 1))]
            return self._executors

    def new_key(self) -> int:
        """A name for an evaluator's blocks."""
        return next(_KEYS)

    def stop(self) -> None:
        """End all workers; new ones are started when they are needed."""
        with self._guard:
            executors, self._executors = self._executors, []
        for executor in executors:
            executor.shutdown(wait=False, cancel_futures=True)

    def _executor(self) -> Executor:
        if not self._processes:
            return ThreadPoolExecutor(1, thread_name_prefix="semilocal-evaluate")
        return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_begin)


class BlockEvaluator:
    """One server's half of many reports, in blocks; an ``Evaluator`` of :mod:`semilocal.sharing.party`.

    Parameters
    ----------
    workers : Workers
    task : bytes
        The pair's id.
    shape : Shape
    server : {0, 1}
    blocks : iterable of (public parts, private parts)
        In the order of the reports; at most ``BLOCK`` each.
    progress : callable
        Called with the number of finished blocks and of all blocks while a level is evaluated.
    memory : int
        Most bytes of states that are kept. Levels that need more are slower, and give the same.
    """

    def __init__(
        self, workers: Workers, task: bytes, shape: Shape, server: int,
        blocks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]],
        *, progress: Callable[[int, int], None] = lambda done, total: None, memory: int = MEMORY,
    ) -> None:  # fmt: skip
        self._executors, self._key, self._progress = workers.executors(), workers.new_key(), progress
        self._memory, self._sizes = memory, list[int]()
        loading: list[Future[None]] = []
        for number, (public, private) in enumerate(blocks):
            if len(loading) > 2 * len(self._executors):  # what waits to be sent is bounded
                loading[-2 * len(self._executors)].result()
            self._sizes.append(len(public))
            loading.append(self._send(number, _load, task, shape, server, list(public), list(private)))
        for future in loading:
            future.result()
        self._shape = shape
        self.accepted: Flags = np.ones(sum(self._sizes), dtype=bool)
        columns = 32 if shape.value_bits else 0
        self.value_digests: npt.NDArray[np.uint8] = _stacked(self._all(_value_digests), columns=columns)

    def expand(self) -> LevelShare:
        """Sums and tags of the level below."""
        shares = self._all(expand_level)
        if not shares:
            cells = Half(bytes(32), self._shape, 0, [], []).expand()
            return LevelShare(cells.sums, cells.tags)
        sums = shares[0].sums
        for share in shares[1:]:
            sums = sums + share.sums
        return LevelShare(sums, np.concatenate([share.tags for share in shares]))

    def sums_of(self, reports: Flags) -> npt.NDArray[np.uint64]:
        """Sums over some reports only."""
        parts = [(number, part) for number, part in enumerate(self._parts(reports)) if part.any()]
        if not parts:
            raise InvalidInput("there must be some reports to add up")
        found = [future.result() for future in [self._send(number, _sums_of, part) for number, part in parts]]
        return np.asarray(np.sum(found, axis=0, dtype=np.uint64))

    def drop(self, rejected: Flags) -> None:
        """Reports that count no longer."""
        self.accepted = self.accepted & ~rejected
        self._each(_drop, self._parts(rejected))

    def open(self, rows: npt.NDArray[np.int64]) -> None:
        """Go one level down. Blocks keep their states as long as there is memory for them."""
        ends = np.cumsum(self._sizes) * 16 * len(rows)
        self._each(_open, [(rows, bool(end <= self._memory)) for end in ends])

    def kept_bytes(self) -> int:
        """Memory of all states that are kept."""
        return int(sum(future.result() for future in [self._send(n, _kept_bytes) for n in range(len(self._sizes))]))

    def release(self) -> None:
        """Let the workers forget the blocks."""
        with contextlib.suppress(RuntimeError):  # a worker that has ended has forgotten them
            for number in range(len(self._sizes)):
                self._send(number, _release)

    def _parts(self, flags: Flags) -> list[Flags]:
        return np.split(flags, np.cumsum(self._sizes)[:-1]) if self._sizes else []

    def _send(self, number: int, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        executor = self._executors[number % len(self._executors)]
        return executor.submit(call, (self._key, number), *arguments)

    def _each(self, call: Callable[..., Any], arguments: Sequence[Any]) -> None:
        for future in [self._send(number, call, argument) for number, argument in enumerate(arguments)]:
            future.result()

    def _all(self, call: Callable[..., Any]) -> list[Any]:
        total = len(self._sizes)
        futures = [self._send(number, call) for number in range(total)]
        out = []
        self._progress(0, total)
        for done, future in enumerate(futures, 1):
            out.append(future.result())
            self._progress(done, total)
        return out


def _stacked(parts: list[npt.NDArray[np.uint8]], *, columns: int) -> npt.NDArray[np.uint8]:
    return np.concatenate(parts) if parts else np.empty((0, columns), dtype=np.uint8)


# -- in a worker -------------------------------------------------------------------------------------------------------


def _begin() -> None:
    """End with the server, however it ends: a worker holds shares."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _load(
    key: tuple[int, int], task: bytes, shape: Shape, server: int, public: list[bytes], private: list[bytes]
) -> None:
    _HALVES[key] = Half(task, shape, server, public, private)


def _value_digests(key: tuple[int, int]) -> npt.NDArray[np.uint8]:
    return _HALVES[key].value_digests


def expand_level(key: tuple[int, int]) -> LevelShare:
    """In a worker: the shares of the next level of a block that it keeps."""
    return _HALVES[key].expand()


def _sums_of(key: tuple[int, int], reports: Flags) -> npt.NDArray[np.uint64]:
    return _HALVES[key].sums_of(reports)


def _drop(key: tuple[int, int], rejected: Flags) -> None:
    _HALVES[key].drop(rejected)


def _open(key: tuple[int, int], how: tuple[npt.NDArray[np.int64], bool]) -> None:
    rows, keep = how
    _HALVES[key].open(rows, keep=keep)


def _kept_bytes(key: tuple[int, int]) -> int:
    return _HALVES[key].kept_bytes


def _release(key: tuple[int, int]) -> None:
    _HALVES.pop(key, None)
