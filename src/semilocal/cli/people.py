"""Options that say whose row it is, and the rows that stand for people.

Knows arguments and codes of people.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np

from ..arrays import Integers
from ..errors import InvalidInput
from ..io.people import check_rows_are_people, person_columns
from ..io.points import Table
from ..simulation.people import MAX_ROWS_PER_USER, draw_rows
from .arguments import whole

__all__ = ["add_arguments", "chosen_rows", "person_labels"]


def add_arguments(parser: argparse._ActionsContainer, *, several: bool = True) -> None:
    """The options; ``several`` if a person may have more than one row."""
    parser.add_argument("--user", metavar="COLUMN", help="whose row it is: one row per person is drawn at random")
    if several:
        parser.add_argument(
            "--rows-per-user",
            type=whole(1, MAX_ROWS_PER_USER),
            default=1,
            metavar="M",
            help="rows per person; every loss of a person is M times what is promised to one row (%(default)s)",
        )
    parser.add_argument(
        "--rows-are-people", action="store_true", help="every row is another person, whatever the columns are called"
    )


def person_labels(args: argparse.Namespace) -> Callable[[Sequence[str]], Sequence[str]]:
    """Which columns of a file to read to tell people apart."""
    if args.user is not None and args.rows_are_people:
        raise InvalidInput("give --user or --rows-are-people, not both")
    if args.user is None and getattr(args, "rows_per_user", 1) != 1:
        raise InvalidInput("--rows-per-user needs --user COLUMN, which says whose row it is")
    if args.rows_are_people:
        return lambda columns: ()
    if args.user is not None:
        return lambda columns: (args.user,)
    return person_columns


def chosen_rows(args: argparse.Namespace, table: Table, rng: np.random.Generator) -> Integers:
    """The rows that stand for people, ascending; refuses a file that holds some people several times."""
    if args.user is None:
        check_rows_are_people(table.path, table.labels)
        return np.arange(len(table))
    (codes,) = table.labels.values()
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise InvalidInput(f"{table.path}, {table.place(row)}: --user column {args.user!r} is empty; remove such rows")
    return draw_rows(codes, rows_per_user=getattr(args, "rows_per_user", 1), rng=rng)
