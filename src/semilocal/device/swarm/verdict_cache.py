"""Participants of one process that share the work of checking a closing.

A verdict depends on nothing but the closing and on what the path of the cell has in common (Lemma 1 in
docs/explanation/proofs.md). So all devices of one cell and child come to the same next state: one of them works it out,
the others take it over. What depends on a device alone, its position and its moves, stays its own, and a device that is
moved works everything out itself.

Knows states. Knows no requests.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ...protocol.messages import Closed
from ...protocol.participant import Participant, Policy, Released, State
from ...protocol.plan import Plan
from ...protocol.task import Task

__all__ = ["SharedParticipant", "Verdicts"]


class Verdicts:
    """Next states that were worked out, the most recent ones."""

    def __init__(self, size: int = 4096) -> None:
        self._known: OrderedDict[Any, State] = OrderedDict()
        self._size = size

    def get(self, key: Any) -> State | None:
        """The state after a closing, if it is known."""
        return self._known.get(key)

    def put(self, key: Any, state: State) -> None:
        """Remember it, and forget the oldest."""
        self._known[key] = state
        if len(self._known) > self._size:
            self._known.popitem(last=False)


class SharedParticipant(Participant):
    """A participant that shares its checks of closings with others of the same task."""

    def __init__(
        self, task: Task, point: npt.ArrayLike, secret: bytes, policy: Policy, *, verdicts: Verdicts,
        plan: Plan | None = None, value: float | None = None, state: State | None = None,
        released: Released | None = None,
    ) -> None:  # fmt: skip
        super().__init__(task, point, secret, policy, plan=plan, value=value, state=state, released=released)
        self._verdicts = verdicts

    def next_state(self, closed: Closed, row: int, responders: int) -> State:
        """As the participant's own, or taken over from another device of the same cell and child."""
        state, tree = self.state, self.task.hierarchy
        child = int(tree.child_of(np.array([state.code], dtype=np.uint64), closed.round - 1)[0])
        key = (closed, row, state.trims, state.visitors, state.doubt, state.expected, child)
        cached = self._verdicts.get(key)
        if cached is not None:
            return msgspec.structs.replace(cached, code=state.code, moves=state.moves, answered=state.answered)
        following = super().next_state(closed, row, responders)
        if following.moves == state.moves:
            self._verdicts.put(key, following)
        return following
