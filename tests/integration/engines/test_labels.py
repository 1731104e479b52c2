"""Columns of labels: the numbers of people, and points that are labels."""

from __future__ import annotations

import collections
import json
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import refused, run_json

pyarrow = pytest.importorskip("pyarrow")

PATHS = [["heart", "I20-I25", "I20"], ["heart", "I20-I25", "it's"], ["heart", "NA"], ["lung", "J18"], ["lung", "J44"]]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "icd.json"
    path.write_text(json.dumps({"name": "code", "paths": PATHS}))
    return path


def write(folder: Path, form: str) -> Path:
    """3,000 rows of 1,000 people; labels have spaces around them in places."""
    rng = np.random.default_rng(3)
    who = rng.integers(0, 1000, 3000)
    codes = rng.choice([path[-1] for path in PATHS], 3000, p=[0.4, 0.3, 0.1, 0.15, 0.05]).tolist()
    codes[::7] = [f" {code}\t" for code in codes[::7]]
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
def test_labels_are_read_in_memory(capsys: pytest.CaptureFixture[str], tmp_path: Path, table: Path, form: str) -> None:
    path = write(tmp_path, form)
    people = len(set(np.random.default_rng(3).integers(0, 1000, 3000).tolist()))
    promised = ("--bounds", table, "--user", "who", "--epsilon", "2", "--seed", "4")
    mean = ("mean", path, *promised, "--value", "cost", "--range", "0,100", "--trust", "curator")
    for job in (("counts", path, *promised, "--trust", "curator"), mean):
        assert run_json(capsys, *job)["participants"] == people
        assert "labels are read in memory; take --engine memory" in refused(capsys, *job, "--engine", "arrow")


def test_points_are_labels_too(capsys: pytest.CaptureFixture[str], tmp_path: Path, table: Path) -> None:
    """The middle of a branch is a number that stands for one of its leaves, and nobody said that."""
    path = write(tmp_path, "csv")
    job = ("points", path, "--bounds", table, "--user", "who", "--epsilon", "2", "--seed", "4", "--k", "100")
    found = run_json(capsys, *job, "--trust", "nobody")
    regions = {label for (label,) in found["points"]}
    known = {"code", "heart", "I20-I25", "lung", *(path[-1] for path in PATHS)}
    assert {end for name in regions for end in name.split(" to ")} <= known
    assert regions - {path[-1] for path in PATHS}  # some are no leaves
    drawn = run_json(capsys, *job[:-2], "--trust", "curator")
    counted = collections.Counter(label for (label,) in drawn["points"])
    assert set(counted) <= {path[-1] for path in PATHS}
    assert counted.most_common(1)[0][0] == "I20"
