"""Positions that are read straight into cells are those that are read as numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semilocal import BinaryTree, Box, SphereTree
from semilocal.cli import jobs
from semilocal.errors import InvalidInput
from semilocal.io.points import read_located, read_points
from tests.helpers.commands import run_json

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import csv, parquet  # noqa: E402

ROWS = 45_000  # more than a megabyte of CSV
BOX = Box((-10.0, 40.0), (-7.0, 43.0), names=("lon", "lat"))
POINTS = np.round(np.random.default_rng(1).normal((-8.6, 41.2), 0.05, (ROWS, 2)), 6)


def write(path: Path, columns: dict[str, Any]) -> Path:
    """Parquet in several row groups that no batch fits into evenly, or CSV."""
    table = pyarrow.table({"ride": np.arange(len(next(iter(columns.values())))), **columns})
    if path.suffix == ".csv":
        csv.write_csv(table, path, csv.WriteOptions(quoting_style="none"))
    else:
        parquet.write_table(table, path, row_group_size=30_011)
    return path


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
@pytest.mark.parametrize("tree", [BinaryTree(BOX, 40), SphereTree(40)])
def test_the_cells_are_those_of_the_positions(tmp_path: Path, name: str, tree: BinaryTree | SphereTree) -> None:
    path = write(tmp_path / name, {"lon": POINTS[:, 0], "lat": POINTS[:, 1]})
    found = read_located(path, ["lon", "lat"], tree)
    assert found is not None
    assert np.array_equal(found.codes, np.sort(tree.codes(read_points(path).points)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -10.5, None])
@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_a_bad_row_is_left_to_the_reader_that_names_it(tmp_path: Path, name: str, bad: float | None) -> None:
    longitude = POINTS[:, 0].tolist()
    longitude[ROWS - 7] = bad
    path = write(tmp_path / name, {"lon": longitude, "lat": POINTS[:, 1]})
    assert read_located(path, ["lon", "lat"], BinaryTree(BOX, 40)) is None
    if bad is None or not np.isfinite(bad):
        with pytest.raises(InvalidInput, match=rf"(line {ROWS - 5}|row {ROWS - 7}): column 'lon' is"):
            read_points(path)


def test_a_file_without_rows_is_left_to_the_reader(tmp_path: Path) -> None:
    path = write(tmp_path / "people.parquet", {"lon": np.empty(0), "lat": np.empty(0)})
    assert read_located(path, ["lon", "lat"], BinaryTree(BOX, 40)) is None


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
@pytest.mark.parametrize(
    "command", [("counts", "--grid", "7x9"), ("partition",)], ids=["counts", "partition"]
)  # fmt: skip
def test_a_seed_gives_the_same_bytes_with_and_without_positions_in_memory(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    command: tuple[str, ...],
) -> None:
    """--clip has nothing to move here, and needs the positions."""
    located = []

    def spy(*given: Any) -> Any:
        located.append(read_located(*given))
        return located[-1]

    monkeypatch.setattr(jobs, "read_located", spy)
    path = write(tmp_path / name, {"lon": POINTS[:, 0], "lat": POINTS[:, 1]})
    written = []
    for number, more in enumerate([(), ("--clip",)]):
        files = [tmp_path / f"{number}.csv", tmp_path / f"{number}.slt"]
        job = (command[0], path, *command[1:], "--bounds=-10,40,-7,43", "--trust", "curator", "--epsilon", "1")
        out = ("--seed", "5", "--out", files[0], "--transcript", files[1], *more)
        run_json(capsys, *job, *out)
        written.append([file.read_bytes() for file in files])
    assert written[0] == written[1]
    assert [found is not None for found in located] == [True]
