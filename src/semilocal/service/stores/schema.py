"""The tables of a store: numbered scripts of SQL, and which versions of them this program knows.

Knows SQL. Knows no HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import resources
from string import Template
from typing import Any

from ...errors import InvalidInput, SchemaMismatch

__all__ = ["OLDEST", "check_version", "migrations"]

OLDEST = 6  # version of the first script


def migrations(words: Mapping[str, str]) -> list[tuple[int, str]]:
    """Numbered SQL scripts, ascending without gaps, in the words of a dialect."""
    files: Iterable[Any] = (resources.files(__package__) / "migrations").iterdir()
    found = sorted(
        (int(match[1]), Template(file.read_text("utf-8")).substitute(words))
        for file in files
        if (match := re.fullmatch(r"(\d{4})_\w+\.sql", file.name))
    )
    if [number for number, _ in found] != list(range(OLDEST, OLDEST + len(found))):
        raise InvalidInput(f"migrations must be numbered {OLDEST}, …; got {[number for number, _ in found]}")
    return found


def check_version(version: int, *, newest: int, where: str) -> None:
    """Refuse a database that is newer than this program, or holds campaigns of another protocol; 0 is an empty one."""
    if 0 < version < OLDEST:
        raise SchemaMismatch(
            f"the database {where} has schema version {version}, of a protocol that this program does not play; finish "
            "it with the program that made it, and use a new database"
        )
    if version > newest:
        raise SchemaMismatch(
            f"the database {where} has schema version {version}, but this program knows versions up to {newest}; "
            "update the program, or use another database"
        )
