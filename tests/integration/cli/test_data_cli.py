"""`semilocal data`: lists and describes; one line and exit code 2 when it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from semilocal.cli.main import main
from semilocal.lab.experiments.catalogue import CATALOGUE


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEMILOCAL_DATA", raising=False)


def call(*words: str) -> int:
    return main(["data", *words])


def test_list_names_every_dataset_with_and_without_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--data", str(tmp_path)]):
        assert call("list", *words) == 0
        said = capsys.readouterr().out
        assert all(f"\n{name} " in f"\n{said}" for name in CATALOGUE)
        assert "checksum verified" in said


@pytest.mark.parametrize("name", list(CATALOGUE))
def test_describe_tells_origin_terms_and_state(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("describe", name) == 0
    said = capsys.readouterr().out
    for part in (CATALOGUE[name].home, CATALOGUE[name].terms, "on disk", "domain"):
        assert part in said


def test_failures_are_one_line_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("describe", "atlantis", "--data", str(tmp_path)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("semilocal: error: ")
    assert err.count("\n") == 1
