"""A real PostgreSQL dies under a real server: it refuses in our words, logs little, and recovers by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.helpers import HANG
from tests.helpers.forked import ForkedServer
from tests.helpers.postgres import Postgres
from tests.helpers.service import unmet

REQUESTS = 150
MOST_LINES = 8  # requests, the keeper, healthz and campaigns, and as much to spare


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def tasks_of(url: str) -> Any:
    """The list of tasks, or what stands in its way."""
    return httpx2.get(f"{url}/tasks", timeout=HANG).json()


@pytest.mark.slow
def test_a_dead_database_is_answered_for_and_fills_no_log(tmp_path: Path) -> None:
    try:
        cluster = Postgres(fsync=False)
    except (RuntimeError, ImportError, KeyError, OSError) as error:
        unmet(f"no PostgreSQL: {error}")
        return
    log = tmp_path / "log.txt"
    server = ForkedServer(cluster.new_database(), log=log)
    server.start()
    try:
        before = len(log.read_text().splitlines())
        cluster.kill()
        for number in range(REQUESTS):
            path = ("/tasks", "/healthz", f"/tasks/{'0' * 64}/state")[number % 3]
            answer = httpx2.get(f"{server.url}{path}", timeout=HANG)
            known = path == "/healthz" and answer.json().get("database") == "writes"  # good for two seconds
            assert answer.status_code == 503 or known, (path, answer.text)
        wait_for(lambda: "campaigns cannot be checked" in log.read_text())
        lines = log.read_text().splitlines()[before:]
        assert 1 <= len(lines) <= MOST_LINES, lines
        assert not [line for line in lines if "Traceback" in line]
        waiting = httpx2.get(f"{server.url}/tasks", timeout=HANG)
        assert (waiting.status_code, waiting.json()["token"]) == (503, "unavailable")
        assert waiting.headers["retry-after"] == "1"
        cluster.start()
        wait_for(lambda: httpx2.get(f"{server.url}/healthz", timeout=HANG).status_code == 200)
        wait_for(lambda: tasks_of(server.url) == [])
        cluster.kill()
        assert server.process is not None
        server.process.terminate()  # a database that is away does not hold up the end
        assert server.process.wait(HANG) == 0
    finally:
        server.kill()
        cluster.stop()
