"""Positions and tokens need not be on a command line, which every user of the machine can read."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from semilocal.cli.options import read_hidden
from semilocal.errors import InvalidInput


def read(given: str | None) -> str:
    return read_hidden(given, option="--token", variable="SEMILOCAL_TEST_TOKEN")


def test_a_value_comes_from_the_command_line_a_file_a_prompt_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read(None) == ""
    monkeypatch.setenv("SEMILOCAL_TEST_TOKEN", " from-the-environment\n")
    assert read(None) == "from-the-environment"
    assert read("plain") == "plain"
    file = tmp_path / "token"
    file.write_text("\n  from-a-file \n")
    file.chmod(0o600)
    assert read(f"@{file}") == "from-a-file"
    assert capsys.readouterr().err == ""
    file.chmod(0o644)
    assert read(f"@{file}") == "from-a-file"
    assert "can be read by others" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", io.StringIO("from-a-pipe\n"))
    assert read("-") == "from-a-pipe"

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: f"typed at {prompt}")
    assert read("-") == "typed at token:"


@pytest.mark.parametrize("text", ["", "a\nb\n"])
def test_a_file_without_exactly_one_line_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(InvalidInput, match="must hold one line"):
        read(f"@{tmp_path / 'token'}")
    with pytest.raises(InvalidInput, match="cannot read"):
        read(f"@{tmp_path / 'nothing'}")


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_text_is_no_value(text: str) -> None:
    with pytest.raises(InvalidInput, match="--token: is empty; give it, or leave --token out"):
        read(text)
