"""Options come from the command line, then from the environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from semilocal.cli.main import main
from tests.helpers.commands import UNIT, crowd, refused, run_json, write_people

JOB = (*UNIT, "--trust", "curator", "--seed", "1")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_people(tmp_path / "people.csv", crowd(200))


def test_what_is_typed_wins_over_the_environment(
    capsys: pytest.CaptureFixture[str], table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMILOCAL_PARTITION_EPSILON", "2.5")
    monkeypatch.setenv("SEMILOCAL_COUNTS_EPSILON", "9")
    monkeypatch.setenv("SEMILOCAL_REQUIRE_ALL", "1")  # of another program
    for more, expected in (((), 2.5), (("--epsilon", "3.5"), 3.5)):
        assert run_json(capsys, "partition", table, *JOB, *more)["privacy"]["epsilon"] == expected
    monkeypatch.setenv("SEMILOCAL_PARTITION_EPSILON", "0")
    said = refused(capsys, "partition", table, *JOB)
    assert 'Invalid value "0.0" for SEMILOCAL_PARTITION_EPSILON provided by env. Must be > 0' in said


def test_a_variable_that_fits_no_option_is_refused(
    capsys: pytest.CaptureFixture[str], table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMILOCAL_PARTITION_EPSILOM", "1")
    words = refused(capsys, "partition", table, *JOB, "--epsilon", "1")
    assert "did you mean SEMILOCAL_PARTITION_EPSILON?" in words


def test_words_that_may_be_a_position_are_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ("--position", "37.7712,", "-122.4271"), ("--positoin=37.7712,-122.4271",), ("37.7712,-122.4271",),
        ("-37.7712,-122.4271",),
    ):  # fmt: skip
        text = refused(capsys, "join", "http://127.0.0.1:9", "--yes", *words)
        assert "7712" not in text
        assert "4271" not in text


def test_without_the_extra_one_line_says_what_to_install() -> None:
    program = (
        "import sys\nsys.modules['cyclopts'] = None\nfrom semilocal.cli.main import main\nsys.exit(main(['--help']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "semilocal: error: this needs cyclopts; install it with: pip install 'semilocal[cli]'\n"


def test_a_shell_learns_commands_and_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    script = tmp_path / "completion.bash"
    assert main(["--install-completion", "--shell", "bash", "--output", str(script)]) == 0
    text = script.read_text()
    for word in ("partition", "campaign", "confirm", "--epsilon", "--rows-are-people"):
        assert word in text
    assert str(script) in (tmp_path / ".bashrc").read_text()
