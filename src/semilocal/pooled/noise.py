"""Discrete Laplace noise, exactly: P(j) proportional to e^{-r |j|} over all integers, by comparing integers.

Theory of operation. The noise is the difference of two geometric numbers, P(g) = (1 - q) q^g with q = e^{-r}. The
binary digits of a geometric number are independent: digit i is 1 with probability 1 / (1 + e^{r 2^i}). So each digit
below 2^K takes one 64-bit word, compared with the first 64 bits of that probability; what lies above is 2^K times
another geometric number, zero unless one more word says otherwise (probability e^{-r 2^K}, below 2^-23). If a word
*equals* the first 64 bits, the next 64 bits decide with the next word, and so on: the law is exact, the support is all
integers, and no float decides anything. The rate r is a fraction.

Where words come from is an argument: the operating system (:func:`from_entropy`), a secret (:func:`from_secret`, so
that a retry repeats its noise), or a generator (:func:`from_generator`, for simulation).

Knows rates and words. Knows no counts and no positions.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from ..protocol.keys import SECRET_BYTES, derive

__all__ = ["Words", "draw", "from_entropy", "from_generator", "from_secret", "variance"]

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.uint64]

_WORD = 64
_TAIL = 16  # K is the least with r 2^K at least this
_ROWS = 1 << 15
_LABEL = b"semilocal/1/pooled-noise"


class Words(Protocol):
    """Uniform 64-bit words, a stream for each row."""

    def __call__(self, rows: Integers, start: int, count: int) -> Bits:
        """Words ``start`` to ``start + count`` of the rows' streams: uint64[len(rows), count]."""


def from_entropy(read: Callable[[int], bytes]) -> Words:
    """Fresh words of a source of secret bytes, such as ``os.urandom``."""

    def words(rows: Integers, start: int, count: int) -> Bits:
        return np.frombuffer(read(8 * len(rows) * count), dtype=np.uint64).reshape(len(rows), count)

    return words


def from_generator(rng: np.random.Generator) -> Words:
    """Words of a seeded generator. For simulation: its results must be marked."""

    def words(rows: Integers, start: int, count: int) -> Bits:
        return rng.integers(0, 2**64, size=(len(rows), count), dtype=np.uint64, endpoint=False)

    return words


def from_secret(secret: bytes, context: bytes, cells: Bits) -> Words:
    """Words that only the holder of the secret can tell; the same context and cell give the same words.

    Parameters
    ----------
    secret : bytes
        32 bytes.
    context : bytes
        Everything but the cell that the noise belongs to: task, level, purpose, accepted set. Of one length, or made
        so that no two contexts and cells join to the same bytes.
    cells : uint64[m]
        The cell of each row.
    """
    if len(secret) != SECRET_BYTES:
        raise InvalidInput(f"a secret has {SECRET_BYTES} bytes; got {len(secret)}")
    head = _LABEL + len(context).to_bytes(4, "big") + context

    def words(rows: Integers, start: int, count: int) -> Bits:
        streams = [
            derive(secret, head + int(cells[row]).to_bytes(8, "big") + start.to_bytes(4, "big"), 8 * count)
            for row in rows.tolist()
        ]
        return np.frombuffer(b"".join(streams), dtype=">u8").reshape(len(rows), count).astype(np.uint64)

    return words


def draw(unit: Fraction, units: Integers, words: Words) -> Integers:
    """Independent discrete Laplace draws: int64[m].

    Parameters
    ----------
    unit : Fraction
        Rate of one unit, above 0.
    units : int64[m]
        Units of each draw, at least 1: its rate is ``units * unit``.
    words : Words

    Examples
    --------
    >>> noise = draw(Fraction(1, 1000), np.array([500] * 4), from_generator(np.random.default_rng(0)))
    >>> noise.dtype, len(noise)
    (dtype('int64'), 4)
    """
    if unit <= 0 or units.ndim != 1 or (units < 1).any():
        raise InvalidInput(f"rates must be above 0; got {unit} times {units.min(initial=1)} units at least")
    out = np.empty(len(units), dtype=np.int64)
    for begin in range(0, len(units), _ROWS):
        rows = np.arange(begin, min(begin + _ROWS, len(units)))
        out[rows] = _draw(unit, units[rows], rows, words)
    return out


def variance(unit: Fraction, units: npt.ArrayLike) -> Floats:
    """Exact variance of a draw, 2 q / (1 - q)^2 with q = e^{-rate}: float64[m]."""
    half = np.sinh(np.asarray(units, dtype=np.float64) * float(unit) / 2)
    return np.asarray(1 / (2 * half * half))


def _draw(unit: Fraction, units: Integers, rows: Integers, words: Words) -> Integers:
    """The two geometric numbers of each row from words 2 i and 2 i + 1 of its stream: first the tail's, then digits."""
    different, which = np.unique(units, return_inverse=True)
    rates = [unit * int(number) for number in different]
    lengths = np.array([digits_below(rate) for rate in rates])
    longest = int(lengths.max())
    table = np.zeros((longest + 1, len(rates)), dtype=np.uint64)
    for column, rate in enumerate(rates):
        table[: lengths[column] + 1, column] = thresholds(rate)
    stream = words(rows, 0, 2 * (longest + 1))
    length = lengths[which]
    geometric = np.zeros((len(rows), 2), dtype=np.int64)
    for place in range(longest + 1):
        used = place <= length
        word, threshold = stream[:, 2 * place : 2 * place + 2], table[place][which][:, None]
        hit = (word < threshold) & used[:, None]
        geometric += hit.astype(np.int64) << (place - 1 if place else length[:, None])
        for row, side in zip(*np.nonzero(((word == threshold) | ((place == 0) & hit)) & used[:, None]), strict=True):
            more = _scalar_words(words, int(rows[row]), 2 * (_WORD + 2) + 2 * _WORD * (2 * place + int(side)))
            rate = rates[which[row]]
            value = bool(hit[row, side]) or (word[row, side] == threshold[row, 0] and _below(rate, place, 1, more))
            geometric[row, side] += (int(value) - int(hit[row, side])) << (place - 1 if place else int(length[row]))
            while place == 0 and value:  # the tail is geometric too: one more for every success
                value = _below(rate, 0, 0, more)
                geometric[row, side] += int(value) << int(length[row])
    return geometric[:, 0] - geometric[:, 1]


def _scalar_words(words: Words, row: int, start: int) -> Callable[[], int]:
    """The next word of a row's stream, from ``start`` on, at every call."""
    place = start

    def more() -> int:
        nonlocal place
        place += 1
        return int(words(np.array([row]), place - 1, 1)[0, 0])

    return more


def _below(rate: Fraction, place: int, block: int, more: Callable[[], int]) -> bool:
    """Whether a uniform number is below a probability, given that its first ``block`` words are the same."""
    while True:
        word, threshold = more(), block_of(rate, place, block)
        if word != threshold:
            return word < threshold
        block += 1


# -- probabilities, word by word -------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def digits_below(rate: Fraction) -> int:
    """K: digits that take a word each; the number above them is almost always zero."""
    length = 0
    while rate * 2**length < _TAIL:
        length += 1
    return length


@lru_cache(maxsize=4096)
def thresholds(rate: Fraction) -> Bits:
    """First 64 bits of the tail's probability and of those of the K digits: uint64[K + 1]."""
    return np.array([block_of(rate, place, 0) for place in range(digits_below(rate) + 1)], dtype=np.uint64)


def block_of(rate: Fraction, place: int, block: int) -> int:
    """64 bits of a probability: of e^{-r 2^K} for place 0, of 1 / (1 + e^{r 2^i}) for place i + 1."""
    digits = 20 * (block + 1) + 20
    while True:
        with decimal.localcontext() as context:
            context.prec = digits
            power = digits_below(rate) if place == 0 else place - 1
            exponent = decimal.Decimal(rate.numerator) * 2**power / decimal.Decimal(rate.denominator)
            growth = exponent.exp()
            chance = 1 / growth if place == 0 else 1 / (1 + growth)
            scaled = chance * 2 ** (_WORD * (block + 1))
            slack = scaled * (2 + exponent) * decimal.Decimal(10) ** (3 - digits)
            low, high = int(scaled - slack), int(scaled + slack)
        if low == high:
            return int(low % (1 << _WORD))
        digits *= 2
