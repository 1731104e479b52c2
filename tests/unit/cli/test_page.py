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


@pytest.mark.parametrize("page", ["README.md", "docs/howto/two-servers.md"])
def test_every_command_in_the_documentation_is_understood(page: str) -> None:
    """Options exist and values parse; files and servers need not be there."""
    pytest.importorskip("httpx")
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)).replace("\\\n", " ")
    commands = [line.split(" > ")[0] for line in blocks.splitlines() if line.startswith("semilocal ")]
    assert len(commands) >= 5
    for command in commands:
        try:
            read_words(shlex.split(command, comments=True)[1:])
        except InvalidInput as error:
            raise AssertionError(f"{command}: {error}") from None
