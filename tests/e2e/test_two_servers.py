"""Two real servers, from ``serve`` to the map, with the commands that operators and participants type."""

from __future__ import annotations

import csv
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from semilocal.cli.main import main
from semilocal.device.vault import unpack
from semilocal.sharing.pair import PairTask
from semilocal.sharing.sealing import verifying_key
from semilocal.sharing.wire import Receipt
from semilocal.testing import ADMIN_TOKEN, Server, cluster, secret
from tests.helpers.commands import run, write_people
from tests.helpers.forked import ForkedServer

PEOPLE = 120
LEADER = verifying_key(secret(2, seed=3)).hex()
POSITION = "0.3125,0.4375"
WAIT = 120.0  # seconds after which a busy machine has failed


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """Leader and helper."""
    helper = ForkedServer(
        f"sqlite:///{tmp_path / 'helper.db'}", log=tmp_path / "helper.log", signing_key=secret(1, seed=3),
        options=("--role", "helper", "--operator", "University", "--processes", "1", "--peer-key", LEADER),
    )  # fmt: skip
    leader = ForkedServer(
        f"sqlite:///{tmp_path / 'leader.db'}", log=tmp_path / "leader.log", signing_key=secret(2, seed=3),
        options=("--role", "leader", "--operator", "City", "--peer", helper.url, "--processes", "1"),
    )  # fmt: skip
    try:
        helper.start()
        leader.start()
        yield leader, helper
    finally:
        leader.kill()
        helper.kill()


def wait_for(url: str, task: str, phase: str) -> None:
    deadline = time.monotonic() + WAIT
    while (state := httpx2.get(f"{url}/tasks/{task}/state").json()).get("phase") != phase:
        assert time.monotonic() < deadline, state
        time.sleep(0.05)


def test_from_serve_to_the_map(
    servers: tuple[Server, Server], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMILOCAL_ADMIN_TOKEN", ADMIN_TOKEN)
    leader, helper = (server.url for server in servers)
    key = httpx2.get(f"{helper}/operator").json()["signing_key"]

    # operators
    code, out, err = run(
        capsys, "campaign", "create", "--url", leader, "--trust", "two-servers", "--name", "crowd", "--bounds",
        "0,0,1,1", "--epsilon", "20", "--max-depth", "8", "--peer-key", key,
    )  # fmt: skip
    assert code == 0, err
    assert out.startswith("If both operators collude they have every position")
    (task,) = [line.split()[1] for line in out.splitlines() if line.startswith("task ")]
    url = f"{leader}/tasks/{task}"
    early = ("join", url, "--position", POSITION, "--yes", "--vault", tmp_path / "early")
    assert run(capsys, *early)[0] != 0, "nobody has confirmed it, and the helper may not even know it"
    assert run(capsys, "campaign", "confirm", "crowd", "--url", leader)[0] == 0
    wait_for(helper, task, "confirming")
    assert run(capsys, "campaign", "confirm", "crowd", "--url", helper)[0] == 0
    wait_for(leader, task, "open")
    code, out, _ = run(capsys, "tokens", "new", "--count", PEOPLE + 1, "--url", leader)
    tokens = out.split()
    assert len(tokens) == PEOPLE + 1

    # one person
    vault = tmp_path / "vault"
    join = ("join", url, "--position", POSITION, "--token", tokens[0], "--vault", vault, "--spread", "0")
    code, _, err = run(capsys, *join, "--yes", "--min-k", "50")
    assert code == 2
    assert "keeps no crowd" in err
    code, out, _ = run(capsys, *join, "--yes", "--max-epsilon", "19")
    assert code == 1
    for words in (
        "If both operators collude", "Experimental", "City", "University", "each alone is random", "Loss by distance",
        "epsilon = 20 (delta = 0) between any two positions", "WARNING: both operators are on 127.0.0.1", "over-budget",
    ):  # fmt: skip
        assert words in out, words
    code, out, err = run(capsys, *join, "--yes", "--max-epsilon", "20")
    assert code == 0, (out, err)
    assert "You have uploaded" in out
    contents = unpack(vault.read_bytes(), vault)
    (entry,) = contents.uploads
    assert Receipt.from_bytes(entry.receipt).task == PairTask.from_bytes(entry.task).id
    assert [line.spent for line in contents.ledger.lines] == ["20"]
    assert run(capsys, *join, "--yes")[0] == 0, "once is enough; again changes nothing"

    # a crowd
    points = write_people(tmp_path / "people.csv", cluster(PEOPLE))
    (tmp_path / "tokens.txt").write_text("\n".join(tokens[1:]))
    code, out, err = run(
        capsys, "swarm", f"{helper}/tasks/{task}", "--points", points, "--tokens", tmp_path / "tokens.txt", "--quiet",
    )  # fmt: skip
    assert code == 0, (out, err)
    assert f"{PEOPLE} uploaded" in out
    code, _, err = run(capsys, "results", "crowd", "--url", leader, "--grid", "2x2")
    assert code == 2
    assert "not-closed-yet" in err

    # the result
    assert run(capsys, "campaign", "start", "crowd", "--url", leader)[0] == 0
    wait_for(leader, task, "done")
    wait_for(helper, task, "done")
    code, out, err = run(capsys, "results", "crowd", "--url", helper, "--grid", "2x2", "--out", tmp_path / "grid.csv")
    assert code == 0, err
    assert "If both operators collude" in err
    with open(tmp_path / "grid.csv", newline="") as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    assert len(rows) == 4
    # Each is rounded to the second digit of its standard error, which noise decides: half of that digit.
    rounding = sum(0.5 * 10.0 ** min(0, math.floor(math.log10(row["stderr"])) - 1) for row in rows)
    assert sum(row["count"] for row in rows) == pytest.approx(PEOPLE + 1, abs=rounding + 1e-9)
    code, out, err = run(
        capsys, "results", task[:12], "--url", leader, "--out", tmp_path / "out", "--plot", tmp_path / "map.png"
    )
    assert code == 0, err
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    assert document["reports"] == PEOPLE + 1
    assert document["rejected"] == 0
    features = json.loads((tmp_path / "out" / "regions.geojson").read_text())["features"]
    assert len(features) == len(document["cells"]) > 3
    assert (tmp_path / "map.png").read_bytes()[:4] == b"\x89PNG"

    # anybody
    code, out, err = run(capsys, "verify", url)
    assert code == 0, (out, err)
    assert "signatures of City and University" in out
    assert run(capsys, "verify", tmp_path / "out" / "transcript.slt")[0] == 0
    assert run(capsys, "transcript", leader, "crowd", "--out", tmp_path / "copy.slt")[0] == 0
    assert (tmp_path / "copy.slt").read_bytes() == (tmp_path / "out" / "transcript.slt").read_bytes()
    helper_copy = httpx2.get(f"{helper}/tasks/{task}/transcript").content
    assert helper_copy == (tmp_path / "out" / "transcript.slt").read_bytes()
    too_late = ("join", url, "--position", POSITION, "--yes", "--vault", tmp_path / "late", "--max-epsilon", "20")
    code, out, _ = run(capsys, *too_late)
    assert code == 1
    assert "uploads-closed" in out
    servers[1].kill()
    code, out, err = run(capsys, "verify", url)
    assert code == 0
    assert "not compared with University's copy" in err
    late = ("join", url, "--position", POSITION, "--yes", "--vault", tmp_path / "late", "--patience", "0")
    assert run(capsys, *late)[0] == 2, "one operator is away"


def test_the_demo_of_two_servers_writes_a_map_that_verifies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "demo", "--two-servers", "--seed", 1, "--out", tmp_path)
    assert code == 0, err
    told = ["500 uploaded", "If both operators collude", "it follows from what was sent", "epsilon = 2 (delta = 0)"]
    assert [words for words in told if words not in out] == []
    assert len(out.splitlines()) <= 25
    assert main(["verify", str(tmp_path / "two-servers.slt")]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["two-servers.html", "two-servers.slt"]
