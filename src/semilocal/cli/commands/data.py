"""``semilocal data list | fetch NAME | describe NAME``: datasets of the experiments."""

from __future__ import annotations

import argparse
import json
import os

from ...experiments.datasets import load as data
from ...experiments.datasets.catalogue import CATALOGUE
from ..exits import DONE

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The actions and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="list | fetch | describe")
    listing = actions.add_parser("list", help="all datasets and what is on disk")
    listing.add_argument("--json", action="store_true", help="for machines")
    fetching = actions.add_parser("fetch", help="get a dataset from its public home, checked and resumable")
    describing = actions.add_parser("describe", help="origin, terms, checksum, domain and state of a dataset")
    for action in (fetching, describing):
        action.add_argument("name", metavar="NAME", help=", ".join(CATALOGUE))
    for action in (listing, fetching, describing):
        action.add_argument("--data", metavar="FOLDER", default=None, help=f"data folder (or set {data.VARIABLE})")


def run(args: argparse.Namespace) -> int:
    """List, fetch or describe."""
    if args.action == "list":
        print(_listed(args.data, machine=args.json))
    elif args.action == "fetch":
        print(data.fetch(args.name, args.data))
    else:
        print(data.describe(args.name, args.data))
    return DONE


def _listed(folder: str | None, *, machine: bool) -> str:
    found = data.status(folder)
    if machine:
        rows = [
            {"name": row.name, "path": str(row.path) if row.path else None, "bytes": row.bytes, "state": row.state}
            for row in found
        ]
        return json.dumps(rows, indent=1)
    width = max(map(len, CATALOGUE))
    lines = [f"{row.name:<{width}}  {row.state:<32}  {CATALOGUE[row.name].title}" for row in found]
    named = folder or os.environ.get(data.VARIABLE)
    lines.append(f"data folder: {named or f'none (--data FOLDER or {data.VARIABLE})'}")
    return "\n".join(lines)
