"""docs/reference/commands.md says what the program does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from semilocal.cli.catalogue import COMMANDS, EXIT_CODES
from semilocal.cli.main import read_words
from semilocal.errors import InvalidInput

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")


def table_after(header: str) -> dict[str, str]:
    rows = PAGE.partition(header)[2].strip().splitlines()[1:]
    found = {}
    for row in rows:
        match = re.fullmatch(r"\| `?([\w-]+)`? \| (.*) \|", row)
        if match is None:
            break
        found[match[1]] = match[2]
    return found


def test_the_page_has_the_programs_tables() -> None:
    assert table_after("| code | meaning |\n") == {str(code): words for code, words in EXIT_CODES.items()}
    assert table_after("| command | ends with 1 if |\n") == {
        name: command.found for name, command in COMMANDS.items() if command.found
    }


def commands_of(page: Path) -> list[str]:
    """Lines of shell blocks that call the program."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.split(" > ")[0] for line in lines if line.startswith("semilocal ")]


EVERY = dict(COMMANDS) | {f"{name} {action}": c for name in COMMANDS for action, c in COMMANDS[name].actions.items()}
EXAMPLES = [line for command in EVERY.values() for line in command.examples]
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if commands_of(page)]


def test_pages_have_commands() -> None:
    assert {"README.md", "two-servers.md", "analyst.md", "researcher.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", [*PAGES, None], ids=lambda page: page.relative_to(ROOT).as_posix() if page else "help")
def test_every_command_in_the_documentation_and_in_the_help_is_understood(
    page: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options exist and values parse; servers need not be there."""
    pytest.importorskip("httpx2")
    monkeypatch.chdir(tmp_path)
    Path("vault").touch()
    for command in EXAMPLES if page is None else commands_of(page):
        assert command.startswith("semilocal ")
        for name in re.findall(r"(?<=[ @])[\w-]+\.\w+", command):
            Path(name).touch()
        try:
            read_words(shlex.split(command, comments=True)[1:])
        except InvalidInput as error:
            raise AssertionError(f"{command}: {error}") from None


def test_every_command_has_examples_first_and_few_options(capsys: pytest.CaptureFixture[str]) -> None:
    """What a newcomer sees: examples, at most twelve options, then the rest."""
    pytest.importorskip("httpx2")
    for name, command in EVERY.items():
        assert command.examples or command.actions, name
        read_words([*name.split(), "--help"])()
        shown = capsys.readouterr().out
        assert all(line in shown.partition("Usage:")[0] for line in command.examples)
        first = shown.partition("Advanced:")[0].partition("Two servers")[0]
        assert len(re.findall(r"^  --(?!help)", first, flags=re.MULTILINE)) <= 12, name
    assert len(COMMANDS["counts"].examples) == 2


@pytest.mark.parametrize("job", ["partition", "counts", "mean", "points"])
def test_required_options_are_shown_as_required(capsys: pytest.CaptureFixture[str], job: str) -> None:
    read_words([job, "--help"])()
    lines = capsys.readouterr().out.splitlines()
    required = {line.split()[0] for line in lines if line.endswith("[required]")}
    assert required == {"FILE:", "--bounds", "--trust", "--epsilon"}
