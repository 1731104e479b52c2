"""``semilocal data list | describe NAME``: datasets of the experiments."""

from __future__ import annotations

import os
from typing import Annotated

from ...lab.experiments import data as datasets
from ...lab.experiments.catalogue import CATALOGUE
from ..catalogue import DONE
from ..options import option

__all__ = ["run_describe", "run_list"]

Name = Annotated[str, option(", ".join(CATALOGUE))]
Folder = Annotated[str | None, option(f"data folder (or set {datasets.VARIABLE})", "FOLDER")]


def run_list(*, data: Folder = None) -> int:
    """All datasets and what is on disk."""
    width = max(map(len, CATALOGUE))
    for row in datasets.status(data):
        print(f"{row.name:<{width}}  {row.state:<32}  {CATALOGUE[row.name].title}")
    named = data or os.environ.get(datasets.VARIABLE)
    print(f"data folder: {named or f'none (--data FOLDER or {datasets.VARIABLE})'}")
    return DONE


def run_describe(name: Name, /, *, data: Folder = None) -> int:
    """Origin, terms, checksum, domain and state of a dataset."""
    print(datasets.describe(name, data))
    return DONE
