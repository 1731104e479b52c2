"""Discrete Laplace noise has its exact law: digit by digit, tie by tie, and from any source of words."""

from __future__ import annotations

import decimal
import os
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from semilocal.errors import InvalidInput
from semilocal.pooled import noise

RATES = [Fraction(1, 1000), Fraction(3, 10), Fraction(1), Fraction(7), Fraction(0.1)]
WORD = 2**64
Words = npt.NDArray[np.uint64]


def chance(rate: Fraction, place: int) -> decimal.Decimal:
    """A probability from its first four words."""
    blocks = [noise.block_of(rate, place, block) for block in range(4)]
    return sum((decimal.Decimal(word) / WORD ** (i + 1) for i, word in enumerate(blocks)), decimal.Decimal(0))


@pytest.mark.parametrize("rate", [*RATES, Fraction(40), Fraction(1, 10**13), Fraction(977, 2048)])
def test_thresholds_from_squares_are_those_computed_one_by_one(rate: Fraction) -> None:
    places = range(noise.digits_below(rate) + 1)
    assert noise.thresholds(rate).tolist() == [noise.block_of(rate, place, 0) for place in places]


@pytest.mark.parametrize("rate", RATES)
def test_digits_and_tail_together_are_a_geometric_number(rate: Fraction) -> None:
    with decimal.localcontext() as context:
        context.prec = 80
        q = (-decimal.Decimal(rate.numerator) / decimal.Decimal(rate.denominator)).exp()
        length = noise.digits_below(rate)
        tail = chance(rate, 0)
        digits = [chance(rate, place + 1) for place in range(length)]
        for value in {0, 1, 2, 3, 2**length - 1, 2**length, 5 * 2**length + 1} | set(range(min(64, 2**length))):
            above, low = divmod(value, 2**length)
            product = tail**above * (1 - tail)
            for place, digit in enumerate(digits):
                product *= digit if low >> place & 1 else 1 - digit
            expected = (1 - q) * q**value
            assert abs(product - expected) <= expected * decimal.Decimal(10) ** -50


def test_a_planted_digit_of_the_wrong_rate_is_seen() -> None:
    assert noise.block_of(Fraction(1), 1, 0) != noise.block_of(Fraction(1, 2), 1, 0)
    with decimal.localcontext() as context:
        context.prec = 40
        exact = 1 / (1 + decimal.Decimal(1).exp()) * WORD
        assert noise.block_of(Fraction(1), 1, 0) == int(exact)


class Script:
    """Words that a test chooses: by place in the stream, all others the largest."""

    def __init__(self, chosen: dict[int, int]) -> None:
        self.chosen = chosen
        self.asked: list[int] = []

    def __call__(self, rows: npt.NDArray[np.int64], start: int, count: int) -> Words:
        places = range(start, start + count)
        self.asked += places if count == 1 else []
        row = [self.chosen.get(place, WORD - 1) for place in places]
        return np.array([row] * len(rows), dtype=np.uint64)


def one(rate: Fraction, script: Script) -> int:
    return int(noise.draw(rate, np.array([1]), script)[0])


def test_each_word_is_one_digit_of_one_of_two_geometric_numbers() -> None:
    rate = Fraction(1, 10)
    assert one(rate, Script({})) == 0
    for place in range(noise.digits_below(rate)):
        low = noise.block_of(rate, place + 1, 0) - 1
        assert one(rate, Script({2 * (place + 1): low})) == 2**place
        assert one(rate, Script({2 * (place + 1) + 1: low})) == -(2**place)
        assert one(rate, Script({2 * (place + 1): low + 2})) == 0


def test_an_equal_word_is_decided_by_the_next_words() -> None:
    rate, place = Fraction(1, 10), 2
    first, second, third = (noise.block_of(rate, place, block) for block in range(3))
    start = 2 * 66 + 128 * (2 * place)
    tie = {2 * place: first}
    assert one(rate, Script({**tie, start: second - 1})) == 2
    assert one(rate, Script({**tie, start: second + 1})) == 0
    assert one(rate, Script({**tie, start: second, start + 1: third - 1})) == 2
    assert one(rate, Script({**tie, start: second, start + 1: third + 1})) == 0


def test_the_tail_has_no_end() -> None:
    rate = Fraction(2)
    step = 2 ** noise.digits_below(rate)
    start = 2 * 66
    script = Script({0: 0, start: 0, start + 1: 0, start + 2: WORD - 1})
    assert one(rate, script) == 3 * step
    assert script.asked == [start, start + 1, start + 2]
    first, second = noise.block_of(rate, 0, 0), noise.block_of(rate, 0, 1)
    assert one(rate, Script({0: first, start: second - 1, start + 1: WORD - 1})) == step
    assert one(rate, Script({0: first, start: second + 1})) == 0


def test_a_secret_repeats_its_noise_for_a_cell_and_for_nothing_else() -> None:
    secret, cells = bytes(32), np.arange(2, 402, dtype=np.uint64)
    units = np.resize(np.array([3, 50, 900]), 400)

    def drawn(secret: bytes, context: bytes, cells: Words, units: npt.NDArray[np.int64]) -> list[int]:
        return [int(one) for one in noise.draw(Fraction(1, 2048), units, noise.from_secret(secret, context, cells))]

    first = drawn(secret, b"task/0", cells, units)
    assert drawn(secret, b"task/0", cells, units) == first
    order = np.random.default_rng(1).permutation(400)[:100]  # a retry may ask for fewer, in another order
    assert drawn(secret, b"task/0", cells[order], units[order]) == [first[place] for place in order]
    for other in (
        drawn(secret, b"task/1", cells, units),
        drawn(b"\1" * 32, b"task/0", cells, units),
        drawn(secret, b"task/0", cells + np.uint64(1000), units),
    ):
        assert sum(a == b for a, b in zip(first, other, strict=True)) < 100
    with pytest.raises(InvalidInput, match="32 bytes"):
        noise.from_secret(b"short", b"", cells)


def test_words_of_the_operating_system_are_used_in_full() -> None:
    asked = []

    def read(size: int) -> bytes:
        asked.append(size)
        return os.urandom(size)

    noise.draw(Fraction(1, 4), np.ones(1000, dtype=np.int64), noise.from_entropy(read))
    assert asked[0] == 8 * 1000 * 2 * (noise.digits_below(Fraction(1, 4)) + 1)


@pytest.mark.parametrize("rate", RATES)
def test_the_variance_is_that_of_the_law(rate: Fraction) -> None:
    values = np.arange(-40_000, 40_001)
    weights = np.exp(-float(rate) * np.abs(values))
    expected = float(np.sum(weights * values.astype(float) ** 2) / np.sum(weights))
    assert noise.variance(rate, [1])[0] == pytest.approx(expected, rel=1e-9)


def test_rates_that_are_not_above_zero_are_refused() -> None:
    words = noise.from_generator(np.random.default_rng(0))
    for unit, units in ((Fraction(0), 1), (Fraction(1), 0), (Fraction(-1), 1)):
        with pytest.raises(InvalidInput, match="above 0"):
            noise.draw(unit, np.array([units]), words)
