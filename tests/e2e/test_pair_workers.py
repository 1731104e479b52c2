"""Real worker processes that evaluate shares, killed with kill -9 at random: nothing is lost, nothing counted twice.

The suite kills 12 times per database, SEMILOCAL_LONG=1 100 times. The transcript never depends on it: it is that of a
server that evaluates in memory, with the same derived noise.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from semilocal.errors import StoreUnavailable
from semilocal.service.keys import Keyring
from semilocal.service.pair.live import ChunkEvaluator
from semilocal.service.pair.work import OwnWorkers
from semilocal.service.stores.base import Store, open_store
from semilocal.sharing.pair import PairTask
from semilocal.testing import Postgres
from tests.helpers import HANG
from tests.helpers.chunks import KEYS, people, store_reports
from tests.helpers.forked import Forked
from tests.helpers.half_plays import in_database, in_memory, signed
from tests.helpers.long import SEED, times
from tests.helpers.pairs import SIGNING, pair_task

KILLS = times(12, long=100)
LATE = 120.0  # seconds after which a busy machine has failed
PEOPLE = 160
PARENT = """
import sys, time
from semilocal.errors import StoreUnavailable
from semilocal.service.keys import Keyring
from semilocal.service.pair.live import ChunkEvaluator
from semilocal.service.pair.work import Processes
if __name__ == "__main__":
    processes = Processes(2, sys.argv[1], Keyring.of([bytes(32)]), "test")
    processes.watch()
    print(*processes.pids(), flush=True)
    time.sleep(600)
"""


def alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_its_server(tmp_path: Path, how: signal.Signals) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    url = f"sqlite:///{tmp_path / 'one.db'}"
    server = subprocess.Popen([sys.executable, str(script), url], stdout=subprocess.PIPE, text=True)
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


class Machine:
    """``semilocal evaluate`` with two processes; a kill takes the whole machine, or one of its workers."""

    def __init__(self, url: str, log: Path) -> None:
        self._url, self._log = url, log
        self.start()

    def start(self) -> None:
        words = ["evaluate", "--db", self._url, "--processes", "2", "--lease", "1"]
        self.process = Forked(words, self._log, {**os.environ, "SEMILOCAL_SIGNING_KEY": SIGNING[0].hex()})

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(HANG)


def played(store: Store, wait: Callable[[bytes, bytes, int], None], kill: Callable[[random.Random], None]) -> int:
    """Count people again and again until there were enough kills, and compare with a server in memory."""
    chance, kills, over = random.Random(SEED), 0, threading.Event()

    def fire() -> None:
        nonlocal kills
        while kills < KILLS and not over.wait(chance.uniform(0.0, 0.4)):
            kill(chance)
            kills += 1

    firing, rounds = threading.Thread(target=fire), 0
    firing.start()
    try:
        while kills < KILLS or not rounds:
            pair = pair_task(label=str(rounds))
            mine, helper = people(pair, PEOPLE, 0), in_memory(pair, people(pair, PEOPLE, 1), 1)
            secrets = store_reports(store, pair, mine)
            found = signed(pair, mine, in_database(store, pair, secrets, wait, chunk=16), helper)
            assert found == signed(pair, mine, in_memory(pair, mine, 0), helper)
            assert store.pairs.move(pair.id, "levels", "done")
            store.pairs.clean(pair.id)
            rounds += 1
    finally:
        over.set()
        firing.join()
    return kills


@pytest.mark.slow
def test_machines_that_are_killed_again_and_again_change_nothing(tmp_path: Path, postgres: Postgres) -> None:
    url = postgres.new_database()
    store = open_store(url, worker="test")
    store.set_setting("server-key", KEYS[0].current)
    machines = [Machine(url, tmp_path / f"{number}.log") for number in range(2)]

    def kill(chance: random.Random) -> None:
        machine = machines[chance.randrange(2)]
        machine.kill()
        machine.start()

    def wait(task: bytes, digest: bytes, count: int) -> None:
        end = time.monotonic() + HANG
        while store.pairs.finished(task, digest) < count:
            assert time.monotonic() < end, [(tmp_path / f"{number}.log").read_text() for number in range(2)]
            time.sleep(0.01)

    try:
        assert played(store, wait, kill) == KILLS
    finally:
        for machine in machines:
            machine.kill()
        store.close()


def test_a_worker_process_gets_past_a_chunk_that_it_cannot_compute(tmp_path: Path) -> None:
    """Its only process owns a damaged chunk of the first pair; the second pair is counted all the same."""
    store = open_store(f"sqlite:///{tmp_path / 'one.db'}")
    workers = OwnWorkers(1, store.pairs, store.url, Keyring.of(SIGNING[:1]))
    broken, whole = pair_task(label="broken"), pair_task(label="whole")
    mine = {pair.id: people(pair, 20, 0) for pair in (broken, whole)}
    secrets = {pair.id: store_reports(store, pair, mine[pair.id]) for pair in (broken, whole)}

    connection = sqlite3.connect(tmp_path / "one.db")
    with connection:
        connection.execute(
            "UPDATE pair_uploads SET private = x'00' WHERE pair = (SELECT id FROM pairs WHERE task = ?)", (broken.id,)
        )
    connection.close()

    def expand(pair: PairTask) -> None:
        ids = [one.id for one in mine[pair.id]]
        with contextlib.suppress(StoreUnavailable):  # the workers stop
            ChunkEvaluator(store.pairs, workers.wait, pair, secrets[pair.id], 1, ids).expand()

    stuck, counting = (threading.Thread(target=expand, args=(pair,), daemon=True) for pair in (broken, whole))
    try:
        stuck.start()
        end = time.monotonic() + HANG
        while store.pairs.fault(broken.id) is None:
            assert time.monotonic() < end
            time.sleep(0.02)
        counting.start()
        counting.join(LATE)
        assert not counting.is_alive(), "the worker tries the damaged chunk again and again"
        assert stuck.is_alive()
    finally:
        workers.stop()
        stuck.join()
        store.close()


@pytest.mark.slow
def test_a_servers_own_workers_that_are_killed_again_and_again_change_nothing(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'one.db'}")
    workers = OwnWorkers(2, store.pairs, store.url, Keyring.of(SIGNING[:1]), lease=1.0)

    def kill(chance: random.Random) -> None:
        pids = workers.pids()
        while not pids:
            time.sleep(0.01)
            pids = workers.pids()
        os.kill(chance.choice(pids), signal.SIGKILL)

    try:
        assert played(store, workers.wait, kill) == KILLS
    finally:
        workers.stop()
        store.close()
