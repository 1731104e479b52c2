"""A real PostgreSQL dies under two real workers: they refuse in our words, log little, and recover by themselves."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from semilocal.testing import ADMIN_TOKEN, Postgres
from tests.helpers import HANG
from tests.helpers.forked import ForkedServer
from tests.helpers.service import unmet
from tests.helpers.workers import workers_of

REQUESTS = 150
MOST_LINES = 16  # of two workers: requests, the keeper, healthz and campaigns, and as much to spare


def is_connected(process: int, port: int) -> bool:
    """Whether a process has a connection to a port of this machine."""
    lines = [line.split() for line in Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]]
    inodes = {words[9] for words in lines if int(words[2].partition(":")[2], 16) == port}
    links = [os.readlink(link) for link in Path(f"/proc/{process}/fd").iterdir() if link.is_symlink()]
    return any(f"socket:[{inode}]" in links for inode in inodes)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def check_metrics_of_all_workers(url: str) -> None:
    """Every scrape has the requests of both workers, whichever answers it."""
    for _ in range(40):
        assert httpx2.get(f"{url}/nothing-here", timeout=HANG).status_code == 404

    def counted() -> bool:
        page = httpx2.get(f"{url}/metrics", headers={"authorization": f"Bearer {ADMIN_TOKEN}"}, timeout=HANG).text
        return 'semilocal_responses_total{status="404"} 40.0' in page

    wait_for(counted)  # shared about once a second
    assert all(counted() for _ in range(10))


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
    server = ForkedServer(cluster.new_database(), workers=2, log=log)
    server.start()
    try:
        assert server.process is not None
        main = server.process.pid
        wait_for(lambda: len([one for one in workers_of(main) if is_connected(one, cluster.port)]) == 2)
        check_metrics_of_all_workers(server.url)
        before = len(log.read_text().splitlines())
        cluster.kill()
        os.kill(workers_of(main)[-1], signal.SIGKILL)  # one starts in its place
        for number in range(REQUESTS):
            path = ("/tasks", "/healthz", f"/tasks/{'0' * 64}/state")[number % 3]
            answer = httpx2.get(f"{server.url}{path}", timeout=HANG)
            known = path == "/healthz" and answer.json().get("database") == "writes"  # good for two seconds
            assert answer.status_code == 503 or known, (path, answer.text)
        wait_for(lambda: log.read_text().count("campaigns cannot be checked") == 2)
        lines = log.read_text().splitlines()[before:]
        assert 1 <= len(lines) <= MOST_LINES, lines
        assert not [line for line in lines if "Traceback" in line]
        os.kill(workers_of(main)[0], signal.SIGKILL)  # now both began without the database, and both answer
        wait_for(lambda: log.read_text().count("campaigns cannot be checked") == 3)
        waiting = httpx2.get(f"{server.url}/tasks", timeout=HANG)
        assert (waiting.status_code, waiting.json()["token"]) == (503, "unavailable")
        assert waiting.headers["retry-after"] == "1"
        cluster.start()
        wait_for(lambda: len([one for one in workers_of(main) if is_connected(one, cluster.port)]) == 2)
        wait_for(lambda: httpx2.get(f"{server.url}/healthz", timeout=HANG).status_code == 200)
        wait_for(lambda: all(tasks_of(server.url) == [] for _ in range(10)))  # whichever of the two answers
        cluster.kill()
        os.kill(workers_of(main)[-1], signal.SIGKILL)
        wait_for(lambda: log.read_text().count("campaigns cannot be checked") >= 4)
        server.process.terminate()  # a worker that waits does not hold up the end
        server.process.wait(HANG)
    finally:
        server.kill()
        cluster.stop()
