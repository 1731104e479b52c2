"""Positions of a file straight into the cells of a public tree.

The numbers of the whole file are never in memory together: 8 bytes are kept of a position, whatever its dimensions.
Knows files and trees. Says nothing about what is wrong with a file: :mod:`semilocal.io.points` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ..arrays import Floats, on_all_cores, sort_on_all_cores
from ..errors import InvalidInput
from ..hierarchy.base import Hierarchy
from ..hierarchy.ranks import SortedCodes
from .sources import open_source

__all__ = ["read_located"]


def read_located(path: Path, columns: Sequence[str], tree: Hierarchy) -> SortedCodes | None:
    """The deepest cells of all positions in a file, in the order of the tree.

    Parameters
    ----------
    path : Path
        CSV or Parquet.
    columns : sequence of str
        One for each axis of the tree's domain.
    tree : Hierarchy

    Returns
    -------
    SortedCodes or None
        None if there is no row, anything is wrong with one, or the file has to be read line by line.
    """
    pieces = open_source(path).pieces(columns)
    if pieces is None or not pieces.rows:
        return None
    codes = np.empty(pieces.rows, dtype=np.uint64)

    def locate(piece: Callable[[], Iterator[tuple[int, list[Floats]]]]) -> None:
        for start, numbers in piece():
            codes[start : start + len(numbers[0])] = tree.codes(np.stack(numbers).T)  # every column stays in one piece

    try:
        on_all_cores(locate, pieces.each)
    except InvalidInput:
        return None
    sort_on_all_cores(codes)
    return SortedCodes(codes)
