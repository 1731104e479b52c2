"""Local randomizers: what a participant's report looks like, what it costs, and what a tally of reports proves.

A report says in which of ``fanout`` children a participant is. Each randomizer keeps side by side

- ``epsilon``: its true loss, the log of the largest probability ratio of any report under two children;
- ``respond``: one report from keyed entropy (the same bytes give the same report), on a finite alphabet, by
  integer thresholds that round to the private side;
- ``draw_tally``: the sum of a whole cell's reports at once, for simulation;
- ``estimate`` and ``variance``: what the sum says about the children;
- ``passes``: the crowd test. A child with fewer than k responders passes with probability at most delta.

Reports and tallies are integers. Knows one cell's children. Knows no tree, rounds, messages or positions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, Integers, Words
from ..errors import InvalidInput
from ._tails import chernoff_margin, two_binomial_threshold
from ._weights import (
    WORD,
    discrete_curve,
    laplace_chances,
    laplace_curve,
    laplace_thresholds,
    laplace_weights,
    response_weights,
)

__all__ = ["DiscreteLaplace", "PaperLaplace", "RandomizedResponse", "Randomizer"]

Answer = int | tuple[int, ...]

_EPSILON_RANGE = (1e-3, 40.0)
_MAX_FANOUT = 256
_FIXED_POINT = 1 << 20  # PaperLaplace: units per one, so that float noise still adds up exactly


class Randomizer(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """What all randomizers share; use one of the three below."""

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
        """Reports of many participants from their entropy: int64[n] or int64[n, fanout].

        Parameters
        ----------
        children : int64[n]
            The true child of each participant.
        words : uint64[n, words]
            Independent uniform words.
        """
        raise NotImplementedError

    def tally(self, reports: Integers, groups: Integers, size: int) -> Integers:
        """Sums of reports per group: int64[size, fanout]. ``groups`` int64[n] says which cell each belongs to."""
        raise NotImplementedError

    def draw_tally(self, counts: npt.ArrayLike, rng: np.random.Generator) -> Integers:
        """Tallies of whole cells, distributed as if every participant had reported: int64[m, fanout].

        Parameters
        ----------
        counts : int[m, fanout]
            True number of responders in each child.
        """
        raise NotImplementedError

    def estimate(self, tally: npt.ArrayLike, responders: npt.ArrayLike) -> Floats:
        """Unbiased estimates of the number of responders in each child: float64[m, fanout]."""
        raise NotImplementedError

    def variance(self, share: float = 0.0, *, members: int = 1) -> float:
        """Variance of an estimated number of responders, per responder of the cell.

        Parameters
        ----------
        share : float
            Share of the responders who really are in the group of children.
        members : int
            Number of children in the group.
        """
        raise NotImplementedError

    def threshold(self, responders: npt.ArrayLike, *, k: int, delta: float) -> Integers:
        """Smallest tally entry with which a child passes the crowd test: int64[m]."""
        raise NotImplementedError

    def possible(self, tally: Integers, responders: Integers) -> Flags:
        """Whether a tally can be the sum of that many reports: bool[m]."""
        raise NotImplementedError

    def check_answer(self, answer: Answer) -> None:
        """Refuse an answer that no participant can have given."""
        raise NotImplementedError

    # -- shared --------------------------------------------------------------------------------------------

    def respond(self, child: int, entropy: bytes) -> Answer:
        """One report of a device.

        Parameters
        ----------
        child : int
            The true child, 0 to fanout - 1.
        entropy : bytes
            ``8 * words`` secret uniform bytes, used for nothing else. The same bytes give the same report.
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

    def passes(self, tally: npt.ArrayLike, responders: npt.ArrayLike, *, k: int, delta: float) -> Flags:
        """The crowd test: bool[m, fanout]. A child with fewer than k responders passes with probability <= delta."""
        thresholds = self.threshold(responders, k=k, delta=delta)
        return np.asarray(np.asarray(tally) >= thresholds[:, None])


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
    >>> round(RandomizedResponse(1.0, 2).variance(), 2), round(RandomizedResponse(1.0, 4).variance(), 2)
    (0.92, 1.6)
    """

    epsilon: float
    fanout: int

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)
        _check_fanout(self.fanout)
        msgspec.structs.force_setattr(self, "epsilon", float(self.epsilon))  # 1 and 1.0 must have the same bytes

    @property
    def words(self) -> int:
        """64-bit words of entropy one report takes."""
        return 1

    @property
    def weights(self) -> tuple[int, int]:
        """Integer weights out of 2**64 of the true child and of each other child; their ratio is <= e^epsilon."""
        return response_weights(self.epsilon, self.fanout)

    @property
    def probabilities(self) -> tuple[float, float]:
        """Chance of reporting the true child, and of reporting a given other child."""
        true, other = self.weights
        return true / WORD, other / WORD

    def answers(self, children: Integers, words: Words) -> Integers:
        """Reports of many participants from their entropy: int64[n]."""
        true, other = self.weights
        word = words[:, 0]
        beyond = np.maximum(word, np.uint64(true)) - np.uint64(true)
        skipped = (beyond // np.uint64(other)).astype(np.int64)
        skipped += skipped >= children
        return np.where(word < np.uint64(true), children, skipped)

    def tally(self, reports: Integers, groups: Integers, size: int) -> Integers:
        """Number of reports per group and child: int64[size, fanout]."""
        flat = np.bincount(groups * self.fanout + reports, minlength=size * self.fanout)
        return flat.reshape(size, self.fanout).astype(np.int64)

    def draw_tally(self, counts: npt.ArrayLike, rng: np.random.Generator) -> Integers:
        """Tallies of whole cells, exact in distribution: int64[m, fanout]."""
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

    def estimate(self, tally: npt.ArrayLike, responders: npt.ArrayLike) -> Floats:
        """Unbiased estimates of the number of responders in each child: float64[m, fanout]."""
        p, p0 = self.probabilities
        expected = np.asarray(responders, dtype=np.float64)[:, None] * p0
        return np.asarray((np.asarray(tally, dtype=np.float64) - expected) / (p - p0))

    def variance(self, share: float = 0.0, *, members: int = 1) -> float:
        """Variance of an estimated number of responders, per responder of the cell."""
        p, p0 = self.probabilities
        inside, outside = p + (members - 1) * p0, members * p0
        return (share * inside * (1 - inside) + (1 - share) * outside * (1 - outside)) / (p - p0) ** 2

    def threshold(self, responders: npt.ArrayLike, *, k: int, delta: float) -> Integers:
        """Smallest c with P(Bin(k-1, p) + Bin(n-k+1, p0) >= c) <= delta, by the exact tail: int64[m].

        With fewer than k responders nothing passes. Fewer members than k - 1 pass even more rarely.
        """
        size = np.asarray(responders, dtype=np.int64)
        p, p0 = self.probabilities
        exact = two_binomial_threshold(np.maximum(size, k), k - 1, p, p0, delta=delta)
        return np.where(size >= k, exact, size + 1)

    def possible(self, tally: Integers, responders: Integers) -> Flags:
        """Whether a tally can be the sum of that many reports: bool[m]."""
        return np.asarray((tally >= 0).all(axis=1) & (tally.sum(axis=1) == responders))

    def check_answer(self, answer: Answer) -> None:
        """Refuse an answer that no participant can have given."""
        if isinstance(answer, bool) or not isinstance(answer, int) or not 0 <= answer < self.fanout:
            raise InvalidInput(f"an answer is an integer from 0 to {self.fanout - 1}; got {answer!r}")


class _Laplace(Randomizer, frozen=True):
    """What the two Laplace randomizers share: a noisy number for every child, in units of 1 / ``unit``."""

    @property
    def words(self) -> int:
        """64-bit words of entropy one report takes."""
        return self.fanout

    @property
    def unit(self) -> int:
        """Integer that stands for one participant in reports and tallies."""
        raise NotImplementedError

    @property
    def noise_variance(self) -> float:
        """Variance of the noise of one entry, in participants."""
        raise NotImplementedError

    def margin_of(self, responders: npt.ArrayLike, *, delta: float) -> Floats:
        """What the summed noise of a child exceeds with probability at most delta, in participants: float64[m]."""
        raise NotImplementedError

    def tally(self, reports: Integers, groups: Integers, size: int) -> Integers:
        """Sums of reports per group: int64[size, fanout]."""
        out = np.zeros((size, self.fanout), dtype=np.int64)
        np.add.at(out, groups, reports)
        return out

    def estimate(self, tally: npt.ArrayLike, responders: npt.ArrayLike) -> Floats:
        """Unbiased estimates of the number of responders in each child: float64[m, fanout]."""
        return np.asarray(tally, dtype=np.float64) / self.unit

    def variance(self, share: float = 0.0, *, members: int = 1) -> float:
        """Variance of an estimated number of responders, per responder of the cell (the share plays no part)."""
        return members * self.noise_variance

    def threshold(self, responders: npt.ArrayLike, *, k: int, delta: float) -> Integers:
        """Smallest tally entry with which a child passes the crowd test: int64[m]."""
        size = np.asarray(responders)
        bound = np.ceil((k - 1 + self.margin_of(size, delta=delta)) * self.unit).astype(np.int64)
        return np.where(size >= k, bound, np.iinfo(np.int64).max)


class DiscreteLaplace(_Laplace, frozen=True, tag="discrete-laplace"):
    """Adds discrete Laplace noise of scale 2 / epsilon to every entry of the one-hot vector of the child.

    A move changes two entries by one each, so each entry may cost epsilon / 2. Entries are clamped to a finite
    alphabet far out in the tail, which is the same for both values of an entry and therefore costs nothing.

    Parameters
    ----------
    epsilon : float
        True loss of one report, 0.001 to 40.
    fanout : int
        Number of children, 2 to 256.
    """

    epsilon: float
    fanout: int

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)
        _check_fanout(self.fanout)
        msgspec.structs.force_setattr(self, "epsilon", float(self.epsilon))  # 1 and 1.0 must have the same bytes

    @property
    def alphabet(self) -> tuple[Integers, tuple[int, ...]]:
        """Values an entry can take and their integer weights out of 2**64 when the entry's true value is 0.

        When it is 1, value y has the weight of 1 - y.
        """
        return laplace_chances(self.epsilon)[0], laplace_weights(self.epsilon)

    @property
    def unit(self) -> int:
        """Integer that stands for one participant in reports and tallies."""
        return 1

    @property
    def noise_variance(self) -> float:
        """Variance of the noise of one entry."""
        values, chances = laplace_chances(self.epsilon)
        return float(np.sum(chances * values.astype(np.float64) ** 2) - np.sum(chances * values) ** 2)

    def answers(self, children: Integers, words: Words) -> Integers:
        """Reports of many participants from their entropy: int64[n, fanout]."""
        values = self.alphabet[0]
        noisy = values[np.searchsorted(laplace_thresholds(self.epsilon), words, side="right")]
        rows = np.arange(len(children))
        noisy[rows, children] = 1 - noisy[rows, children]
        return noisy

    def draw_tally(self, counts: npt.ArrayLike, rng: np.random.Generator) -> Integers:
        """Tallies of whole cells, exact in distribution: int64[m, fanout]."""
        count = np.asarray(counts, dtype=np.int64)
        values, chances = laplace_chances(self.epsilon)
        chances = chances / chances.sum()
        zeros = count.sum(axis=1, keepdims=True) - count
        return np.asarray(rng.multinomial(zeros, chances) @ values + rng.multinomial(count, chances) @ (1 - values))

    def margin_of(self, responders: npt.ArrayLike, *, delta: float) -> Floats:
        """Chernoff's bound with the exact moment generating function of the clamped noise: float64[m]."""
        return chernoff_margin(responders, discrete_curve(self.epsilon), delta=delta)

    def possible(self, tally: Integers, responders: Integers) -> Flags:
        """Whether a tally can be the sum of that many reports: bool[m]."""
        values = self.alphabet[0]
        size = responders[:, None]
        return np.asarray(((tally >= values[0] * size) & (tally <= values[-1] * size)).all(axis=1))

    def check_answer(self, answer: Answer) -> None:
        """Refuse an answer that no participant can have given."""
        low, high = (int(value) for value in self.alphabet[0][[0, -1]])
        _check_vector(answer, self.fanout, low, high)


class PaperLaplace(_Laplace, frozen=True, tag="paper-laplace"):
    """The paper's randomizer: float Laplace noise on every entry of the one-hot vector. For simulation only.

    Its true loss is 2 / scale, because a move changes two entries; with the paper's scale 1 / epsilon that is
    2 epsilon. Float noise leaks through rounding, so devices refuse it. Noise is put on a fixed-point grid of
    2**-20 so that tallies are integers all the same.

    Parameters
    ----------
    scale : float
        Scale of the Laplace noise.
    fanout : int
        Number of children, 2 to 256.
    margin : {"chernoff", "paper"}
        ``"paper"`` is the printed margin (sqrt(2 n x) + 6 x) * scale with x = log(1/delta), and its threshold
        k + margin; it is too small for small delta. ``"chernoff"`` holds.
    """

    scale: float
    fanout: int
    margin: Literal["chernoff", "paper"] = "chernoff"

    def __post_init__(self) -> None:
        is_number = isinstance(self.scale, int | float) and not isinstance(self.scale, bool)
        if not (is_number and math.isfinite(self.scale) and self.scale > 0):
            raise InvalidInput(f"scale must be a positive number; got {self.scale!r}")
        _check_epsilon(2.0 / self.scale, "2 / scale")
        _check_fanout(self.fanout)
        msgspec.structs.force_setattr(self, "scale", float(self.scale))
        if self.margin not in ("chernoff", "paper"):
            raise InvalidInput(f"margin must be 'chernoff' or 'paper'; got {self.margin!r}")

    @property
    def epsilon(self) -> float:
        """True loss of one report between any two children."""
        return 2.0 / self.scale

    @property
    def simulation_only(self) -> bool:
        """Whether devices must refuse it."""
        return True

    @property
    def unit(self) -> int:
        """Integer that stands for one participant in reports and tallies."""
        return _FIXED_POINT

    @property
    def noise_variance(self) -> float:
        """Variance of the noise of one entry, in participants."""
        return 2.0 * self.scale**2

    def answers(self, children: Integers, words: Words) -> Integers:
        """Reports of many participants from their entropy, in units of 2**-20: int64[n, fanout]."""
        # 52 bits, so that half a step more is still exact and never rounds up to 1, whose logarithm is infinite.
        uniform = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52 - 0.5
        noise = -self.scale * np.sign(uniform) * np.log1p(-2.0 * np.abs(uniform))
        noisy = np.rint(noise * _FIXED_POINT).astype(np.int64)
        noisy[np.arange(len(children)), children] += _FIXED_POINT
        return noisy

    def draw_tally(self, counts: npt.ArrayLike, rng: np.random.Generator) -> Integers:
        """Tallies of whole cells, distributed as the reports' sums up to their rounding to 2**-20: int64[m, fanout]."""
        count = np.asarray(counts, dtype=np.int64)
        size = np.broadcast_to(count.sum(axis=1, keepdims=True), count.shape).astype(np.float64)
        noise = self.scale * (rng.standard_gamma(size) - rng.standard_gamma(size))
        return count * _FIXED_POINT + np.rint(noise * _FIXED_POINT).astype(np.int64)

    def margin_of(self, responders: npt.ArrayLike, *, delta: float) -> Floats:
        """What the summed noise of a child exceeds with probability at most delta: float64[m].

        With ``margin="paper"`` the printed formula instead, which exceeds delta for small delta.
        """
        if self.margin == "chernoff":
            return chernoff_margin(responders, laplace_curve(self.scale), delta=delta)
        budget = math.log(1.0 / delta)
        size = np.maximum(np.asarray(responders, dtype=np.float64), 0.0)
        return np.asarray(self.scale * (np.sqrt(2.0 * size * budget) + 6.0 * budget))

    def threshold(self, responders: npt.ArrayLike, *, k: int, delta: float) -> Integers:
        """Smallest tally entry with which a child passes the crowd test: int64[m]."""
        if self.margin == "chernoff":
            return super().threshold(responders, k=k, delta=delta)
        bound = (k + self.margin_of(responders, delta=delta)) * _FIXED_POINT
        return np.ceil(bound).astype(np.int64)

    def possible(self, tally: Integers, responders: Integers) -> Flags:
        """Whether a tally can be the sum of that many reports (any number can): bool[m]."""
        return np.ones(len(tally), dtype=bool)

    def check_answer(self, answer: Answer) -> None:
        """Refuse an answer that no participant can have given."""
        bound = int((self.scale * 40 + 1) * _FIXED_POINT)
        _check_vector(answer, self.fanout, -bound, bound)


# -- checks ------------------------------------------------------------------------------------------------------


def _check_epsilon(epsilon: float, name: str = "epsilon") -> None:
    low, high = _EPSILON_RANGE
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not low <= epsilon <= high:
        raise InvalidInput(f"{name} must be a number from {low} to {high:g}; got {epsilon!r}")


def _check_fanout(fanout: int) -> None:
    if isinstance(fanout, bool) or not isinstance(fanout, int) or not 2 <= fanout <= _MAX_FANOUT:
        raise InvalidInput(f"fanout must be an integer from 2 to {_MAX_FANOUT}; got {fanout!r}")


def _check_vector(answer: Answer, size: int, low: int, high: int) -> None:
    if not isinstance(answer, tuple) or len(answer) != size:
        raise InvalidInput(f"an answer is {size} integers; got {answer!r}")
    for value in answer:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InvalidInput(f"the entries of an answer are integers from {low} to {high}; got {value!r}")
