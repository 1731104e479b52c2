"""docs/reference/commands.md says what the program does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from semilocal.cli.exits import EXIT_CODES, FOUND_MEANS
from semilocal.cli.main import COMMANDS, read_words
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
    assert table_after("| command | what it does |\n") == dict(COMMANDS)
    assert table_after("| code | meaning |\n") == {str(code): words for code, words in EXIT_CODES.items()}
    assert table_after("| command | ends with 1 if |\n") == dict(FOUND_MEANS)


def commands_of(page: Path) -> list[str]:
    """Lines of shell blocks that call the program."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.split(" > ")[0] for line in lines if line.startswith("semilocal ")]


PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if commands_of(page)]


def test_pages_have_commands() -> None:
    assert {"README.md", "two-servers.md", "analyst.md", "operator.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_in_the_documentation_is_understood(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options exist and values parse; servers need not be there."""
    pytest.importorskip("httpx2")
    monkeypatch.chdir(tmp_path)
    for command in commands_of(page):
        for name in re.findall(r"(?<=[ @])[\w-]+\.\w+", command):
            Path(name).touch()
        try:
            read_words(shlex.split(command, comments=True)[1:])
        except InvalidInput as error:
            raise AssertionError(f"{command}: {error}") from None
