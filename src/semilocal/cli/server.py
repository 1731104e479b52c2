"""How the administrator's commands reach a server: ``--url`` with a token, or ``--db``.

Knows these options and the environment variable of the token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from ..errors import InvalidInput
from .arguments import not_empty
from .hidden import HIDDEN_HELP, read_hidden
from .options import Address, group, option

if TYPE_CHECKING:
    from .admin_client import AdminClient

__all__ = ["ADMIN_TOKEN", "CAMPAIGN_HELP", "DEFAULT_URL", "Campaign", "Office", "connect"]

DEFAULT_URL = "http://127.0.0.1:8000"
ADMIN_TOKEN = "SEMILOCAL_ADMIN_TOKEN"
CAMPAIGN_HELP = "the task's id, the beginning of one, or the campaign's name"
Campaign = Annotated[str, option(not_empty, help=CAMPAIGN_HELP)]


@group("Server")
@dataclass(frozen=True, kw_only=True)
class Office:
    """Where the server is.

    Attributes
    ----------
    db
        work on this database directly instead of asking a server
    """

    url: Annotated[Address | None, option(help=f"the server ({DEFAULT_URL})")] = None
    admin_token: Annotated[
        str | None, option(metavar="TOKEN", help=f"instead of the environment variable {ADMIN_TOKEN}; {HIDDEN_HELP}")
    ] = None
    db: Annotated[str | None, option(not_empty)] = None


def connect(office: Office, *, new: bool = False) -> AdminClient:
    """The client that the options ask for, to be used in a ``with`` statement; a database is made only if ``new``."""
    from ..service.stores.base import check_database
    from .admin_client import AdminClient

    if office.db and office.url:
        raise InvalidInput("give --db or --url, not both")
    if office.db:
        check_database(office.db, new=new)
        return AdminClient(database=office.db)
    token = read_hidden(office.admin_token, option="--admin-token", variable=ADMIN_TOKEN)
    if not (token.isascii() and token.isprintable()):
        raise InvalidInput(f"--admin-token or {ADMIN_TOKEN}: is no token of a server: it has letters that none has")
    return AdminClient(office.url or DEFAULT_URL, token)
