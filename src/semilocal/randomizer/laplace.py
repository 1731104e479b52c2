"""Laplace noise on a one-hot vector: discrete, which devices take, and the paper's float noise, to compare with.

Knows one cell's children. Knows no tree, rounds, messages or positions.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, Words, is_number
from ..errors import InvalidInput
from ._tails import chernoff_margin
from ._weights import discrete_curve, laplace_chances, laplace_curve, laplace_thresholds, laplace_weights
from .base import Answer, Randomizer, check_epsilon, check_fanout, check_parameters, check_vector

__all__ = ["DiscreteLaplace", "LaplaceNoise", "PaperLaplace"]

_FIXED_POINT = 1 << 20  # units per one, so that the paper's float noise still adds up exactly


class LaplaceNoise(Randomizer, frozen=True):
    """What the two Laplace randomizers share: a noisy number for every child, in units of 1 / ``unit``."""

    @property
    def words(self) -> int:
        """64-bit words of entropy one report takes."""
        return self.fanout

    @property
    def unit(self) -> int:
        """Integer that stands for one participant in reports and tallies."""
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

    def threshold(self, responders: npt.ArrayLike, *, k: int, delta: float) -> Integers:
        """Smallest tally entry with which a child passes the crowd test: int64[m]."""
        size = np.asarray(responders)
        bound = np.ceil((k - 1 + self.margin_of(size, delta=delta)) * self.unit).astype(np.int64)
        return np.where(size >= k, bound, np.iinfo(np.int64).max)


class DiscreteLaplace(LaplaceNoise, frozen=True, tag="discrete-laplace"):
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
        check_parameters(self)

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

    def check_answer(self, answer: Answer) -> None:
        """Refuse an answer that no participant can have given."""
        low, high = (int(value) for value in self.alphabet[0][[0, -1]])
        check_vector(answer, self.fanout, low, high)


class PaperLaplace(LaplaceNoise, frozen=True, tag="paper-laplace"):
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
        if not (is_number(self.scale) and math.isfinite(self.scale) and self.scale > 0):
            raise InvalidInput(f"scale must be a positive number; got {self.scale!r}")
        check_epsilon(2.0 / self.scale, "2 / scale")
        check_fanout(self.fanout)
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

    def check_answer(self, answer: Answer) -> None:
        """Refuse an answer that no participant can have given."""
        bound = int((self.scale * 40 + 1) * _FIXED_POINT)
        check_vector(answer, self.fanout, -bound, bound)
