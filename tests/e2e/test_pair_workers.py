"""Worker processes that evaluate shares: they end with their server however it ends, and may die themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from semilocal.service.pair.work import BlockEvaluator, Workers
from semilocal.sharing.evaluate import Half
from tests.helpers import HANG
from tests.helpers.pairs import crowd, pair_task, shared_report

PARENT = """
import os, sys, time
from semilocal.service.pair.work import Workers
workers = Workers(2)
print(*[executor.submit(os.getpid).result() for executor in workers.executors()], flush=True)
time.sleep(600)
"""


def alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_its_server(how: signal.Signals) -> None:
    server = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    workers = [int(word) for word in server.stdout.readline().split()]
    try:
        assert len(set(workers)) == 2
        assert all(alive(worker) for worker in workers)
        os.kill(server.pid, how)  # the server alone, not its group
        server.wait()
        end = time.monotonic() + HANG
        while any(alive(worker) for worker in workers) and time.monotonic() < end:
            time.sleep(0.02)
        assert not any(alive(worker) for worker in workers)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def test_blocks_in_processes_give_what_one_process_gives_and_a_death_is_noticed() -> None:
    pair = pair_task()
    found = [shared_report(pair, code, n)[1] for n, code in enumerate(pair.pooled.hierarchy.codes(crowd(50)).tolist())]
    public, private = [report.public for report in found], [report.private[0] for report in found]
    blocks = [(public[start : start + 16], private[start : start + 16]) for start in range(0, 50, 16)]
    workers = Workers(2)
    try:
        split = BlockEvaluator(workers, pair.id, pair.shape, 0, blocks)
        whole = Half(pair.id, pair.shape, 0, public, private)
        rejected = np.zeros(50, dtype=bool)
        rejected[[3, 40]] = True
        for rows in (np.array([0, 1]), np.array([1, 2])):
            mine, other = split.expand(), whole.expand()
            assert np.array_equal(mine.sums, other.sums)
            assert np.array_equal(mine.tags, other.tags)
            assert np.array_equal(split.sums_of(rejected), whole.sums_of(rejected))
            for one in (split, whole):
                one.drop(rejected)
                one.open(rows)
        os.kill(workers.executors()[0].submit(os.getpid).result(), signal.SIGKILL)
        with pytest.raises(Exception, match="terminated abruptly"):
            split.expand()
        workers.stop()
        fresh = BlockEvaluator(workers, pair.id, pair.shape, 0, blocks)
        assert np.array_equal(fresh.expand().sums, Half(pair.id, pair.shape, 0, public, private).expand().sums)
    finally:
        workers.stop()
