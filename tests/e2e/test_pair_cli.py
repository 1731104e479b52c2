"""Two operators at their command lines: serve, create, confirm, show, close, against real servers on both databases."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import numpy as np
import pytest

from semilocal.cli.main import main
from semilocal.sharing.pair import COLLUSION, PairTask
from semilocal.sharing.sealing import verifying_key
from semilocal.sharing.wire import SignedTree
from semilocal.testing import ADMIN_TOKEN, Server, free_port
from tests.helpers import HANG
from tests.helpers.forked import ForkedServer
from tests.helpers.pages import data_of
from tests.helpers.pairs import SIGNING, crowd, upload_of
from tests.helpers.postgres import Postgres

PEOPLE = 80
LEADER = verifying_key(SIGNING[0]).hex()
CREATE = [
    "campaign", "create", "--trust", "two-servers", "--name", "walkers", "--bounds=0,0,1,1", "--epsilon", "8",
    "--max-depth", "10", "--enrolment", "open", "--capacity", str(PEOPLE),
]  # fmt: skip


@pytest.fixture(params=["sqlite", "postgres"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Server]]:
    """A leader and a helper, each with its own database and key, with worker processes."""
    if request.param == "sqlite":
        databases = [f"sqlite:///{tmp_path / name}.db" for name in ("leader", "helper")]
    else:
        cluster: Postgres = request.getfixturevalue("postgres")
        databases = [cluster.new_database() for _ in range(2)]
    helper = free_port()
    options = (
        ["--role", "leader", "--operator", "City of Ay", "--peer", f"http://127.0.0.1:{helper}", "--processes", "2"],
        ["--role", "helper", "--operator", "Bee University", "--processes", "2", "--peer-key", LEADER],
    )
    both: list[Server] = [
        ForkedServer(
            databases[n], port=(None, helper)[n], log=tmp_path / f"{n}.log", options=options[n], signing_key=SIGNING[n]
        )
        for n in (0, 1)
    ]
    try:
        for server in both:
            server.start()
        yield both
    finally:
        for server in both:
            server.stop()


def until(url: str, phase: str) -> None:
    end = time.monotonic() + HANG
    while time.monotonic() < end:
        state = httpx2.get(f"{url}/state", timeout=HANG).json()
        if state["phase"] == phase:
            return
        time.sleep(0.05)
    raise AssertionError(state)


def confirmed(servers: list[Server], task: str) -> list[str]:
    """Wait until the helper knows the task, let both operators confirm, and give the task's two addresses."""
    base = [f"{server.url}/tasks/{task}" for server in servers]
    end = time.monotonic() + HANG
    while httpx2.get(base[1]).status_code != 200 and time.monotonic() < end:
        time.sleep(0.05)
    for server in reversed(servers):
        assert main(["campaign", "confirm", task, "--url", server.url, "--admin-token", ADMIN_TOKEN]) == 0
    until(base[0], "open")
    return base


def test_two_operators_count_a_crowd_from_their_command_lines(
    servers: list[Server], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leader, helper = (["--url", server.url, "--admin-token", ADMIN_TOKEN] for server in servers)
    key = re.findall(r"signing key ([0-9a-f]{64})", (tmp_path / "1.log").read_text())[0]
    assert main([*CREATE, *leader, "--peer-key", "0" * 64]) == 2
    assert "ask its operator in person" in capsys.readouterr().err
    assert main([*CREATE, *leader, "--peer-key", key]) == 0
    out = capsys.readouterr().out
    assert out.startswith(COLLUSION)
    assert "Experimental" in out
    task = re.findall(r"^task ([0-9a-f]{64})$", out, flags=re.M)[0]
    base = [f"{server.url}/tasks/{task}" for server in servers]

    shown, end = "", time.monotonic() + HANG
    while "campaign confirm" not in shown and time.monotonic() < end:
        assert main(["campaign", "show", "walkers", *leader]) == 0
        shown = capsys.readouterr().out
    assert "confirming: leader of two servers, experimental" in shown
    assert "City of Ay" in shown
    assert "Bee University" in shown
    leaders = httpx2.get(f"{servers[0].url}/operator").json()["signing_key"]
    assert main(["campaign", "confirm", task[:12], *helper, "--peer-key", key]) == 2  # its own, not the leader's
    assert "nothing was confirmed" in capsys.readouterr().err
    for office, told in ((helper, leaders), (leader, key)):
        assert main(["campaign", "confirm", task[:12], *office, "--peer-key", told]) == 0
        assert "confirmed." in capsys.readouterr().out
    until(base[0], "open")

    pair = PairTask.from_bytes(httpx2.get(base[0]).content)
    assert httpx2.get(base[1]).content == pair.to_bytes()
    for number, code in enumerate(pair.pooled.hierarchy.codes(crowd(PEOPLE)).tolist()):
        upload = upload_of(pair, code, number)
        answer = httpx2.put(f"{base[0]}/uploads/{upload.id.hex()}", content=upload.to_bytes(), timeout=HANG)
        assert answer.status_code == 201, answer.text
    for url in base:
        until(url, "done")
    found = [httpx2.get(f"{url}/transcript").content for url in base]
    assert found[0] == found[1]
    assert SignedTree.from_bytes(found[0]).published()[0].people == PEOPLE
    assert main(["campaign", "show", "walkers", *helper]) == 0
    assert f"{PEOPLE} take part" in capsys.readouterr().out
    assert main(["campaign", "list", *leader]) == 0
    assert "done" in capsys.readouterr().out
    drawn = tmp_path / "map.html"
    assert main(["results", pair.id.hex(), "--html", str(drawn), *leader]) == 0
    data = data_of(drawn.read_text("utf-8"))
    assert (data["title"], data["numbers"]["reports"], data["promise"]["trust"]) == (
        "walkers",
        f"{PEOPLE:,}",
        "two-servers",
    )
    assert data["promise"]["epsilon"] == pair.pooled.epsilon


@pytest.mark.parametrize("servers", ["sqlite"], indirect=True)
def test_the_mean_of_a_value_from_create_to_results(
    servers: list[Server], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nine standard errors of two servers' noise: 2e-7."""
    leader = ["--url", servers[0].url, "--admin-token", ADMIN_TOKEN]
    key = httpx2.get(f"{servers[1].url}/operator").json()["signing_key"]
    asked = ["--label", "fares", "--release", "mean:own:fare:0,50"]
    assert main([*CREATE, *leader, "--peer-key", key, *asked]) == 0
    out = capsys.readouterr().out
    assert out.startswith("If both operators collude they have everybody's value (fare, to its grid).")
    assert "No place is sent" in out
    task = re.findall(r"^task ([0-9a-f]{64})$", out, flags=re.M)[0]
    base = confirmed(servers, task)

    joining = ["join", base[0], "--vault", str(tmp_path / "vault"), "--yes", "--spread", "0"]
    assert main([*joining, "--max-epsilon", "9"]) == 2
    assert "--value is missing: the task asks for fare from 0 to 50" in capsys.readouterr().err
    assert main([*joining, "--value", "51"]) == 2
    assert "fare must be a number from 0 to 50; the one given is not" in capsys.readouterr().err
    assert main([*joining, "--value", "12.5", "--max-epsilon", "7"]) == 1
    assert "over-budget" in capsys.readouterr().out
    assert main([*joining, "--max-epsilon", "9", "--value", "12.5"]) == 0
    out = capsys.readouterr().out
    assert "No place is sent" in out
    assert "Your value: fare from 0 to 50. It leaves in two shares only; each alone is random." in out

    rng = np.random.default_rng(5)
    fares = np.append(rng.uniform(5, 25, PEOPLE - 1).round(2), 12.5)
    table = tmp_path / "people.csv"
    table.write_text("\n".join(["fare", *map(str, fares[:-1].tolist())]) + "\n")
    swarm = ["swarm", base[0], "--points", str(table), "--quiet"]
    capsys.readouterr()
    assert main([*swarm, "--devices", "1"]) == 2  # without values nothing is sent
    assert "--value is missing: the task asks for fare from 0 to 50" in capsys.readouterr().err
    assert main([*swarm, "--value", "fare"]) == 0
    assert f"{PEOPLE - 1} values from the columns fare; the task needs no positions." in capsys.readouterr().out
    for url in base:
        until(url, "done")
    capsys.readouterr()
    assert main(["results", task, "--out", str(tmp_path / "results"), *leader]) == 0
    assert "mean of fare = " in capsys.readouterr().out
    value = json.loads((tmp_path / "results" / "results.json").read_text())["value"]
    assert abs(value["mean"] - fares.mean()) < 9 * value["stderr"]
    assert main(["verify", base[0]]) == 0
    assert "one sum of fare from 0 to 50" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--role", "leader", "--operator", "A"], "--peer"),
        (["--role", "leader", "--peer", "http://x.example"], "--operator"),
        (["--role", "helper", "--operator", "B", "--peer", "http://x.example"], "never asks"),
        (["--role", "leader", "--operator", "A", "--peer", "x"], "origin"),
        (
            ["--role", "leader", "--operator", "A", "--peer", "http://a.example", "--origin", "http://a.example"],
            "itself",
        ),
        (["--peer", "http://x.example"], "--role"),
        (["--role", "helper", "--operator", " "], "name"),
        (["--role", "helper", "--operator", "B", "--peer-key", "ab"], "64 lower-case hex digits"),
        (["--role", "leader", "--operator", "A", "--peer", "http://x.example", "--peer-key", "0" * 64], "each pair"),
    ],
)
def test_a_server_with_a_wrong_part_in_pairs_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], reason: str
) -> None:
    assert main(["serve", "--db", f"sqlite:///{tmp_path / 'x.db'}", "--port", "0", *words]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--k", "5"], "no meaning"),
        ([], "--peer-key is missing"),
        (["--trust", "nobody", "--k", "5", "--delta", "0.01", "--peer-key", "0" * 64], "belong to --trust two-servers"),
        (["--trust", "nobody", "--delta", "0.01"], "--k is missing"),
        (["--peer-key", "0" * 64, "--release", "mean:own:fare"], "must be own:NAME:LOW,HIGH"),
        (["--peer-key", "0" * 64, "--release", "values:own:fare:5,0"], "smallest first"),
        (["--peer-key", "0" * 64, "--release", "mean:gaussian_bump:1"], "takes one of the functions"),
        (["--peer-key", "0" * 64, "--release", "counts"], "must be mean:FUNCTION or values:FUNCTION"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], reason: str
) -> None:
    assert main([*CREATE, *words]) == 2
    assert reason in capsys.readouterr().err
