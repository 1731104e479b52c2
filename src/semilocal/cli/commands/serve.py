"""``semilocal serve``: run the collection server."""

from __future__ import annotations

import argparse

from ..arguments import whole
from ..exits import DONE

__all__ = ["DEFAULT_DB", "add_arguments", "run"]

DEFAULT_DB = "sqlite:///semilocal.db"
PAGE = "semilocal.page.routes:OPERATIONS"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("--db", default=DEFAULT_DB, help="sqlite:///file or postgresql://… (%(default)s)")
    parser.add_argument("--workers", type=whole(1, 64), default=1, help="processes; more than one needs PostgreSQL")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (%(default)s)")
    parser.add_argument("--port", type=whole(0, 65535), default=8000, help="0 takes a free one (%(default)s)")
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="info", help="(%(default)s)"
    )
    parser.add_argument("--access-log", action="store_true", help="log every request, without its address")
    parser.add_argument(
        "--key-file", metavar="FILE", help="the signing keys, one per line; beside the database if left out"
    )
    parser.add_argument("--new-key", action="store_true", help="make a new signing key for campaigns from now on")


def run(args: argparse.Namespace) -> int:
    """Serve until stopped."""
    from ...service.server import serve

    serve(
        args.db, host=args.host, port=args.port, workers=args.workers, log_level=args.log_level,
        access_log=args.access_log, keys_in=args.key_file, new_key=args.new_key, more=PAGE,
    )  # fmt: skip
    return DONE
