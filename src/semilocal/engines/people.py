"""One row per person, chosen while rows go by: a keyed hash of the row's number decides.

The choice must not depend on positions, and must be the same each time the rows are read. So every row gets a score
from the key and its number, and the rows of a person with the smallest scores are taken. Memory grows with the people
(24 bytes each while rows are read), not with the rows.

Knows whose row it is. Knows no positions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Integers, Words

__all__ = ["MAX_KEY", "ChosenRows", "choose_rows"]

MAX_KEY = 2**64 - 1
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
        self._key, self._most = np.uint64(key), rows_per_person
        self._parts: list[tuple[Words, Words, Integers]] = []
        self._waiting, self._size = 0, 0

    def add(self, labels: Sequence[Any], index: Integers, first: int) -> None:
        """Rows in a row, of which row i belongs to ``labels[index[i]]``; ``first`` is the number of the first row."""
        names = np.array([_person(label) for label in labels], dtype=np.uint64)
        rows = np.arange(first, first + len(index), dtype=np.int64)
        self._parts.append((names[index], _mixed(rows.astype(np.uint64) ^ self._key), rows))
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
        order = np.lexsort((rows, scores, people))
        ordered = people[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        sizes = np.diff(starts, append=len(ordered))
        kept = order[np.arange(len(order)) - np.repeat(starts, sizes) < self._most]
        self._parts = [(people[kept], scores[kept], rows[kept])]
        self._waiting, self._size = 0, len(kept)


def choose_rows(users: Sequence[Any], *, key: int, rows_per_person: int = 1) -> Integers:
    """The rows that a source with this key chooses, of rows that are all here: int64[m], ascending.

    Examples
    --------
    >>> chosen = choose_rows(["ann", "bob", "ann"], key=7)
    >>> len(chosen), 1 in chosen
    (2, True)
    """
    chosen = ChosenRows(key, rows_per_person)
    labels = list(dict.fromkeys(users))
    places = {label: place for place, label in enumerate(labels)}
    chosen.add(labels, np.array([places[user] for user in users], dtype=np.int64), 0)
    return chosen.rows()


def _person(label: Any) -> int:
    """64 bits for a person. Two people share them with a chance of 2^-64; then one of them has no row."""
    return int.from_bytes(hashlib.blake2b(str(label).encode(), digest_size=8).digest(), "big")


def _mixed(words: Words) -> Words:
    """A bijection that leaves no pattern of the row numbers; the constants are those of SplitMix64."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))
