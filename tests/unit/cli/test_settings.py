"""Options come from the command line, then from the environment, then from semilocal.toml."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import semilocal
from semilocal.cli.catalogue import COMMANDS
from semilocal.cli.main import main
from semilocal.cli.parser import CONFIG, READ_ELSEWHERE
from tests.helpers.commands import UNIT, crowd, refused, run, run_json, write_people

JOB = (*UNIT, "--trust", "curator", "--seed", "1")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_people(tmp_path / "people.csv", crowd(200))


def test_what_is_typed_wins_over_the_environment_and_that_over_the_file(
    capsys: pytest.CaptureFixture[str], table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def epsilon(*more: str) -> float:
        return float(run_json(capsys, "partition", table, *JOB, *more)["privacy"]["epsilon"])

    Path("semilocal.toml").write_text("[partition]\nepsilon = 1.5\n[counts]\nepsilon = 9\n")
    assert epsilon() == 1.5
    monkeypatch.setenv("SEMILOCAL_PARTITION_EPSILON", "2.5")
    assert epsilon() == 2.5
    assert epsilon("--epsilon", "3.5") == 3.5
    other = table.with_name("other.toml")
    other.write_text("[partition]\nepsilon = 4.5\n")
    monkeypatch.delenv("SEMILOCAL_PARTITION_EPSILON")
    monkeypatch.setenv("SEMILOCAL_CONFIG", str(other))
    assert epsilon() == 4.5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[partition]\nepsilon = 0", "[epsilon]: must be a finite number above 0; got '0'"),
        ("[partition]\nepsilom = 1", "semilocal.toml: there is no option [epsilom]; did you mean --epsilon?"),
        ("[partitions]\nepsilon = 1", "[partitions] is not a section"),
        ("epsilon = 1", "[epsilon] is not a section"),
        ("[partition", "is not TOML"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    capsys: pytest.CaptureFixture[str], table: Path, text: str, words: str
) -> None:
    Path("semilocal.toml").write_text(text)
    assert words in refused(capsys, "partition", table, *JOB)


def test_a_variable_that_fits_no_option_is_refused(
    capsys: pytest.CaptureFixture[str], table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMILOCAL_PARTITION_EPSILOM", "1")
    words = refused(capsys, "partition", table, *JOB, "--epsilon", "1")
    assert "did you mean SEMILOCAL_PARTITION_EPSILON?" in words


def test_an_option_in_a_variable_without_the_command_is_refused(
    capsys: pytest.CaptureFixture[str], table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMILOCAL_EPSILON", "1")
    words = refused(capsys, "partition", table, *JOB, "--epsilon", "1")
    assert "SEMILOCAL_EPSILON: names no command; write SEMILOCAL_PARTITION_EPSILON, or unset it" in words
    monkeypatch.delenv("SEMILOCAL_EPSILON")
    monkeypatch.setenv("SEMILOCAL_REQUIRE_ALL", "1")  # no option of the command: it is for another program
    assert run_json(capsys, "partition", table, *JOB, "--epsilon", "1")["participants"] == 200


def test_an_option_in_a_variable_with_half_of_the_command_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    create = ("campaign", "create", "--name", "walk", "--bounds", "0,0,1,1", "--epsilon", "1")
    for name in ("SEMILOCAL_CAMPAIGN_EPSILON", "SEMILOCAL_EPSILON"):
        monkeypatch.setenv(name, "1")
        words = refused(capsys, *create)
        assert f"{name}: names no command; write SEMILOCAL_CAMPAIGN_CREATE_EPSILON, or unset it" in words
        monkeypatch.delenv(name)


@pytest.mark.parametrize(("name", "said"), [
    ("SEMILOCAL_PARTITON_EPSILON", "is not used; did you mean SEMILOCAL_PARTITION_EPSILON?"),
    ("SEMILOCAL_PARTITIONS_PUBLIC_DATA", "is not used; did you mean SEMILOCAL_PARTITION_PUBLIC_DATA?"),
    ("SEMILOCAL_COUNTS_EPSILON", ""),  # of another command
    ("SEMILOCAL_LONG", ""),
    ("PARTITION_EPSILON", ""),
])  # fmt: skip
def test_a_misspelled_command_in_a_variable_is_warned_about(
    capsys: pytest.CaptureFixture[str], table: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.setenv(name, "1")
    code, _, err = run(capsys, "partition", table, *JOB, "--epsilon", "1", "--quiet")
    assert code == 0
    assert said in err
    assert ("is not used" in err) == bool(said)


def test_variables_that_are_read_elsewhere_are_known() -> None:
    """All that the package names, but those of commands: such a variable is never taken for a forgotten command."""
    sources = (path.read_text(encoding="utf-8") for path in Path(semilocal.__file__).parent.rglob("*.py"))
    named = {found for text in sources for found in re.findall(r"\bSEMILOCAL_[A-Z_]+[A-Z]\b", text)}
    of_commands = {name for name in named if name.count("_") > 1 and name.split("_")[1].lower() in COMMANDS}
    assert named - of_commands - {CONFIG} == READ_ELSEWHERE


def test_a_settings_file_that_was_named_must_be_there(
    capsys: pytest.CaptureFixture[str], table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMILOCAL_CONFIG", "nothing.toml")
    assert "nothing.toml: No such file" in refused(capsys, "partition", table, *JOB, "--epsilon", "1")


@pytest.mark.parametrize(
    "text", ['[join]\ntoken = "x"', '[join]\nposition = "1,2"', '[campaign.list]\nadmin_token = "x"']
)
def test_secrets_in_a_file_that_others_can_read_are_refused(
    capsys: pytest.CaptureFixture[str], table: Path, text: str
) -> None:
    """Whatever command runs: others have read the file already."""
    file = Path("semilocal.toml")
    file.write_text(text)
    file.chmod(0o640)
    assert "chmod 600" in refused(capsys, "partition", table, *JOB, "--epsilon", "1")
    file.chmod(0o600)
    assert run_json(capsys, "partition", table, *JOB, "--epsilon", "1")["participants"] == 200


def test_the_position_of_a_private_file_is_used(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    Path("semilocal.toml").write_text('[join]\nposition = "1,2"\nyes = true\npatience = 0\n')
    Path("semilocal.toml").chmod(0o600)
    assert "did not answer" in refused_last(capsys, "join", "http://127.0.0.1:9")


def refused_last(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_words_that_may_be_a_position_are_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--position", "37.7712,", "-122.4271"), ("--positoin=37.7712,-122.4271",), ("37.7712,-122.4271",)):
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
