"""Two operators at their command lines: a mean from create to results, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx2
import numpy as np
import pytest

from semilocal.cli.main import main
from semilocal.testing import ADMIN_TOKEN, Server
from tests.e2e.test_two_servers import servers, wait_for  # noqa: F401

PEOPLE = 80
CREATE = [
    "campaign", "create", "--trust", "two-servers", "--name", "walkers", "--bounds=0,0,1,1", "--epsilon", "8",
    "--max-depth", "10", "--enrolment", "open", "--capacity", str(PEOPLE),
]  # fmt: skip


def test_the_mean_of_a_value_from_create_to_results(
    servers: tuple[Server, Server],  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
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
    wait_for(servers[1].url, task, "confirming")
    for server in reversed(servers):
        assert main(["campaign", "confirm", task, "--url", server.url, "--admin-token", ADMIN_TOKEN]) == 0
    wait_for(servers[0].url, task, "open")
    base = [f"{server.url}/tasks/{task}" for server in servers]

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
    for server in servers:
        wait_for(server.url, task, "done")
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
