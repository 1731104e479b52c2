"""Local randomizers: what a participant's report looks like, what it costs, and what a tally of reports proves.

A report says in which of ``fanout`` children a participant is. Each randomizer keeps side by side

- ``epsilon``: its true loss, the log of the largest probability ratio of any report under two children;
- ``respond``: one report from keyed entropy (the same bytes give the same report), on a finite alphabet, by
  integer thresholds that round to the private side;
- ``draw_tally``: the sum of a whole cell's reports at once, for simulation;
- ``threshold``: the crowd test of rule "all". A child with fewer than k responders reaches it with probability at most
  delta.

Randomized response is here, too: the default, with an exact crowd test that rounds to the private side: a threshold may
be one too large, never one too small. scipy.special is loaded at first use: importing it takes longer than the rest of
the core.

Reports and tallies are integers. Knows one cell's children. Knows no tree, rounds, messages or positions.
"""

from __future__ import annotations

import decimal
import math
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, Words, is_integer, is_number
from ..errors import InvalidInput

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


# -- randomized response ----------------------------------------------------------------------------------------------


_GUARD = 1e-6  # relative slack left for float rounding in computed tails
_DROPPED = 1e-8  # relative to delta: mass of the small binomial that is counted as failing instead of summed
_TERMS = 1 << 18  # of the tails that are searched at once


class RandomizedResponse(Randomizer, frozen=True, tag="randomized-response"):
    """Tells the true child with probability e^epsilon / (e^epsilon + fanout - 1), else one of the others.

    The default: a report is one small integer, a liar moves an estimate by at most 1 / (p - p0), and the crowd
    test is exact.

    Parameters
    ----------
    epsilon : float
        True loss of one report, 0.001 to 40.
    fanout : int
        Number of children, 2 to 256.

    Examples
    --------
    >>> RandomizedResponse(1.0, 4).respond(2, bytes(8))
    2
    """

    epsilon: float
    fanout: int

    def __post_init__(self) -> None:
        check_parameters(self)

    @property
    def words(self) -> int:
        return 1

    @property
    def weights(self) -> tuple[int, int]:
        """Integer weights out of 2**64 of the true child and of each other child; their ratio is <= e^epsilon."""
        return _weights(self.epsilon, self.fanout)

    @property
    def probabilities(self) -> tuple[float, float]:
        """Chance of reporting the true child, and of reporting a given other child."""
        true, other = self.weights
        return true / WORD, other / WORD

    def answers(self, children: Integers, words: Words) -> Integers:
        true, other = self.weights
        word = words[:, 0]
        beyond = np.maximum(word, np.uint64(true)) - np.uint64(true)
        skipped = (beyond // np.uint64(other)).astype(np.int64)
        skipped += skipped >= children
        return np.where(word < np.uint64(true), children, skipped)

    def draw_tally(self, counts: npt.ArrayLike, rng: np.random.Generator) -> Integers:
        count = np.asarray(counts, dtype=np.int64)
        p, p0 = self.probabilities
        if self.fanout == 2:
            stay = rng.binomial(count, p)
            return stay + (count - stay)[:, ::-1]
        out = np.zeros_like(count)
        for child in range(self.fanout):
            chances = np.full(self.fanout, p0)
            chances[child] = p
            out += rng.multinomial(count[:, child], chances / chances.sum())
        return out

    def threshold(self, responders: npt.ArrayLike, *, k: int, delta: float) -> Integers:
        """Smallest c with P(Bin(k-1, p) + Bin(n-k+1, p0) >= c) <= delta, by the exact tail: int64[m].

        With fewer than k responders nothing passes. Fewer members than k - 1 pass even more rarely.
        """
        size = np.asarray(responders, dtype=np.int64)
        p, p0 = self.probabilities
        exact = two_binomial_threshold(np.maximum(size, k), k - 1, p, p0, delta=delta)
        return np.where(size >= k, exact, size + 1)

    def check_answer(self, answer: Answer) -> None:
        if not is_integer(answer) or not 0 <= answer < self.fanout:
            raise InvalidInput(f"an answer is an integer from 0 to {self.fanout - 1}; got {answer!r}")


@lru_cache(maxsize=256)
def _weights(epsilon: float, fanout: int) -> tuple[int, int]:
    """Weights of the true child and of each other one: their ratio never exceeds e**epsilon."""
    with decimal.localcontext() as context:
        context.prec = 60
        other = int((WORD / (exp_below(epsilon) + fanout - 1)).to_integral_value(decimal.ROUND_CEILING))
    return WORD - (fanout - 1) * other, other


def two_binomial_threshold(sizes: npt.ArrayLike, members: int, p_in: float, p_out: float, *, delta: float) -> Integers:
    """Smallest count c with P(Bin(members, p_in) + Bin(size - members, p_out) >= c) <= delta: int64[m].

    ``sizes`` int[m] are numbers of responders, at least ``members``, of whom so many are in the child (k - 1 in the
    crowd test). A member is counted with chance ``p_in``, above ``p_out``, that of another responder. ``size + 1``
    where no count is that unlikely.
    """
    different, place = np.unique(np.asarray(sizes, dtype=np.int64), return_inverse=True)
    values, chances = _inside(members, p_in, delta)
    at_once = max(_TERMS // len(values), 1)
    # A larger group's threshold is no smaller: every second one is found between its neighbours, coarse to fine.
    found = np.append(0, different + 1)
    step = 1 << len(different).bit_length()
    while step := step // 2:
        own = np.arange(step, len(found), 2 * step)
        size, beyond = different[own - 1], np.where(own + step < len(found), own + step, own)
        low, high = found[own - step], np.minimum(found[beyond], size + 1)  # high is known to be unlikely enough
        while len(rows := np.flatnonzero(low < high)[:at_once]):
            middle = (low[rows] + high[rows]) // 2
            upper = _binomial_tail(middle[:, None] - values, (size[rows] - members)[:, None], p_out)
            rare = upper @ chances + 2.0 * delta * _DROPPED <= delta * (1.0 - _GUARD)
            low[rows[~rare]], high[rows[rare]] = middle[~rare] + 1, middle[rare]
        found[own] = high
    return found[1 + place]


@lru_cache(maxsize=64)
def _inside(members: int, p: float, delta: float) -> tuple[Integers, Floats]:
    """Values of Bin(members, p) that matter, and their chances: what is left out has less than 2 _DROPPED delta."""
    from scipy.special import gammaln, xlog1py, xlogy

    reach = math.sqrt(members * math.log(1.0 / (delta * _DROPPED)) / 2.0)  # Hoeffding's bound
    first, last = max(math.floor(members * p - reach), 0), min(math.ceil(members * p + reach), members)
    x = np.arange(first, last + 1)
    ways = gammaln(members + 1.0) - gammaln(x + 1.0) - gammaln(members - x + 1.0)
    chances = np.exp(ways + xlogy(x, p) + xlog1py(members - x, -p))
    x.flags.writeable = chances.flags.writeable = False
    return x, chances


def _binomial_tail(value: Integers, size: Integers, p: float) -> Floats:
    """P(Bin(size, p) >= value)."""
    from scipy.special import betainc

    inside = (value >= 1) & (value <= size)
    v = np.where(inside, value, 1).astype(np.float64)
    n = np.where(inside, size, 1).astype(np.float64)
    return np.where(inside, betainc(v, n - v + 1, p), np.where(value <= 0, 1.0, 0.0))
