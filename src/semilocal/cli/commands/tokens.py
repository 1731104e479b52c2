"""``semilocal tokens new``: one-time enrolment tokens."""

from __future__ import annotations

import argparse

from .. import server
from ..arguments import whole
from ..exits import DONE

__all__ = ["add_arguments"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The action and its options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="new")
    new = actions.add_parser("new", help="print new tokens, one per line")
    new.add_argument("--count", type=whole(1, 10**7), required=True, metavar="N", help="how many")
    new.add_argument(
        "--campaign", default="", metavar="CAMPAIGN", help=f"{server.CAMPAIGN_HELP}; not needed if there is only one"
    )
    server.add_arguments(new)
    new.set_defaults(run=run_new)


def run_new(args: argparse.Namespace) -> int:
    """Print new tokens."""
    with server.connect(args) as client:
        for token in client.tokens(client.find(args.campaign), args.count):
            print(token)
    return DONE
