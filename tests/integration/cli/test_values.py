"""``semilocal mean --value``: a column of the file, with its public range, in every mode of trust."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from semilocal.cli.main import main

RNG = np.random.default_rng(7)
FARES = RNG.gamma(4.0, 5.0, 3_000).clip(0, 100).round(2)
BASE = ["--bounds=0,0,1,1", "--epsilon", "2", "--quiet", "--seed", "1"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rides.csv"
    rows = [f"{x},{y},{fare}" for (x, y), fare in zip(RNG.random((3_000, 2)).tolist(), FARES.tolist(), strict=True)]
    path.write_text("\n".join(["x,y,Fare", *rows]) + "\n")
    return path


@pytest.mark.parametrize("trust", ["curator", "two-servers", "nobody"])
def test_the_mean_of_a_column_with_its_promise(table: Path, trust: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Six standard errors: 2e-9."""
    command = ["mean", str(table), *BASE, "--trust", trust, "--value", "fare", "--range", "0,100"]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert abs(found["value"] - FARES.mean()) < 6 * found["stderr"]
    assert found["privacy"]["own"] == "Fare from 0 to 100"
    assert main(command) == 0
    assert "with any two values of Fare from 0 to 100" in capsys.readouterr().out


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
    table: Path, words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mean", str(table), *BASE, "--trust", "curator", *words]) == 2
    assert reason in capsys.readouterr().err


def test_a_value_outside_its_range_is_refused_with_its_line_and_without_the_value(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = table.read_text().splitlines()
    lines[17] = "0.5,0.5,123.25"
    table.write_text("\n".join(lines) + "\n")
    assert main(["mean", str(table), *BASE, "--trust", "curator", "--value", "Fare", "--range", "0,100"]) == 2
    message = capsys.readouterr().err
    assert "line 18: --value Fare is outside --range 0,100" in message
    assert "123.25" not in message
