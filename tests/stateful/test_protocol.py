"""A device against a server that says anything, with a model of section 12 of spec/protocol.md beside it.

The model is the second client plus the order of checks of the specification; it shares no code with the package. For
every message, legal or not, the device must do what the model says: the same token or the same bytes. After every step:
one answer per round at most, no change of state on a refusal, and an exposure that counts the questions answered.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import reference_client as reference
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from semilocal import Closed, Participant, Policy, Query, Task
from semilocal.errors import ServerViolation
from semilocal.protocol.messages import AnyClosed, AnyQuery, AnyReport, encode
from semilocal.protocol.participant import State
from semilocal.testing import unit_box
from tests.helpers.pair import STEADY

TASKS = [
    Task.build(unit_box(1), epsilon=2.0, delta=0.05, k=4, max_depth=5, max_rounds=4, max_trims=2, tau=0.45),
    Task.build(unit_box(2), epsilon=2.0, delta=0.05, k=4, max_depth=5, rule="all"),
    Task.build(unit_box(2), epsilon=3.0, delta=0.05, k=3, max_depth=3, tree="quad", tau=0.45),
    Task.build(unit_box(3), epsilon=2.0, delta=0.05, k=4, max_depth=4, rule="each"),
    Task.build(unit_box(1), epsilon=8.0, delta=0.05, k=4, max_depth=3, max_rounds=2, randomizer="discrete-laplace"),
    Task.build(unit_box(1), epsilon=6.0, delta=0.3, k=4, max_depth=4, accounting="uniform", max_trims=2, tau=0.45),
    Task.build(unit_box(1), epsilon=2.0, delta=0.05, k=4, max_depth=4, tolerate_liars=5, tau=0.45),
]
Outcome = tuple[str, str | bytes | None]


class Model:
    """Section 12, in the order of its tables."""

    def __init__(self, task: Task, point: list[float], secret: bytes, cap: float | None) -> None:
        self.fields: dict[str, Any] = msgspec.to_builtins(task, builtin_types=(bytes,))
        self.device = reference.Device(self.fields, point, secret)
        self.cap, self.asked, self.question = cap, 0, b""

    @property
    def epsilon(self) -> float:
        return float(self.fields["randomizer"]["epsilon"])

    @property
    def rounds(self) -> int:
        return int(self.fields["max_rounds"])

    def take(self, message: Query | Closed) -> Outcome:
        """What the device must do, and do it."""
        if message.task != self.device.id:
            return "refused", "other-task"
        if self.device.finished or self.device.lost:
            return "silent", None
        return self.take_query(message) if isinstance(message, Query) else self.take_closed(message)

    def take_query(self, query: Query) -> Outcome:
        device, data = self.device, encode(query)
        if device.answered and query.round == device.round:
            same = data == self.question
            return ("report", reference.pack(device.report())) if same else ("refused", "changed-query")
        if query.round < device.round:
            return "refused", "repeated-round"
        if query.round > self.rounds + 1 and not device.answered:
            return "refused", "beyond-depth"
        if query.round > device.round:
            return "refused", "skipped-round"
        if not all(device.tree.has_depth(cell, query.round - 1) for cell in query.cells):
            return "refused", "wrong-depth"
        if device.cell not in query.cells:
            return "refused", "foreign-cells"
        costs = query.round <= self.rounds
        if costs and self.cap is not None and (self.asked + 1) * self.epsilon > self.cap:
            return "refused", "over-exposure"
        self.asked, self.question = self.asked + costs, data
        return "report", reference.pack(device.report())

    def take_closed(self, closed: Closed) -> Outcome:
        device = self.device
        if closed.round != device.round:
            return "refused", "skipped-round" if closed.round > device.round else "repeated-round"
        if device.answered:
            if encode(Query(closed.task, closed.round, closed.cells)) != self.question:
                return "refused", "changed-query"
            row = closed.cells.index(device.cell)
            tally = list(closed.tally[row])
            if closed.responders[row] < 1:
                return "refused", "not-counted"
            if closed.round > self.rounds:
                if tally or closed.kept[row]:
                    return "refused", "wrong-verdict"
            elif not self.possible(closed.responders[row], tally):
                return "refused", "impossible-tally"
            elif list(closed.kept[row]) != self.verdict(closed.responders[row], tally):
                return "refused", "wrong-verdict"
        columns = closed.cells, closed.responders, closed.tally, closed.kept
        device.follow(*(msgspec.to_builtins(column, builtin_types=()) for column in map(as_list, columns)))
        return "silent", None

    def verdict(self, responders: int, tally: list[int]) -> list[int]:
        device = self.device
        path = device.trims, device.visitors, device.doubt, device.cell
        return reference.verdict(self.fields, responders, tally, *path)[0]

    def possible(self, responders: int, tally: list[int]) -> bool:
        if len(tally) != self.device.tree.fanout:
            return False
        if self.fields["randomizer"]["kind"] == "randomized-response":
            return min(tally) >= 0 and sum(tally) == responders
        alphabet = reference.laplace_weights(self.epsilon)
        return all(min(alphabet) * responders <= entry <= max(alphabet) * responders for entry in tally)


def as_list(value: Any) -> Any:
    return [as_list(item) for item in value] if isinstance(value, tuple) else value


class DeviceMachine(RuleBasedStateMachine):
    """Random servers."""

    kind: type[Participant] = Participant

    @initialize(
        task=st.sampled_from(TASKS),
        place=st.tuples(*[st.integers(0, 1000)] * 3),
        secret=st.binary(min_size=32, max_size=32),
        cap=st.sampled_from([None, None, 4.0, 9.0]),
    )
    def join(self, task: Task, place: tuple[int, ...], secret: bytes, cap: float | None) -> None:
        self.task, self.secret = task, secret
        self.point = [coordinate / 1000 for coordinate in place[: task.box.dimensions]]
        self.policy = Policy(max_epsilon=1000.0, max_exposure=cap, min_k=1, max_delta=1.0, allow_no_crowd=True)
        self.device = self.kind(task, self.point, secret, self.policy)
        self.model = Model(task, self.point, secret, cap)
        self.reports: dict[int, bytes] = {}
        self.last: Query | Closed | None = None

    def tell(self, message: Query | Closed) -> None:
        """Deliver a message to both, and compare."""
        before = self.device.state
        expected = self.model.take(message)
        try:
            report = self.device.receive(message)
        except ServerViolation as error:
            assert expected == ("refused", error.token), (expected, error, message)  # noqa: PT017
            assert self.device.state == before
            return
        self.last = message
        if report is None:
            assert expected == ("silent", None)
            return
        data = encode(report)
        assert expected == ("report", data)
        assert self.reports.setdefault(report.round, data) == data

    def others(self, data: st.DataObject) -> set[int]:
        """A few cells of the open round's depth."""
        bits = self.task.hierarchy.level_bits * (self.model.device.round - 1)  # type: ignore[union-attr]
        return {2**bits + data.draw(st.integers(0, 2**bits - 1)) for _ in range(data.draw(st.integers(0, 2)))}

    def tally(self, data: st.DataObject) -> tuple[int, list[int]]:
        """Responders and a possible tally: even, lopsided, or anything."""
        fanout = self.task.randomizer.fanout
        shape = data.draw(st.sampled_from(["even", "lopsided", "any"]))
        if shape == "even":
            parts = [data.draw(st.integers(8, 12))] * fanout
        elif shape == "lopsided":
            small = data.draw(st.integers(0, 2))
            parts = [small] * fanout
            parts[data.draw(st.integers(0, fanout - 1))] = 40
        else:
            parts = [data.draw(st.integers(0, 25)) for _ in range(fanout)]
        return max(sum(parts), 1), parts if sum(parts) else [1, *[0] * (fanout - 1)]

    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        device = self.model.device
        self.tell(Query(self.task.id, device.round, tuple(sorted({device.cell} | self.others(data)))))

    @precondition(lambda self: self.last is not None)
    @rule()
    def repeat(self) -> None:
        assert self.last is not None
        self.tell(self.last)

    @precondition(lambda self: self.model.device.answered)
    @rule(data=st.data(), lie=st.sampled_from(["", "", "", "nobody", "tally", "verdict"]))
    def close(self, data: st.DataObject, lie: str) -> None:
        """The open round, with a verdict that follows from an invented tally, or with a lie about the own cell."""
        asked = msgspec.msgpack.decode(self.model.question, type=Query)
        rows = []
        for cell in asked.cells:
            responders, tally = self.tally(data)
            kept = self.model.verdict(responders, tally)
            if asked.round > self.task.max_rounds:
                tally, kept = [], []
            if cell == self.model.device.cell:
                responders = 0 if lie == "nobody" else responders
                tally = [entry + 1 for entry in tally] if lie == "tally" else tally
                if lie == "verdict":
                    kept = sorted(data.draw(st.sets(st.integers(0, len(tally)), max_size=3)))
            rows.append((responders, tuple(tally), tuple(kept)))
        sizes, tallies, keeps = zip(*rows, strict=True)
        self.tell(Closed(self.task.id, asked.round, asked.cells, sizes, tallies, keeps))

    @rule(data=st.data())
    def say_anything(self, data: st.DataObject) -> None:
        """Any message near the present state: another task, round, cells, depth, tally or verdict."""
        device = self.model.device
        name = data.draw(st.sampled_from([self.task.id] * 9 + [bytes(32)]))
        near = st.integers(max(device.round - 2, 1), device.round + 2)
        number = data.draw(st.just(device.round) | near | st.sampled_from([65536, self.task.max_rounds + 2]))
        cells = self.others(data) | data.draw(st.sets(st.sampled_from([1, 2, 3, 5, 2**40, 2**64 - 1]), max_size=1))
        cells |= data.draw(st.sampled_from([set(), {device.cell}, {device.cell}]))
        asked = tuple(sorted(cells))
        if data.draw(st.booleans()):
            self.tell(Query(name, number, asked))
            return
        if device.answered and data.draw(st.booleans()):
            asked = msgspec.msgpack.decode(self.model.question, type=Query).cells
        entries = st.integers(-5, 60) | st.sampled_from([-(2**53) + 1, 2**53 - 1, 10**6])
        sizes = st.integers(0, 60) | st.sampled_from([2**32, 10**6])
        rows = [
            (
                data.draw(sizes),
                tuple(data.draw(st.lists(entries, max_size=self.task.randomizer.fanout + 1))),
                tuple(data.draw(st.sets(st.integers(0, 9) | st.just(255), max_size=4).map(sorted))),
            )
            for _ in asked
        ]
        columns: Any = tuple(zip(*rows, strict=True)) if rows else ((), (), ())
        self.tell(Closed(name, number, asked, *columns))

    @rule()
    def restart(self) -> None:
        """All that is left after a crash is what was stored."""
        stored = msgspec.msgpack.decode(msgspec.msgpack.encode(self.device.state), type=State)
        self.device = self.kind(self.task, self.point, self.secret, self.policy, state=stored)

    @invariant()
    def the_state_is_the_model_s(self) -> None:
        if not hasattr(self, "device"):
            return
        state, model = self.device.state, self.model.device
        phase = "finished" if model.finished else "lost" if model.lost else "answered" if model.answered else "waiting"
        assert (state.phase, state.round, state.cell, state.code) == (phase, model.round, model.cell, model.code)
        assert (state.moves, state.trims, state.crowd) == (model.moves, model.trims, model.crowd)
        assert state.moves <= state.trims <= self.task.max_trims

    @invariant()
    def the_account_is_right(self) -> None:
        if not hasattr(self, "device"):
            return
        questions = sum(number <= self.task.max_rounds for number in self.reports)
        assert questions == self.model.asked
        assert self.device.exposure == questions * self.task.epsilon
        assert self.device.spent == ((1 + self.device.state.trims) * self.task.epsilon if self.reports else 0.0)
        assert self.policy.max_exposure is None or self.device.exposure <= self.policy.max_exposure
        assert self.device.spent <= self.task.epsilon_worst


TestDevice = DeviceMachine.TestCase
TestDevice.settings = settings(STEADY, max_examples=80, stateful_step_count=25)
UNSHRUNK = settings(STEADY, max_examples=200, stateful_step_count=25, phases=[Phase.generate])


CHECKS = [
    "other-task", "changed-query", "skipped-round", "repeated-round", "beyond-depth", "wrong-depth", "foreign-cells",
    "over-exposure", "not-counted", "impossible-tally", "wrong-verdict",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("token", CHECKS)
def test_a_device_without_a_check_is_caught(token: str) -> None:
    """Planted bugs: a device that lets one kind of message pass in silence. So every check is reached above."""

    class Careless(Participant):
        def receive(self, message: AnyQuery | AnyClosed) -> AnyReport | None:
            try:
                return super().receive(message)
            except ServerViolation as error:
                if error.token != token:
                    raise
                return None

    class Machine(DeviceMachine):
        kind = Careless

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Machine, settings=UNSHRUNK)


@pytest.mark.slow
@pytest.mark.parametrize("field", ["moves", "trims", "answered", "code", "round"])
def test_a_device_that_counts_wrongly_is_caught(field: str) -> None:
    """Planted bugs: a device that forgets one field of its state whenever it goes on to another round."""

    class Forgetful(Participant):
        def receive(self, message: AnyQuery | AnyClosed) -> AnyReport | None:
            before = self.state
            report = super().receive(message)
            if self.state.round > before.round:
                origin = [0.0] * self.task.box.dimensions
                fresh = Participant(self.task, origin, bytes(32), self.policy).state
                self.state = msgspec.structs.replace(self.state, **{field: getattr(fresh, field)})
            return report

    class Machine(DeviceMachine):
        kind = Forgetful

    with pytest.raises((AssertionError, ServerViolation)):
        run_state_machine_as_test(Machine, settings=UNSHRUNK)
