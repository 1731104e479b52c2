"""Whatever is given, a command answers with one line and code 2, never with a traceback."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.helpers.commands import COMMON, UNIT, crowd, refused, write_people

RING = [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]
GEOMETRY = {"type": "Polygon", "coordinates": [RING]}
QUERIES = {
    "number": {"features": 5},
    "mapping": {"features": {"a": 1}},
    "no feature": {"features": [7]},
    "null": {"features": [None]},
    "list of properties": {"features": [{"geometry": GEOMETRY, "properties": [1, 2]}]},
    "endless": {"features": [{"geometry": {"coordinates": [[[0, 0], [1e999, 0], [1e999, 1], [0, 1], [0, 0]]]}}]},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path / "people.csv", crowd(200))
    (tmp_path / "cube.csv").write_text("a,b,c\n" + "0.5,0.5,0.5\n" * 50)
    for name in ("noise.csv", "noise.geojson", "noise.md"):
        (tmp_path / name).write_bytes(bytes(range(256)) * 10)
    (tmp_path / "task.json").write_text("{}")
    (tmp_path / "folder.csv").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", QUERIES)
def test_queries_of_any_shape(capsys: pytest.CaptureFixture[str], folder: Path, name: str) -> None:
    (folder / "q.geojson").write_text(json.dumps(QUERIES[name]))
    assert "q.geojson" in refused(capsys, "counts", "people.csv", *UNIT, *COMMON, "--queries", "q.geojson")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("counts people.csv JOB --queries noise.geojson", "not UTF-8"),
        ("counts people.csv JOB --queries folder.csv", "is a folder"),
        ("counts people.csv JOB --queries none.geojson", "No such file"),
        ("partition noise.csv JOB", "not UTF-8"),
        ("partition people.csv --trust nobody --epsilon 2", "--bounds is missing"),
        ("partition people.csv JOB --delta 3", "delta"),
        ("partition folder.csv JOB", "is an empty folder"),
        ("partition people.csv JOB --out folder.csv", "is a folder"),
        ("partition people.csv JOB --bounds -1e308,-1e308,1e308,1e308", "finite lower < upper"),
        ("partition people.csv JOB --bounds 42,-124,32,-114", "A box is its lower corner, all axes in their order"),
        ("partition people.csv JOB --epsilon 1e400", 'Invalid value "inf" for --epsilon. Must be < inf'),
        ("partition people.csv JOB --k 99999999", "k must be"),
        ("partition people.csv JOB --columns ,", "has no column ''"),
        (
            "partition cube.csv --columns a,b,c --bounds 0,0,0,1,1,1 --trust nobody --epsilon 2 --k 2 --plot a.png",
            "two dimensions",
        ),
        (
            "partition cube.csv --columns a,b,c --bounds 0,0,0,1,1,1 --trust nobody --epsilon 2 --k 2 --out a.geojson",
            "write .csv",
        ),
        ("mean people.csv JOB --function gaussian-bump:0", "sigma"),
        ("mean people.csv JOB --function indicator:1,1,0,0", "lower < upper"),
        ("plan --n 5 --k 2 --bounds 0,0,1,1 --want luck", 'unable to convert "luck" into float'),
        ("plan --n 5 --k 2 --bounds 0,0,1,1 --want -1", "--want. Must be > 0"),
        ("plan --n 5 --epsilon 1 --k 2 --bounds 0,0,1,1 --density people", "no such file"),
        ("audit --task task.json", "holds no task"),
        ("verify folder.csv", "folder.csv: Is a directory"),
        ("verify people.csv --against folder.csv", 'Only file is allowed, but "folder.csv" is a directory'),
        ("transcript ftp://x a", "http(s)://server"),
        ("transcript http://[::1 a", "http(s)://server"),
        ("campaign list --url http://[::1", "http(s)://server"),
        ("campaign list --url http://127.0.0.1:99999", "http(s)://server"),
        ("results x --out people.csv", "is a file, not a folder"),
        ("results x --out new.csv", "say with --grid or --queries what to count"),
        ("campaign create --name a --bounds 0,0,1,1 --epsilon 1 --k 9 --delta .1 --capacity 3", "capacity must be at"),
        ("campaign create --name a --bounds 0,0,1,1 --epsilon 1 --k 9 --delta .1 --quorum 2", "quorum"),
        ("campaign create --name a --bounds 0,0,1,1 --epsilon 1000 --k 9 --delta .1", "epsilon"),
        ("campaign create --name a --bounds 0,0,1,1 --epsilon 1 --k 9 --delta .1 --max-depth 90", "depth"),
        ("campaign create --name a --bounds 0,0,1,1 --epsilon 1 --k 9 --delta .1 --names lon,lon", "names"),
        ("campaign create --name a --bounds a,b,c,d --epsilon 1 --k 9 --delta .1", "bounds must be numbers"),
        (
            "campaign create --name a --bounds 0,0,1,1 --epsilon 1 --k 9 --delta .1 --release median:x:1",
            "--release must be counts, points, mean:",
        ),
        ("join nonsense --position 1,1 --yes", "http(s)://server"),
        ("join http://x/tasks/12ab --position 1,1 --yes", "{64 hex digits}"),
        ("join http://127.0.0.1:9 --position 1,1 --yes --vault folder.csv", "is a folder"),
        ("swarm http://127.0.0.1:9 --points none.csv", '"none.csv" does not exist'),
        ("swarm http://127.0.0.1:9 --points people.csv --tokens noise.csv", "not UTF-8"),
        (
            "join http://127.0.0.1:9 --position 1,1 --yes --max-delta 1.5",
            "max_delta must be a chance from 0 to 1; got 1.5",
        ),
        ("join http://127.0.0.1:9 --position 1,1 --yes --min-k 2000000", "min_k must be an integer from 1 to 1048576"),
        ("join http://127.0.0.1:9 --position 1,1 --yes --min-side -1", "min_side must be lengths of at least 0"),
        ("serve --port 70000", "Must be <= 65535"),
        ("demo --out people.csv/inside", "is a file, not a folder"),
        ("reproduce --out people.csv", "is a file, not a folder"),
        ("fly", "there is no command 'fly'; take one of partition, counts"),
        ("conts people.csv", "there is no command 'conts'; did you mean counts?"),
        ("campaign shw", "there is no command 'shw'; did you mean show?; see: semilocal campaign --help"),
        ("campaign", "COMMAND is missing; see: semilocal campaign --help"),
        ("partition people.csv JOB --epsilom 2", "Unknown option: --epsilom. Did you mean --epsilon?"),
        (
            "partition people.csv --bounds 0,0,1,1",
            "--trust is missing: whom the participants trust. nobody: every device",
        ),
        (
            "partition people.csv --bounds 0,0,1,1 --trust curator --epsilom 1",
            "Did you mean --epsilon instead of --epsilom?",
        ),
        ("plan --n 300 --k 5", "--bounds is missing: the public domain: x0,y0,x1,y1"),
        ("verify", "FILE is missing: a transcript (.slt), or the task"),
        ("partition JOB --k", "--k is missing: trust nobody: the smallest crowd"),
        ("partition JOB", "FILE is missing"),
        ("partition people.csv JOB --rule some", 'Invalid value "some" for --rule. Choose from: "cut", "all"'),
        ("partition people.csv JOB more", "Unused Tokens: ['more']"),
        ("", "COMMAND"),
    ],
)
def test_anything_wrong_is_one_line(capsys: pytest.CaptureFixture[str], folder: Path, line: str, words: str) -> None:
    given = [word for part in line.split() for word in ((*UNIT, *COMMON) if part == "JOB" else (part,))]
    assert re.search(re.escape(words), refused(capsys, *given))


@pytest.mark.parametrize(
    "words",
    [
        ("results", "x", "--out", ""),
        ("results", "", "--out", "results"),
        ("reproduce", "--list", "--out", " "),
        ("partition", "people.csv", *UNIT, *COMMON, "--out", ""),
        ("transcript", "http://127.0.0.1:9", "x", "--out", ""),
        ("verify", ""),
        ("campaign", "close", ""),
        ("campaign", "start", " "),
        ("tokens", "new", "--count", "1", "--campaign", ""),
    ],
)
def test_a_variable_that_is_not_set_stands_neither_for_this_folder_nor_for_the_only_campaign(
    capsys: pytest.CaptureFixture[str], folder: Path, words: tuple[str, ...]
) -> None:
    before = sorted(folder.iterdir())
    assert ": is empty; give it, or leave it out" in refused(capsys, *words)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("token", ["sla_\u00e9", "sla_\u202e", "a\nb"])
def test_an_admin_token_with_other_letters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    assert "is no token of a server" in refused(capsys, "campaign", "list", "--admin-token", token)
    monkeypatch.setenv("SEMILOCAL_ADMIN_TOKEN", token)
    assert "is no token of a server" in refused(capsys, "campaign", "list")
