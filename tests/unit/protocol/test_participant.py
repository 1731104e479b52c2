"""The device's machine: what it answers, and that no server gets more than it may.

Every refusal by its token is in spec/vectors/refusals.json, which test_vectors.py replays.

A device may refuse (``ServerViolation``, or ``InvalidInput`` for bytes that are no message). It must never crash in
another way, answer what its owner forbids, or answer one question in two ways. Seeds are fixed, so nothing is left to
chance.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from semilocal.errors import InvalidInput, ServerViolation
from semilocal.protocol.keys import HashChain
from semilocal.protocol.messages import AnyReport, Query, Report
from semilocal.protocol.participant import Participant
from semilocal.protocol.policy import Policy
from semilocal.protocol.region import Path
from semilocal.protocol.task import Task
from semilocal.testing import ALLOW_ALL, Played, cluster, participants_at, play, secret, unit_box

CHAIN = HashChain(bytes(range(32)), 300)
OPTIONS: dict[str, Any] = {"delta": 0.1, "k": 3, "max_rounds": 300, "chain": CHAIN.end}
ONE = Task.build(unit_box(), epsilon=2.0, max_depth=12, **OPTIONS)
TWO = Task.build(unit_box(), epsilon=4.0, max_depth=12, **OPTIONS)
SIZE = 80
POINTS = cluster(SIZE)
VICTIM = 50


def played(task: Task = ONE, **options: Any) -> Played:
    return play(task, participants_at(task, POINTS, plan=options.get("plan")), chain=CHAIN, **options)


def device(task: Task = ONE, policy: Policy = ALLOW_ALL, number: int = VICTIM, **options: Any) -> Participant:
    return Participant(task, POINTS[number], secret(number), policy, **options)


# -- away, late, silent ----------------------------------------------------------------------------------------------


def test_who_enrols_late_is_assigned_a_region_and_counted_nowhere() -> None:
    late = played(answers=lambda number, who: who != VICTIM or number > 5)
    one = late.participants[VICTIM]
    assert late.curator.home[one.pseudonym] == one.region
    assert one.log.members[one.pseudonym]  # late
    partition = late.curator.partition
    assert (partition.people, int(partition.late.sum())) == (SIZE - 1, 1)
    for row in late.rounds:  # it answers where nothing is decided, if at all
        assert isinstance(row.query, Query)
        for question in row.query.questions:
            answered = [one for one in row.reports if isinstance(one, Report) and one.region == question.region]
            if question.decides:
                assert not any(report.pseudonym == one.pseudonym and report.answer is not None for report in answered)


# -- the owner's limits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "depth"), [((0.3,), None), ((0.6, 0.01), None), ((), 3), ((), None)], ids=["0.3", "two", "depth", "none"]
)
def test_a_server_that_makes_up_the_crowd_leads_a_device_no_further_than_its_owner_allows(
    least: tuple[float, ...], depth: int | None
) -> None:
    """All others are the server's, and are wherever it likes: A answers inside, and never a smaller region."""
    policy = msgspec.structs.replace(ALLOW_ALL, min_side=least, max_depth=depth)
    for task in (ONE, TWO):
        rng, path = np.random.default_rng(3), Path(task)
        fakes = [Participant(task, POINTS[0], secret(1000 + n), ALLOW_ALL, path=path) for n in range(400)]
        victim = device(task, policy)
        named: list[tuple[int, int]] = []
        inside: list[int] = []

        def deliver(
            one: Participant, query: Any, victim: Participant = victim, named: list[Any] = named,
            inside: list[int] = inside, rng: np.random.Generator = rng,
        ) -> AnyReport | None:  # fmt: skip
            if one is not victim:
                one._code = int(rng.integers(*one.path.region))  # it has no place
                return one.receive(query)
            try:
                report = one.receive(query)
            except ServerViolation:
                assert one.state.stopped
                return None
            named.extend([] if report is None else [report.region])
            inside.append(victim.inside)
            return report

        play(task, [*fakes, victim], chain=CHAIN, deliver=deliver)
        regions = np.array(named, dtype=np.uint64)
        assert least or len(set(named)) > 1
        assert max(inside) <= task.answers
        if least:
            assert (task.hierarchy.interval_sides(*regions.T) >= np.array(least) * (1 - 1e-9)).all()
        if depth is not None:
            assert task.hierarchy.depth(task.hierarchy.largest_cells(*regions.T)).max() <= depth
        assert bool(victim.state.stopped) == bool(least or depth)


@pytest.mark.parametrize("place", [("13.377713", 0.5), ("13.377713 E", 0.5), (13.377713, 0.5), (math.inf, 13.377713)])
def test_a_position_that_is_refused_is_not_repeated(place: Any) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Participant(ONE, place, secret(1), ALLOW_ALL)
    assert "377713" not in str(refusal.value)
