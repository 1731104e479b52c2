"""Rows from Arrow: files with faults are refused, one row per person is taken, outputs are whole or not there."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal import Task
from semilocal.arrays import Floats
from semilocal.engines import open_source
from semilocal.engines.arrow import ArrowSource
from semilocal.engines.run import run_source
from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.simulation.people import choose_rows
from tests.helpers.commands import COMMON, refused, run, run_json, write_people
from tests.helpers.engine_runs import SEED, box_of, compare, people

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

BOX = box_of(2)
TASK = Task.build(BOX, epsilon=2.0, delta=0.05, k=20)


def write(path: Path, points: Floats, **others: Any) -> Path:
    parquet.write_table(pyarrow.table({"x": points[:, 0], "y": points[:, 1], **others}), path, row_group_size=700)
    return path


def source_of(path: Any, **named: Any) -> ArrowSource:
    found = open_source(path, ["x", "y"], BOX, **named)
    assert isinstance(found, ArrowSource)
    return found


def test_every_row_is_written_with_its_region(tmp_path: Path) -> None:
    points = people(5000, 2)
    source = source_of(write(tmp_path / "in.parquet", points, row=np.arange(5000)))
    found = compare(points, TASK, source)
    assert len(found.partition) > 20
    out = found.attach(path=tmp_path / "out.parquet", keep=["row"])
    table = parquet.read_table(out)
    ours = sl.simulate(points, TASK, rng=np.random.default_rng(SEED))
    assert table.column("row").to_pylist() == list(range(5000))
    assert np.array_equal(table.column("region").to_numpy(), ours.regions)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_an_input_is_never_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path / "in.parquet", people(2000, 2))
    before = path.read_bytes()
    found = run_source(source_of(path), TASK, rng=np.random.default_rng(1))
    with pytest.raises(InvalidInput, match="is an input, which nothing overwrites"):
        found.attach(path=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("fault", "words"), [
    (KeyboardInterrupt("stopped"), "stopped"), (OSError(errno.ENOSPC, "no space"), "the disk is full"),
])  # fmt: skip
def test_a_write_that_is_stopped_leaves_nothing_behind(tmp_path: Path, fault: BaseException, words: str) -> None:
    path = write(tmp_path / "in.parquet", people(2000, 2))
    found = run_source(source_of(path), TASK, rng=np.random.default_rng(1))

    def stopping(columns: Any) -> Any:
        yield next(batches(columns))
        raise fault

    batches, found.source._chosen = found.source._chosen, stopping  # type: ignore[attr-defined]
    with pytest.raises((InvalidInput, KeyboardInterrupt), match=words):
        found.attach(path=tmp_path / "out.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["in.parquet"]


def test_one_row_of_every_person_is_chosen_by_key_and_row_alone(tmp_path: Path) -> None:
    points = people(6000, 2)
    users = [f"u{number}" for number in np.random.default_rng(2).integers(0, 2500, 6000)]
    path = write(tmp_path / "in.parquet", points, user=users)
    codes = np.unique(users, return_inverse=True)[1]
    chosen = choose_rows(codes, key=11)
    assert len(chosen) == len(set(users))
    assert len({users[row] for row in chosen}) == len(chosen)
    source = source_of(path, person="user", key=11)
    assert np.array_equal(np.concatenate(list(source.batches())), points[chosen])
    compare(points[chosen], TASK, source)
    assert not np.array_equal(choose_rows(codes, key=12), chosen)
    moved = write(tmp_path / "other.parquet", points[::-1], user=users)  # other positions, same people: same rows
    assert np.array_equal(np.concatenate(list(source_of(moved, person="user", key=11).batches())), points[::-1][chosen])
    several = choose_rows(codes, key=11, rows_per_user=3)
    assert set(chosen.tolist()) < set(several.tolist())
    assert np.bincount(np.unique([users[row] for row in several], return_inverse=True)[1]).max() == 3


def test_rows_without_a_person_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "in.parquet", people(3, 2), user=["a", None, "b"])
    with pytest.raises(InvalidInput, match="row 1; every row needs a person"):
        source_of(path, person="user").count()


def test_missing_values_are_counted(tmp_path: Path) -> None:
    points = people(50, 2)
    values = [None if row in (3, 9) else number for row, number in enumerate(points[:, 0].tolist())]
    points[20, 1], points[30, 1] = np.nan, 50.0
    table = pyarrow.table({"x": pyarrow.array(values), "y": points[:, 1]})
    parquet.write_table(table, tmp_path / "in.parquet")
    words = r"of 50 rows 3 have no value or are NaN or infinite and 1 lie outside .*first at row 3; remove"
    with pytest.raises(OutsideDomain, match=words):
        sl.counts(source_of(tmp_path / "in.parquet"), BOX, epsilon=1.0, trust="curator")


@pytest.mark.parametrize(("files", "words"), [
    ({}, "is an empty folder"),
    ({"a.parquet": {"x": [0.1], "z": [0.2]}}, "has no column 'y'; the columns are 'x', 'z'"),
    ({"a.parquet": {"x": [0.1], "y": ["north"]}}, "column 'y' holds string, not numbers"),
    ({"a.parquet": {"x": [0.1], "y": [0.2]}, "b.parquet": {"x": [0.1]}}, "b.parquet: has no column 'y'"),
    ({"a.parquet": {"x": [0.1], "y": [0.2]}, "b.parquet": {"x": [1.0], "y": ["1"]}}, "b.parquet: .*not numbers"),
    ({"a.parquet": {"x": [0.1], "y": [0.2]}, "b.csv": None}, "b.csv, line 2: column 'y' is not a number; fix"),
    ({"a.csv": None}, "a.csv, line 2: column 'y' is not a number; fix"),
])  # fmt: skip
def test_files_with_faults_are_refused_before_a_row_is_read(tmp_path: Path, files: dict[str, Any], words: str) -> None:
    for name, columns in files.items():
        if columns is None:
            (tmp_path / name).write_text("x,y\n0.1,north\n")
        else:
            parquet.write_table(pyarrow.table(columns), tmp_path / name)
    with pytest.raises(InvalidInput, match=words):
        open_source(tmp_path, ["x", "y"], BOX).check()


def test_a_reader_that_can_be_read_once_is_refused() -> None:
    table = pyarrow.table({"x": [0.0], "y": [0.0]})
    with pytest.raises(InvalidInput, match="once only"):
        open_source(table.to_reader(), ["x", "y"], BOX)


JOB = ("--bounds", "-10.1,-10.1,9.7,9.7", "--epsilon", "2", "--seed", "4")


@pytest.mark.parametrize("trust", ["nobody", "curator"])
def test_every_engine_of_the_command_line_says_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, trust: str
) -> None:
    path = write(tmp_path / "in.parquet", people(5000, 2))
    for words in (("counts", path, "--grid", "3x3"), ("mean", path, "--function", "squared_norm")):
        memory, arrow = (
            run_json(capsys, *words, *JOB, "--trust", trust, "--engine", engine) for engine in ("memory", "arrow")
        )
        assert memory == arrow
        assert memory["participants"] == 5000


@pytest.mark.parametrize("delimiter", [";", "\t"])
@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_every_engine_reads_the_same_delimiters(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, delimiter: str, ending: str
) -> None:
    path, points = tmp_path / f"in{ending}", np.random.default_rng(3).uniform(-9, 9, (300, 2))
    np.savetxt(path, points, delimiter=delimiter, header=f"x{delimiter}y", comments="")
    said = [
        run_json(capsys, "counts", path, "--grid", "3x3", *JOB, "--trust", "curator", "--engine", engine)
        for engine in ("memory", "arrow")
    ]
    assert said[0] == said[1]
    assert said[0]["participants"] == 300


def test_points_of_geoparquet_and_geojson_are_read_by_every_engine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    geopandas = pytest.importorskip("geopandas")
    points = np.random.default_rng(3).normal((11.5, 48.1), 0.1, (300, 2))
    frame = geopandas.GeoDataFrame(geometry=geopandas.points_from_xy(*points.T), crs=4326)
    frame.to_parquet(tmp_path / "in.parquet")
    frame.to_file(tmp_path / "in.geojson", driver="GeoJSON", engine="pyogrio", COORDINATE_PRECISION=17)
    job = ("--bounds", "germany", "--grid", "3x3", "--epsilon", "2", "--seed", "4", "--trust", "curator", "--engine")
    said = [
        run_json(capsys, "counts", tmp_path / name, *job, engine)
        for name in ("in.parquet", "in.geojson")
        for engine in ("memory", "arrow")
    ]
    assert all(one == said[0] for one in said)
    assert said[0]["participants"] == 300


def test_engines_write_the_same_transcript_and_it_verifies(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    path = write(tmp_path / "in.parquet", people(600, 2))
    job = ("partition", path, *JOB, "--trust", "nobody", "--k", "20")
    for engine in ("memory", "arrow"):
        run_json(capsys, *job, "--engine", engine, "--transcript", tmp_path / f"{engine}.slt")
    assert (tmp_path / "arrow.slt").read_bytes() == (tmp_path / "memory.slt").read_bytes()
    assert "No difference." in run(capsys, "verify", tmp_path / "arrow.slt")[1]


def test_a_file_with_a_person_column_needs_a_word_about_people(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write(tmp_path / "in.parquet", people(900, 2), user=np.arange(900) // 3)
    job = ("counts", path, *JOB, "--grid", "2x2", "--trust", "curator", "--engine", "arrow")
    assert "looks like a person" in refused(capsys, *job)
    assert run_json(capsys, *job, "--user", "user")["participants"] == 300
    assert run_json(capsys, *job, "--rows-are-people")["participants"] == 900


@pytest.mark.parametrize("engine", ["arrow", "duckdb"])
def test_a_person_column_of_a_later_file_is_seen(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: Any
) -> None:
    write(tmp_path / "a.parquet", people(600, 2))
    write(tmp_path / "b.parquet", people(600, 2), user=np.arange(600) // 3)
    job = ("counts", tmp_path, *JOB, "--grid", "2x2", "--trust", "curator")
    assert "b.parquet: column 'user' looks like a person" in refused(capsys, *job)
    assert run_json(capsys, *job, "--rows-are-people")["participants"] == 1200
    with pytest.raises(InvalidInput, match="'user' looks like a person"):
        open_source(tmp_path, ["x", "y"], BOX, engine=engine)


@pytest.mark.parametrize("given", ["rows", "rows/*.parquet", "rows/?.parquet", "rows/[ab].parquet"])
def test_a_folder_or_a_pattern_may_name_one_small_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, given: str
) -> None:
    (tmp_path / "rows").mkdir()
    write(tmp_path / "rows" / "a.parquet", people(600, 2))
    job = ("counts", tmp_path / given, *JOB, "--grid", "2x2", "--trust", "curator")
    assert run_json(capsys, *job)["participants"] == 600
    assert "--clip needs all positions in memory" in refused(capsys, *job, "--clip")


def test_streamed_points_are_those_of_memory_across_the_date_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The box around a cell across the date line has its middle on the other side of the Earth."""
    rng = np.random.default_rng(1)
    points = np.column_stack([(rng.normal(180, 3, 4_000) + 180) % 360 - 180, rng.normal(-17, 3, 4_000)])
    path = write_people(tmp_path / "fiji.csv", points)
    job = ("points", path, "--bounds", "sphere", *COMMON)
    assert run(capsys, *job, "--out", tmp_path / "here.csv")[0] == 0
    assert run(capsys, *job, "--engine", "arrow", "--out", tmp_path / "there.csv")[0] == 0
    here = np.loadtxt(tmp_path / "here.csv", delimiter=",", skiprows=1)
    assert (tmp_path / "there.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()
    assert np.mean(np.abs(here[:, 0]) > 150) > 0.9  # but for regions that reach around the Earth


def test_spaces_around_names_of_columns_are_no_part_of_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(" x ,y \n0.25,0.5\n")
    (tmp_path / "b.csv").write_text(" x ,y \n0.75,0.5\n")
    rows = np.concatenate(list(source_of(tmp_path, engine="arrow").batches()))
    assert sorted(rows.tolist()) == [[0.25, 0.5], [0.75, 0.5]]
    (tmp_path / "c.csv").write_text("y,x\n0.5,0.125\n")
    assert np.concatenate(list(source_of(tmp_path, engine="arrow").batches()))[2].tolist() == [0.125, 0.5]


def test_a_folder_may_hold_files_of_several_formats_and_types_of_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("who;y;x\nann;0.5;0.25\n")
    table = pyarrow.table({"x": pyarrow.array([1], pyarrow.int16()), "y": pyarrow.array([2], pyarrow.float32())})
    parquet.write_table(table.append_column("who", [["bob"]]), tmp_path / "b.parquet")
    (tmp_path / "c.tsv").write_text("x\ty\twho\n3\t4\tann\n")
    source = open_source(tmp_path, ["x", "y"], BOX, person="who", key=1)
    assert np.concatenate(list(source.batches())).tolist() in ([[0.25, 0.5], [1, 2]], [[1, 2], [3, 4]])
    every = open_source(tmp_path, ["x", "y"], BOX, rows_are_people=True)
    assert np.concatenate(list(every.batches())).tolist() == [[0.25, 0.5], [1, 2], [3, 4]]


@pytest.mark.parametrize(("options", "words"), [
    ({"keep": ["row"]}, "no column 'row' to keep"), ({"keep": ["x"]}, "name it with path"),
    ({"add": {}}, "attach takes keep"), ({"keep": ["region"], "path": "out.parquet"}, "would be there twice"),
])  # fmt: skip
def test_only_columns_that_are_there_are_kept(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    source = source_of(write(tmp_path / "in.parquet", people(2000, 2), region=np.arange(2000)))
    found = run_source(source, TASK, rng=np.random.default_rng(1))
    with pytest.raises(InvalidInput, match=words):
        found.attach(**options)
