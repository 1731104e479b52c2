"""The rows that stand for people.

Knows options and codes of people.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from ..arrays import Integers
from ..errors import InvalidInput
from ..io.points import Table
from ..simulation.person_columns import (
    COMMAND,
    DEVICES,
    check_rows_are_people,
    count_filled,
    person_columns,
    refuse_content_as_person,
)
from .job_options import People, PeopleWithRows

__all__ = ["check_people", "person_labels", "row_owners", "warn_of_others"]


def check_people(people: People) -> None:
    """Refuse options that do not go together."""
    if people.user is not None and people.rows_are_people:
        raise InvalidInput("give --user or --rows-are-people, not both")
    if people.user is None and people.rows_each != 1:
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
    if others and not person_columns([user]):
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
    if people.user is None:
        content = {*table.names, *table.values}  # numbers that are asked for, such as the cars of a household
        labels = {name: count_filled(codes) for name, codes in table.labels.items() if name not in content}
        several = isinstance(people, PeopleWithRows)
        check_rows_are_people(table.path, labels, (COMMAND if several else DEVICES)._replace(pooled=pooled))
        return None
    refuse_content_as_person(people.user, [*table.names, *table.values], COMMAND)
    (codes,) = table.labels.values()
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise InvalidInput(
            f"{table.path}, {table.place(row)}: --user column {people.user!r} is empty; remove such rows"
        )
    return codes
