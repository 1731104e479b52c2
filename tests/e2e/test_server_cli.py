"""The server's commands, against a real server."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path

import httpx2
import pytest

from semilocal import Task
from semilocal.cli.main import main
from semilocal.io.map_rows import REGION
from semilocal.protocol.messages import decode
from semilocal.protocol.plan import Plan
from semilocal.testing import ADMIN_TOKEN, Server, cluster, secrets_of
from tests.helpers import HANG
from tests.helpers.forked import ForkedServer
from tests.helpers.pages import data_of
from tests.helpers.service import Device, follow_campaign

CREATE = [
    "campaign", "create", "--name", "walkers", "--bounds=0,0,1,1", "--names", "longitude,latitude",
    "--epsilon", "4", "--delta", "0.05", "--k", "5", "--max-depth", "8", "--window", "60",
    "--release", "mean:coordinate:0:2.0", "--release", "counts",
]  # fmt: skip


def test_a_campaign_from_the_command_line_to_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = Server(f"sqlite:///{tmp_path / 'service.db'}", log=tmp_path / "log.txt")
    server.start()
    office = ["--url", server.url, "--admin-token", ADMIN_TOKEN]
    try:
        assert main([*CREATE, *office]) == 0
        out = capsys.readouterr().out
        assert "with them it is at most a factor e^6" in out  # 4 for the map, 2 for the mean
        assert main([*CREATE, *office]) == 2
        refused = capsys.readouterr().err
        assert "task-exists" in refused
        assert "give another --label" in refused
        assert main(["tokens", "new", "--count", "60", *office]) == 0
        tokens = capsys.readouterr().out.split()
        assert len(set(tokens)) == 60

        async def devices() -> None:
            async with httpx2.AsyncClient(base_url=server.url, timeout=HANG) as client:
                (row,) = (await client.get("/tasks")).json()
                task = decode((await client.get(f"/tasks/{row['task']}")).content, Task)
                plan = decode((await client.get(f"/tasks/{row['task']}/plan")).content, Plan)
                crowd = [
                    Device(client, task, point, secret, plan=plan)
                    for point, secret in zip(cluster(60), secrets_of(60), strict=True)
                ]
                for device, token in zip(crowd, tokens, strict=True):
                    assert (await device.enrol(token)).status_code == 201
                await asyncio.to_thread(main, ["campaign", "start", "walkers", *office])
                assert (await follow_campaign(client, crowd))["phase"] == "finished"

        asyncio.run(devices())
        assert main(["campaign", "list", *office]) == 0
        assert "finished" in capsys.readouterr().out
        assert main(["campaign", "show", "walkers", *office]) == 0
        assert "Everybody learns, under your pseudonym, which region you are in." in capsys.readouterr().out
        folder = tmp_path / "out"
        assert main(["results", "walkers", "--out", str(folder), *office]) == 0
        assert "(epsilon = 2, delta = 0 between any two places of one's region)" in capsys.readouterr().out
        document = json.loads((folder / "results.json").read_text())
        assert sum(region["crowd"] for region in document["regions"]) == 60
        drawn = json.loads((folder / "regions.geojson").read_text())
        assert sum(f["properties"].get("crowd", 0) for f in drawn["features"]) == 60
        assert "e^6" in (folder / "statement.txt").read_text()
        check_counts(tmp_path, capsys, ["results", "walkers", *office])
    finally:
        server.stop()


def check_counts(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """Counts of a finished campaign: on stdout, with names of queries, in files and in a picture."""
    assert main([*words, "--grid", "4x2"]) == 0
    out, err = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 8
    rounded = sum(0.5 if float(row["stderr"]) >= 10 else 0.05 for row in rows)  # to the second digit of the error
    assert sum(float(row["count"]) for row in rows) == pytest.approx(60, abs=rounded)
    assert all(0 <= float(row["low"]) <= float(row["count"]) <= float(row["high"]) <= 60 for row in rows)
    assert "a factor e^6" in err  # the promise comes along, releases included
    queries = folder / "q.csv"
    queries.write_text("name,x0,y0,x1,y1\neverywhere,0,0,1,1\nbeyond,5,5,6,6\n")
    target, picture = folder / "counts.geojson", folder / "regions.png"
    assert main([*words, "--queries", str(queries), "--out", str(target), "--plot", str(picture)]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("1 of 2 areas reaches outside the domain") == 1
    named = {f["properties"]["name"]: f["properties"]["count"] for f in json.loads(target.read_text())["features"]}
    assert named == {"everywhere": pytest.approx(60), "beyond": 0}
    assert picture.read_bytes()[:4] == b"\x89PNG"
    drawn = folder / "map.html"
    assert main([*words, "--html", str(drawn)]) == 0
    assert f"wrote {drawn}" in capsys.readouterr().err
    data = data_of(drawn.read_text("utf-8"))
    assert data["title"] == "walkers"
    assert data["numbers"]["took part"] == "60"
    assert "95 % interval" in data["numbers"]["mean of coordinate(0)"]
    assert data["promise"]["epsilon"] == 6.0  # the partition and the mean
    ended = [
        crowd for one in data["rounds"] for crowd, state in zip(one["rows"]["crowd"], one["rows"]["state"], strict=True)
        if state == REGION
    ]  # fmt: skip
    assert sum(ended) == 60
    for wrong, sentence in (
        ((), "say what to write"),
        (("--queries", str(queries), "--out", str(queries)), "same file as the input"),
        (("--html", str(folder / "map.txt")), "must end in .html"),
        (("--grid", "2x2", "--out", str(folder / "a.txt")), "must end in .csv or .geojson"),
    ):
        assert main([*words, *wrong]) == 2
        assert sentence in capsys.readouterr().err


def test_two_campaigns_of_one_name_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = ForkedServer(f"sqlite:///{tmp_path / 'service.db'}", log=tmp_path / "log.txt")
    server.start()
    office = ["--url", server.url, "--admin-token", ADMIN_TOKEN]
    try:
        assert main([*CREATE, *office]) == 0
        assert main(["results", "walkers", "--out", str(tmp_path), *office]) == 2
        assert "the campaign is enrolling" in capsys.readouterr().err
        assert main(["campaign", "start", "walkers", *office]) == 0
        capsys.readouterr()
        assert main(["campaign", "show", "walkers", *office]) == 0
        assert "round 1 is open, 0 of 0 answers received; it ends in " in capsys.readouterr().out
        assert main(["campaign", "close", "walkers", *office]) == 0
        assert "cancelled" in capsys.readouterr().out
        assert main(["campaign", "show", "nobody", *office]) == 2
        assert "0 campaigns match 'nobody'; there are:" in capsys.readouterr().err
        assert main([*CREATE, "--label", "again", *office]) == 0
        assert main(["campaign", "show", "walkers", *office]) == 2
        assert "2 campaigns match 'walkers'" in (err := capsys.readouterr().err)
        assert "give the beginning of its id" in err
        assert main(["campaign", "list", *office]) == 0
        shown = []
        for line in capsys.readouterr().out.splitlines():
            assert main(["campaign", "show", line.split()[0], *office]) == 0
            shown.append(capsys.readouterr().out)
        assert sum("label 'again'" in text for text in shown) == 1  # what tells the second from the first
    finally:
        server.kill()
