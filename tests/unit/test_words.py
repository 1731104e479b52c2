"""One of something has no s, wherever a number is printed with its noun."""

from __future__ import annotations

import re

from semilocal.words import number_of
from tests.helpers.sources import MODULES

# "{…} regions" in a line that is printed. Limits, which are more than one, and refusals that name a number beside
# another ("3 of 10 points") are not among them.
PRINTED = re.compile(r"\{(?:len|sum)\([^{}]*\)(?::,)?\} (?:regions|participants|reports|final cells|queries|devices)\b")


def test_one_is_told_from_many() -> None:
    assert [number_of(n, "region") for n in (0, 1, 2, 3000)] == ["0 regions", "1 region", "2 regions", "3,000 regions"]
    assert [number_of(n, "query", "queries") for n in (1, 2)] == ["1 query", "2 queries"]


def test_commands_print_numbers_with_their_nouns() -> None:
    assert PRINTED.search('f"{len(partition):,} regions"')
    commands = [name for name in MODULES if name.startswith("cli.commands")]
    assert len(commands) > 15
    assert {name: found for name in commands if (found := PRINTED.findall(MODULES[name].read_text()))} == {}
