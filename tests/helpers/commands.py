"""Running commands in this process, and files of people for them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semilocal.arrays import Floats
from semilocal.cli.main import main

COMMON = ("--trust", "nobody", "--epsilon", "2", "--k", "20", "--seed", "1")
UNIT = ("--bounds", "0,0,1,1")


def crowd(count: int = 3_000, *, seed: int = 1) -> Floats:
    """A dense corner with a few scattered people."""
    rng = np.random.default_rng(seed)
    dense = rng.beta(2, 8, (count, 2)) * 0.5
    return np.where(rng.random((count, 1)) < 0.02, rng.random((count, 2)), dense)


def write_people(path: Path, points: Floats, **columns: Any) -> Path:
    """A CSV file with columns lon and lat, and others by name."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, "lon", "lat"])
        writer.writerows(zip(*columns.values(), *points.T.tolist(), strict=True))
    return path


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    capsys.readouterr()
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def run_json(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    """The JSON object that a command prints."""
    code, out, err = run(capsys, *words, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line on stderr of a command that refuses."""
    code, out, err = run(capsys, *words)
    assert code == 2, (out, err)
    assert out == ""
    assert err.startswith("semilocal: error: "), err
    assert err.count("\n") == 1, err
    return err


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True
