"""``semilocal backup``: a checked copy of a server's database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ...errors import InvalidInput
from ...service.stores.base import check_url
from ...words import number_of
from ..catalogue import DONE
from ..options import file, option
from .serve import DEFAULT_DB

__all__ = ["run"]


def run(
    *,
    out: Annotated[Path, file("the copy; an earlier one is replaced in one step")],
    db: Annotated[str, option("sqlite:///file")] = DEFAULT_DB,
) -> int:
    """Copy a SQLite database, also while it is served, for its owner alone (0600), and check the copy."""
    kind, address = check_url(db)
    if kind == "postgres":
        raise InvalidInput(
            "PostgreSQL is backed up by its own programs: continuous archiving or a standby while campaigns run, "
            "pg_dump (umask 077, then pg_restore --list) between them; see docs/howto/deploy.md"
        )
    from ...service.stores.sqlite import back_up

    rows = back_up(address, out)
    found = ", ".join(number_of(rows[table], word) for table, word in _WORDS.items() if rows[table])
    print(f"wrote {out}, checked: {found or 'no campaign yet'}; the signing keys are not in it")
    return DONE


_WORDS = {
    "campaigns": "campaign", "pairs": "pair", "participants": "participant", "reports": "report",
    "pair_uploads": "upload",
}  # fmt: skip
