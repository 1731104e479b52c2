"""Discrete Laplace noise, exactly: P(j) proportional to e^{-r |j|} over all integers, by comparing integers.

Theory of operation. The noise is the difference of two geometric numbers, P(g) = (1 - q) q^g with q = e^{-r}. The
binary digits of a geometric number are independent: digit i is 1 with probability 1 / (1 + e^{r 2^i}). So each digit
below 2^K takes one 64-bit word, compared with the first 64 bits of that probability; what lies above is 2^K times
another geometric number, zero unless one more word says otherwise (probability e^{-r 2^K}, below 2^-23). If a word
*equals* the first 64 bits, the next 64 bits decide with the next word, and so on: the law is exact, the support is all
integers, and no float decides anything. The rate r is a fraction.

Where words come from is an argument: the operating system (:func:`from_entropy`), a secret (:func:`from_secret`, so
that a retry repeats its noise), or a generator (:func:`from_generator`, for simulation). Words of the operating system
are read as they are needed: 8 bits first, the other 56 where these equal the first 8 of the probability.

Knows rates and words. Knows no counts and no positions.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, Integers, on_all_cores
from ..errors import InvalidInput
from ..protocol.keys import SECRET_BYTES, derive

Bits = npt.NDArray[np.uint64]

_WORD = 64
_FIXED, _DIGITS = 192, 60  # bits, and decimal digits, that thresholds are computed with
_TAIL = 16  # K is the least with r 2^K at least this
_ROWS = 1 << 15
_REST = np.uint64(56)  # bits of a word after its head
_TABLE = 1 << 18
_NOTHING = np.empty((0, 2), dtype=np.int64)
_LABEL = b"semilocal/1/pooled-noise"


class Words(Protocol):
    """Uniform 64-bit words, a stream for each row."""

    def __call__(self, rows: Integers, start: int, count: int) -> Bits:
        """Words ``start`` to ``start + count`` of the rows' streams: uint64[len(rows), count]."""


class Fresh(NamedTuple):
    """Words that nobody can ask for again, so that a part of one may be left unread."""

    read: Callable[[int], bytes]

    def __call__(self, rows: Integers, start: int, count: int) -> Bits:
        """Whole words."""
        return np.frombuffer(self.read(8 * len(rows) * count), dtype=np.uint64).reshape(len(rows), count)

    def heads(self, rows: int, count: int) -> npt.NDArray[np.uint8]:
        """The first 8 bits of words: uint8[rows, count]."""
        return np.frombuffer(self.read(rows * count), dtype=np.uint8).reshape(rows, count)


def from_entropy(read: Callable[[int], bytes]) -> Fresh:
    """Fresh words of a source of secret bytes, such as ``os.urandom``."""
    return Fresh(read)


def from_generator(rng: np.random.Generator) -> Words:
    """Words of a seeded generator. For simulation: its results must be marked."""

    def words(rows: Integers, start: int, count: int) -> Bits:
        return rng.integers(0, 2**64, size=(len(rows), count), dtype=np.uint64, endpoint=False)

    return words


def from_secret(secret: bytes, context: bytes, cells: Bits) -> Words:
    """Words that only the holder of the 32 bytes of a secret can tell; the same context and cell give the same words.

    The context is everything but the cell, uint64[m], that a row's noise belongs to: task, level, purpose, accepted
    set. Of one length, or made so that no two contexts and cells join to the same bytes.
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
    """Independent discrete Laplace draws: int64[m]. The rate of each is its ``units``, int64[m] of at least 1, times
    that of one unit.

    Examples
    --------
    >>> noise = draw(Fraction(1, 1000), np.array([500] * 4), from_generator(np.random.default_rng(0)))
    >>> noise.dtype, len(noise)
    (dtype('int64'), 4)
    """
    if unit <= 0 or units.ndim != 1 or (units < 1).any():
        raise InvalidInput(f"rates must be above 0; got {unit} times {units.min(initial=1)} units at least")
    out = np.empty(len(units), dtype=np.int64)

    def work(begin: int) -> None:
        rows = np.arange(begin, min(begin + _ROWS, len(units)))
        out[rows] = _draw(unit, units[rows], rows, words)

    starts = range(0, len(units), _ROWS)
    if isinstance(words, Fresh):
        on_all_cores(work, starts)
    else:
        for begin in starts:  # a seeded generator has one order
            work(begin)
    return out


def variance(unit: Fraction, units: npt.ArrayLike) -> Floats:
    """Exact variance of a draw, 2 q / (1 - q)^2 with q = e^{-rate}: float64[m]."""
    half = np.sinh(np.asarray(units, dtype=np.float64) * float(unit) / 2)
    return np.asarray(1 / (2 * half * half))


def _draw(unit: Fraction, units: Integers, rows: Integers, words: Words) -> Integers:
    """The two geometric numbers of each row from words 2 i and 2 i + 1 of its stream: first the tail's, then digits."""
    different, which = _different(units)
    known = [_limits(unit.numerator, unit.denominator, number) for number in different.tolist()]
    lengths = np.array([len(limits) for limits in known])
    table = np.zeros((len(known), int(lengths.max())), dtype=np.uint64)
    for place, limits in enumerate(known):
        table[place, : len(limits)] = limits
    hit, found = _compare(words, rows, table, which)
    worth = np.zeros(table.shape[1], dtype=np.int64)  # of a digit that is 1, of the first number less the second
    worth[2::2] = np.int64(1) << np.arange(len(worth) // 2 - 1)
    worth[3::2] = -worth[2::2]
    out: Integers = hit @ worth
    # What one word does not settle: the tail, which is geometric too, and words that equal the first 64 bits.
    found = np.concatenate([found, np.argwhere(hit[:, :2])]) if hit[:, :2].any() else found
    for place, i, side in sorted((column // 2, row, column % 2) for row, column in found.tolist()):
        if 2 * place >= lengths[which[i]]:  # nothing there: its digits ended before
            continue
        rate, success = unit * int(units[i]), bool(hit[i, 2 * place + side])
        more = _scalar_words(words, int(rows[i]), 2 * (_WORD + 2) + 2 * _WORD * (2 * place + side))
        one = (-1 if side else 1) << (place - 1 if place else digits_below(rate))
        if not success and (success := _below(rate, place, 1, more)) and place:
            out[i] += one
        while place == 0 and success:  # one more for every success
            out[i] += one
            success = _below(rate, 0, 0, more)
    return out


def _different(units: Integers) -> tuple[Integers, Integers]:
    """As ``np.unique`` with ``return_inverse``, without a sort where the largest number is small."""
    if (most := int(units.max())) > _TABLE:
        different, which = np.unique(units, return_inverse=True)
        return different, which
    present = np.zeros(most + 1, dtype=np.int64)
    present[units] = 1
    return np.flatnonzero(present), (np.cumsum(present) - 1).take(units)


def _compare(words: Words, rows: Integers, table: Bits, which: Integers) -> tuple[Flags, Integers]:
    """Which words are below the limits ``table[which]``, bool[m, k]; where they are equal to them, int64[e, 2]."""
    if not isinstance(words, Fresh):
        word, limit = words(rows, 0, table.shape[1]), table.take(which, axis=0)
        equal = word == limit
        return word < limit, np.argwhere(equal) if equal.any() else _NOTHING
    first = (table >> _REST).astype(np.uint8).take(which, axis=0)
    head = words.heads(*first.shape)
    hit = head < first
    place = np.flatnonzero(head == first)
    row, column = np.divmod(place, first.shape[1])
    rest = words(rows[row], 0, 1)[:, 0] & ((np.uint64(1) << _REST) - np.uint64(1))
    word, limit = head.ravel()[place].astype(np.uint64) << _REST | rest, table[which[row], column]
    hit.ravel()[place] = word < limit
    return hit, np.stack([row, column], axis=1)[word == limit]


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
    least = -(-_TAIL * rate.denominator // rate.numerator)  # that 2^K must reach
    return (least - 1).bit_length()


@lru_cache(maxsize=4096)
def _limits(numerator: int, denominator: int, units: int) -> Bits:
    """Thresholds of a rate in units, each twice, for the two numbers of a draw: uint64[2 K + 2]."""
    return np.repeat(thresholds(Fraction(numerator, denominator) * units), 2)


def thresholds(rate: Fraction) -> Bits:
    """First 64 bits of the tail's probability and of those of the K digits: uint64[K + 1].

    Powers of 1/e are integers over 2^192, each the square of the one before. Where the error that this leaves could
    change the last bit, it is computed by itself.
    """
    length, one = digits_below(rate), 1 << _FIXED
    with decimal.localcontext() as context:
        context.prec = _DIGITS
        power = int((-decimal.Decimal(rate.numerator) / decimal.Decimal(rate.denominator)).exp() * one)
    error, found = 8, list[int]()
    for place in range(length):
        low, high = max(power - error, 0), power + error
        digit = (low << _WORD) // (one + low)
        sure = (digit + 1) * (one + high) > high << _WORD  # the same for the largest that it can be
        found.append(digit if sure else block_of(rate, place + 1, 0))
        power, error = power * power >> _FIXED, 2 * error + 2  # a square has twice the error, and is rounded down
    tail, most = max(power - error, 0) >> _FIXED - _WORD, power + error >> _FIXED - _WORD
    return np.array([tail if tail == most else block_of(rate, 0, 0), *found], dtype=np.uint64)


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
