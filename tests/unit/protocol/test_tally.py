"""A tally of parts is the tally of the whole, for every kind of round, and counts nothing that nobody can have sent."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semilocal import DiscreteLaplace, RandomizedResponse
from semilocal.errors import DeviceViolation, InvalidInput
from semilocal.protocol.messages import Report, ValueReport
from semilocal.protocol.tally import RoundTally
from semilocal.randomizer.values.mechanisms import DiscreteLaplaceValue, TwoPoint, best
from tests.helpers.pair import STEADY

CELLS = [4, 5, 7, 2**60]
CHANNELS: dict[str, Any] = {
    "response": RandomizedResponse(1.0, 4),
    "laplace": DiscreteLaplace(2.0, 2),
    "roll call": None,
    "values": best(2.0),
    "values below zero": DiscreteLaplaceValue(1.0, 8),
}


def answer(channel: Any) -> st.SearchStrategy[Any]:
    if channel is None:
        return st.just(())
    if isinstance(channel, DiscreteLaplace):
        low, high = (int(value) for value in channel.alphabet[0][[0, -1]])
        return st.tuples(*[st.integers(low, high)] * channel.fanout)
    return st.sampled_from(range(channel.fanout) if isinstance(channel, RandomizedResponse) else channel.alphabet)


def tally(channel: Any, rows: list[tuple[int, Any]]) -> RoundTally:
    out = RoundTally(CELLS, channel)
    answers = np.array([given for _, given in rows], dtype=np.int64)
    out.add([cell for cell, _ in rows], answers.reshape(len(rows), 0) if channel is None else answers)
    return out


@pytest.mark.parametrize("name", CHANNELS)
@settings(STEADY, max_examples=25)
@given(data=st.data())
def test_merged_parts_are_the_whole_in_any_order(name: str, data: st.DataObject) -> None:
    channel = CHANNELS[name]
    rows = data.draw(st.lists(st.tuples(st.sampled_from(CELLS), answer(channel)), max_size=16))
    mixed = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, len(rows)))
    whole, parts = tally(channel, rows), tally(channel, mixed[:cut])
    parts.merge(tally(channel, mixed[cut:]))
    for one, other in zip(whole.close(), parts.close(), strict=True):
        np.testing.assert_array_equal(one, other)
    responders, sums = whole.close()
    assert responders.tolist() == [sum(cell == place for cell, _ in rows) for place in CELLS]
    if name.startswith("values"):
        plain = Counter((CELLS.index(cell), told) for cell, told in rows)
        assert sums.tolist() == [[row, output, plain[row, output]] for row, output in sorted(plain)]
    elif channel is not None:
        expected = np.zeros((len(CELLS), channel.fanout), dtype=np.int64)
        for cell, given_ in rows:
            expected[CELLS.index(cell)] += (
                np.eye(channel.fanout, dtype=np.int64)[given_] if name == "response" else given_
            )
        np.testing.assert_array_equal(sums, expected)


@pytest.mark.parametrize("cell", [1, 6, 2**64 - 1])
def test_a_cell_that_is_not_asked_about_is_refused_and_nothing_is_counted(cell: int) -> None:
    for cells in (CELLS, []):
        counted = RoundTally(cells, RandomizedResponse(1.0, 2))
        with pytest.raises(DeviceViolation) as caught:
            counted.add([*cells[:1], cell], [0] * len([*cells[:1], cell]))
        assert caught.value.token == "unknown-cell"
        assert not counted.close()[0].any()


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("response", [4]), ("response", [-1]), ("response", [[0, 1]]), ("response", np.empty((1, 0), dtype=np.int64)),
        ("laplace", [[10**6, 0]]), ("laplace", [[0]]), ("laplace", [1]),
        ("roll call", [0]), ("roll call", [[0, 0]]),
        ("values", [-1]), ("values", [10**6]), ("values", [[0]]), ("values below zero", [-(10**4)]),
    ],
)  # fmt: skip
def test_an_answer_that_nobody_can_have_given_is_refused_and_nothing_is_counted(name: str, bad: Any) -> None:
    counted = RoundTally(CELLS, CHANNELS[name])
    with pytest.raises(DeviceViolation) as caught:
        counted.add([CELLS[0]], bad)
    assert caught.value.token == "bad-answer"
    assert not counted.close()[0].any()


@pytest.mark.parametrize("name", ["response", "laplace"])
def test_legal_agrees_with_the_check_of_a_single_answer(name: str) -> None:
    channel = CHANNELS[name]
    if name == "response":
        answers: list[Any] = list(range(-3, 8))
    else:
        low, high = (int(value) for value in channel.alphabet[0][[0, -1]])
        answers = [(first, second) for first in (low - 1, low, 0, high, high + 1) for second in (low - 1, 0, high + 1)]

    def legal(one: Any) -> bool:
        try:
            channel.check_answer(one)
        except InvalidInput:
            return False
        return True

    assert RoundTally(CELLS, channel).legal(answers, np.zeros(len(answers), dtype=np.int64)).tolist() == [
        legal(one) for one in answers
    ]
    assert {legal(one) for one in answers} == {True, False}


def test_messages_are_counted_like_arrays() -> None:
    task, name = bytes(32), bytes(16)
    counted = RoundTally(CELLS, TwoPoint(1.0))
    counted.add_reports([ValueReport(task, 9, name, 4, 1), ValueReport(task, 9, name, 4, 1)])
    assert [array.tolist() for array in counted.close()] == [[2, 0, 0, 0], [[0, 1, 2]]]
    present = RoundTally(CELLS, None)
    present.add_reports([Report(task, 3, name, 7, None)])
    present.add_reports([])
    assert present.close()[0].tolist() == [0, 0, 1, 0]
    with pytest.raises(DeviceViolation, match="bad-answer"):
        RoundTally(CELLS, None).add_reports([Report(task, 3, name, 7, None), Report(task, 3, name, 7, 1)])


def test_only_tallies_of_one_round_are_merged() -> None:
    counted = RoundTally(CELLS, TwoPoint(1.0))
    for other in (RoundTally(CELLS[1:], TwoPoint(1.0)), RoundTally(CELLS, TwoPoint(2.0)), RoundTally(CELLS, None)):
        with pytest.raises(InvalidInput, match="same round"):
            counted.merge(other)
    with pytest.raises(InvalidInput, match="one answer per cell"):
        counted.add([4, 5], [1])
