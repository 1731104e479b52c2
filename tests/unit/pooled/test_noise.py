"""Discrete Laplace noise has its exact law: digit by digit, tie by tie, and from any source of words."""

from __future__ import annotations

import decimal
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


class Secrets:
    """Bytes that a test chooses: heads of words, then the rest of words whose heads were equal, then whole words."""

    def __init__(self, heads: dict[int, int], words: list[int], columns: int) -> None:
        self.heads = np.full(columns, 2**8 - 1, dtype=np.uint8)
        self.heads[list(heads)] = list(heads.values())
        self.words = words

    def __call__(self, size: int) -> bytes:
        if size == self.heads.nbytes:
            return self.heads.tobytes()
        some, self.words = self.words[: size // 8], self.words[size // 8 :]
        return np.array(some, dtype=np.uint64).tobytes()


def test_a_word_of_the_operating_system_is_read_as_far_as_it_decides() -> None:
    rate, place = Fraction(1, 10), 2
    columns = 2 * (noise.digits_below(rate) + 1)
    first, second = (noise.block_of(rate, place, block) for block in range(2))
    head, rest = divmod(first, 2**56)

    def drawn(heads: dict[int, int], *words: int) -> int:
        secrets = Secrets({2 * place: heads[0]}, list(words), columns)
        found = int(noise.draw(rate, np.array([1]), noise.from_entropy(secrets))[0])
        assert not secrets.words  # read as far as needed, and no further
        return found

    assert drawn({0: head - 1}) == 2
    assert drawn({0: head + 1}) == 0
    assert drawn({0: head}, rest - 1) == 2
    assert drawn({0: head}, rest + 1) == 0
    assert drawn({0: head}, (7 << 56) + rest - 1) == 2  # the first 8 bits of the second reading are not used
    assert drawn({0: head}, rest, second - 1) == 2
    assert drawn({0: head}, rest, second + 1) == 0


def test_short_words_give_what_whole_words_give() -> None:
    """Every draw that whole words give, from the same bits; a head that is taken for the whole word would not."""
    units, rng = np.resize(np.array([1, 3, 40]), 6000), np.random.default_rng(1)
    columns = 2 * (noise.digits_below(Fraction(1, 64)) + 1)
    word = rng.integers(0, 2**64, (len(units), columns), dtype=np.uint64)
    limits = noise.thresholds(Fraction(1, 64))
    for row, limit in enumerate(limits[1:], 1):  # more than chance makes, and close
        word[3 * row, 2 * row : 2 * row + 2] = limit + np.array([1, -1]).astype(np.uint64)
    heads = (word >> np.uint64(56)).astype(np.uint8)

    def read(size: int) -> bytes:
        if size == heads.nbytes:
            return heads.tobytes()
        table = np.zeros((3, columns), dtype=np.uint64)
        for place, number in enumerate((1, 3, 40)):
            known = np.repeat(noise.thresholds(Fraction(number, 64)), 2)
            table[place, : len(known)] = known
        equal = heads == (np.resize(table, (len(units), columns)) >> np.uint64(56))
        assert size == 8 * np.count_nonzero(equal)
        return bytes(word[equal].tobytes())

    def whole(rows: npt.NDArray[np.int64], start: int, count: int) -> Words:
        return word[rows, start : start + count]

    expected = noise.draw(Fraction(1, 64), units, whole)
    assert noise.draw(Fraction(1, 64), units, noise.from_entropy(read)).tolist() == expected.tolist()


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
