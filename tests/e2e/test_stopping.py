"""Stopping a server, and a database that hangs: everybody is told, nothing waits for ever."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from semilocal.service.rounds import create_campaign
from semilocal.service.stores.base import open_store
from semilocal.testing import Server
from tests.helpers import HANG
from tests.helpers.forked import ForkedServer
from tests.helpers.postgres import Postgres
from tests.helpers.service import open_campaign, sample_task

TASK = sample_task()
POLL = f"/tasks/{TASK.id.hex()}/state?after=0&wait=25"


def started(database: str, log: Path) -> Server:
    server = ForkedServer(database, log=log, options=("--role", "helper", "--operator", "Bee"))
    server.start()
    store = open_store(database, worker="test")
    create_campaign(store, open_campaign(TASK), now=0)
    store.close()
    return server


def test_stopping_answers_polls_and_writes_one_line(tmp_path: Path) -> None:
    server = started(f"sqlite:///{tmp_path / 'service.db'}", tmp_path / "log.txt")
    answers: list[httpx2.Response] = []
    asked = threading.Barrier(6)

    def poll() -> None:
        with httpx2.Client(base_url=server.url, timeout=HANG) as client:
            client.get(POLL.split("?")[0])  # the connection is there, the campaign is known
            asked.wait()
            answers.append(client.get(POLL))

    threads = [threading.Thread(target=poll) for _ in range(5)]
    for thread in threads:
        thread.start()
    asked.wait()
    with httpx2.Client(base_url=server.url, timeout=HANG) as client:
        for _ in range(20):  # the polls have most likely arrived before these are answered
            client.get("/tasks")
    before = (tmp_path / "log.txt").read_text()
    server.stop()
    for thread in threads:
        thread.join()
    assert {(answer.status_code, answer.json()["token"]) for answer in answers} == {(503, "unavailable")}
    assert {answer.headers["retry-after"] for answer in answers} == {"1"}
    lines = (tmp_path / "log.txt").read_text()[len(before) :].splitlines()
    assert [line.partition("INFO ")[2].partition(";")[0] for line in lines] == ["stopping"], lines


@contextmanager
def frozen(cluster: Postgres) -> Iterator[None]:
    """Every process of the database stands still: connections stay open, and nothing is answered."""
    pid = int((cluster.data / "postmaster.pid").read_text().split()[0])
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True)
    processes = [pid, *(int(child) for child in found.stdout.split())]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


@pytest.mark.slow
def test_a_hung_database_gives_503_and_does_not_block_stopping(postgres: Postgres, tmp_path: Path) -> None:
    server = started(postgres.new_database(), tmp_path / "log.txt")
    name = bytes(16).hex()
    enrolment = {"verifier": bytes(32).hex()}
    path = f"/tasks/{TASK.id.hex()}/participants/{name}"
    assert httpx2.put(server.url + path, json=enrolment, timeout=HANG).status_code == 201
    with frozen(postgres):
        for _ in range(2):
            refused = httpx2.put(server.url + path, json=enrolment, timeout=HANG)
            assert (refused.status_code, refused.json()["token"]) == (503, "unavailable")
        listed = httpx2.get(f"{server.url}/tasks", timeout=HANG)
        assert (listed.status_code, listed.headers["retry-after"]) == (503, "1")
        for route in ("/operator", POLL.replace(TASK.id.hex(), "0" * 64)):  # routes of pairs
            refused = httpx2.get(server.url + route, timeout=HANG)
            assert (refused.status_code, refused.json()["token"]) == (503, "unavailable")
        health = httpx2.get(f"{server.url}/healthz", timeout=HANG)
        assert health.status_code == 503
        assert "database: does not answer" in health.json()["detail"]
    assert httpx2.put(server.url + path, json=enrolment, timeout=HANG).status_code == 200
    with frozen(postgres):
        with pytest.raises((httpx2.ReadTimeout, AssertionError)):
            assert httpx2.get(f"{server.url}/tasks", timeout=1).status_code == 200
        assert server.process is not None
        process = server.process
        process.terminate()
        process.wait(HANG)  # while the database still hangs
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=5)
