"""Positions put into a public box: which column belongs to which axis, and what is wrong when they do not fit.

Knows files and axes. Messages say which axis and how many, never where anybody is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..arrays import Floats
from ..errors import InvalidInput, OutsideDomain
from ..geometry.box import Box
from ..geometry.mistakes import mistake_words
from ..geometry.places import LATITUDE
from ..geometry.sides import is_geographic
from .points import Table, read_points

__all__ = ["MOST_CLIPPED", "fit", "read_for_box"]

MOST_CLIPPED = 0.1  # share of the rows that may be moved to the edge


def fit(table: Table, box: Box, *, clip: bool = False, devices: bool = False) -> tuple[Floats, int]:
    """The points inside a box, float64[n, d], and how many were moved to its edge.

    Parameters
    ----------
    table : Table
    box : Box
    clip : bool
        Move points outside to the nearest edge, but not more than a tenth of them.
    devices : bool
        The points are those of devices, for which messages advise other options: columns are chosen by their names.

    Raises
    ------
    OutsideDomain
        With the first place in the file and the likely mistake; never with a position.
    """
    if box.holds(table.points):
        return table.points, 0
    clipped, moved = box.nearest(table.points)
    exchange = "Exchange their names in the first line" if devices else "Exchange --x and --y"
    mistake = mistake_words(table.points, box, exchange=exchange)
    share = moved / len(table)
    if clip and share <= MOST_CLIPPED and not mistake:
        return clipped, moved
    row = int(np.argmax((clipped != table.points).any(axis=1)))
    what = f"{table.path}: {moved:,} of {len(table):,} positions lie outside {box}, the first in {table.place(row)}"
    if mistake:
        raise OutsideDomain(f"{what}. {mistake}")
    if devices:
        raise OutsideDomain(f"{what}; remove them, or leave them out with --drop-outside")
    if clip:
        raise OutsideDomain(
            f"{what}; --clip moves at most a tenth of them, more would change the result. Take a larger public box"
        )
    edge = ", or move them to the edge with --clip" if share <= MOST_CLIPPED else ""
    raise OutsideDomain(f"{what}; take a larger public box, or remove them{edge}")


def read_for_box(
    path: str | Path, box: Box, *, labels: Sequence[str] | Callable[[Sequence[str]], Sequence[str]] = (),
    values: Sequence[str] = (), words: Mapping[str, float] | None = None,
) -> Table:  # fmt: skip
    """Positions of a file with the columns in the order of the box's axes; they may lie outside.

    Columns with the names of the axes are taken; else, in two dimensions, the columns for longitude and latitude (or
    x and y), longitude first unless the axes say otherwise. Other parameters are those of :func:`read_points`.
    """
    try:
        return read_points(path, columns=list(box.names), labels=labels, values=values, words=words)
    except InvalidInput:
        if box.dimensions != 2:
            raise
    table = read_points(path, labels=labels, values=values)
    if is_geographic(box) and box.names[0].lower() in LATITUDE:
        return dataclasses.replace(table, points=table.points[:, ::-1], names=table.names[::-1])
    return table
