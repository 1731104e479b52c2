"""One row per person, chosen while rows go by: a keyed score of the row's number decides.

The choice must not depend on positions, and must be the same each time the rows are read. So every row gets a score
from the key and its number (:mod:`semilocal.simulation.people`), and the rows of a person with the smallest scores are
taken. Memory grows with the people (24 bytes each while rows are read), not with the rows.

Knows whose row it is. Knows no positions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Integers, Words
from ..simulation.people import Scores, smallest_scores

__all__ = ["ChosenRows"]

_PENDING = 1 << 21  # rows that may wait before they are sorted by person


class ChosenRows:
    """The rows that are chosen so far.

    Parameters
    ----------
    key : int
        0 to 2**64 - 1.
    rows_per_person : int
    """

    def __init__(self, key: int, rows_per_person: int = 1) -> None:
        self._scores, self._most = Scores.of(key), rows_per_person
        self._parts: list[tuple[Words, Integers, Integers]] = []
        self._waiting, self._size = 0, 0

    def add(self, labels: Sequence[Any], index: Integers, first: int) -> None:
        """Rows in a row, of which row i belongs to ``labels[index[i]]``; ``first`` is the number of the first row."""
        names = np.array([_person(label) for label in labels], dtype=np.uint64)
        rows = np.arange(first, first + len(index), dtype=np.int64)
        self._parts.append((names[index], self._scores.at(rows), rows))
        self._waiting += len(rows)
        if self._waiting > max(self._size, _PENDING):
            self._choose()

    def rows(self) -> Integers:
        """Numbers of the chosen rows, ascending: int64[m]."""
        if not self._parts:
            return np.empty(0, dtype=np.int64)
        self._choose()
        return np.sort(self._parts[0][2])

    def _choose(self) -> None:
        people, scores, rows = (np.concatenate(columns) for columns in zip(*self._parts, strict=True))
        kept = smallest_scores(people, scores, rows, self._most)
        self._parts = [(people[kept], scores[kept], rows[kept])]
        self._waiting, self._size = 0, len(kept)


def _person(label: Any) -> int:
    """64 bits for a person. Two people share them with a chance of 2^-64; then one of them has no row."""
    return int.from_bytes(hashlib.blake2b(str(label).encode(), digest_size=8).digest(), "big")
