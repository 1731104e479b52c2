"""Sharing what is public changes nothing but the time it takes."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from semilocal.errors import ServerViolation
from semilocal.geometry.box import Box
from semilocal.protocol.curator import Curator
from semilocal.protocol.keys import HashChain
from semilocal.protocol.messages import Closed, Query, Report
from semilocal.protocol.participant import Participant
from semilocal.protocol.region import Path
from semilocal.protocol.task import Task
from semilocal.testing import ALLOW_ALL

BOX = Box((0, 0), (1, 1))
CHAIN = HashChain(bytes(32), 200)
TASKS = [
    Task.build(BOX, epsilon=2.0, delta=0.1, k=2, max_depth=12, max_rounds=200, chain=CHAIN.end),
    Task.build(BOX, epsilon=4.0, delta=0.1, k=2, max_depth=12, max_rounds=200, chain=CHAIN.end),
    Task.build(BOX, epsilon=4.0, delta=0.1, k=3, rule="all", max_depth=6, max_rounds=200, chain=CHAIN.end),
    Task.build(BOX, epsilon=6.0, delta=0.1, k=2, rule="all", tree="quad", max_depth=3, max_rounds=200, chain=CHAIN.end),
]


class Careless(Path):
    """The planted bug: forgets that different parts go different ways."""

    __slots__ = ()

    def close(self, closed: Closed, reports: object) -> tuple[Path, ...]:
        following = super().close(closed, reports)  # type: ignore[arg-type]
        for one in following:
            one.region = self.task.hierarchy.ends
        return following[:1]


def differences(task: Task, root: Path) -> int:
    """Reports in which a crowd that shares what is public differs from one that does not."""
    rng = np.random.default_rng(4)
    points = np.clip(rng.normal(0.4, 0.15, (60, 2)), 0, 1)
    secrets = [rng.bytes(32) for _ in points]
    alone = [Participant(task, x, s, ALLOW_ALL) for x, s in zip(points, secrets, strict=True)]
    shared = [Participant(task, x, s, ALLOW_ALL, path=root) for x, s in zip(points, secrets, strict=True)]
    curator, found = Curator(task, chain=CHAIN), 0
    while not curator.partitioned:
        query = curator.query()
        assert isinstance(query, Query)
        reports = [one.answer(query) for one in alone]
        for other, report in zip(shared, reports, strict=True):
            try:
                found += other.answer(query) != report
            except ServerViolation:
                found += 1
        closed = curator.close([report for report in reports if report is not None])
        assert isinstance(closed, Closed)
        slices = {one.region: one for one in curator.slices}
        for one, other in zip(alone, shared, strict=True):
            one.close(closed, slices.get(one.path.region))
            try:
                other.close(closed, slices.get(other.path.region))
            except (ServerViolation, StopIteration):
                found += 1
            found += one.state != other.state
    assert len({one.region for one in alone}) > 1
    return found


@pytest.mark.parametrize("task", TASKS, ids=["cut", "two answers", "all", "quad"])
def test_a_crowd_that_shares_what_is_public_says_the_same(task: Task) -> None:
    assert differences(task, Path(task)) == 0
    assert differences(task, Careless(task)) > 0


def test_a_wrong_closing_is_refused_by_everybody_even_if_a_right_one_is_known() -> None:
    task = TASKS[0]
    root = Path(task)
    crowd = [Participant(task, (0.3, 0.3), bytes([n]) * 32, ALLOW_ALL, path=root) for n in range(40)]
    curator = Curator(task, chain=CHAIN)
    query = curator.query()
    assert isinstance(query, Query)
    reports = [one.answer(query) for one in crowd]
    assert all(isinstance(report, Report) for report in reports)
    right = curator.close([report for report in reports if report is not None])
    assert isinstance(right, Closed)
    (everybody,) = curator.slices
    crowd[0].close(right, everybody)
    wrong = msgspec.structs.replace(right, finished=True)
    fewer = msgspec.structs.replace(everybody, entries=everybody.entries[1:])
    for one in crowd[1:]:
        with pytest.raises(ServerViolation, match="changed-closing"):
            one.close(wrong, everybody)
        with pytest.raises(ServerViolation, match="wrong-slice"):
            one.close(right, fewer)
        one.close(right, everybody)
    assert {one.round for one in crowd} == {2}
