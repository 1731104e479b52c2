"""Jobs are about people, some of whom have many rows, and about a column of their own values with its public range."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from semilocal.pooled import Published
from tests.helpers.commands import COMMON, UNIT, crowd, refused, run, run_json, write_people

PEOPLE = 1_000
JOBS = {"partition": (), "counts": ("--grid", "2x2"), "mean": ("--function", "squared-norm"), "points": ()}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    users = [f"u{number % PEOPLE}" for number in range(3 * PEOPLE)]
    return write_people(tmp_path / "people.csv", crowd(3 * PEOPLE), user_id=users)


@pytest.mark.parametrize("job", JOBS)
def test_repeated_people_are_refused_with_the_reason(capsys: pytest.CaptureFixture[str], table: Path, job: str) -> None:
    said = refused(capsys, job, table, *UNIT, *COMMON, *JOBS[job])
    for part in ("'user_id' looks like a person", "lose epsilon for each", "--user 'user_id'", "--rows-are-people"):
        assert part in said


@pytest.mark.parametrize("job", JOBS)
def test_one_row_per_person_is_drawn(capsys: pytest.CaptureFixture[str], table: Path, job: str) -> None:
    words = (job, table, *UNIT, *COMMON, *JOBS[job])
    found = run_json(capsys, *words, "--user", "user_id")
    assert found["participants"] == PEOPLE
    assert found["privacy"]["epsilon"] == pytest.approx(2.0)
    assert run_json(capsys, *words, "--rows-are-people")["participants"] == 3 * PEOPLE
    assert "1,000 people, one row each of 3,000" in "".join(run(capsys, *words, "--user", "user_id")[1:])
    assert "3,000 people" in "".join(run(capsys, *words, "--rows-are-people")[1:])


def test_a_curator_adds_noise_for_every_row_of_a_person(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    promise = ("--trust", "curator", "--epsilon", "1", "--user", "user_id", "--rows-per-user", "3")
    out = table.with_name("run.slt")
    privacy = run_json(capsys, "partition", table, *UNIT, *promise, "--transcript", out)["privacy"]
    assert (privacy["epsilon"], privacy["rows"]) == (1.0, 3)
    assert Published.from_bytes(out.read_bytes()).task.max_reports == 3


@pytest.mark.parametrize("job", JOBS)
def test_with_more_rows_the_promise_is_scaled(capsys: pytest.CaptureFixture[str], table: Path, job: str) -> None:
    words = (job, table, *UNIT, *COMMON, *JOBS[job], "--user", "USER_ID", "--rows-per-user")
    one, two = run_json(capsys, *words, "1"), run_json(capsys, *words, "2")
    assert two["rows"] == 2 * PEOPLE
    assert one["participants"] == PEOPLE
    assert "participants" not in two
    assert "rows" not in one
    assert two["privacy"]["rows"] == 2
    assert two["privacy"]["epsilon"] == pytest.approx(2 * one["privacy"]["epsilon"])
    said = "".join(run(capsys, *words, "2")[1:])
    assert "One person may have 2 rows" in said
    assert f"{2 * PEOPLE:,} rows, up to 2 of each person, of {3 * PEOPLE:,}" in said


@pytest.mark.parametrize("engine", ["memory", "arrow"])
def test_the_value_that_is_asked_for_is_no_person(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str
) -> None:
    cars = [str(number % 4) for number in range(PEOPLE)]
    file = write_people(tmp_path / "homes.csv", crowd(PEOPLE), vehicles=cars)
    words = (file, *UNIT, *COMMON, "--engine", engine)
    found = run_json(capsys, "mean", *words, "--value", "Vehicles", "--range", "0,4")
    assert found["participants"] == PEOPLE
    assert "'vehicles' looks like a person" in refused(capsys, "counts", *words, "--grid", "2x2")


def test_what_is_said_about_people_must_fit(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    words = ("partition", table, *UNIT, *COMMON)
    assert "needs --user" in refused(capsys, *words, "--rows-per-user", "2")
    assert "not both" in refused(capsys, *words, "--user", "user_id", "--rows-are-people")
    assert "has no column 'rider'" in refused(capsys, *words, "--user", "rider")
    text = table.read_text().splitlines()
    text[5] = "," + text[5].partition(",")[2]
    table.write_text("\n".join(text))
    assert "line 6: --user column 'user_id' is empty" in refused(capsys, *words, "--user", "user_id")


def test_a_column_of_people_without_repeats_is_no_obstacle(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write_people(tmp_path / "people.csv", crowd(500), id=np.arange(500), device=[""] * 500)
    assert run_json(capsys, "partition", path, *UNIT, *COMMON)["participants"] == 500


@pytest.mark.parametrize("engine", ["memory", "arrow"])
def test_a_user_that_looks_like_no_person_beside_one_that_does_is_pointed_at(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str
) -> None:
    pytest.importorskip("pyarrow")
    taxis = [f"t{number % 9}" for number in range(PEOPLE)]
    path = write_people(tmp_path / "rides.csv", crowd(PEOPLE), taxi=taxis, trip=[str(n) for n in range(PEOPLE)])
    words = ("counts", path, *UNIT, *COMMON, "--grid", "2x2", "--engine", engine, "--user")
    assert "--user 'trip': column 'taxi' looks like a person, too" in run(capsys, *words, "trip")[2]
    assert "looks like a person" not in run(capsys, *words, "taxi")[2]


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("trust", ["nobody", "curator"])
def test_streaming_takes_the_same_rows_of_every_person_as_a_run_in_memory(
    capsys: pytest.CaptureFixture[str], table: Path, rows: int, trust: str
) -> None:
    pytest.importorskip("pyarrow")
    people = ("--user", "user_id", "--rows-per-user", f"{rows}")
    words = ("counts", table, *UNIT, "--trust", trust, "--epsilon", "2", "--seed", "3", "--grid", "2x2", *people)
    streamed = run_json(capsys, *words, "--engine", "arrow")
    assert streamed["participants" if rows == 1 else "rows"] == rows * PEOPLE
    assert streamed == run_json(capsys, *words, "--engine", "memory")


RNG = np.random.default_rng(7)
FARES = RNG.gamma(4.0, 5.0, 3_000).clip(0, 100).round(2)
BASE = ["--bounds=0,0,1,1", "--epsilon", "2", "--quiet", "--seed", "1"]


@pytest.fixture
def rides(tmp_path: Path) -> Path:
    return write_people(tmp_path / "rides.csv", RNG.random((3_000, 2)), Fare=FARES.tolist())


@pytest.mark.parametrize("trust", ["curator", "two-servers", "nobody"])
def test_the_mean_of_a_column_with_its_promise(rides: Path, trust: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Six standard errors: 2e-9."""
    command = ["mean", rides, *BASE, "--trust", trust, "--value", "fare", "--range", "0,100"]
    found = run_json(capsys, *command)
    assert abs(found["value"] - FARES.mean()) < 6 * found["stderr"]
    assert found["privacy"]["own"] == "Fare from 0 to 100"
    assert "with any two values of Fare from 0 to 100" in run(capsys, *command)[1]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--value", "fare"], "needs its public range"),
        (["--value", "fare", "--range", "0"], "two numbers"),
        (["--value", "fare", "--range", "5,0"], "smallest first"),
        (["--value", "tip", "--range", "0,5"], "has no column 'tip'"),
        (["--range", "0,5", "--function", "coordinate:0"], "belongs to --value"),
        (["--value", "fare", "--range", "0,5", "--function", "coordinate:0"], "one of the two"),
        ([], "one of the two"),
    ],
)
def test_a_column_without_its_range_or_beside_a_function_is_refused(
    rides: Path, words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reason in refused(capsys, "mean", rides, *BASE, "--trust", "curator", *words)


def test_a_value_outside_its_range_is_refused_with_its_line_and_without_the_value(
    rides: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = rides.read_text().splitlines()
    lines[17] = "123.25,0.5,0.5"
    rides.write_text("\n".join(lines) + "\n")
    message = refused(capsys, "mean", rides, *BASE, "--trust", "curator", "--value", "Fare", "--range", "0,100")
    assert "line 18: --value Fare is outside --range 0,100" in message
    assert "123.25" not in message
