"""The same noise for cells with other numbers of children.

Knows one randomizer. Knows no tree.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, Integers, Words
from ..errors import InvalidInput
from .base import Answer, Randomizer

__all__ = ["OneChild", "with_fanout"]


def with_fanout(randomizer: Randomizer, fanout: int) -> Randomizer:
    """The randomizer for another number of children: same loss per report, no noise where there is nothing to choose.

    Examples
    --------
    >>> from semilocal.randomizer import RandomizedResponse
    >>> with_fanout(RandomizedResponse(1.0, 4), 2)
    RandomizedResponse(epsilon=1.0, fanout=2)
    """
    if fanout == randomizer.fanout:
        return randomizer
    return OneChild() if fanout == 1 else msgspec.structs.replace(randomizer, fanout=fanout)


class OneChild(Randomizer, frozen=True, tag="one-child"):
    """A cell with one child: everybody is in it, so a report says nothing and costs nothing. Not for the wire."""

    @property
    def epsilon(self) -> float:
        """A report does not depend on the position."""
        return 0.0

    @property
    def fanout(self) -> int:
        """One."""
        return 1

    @property
    def words(self) -> int:
        """No entropy is used."""
        return 0

    def answers(self, children: Integers, words: Words) -> Integers:
        """All zero: int64[n]."""
        return np.zeros(len(children), dtype=np.int64)

    def tally(self, reports: Integers, groups: Integers, size: int) -> Integers:
        """Number of reports per group: int64[size, 1]."""
        return np.bincount(groups, minlength=size)[:, None].astype(np.int64)

    def draw_tally(self, counts: npt.ArrayLike, rng: np.random.Generator) -> Integers:
        """The counts: int64[m, 1]."""
        return np.asarray(counts, dtype=np.int64)

    def estimate(self, tally: npt.ArrayLike, responders: npt.ArrayLike) -> Floats:
        """All responders: float64[m, 1]."""
        return np.asarray(responders, dtype=np.float64)[:, None]

    def variance(self, share: float = 0.0, *, members: int = 1) -> float:
        """Nothing is uncertain."""
        return 0.0

    def threshold(self, responders: npt.ArrayLike, *, k: int, delta: float) -> Integers:
        """The only child always passes: it has its cell's crowd. int64[m]."""
        return np.full(len(np.asarray(responders)), np.iinfo(np.int64).min)

    def possible(self, tally: Integers, responders: Integers) -> Flags:
        """Whether everybody was counted once: bool[m]."""
        return np.asarray(tally[:, 0] == responders)

    def check_answer(self, answer: Answer) -> None:
        """Refuse anything but 0."""
        if answer != 0 or isinstance(answer, bool):
            raise InvalidInput(f"the only child has the number 0; got {answer!r}")
