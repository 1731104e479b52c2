"""A real PostgreSQL dies under two real workers: they refuse in our words, log little, and recover by themselves."""

from __future__ import annotations

import time
from pathlib import Path

import httpx

from semilocal.testing import Postgres, Server
from tests.helpers import HANG, service

REQUESTS = 300
MOST_LINES = 16  # of two workers: requests, the keeper, healthz and campaigns, and as much to spare


def test_a_dead_database_is_answered_for_and_fills_no_log(tmp_path: Path) -> None:
    try:
        cluster = Postgres()
    except (RuntimeError, ImportError, KeyError, OSError) as error:
        service.unmet(f"no PostgreSQL: {error}")
        return
    log = tmp_path / "log.txt"
    server = Server(cluster.new_database(), workers=2, log=log)
    server.start()
    try:
        before = len(log.read_text().splitlines())
        cluster.kill()
        for number in range(REQUESTS):
            path = ("/tasks", "/healthz", f"/tasks/{'0' * 64}/state")[number % 3]
            answer = httpx.get(f"{server.url}{path}", timeout=HANG)
            known = path == "/healthz" and answer.json().get("database") == "writes"  # good for two seconds
            assert answer.status_code == 503 or known, (path, answer.text)
        lines = log.read_text().splitlines()[before:]
        assert 1 <= len(lines) <= MOST_LINES, lines
        assert not [line for line in lines if "Traceback" in line]
        cluster.start()
        deadline = time.monotonic() + HANG
        while httpx.get(f"{server.url}/healthz", timeout=HANG).status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert httpx.get(f"{server.url}/tasks", timeout=HANG).json() == []
    finally:
        server.kill()
        cluster.stop()
