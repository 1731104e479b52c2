"""The sums of a round, built up part by part: add reports, merge parts, close.

    kind of round     what is counted per cell                                   close() gives
    partition         sums of the answers, one number per child                  int64[m], int64[m, fanout]
    roll call         presence                                                   int64[m], int64[m, 0]
    values            how often each output of the mechanism was reported        int64[m], int64[t, 3]

Sums are integers, so the order of reports and the way they are split into parts change nothing: a tally of parts is the
tally of the whole. Knows arrays. Knows no pseudonyms: it cannot tell a report that comes twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Integers
from ..errors import DeviceViolation, InvalidInput
from ..hierarchy.base import Cells
from ..randomizer.base import Randomizer
from ..randomizer.values.mechanisms import Mechanism
from .messages import AnyReport

__all__ = ["RoundTally"]


class RoundTally:
    """The sums of one round so far.

    Parameters
    ----------
    cells : uint64[m]
        The cells that are asked about, ascending; in a round of values, the regions.
    channel : Randomizer, Mechanism or None
        What answers come through: the task's randomizer, a release's mechanism, or nothing (a roll call).
    widths : int64[m], optional
        Number of children of each cell, where it differs from cell to cell; as the randomizer says if left out.

    Examples
    --------
    >>> from semilocal import RandomizedResponse
    >>> whole, part = (RoundTally([2, 3], RandomizedResponse(1.0, 2)) for _ in range(2))
    >>> whole.add([2, 2, 3], [0, 1, 1])
    >>> part.add([3], [1])
    >>> whole.merge(part)
    >>> [array.tolist() for array in whole.close()]
    [[2, 2], [[1, 1], [0, 2]]]
    """

    def __init__(
        self, cells: npt.ArrayLike, channel: Randomizer | Mechanism | None, *, widths: Integers | None = None
    ) -> None:
        self.cells: Cells = np.asarray(cells, dtype=np.uint64)
        self.channel = channel
        self.widths = widths
        self.responders: Integers = np.zeros(len(self.cells), dtype=np.int64)
        width = channel.fanout if isinstance(channel, Randomizer) else 0
        self.sums: Integers = np.zeros((len(self.cells), width), dtype=np.int64)
        self._outputs: Counter[tuple[int, int]] = Counter()  # (row, output) -> reports, in a round of values

    @property
    def width(self) -> int | None:
        """Numbers in an answer: None for a single one, 0 in a roll call."""
        several = self.channel is None or (isinstance(self.channel, Randomizer) and self.channel.words > 1)
        return self.sums.shape[1] if several else None

    def rows(self, cells: npt.ArrayLike) -> Integers:
        """The row of each cell; -1 for cells that are not asked about: int64[n]."""
        named = np.asarray(cells, dtype=np.uint64)
        if not len(self.cells):
            return np.full(len(named), -1)
        place = np.minimum(np.searchsorted(self.cells, named), len(self.cells) - 1)
        return np.where(self.cells[place] == named, place, -1)

    def legal(self, answers: npt.ArrayLike, rows: Integers) -> Flags:
        """Which answers a participant can have given for these rows: bool[n].

        ``answers`` are int[n], int[n, fanout], or int[n, 0] in a roll call. Row -1 stands for no cell.
        """
        array = np.asarray(answers)
        if array.shape != ((len(array),) if self.width is None else (len(array), self.width)):
            return np.zeros(len(array), dtype=bool)
        if self.channel is None:
            return np.ones(len(array), dtype=bool)
        if isinstance(self.channel, Randomizer) and array.ndim == 2:
            return self.channel.possible(array, np.ones(len(array), dtype=np.int64))
        outputs = self.channel.alphabet if isinstance(self.channel, Mechanism) else range(self.channel.fanout)
        stop = outputs.stop if self.widths is None else np.where(rows < 0, outputs.stop, self.widths[rows])
        return np.asarray((array >= outputs.start) & (array < stop))

    def add(self, cells: npt.ArrayLike, answers: npt.ArrayLike) -> None:
        """Count reports.

        Parameters
        ----------
        cells : uint64[n]
        answers : int64[n], int64[n, fanout], or int64[n, 0] in a roll call

        Raises
        ------
        DeviceViolation
            If a cell is not asked about or an answer cannot have been given; nothing is counted then.
        """
        rows, array = self.rows(cells), np.asarray(answers)
        if np.any(rows < 0):
            raise DeviceViolation("unknown-cell", "a report is for a cell that the round does not ask about")
        if len(array) != len(rows):
            raise InvalidInput(f"there must be one answer per cell; got {len(rows)} cells and {len(array)} answers")
        if not len(rows):
            return
        if not self.legal(array, rows).all():
            raise DeviceViolation("bad-answer", "a report has an answer that no participant can have given")
        self.count(rows, array)

    def count(self, rows: Integers, answers: Integers) -> None:
        """As :meth:`add`, for reports whose rows and answers were found good: none of them is checked again."""
        self.responders += np.bincount(rows, minlength=len(self.cells))
        if isinstance(self.channel, Mechanism):
            self._outputs.update(zip(rows.tolist(), answers.tolist(), strict=True))
        elif self.channel is not None:
            self.sums += self.channel.tally(answers.astype(np.int64), rows, len(self.cells))

    def add_reports(self, reports: Sequence[AnyReport]) -> None:
        """Count reports that are messages."""
        single_answers = [() if report.answer is None else report.answer for report in reports]
        try:
            answers = np.array(single_answers) if single_answers else np.empty((0, 0), dtype=np.int64)
        except ValueError:  # some are single numbers, some are several
            raise DeviceViolation("bad-answer", "the reports of one round have answers of different form") from None
        self.add(np.array([report.cell for report in reports], dtype=np.uint64), answers)

    def merge(self, other: RoundTally) -> None:
        """Add the sums of another part of the same round."""
        if not np.array_equal(self.cells, other.cells) or self.channel != other.channel:
            raise InvalidInput("only tallies of the same round can be merged")
        self.responders += other.responders
        self.sums += other.sums
        self._outputs.update(other._outputs)

    def close(self) -> tuple[Integers, Integers]:
        """Responders and sums, as ``Curator.close`` takes them.

        Returns
        -------
        responders : int64[m]
        tally : int64[m, fanout] or int64[m, 0] (roll call) or int64[t, 3] (values)
            For values one line per region and output that was reported: the region's row, the output, how often;
            ascending.
        """
        if not isinstance(self.channel, Mechanism):
            return self.responders, self.sums
        lines = [(row, output, count) for (row, output), count in sorted(self._outputs.items())]
        return self.responders, np.array(lines, dtype=np.int64).reshape(len(lines), 3)
