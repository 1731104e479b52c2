"""docs/commands.md says what the program does."""

from __future__ import annotations

import re
from pathlib import Path

from semilocal.cli.exits import EXIT_CODES, FOUND_MEANS
from semilocal.cli.main import COMMANDS

PAGE = (Path(__file__).parents[3] / "docs" / "commands.md").read_text(encoding="utf-8")


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
