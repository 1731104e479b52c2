"""The command ``semilocal reproduce``: every figure of the paper, its tables, and one page with all of them.

Knows argparse, the registry and the report. Must not know figures.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InvalidInput, SemilocalError
from ...io.progress import duration

if TYPE_CHECKING:
    from ...experiments.harness.summary import Made

__all__ = ["add_parser", "main", "run"]


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the ``reproduce`` command to the subparsers of a program; call `run` with the parsed arguments."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "reproduce",
        help="make the paper's figures from real data, with our line in each",
        description="Makes PNG, SVG and CSV of each figure, and report.html. An interrupted run goes on where it was.",
        epilog="--list names the figures.",
    )
    _add_arguments(parser)
    parser.set_defaults(run=run)
    return parser


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="names or labels of the paper; all if left out")
    parser.add_argument("--runs", type=int, default=60, help="repeats of every trial (60, as in the paper)")
    parser.add_argument("--out", type=Path, default=Path("results"), metavar="FOLDER", help="where files go (results)")
    parser.add_argument("--data", type=Path, default=None, metavar="FOLDER", help="data folder (or set SEMILOCAL_DATA)")
    parser.add_argument("--quick", action="store_true", help="few repeats: every figure in a few minutes")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same CSV to the last digit (1)")
    parser.add_argument("--workers", type=int, default=None, help="processes; all cores if left out")
    parser.add_argument("--list", action="store_true", help="list the figures and stop")


def run(args: argparse.Namespace) -> int:
    """Do what the arguments say; return 0, or 1 after one line on stderr."""
    try:
        return _reproduce(args)
    except SemilocalError as error:
        print(f"semilocal reproduce: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130


def _reproduce(args: argparse.Namespace) -> int:
    # Here and not above: a program that only offers the command need not load the experiments.
    from ...experiments.harness.report import write_report
    from ...experiments.harness.runner import source_version
    from ...experiments.harness.summary import Options
    from ...experiments.registry import EXPERIMENTS, chosen

    if args.list:
        for one in EXPERIMENTS:
            print(f"{one.name:<18} {one.title}" + (f" ({', '.join(one.labels)})" if one.labels else ""))
        return 0
    if args.runs < 1:
        raise InvalidInput(f"--runs must be at least 1; got {args.runs}")
    options = Options(args.runs, args.seed, args.out, args.data, args.quick, args.workers)
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = chosen(args.figures)
    made: list[Made] = []
    begin = time.monotonic()
    for number, one in enumerate(wanted, start=1):
        print(f"[{number} of {len(wanted)}] {one.name}: {one.title}", file=sys.stderr, flush=True)
        made.append(one.make(options))
        if made[-1].text:
            print(made[-1].text, flush=True)
        for figure in made[-1].figures:
            if figure.missing:
                print(f"{figure.name} is left out: {figure.missing}", file=sys.stderr)
    page = write_report(
        options.out,
        [figure for part in made for figure in part.figures],
        version=source_version(),
        claims=[claim for part in made for claim in part.claims],
    )
    print(f"{page} and the figures beside it, in {duration(time.monotonic() - begin)}", flush=True)
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command by itself: ``python -m semilocal.cli.commands.reproduce``."""
    parser = argparse.ArgumentParser(prog="semilocal reproduce")
    _add_arguments(parser)
    return run(parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
