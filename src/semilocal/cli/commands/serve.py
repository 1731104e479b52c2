"""``semilocal serve``: run the collection server."""

from __future__ import annotations

import argparse
import os

from ...errors import InvalidInput
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
    pair = parser.add_argument_group("two servers (experimental: not reviewed independently)")
    pair.add_argument("--role", choices=("leader", "helper"), help="take part in pairs of two servers")
    pair.add_argument("--operator", metavar="NAME", help="who runs this server, as devices see it")
    pair.add_argument("--origin", metavar="URL", help="where devices reach this server; where it listens if left out")
    pair.add_argument("--peer", metavar="URL", help="the helper; for the leader")
    pair.add_argument("--processes", type=whole(1, 256), metavar="N", help="for the evaluation; all cores if left out")


def run(args: argparse.Namespace) -> int:
    """Serve until stopped."""
    from ...service.pair.form import PairSettings
    from ...service.server import serve

    pair = None
    if args.role is not None:
        if not args.operator:
            raise InvalidInput("--role needs --operator NAME: devices are shown who runs each of the two servers")
        cores = args.processes or os.cpu_count() or 1
        pair = PairSettings(args.role, args.operator, (args.origin or "").rstrip("/"), args.peer or "", cores)
    elif args.operator or args.origin or args.peer or args.processes:
        raise InvalidInput("--operator, --origin, --peer and --processes belong to --role leader or --role helper")
    serve(
        args.db, host=args.host, port=args.port, workers=args.workers, log_level=args.log_level,
        access_log=args.access_log, keys_in=args.key_file, new_key=args.new_key, more=PAGE, pair=pair,
    )  # fmt: skip
    return DONE
