"""How the administrator's commands reach a server: ``--url`` with a token, or ``--db``.

Knows these options and the environment variable of the token.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import InvalidInput
from .arguments import server_url
from .hidden import HIDDEN_HELP, read_hidden

if TYPE_CHECKING:
    from .admin_client import AdminClient

__all__ = ["ADMIN_TOKEN", "CAMPAIGN_HELP", "DEFAULT_URL", "add_arguments", "connect"]

DEFAULT_URL = "http://127.0.0.1:8000"
ADMIN_TOKEN = "SEMILOCAL_ADMIN_TOKEN"
CAMPAIGN_HELP = "the task's id, the beginning of one, or the campaign's name"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say where the server is."""
    parser.add_argument("--url", type=server_url, help=f"the server ({DEFAULT_URL})")
    parser.add_argument(
        "--admin-token", metavar="TOKEN", help=f"instead of the environment variable {ADMIN_TOKEN}; {HIDDEN_HELP}"
    )
    parser.add_argument("--db", help="work on this database directly instead of asking a server")


def connect(args: argparse.Namespace) -> AdminClient:
    """The client that the arguments ask for, to be used in a ``with`` statement."""
    from .admin_client import AdminClient

    if args.db and args.url:
        raise InvalidInput("give --db or --url, not both")
    if args.db:
        return AdminClient(database=args.db)
    token = read_hidden(args.admin_token, option="--admin-token", variable=ADMIN_TOKEN)
    return AdminClient(args.url or DEFAULT_URL, token)
