"""The same question gets the same bytes: after a retry, a crash, a restart, and in every order of messages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

import msgspec
import pytest

from semilocal import Closed, Participant, Query, Task
from semilocal.errors import ServerViolation
from semilocal.protocol.messages import AnyClosed, AnyQuery, AnyReport, ValueQuery, encode
from semilocal.protocol.participant import Released, State
from semilocal.protocol.plan import Plan, Release
from semilocal.randomizer.values.mechanisms import DiscreteLaplaceValue
from semilocal.testing import ALLOW_ALL, cluster, participants_at, play, restart, secret, unit_box
from semilocal.transcript.merkle import transcript_root

SIZE = 16
LAPLACE: Final = "discrete-laplace"
TASKS = {
    "response": Task.build(unit_box(2), epsilon=4.0, delta=0.05, k=3, max_depth=5, max_rounds=3, tau=0.4),
    "laplace": Task.build(unit_box(1), epsilon=8.0, delta=0.05, k=3, randomizer=LAPLACE, max_depth=3, tau=0.4),
    "quad": Task.build(unit_box(2), epsilon=4.0, delta=0.05, k=3, tree="quad", max_depth=3, tau=0.45),
    "each": Task.build(unit_box(2), epsilon=4.0, delta=0.05, k=3, rule="each", max_depth=4),
}


Kept = tuple[State, Released]


def stored(participant: Participant) -> Kept:
    """What a device keeps, as a vault gives it back."""
    kept = participant.state, participant.released
    return msgspec.msgpack.decode(msgspec.msgpack.encode(kept), type=tuple[State, Released])


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_retries_and_restarts_at_any_moment_change_no_byte(task: Task) -> None:
    """In rounds of the partition and of values."""
    points = cluster(SIZE, task.box.dimensions)
    plan = Plan(task.id, (Release.ask("mean", "coordinate", epsilon=2.0, parameters=[0]), Release("counts"),
                          Release("values", DiscreteLaplaceValue(2.0, 8), "squared_norm")))  # fmt: skip
    quiet = play(task, participants_at(task, points, plan=plan), plan=plan)
    participants = participants_at(task, points, plan=plan)
    numbers = {participant.pseudonym: number for number, participant in enumerate(participants)}

    def deliver(participant: Participant, message: AnyQuery | AnyClosed) -> AnyReport | None:
        """Every message twice, and to a copy of the device that crashed before, and to one that crashed after."""
        number = numbers[participant.pseudonym]
        before = stored(participant)
        report = participant.receive(message)
        after = stored(participant)
        assert after == (participant.state, participant.released)
        crashed = restart(participant, points[number], number, *before)
        assert crashed.receive(message) == report
        assert stored(crashed) == after
        recovered = restart(participant, points[number], number, *after)
        if isinstance(message, Query | ValueQuery):
            assert recovered.receive(message) == participant.receive(message) == report
            assert stored(recovered) == stored(participant) == after
        return report

    noisy = play(task, participants, plan=plan, deliver=deliver)
    assert [encode(event) for event in noisy.events] == [encode(event) for event in quiet.events]
    assert transcript_root(noisy.events) == transcript_root(quiet.events)
    assert [stored(p) for p in noisy.participants] == [stored(p) for p in quiet.participants]
    assert {p.released.indices for p in noisy.participants} == {(0, 2)}


def story(task: Task) -> list[Query | Closed]:
    """What a lying server may say in the first rounds: splits, stops, trims to either side, other cells."""
    fanout = task.randomizer.fanout
    tallies = [(50,) * fanout, (3,) * fanout]
    for big, small in product(range(fanout), (1, 10 // (fanout - 1))):
        tallies.append(tuple(90 if child == big else small for child in range(fanout)))
    messages: list[Query | Closed] = []
    frontiers: list[tuple[int, ...]] = [(1,)]
    for number in range(1, min(task.max_rounds, 2) + 2):
        frontiers = [tuple(range(fanout ** (number - 1), 2 * fanout ** (number - 1)))] if number > 1 else frontiers
        for cells in frontiers:
            messages.append(Query(task.id, number, cells))
            if number > task.max_rounds:
                empty: tuple[tuple[int, ...], ...] = ((),) * len(cells)
                messages.append(Closed(task.id, number, cells, (9,) * len(cells), empty, empty))
                continue
            for tally in tallies:
                for kept in all_subsets(fanout):
                    sums = (tally,) * len(cells)
                    sizes = (sum(tally),) * len(cells)
                    messages.append(Closed(task.id, number, cells, sizes, sums, (kept,) * len(cells)))
    return messages


def all_subsets(fanout: int) -> Iterator[tuple[int, ...]]:
    for mask in range(2**fanout):
        yield tuple(child for child in range(fanout) if mask >> child & 1)


EXPLORED = {
    "trim": Task.build(unit_box(1), epsilon=1.0, delta=0.05, k=5, max_depth=3, max_trims=1, tau=0.45),
    "all": Task.build(unit_box(2), epsilon=1.0, delta=0.05, k=5, rule="all", max_depth=3),
    "each": Task.build(unit_box(1), epsilon=1.0, delta=0.05, k=5, rule="each", max_depth=3),
    "quad": Task.build(unit_box(2), epsilon=2.0, delta=0.05, k=5, tree="quad", max_depth=2, max_rounds=1, tau=0.45),
    "laplace": Task.build(unit_box(1), epsilon=8.0, delta=0.05, k=5, randomizer=LAPLACE, max_depth=2, tau=0.45),
}


@pytest.mark.parametrize("task", EXPLORED.values(), ids=EXPLORED)
def test_in_every_interleaving_a_question_has_one_answer(task: Task) -> None:
    """All states that any sequence of these messages can reach, of any length, restarts and roll-backs included.

    The state is a value, so exploring state by state is exhaustive. A question is (round, cell); even a device that was
    rolled back and led down another path answers the same question with the same bytes.
    """
    point, messages = [0.3, 0.8][: task.box.dimensions], story(task)
    start = Participant(task, point, secret(1), ALLOW_ALL).state
    answers: dict[tuple[int, int], bytes] = {}
    seen, waiting = {start}, [start]
    while waiting:
        state = waiting.pop()
        device = Participant(task, point, secret(1), ALLOW_ALL, state=state)
        for message in messages:
            if device.state != state:
                device = Participant(task, point, secret(1), ALLOW_ALL, state=state)
            try:
                report = device.receive(message)
            except ServerViolation:
                assert device.state == state
                continue
            if report is not None:
                question = report.round, report.cell
                assert answers.setdefault(question, encode(report)) == encode(report)
            if device.state not in seen:
                seen.add(device.state)
                waiting.append(device.state)
    rounds = {number for number, _ in answers}
    assert {state.phase for state in seen} == {"waiting", "answered", "finished", "lost"}
    assert rounds == set(range(1, min(task.max_rounds, 2) + 2))
    if task.rule == "trim":
        assert len(answers) > len(rounds)  # moved or not, it was led into different cells


def test_drawing_fresh_noise_is_caught() -> None:
    """Planted bug: noise that depends on how often a device was asked fails the retry check."""
    task = TASKS["laplace"]

    class Forgetful(Participant):
        asked = 0

        def receive(self, message: AnyQuery | AnyClosed) -> AnyReport | None:
            self.asked += 1
            self._secret = secret(self.asked)
            return super().receive(message)

    device = Forgetful(task, [0.3], secret(1), ALLOW_ALL)
    query = Query(task.id, 1, (1,))
    assert len({device.receive(query) for _ in range(200)}) > 1


def test_what_a_participant_spent_follows_from_the_public_trims_and_not_from_its_own_moves() -> None:
    task = Task.build(unit_box(), epsilon=0.5, delta=1e-3, k=20)
    spent = [
        Participant(task, (0.1, 0.1), secret(1), ALLOW_ALL, state=State(code=1, answered=4, trims=2, moves=moves)).spent
        for moves in (0, 1, 2)
    ]
    assert spent == [1.5] * 3
