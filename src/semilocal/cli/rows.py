"""The rows of a file that stand for people, and the public domain that they are in.

:func:`open_rows` reads the first line alone, so that everything that does not depend on the rows is refused before they
are read. They are read into memory, or streamed by an engine where they are too many. Knows options, files and codes of
people. Computes nothing.
"""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from glob import has_magic
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Integers
from ..engines import open_source
from ..engines.arrow import ArrowSource
from ..engines.files import PARQUET, list_files
from ..errors import InvalidInput
from ..geometry.box import Box
from ..hierarchy import AnyTree
from ..io.points import Table, choose_columns, fit, read_located, read_points
from ..io.trees import label_tree
from ..protocol.column import Column, stored_column
from ..simulation.people import (
    COMMAND,
    check_rows_are_people,
    count_filled,
    draw_key,
    person_columns,
    refuse_content_as_person,
    refuse_person_columns,
)
from .arguments import named_domain
from .job_options import JobOptions, People, PositionOptions

__all__ = ["FileRows", "OwnValue", "Rows", "open_rows"]

_STREAMED = (*PARQUET, ".csv", ".csv.gz")
_IN_MEMORY = 1 << 29  # bytes of a file that is read into memory if nobody says otherwise


class OwnValue(NamedTuple):
    """A column of values that belong to people, and its public range."""

    name: str
    low: float
    high: float


class Rows(NamedTuple):
    """What a file holds: how many rows, those that may stand for people, their own values, and whose row each is."""

    total: int
    data: Any
    column: Column | None = None
    users: Integers | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class FileRows:
    """A file whose first line was read.

    Attributes
    ----------
    file : Path
    options : JobOptions
    names, others : sequence of str
        The columns of positions, and the rest.
    box : Box
    tree : hierarchy or None
        Where the domain is more than a box.
    leaves : mapping of str to float or None
        The numbers that stand for positions, where these are labels.
    value : OwnValue or None
        As the file spells it.
    streamed : bool
        Whether an engine reads the rows.
    """

    file: Path
    options: JobOptions
    names: Sequence[str]
    others: Sequence[str]
    box: Box
    tree: AnyTree | None
    leaves: Mapping[str, float] | None
    value: OwnValue | None
    streamed: bool

    def read(self, draws: np.random.Generator, *, pooled: bool, codes_of: AnyTree | None = None) -> Rows:
        """The rows; ``pooled`` says that somebody is trusted, ``draws`` chooses rows of people in an engine.

        With ``codes_of`` the deepest cells in this tree are enough, if nothing needs positions.
        """
        with self.options.output.step(f"reading {self.file.name}"):
            if self.streamed:
                return self._streamed(draws)
            if codes_of is not None and not self._needs_positions():
                located = read_located(self.file, self.names, codes_of)
                if located is not None:
                    return Rows(len(located), located)
            return self._in_memory(pooled)

    def _needs_positions(self) -> bool:
        """Whether rows are chosen, moved, or may be refused by who they belong to."""
        people = self.options.people
        looks = person_columns(self.others) and not people.rows_are_people
        return bool(self.leaves or self.options.data.clip or people.user or looks)

    def _in_memory(self, pooled: bool) -> Rows:
        people, value = self.options.people, self.value
        table = read_points(
            self.file, columns=self.names, values=() if value is None else (value.name,),
            labels=person_labels(people), words=self.leaves,
        )  # fmt: skip
        column = None if value is None else _column(value, table)
        if self.options.data.clip:  # whether anybody was outside is not public
            warnings.warn(f"--clip moves positions outside to the edge of {self.box}", UserWarning, stacklevel=3)
        points = fit(table, self.box, clip=self.options.data.clip)
        return Rows(len(table), points, column, row_owners(people, table, pooled=pooled))

    def _streamed(self, draws: np.random.Generator) -> Rows:
        people, value = self.options.people, self.value
        if people.user is None and not people.rows_are_people:
            content = (*self.names, *(() if value is None else (value.name,)))
            for path in list_files(self.file):  # a later file may say whose row it is where the first does not
                others = [name for name in choose_columns(path, columns=[])[2] if name not in content]
                refuse_person_columns(path, others, COMMAND)
        if people.user is not None:
            warn_of_others(people.user, self.others)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: temporary files hold rows
        source = open_source(
            self.file, self.names, self.box, person=people.user, rows_per_person=people.rows_per_user,
            key=0 if people.user is None else draw_key(draws), values=() if value is None else (value.name,),
            rows_are_people=people.user is None,
        )  # fmt: skip
        assert isinstance(source, ArrowSource)
        if not source.count():
            raise InvalidInput(f"{self.file}: has no rows; there must be at least one position")
        if value is None:
            return Rows(source.rows_in_all, source)
        source.check_value(*value)
        return Rows(source.rows_in_all, source, stored_column(value.name, (value.low, value.high)))


def open_rows(file: Path, bounds: str, options: JobOptions, value: OwnValue | None = None) -> FileRows:
    """Read the names of the columns, and the domain that ``bounds`` names; refuse options that do not fit."""
    data, people = options.data, options.people
    check_people(people)
    tree = label_tree(bounds)
    streamed = _streams(file, data, labels=tree is not None)
    first = list_files(file)[0] if streamed else file
    columns = data.columns.split(",") if data.columns is not None else None if tree is None else [tree.name]
    names, own, others = choose_columns(first, columns=columns, values=() if value is None else (value.name,))
    if people.user is not None:
        refuse_content_as_person(people.user, [*names, *own], COMMAND)
    box, domain = named_domain(bounds, names)
    return FileRows(
        file=file, options=options, names=names, others=[name for name in others if name not in (*names, *own)],
        box=box, tree=domain, leaves=None if tree is None else tree.leaves,
        value=None if value is None else value._replace(name=own[0]), streamed=streamed,
    )  # fmt: skip


def _streams(file: Path, data: PositionOptions, *, labels: bool) -> bool:
    """Whether rows are streamed, which "auto" does for large files and folders."""
    several = file.is_dir() or (not file.exists() and has_magic(str(file)))
    if (data.clip or labels) and (several or data.engine == "arrow"):
        what = "--clip needs all positions in memory; leave it out, or" if data.clip else "labels are read in memory;"
        raise InvalidInput(f"{what} take --engine memory and one file")
    if data.engine != "auto" or data.clip or labels or several:
        return data.engine == "arrow" or (several and data.engine == "auto")
    streamed = file.exists() and str(file).lower().endswith(_STREAMED) and find_spec("pyarrow") is not None
    return streamed and file.stat().st_size > _IN_MEMORY


def _column(value: OwnValue, table: Table) -> Column:
    """The column of a table; refuses a value outside the public range, with its place in the file."""
    numbers = table.values[value.name]
    outside = (numbers < value.low) | (numbers > value.high)
    if outside.any():
        raise InvalidInput(
            f"{table.path}, {table.place(int(np.argmax(outside)))}: --value {value.name} is outside --range "
            f"{value.low:g},{value.high:g}; remove such rows, cut their values, or state a wider range (the noise "
            "grows with it)"
        )
    return Column(value.name, numbers, value.low, value.high)


# -- whose row it is ---------------------------------------------------------------------------------------------------


def check_people(people: People) -> None:
    """Refuse options that do not go together."""
    if people.user is not None and people.rows_are_people:
        raise InvalidInput("give --user or --rows-are-people, not both")
    if people.user is None and people.rows_per_user != 1:
        raise InvalidInput("--rows-per-user needs --user COLUMN, which says whose row it is")


def person_labels(people: People) -> Callable[[Sequence[str]], Sequence[str]]:
    """Which columns of a file to read to tell people apart."""
    check_people(people)
    user = people.user
    if people.rows_are_people:
        return lambda columns: ()
    if user is None:
        return person_columns

    def named(columns: Sequence[str]) -> Sequence[str]:
        warn_of_others(user, columns)
        return (user,)

    return named


def warn_of_others(user: str, columns: Sequence[str]) -> None:
    """Warn if --user names a column that does not look like a person, and another one does."""
    others = [name for name in person_columns(columns) if name.lower() != user.lower()]
    there = any(name.lower() == user.lower() for name in columns)  # else it is refused as soon as it is read
    if others and there and not person_columns([user]):
        warnings.warn(
            f"--user {user!r}: column {others[0]!r} looks like a person, too; a person with several {user!r} loses "
            "epsilon for each of them and fills a crowd alone",
            UserWarning,
            stacklevel=2,
        )


def row_owners(people: People, table: Table, *, pooled: bool) -> Integers | None:
    """Whose row each is, None if every row is another person; refuses a file that holds some people several times.

    ``pooled`` says that the participants trust somebody.
    """
    content = [*table.names, *table.values]  # numbers that are asked for, such as the cars of a household
    if people.user is None:
        labels = {name: count_filled(codes) for name, codes in table.labels.items() if name not in content}
        check_rows_are_people(table.path, labels, COMMAND._replace(pooled=pooled))
        return None
    refuse_content_as_person(people.user, content, COMMAND)
    (codes,) = table.labels.values()
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise InvalidInput(
            f"{table.path}, {table.place(row)}: --user column {people.user!r} is empty; remove such rows"
        )
    return codes
