"""Local randomizers: what a participant's report looks like, what it costs, and what a tally of reports proves.

A report says in which of ``fanout`` children a participant is. Each randomizer keeps side by side

- ``epsilon``: its true loss, the log of the largest probability ratio of any report under two children;
- ``respond``: one report from keyed entropy (the same bytes give the same report), on a finite alphabet, by
  integer thresholds that round to the private side;
- ``draw_tally``: the sum of a whole cell's reports at once, for simulation;
- ``threshold``: the crowd test of rule "all". A child with fewer than k responders reaches it with probability at most
  delta.

Reports and tallies are integers. Knows one cell's children. Knows no tree, rounds, messages or positions.
"""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Integers, Words, is_integer, is_number
from ..errors import InvalidInput

__all__ = [
    "EPSILON_RANGE", "WORD", "Answer", "Randomizer", "check_epsilon", "check_fanout", "check_parameters",
    "check_vector", "exp_below",
]  # fmt: skip

Answer = int | tuple[int, ...]

WORD = 1 << 64
EPSILON_RANGE = (1e-3, 40.0)
_MAX_FANOUT = 256


class Randomizer(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """What all randomizers share; use one of the subclasses."""

    # -- interface -----------------------------------------------------------------------------------------

    if TYPE_CHECKING:  # fields in the subclasses

        @property
        def epsilon(self) -> float:
            """True loss of one report between any two children."""

        @property
        def fanout(self) -> int:
            """Number of children a report chooses from; also the width of a tally."""

    @property
    def words(self) -> int:
        """64-bit words of entropy one report takes."""
        raise NotImplementedError

    @property
    def simulation_only(self) -> bool:
        """Whether devices must refuse it."""
        return False

    def answers(self, children: Integers, words: Words) -> Integers:
        """Reports of many participants: int64[n] or int64[n, fanout].

        ``children`` int64[n] are their true children, ``words`` uint64[n, words] independent uniform entropy.
        """
        raise NotImplementedError

    def tally(self, reports: Integers, groups: Integers, size: int) -> Integers:
        """Sums of reports per group: int64[size, fanout]. ``groups`` int64[n] says which cell each belongs to."""
        raise NotImplementedError

    def draw_tally(self, counts: npt.ArrayLike, rng: np.random.Generator) -> Integers:
        """Tallies of whole cells, as if every participant had reported: int64[m, fanout].

        ``counts`` int[m, fanout] are the true numbers of responders in each child.
        """
        raise NotImplementedError

    def threshold(self, responders: npt.ArrayLike, *, k: int, delta: float) -> Integers:
        """Smallest tally entry with which a child passes the crowd test: int64[m]."""
        raise NotImplementedError

    def check_answer(self, answer: Answer) -> None:
        """Refuse an answer that no participant can have given."""
        raise NotImplementedError

    # -- shared --------------------------------------------------------------------------------------------

    def respond(self, child: int, entropy: bytes) -> Answer:
        """One report of a device from its true child, 0 to fanout - 1.

        ``entropy`` is ``8 * words`` secret uniform bytes, used for nothing else. The same bytes give the same report.
        """
        if not 0 <= child < self.fanout:
            raise InvalidInput(f"child must be 0 to {self.fanout - 1}; got {child}")
        if len(entropy) != 8 * self.words:
            raise InvalidInput(f"entropy must be {8 * self.words} bytes; got {len(entropy)}")
        words = np.frombuffer(entropy, dtype=">u8").astype(np.uint64)
        report = self.answers(np.array([child]), words[None, :])[0]
        return int(report) if report.ndim == 0 else tuple(int(value) for value in report)

    def respond_many(self, children: npt.ArrayLike, rng: np.random.Generator) -> Integers:
        """One report per participant, for simulation: int64[n] or int64[n, fanout]."""
        child = np.asarray(children, dtype=np.int64)
        words = rng.integers(0, WORD, size=(len(child), self.words), dtype=np.uint64, endpoint=False)
        return self.answers(child, words)


# -- checks ------------------------------------------------------------------------------------------------------


def check_epsilon(epsilon: float, name: str = "epsilon") -> None:
    """Refuse an epsilon that is not a number, or outside what the samplers are built for."""
    low, high = EPSILON_RANGE
    if not is_number(epsilon) or not low <= epsilon <= high:
        raise InvalidInput(f"{name} must be a number from {low:g} to {high:g}; got {epsilon!r}")


def check_parameters(randomizer: Randomizer) -> None:
    """Refuse a bad epsilon or number of children, and store epsilon as a float: 1 and 1.0 must have the same bytes."""
    check_epsilon(randomizer.epsilon)
    check_fanout(randomizer.fanout)
    msgspec.structs.force_setattr(randomizer, "epsilon", float(randomizer.epsilon))


def check_fanout(fanout: int) -> None:
    """Refuse a number of children that is not 2 to 256."""
    if not is_integer(fanout) or not 2 <= fanout <= _MAX_FANOUT:
        raise InvalidInput(f"fanout must be an integer from 2 to {_MAX_FANOUT}; got {fanout!r}")


def check_vector(answer: Answer, size: int, low: int, high: int) -> None:
    """Refuse an answer that is not one integer per child, each from low to high."""
    if not isinstance(answer, tuple) or len(answer) != size:
        raise InvalidInput(f"an answer is {size} integers; got {answer!r}")
    for value in answer:
        if not is_integer(value) or not low <= value <= high:
            raise InvalidInput(f"the entries of an answer are integers from {low} to {high}; got {value!r}")


def exp_below(value: float | decimal.Decimal) -> decimal.Decimal:
    """e**value in 60 digits, below the true one by at most one part in 10**55: every device gets the same integers."""
    with decimal.localcontext() as context:
        context.prec, context.rounding = 60, decimal.ROUND_DOWN
        return decimal.Decimal(value).exp() * (1 - decimal.Decimal(10) ** -55)
