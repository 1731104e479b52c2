"""Who takes part in a transcript, and whether each goes on where its path led.

Knows pseudonyms, rounds and cells. Knows no answers, tallies or verdicts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..arrays import Integers
from ..hierarchy.base import Cells

__all__ = ["Problem", "Roster"]

Problem = tuple[str, str]  # token, and what for a person


class Roster:
    """The participants of round 1, with the round and the cell of the last report of each."""

    def __init__(self) -> None:
        self._members: dict[bytes, int] = {}
        self._round = np.zeros(0, dtype=np.int64)
        self._cell = np.zeros(0, dtype=np.uint64)

    def __len__(self) -> int:
        return len(self._members)

    def enter(self, names: list[bytes]) -> None:
        """Take in the participants of round 1."""
        for name in names:
            self._members.setdefault(name, len(self._members))
        grown = len(self._members) - len(self._round)
        self._round = np.concatenate([self._round, np.zeros(grown, dtype=np.int64)])
        self._cell = np.concatenate([self._cell, np.zeros(grown, dtype=np.uint64)])

    def find(self, names: list[bytes]) -> Integers:
        """Index of each participant, -1 for strangers: int64[n]."""
        get = self._members.get
        return np.array([get(name, -1) for name in names], dtype=np.int64)

    def last(self, who: Integers) -> tuple[Integers, Cells]:
        """Round and cell of each participant's last report; 0 for strangers: int64[n], uint64[n]."""
        rounds, cells = np.zeros(len(who), dtype=np.int64), np.zeros(len(who), dtype=np.uint64)
        member = who >= 0
        rounds[member], cells[member] = self._round[who[member]], self._cell[who[member]]
        return rounds, cells

    def strangers(self, names: list[bytes], who: Integers) -> Iterator[Problem]:
        """Reports of participants who did not answer round 1."""
        for row in np.flatnonzero(who < 0).tolist():
            yield "joined-late", f"pseudonym {names[row].hex()} did not answer round 1"

    def follow(
        self, names: list[bytes], who: Integers, *, round_: int, cells: Cells, parents: Cells
    ) -> Iterator[Problem]:
        """Check that everybody comes from the parent of its cell, round by round, and note where they are now.

        Parameters
        ----------
        who : int64[n]
            From :meth:`find`.
        cells, parents : uint64[n]
            The cells of the reports, and where everybody must come from; not used in round 1.
        """
        member = who >= 0
        if round_ > 1:
            last_round, last_cell = self.last(who)
            repeated = member & (last_round == round_)  # told apart by the order of the reports
            late = member & ~repeated & (last_round != round_ - 1)
            off = member & ~repeated & ~late & (last_cell != parents)
            for row in np.flatnonzero(late).tolist():
                yield "joined-late", f"pseudonym {names[row].hex()} last answered round {int(last_round[row])}"
            for row in np.flatnonzero(off).tolist():
                before, cell = int(last_cell[row]), int(cells[row])
                yield "wrong-path", f"pseudonym {names[row].hex()} goes from cell {before} to {cell}"
        self._round[who[member]] = round_
        self._cell[who[member]] = cells[member]
