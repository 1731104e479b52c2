"""The device's machine: one participant, sans-IO, for the whole campaign.

    state       receives      if all checks hold                              next state
    waiting     Query         answers it                                      answered
    waiting     Closed        (the round went by without an answer)           lost
    answered    Query         the same query: the same report again           answered
    answered    Closed        STOP                                            finished
    answered    Closed        SPLIT or TRIM                                   waiting
    finished    Query         nothing: it is for others                       finished
    finished    Closed        nothing                                         finished
    finished    ValueQuery    answers it; the same query: the same again      finished
    finished    ValueClosed   if it was answered: checks that it is counted   finished
    lost        any           nothing                                         lost

Anything else is a ``ServerViolation`` and changes nothing. Rules of a device:

1. Noise, and the place it is moved to, are derived from (secret, task, round, cell), or (secret, plan, release,
   region): the same question gets the same bytes.
2. It answers its own cell in its own next round of the task it pinned, every release of the plan it pinned once, and
   nothing else.
3. It trusts no verdict: the channel is public, so it decides again from the published tally.
4. What it may lose is settled when it joins, for the worst case. Stopping half-way would reveal where it is.

The state between two messages is two frozen values, so that a vault can keep them: ``state`` for the partition,
``released`` for the values.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Floats, as_floats
from ..errors import InvalidInput, ServerViolation
from ..hierarchy.base import ROOT
from ..randomizer.widths import with_fanout
from .column import Column
from .keys import SECRET_BYTES, move_entropy, pseudonym, report_entropy, value_entropy
from .messages import (
    AnyClosed,
    AnyQuery,
    AnyReport,
    Closed,
    Query,
    Report,
    ValueClosed,
    ValueQuery,
    ValueReport,
    encode,
)
from .plan import Plan
from .policy import Policy, check_cell, check_task
from .rule import decide, frontier_at
from .task import Task
from .values import unit_values

__all__ = ["Participant", "Policy", "Released", "State"]


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Where a participant is between two messages of the partition."""

    phase: Literal["waiting", "answered", "finished", "lost"] = "waiting"
    round: int = 1  # the next one to answer, or the one that was answered
    cell: int = ROOT
    code: int  # deepest cell it acts from: that of its position, or the one it was moved to
    moves: int = 0
    trims: int = 0
    visitors: float = 0.0  # expected in the cell, from what is public
    doubt: float = 0.0  # the variance of their number; above 0 after a TRIM, except in what earlier versions kept
    expected: float | None = None
    question: bytes = b""  # digest of the query that was answered
    answered: int = 0  # rounds answered
    crowd: int | None = None


class Released(msgspec.Struct, frozen=True):
    """Which values a participant has given.

    Attributes
    ----------
    first_round : int
        The first round that asks for values; 0 until it is known.
    answered : tuple of (int, bytes)
        Index in the plan and SHA-256 of every query that was answered.
    """

    first_round: int = 0
    answered: tuple[tuple[int, bytes], ...] = ()

    @property
    def indices(self) -> tuple[int, ...]:
        """Which releases of the plan were answered, in order."""
        return tuple(index for index, _ in self.answered)


class Participant:
    """One participant of a campaign.

    Parameters
    ----------
    task : Task
        Pinned: messages of any other task are refused.
    point : array_like, shape (d,)
        The private position. It never leaves.
    secret : bytes
        32 bytes from the operating system's randomness, kept by the device.
    policy : Policy
        What the owner allows.
    plan : Plan, optional
        Pinned with the task: the releases it will answer; none if left out.
    value : float, optional
        The owner's own number, if the plan asks for one. It leaves through noise only.
    state, released : optional
        To go on after a restart.

    Raises
    ------
    ServerViolation
        If the policy does not allow the task and the plan.
    InvalidInput
        If the value is outside its public range, missing, or not asked for.
    """

    def __init__(
        self, task: Task, point: npt.ArrayLike, secret: bytes, policy: Policy, *, plan: Plan | None = None,
        value: float | None = None, state: State | None = None, released: Released | None = None,
    ) -> None:  # fmt: skip
        if len(secret) != SECRET_BYTES:
            raise InvalidInput(f"secret must be {SECRET_BYTES} bytes; got {len(secret)}")
        plan = Plan(task.id) if plan is None else plan
        try:
            plan.check(task)
        except InvalidInput as error:
            raise ServerViolation("bad-plan", str(error)) from None
        check_task(task, plan, policy)
        plan.check_value(value)
        position = as_floats(point, "the position", infinite=True).reshape(1, -1)
        code = int(task.hierarchy.codes(position)[0])
        self.task = task
        self.plan = plan
        self.policy = policy
        self.pseudonym = pseudonym(secret, task.id)
        self.state = State(code=code) if state is None else state
        self.released = Released() if released is None else released
        self._secret = secret
        self._position = position
        self._value = value
        self._given: dict[tuple[int, int, int], int] = {}

    # -- what the owner may see --------------------------------------------------------------------------------

    @property
    def region(self) -> int | None:
        """The cell it ended in, or None while it goes on."""
        return self.state.cell if self.state.phase == "finished" else None

    @property
    def crowd(self) -> int | None:
        """How many answered for the region, this participant included."""
        return self.state.crowd

    @property
    def _acting(self) -> Floats:
        """The position it acts from: its own, or the middle of the deepest cell it was moved to. float64[1, d]."""
        if not self.state.moves:
            return self._position
        return self.task.hierarchy.middles(np.array([self.state.code], dtype=np.uint64))

    @property
    def moves(self) -> int:
        """How often it was moved by a TRIM."""
        return self.state.moves

    @property
    def spent(self) -> float:
        """Loss so far if the server followed the protocol: (1 + T) reports, T the TRIMs on the path, and the values.

        T is public. How often this participant was moved must not enter: what is left for other tasks would tell it.
        """
        partition = (1 + self.state.trims) * self.task.epsilon if self.state.answered else 0.0
        return partition + self._spent_on_values(self.released.indices)

    @property
    def exposure(self) -> float:
        """Loss so far, inside the smallest cell it named, against a server that lied about everything it did not show.

        Every report counts but that of a roll call, which tells nothing about the place inside the cell.
        """
        return self._exposure(self.state.answered, self.released.indices)

    def _exposure(self, answered: int, indices: tuple[int, ...]) -> float:
        return min(answered, self.task.max_rounds) * self.task.epsilon + self._spent_on_values(indices)

    def _spent_on_values(self, indices: tuple[int, ...]) -> float:
        return float(sum(self.plan.releases[index].epsilon for index in indices))

    # -- messages ----------------------------------------------------------------------------------------------

    def receive(self, message: AnyQuery | AnyClosed) -> AnyReport | None:
        """Take a message of the server; return the report to send, if any.

        The same query always gives byte-identical reports.

        Raises
        ------
        ServerViolation
            If the message breaks the protocol or the policy. The state does not change.
        """
        if not isinstance(message, Query | Closed | ValueQuery | ValueClosed):
            raise InvalidInput(f"a device takes queries and closings; got {type(message).__name__}")
        if message.task != self.task.id:
            raise ServerViolation("other-task", "the message belongs to another task than the one pinned")
        if self.state.phase == "lost":
            return None
        if isinstance(message, ValueQuery | ValueClosed):
            return self._receive_value(message)
        if self.state.phase == "finished":
            return None
        if isinstance(message, Query):
            return self._answer(message)
        self._follow(message)
        return None

    # -- the partition -----------------------------------------------------------------------------------------

    def _answer(self, query: Query) -> Report:
        state, task = self.state, self.task
        digest = hashlib.sha256(encode(query)).digest()
        if state.phase == "answered" and query.round == state.round:
            if digest != state.question:
                raise ServerViolation("changed-query", f"round {query.round} was asked before with other cells")
            return self._report(query)
        if state.phase == "answered" or query.round < state.round:
            token = "skipped-round" if query.round > state.round else "repeated-round"
            raise ServerViolation(token, f"round {query.round} was asked while round {state.round} is open")
        if query.round > task.max_rounds + 1:
            raise ServerViolation("beyond-depth", f"the task ends after round {task.max_rounds + 1}")
        if query.round > state.round:
            raise ServerViolation("skipped-round", f"round {query.round} was asked; the next one is {state.round}")
        _check_depth(task, query)
        if state.cell not in query.cells:
            raise ServerViolation("foreign-cells", "the query leaves out the cell that the last verdict led to")
        check_cell(task, state.cell, self.policy)
        self._check_exposure(state.answered + 1, self.released.indices)
        report = self._report(query)
        self.state = msgspec.structs.replace(state, phase="answered", question=digest, answered=state.answered + 1)
        return report

    def _report(self, query: Query) -> Report:
        task, cell = self.task, self.state.cell
        answer = None
        if query.round <= task.max_rounds:
            child = int(task.hierarchy.child_of(np.array([self.state.code], dtype=np.uint64), query.round - 1)[0])
            randomizer = with_fanout(task.randomizer, self._children)
            entropy = report_entropy(self._secret, task.id, query.round, cell, randomizer.words)
            answer = randomizer.respond(child, entropy)
        return Report(task.id, query.round, self.pseudonym, cell, answer)

    @property
    def _children(self) -> int:
        """How many children its cell has."""
        return int(self.task.hierarchy.fanouts(np.array([self.state.cell], dtype=np.uint64))[0])

    def _follow(self, closed: Closed) -> None:
        state, task = self.state, self.task
        if closed.round != state.round:
            token = "skipped-round" if closed.round > state.round else "repeated-round"
            raise ServerViolation(token, f"round {closed.round} was closed; the open one is {state.round}")
        if state.phase == "waiting":
            self.state = msgspec.structs.replace(state, phase="lost")
            return
        if hashlib.sha256(encode(Query(closed.task, closed.round, closed.cells))).digest() != state.question:
            raise ServerViolation("changed-query", "the closing lists other cells than the query that was answered")
        row = closed.cells.index(state.cell)
        responders = closed.responders[row]
        if responders < 1:
            raise ServerViolation("not-counted", "the closing counts nobody in a cell that was answered for")
        if closed.round > task.max_rounds:
            if closed.tally[row] or closed.kept[row]:
                raise ServerViolation("wrong-verdict", "a roll call has no tally and no verdict but STOP")
            self.state = msgspec.structs.replace(state, phase="finished", crowd=responders)
            return
        self.state = self.next_state(closed, row, responders)

    def next_state(self, closed: Closed, row: int, responders: int) -> State:
        """Check the verdict on this device's cell, a row of the closing, and find the state that follows from it."""
        state, task = self.state, self.task
        if task.max_visitors < 1.0 and state.trims and not state.doubt:
            raise InvalidInput(
                "this device was in the middle of the task when its program was updated, and what the earlier version "
                "kept is not enough to check verdicts; finish the task with that version, or leave it"
            )
        size, sums, width = np.array([responders]), np.array([closed.tally[row]], dtype=np.int64), self._children
        if sums.shape != (1, width):
            raise ServerViolation("impossible-tally", "the tally does not have one number per child")
        if not with_fanout(task.randomizer, width).possible(sums, size)[0]:
            raise ServerViolation("impossible-tally", "no set of reports adds up to this tally")
        tally = np.zeros((1, task.hierarchy.fanout), dtype=np.int64)
        tally[:, :width] = sums
        cell = np.array([state.cell], dtype=np.uint64)
        expected = np.nan if state.expected is None else state.expected
        frontier = frontier_at(cell, trims=state.trims, expected=expected, visitors=state.visitors, doubt=state.doubt)
        ruling = decide(task, frontier, size, tally)
        kept = np.flatnonzero(ruling.kept[0])
        if tuple(kept.tolist()) != closed.kept[row]:
            raise ServerViolation(
                "wrong-verdict", f"children {closed.kept[row]} go on, but the tally says {tuple(kept.tolist())}"
            )
        ended = ruling.ended.cells.tolist()
        if state.cell in ended:
            return msgspec.structs.replace(state, phase="finished", crowd=responders)
        depth, moved = closed.round - 1, 0
        code = np.array([state.code], dtype=np.uint64)
        child = int(task.hierarchy.child_of(code, depth)[0])
        left = int(task.hierarchy.child(cell, child)[0])
        if left in ended:
            return msgspec.structs.replace(state, phase="finished", cell=left)
        if child not in kept:
            entropy = move_entropy(self._secret, task.id, closed.round, state.cell)
            words = np.frombuffer(entropy, dtype=">u8").astype(np.uint64)
            code = task.hierarchy.spread(cell, ruling.kept, words)
            child = int(task.hierarchy.child_of(code, depth)[0])
            moved = 1
        place = int(np.searchsorted(kept, child))
        following = ruling.frontier
        return msgspec.structs.replace(
            state, phase="waiting", round=state.round + 1, cell=int(following.cells[place]), code=int(code[0]),
            moves=state.moves + moved, trims=int(following.trims[place]), visitors=float(following.visitors[place]),
            doubt=float(following.doubt[place]), expected=float(following.expected[place]), question=b"",
        )  # fmt: skip

    def _check_exposure(self, answered: int, indices: tuple[int, ...]) -> None:
        cap = self.policy.max_exposure
        if cap is not None and not self._exposure(answered, indices) <= cap * (1 + 1e-12):  # NaN allows nothing
            raise ServerViolation(
                "over-exposure", f"another answer would expose more than the owner's limit of {cap:g}"
            )

    # -- values ------------------------------------------------------------------------------------------------

    def _receive_value(self, message: ValueQuery | ValueClosed) -> ValueReport | None:
        state, plan, released = self.state, self.plan, self.released
        if state.phase != "finished":
            raise ServerViolation(
                "ended-early", f"values are asked for, but the device's cell goes on to round {state.round}"
            )
        if message.plan != plan.digest:
            raise ServerViolation("other-plan", "the message belongs to another plan than the one pinned")
        if message.index not in plan.asked:
            raise ServerViolation("unknown-release", f"the plan asks for no value with index {message.index}")
        first = message.round - plan.asked.index(message.index)
        if released.first_round and first != released.first_round:
            due = released.first_round + plan.asked.index(message.index)
            token = "skipped-round" if message.round > due else "repeated-round"
            raise ServerViolation(token, f"release {message.index} belongs to round {due}, not {message.round}")
        if not state.round < first <= self.task.max_rounds + 2:
            token = "skipped-round" if first > state.round else "repeated-round"
            raise ServerViolation(token, f"the partition cannot have ended with round {first - 1}")
        if isinstance(message, ValueQuery):
            return self._answer_value(message, first)
        if message.index in released.indices:
            answer = self._value_report(message).answer
            rows = dict(zip(message.cells, message.counts, strict=True))
            if answer not in dict(rows.get(state.cell, ())):
                raise ServerViolation("not-counted", "the closing does not count the value that this device gave")
        return None

    def _answer_value(self, query: ValueQuery, first: int) -> ValueReport:
        released = self.released
        report = self._value_report(query)
        if query.index not in released.indices:
            check_cell(self.task, self.state.cell, self.policy)
            self._check_exposure(self.state.answered, (*released.indices, query.index))
            digest = hashlib.sha256(encode(query)).digest()
            self.released = Released(first, (*released.answered, (query.index, digest)))
        return report

    def _value_report(self, message: ValueQuery | ValueClosed) -> ValueReport:
        region = self.state.cell
        key = (message.index, region, self.state.code)
        if key not in self._given:  # it is needed for the query, and again for the closing
            self._given[key] = self._value_answer(message.index)
        return ValueReport(self.task.id, message.round, self.pseudonym, region, self._given[key])

    def _value_answer(self, index: int) -> int:
        """What it gives for a release, with its noise: the same whenever it is asked."""
        task, region, release = self.task, self.state.cell, self.plan.releases[index]
        mechanism = release.mechanism
        assert mechanism is not None
        boxes = task.hierarchy.boxes(np.array([region], dtype=np.uint64))
        f = release.build()
        if isinstance(f, Column):
            f = f.of(np.array([self._value], dtype=np.float64))
        unit = unit_values(f, self._acting, boxes).unit
        entropy = value_entropy(self._secret, task.id, self.plan.digest, index, region, mechanism.words)
        return mechanism.release_one(float(unit[0]), entropy)


def _check_depth(task: Task, query: Query) -> None:
    if not task.hierarchy.all_at(query.cells, query.round - 1):
        raise ServerViolation("wrong-depth", f"cells of round {query.round} have depth {query.round - 1}")
