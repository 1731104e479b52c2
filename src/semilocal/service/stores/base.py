"""What the service asks of a database, and what it gets back. One contract, two implementations.

Rules of a store:

1. What a method returned is on disk: a report is acknowledged after its transaction is committed.
2. Reports of a closed round never change, and a round is closed in one transaction, by exactly one worker.
3. Memory of a store does not depend on the number of reports: they are read as a stream.
4. No address, user agent or time of a participant is kept; there is no column for one.

Methods block; callers run them in threads. Knows addresses of databases. Knows no HTTP and no verdicts.
"""

from __future__ import annotations

from typing import Any, Literal

from ...errors import InvalidInput
from .sql import Applied, Enrolment, Incoming, Item, LockedCampaign, Outcome, ReportRow, SQLStore, What

__all__ = [
    "Applied", "Enrolment", "Incoming", "Item", "Locked", "Outcome", "ReportRow", "Store", "What", "check_database",
    "check_url", "open_store",
]  # fmt: skip

Store = SQLStore[Any]  # thread-safe
Locked = LockedCampaign[Any]


def check_url(url: str) -> tuple[Literal["sqlite", "postgres"], str]:
    """Kind and address of a database URL."""
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return "sqlite", url[len("sqlite:///") :]
    if url.startswith(("postgresql://", "postgres://")):
        return "postgres", url
    raise InvalidInput(f"--db must be sqlite:///file or postgresql://user@host/name; got {url!r}")


def check_database(url: str, *, new: bool = False) -> tuple[Literal["sqlite", "postgres"], str]:
    """Kind and address of a database that can be used; a bad SQLite file is refused before anything is touched.

    For the start of a process: the file must not be open in it yet.

    Parameters
    ----------
    url : str
    new : bool
        Whether a database that is not there may be made.
    """
    kind, address = check_url(url)
    if kind == "sqlite":
        from .sqlite import check_file

        check_file(address, new=new)
    return kind, address


def open_store(url: str, *, worker: str = "0", check: bool = True) -> Store:
    """Open a database, create its tables if it is empty, and refuse one of another schema.

    Parameters
    ----------
    url : str
        ``sqlite:///file`` or ``postgresql://…``.
    worker : str
        Name under which this process counts what it received; different for every process on one database.
    check : bool
        False: the tables were checked by who started this process, and the database may be away now.
    """
    kind, address = check_url(url)
    if kind == "sqlite":
        from .sqlite import SQLiteStore

        return SQLiteStore(address, worker=worker, check=check)
    from .postgres import PostgresStore

    return PostgresStore(address, worker=worker, check=check)
