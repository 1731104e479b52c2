"""Where the noise of single reports comes from: the secrets of devices, or anything else that derives it.

Derived noise depends on who, round and cell alone: not on the order in which people are asked, nor on how they are
divided into batches. So a population in memory and rows in an engine give the same reports.

Knows secrets and labels. Knows no positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..arrays import Integers, Words
from ..hierarchy.base import Cells
from ..protocol.keys import move_entropy, pseudonym, report_entropy, value_entropy

__all__ = ["DeviceSecrets", "Entropy"]


class Entropy(Protocol):
    """Noise that is derived for participants, by their numbers, in one task."""

    def reports(self, who: Integers, round_: int, cells: Cells, words: int) -> Words:
        """Entropy of the reports that these participants give for these cells: uint64[m, words]."""

    def moves(self, who: Integers, round_: int, cells: Cells) -> Words:
        """Entropy of the places that these participants are moved to when these cells are trimmed: uint64[m]."""

    def values(self, who: Integers, plan: bytes, index: int, cells: Cells, words: int) -> Words:
        """Entropy of the values that these participants give for a release of a plan in these regions."""

    def pseudonyms(self, who: Integers) -> list[bytes]:
        """The names of these participants in the task: 16 bytes each."""


class DeviceSecrets:
    """The noise that devices derive from their secrets.

    Parameters
    ----------
    secrets : sequence of bytes
        One per participant.
    task : bytes
        The task's id.
    """

    def __init__(self, secrets: Sequence[bytes], task: bytes) -> None:
        self._secrets, self._task = secrets, task

    def reports(self, who: Integers, round_: int, cells: Cells, words: int) -> Words:
        """Entropy of reports: uint64[m, words]."""
        people = zip(who.tolist(), cells.tolist(), strict=True)
        drawn = b"".join(
            report_entropy(self._secrets[person], self._task, round_, cell, words) for person, cell in people
        )
        return _words(drawn).reshape(len(who), words)

    def moves(self, who: Integers, round_: int, cells: Cells) -> Words:
        """Entropy of places: uint64[m]."""
        people = zip(who.tolist(), cells.tolist(), strict=True)
        return _words(
            b"".join(move_entropy(self._secrets[person], self._task, round_, cell) for person, cell in people)
        )

    def values(self, who: Integers, plan: bytes, index: int, cells: Cells, words: int) -> Words:
        """Entropy of values: uint64[m, words]; ``plan`` is the digest."""
        people = zip(who.tolist(), cells.tolist(), strict=True)
        drawn = (value_entropy(self._secrets[person], self._task, plan, index, cell, words) for person, cell in people)
        return _words(b"".join(drawn)).reshape(len(who), words)

    def pseudonyms(self, who: Integers) -> list[bytes]:
        """The names of these participants in the task: 16 bytes each."""
        return [pseudonym(self._secrets[person], self._task) for person in who.tolist()]


def _words(drawn: bytes) -> Words:
    return np.frombuffer(drawn, dtype=">u8").astype(np.uint64)
