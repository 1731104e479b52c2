"""What all value mechanisms share: epsilon, entropy, decoding and variances of one number in the unit interval.

Knows how to check values and words and how to go from weights to variances. Knows no
functions, regions, crowds or participants: the caller maps the range of its function over a region to [0, 1].

Biases. The input is put on a public grid, which moves it by at most 2^-21. Integer thresholds add less than 2^-30
(discrete Laplace: 2^-24). Nothing else is biased.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ...arrays import Floats, Integers, Words, as_floats, is_number
from ...errors import InvalidInput
from ._window import GRID, peak_variance

__all__ = ["MAX_EPSILON", "MIN_EPSILON", "Mechanism", "on_grid"]

MIN_EPSILON, MAX_EPSILON = 0.01, 16.0

_BLOCK = 1 << 14  # values at a time: temporaries stay in the processor's cache


class Mechanism(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """What all value mechanisms share; take one of the subclasses, or :func:`best`.

    Attributes
    ----------
    epsilon : float
        Upper bound on the loss of one release: the log of the largest ratio of the probabilities of an output under
        two values. Adjacent are any two values in [0, 1]; delta is 0.
    words : int
        How many uint64 words of entropy one release takes.
    total : int
        The sum of :meth:`probabilities`, the same for every input.
    """

    epsilon: float

    def __post_init__(self) -> None:
        value: Any = self.epsilon
        if not (
            (is_number(value) or isinstance(value, np.integer | np.floating)) and MIN_EPSILON <= value <= MAX_EPSILON
        ):
            raise InvalidInput(
                f"the epsilon of one value must be a number in [{MIN_EPSILON}, {MAX_EPSILON}]; got {value!r}; "
                "with less nothing is learned, with more nothing is protected"
            )
        msgspec.structs.force_setattr(self, "epsilon", float(value))

    @property
    def words(self) -> int:
        raise NotImplementedError

    @property
    def total(self) -> int:
        raise NotImplementedError

    @property
    def alphabet(self) -> range:
        """All integers that can be released; each of them can come from every input."""
        raise NotImplementedError

    def probabilities(self, unit: float) -> list[int]:
        """Return how many of the ``total`` values of the entropy give each integer of the alphabet."""
        raise NotImplementedError

    @property
    def _values(self) -> Floats:
        """What each integer of the alphabet decodes to."""
        raise NotImplementedError

    @property
    def moments(self) -> tuple[Floats, Floats, Floats]:
        """Inputs between which probabilities are linear; mean and mean square of (decoded value - 1/2) there."""
        raise NotImplementedError

    def _pick(self, position: int, words: tuple[int, ...]) -> int:
        raise NotImplementedError

    def _pick_many(self, positions: Integers, words: Words) -> Integers:
        raise NotImplementedError

    def release(self, unit: npt.ArrayLike, words: Words) -> Integers:
        """Release many values, each with the loss ``epsilon``.

        Parameters
        ----------
        unit : array_like, shape (n,)
            Values in [0, 1]; anything else is refused.
        words : uint64 array, shape (n, words)
            Independent uniform words, used here and never again.

        Returns
        -------
        int64 array, shape (n,)
            Integers of the alphabet.
        """
        values = _unit(unit)
        shape = (len(values), self.words)
        if not isinstance(words, np.ndarray) or words.dtype != np.uint64 or words.shape != shape:
            got = f"{words.dtype} {words.shape}" if isinstance(words, np.ndarray) else type(words).__name__
            raise InvalidInput(
                f"words must be a uint64 array of shape {shape}; got {got}; draw them with "
                f"rng.integers(0, 2**64, size={shape}, dtype=numpy.uint64)"
            )
        reports = np.empty(len(values), dtype=np.int64)
        for first in range(0, len(values), _BLOCK):
            block = slice(first, first + _BLOCK)
            reports[block] = self._pick_many(np.rint(values[block] * GRID).astype(np.int64), words[block])
        return reports

    def release_one(self, unit: float, entropy: bytes) -> int:
        """Release one value, with the same result as :meth:`release` for the same words.

        Parameters
        ----------
        unit : float
            A value in [0, 1].
        entropy : bytes
            8 bytes per word, each word big-endian; keyed, so that a retry gives the same answer.
        """
        position = on_grid(unit)
        if not isinstance(entropy, bytes) or len(entropy) != 8 * self.words:
            got = f"{len(entropy)} bytes" if isinstance(entropy, bytes) else type(entropy).__name__
            raise InvalidInput(f"entropy must be {8 * self.words} bytes, 8 for each word; got {got}")
        words = tuple(int.from_bytes(entropy[i : i + 8], "big") for i in range(0, len(entropy), 8))
        return self._pick(position, words)

    def decode(self, reports: npt.ArrayLike) -> Floats:
        """Return unbiased estimates of the values, float[n]; single ones may lie far outside [0, 1].

        Raises
        ------
        InvalidInput
            If a report is not an integer of the alphabet.
        """
        array = np.asarray(reports)
        if array.dtype.kind not in "iu" and array.size:
            raise InvalidInput(f"reports must be integers of {self.alphabet}; got dtype {array.dtype}")
        outside = (array < self.alphabet.start) | (array >= self.alphabet.stop)
        if outside.any():
            raise InvalidInput(
                f"reports must be integers of {self.alphabet}; got {array[outside][0]} and {outside.sum() - 1} more "
                "outside; they come from another mechanism or were changed: leave them out"
            )
        return self._values[array.astype(np.int64) - self.alphabet.start]

    def variance(self, unit: npt.ArrayLike) -> Floats:
        """Return the variance of the decoded value, float[n], over the randomness of the mechanism."""
        inputs = np.rint(_unit(unit) * GRID) / GRID
        knots, first, second = self.moments
        return np.asarray(np.interp(inputs, knots, second) - np.interp(inputs, knots, first) ** 2)

    @cached_property
    def worst_variance(self) -> float:
        """The largest variance of the decoded value, over all inputs."""
        _, first, second = self.moments
        return peak_variance(first, second)


def on_grid(unit: float) -> int:
    """Return the step of the public grid, 0 to 2^20, that is nearest to a value in [0, 1]."""
    return round(float(_unit([unit])[0]) * GRID)


def _unit(values: Any) -> Floats:
    array = as_floats(values, "values", infinite=True)
    if array.ndim != 1:
        raise InvalidInput(f"values must have shape (n,); got {array.shape}")
    if len(array) and not (array.min() >= 0.0 and array.max() <= 1.0):  # false for NaN too
        wrong = ~((array >= 0.0) & (array <= 1.0))
        first = int(np.argmax(wrong))
        raise InvalidInput(
            f"values must be in [0, 1]; {int(wrong.sum())} of {len(array)} are not, the first at index {first}: "
            f"{array[first]}; map the range of the function over the region to [0, 1] first"
        )
    return array
