"""``semilocal serve`` as an operator meets it: what it prints, refuses, logs and leaves on the disk."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from semilocal.service.rounds import create_campaign
from semilocal.service.stores.base import open_store
from semilocal.testing import ADMIN_TOKEN, Server, cluster, secrets_of
from tests.helpers import HANG
from tests.helpers.service import Device, follow_campaign, open_campaign, sample_task

SOURCE = str(Path(__file__).resolve().parents[2] / "src")


def serve(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The command with pipes; SEMILOCAL_ADMIN_TOKEN only if it is given."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("SEMILOCAL_")}
    return subprocess.Popen(
        [sys.executable, "-m", "semilocal", "serve", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**inherited, "PYTHONPATH": SOURCE, **environment},
    )  # fmt: skip


def refused(*arguments: str, **environment: str) -> str:
    """What a server that does not start says; nothing on its standard output."""
    process = serve(*arguments, **environment)
    out, err = process.communicate(timeout=HANG)
    assert process.returncode == 2, err
    assert out == ""
    assert "Traceback" not in err
    return err


def first_lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


def test_a_port_in_use_is_refused_before_anything_is_printed(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        said = refused("--db", f"sqlite:///{tmp_path}/a.db", "--port", port)
        assert f"cannot listen at 127.0.0.1 port {port}" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--port", "65536"], 'Invalid value "65536" for --port. Must be <= 65535'),
        (["--port", "-1"], 'Invalid value "-1" for --port. Must be >= 0'),
        (["--host", "no.such.host.invalid"], "no.such.host.invalid port 8000: Name or service not known"),
        (["--log-level", "loud"], 'Invalid value "loud" for --log-level'),
    ],
)
def test_bad_arguments_are_refused(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    assert sentence in refused("--db", f"sqlite:///{tmp_path}/a.db", *arguments)


def test_a_database_in_a_folder_that_is_not_there_is_refused_and_no_folder_made(tmp_path: Path) -> None:
    said = refused("--db", f"sqlite:///{tmp_path}/typo/a.db")
    assert f"there is no folder {tmp_path}/typo; make it, or check the name" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("token", ["hunter2", "x" * 40, "0123456789abcdefghijk"])
def test_an_admin_token_below_128_bits_is_refused(tmp_path: Path, token: str) -> None:
    said = refused("--db", f"sqlite:///{tmp_path}/a.db", SEMILOCAL_ADMIN_TOKEN=token)
    assert "at least 128 random bits" in said
    assert token not in said


def test_the_first_line_is_true_and_a_second_server_on_the_file_is_refused(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'a.db'}"
    first = serve("--db", database, "--port", "0")
    try:
        line, token = first_lines(first, 2)
        match = re.fullmatch(r"semilocal serves at (http://127\.0\.0\.1:\d+) on sqlite\n", line)
        assert match is not None
        assert "admin token (shown once" in token
        assert httpx2.get(match[1] + "/healthz", timeout=HANG).status_code == 200
        said = refused("--db", database, "--port", "0")
        assert f"is served by another process ({first.pid}); stop it first" in said
        assert httpx2.get(match[1] + "/tasks", timeout=HANG).json() == []
        for path in tmp_path.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert {path.name for path in tmp_path.iterdir()} >= {"a.db", "a.db-wal", "a.db-shm"}
    finally:
        first.kill()
        first.communicate()
    again = serve("--db", database, "--port", "0", SEMILOCAL_ADMIN_TOKEN=ADMIN_TOKEN)
    try:
        assert "semilocal serves at" in first_lines(again, 1)[0]
    finally:
        again.terminate()
        out, _ = again.communicate(timeout=HANG)
    assert out == ""  # the token is shown once


def test_a_database_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    open_store(f"sqlite:///{path}").close()
    path.chmod(0o644)
    open_store(f"sqlite:///{path}").close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_log_has_a_line_per_event_and_closed_round_and_none_per_request(tmp_path: Path) -> None:
    server = Server(f"sqlite:///{tmp_path / 'service.db'}", log=tmp_path / "log.txt")
    server.start()
    task = sample_task(max_depth=3)

    async def main() -> int:
        async with httpx2.AsyncClient(base_url=server.url, timeout=HANG) as client:
            store = open_store(server.database, worker="test")
            create_campaign(store, open_campaign(task, capacity=30), now=0)
            store.close()
            points, keys = cluster(30), secrets_of(30)
            devices = [Device(client, task, *pair) for pair in zip(points, keys, strict=True)]
            for device in devices:
                await device.enrol()
            state = await follow_campaign(client, devices)
            assert state["phase"] == "finished"
            headers = {"authorization": f"Bearer {ADMIN_TOKEN}"}
            for _ in range(2):
                await client.post(f"/tasks/{task.id.hex()}/close", headers=headers)
            return int(state["closed"])

    try:
        rounds = asyncio.run(main())
    finally:
        server.stop()
    lines = (tmp_path / "log.txt").read_text().splitlines()
    steps = [line for line in lines if f"campaign 'test' ({task.id.hex()[:12]}): " in line]
    assert len(steps) == rounds + 1
    assert "enrolment ended with 30 participants; round 1 is open, 30 reports or " in steps[0]
    assert "round 1 closed with 30 reports" in steps[1]
    assert steps[-1].endswith("; finished")
    assert not any("PUT " in line or "/tasks/" in line for line in lines)


def test_a_public_address_without_tls_warns(tmp_path: Path) -> None:
    process = serve("--db", f"sqlite:///{tmp_path / 'a.db'}", "--host", "0.0.0.0", "--port", "0")
    try:
        assert "semilocal serves at http://0.0.0.0:" in first_lines(process, 1)[0]
        assert process.stderr is not None
        assert "there is no TLS here" in process.stderr.readline()
    finally:
        process.kill()
        process.communicate()
