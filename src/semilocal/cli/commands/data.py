"""``semilocal data list | fetch NAME | describe NAME``: datasets of the experiments."""

from __future__ import annotations

import json as formats
import os
from typing import Annotated

from ...lab.experiments import data as datasets
from ...lab.experiments.catalogue import CATALOGUE
from ..catalogue import DONE
from ..options import option

__all__ = ["run_describe", "run_fetch", "run_list"]

Name = Annotated[str, option(", ".join(CATALOGUE))]
Folder = Annotated[str | None, option(f"data folder (or set {datasets.VARIABLE})", "FOLDER")]


def run_list(*, json: Annotated[bool, option("for machines")] = False, data: Folder = None) -> int:
    """All datasets and what is on disk."""
    found = datasets.status(data)
    if json:
        rows = [
            {"name": row.name, "path": str(row.path) if row.path else None, "bytes": row.bytes, "state": row.state}
            for row in found
        ]
        print(formats.dumps(rows, indent=1))
        return DONE
    width = max(map(len, CATALOGUE))
    for row in found:
        print(f"{row.name:<{width}}  {row.state:<32}  {CATALOGUE[row.name].title}")
    named = data or os.environ.get(datasets.VARIABLE)
    print(f"data folder: {named or f'none (--data FOLDER or {datasets.VARIABLE})'}")
    return DONE


def run_fetch(name: Name, /, *, data: Folder = None) -> int:
    """Get a dataset from its public home, checked."""
    print(datasets.fetch(name, data))
    return DONE


def run_describe(name: Name, /, *, data: Folder = None) -> int:
    """Origin, terms, checksum, domain and state of a dataset."""
    print(datasets.describe(name, data))
    return DONE
