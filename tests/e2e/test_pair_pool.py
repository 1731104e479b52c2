"""Real processes that evaluate shares, killed with kill -9 at random: nothing is lost, nothing counted twice.

The suite kills 12 times, SEMILOCAL_LONG=1 100 times. The transcript never depends on it: it is that of a server that
evaluates in memory, with the same derived noise.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from semilocal.errors import EvaluationFailed, StoreUnavailable
from semilocal.service.pair.pool import Job, Pool, Reports, Tree
from semilocal.service.stores.base import open_store
from semilocal.sharing.pair import PairTask
from tests.helpers import HANG
from tests.helpers.long import SEED, times
from tests.helpers.machines import half_of, in_database, people, signed, store_reports
from tests.helpers.pairs import pair_task

KILLS = times(12, long=100)
PEOPLE = 160
PARENT = """
import multiprocessing, sys, time
from semilocal.service.pair.pool import Job, Pool, Reports, Tree
from semilocal.sharing.report import Shape
if __name__ == "__main__":
    pool = Pool(2)
    tree = Tree(bytes(32), Shape(3), 0, bytes(32))
    pool.evaluate([Job(tree, chunk, (), None) for chunk in range(2)], lambda number: Reports([], [], []))
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    time.sleep(600)
"""


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(2)
    yield made
    made.stop()


def workers() -> list[int]:
    """Processes that evaluate for this one. Asking ``multiprocessing`` would take their exit codes from the pool."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = path.read_text().rsplit(")", 1)[1].split()[:2]
            if (
                int(parent) == os.getpid()
                and state not in "ZX"
                and b"spawn_main" in (path.parent / "cmdline").read_bytes()
            ):
                found.append(int(path.parent.name))
    return found


def alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_outlives_its_server(tmp_path: Path, how: signal.Signals) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    server = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    children = [int(word) for word in server.stdout.readline().split()]
    try:
        assert len(set(children)) == 2
        assert all(alive(child) for child in children)
        os.kill(server.pid, how)  # the server alone, not its group
        server.wait()
        end = time.monotonic() + HANG
        while any(alive(child) for child in children) and time.monotonic() < end:
            time.sleep(0.02)
        assert not any(alive(child) for child in children)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@pytest.mark.slow
def test_processes_that_are_killed_again_and_again_change_nothing(tmp_path: Path, pool: Pool) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'one.db'}")
    chance, kills, over = random.Random(SEED), 0, threading.Event()

    def fire() -> None:
        nonlocal kills
        while kills < KILLS and not over.wait(chance.uniform(0.0, 1.0)):
            if running := workers():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(running), signal.SIGKILL)
                    kills += 1

    firing, rounds = threading.Thread(target=fire), 0
    firing.start()
    try:
        while kills < KILLS or not rounds:
            pair = pair_task(label=str(rounds))
            mine, helper = people(pair, PEOPLE, 0), half_of(pair, people(pair, PEOPLE, 1), 1)
            secrets = store_reports(store, pair, mine)
            found = signed(pair, mine, in_database(store, pair, secrets, pool), helper)
            assert found == signed(pair, mine, half_of(pair, mine, 0), helper)
            assert store.pairs.move(pair.id, "levels", "done")
            store.pairs.clean(pair.id)
            pool.forget(pair.id)
            rounds += 1
    finally:
        over.set()
        firing.join()
        store.close()
    assert kills == KILLS
    print(f"{kills} kills of evaluating processes, {rounds} trees: 0 lost, 0 doubled, 0 changed")


def jobs_of(pair: PairTask, chunks: int = 2) -> tuple[list[Job], list[Reports]]:
    mine = people(pair, 20)
    parts = [mine[number::chunks] for number in range(chunks)]
    reports = [
        Reports([one.id for one in part], [one.public for one in part], [one.private for one in part]) for part in parts
    ]
    return [Job(Tree(pair.id, pair.shape, 0, pair.id), number, (), None) for number in range(chunks)], reports


def test_a_pair_that_cannot_be_evaluated_keeps_no_other_from_it(pool: Pool) -> None:
    broken, whole = pair_task(label="broken"), pair_task(label="whole")
    jobs, reports = jobs_of(broken)
    with pytest.raises(EvaluationFailed, match="part 2 of 2 cannot be evaluated: InvalidInput: every report"):
        pool.evaluate(jobs, [reports[0], reports[1]._replace(private=[])].__getitem__)
    jobs, reports = jobs_of(whole)
    found = pool.evaluate(jobs, reports.__getitem__)
    alone = Pool(0).evaluate(jobs, reports.__getitem__)
    assert [(a.tolist(), b.tolist()) for a, b in found] == [(a.tolist(), b.tolist()) for a, b in alone]


def test_a_process_that_dies_of_its_job_each_time_is_a_fault_and_no_endless_loop(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semilocal.service.pair.pool.TRIES", 2)
    jobs, reports = jobs_of(pair_task(), 1)

    def load(number: int) -> Reports:
        for process in workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return reports[number]

    with pytest.raises(EvaluationFailed, match="its process was killed 2 times"):
        pool.evaluate(jobs, load)


def test_processes_end_with_the_last_pair_and_with_the_server(pool: Pool) -> None:
    one, other = pair_task(label="one"), pair_task(label="other")
    for pair in (one, other):
        jobs, reports = jobs_of(pair)
        pool.evaluate(jobs, reports.__getitem__)
    assert len(workers()) == 2
    pool.forget(one.id)
    assert len(workers()) == 2
    pool.forget(other.id)
    end = time.monotonic() + HANG
    while workers() and time.monotonic() < end:
        time.sleep(0.02)
    assert workers() == []
    pool.stop()
    with pytest.raises(StoreUnavailable, match="the server stops"):
        pool.evaluate(jobs, reports.__getitem__)
