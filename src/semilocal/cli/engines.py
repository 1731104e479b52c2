"""Which engine reads the positions of a job, and the rows it opens.

Knows options and files. Computes nothing itself.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ..engines import Engine, choose_engine, open_source
from ..engines.arrow import list_files
from ..engines.source import Source
from ..errors import InvalidInput
from ..geometry.box import Box
from ..io.people import person_columns
from ..io.points import choose_columns
from .arguments import parse_box
from .job_options import JobOptions

__all__ = ["engine_of", "open_rows"]

_STREAMED = (".parquet", ".pq", ".csv", ".csv.gz")


def engine_of(file: Path, options: JobOptions, transcript: Path | None) -> Engine:
    """The engine that was asked for; "auto" takes Arrow for large files and folders, if nothing needs memory.

    Refuses options that an engine cannot have.
    """
    data = options.data
    needs = {
        "--clip": data.clip, "--bounds data": data.bounds == "data",
        "--transcript": transcript is not None and options.promise.trust == "nobody",
    }  # fmt: skip
    if data.engine == "memory" or (data.engine == "auto" and any(needs.values())):
        return "memory"
    if data.engine == "auto":
        streamed = str(file).lower().endswith(_STREAMED) or not file.is_file()
        if not streamed or find_spec("pyarrow") is None or (not file.exists() and "*" not in str(file)):
            return "memory"
        return choose_engine(list_files(file))
    for option, given in needs.items():
        if given:
            raise InvalidInput(f"{option} needs all positions in memory; leave it out, or take --engine memory")
    return data.engine


def open_rows(file: Path, options: JobOptions, engine: Engine, rng: np.random.Generator) -> tuple[Source, Box]:
    """The rows of files in an engine, and their public box."""
    data, people = options.data, options.people
    columns = data.columns.split(",") if data.columns else None
    names, others = choose_columns(list_files(file)[0], x=data.x, y=data.y, columns=columns)
    if data.bounds is None:
        raise InvalidInput("--bounds is missing: name a public box, such as --bounds world")
    if people.user is None and not people.rows_are_people and (found := person_columns(others)):
        raise InvalidInput(
            f"{file}: column {found[0]!r} looks like a person. The promise is made to people: use --user {found[0]!r} "
            "to take one row of each, or say --rows-are-people if every row is another person"
        )
    if people.user is not None and people.rows_are_people:
        raise InvalidInput("give --user or --rows-are-people, not both")
    if people.user is None and people.rows_each != 1:
        raise InvalidInput("--rows-per-user needs --user COLUMN, which says whose row it is")
    box = parse_box(data.bounds, names=tuple(names))
    key = int(rng.integers(0, 2**64, dtype=np.uint64)) if people.user is not None else 0
    source = open_source(
        file, names, box, engine=engine, person=people.user, rows_per_person=people.rows_each, key=key
    )  # fmt: skip
    with options.output.step(f"reading {file.name}"):
        rows = source.count()
    if not rows:
        raise InvalidInput(f"{file}: has no rows; there must be at least one position")
    return source, box
