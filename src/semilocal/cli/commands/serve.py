"""The server's commands: ``serve``, ``campaign``, ``tokens``, ``results``.

``add_parsers`` adds them to a parser's sub-commands; each sets ``run``, a function of the parsed arguments that returns
the exit code. Knows arguments and printing. Knows no database and no HTTP.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from ...errors import InvalidInput, SemilocalError
from ...geometry.box import Box
from ...protocol.task import Task

__all__ = ["add_parsers", "main"]

DEFAULT_DB = "sqlite:///semilocal.db"
CAMPAIGN_TRIMS = 8  # fewer than Task.build's: owners of devices look at the worst case
DEFAULT_URL = "http://127.0.0.1:8000"


def add_parsers(subparsers: Any) -> None:
    """Add the server's commands to what ``ArgumentParser.add_subparsers`` returned."""
    serve = subparsers.add_parser("serve", help="run the collection server")
    serve.add_argument("--db", default=DEFAULT_DB, help="sqlite:///file or postgresql://… (default: %(default)s)")
    serve.add_argument("--workers", type=int, default=1, help="processes; more than one needs PostgreSQL")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: %(default)s)")
    serve.add_argument("--log-level", default="info", help="debug, info (default), warning or error")
    serve.add_argument("--access-log", action="store_true", help="log every request, without its address")
    serve.set_defaults(run=run_serve)

    campaign = subparsers.add_parser("campaign", help="create, list, show, start or close campaigns")
    actions = campaign.add_subparsers(dest="action", required=True)
    create = actions.add_parser("create", help="create a campaign")
    _add_create(create)
    create.set_defaults(run=run_create)
    listing = actions.add_parser("list", help="all campaigns")
    listing.set_defaults(run=run_list)
    for name, run, text in (
        ("show", run_show, "where a campaign stands, and its promise"),
        ("start", run_start, "end enrolment and open round 1"),
        ("close", run_close, "cancel a running campaign"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("campaign", help="task id, the beginning of one, or name")
        action.set_defaults(run=run)
        _add_office(action)
    _add_office(create)
    _add_office(listing)

    tokens = subparsers.add_parser("tokens", help="make one-time enrolment tokens")
    making = tokens.add_subparsers(dest="action", required=True).add_parser(
        "new", help="print new tokens, one per line"
    )
    making.add_argument("--count", type=int, required=True)
    making.add_argument(
        "--campaign", default="", help="task id, the beginning of one, or name; not needed if there is one"
    )
    _add_office(making)
    making.set_defaults(run=run_tokens)

    results = subparsers.add_parser("results", help="write what a finished campaign publishes")
    results.add_argument("campaign", help="task id, the beginning of one, or name")
    results.add_argument("--out", required=True, help="folder for results.json, regions.geojson and statement.txt")
    _add_office(results)
    results.set_defaults(run=run_results)


def _add_office(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", help=f"the server (default: {DEFAULT_URL}); takes SEMILOCAL_ADMIN_TOKEN")
    parser.add_argument("--admin-token", help="instead of the environment variable SEMILOCAL_ADMIN_TOKEN")
    parser.add_argument("--db", help="work on this database directly instead of asking a server")


def _add_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", required=True)
    parser.add_argument("--lower", required=True, help="lower corner of the domain, such as --lower=-123.2,37.2")
    parser.add_argument("--upper", required=True, help="upper corner")
    parser.add_argument("--names", default="", help="names of the axes, such as longitude,latitude")
    parser.add_argument("--epsilon", type=float, required=True, help="loss inside a region, for the partition")
    parser.add_argument("--delta", type=float, required=True, help="chance that a crowd is below k; well below 1/N")
    parser.add_argument("--k", type=int, required=True, help="the smallest crowd")
    parser.add_argument("--rule", choices=["trim", "all", "each"], default="trim")
    parser.add_argument("--accounting", choices=["core", "uniform"], default="core")
    parser.add_argument(
        "--max-trims", type=int, help=f"most TRIM verdicts on a path; {CAMPAIGN_TRIMS} with rule trim, accounting core"
    )
    parser.add_argument("--tau", type=float, default=0.2)
    parser.add_argument("--tree", choices=["binary", "quad"], default="binary")
    parser.add_argument("--max-depth", type=int)
    parser.add_argument(
        "--quorum", type=float, default=1.0, help="share of the expected reports that closes a round early"
    )
    parser.add_argument("--window", type=int, default=3600, help="seconds that a round stays open")
    parser.add_argument(
        "--unsigned", action="store_true", help="do not pin the server's key; checkpoints are not signed"
    )
    parser.add_argument("--enrolment", choices=["tokens", "open"], default="tokens")
    parser.add_argument("--capacity", type=int, help="round 1 opens when so many are enrolled")
    parser.add_argument("--enrolment-seconds", type=int, help="round 1 opens after this time at the latest")
    parser.add_argument(
        "--release", action="append", default=[], metavar="KIND[:FUNCTION:EPSILON]",
        help="mean:coordinate(0):1.0, values:squared_norm(0,0):2.0, counts, points; may be repeated",
    )  # fmt: skip


# -- commands ----------------------------------------------------------------------------------------------------


def run_serve(arguments: argparse.Namespace) -> int:
    """``semilocal serve``."""
    from ...service.server import serve

    serve(
        arguments.db, host=arguments.host, port=arguments.port, workers=arguments.workers,
        log_level=arguments.log_level, access_log=arguments.access_log,
    )  # fmt: skip
    return 0


def run_create(arguments: argparse.Namespace) -> int:
    """``semilocal campaign create``."""
    from ...service.campaign import CampaignForm

    names = tuple(name for name in arguments.names.split(",") if name)
    box = Box(_numbers(arguments.lower, "--lower"), _numbers(arguments.upper, "--upper"), names)
    trims = arguments.max_trims
    if trims is None and arguments.rule == "trim" and arguments.accounting == "core":
        trims = CAMPAIGN_TRIMS
    with _office(arguments) as office:
        task = Task.build(
            box, epsilon=arguments.epsilon, delta=arguments.delta, k=arguments.k, rule=arguments.rule,
            accounting=arguments.accounting, max_trims=trims, tau=arguments.tau, tree=arguments.tree,
            max_depth=arguments.max_depth, quorum=arguments.quorum, window=arguments.window,
            server_key=b"" if arguments.unsigned else office.key(),
        )  # fmt: skip
        form = CampaignForm(
            arguments.name, task, tuple(parse_release(text) for text in arguments.release), arguments.enrolment,
            arguments.capacity, arguments.enrolment_seconds,
        )  # fmt: skip
        campaign = form.build()
        identity = office.create(form)
    print(campaign.statement())
    print(f"task {identity}")
    print(f"devices join at {(arguments.url or DEFAULT_URL).rstrip('/')}/tasks/{identity}")
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    """``semilocal campaign list``."""
    with _office(arguments) as office:
        for row in office.list():
            print(f"{row['task']}  {row['phase']:<10}  {row['enrolled']:>8} enrolled  {row['name']}")
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """``semilocal campaign show``."""
    with _office(arguments) as office:
        task = _find(office, arguments.campaign)
        print(json.dumps(office.show(task), indent=2))
        print(office.statement(task))
    return 0


def run_start(arguments: argparse.Namespace) -> int:
    """``semilocal campaign start``."""
    with _office(arguments) as office:
        task = _find(office, arguments.campaign)
        office.start(task)
        print(f"task {task} is {office.show(task)['phase']}")
    return 0


def run_close(arguments: argparse.Namespace) -> int:
    """``semilocal campaign close``."""
    with _office(arguments) as office:
        task = _find(office, arguments.campaign)
        office.close(task)
        print(f"task {task} is {office.show(task)['phase']}")
    return 0


def run_tokens(arguments: argparse.Namespace) -> int:
    """``semilocal tokens new``."""
    with _office(arguments) as office:
        for token in office.tokens(_find(office, arguments.campaign), arguments.count):
            print(token)
    return 0


def run_results(arguments: argparse.Namespace) -> int:
    """``semilocal results``."""
    with _office(arguments) as office:
        task = _find(office, arguments.campaign)
        document, drawn = office.results(task), office.geojson(task)
    folder = Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "results.json", folder / "statement.txt"]
    written[0].write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    written[1].write_text(document["statement"] + "\n", "utf-8")
    if drawn is not None:
        written.append(folder / "regions.geojson")
        written[-1].write_text(json.dumps(drawn) + "\n", "utf-8")
    crowds = [region["crowd"] for region in document["regions"] if region["crowd"] is not None]
    print(f"{len(document['regions'])} regions with {sum(crowds)} participants (public by design)")
    for release in document["releases"]:
        if release["kind"] == "mean" and release["mean"] is not None:
            print(
                f"mean of {release['function']} = {release['mean']:.6g} ± {release['stderr']:.2g} "
                f"(one standard error at most; epsilon = {release['epsilon']:g} for {release['adjacency']}, delta 0)"
            )
    print("wrote " + ", ".join(str(path) for path in written))
    return 0


# -- parts -------------------------------------------------------------------------------------------------------


def parse_release(text: str) -> Any:
    """A release as the command line writes it.

    Examples
    --------
    >>> parse_release("mean:coordinate(1):0.5")
    ReleaseForm(kind='mean', function='coordinate', parameters=(1.0,), epsilon=0.5)
    """
    from ...service.campaign import ReleaseForm

    if text in ("counts", "points"):
        return ReleaseForm("counts" if text == "counts" else "points")
    match = re.fullmatch(r"(mean|values):(\w+)(?:\(([^()]*)\))?:([0-9.eE+-]+)", text)
    if match is None:
        raise InvalidInput(
            f"--release must be counts, points, mean:FUNCTION:EPSILON or values:FUNCTION:EPSILON, such as "
            f"mean:coordinate(0):1.0; got {text!r}"
        )
    parameters = _numbers(match[3], "parameters") if match[3] else ()
    return ReleaseForm(
        "mean" if match[1] == "mean" else "values", match[2], parameters, _numbers(match[4], "epsilon")[0]
    )


def _numbers(text: str, name: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"{name} must be numbers with commas between them; got {text!r}") from None


def _office(arguments: argparse.Namespace) -> Any:
    from ..admin_client import DatabaseOffice, HttpOffice

    if arguments.db and arguments.url:
        raise InvalidInput("give --db or --url, not both")
    if arguments.db:
        return DatabaseOffice(arguments.db)
    token = arguments.admin_token or os.environ.get("SEMILOCAL_ADMIN_TOKEN", "")
    return HttpOffice(arguments.url or DEFAULT_URL, token)


def _find(office: Any, name: str) -> str:
    rows = office.list()
    found = [row["task"] for row in rows if row["task"].startswith(name) or row["name"] == name]
    exact = [row["task"] for row in rows if row["task"] == name]
    if len(exact or found) == 1:
        return str((exact or found)[0])
    known = ", ".join(f"{row['task'][:12]} ({row['name']})" for row in rows) or "none"
    raise InvalidInput(f"{len(found)} campaigns match {name!r}; there are: {known}")


def main(argv: list[str] | None = None) -> int:
    """The server's commands alone: ``python -m semilocal.cli.commands.serve``."""
    parser = argparse.ArgumentParser(prog="semilocal")
    add_parsers(parser.add_subparsers(dest="command", required=True))
    arguments = parser.parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        return code
    except SemilocalError as error:
        print(f"semilocal: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
