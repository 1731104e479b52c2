"""Whether the positions of a job are streamed, and the rows that are.

Knows options and files. Computes nothing itself.
"""

from __future__ import annotations

import signal
import threading
from glob import has_magic
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..engines import open_source
from ..engines.files import PARQUET, list_files
from ..engines.source import Source
from ..errors import InvalidInput
from ..hierarchy import AnyTree
from ..io.points import choose_columns
from ..io.trees import label_tree
from ..protocol.column import Column, stored_column
from ..simulation.people import draw_key
from ..simulation.person_columns import COMMAND, refuse_content_as_person, refuse_person_columns
from .arguments import named_domain
from .job_options import JobOptions, PositionOptions
from .people import check_people, warn_of_others

__all__ = ["OwnValue", "open_rows", "position_columns", "streams_rows"]

_STREAMED = (*PARQUET, ".csv", ".csv.gz")
_IN_MEMORY = 1 << 29  # bytes of a file that is read into memory if nobody says otherwise


class OwnValue(NamedTuple):
    """A column of values that belong to people, and its public range."""

    name: str
    low: float
    high: float


def streams_rows(file: Path, bounds: str, options: JobOptions) -> bool:
    """Whether rows are streamed, which "auto" does for large files and folders, if nothing needs memory.

    Refuses options that need all positions in memory where they are not.
    """
    data = options.data
    needs = {"--clip": data.clip, "--bounds data": bounds == "data"}
    several = file.is_dir() or (not file.exists() and has_magic(str(file)))
    if data.engine == "memory" or (data.engine == "auto" and any(needs.values()) and not several):
        return False
    for option, used in needs.items():
        if used:
            raise InvalidInput(
                f"{option} needs all positions in memory; leave it out, or take --engine memory and one file"
            )
    if data.engine == "arrow" or several:
        return True
    streamed = file.exists() and str(file).lower().endswith(_STREAMED) and find_spec("pyarrow") is not None
    return streamed and file.stat().st_size > _IN_MEMORY


def position_columns(bounds: str, data: PositionOptions) -> tuple[list[str] | None, dict[str, float] | None]:
    """The columns that --columns names, and the numbers of labels where --bounds has some.

    The labels of a table are in the column called like it if no other is named.
    """
    tree = label_tree(bounds)
    columns = None if data.columns is None else data.columns.split(",")
    if tree is not None and columns is None and data.x is None:
        columns = [tree.name]
    return columns, None if tree is None else tree.leaves


def open_rows(
    file: Path, bounds: str, options: JobOptions, rng: np.random.Generator, value: OwnValue | None = None
) -> tuple[Source, AnyTree | None, Column | None]:
    """The rows of files as a source, the tree that --bounds names if it is not a box, and the column of --value."""
    data, people = options.data, options.people
    columns, leaves = position_columns(bounds, data)
    asked = [] if value is None else [value.name]
    files = list_files(file)
    names, own, there = choose_columns(files[0], x=data.x, y=data.y, columns=columns, values=asked)
    if people.user is None and not people.rows_are_people:
        for path in files:  # a later file may say whose row it is where the first does not
            others = [name for name in choose_columns(path, columns=[])[2] if name not in (*names, *own)]
            refuse_person_columns(path, others, COMMAND)
    check_people(people)
    if people.user is not None:
        refuse_content_as_person(people.user, [*names, *own], COMMAND)
        warn_of_others(people.user, there)
    box, tree = named_domain(bounds, names)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: temporary files hold rows, and must go
    key = draw_key(rng) if people.user is not None else 0
    source = open_source(
        file, names, box, person=people.user, rows_per_person=people.rows_each, key=key, values=own,
        leaves=leaves, rows_are_people=people.user is None,
    )  # fmt: skip
    with options.output.step(f"reading {file.name}"):
        rows = source.count()
        if not rows:
            raise InvalidInput(f"{file}: has no rows; there must be at least one position")
        if value is None:
            return source, tree, None
        source.check_value(own[0], value.low, value.high)
    return source, tree, stored_column(own[0], (value.low, value.high))
