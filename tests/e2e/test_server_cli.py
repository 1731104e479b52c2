"""The server's commands, against a real server and on a database directly."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from pathlib import Path

import httpx2
import numpy as np
import pytest

from semilocal import Task
from semilocal.cli.main import main
from semilocal.io.map_rows import REGION
from semilocal.protocol.messages import Report, decode, encode
from semilocal.protocol.plan import Plan
from semilocal.service.rounds import advance
from semilocal.service.stores.base import Enrolment, Incoming, open_store
from semilocal.testing import ADMIN_TOKEN, Server, cluster, secrets_of
from tests.helpers import HANG
from tests.helpers.pages import data_of
from tests.helpers.service import Device, follow_campaign

CREATE = [
    "campaign", "create", "--name", "walkers", "--bounds=0,0,1,1", "--names", "longitude,latitude",
    "--epsilon", "4", "--delta", "0.05", "--k", "5", "--max-depth", "8", "--window", "60",
    "--release", "mean:coordinate(0):2.0", "--release", "counts",
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
        assert "epsilon = 2 for any two places of one's region" in capsys.readouterr().out
        document = json.loads((folder / "results.json").read_text())
        assert sum(region["crowd"] for region in document["regions"]) == 60
        drawn = json.loads((folder / "regions.geojson").read_text())
        assert sum(f["properties"].get("crowd", 0) for f in drawn["features"]) == 60
        assert "e^6" in (folder / "statement.txt").read_text()
        other = tmp_path / "direct"
        assert main(["results", "walkers", "--out", str(other), "--db", server.database]) == 0
        for name in ("results.json", "regions.geojson", "statement.txt"):
            assert (other / name).read_text() == (folder / name).read_text()
        capsys.readouterr()
        check_counts(tmp_path, capsys, ["results", "walkers", *office])
    finally:
        server.stop()


def check_counts(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """Counts of a finished campaign: on stdout, with names of queries, in files and in a picture."""
    assert main([*words, "--grid", "4x2"]) == 0
    out, err = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 8
    assert sum(float(row["count"]) for row in rows) == pytest.approx(60)
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
    lines = folder / "lines.geojson"
    lines.write_text(json.dumps({"type": "LineString", "coordinates": [[0.25, 0.5], [0.75, 0.5]]}))
    drawn = folder / "map.html"
    assert main([*words, "--html", str(drawn), "--basemap", str(lines)]) == 0
    assert f"wrote {drawn}" in capsys.readouterr().err
    data = data_of(drawn.read_text("utf-8"))
    assert data["title"] == "walkers"
    assert data["numbers"]["took part"] == "60"
    assert "95 % interval" in data["numbers"]["mean of coordinate(0)"]
    assert data["promise"]["epsilon"] == 6.0  # the partition and the mean
    ground = data["ground"]
    (line,) = ground["lines"]
    corners = np.cumsum(np.reshape(line, (-1, 2)) * ground["step"], axis=0)
    assert corners == pytest.approx(np.array([[0.25, 0.5], [0.75, 0.5]]))
    ended = [
        crowd for one in data["rounds"] for crowd, state in zip(one["rows"]["crowd"], one["rows"]["state"], strict=True)
        if state == REGION
    ]  # fmt: skip
    assert sum(ended) == 60
    for wrong, sentence in (
        ((), "say what to write"),
        (("--queries", str(queries), "--out", str(queries)), "same file as the input"),
        (("--html", str(folder / "map.txt")), "must end in .html"),
        (("--basemap", str(queries)), "give both"),
        (("--basemap", str(queries), "--html", str(folder / "map.html")), "is not GeoJSON"),
        (("--grid", "2x2", "--out", str(folder / "a.txt")), "must end in .geojson or .csv"),
    ):
        assert main([*words, *wrong]) == 2
        assert sentence in capsys.readouterr().err


def test_the_office_works_on_a_database_directly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    office = ["--db", f"sqlite:///{tmp_path / 'service.db'}"]
    assert main([*CREATE, *office]) == 0
    assert main(["tokens", "new", "--count", "3", "--campaign", "walkers", *office]) == 0
    assert len(capsys.readouterr().out.split("slt_")) == 4
    assert main(["results", "walkers", "--out", str(tmp_path), *office]) == 2
    assert "the campaign is enrolling" in capsys.readouterr().err
    assert main(["campaign", "start", "walkers", *office]) == 0
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


@pytest.mark.parametrize("words", ["campaign list", "campaign show x", "campaign start x", "results x --out ."])
def test_no_database_is_made_by_a_command_that_looks_into_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    assert main([*words.split(), "--db", f"sqlite:///{tmp_path / 'typo.db'}"]) == 2
    assert "there is no file" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_show_says_how_many_are_missing_and_how_long_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = f"sqlite:///{tmp_path / 'service.db'}"
    office = ["--db", database]
    assert main([*CREATE, "--capacity", "7", "--enrolment", "open", "--unsigned", *office]) == 0
    store = open_store(database)
    (task,) = store.statuses()
    names = [bytes([number]) * 16 for number in range(7)]
    store.apply([Enrolment(task, name, name * 2, None, None) for name in names[:6]])
    assert main(["campaign", "show", "walkers", *office]) == 0
    assert "enrolling: 6 enrolled; round 1 opens when 7 are enrolled\n" in capsys.readouterr().out
    assert main(["campaign", "start", "walkers", *office]) == 0
    definition = store.campaign(task)
    assert definition is not None
    ends = definition.task.hierarchy.ends
    reports = [(name, encode(Report(task, 1, name, *ends, None, name))) for name in names[:4]]
    bodies = {name: data.partition(bytes([0xC4, 16]) + name)[2] for name, data in reports}
    store.apply([Incoming(task, 1, name, name * 2, bodies[name], True) for name in names[:4]])
    capsys.readouterr()
    assert main(["campaign", "show", "walkers", *office]) == 0
    words = capsys.readouterr().out
    assert re.match(
        r"collecting: round 1 is open, 4 of 6 answers received, 2 missing; it closes in [\w ]+; 6 enrolled\n", words
    )
    assert main(["campaign", "show", "walkers", "--json", *office]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["received"], document["expected"], document["needed"]) == (4, 6, 6)
    with store.lock(task) as held:
        assert held is not None
        held.move("collecting", round_=1, closed=0, needed=6, deadline=1, fold=held.fold)
    assert advance(store, task, 100.0) is not None
    store.close()
    assert main(["campaign", "show", "walkers", "--json", *office]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["received"], document["expected"]) == (0, 4)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["serve", "--db", "sqlite:///{tmp}/a.db", "--workers", "2"], "SQLite serves one worker; got --workers 2"),
        (["serve", "--db", "oracle://x"], "--db must be sqlite:///file or postgresql://"),
        (["serve", "--db", "sqlite:///{tmp}/a.db", "--workers", "0"], "from 1 to 64; got"),
        (["campaign", "list", "--url", "http://127.0.0.1:1"], "does not answer"),
        (["campaign", "list", "--url", "http://x", "--db", "sqlite:///x"], "not both"),
        (
            [*CREATE, "--release", "median:x:1", "--db", "sqlite:///{tmp}/a.db"],
            "--release must be counts, points, mean:",
        ),
        ([*CREATE, "--capacity", "4", "--db", "sqlite:///{tmp}/a.db"], "4 participants are no crowd of k = 5"),
        ([*CREATE, "--bounds=a,b,c,d", "--db", "sqlite:///{tmp}/a.db"], "bounds must be numbers"),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main([text.replace("{tmp}", str(tmp_path)) for text in arguments]) == 2
    assert sentence in capsys.readouterr().err
