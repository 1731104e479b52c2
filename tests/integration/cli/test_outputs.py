"""What a command writes: never over its input, never half, and clean where another program reads it."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
import msgspec
import pytest
from pyarrow import parquet

from semilocal.protocol.promise import Mark
from tests.helpers.commands import COMMON, UNIT, crowd, refused, run, run_json, write_people

JOBS = {"partition": ("--out",), "counts": ("--grid", "4x4", "--out"), "points": ("--out",)}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_people(tmp_path / "people.csv", crowd())


@pytest.mark.parametrize("job", JOBS)
def test_no_output_overwrites_the_positions(capsys: pytest.CaptureFixture[str], table: Path, job: str) -> None:
    before = table.read_bytes()
    link = table.with_name("link.csv")
    link.symlink_to(table)
    for out in (table, link, Path(os.path.relpath(table))):
        assert "same file as the input" in refused(capsys, job, table, *UNIT, *COMMON, *JOBS[job], out)
    assert table.read_bytes() == before


def test_no_output_overwrites_the_queries(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    queries = table.with_name("q.csv")
    queries.write_text("x0,y0,x1,y1\n0,0,1,1\n")
    words = ("counts", table, *UNIT, *COMMON, "--queries", queries, "--out", queries)
    assert "same file as the input" in refused(capsys, *words)


def test_a_picture_of_the_data_over_the_data_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    odd = tmp_path / "people.png"
    write_people(odd, crowd(50))
    assert "same file" in refused(capsys, "partition", odd, *UNIT, *COMMON, "--plot", odd)


def test_outputs_are_checked_before_the_positions_are_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ("partition", tmp_path / "none.csv", *UNIT, *COMMON, "--out")
    assert "there is no folder" in refused(capsys, *words, tmp_path / "missing" / "a.csv")
    assert "must end in .geojson or .csv" in refused(capsys, *words, tmp_path / "a.shp")
    assert "no such file" in refused(capsys, *words, tmp_path / "a.csv")
    assert os.listdir(tmp_path) == []


def test_a_job_that_fails_leaves_the_old_output(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    out = table.with_name("out.csv")
    out.write_text("old")
    refused(capsys, "counts", table, "--bounds", "0,0,0.1,0.1", *COMMON, "--grid", "2x2", "--out", out)
    assert out.read_text() == "old"
    assert sorted(os.listdir(table.parent)) == ["out.csv", "people.csv"]


@pytest.mark.parametrize(("job", "rows"), [("counts", 16), ("points", 3_000)])
def test_stdout_is_a_clean_csv_and_words_go_to_stderr(
    capsys: pytest.CaptureFixture[str], table: Path, job: str, rows: int
) -> None:
    more = ("--grid", "4x4") if job == "counts" else ()
    code, out, err = run(capsys, job, table, *UNIT, *COMMON, *more)
    assert code == 0
    read = list(csv.DictReader(io.StringIO(out)))
    assert len(read) == rows
    assert all(None not in row and None not in row.values() for row in read)
    for row in read:
        assert all(float(value) == float(value) for value in row.values())
    assert "epsilon = 2" in err


def test_names_and_properties_of_queries_come_back(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    queries, out = table.with_name("q.csv"), table.with_name("out.geojson")
    queries.write_text("name,x0,y0,x1,y1,count\nold town,0,0,0.2,0.2,5\nharbour,0.1,0.1,0.6,0.9,6\n")
    code, text, err = run(capsys, "counts", table, *UNIT, *COMMON, "--queries", queries)
    assert code == 0
    read = list(csv.DictReader(io.StringIO(text)))
    assert [row["name"] for row in read] == ["old town", "harbour"]
    assert [row["count"] for row in read] != ["5", "6"]
    assert "the answers replace the queries' own count" in err
    assert run(capsys, "counts", table, *UNIT, *COMMON, "--queries", queries, "--out", out)[0] == 0
    features = json.loads(out.read_text())["features"]
    assert [feature["properties"]["name"] for feature in features] == ["old town", "harbour"]
    assert [feature["properties"]["count"] for feature in features] == [float(row["count"]) for row in read]
    found = run_json(capsys, "counts", table, *UNIT, *COMMON, "--queries", out)["answers"]
    assert [row["name"] for row in found] == ["old town", "harbour"]


def test_queries_outside_the_domain_warn(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    queries = table.with_name("q.csv")
    queries.write_text("x0,y0,x1,y1\n0,0,0.5,0.5\n0.5,0.5,3,3\n7,7,8,8\n")
    code, out, err = run(capsys, "counts", table, *UNIT, *COMMON, "--queries", queries)
    assert code == 0
    assert err.count("outside the domain") == 1
    assert "2 of 3 areas reach outside the domain" in err
    assert "1 altogether (the count is 0), 1 in part (only the part inside is counted)" in err
    assert float(list(csv.DictReader(io.StringIO(out)))[2]["count"]) == 0


def test_no_error_prints_a_position(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    points = crowd(100)
    points[7] = (0.123456, 5.654321)
    path = write_people(tmp_path / "people.csv", points)
    text = path.read_text()
    broken = {
        "outside": text,
        "nan": text.replace("5.654321", "nan"),
        "word": text.replace("5.654321", "5.654321N"),
        "short": text.replace("0.123456,5.654321", "0.123456"),
    }
    for change in broken.values():
        path.write_text(change)
        for job in (("partition",), ("counts", "--grid", "2x2"), ("mean", "--function", "squared-norm"), ("points",)):
            said = refused(capsys, job[0], path, *UNIT, *COMMON, *job[1:])
            assert "line 9" in said
            assert "1234" not in said
            assert "6543" not in said


def test_columns_in_the_wrong_order_for_a_place_are_named(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    words = ("partition", table, "--bounds", "world", *COMMON)
    assert run(capsys, *words)[0] == 0
    said = refused(capsys, *words, "--columns", "lat,lon")
    assert "the axes are swapped: --bounds world has longitude first" in said
    assert "write --columns lon,lat" in said


def test_a_stream_that_knows_few_letters_gets_the_names_of_queries(table: Path) -> None:
    queries = table.with_name("q.csv")
    queries.write_text("x0,y0,x1,y1,name\n0,0,1,1,Zürich\n", encoding="utf-8")
    words = ["counts", table, *UNIT, *COMMON, "--queries", queries]
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}  # as where the locale is C, or a page of another alphabet
    done = subprocess.run([sys.executable, "-m", "semilocal", *map(str, words)], env=plain, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert [row["name"] for row in csv.DictReader(io.StringIO(done.stdout.decode("utf-8")))] == ["Zürich"]


def test_the_same_warning_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(
        capsys, "plan", "--n", "10", "--k", "50", "--bounds", "new-york", "--epsilon", "2", "--plays", "3"
    )
    assert code == 0
    assert err.count("fewer than k = 50") == 1


def test_a_full_disk_is_named_with_the_file_and_what_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    people, out = write_people(tmp_path / "people.csv", crowd()), tmp_path / "regions.csv"
    out.write_text("as before")
    monkeypatch.setattr(os, "fsync", full)
    message = refused(capsys, "partition", people, *UNIT, *COMMON, "--quiet", "--out", out)
    assert f"{out}: No space left on device; make room, or write elsewhere" in message
    assert out.read_text() == "as before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "regions.csv"]


SEEDED = {
    "partition": ((), (".geojson", ".csv", ".parquet")),
    "counts": (("--grid", "2x2"), (".geojson", ".csv")),
    "points": ((), (".csv",)),
}


@pytest.mark.parametrize("trust", ["nobody", "two-servers", "curator"])
@pytest.mark.parametrize("job", SEEDED)
def test_every_file_of_seeded_noise_says_so_in_every_row_and_in_its_metadata(
    capsys: pytest.CaptureFixture[str], table: Path, job: str, trust: str
) -> None:
    options, endings = SEEDED[job]
    words = (job, table, *UNIT, "--trust", trust, "--epsilon", 2, *options)
    fresh = None if trust == "curator" else Mark(seeded=False).words
    for more, expected in ((("--seed", 12345), Mark(seeded=True, seed=12345).words), ((), fresh)):
        for ending in endings:
            out = table.with_name(f"out{ending}")
            assert run(capsys, *words, *more, "--out", out)[0] == 0
            assert {str(row.get("simulation_seed")) for row in rows_of(out)} == {"12345" if more else "None"}, ending
            if ending == ".geojson":
                assert json.loads(out.read_text()).get("simulation") == expected
            elif ending == ".parquet":
                found = parquet.read_schema(out).metadata.get(b"simulation")
                assert (None if found is None else found.decode()) == expected


def test_pictures_say_that_the_noise_was_seeded(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    picture = table.with_name("map.svg")
    with matplotlib.rc_context({"svg.fonttype": "none"}):  # text as text
        assert run(capsys, "partition", table, *UNIT, *COMMON, "--plot", picture)[0] == 0
        assert "SIMULATION: the noise has seed 1 and protects nobody" in picture.read_text()
        assert run(capsys, "partition", table, *UNIT, *COMMON[:-2], "--plot", picture)[0] == 0
    assert Mark(seeded=False).words in picture.read_text()


@pytest.mark.parametrize("engine", ["memory", "arrow"])
@pytest.mark.parametrize("job", SEEDED)
def test_the_transcript_of_seeded_noise_says_so(
    capsys: pytest.CaptureFixture[str], table: Path, job: str, engine: str
) -> None:
    out = table.with_name("out.slt")
    words = (job, table, *UNIT, "--trust", "nobody", "--epsilon", 2, *SEEDED[job][0], "--engine", engine)
    words += ("--transcript", out, "--out")
    assert run(capsys, *words, table.with_name("seeded.csv"), "--seed", 12345)[0] == 0
    code, said, _ = run(capsys, "verify", out)
    assert code == 0
    assert said.startswith("This is a simulation with seed 12345, not a collection: ")
    assert run(capsys, *words, table.with_name("fresh.csv"))[0] == 0
    code, said, _ = run(capsys, "verify", out)
    assert code == 0
    assert said.startswith("This is a simulation, not a collection: one program held all positions")


@pytest.mark.parametrize("trust", ["two-servers", "curator"])
@pytest.mark.parametrize("job", SEEDED)
def test_the_transcript_of_a_pooled_tree_has_its_seed(
    capsys: pytest.CaptureFixture[str], table: Path, job: str, trust: str
) -> None:
    out = table.with_name("out.slt")
    words = (job, table, *UNIT, "--trust", trust, "--epsilon", 2, *SEEDED[job][0], "--transcript", out)
    assert run(capsys, *words, "--seed", 12345)[0] == 0
    code, said, _ = run(capsys, "verify", out)
    assert code == 0
    assert said.startswith("This is a simulation with seed 12345, not a collection: ")
    fields = msgspec.msgpack.decode(out.read_bytes())
    out.write_bytes(msgspec.msgpack.encode(fields | {"simulated": False}))
    code, said, _ = run(capsys, "verify", out)
    assert (code, said) == (1, "DIFFERENT: a published tree with a seed must be marked as simulated\n")
    assert run(capsys, *words)[0] == 0
    assert "seed" not in run(capsys, "verify", out)[1]


@pytest.mark.parametrize("trust", ["nobody", "two-servers", "curator"])
@pytest.mark.parametrize("job", ["partition", "counts"])
def test_the_map_of_seeded_noise_says_so_in_its_title(
    capsys: pytest.CaptureFixture[str], table: Path, job: str, trust: str
) -> None:
    page, options = table.with_name("map.html"), SEEDED[job][0]
    words = (job, table, *UNIT, "--trust", trust, "--epsilon", 2, *options, "--html", page)
    for more, said in ((("--seed", 12345), True), ((), False)):
        assert run(capsys, *words, *more)[0] == 0
        title = page.read_text().partition("<title>")[2].partition("</title>")[0]
        assert ("SIMULATION: the noise has seed 12345 and protects nobody" in title) == said


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Rows of a file by column."""
    if path.suffix == ".parquet":
        found: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
        return found
    if path.suffix == ".geojson":
        return [feature["properties"] for feature in json.loads(path.read_text())["features"]]
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
