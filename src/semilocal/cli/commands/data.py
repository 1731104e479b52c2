"""``semilocal data list | fetch NAME | describe NAME``: datasets of the experiments."""

from __future__ import annotations

import json as formats
import os
from typing import Annotated

from cyclopts import App

from ...lab.experiments.datasets import load
from ...lab.experiments.datasets.catalogue import CATALOGUE
from ..exits import DONE
from ..options import option

__all__ = ["app"]

app = App(name="data", help_format="markdown")
Name = Annotated[str, option(help=", ".join(CATALOGUE))]
Folder = Annotated[str | None, option(metavar="FOLDER", help=f"data folder (or set {load.VARIABLE})")]


@app.command(name="list")
def run_list(*, json: bool = False, data: Folder = None) -> int:
    """All datasets and what is on disk.

    Parameters
    ----------
    json
        for machines
    """
    print(_listed(data, machine=json))
    return DONE


@app.command
def fetch(name: Name, /, *, data: Folder = None) -> int:
    """Get a dataset from its public home, checked and resumable."""
    print(load.fetch(name, data))
    return DONE


@app.command
def describe(name: Name, /, *, data: Folder = None) -> int:
    """Origin, terms, checksum, domain and state of a dataset."""
    print(load.describe(name, data))
    return DONE


def _listed(folder: str | None, *, machine: bool) -> str:
    found = load.status(folder)
    if machine:
        rows = [
            {"name": row.name, "path": str(row.path) if row.path else None, "bytes": row.bytes, "state": row.state}
            for row in found
        ]
        return formats.dumps(rows, indent=1)
    width = max(map(len, CATALOGUE))
    lines = [f"{row.name:<{width}}  {row.state:<32}  {CATALOGUE[row.name].title}" for row in found]
    named = folder or os.environ.get(load.VARIABLE)
    lines.append(f"data folder: {named or f'none (--data FOLDER or {load.VARIABLE})'}")
    return "\n".join(lines)
