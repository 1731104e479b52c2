"""Rounds of values: what a plan may ask, what a device gives and refuses, and that a retry changes no byte."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from semilocal.errors import InvalidInput, ServerViolation
from semilocal.protocol.clip import unit_value
from semilocal.protocol.keys import HashChain, value_entropy
from semilocal.protocol.messages import Clip, ValueQuery, ValueReport, encode
from semilocal.protocol.participant import Participant
from semilocal.protocol.plan import Plan, Release
from semilocal.protocol.task import Task
from semilocal.testing import ALLOW_ALL, participants_at, play, secret, unit_box
from tests.helpers.away import read_log

CHAIN = HashChain(bytes(32), 8)
TASK = Task.build(unit_box(), epsilon=1.0, max_rounds=8, chain=CHAIN.end)
MEAN = Release.ask("mean", "coordinate", epsilon=1.0, parameters=[0])
SECOND = Release.ask("values", "linear", epsilon=0.5, parameters=[0.0, 1.0, 2.0])
PLAN = Plan(TASK.id, (MEAN, Release("counts"), SECOND))
FARES = Plan(TASK.id, (Release.ask("mean", "own:fare", epsilon=1.0, parameters=[0, 100]),))
HOME = [0.1, 0.3]
# Eleven people are no crowd: the map is one region, after round 1.
MAP = play(TASK, participants_at(TASK, np.array([HOME] * 11)), chain=CHAIN)
REGION = TASK.hierarchy.ends
replace = msgspec.structs.replace


def device(plan: Plan = PLAN, *, number: int = 0, point: list[float] = HOME, **options: Any) -> Participant:
    """A device when the map is finished."""
    one = Participant(TASK, point, secret(number), ALLOW_ALL, plan=plan, **options)
    if one.region is None:
        one.answer(MAP.queries[0])
    assert read_log(one, MAP.rounds).partitioned
    return one


def asks(plan: Plan = PLAN, index: int = 0, low: float = 0.0, high: float = 1.0) -> ValueQuery:
    """A round of values whose server clips to a range."""
    round_ = len(MAP.rounds) + 1 + plan.asked.index(index)
    return ValueQuery(TASK.id, round_, plan.digest, index, (Clip(*REGION, low, high),))


def given(one: Participant, query: ValueQuery) -> ValueReport:
    report = one.receive(query)
    assert isinstance(report, ValueReport)
    assert (report.pseudonym, report.region, report.round) == (one.pseudonym, REGION, query.round)
    return report


# -- what a device gives ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.05, 0.2), (0.4, 0.9), (-5.0, 0.05), (0.1, 0.1)])
def test_a_value_is_clipped_to_the_public_range_and_goes_through_the_mechanism(low: float, high: float) -> None:
    """For 11 secrets. Planted bug: the range of the domain in place of the clip gives other answers."""
    mechanism = MEAN.mechanism
    assert mechanism is not None
    found, wrong = [], []
    for number in range(11):
        words = value_entropy(secret(number), TASK.id, PLAN.digest, 0, REGION)
        answer = given(device(number=number), asks(low=low, high=high)).answer
        assert answer == mechanism.release_one(unit_value(HOME[0], low, high), words)
        found.append(answer)
        wrong.append(mechanism.release_one(HOME[0], words))
    assert (found == wrong) == ((low, high) == (0.0, 1.0))


def test_whatever_the_range_is_two_places_differ_by_epsilon_at_the_most() -> None:
    """By the mechanism's exact weights. Planted bug: without clipping, inputs leave [0, 1] and are refused."""
    mechanism = MEAN.mechanism
    assert mechanism is not None
    for low, high in ((0.0, 1.0), (0.3, 0.4), (-9.0, 0.2), (0.5, 0.5)):
        units = [unit_value(x, low, high) for x in np.linspace(0.0, 1.0, 21).tolist()]
        weights = np.array([mechanism.probabilities(unit) for unit in units], dtype=object)
        assert math.log(max(max(column) / min(column) for column in weights.T)) <= 1.0 + 1e-12
    with pytest.raises(InvalidInput):
        mechanism.probabilities((0.5 - 0.3) / (0.4 - 0.3))


def test_a_retry_and_a_restart_give_the_same_bytes_and_cost_nothing_more() -> None:
    one = device()
    queries = [asks(), asks(index=2)]
    first = [encode(given(one, query)) for query in queries]
    assert one.spent == PLAN.epsilon == 1.5
    assert [index for index, _ in one.state.values] == list(PLAN.asked)
    again = device(state=one.state)
    for late in (one, again, device()):
        assert [encode(given(late, query)) for query in [*queries, *queries]] == first * 2
        assert (late.spent, late.state) == (one.spent, one.state)


def test_an_own_value_is_given_wherever_its_owner_is() -> None:
    mechanism = FARES.releases[0].mechanism
    assert mechanism is not None
    words = value_entropy(secret(0), TASK.id, FARES.digest, 0, REGION)
    query = asks(FARES, high=100.0)
    for value in (0.0, 12.5, 100.0):
        reports = {given(device(FARES, point=point, value=value), query) for point in (HOME, [0.9, 0.9])}
        assert [report.answer for report in reports] == [mechanism.release_one(value / 100, words)]


# -- what it refuses -------------------------------------------------------------------------------------------------


def test_nothing_is_given_before_the_map_is_finished() -> None:
    early = Participant(TASK, HOME, secret(0), ALLOW_ALL, plan=PLAN)
    assert early.value(asks()) is None  # it announced no region
    early.answer(MAP.queries[0])
    with pytest.raises(ServerViolation, match="too-early"):
        early.value(asks())
    assert early.state.values == ()


def test_a_stopped_device_and_a_region_that_is_not_asked_give_nothing() -> None:
    stopped = device()
    stopped.state = replace(stopped.state, stopped="its owner's limits")
    other = replace(asks(), clips=(Clip(REGION[0], REGION[1] - 1, 0.0, 1.0),))
    for one, query in ((stopped, asks()), (device(), other)):
        before = one.state
        assert one.value(query) is None
        assert one.state == before


def test_a_device_whose_announcement_was_lost_gives_nothing() -> None:
    """The server would refuse its value, and the loss would be booked for nothing."""
    lost = device(number=len(MAP.participants))
    assert lost.region == REGION
    assert lost.pseudonym not in lost.log.members
    before = lost.state
    assert lost.value(asks()) is None
    assert (lost.state, lost.spent) == (before, 0.0)


@pytest.mark.parametrize("value", [None, -0.1, 100.1, math.nan, math.inf, True, "7"])
def test_an_own_value_outside_its_range_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="fare from 0 to 100"):
        device(FARES, value=value)
