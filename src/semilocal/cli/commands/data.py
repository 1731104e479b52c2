"""The command ``semilocal data list | fetch NAME | describe NAME``.

Knows argparse and words on stdout. Must not know formats or homes: `data` does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from ...errors import SemilocalError
from ...experiments.datasets import load as data
from ...experiments.datasets.catalogue import CATALOGUE

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the ``data`` command to the subparsers of a program; call `run` with the parsed arguments."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "data", help="datasets of the experiments: where they come from, their terms, what is on disk"
    )
    commands = parser.add_subparsers(dest="data_command", required=True, metavar="list | fetch | describe")
    listing = commands.add_parser("list", help="all datasets and what is on disk")
    listing.add_argument("--json", action="store_true", help="for machines")
    fetching = commands.add_parser("fetch", help="get a dataset from its public home, checked and resumable")
    describing = commands.add_parser("describe", help="origin, terms, checksum, domain and state of a dataset")
    for command in (fetching, describing):
        command.add_argument("name", metavar="NAME", help=", ".join(CATALOGUE))
    for command in (listing, fetching, describing):
        command.add_argument("--data", metavar="FOLDER", default=None, help=f"data folder (or set {data.VARIABLE})")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Do what the arguments say; return 0, or 1 after one line on stderr."""
    try:
        if args.data_command == "list":
            print(_listed(args.data, machine=args.json))
        elif args.data_command == "fetch":
            print(data.fetch(args.name, args.data))
        else:
            print(data.describe(args.name, args.data))
    except SemilocalError as error:
        print(f"semilocal data: {error}", file=sys.stderr)
        return 1
    return 0


def _listed(folder: str | None, *, machine: bool) -> str:
    found = data.status(folder)
    if machine:
        rows = [
            {
                "name": one.name,
                "path": str(one.path) if one.path else None,
                "bytes": one.bytes,
                "state": one.state,
            }
            for one in found
        ]
        return json.dumps(rows, indent=1)
    width = max(map(len, CATALOGUE))
    lines = [f"{one.name:<{width}}  {one.state:<32}  {CATALOGUE[one.name].title}" for one in found]
    named = folder or os.environ.get(data.VARIABLE)
    lines.append(f"data folder: {named or f'none (--data FOLDER or {data.VARIABLE})'}")
    return "\n".join(lines)
