"""The command line does the job, says what it cost, and names file, place and fix when something is wrong."""

from __future__ import annotations

import csv
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.cli.main import main
from semilocal.protocol.promise import Guarantee, Mark, promise
from tests.helpers.commands import COMMON, UNIT, Terminal, crowd, refused, run, run_json, write_people
from tests.helpers.pages import data_of


@pytest.fixture(scope="module")
def points() -> Any:
    return crowd()


@pytest.fixture
def table(tmp_path: Path, points: Any) -> Path:
    return write_people(tmp_path / "people.csv", points, id=range(len(points)))


def read_column(path: Path, name: str) -> list[str]:
    with path.open() as file:
        return [row[name] for row in csv.DictReader(file)]


def test_partition_writes_regions_and_states_promise_losses_and_ledger(
    capsys: pytest.CaptureFixture[str], table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "regions.geojson"
    words = ("partition", table, "--columns", "lon,lat", *UNIT, *COMMON, "--out")
    code, text, err = run(capsys, *words, out, "--explain")
    run(capsys, *words, out.with_suffix(".csv"))
    assert code == 0
    regions = [one for one in json.loads(out.read_text())["features"] if one["properties"]["kind"] == "region"]
    assert sum(one["properties"]["crowd"] for one in regions) == 3_000
    task = sl.Task.build(sl.Box((0, 0), (1, 1), names=("lon", "lat")), epsilon=2.0, delta=1e-6, k=20)
    crowds = [int(row) for row in read_column(out.with_suffix(".csv"), "crowd")]
    least, lowest = min(crowds), read_column(out.with_suffix(".csv"), "lon_lower")
    assert (sum(crowds), len(lowest)) == (3_000, len(crowds))
    assert promise(task, participants=3_000, smallest=least, mark=Mark(seeded=True)).explain() in text
    assert "delta (crowd)" in text  # the ledger
    assert "Seed 1" in text
    assert "rounds played" in err


def test_json_holds_everything_on_one_line(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    found = run_json(capsys, "partition", table, *UNIT, *COMMON)
    said = Guarantee.from_json(found["privacy"])
    assert found["simulation"] is said.simulated is True
    assert found["participants"] == 3_000
    assert (said.epsilon, said.k, said.delta) == (2.0, 20, 1e-6)
    assert said.adjacency == "inside"


def test_a_seed_repeats_and_no_seed_does_not(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    words = ("mean", table, *UNIT, "--trust", "nobody", "--epsilon", "4", "--k", "20", "--function", "squared-norm")
    first, second = (run_json(capsys, *words, "--seed", "7") for _ in range(2))
    assert first == second
    third, fourth = (run_json(capsys, *words) for _ in range(2))
    assert third["value"] != fourth["value"]  # equal with probability below 1e-12
    assert third["simulation"] is True  # the program held all positions: its user is a curator
    assert "curator" in run(capsys, *words)[1]


@pytest.mark.parametrize(
    ("function", "f"),
    [
        ("squared-norm", sl.functions.squared_norm()),
        ("coordinate:lat", sl.functions.coordinate(1)),
        ("gaussian-bump:0.5", sl.functions.gaussian_bump(0.5)),
        ("linear:1,-2", sl.functions.linear([1.0, -2.0])),
        ("indicator:0,0,0.25,0.25", sl.functions.indicator(sl.Box((0, 0), (0.25, 0.25)))),
    ],
)
def test_means_of_all_functions_with_their_error(
    capsys: pytest.CaptureFixture[str], table: Path, points: Any, function: str, f: Any
) -> None:
    """Five standard errors, which have the clipping in them: false alarm 6e-7."""
    job = ("mean", table, *UNIT, "--trust", "nobody", "--epsilon", "8", "--k", "20", "--seed", "2")
    found = run_json(capsys, *job, "--function", function)
    assert found["function"] == function
    assert abs(found["value"] - f(points).mean()) <= 5 * found["stderr"]
    assert found["epsilon_partition"] + found["epsilon_values"] == pytest.approx(8)
    assert found["privacy"]["epsilon"] == pytest.approx(8)
    assert found["interval"][0] < found["value"] < found["interval"][1]


def test_a_mean_says_what_it_costs_and_when_there_is_no_partition(
    capsys: pytest.CaptureFixture[str], table: Path
) -> None:
    job = ("mean", table, *UNIT, "--trust", "nobody", "--k", "20", "--seed", "1", "--function", "squared-norm")
    words = (*job, "--explain", "--epsilon")
    _, text, _ = run(capsys, *words, "8")
    assert "between any two places of one's region" in text
    assert "No partition was made" not in text
    code, text, _ = run(capsys, *words, "0.2")
    assert code == 0
    assert "No partition was made" in text
    assert "epsilon = 0.2, delta = 0 between any two positions of one person anywhere" in text


def test_counts_on_a_grid_add_up(capsys: pytest.CaptureFixture[str], table: Path, tmp_path: Path) -> None:
    found = run_json(capsys, "counts", table, *UNIT, *COMMON, "--grid", "8x4")
    assert len(found["answers"]) == 32
    box = sl.Box((0, 0), (1, 1), names=("lon", "lat"))
    rng = np.random.default_rng(1)
    same = sl.counts(crowd(), box, epsilon=2.0, trust="nobody", k=20, rng=rng).query(box.grid([8, 4]))
    assert [one["count"] for one in found["answers"]] == same.to_table()["estimate"].tolist()  # to the digits known
    assert same.value.sum() == pytest.approx(3_000, abs=1e-6)
    assert all(0 <= one["low"] <= one["high"] <= 3_000 for one in found["answers"])
    coarse = run_json(capsys, "counts", table, *UNIT, *COMMON, "--grid", "8x4", "--rounding", "0.2")["answers"]
    assert coarse != found["answers"]
    for name in ("grid.csv", "grid.geojson"):
        assert run(capsys, "counts", table, *UNIT, *COMMON, "--grid", "8x4", "--out", tmp_path / name)[0] == 0
    features = json.loads((tmp_path / "grid.geojson").read_text())["features"]
    with (tmp_path / "grid.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row, feature, answer in zip(rows, features, found["answers"], strict=True):
        assert float(row["count"]) == feature["properties"]["count"] == answer["count"]
        assert feature["geometry"]["coordinates"][0][0] == [float(row["x0"]), float(row["y0"])]


def test_counts_in_polygons_come_back_with_their_names_and_shapes(
    capsys: pytest.CaptureFixture[str], table: Path, tmp_path: Path
) -> None:
    pytest.importorskip("shapely")
    ring = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    other = [[1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    features = [
        {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [one]}, "properties": {"name": name}}
        for name, one in (("south-west", ring), ("north-east", other))
    ]
    queries, out = tmp_path / "q.geojson", tmp_path / "answers.geojson"
    queries.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    answers = run_json(capsys, "counts", table, *UNIT, *COMMON, "--queries", queries)["answers"]
    assert [answer["name"] for answer in answers] == ["south-west", "north-east"]
    assert "x0" not in answers[0]  # a box would be another area
    run_json(capsys, "counts", table, *UNIT, *COMMON, "--queries", queries, "--out", out)
    written = json.loads(out.read_text())["features"]
    assert [feature["geometry"] for feature in written] == [feature["geometry"] for feature in features]
    assert [feature["properties"]["count"] for feature in written] == [answer["count"] for answer in answers]


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_a_place_and_negative_numbers_are_bounds(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    assert run_json(capsys, "partition", table, "--bounds", "world", *COMMON)["participants"] == 3_000
    assert run_json(capsys, "partition", table, "--bounds", "-1,-1,1,1", *COMMON)["participants"] == 3_000
    code, _, err = run(capsys, "partition", table, "--bounds", "atlantis", *COMMON)
    assert code == 2
    assert "california" in err


def test_points_outside_are_refused_with_file_line_and_fix_unless_clipped(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "people.csv"
    path.write_text("x,y\n" + "0.5,0.5\n" * 40 + "\n1.5,0.5\n" + "0.2,2.0\n")  # an empty line counts as a line
    code, out, err = run(capsys, "partition", path, *UNIT, *COMMON)
    assert code == 2
    assert out == ""
    for part in (str(path), "line 43", "2 of 42", "--clip"):
        assert part in err
    code, _, err = run(capsys, "partition", path, *UNIT, *COMMON, "--clip")
    assert code == 0
    assert "--clip moves positions outside to the edge" in err


def test_a_clipped_job_does_not_tell_whether_anybody_was_outside(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = []
    for x in ("1.5", "1.0"):
        path = tmp_path / "people.csv"
        path.write_text("x,y\n" + "0.5,0.5\n" * 40 + f"{x},0.5\n")
        said.append(run(capsys, "partition", path, *UNIT, *COMMON, "--clip", "--seed", "1", "--quiet"))
    assert said[0][0] == 0
    assert said[0] == said[1]


# -- the program -------------------------------------------------------------------------------------------------------


def test_the_version_is_the_package_s() -> None:
    words = [sys.executable, "-m", "semilocal", "--version"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == f"semilocal {sl.__version__}\n"


def test_help_loads_neither_numpy_nor_any_command() -> None:
    program = (
        "import sys\n"
        "from semilocal.cli.main import main\n"
        "assert main(['--help']) == 0\n"
        "assert not {'numpy', 'scipy', 'msgspec'} & set(sys.modules)\n"
        "assert not [name for name in sys.modules if name.startswith('semilocal.cli.commands')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_help_and_core_commands_need_no_extra(table: Path) -> None:
    """Nothing but numpy, scipy and msgspec is imported on the way."""
    program = (
        "import sys\n"
        "from semilocal.cli.main import main\n"
        f"main(['mean', {str(table)!r}, '--bounds', '0,0,1,1', '--trust', 'nobody', '--epsilon', '2', '--quiet',"
        " '--function', 'squared-norm'])\n"
        "extras = {'matplotlib', 'sklearn', 'pyarrow', 'starlette', 'httpx2', 'uvicorn', 'cryptography'}\n"
        "assert not extras & set(sys.modules), extras & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="the demo needs the plots extra")
def test_the_demo_does_the_whole_job(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, text, _ = run(capsys, "demo", "--out", tmp_path / "demo", "--seed", "1")
    assert code == 0
    assert len(text.splitlines()) <= 25
    assert (tmp_path / "demo" / "trust.png").read_bytes()[:4] == b"\x89PNG"
    assert "los-angeles" in str(data_of((tmp_path / "demo" / "map.html").read_text())["asked"])
    for trust in ("nobody", "two-servers", "curator"):
        assert f"\n{trust}: epsilon = 1 (delta = 0), " in text
    for part in ("20,640", "The truth is 4,573", "95 % interval", "1 in 20", "map.html", "a simulation"):
        assert part in text


def test_a_sphere_or_a_table_stands_where_a_box_would(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    globe = write_people(tmp_path / "globe.csv", crowd(2_000) * [300, 150] - [150, 75])
    code, out, _ = run(capsys, "counts", globe, "--bounds", "sphere", *COMMON, "--grid", "1x1")
    assert code == 0
    assert "-180,-90,180,90,2000" in out
    table = tmp_path / "ages.json"
    table.write_text('{"name": "age", "cuts": [[-80, 0, 80], [-80, -40, 0, 40, 80]]}')
    code, out, _ = run(capsys, "counts", globe, "--columns", "lat", "--bounds", table, *COMMON, "--grid", "1")
    assert code == 0
    assert "-80,80,2000" in out
    code, _, err = run(capsys, "counts", globe, "--bounds", table, *COMMON, "--grid", "1x1")
    assert code == 2
    assert "the tree has 1 axes" in err
    assert "swapped" in refused(
        capsys, "counts", globe, "--columns", "lat,lon", "--bounds", "sphere", *COMMON, "--grid", "1x1"
    )


def test_every_long_part_of_a_job_shows_itself_when_it_begins(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen)
    ask = ("counts", table, *UNIT, "--trust", "curator", "--epsilon", 1, "--grid", "8x8", "--rows-are-people")
    assert main([str(word) for word in (*ask, "--out", tmp_path / "out.csv")]) == 0
    places = [screen.getvalue().find(part) for part in ("reading people.csv", "counting", "answering", "writing")]
    assert places == sorted(places)
    assert places[0] >= 0
