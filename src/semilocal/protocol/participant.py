"""The device's machine: one participant, sans-IO.

    state       receives   if all checks hold                        next state
    waiting     Query      answers it                                answered
    waiting     Closed     (the round went by without an answer)     lost
    answered    Query      the same query: the same report again     answered
    answered    Closed     STOP                                      finished
    answered    Closed     SPLIT or TRIM                             waiting
    finished    any        nothing                                   finished
    lost        any        nothing                                   lost

Anything else is a ``ServerViolation`` and changes nothing. Rules of a device:

1. Noise is derived from (secret, task, round, cell): the same question gets the same bytes.
2. It answers its own cell in its own next round of the task it pinned, and nothing else.
3. It trusts no verdict: the channel is public, so it decides again from the published tally.
4. What it may lose is settled when it joins, for the worst case. Stopping half-way would tell where it is.

The state between two messages is a frozen value, so that a vault can keep it.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, ServerViolation
from ..hierarchy.base import ROOT
from .keys import SECRET_BYTES, pseudonym, report_entropy
from .messages import Closed, Query, Report, encode
from .moves import move_codes
from .promise import losses_words
from .rule import Frontier, decide
from .task import Task

__all__ = ["Participant", "Policy", "State"]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What a device's owner allows. Checked when the device joins, before anything is sent.

    Attributes
    ----------
    max_epsilon : float
        Largest loss of a moved position against any inside its region (``task.epsilon_worst``: (1 + max_trims)
        reports), if the server follows the protocol.
    max_exposure : float or None
        Largest loss against a server that lies: rounds answered times the loss of a report. None: no limit but the
        task's number of rounds.
    min_k : int
        Smallest crowd that the task must promise.
    max_delta : float
        Largest chance of missing that crowd, however often the participant is moved: ``delta_test * (1 + max_trims)``.
    allow_no_crowd, allow_simulation : bool
        Whether to join tasks that keep no crowd (as with rule "each"), or whose noise is for simulation only.
    """

    max_epsilon: float
    max_exposure: float | None = None
    min_k: int = 2
    max_delta: float = 1.0
    allow_no_crowd: bool = False
    allow_simulation: bool = False


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Where a participant is between two messages."""

    phase: Literal["waiting", "answered", "finished", "lost"] = "waiting"
    round: int = 1  # the next one to answer, or the one that was answered
    cell: int = ROOT
    code: int  # deepest cell it acts from
    moves: int = 0
    trims: int = 0
    expected: float | None = None
    question: bytes = b""  # digest of the query that was answered
    answered: int = 0  # rounds answered
    crowd: int | None = None


class Participant:
    """One participant of a task.

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
    state : State, optional
        To go on after a restart.

    Raises
    ------
    ServerViolation
        If the policy does not allow the task.
    """

    def __init__(
        self, task: Task, point: npt.ArrayLike, secret: bytes, policy: Policy, *, state: State | None = None
    ) -> None:
        if len(secret) != SECRET_BYTES:
            raise InvalidInput(f"secret must be {SECRET_BYTES} bytes; got {len(secret)}")
        _check_policy(task, policy)
        position = np.asarray(point, dtype=np.float64).reshape(1, -1)
        code = int(task.hierarchy.codes(position)[0])
        self.task = task
        self.policy = policy
        self.pseudonym = pseudonym(secret, task.id)
        self.state = State(code=code) if state is None else state
        self._secret = secret

    # -- what the owner may see --------------------------------------------------------------------------------

    @property
    def region(self) -> int | None:
        """The cell it ended in, or None while it goes on."""
        return self.state.cell if self.state.phase == "finished" else None

    @property
    def crowd(self) -> int | None:
        """How many answered for the region, oneself included."""
        return self.state.crowd

    @property
    def moves(self) -> int:
        """How often it was moved by a TRIM."""
        return self.state.moves

    @property
    def spent(self) -> float:
        """Loss so far if the server followed the protocol: (1 + T) reports, T the TRIMs on the path, public.

        How often this participant was moved must not enter: what is left for other tasks would tell it.
        """
        return (1 + self.state.trims) * self.task.epsilon if self.state.answered else 0.0

    @property
    def exposure(self) -> float:
        """Loss so far, inside the smallest cell it named, against a server that lied about everything it did not show.

        Every report counts but that of a roll call, which tells nothing about the place inside the cell.
        """
        return self._exposure(self.state.answered)

    def _exposure(self, answered: int) -> float:
        return min(answered, self.task.max_rounds) * self.task.epsilon

    # -- messages ----------------------------------------------------------------------------------------------

    def receive(self, message: Query | Closed) -> Report | None:
        """Take a message of the server; return the report to send, if any.

        The same query always gives byte-identical reports.

        Raises
        ------
        ServerViolation
            If the message breaks the protocol or the policy. The state does not change.
        """
        if message.task != self.task.id:
            raise ServerViolation("other-task", "the message belongs to another task than the one pinned")
        if not isinstance(message, Query | Closed):
            raise InvalidInput(f"a device takes a Query or a Closed; got {type(message).__name__}")
        if self.state.phase in ("finished", "lost"):
            return None
        if isinstance(message, Query):
            return self._answer(message)
        self._follow(message)
        return None

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
        cap = self.policy.max_exposure
        if cap is not None and not self._exposure(state.answered + 1) <= cap * (1 + 1e-12):  # NaN allows nothing
            raise ServerViolation(
                "over-exposure", f"another answer would expose more than the owner's limit of {cap:g}"
            )
        report = self._report(query)
        self.state = msgspec.structs.replace(state, phase="answered", question=digest, answered=state.answered + 1)
        return report

    def _report(self, query: Query) -> Report:
        task, cell = self.task, self.state.cell
        answer = None
        if query.round <= task.max_rounds:
            child = int(task.hierarchy.child_of(np.array([self.state.code], dtype=np.uint64), query.round - 1)[0])
            words = task.randomizer.words
            answer = task.randomizer.respond(child, report_entropy(self._secret, task.id, query.round, cell, words))
        return Report(task.id, query.round, self.pseudonym, cell, answer)

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
        size, tally = np.array([responders]), np.array([closed.tally[row]], dtype=np.int64)
        if tally.shape != (1, task.randomizer.fanout):
            raise ServerViolation("impossible-tally", "the tally does not have one number per child")
        if not task.randomizer.possible(tally, size)[0]:
            raise ServerViolation("impossible-tally", "no set of reports adds up to this tally")
        cell = np.array([state.cell], dtype=np.uint64)
        expected = np.array([np.nan if state.expected is None else state.expected])
        ruling = decide(task, Frontier(cell, np.array([state.trims]), expected), size, tally)
        kept = np.flatnonzero(ruling.kept[0])
        if tuple(kept.tolist()) != closed.kept[row]:
            raise ServerViolation(
                "wrong-verdict", f"children {closed.kept[row]} go on, but the tally says {tuple(kept.tolist())}"
            )
        depth = closed.round - 1
        code = np.array([state.code], dtype=np.uint64)
        child = int(task.hierarchy.child_of(code, depth)[0])
        if not len(kept) and task.rule != "each":
            return msgspec.structs.replace(state, phase="finished", crowd=responders)
        moved = 0
        if child not in kept:
            if task.rule == "each":
                leaf = int(task.hierarchy.child(cell, child)[0])
                return msgspec.structs.replace(state, phase="finished", cell=leaf)
            code = move_codes(task, code, cell, ruling.kept)
            child = int(task.hierarchy.child_of(code, depth)[0])
            moved = 1
        place = int(np.searchsorted(kept, child))
        following = ruling.frontier
        return msgspec.structs.replace(
            state, phase="waiting", round=state.round + 1, cell=int(following.cells[place]), code=int(code[0]),
            moves=state.moves + moved, trims=int(following.trims[place]), expected=float(following.expected[place]),
            question=b"",
        )  # fmt: skip


def _check_policy(task: Task, policy: Policy) -> None:
    if task.randomizer.simulation_only and not policy.allow_simulation:
        raise ServerViolation("simulation-only", "the task's noise is in floats, for simulation only")
    if not task.keeps_crowd and not policy.allow_no_crowd:
        raise ServerViolation("no-crowd", "the task keeps no crowd: it may show where a participant is, alone")
    if task.k < policy.min_k:
        raise ServerViolation("small-crowd", f"the task promises a crowd of {task.k}; the owner wants {policy.min_k}")
    delta_worst = min(task.delta_test * (1 + task.max_trims), 1.0)
    # Written as "not within", so that a limit that is not a number refuses.
    if not delta_worst <= policy.max_delta * (1 + 1e-12):
        raise ServerViolation(
            "weak-crowd",
            f"the crowd may fail with probability {delta_worst:g}, moves included; {policy.max_delta:g} is allowed",
        )
    if not task.epsilon_worst <= policy.max_epsilon * (1 + 1e-12):
        raise ServerViolation(
            "over-budget",
            f"the task may cost {losses_words(task.epsilon, task.epsilon_worst)}; {policy.max_epsilon:g} is left",
        )


def _check_depth(task: Task, query: Query) -> None:
    if not task.hierarchy.all_at(query.cells, query.round - 1):
        raise ServerViolation("wrong-depth", f"cells of round {query.round} have depth {query.round - 1}")
