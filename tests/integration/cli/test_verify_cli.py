"""The command ``verify``: what it prints and the code it exits with."""

from __future__ import annotations

from pathlib import Path

import pytest

from semilocal.cli.main import main
from semilocal.device.vault import pack as pack_vault
from tests.helpers.transcript_cases import campaign, pack, tag

PLAYED = campaign(30, k=3)


def command(*words: str) -> int:
    return main(words)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "t.slt"
    path.write_bytes(pack(PLAYED.events, PLAYED.task))
    return path


def test_an_honest_transcript_exits_with_zero(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vault = file.with_name("vault")
    vault.write_bytes(pack_vault(PLAYED.vault(2)))
    assert command("verify", str(file), "--vault", str(vault), "--against", str(file)) == 0
    out = capsys.readouterr().out
    assert "No difference." in out
    assert "every tally counted again" in out
    assert "reports per second" in out


def test_a_difference_exits_with_one_and_is_printed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = list(PLAYED.events)
    del events[next(i for i, event in enumerate(events) if tag(event) == "report")]
    file.write_bytes(pack(events, PLAYED.task))
    assert command("verify", str(file)) == 1
    assert "[missing-report]" in capsys.readouterr().out


def test_two_histories_exit_with_one(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = campaign(30, k=3, seed=8)
    second = file.with_name("second.slt")
    second.write_bytes(pack(other.events, other.task))
    assert command("verify", str(file), "--against", str(second)) == 1
    assert "[other-history]" in capsys.readouterr().out


def test_a_file_that_is_not_there_exits_with_two(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("verify", str(file.with_name("nothing.slt"))) == 2
    assert command("verify", str(file), "--vault", str(file)) == 2
    assert "no vault" in capsys.readouterr().err
    assert command("transcript", "http://127.0.0.1:9", "0" * 64, "--out", str(file.with_name("x.slt"))) == 2
