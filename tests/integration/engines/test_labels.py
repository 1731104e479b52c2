"""Columns of labels give the same bytes in memory and streamed, and what is no leaf is refused there too."""

from __future__ import annotations

import collections
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semilocal.engines import open_source
from semilocal.errors import InvalidInput
from semilocal.hierarchy.tables import from_labels
from tests.helpers.commands import refused, run_json

pyarrow = pytest.importorskip("pyarrow")

PATHS = [["heart", "I20-I25", "I20"], ["heart", "I20-I25", "it's"], ["heart", "NA"], ["lung", "J18"], ["lung", "J44"]]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "icd.json"
    path.write_text(json.dumps({"name": "code", "paths": PATHS}))
    return path


def write(folder: Path, form: str, *, bad: Sequence[str] = ()) -> Path:
    """3,000 rows of 1,000 people; labels have spaces around them in places."""
    rng = np.random.default_rng(3)
    who = rng.integers(0, 1000, 3000)
    codes = rng.choice([path[-1] for path in PATHS], 3000, p=[0.4, 0.3, 0.1, 0.15, 0.05]).tolist()
    codes[::7] = [f" {code}\t" for code in codes[::7]]
    codes[5 : 5 + len(bad)] = bad
    rows = pyarrow.table({
        "who": who, "code": codes, "cost": rng.integers(0, 90, 3000).astype(float)
    })  # fmt: skip
    path = folder / f"rows.{form}"
    if form == "parquet":
        from pyarrow import parquet

        parquet.write_table(rows, path, row_group_size=700)
    else:
        lines = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        path.write_text("who,code,cost\n" + "".join(",".join(map(str, line)) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_streamed_rows_say_what_memory_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, table: Path, form: str
) -> None:
    path = write(tmp_path, form)
    people = len(set(np.random.default_rng(3).integers(0, 1000, 3000).tolist()))
    promised = ("--bounds", table, "--user", "who", "--epsilon", "2", "--seed", "4")
    mean = ("mean", path, *promised, "--value", "cost", "--range", "0,100", "--trust", "curator")
    for job in (
        ("counts", path, *promised, "--trust", "curator"),
        ("counts", path, *promised, "--trust", "nobody"),
        mean,
    ):
        here, there = (run_json(capsys, *job, "--engine", name) for name in ("memory", "arrow"))
        assert here == there
        assert here["participants"] == people


def test_a_label_that_is_no_leaf_is_refused_with_how_many_and_not_repeated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, table: Path
) -> None:
    path = write(tmp_path, "csv", bad=["secret", "heart", "j18", ""])
    job = ("counts", path, "--bounds", table, "--rows-are-people", "--epsilon", "1", "--trust", "curator")
    said = refused(capsys, *job, "--engine", "arrow")
    assert "column 'code' holds no leaf of the table in 4 of 3,000 rows" in said
    assert "the first in row 5" in said
    assert not any(bad in said for bad in ("secret", "heart", "j18"))


def test_a_file_without_the_column_is_refused_by_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, table: Path
) -> None:
    path = write(tmp_path, "csv")
    job = ("counts", path, "--bounds", table, "--columns", "diagnosis", "--rows-are-people", "--epsilon", "1")
    assert "'diagnosis'" in refused(capsys, *job, "--trust", "curator", "--engine", "arrow")


@pytest.mark.parametrize(("rows", "columns"), [(np.zeros((3, 1)), ["code"]), ("rows.csv", ["code", "who"])])
def test_leaves_are_for_one_column_of_files(rows: Any, columns: list[str]) -> None:
    tree = from_labels("code", PATHS)
    with pytest.raises(InvalidInput, match=r"one column of files.*tree\.positions"):
        open_source(rows, columns, tree.box, leaves=tree.leaves)


def test_points_are_labels_too(capsys: pytest.CaptureFixture[str], tmp_path: Path, table: Path) -> None:
    """The middle of a branch is a number that stands for one of its leaves, and nobody said that."""
    path = write(tmp_path, "csv")
    job = ("points", path, "--bounds", table, "--user", "who", "--epsilon", "2", "--seed", "4", "--k", "100")
    found = run_json(capsys, *job, "--trust", "nobody")
    regions = {label for (label,) in found["points"]}
    known = {"code", "heart", "I20-I25", "lung", *(path[-1] for path in PATHS)}
    assert {end for name in regions for end in name.split(" to ")} <= known
    assert regions - {path[-1] for path in PATHS}  # some are no leaves
    assert run_json(capsys, *job, "--trust", "nobody", "--engine", "arrow")["points"] == found["points"]
    drawn = run_json(capsys, *job[:-2], "--trust", "curator")
    counted = collections.Counter(label for (label,) in drawn["points"])
    assert set(counted) <= {path[-1] for path in PATHS}
    assert counted.most_common(1)[0][0] == "I20"
