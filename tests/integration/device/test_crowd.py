"""Sharing the check of a closing changes nothing but the time it takes."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from semilocal import Box, Closed, Curator, Participant, Task
from semilocal.device.swarm.verdict_cache import SharedParticipant, Verdicts
from semilocal.errors import ServerViolation
from semilocal.protocol.curator import count_reports
from semilocal.protocol.participant import State
from semilocal.testing import ALLOW_ALL

BOX = Box((0, 0), (1, 1))
TASKS = [
    Task.build(BOX, epsilon=6.0, delta=0.1, k=2, max_depth=6),
    Task.build(BOX, epsilon=4.0, delta=0.1, k=3, rule="all", max_depth=6),
    Task.build(BOX, epsilon=6.0, delta=0.1, k=2, rule="each", max_depth=5),
    Task.build(BOX, epsilon=6.0, delta=0.1, k=2, tree="quad", max_depth=3),
    Task.build(BOX, epsilon=6.0, delta=0.1, k=2, max_depth=6, max_rounds=3),
]


class Careless(Verdicts):
    """The planted bug: forgets that different children go different ways."""

    def get(self, key: tuple[object, ...]) -> State | None:
        return super().get(key[:-1])

    def put(self, key: tuple[object, ...], state: State) -> None:
        super().put(key[:-1], state)


def differences(task: Task, verdicts: Verdicts) -> int:
    """States in which a crowd that shares its checks differs from one that does not."""
    rng = np.random.default_rng(4)
    points = np.clip(rng.normal(0.4, 0.15, (36, 2)), 0, 1)
    secrets = [rng.bytes(32) for _ in points]
    alone = [Participant(task, x, s, ALLOW_ALL) for x, s in zip(points, secrets, strict=True)]
    shared = [SharedParticipant(task, x, s, ALLOW_ALL, verdicts=verdicts) for x, s in zip(points, secrets, strict=True)]
    curator, found, moved = Curator(task), 0, False
    while (query := curator.query()) is not None:
        reports = [p.receive(query) for p in alone if p.state.phase == "waiting"]
        for participant in shared:
            if participant.state.phase == "waiting":
                try:
                    participant.receive(query)
                except ServerViolation:
                    found += 1
        closed = curator.close(*count_reports(curator, [r for r in reports if r is not None]))
        for one, other in zip(alone, shared, strict=True):
            one.receive(closed)
            try:
                other.receive(closed)
            except (ServerViolation, ValueError):
                found += 1
            found += one.state != other.state
            moved |= one.moves > 0
    if task.rule == "trim" and task.randomizer.fanout == 2 and task.max_rounds > 3:
        assert moved
    return found


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.rule}-{task.hierarchy.fanout}-{task.max_rounds}")
def test_a_crowd_that_shares_its_checks_reaches_the_same_states(task: Task) -> None:
    assert differences(task, Verdicts()) == 0
    assert differences(task, Verdicts(size=1)) == 0
    assert differences(task, Careless()) > 0


def test_a_wrong_verdict_is_refused_by_everybody_even_if_a_right_one_is_known() -> None:
    task, verdicts = TASKS[0], Verdicts()
    crowd = [SharedParticipant(task, (0.3, 0.3), bytes([n]) * 32, ALLOW_ALL, verdicts=verdicts) for n in range(40)]
    query = Curator(task).query()
    assert query is not None
    for participant in crowd:
        participant.receive(query)
    right = Closed(task.id, 1, (1,), (40,), ((20, 20),), ((0, 1),))
    crowd[0].receive(right)
    for wrong in (msgspec.structs.replace(right, kept=((0,),)), msgspec.structs.replace(right, tally=((40, 0),))):
        for participant in crowd[1:]:
            with pytest.raises(ServerViolation, match="wrong-verdict"):
                participant.receive(wrong)
