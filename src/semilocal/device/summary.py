"""What a device tells its owner at the end: region, crowd, what was spent and what was revealed.

Knows numbers and words. Neither the secret nor the position is in it.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec
import numpy as np

from ..arrays import short_repr
from ..protocol.promise_words import crowds_words, losses_words
from ..protocol.task import Task
from ..words import number_of
from .vault import Contents, Membership, pinned_plan, pinned_task

__all__ = ["Outcome", "Summary", "crowd_words", "enrolment_advice", "summarise"]

Outcome = Literal["finished", "lost", "cancelled", "refused", "unfinished"]

_WORDS: dict[Outcome, str] = {
    "finished": "You have a region.",
    "lost": "A round closed without your answer, so you are out. You have no region.",
    "cancelled": "The campaign was cancelled.",
    "refused": "This device refused to go on.",
    "unfinished": "The campaign goes on; start again to follow it.",
}


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a device's part in a task.

    Attributes
    ----------
    outcome : {"finished", "lost", "cancelled", "refused", "unfinished"}
    token, reason : str
        Which check failed and why, if the device refused something; empty otherwise.
    task : Task or None
        None if not even the task could be accepted.
    cell : int
        The region, or the cell that was reached.
    crowd : int or None
        How many answered for the region, the owner included; None if nobody counted them.
    moves : int
        How often a TRIM moved the participant. Private: it is told to the owner and to nobody else.
    trims : int
        T: TRIMs on the path of the region. Public.
    rounds : int
        Rounds answered.
    epsilon : float
        Loss of a moved position against any inside the region, if the server followed the protocol: (1 + T) reports,
        and the values.
    exposure : float
        Loss if it did not: every report counts.
    values : tuple of str
        The values that were released, in words.
    own : str
        The owner's own value that the plan asks for, and its range, in words; empty if there is none.
    checkpoint : bytes
        Root of the transcript as the server published it; empty if there is none.
    """

    outcome: Outcome
    token: str = ""
    reason: str = ""
    task: Task | None = None
    cell: int = 1
    crowd: int | None = None
    moves: int = 0
    trims: int = 0
    rounds: int = 0
    epsilon: float = 0.0
    exposure: float = 0.0
    values: tuple[str, ...] = ()
    own: str = ""
    checkpoint: bytes = b""

    __repr__ = short_repr

    @property
    def region(self) -> int | None:
        """The cell it ended in; None if it did not end in one."""
        return self.cell if self.outcome == "finished" else None

    @property
    def delta(self) -> float:
        """Bound on the chance that the region has no crowd of k."""
        return 0.0 if self.task is None else self.task.delta

    def place(self) -> str:
        """The region: its label if it has one, else intervals per axis."""
        assert self.task is not None
        cell = np.array([self.cell], dtype=np.uint64)
        (label,) = self.task.hierarchy.names(cell)
        if label:
            return label
        lower, upper = self.task.hierarchy.boxes(cell)[0]
        names = self.task.box.names
        return " × ".join(f"{name} {_ends(a, b)}" for name, a, b in zip(names, lower, upper, strict=True))

    def text(self) -> str:
        """All of it, in plain words."""
        lines = [_WORDS[self.outcome] + (f" Reason: {self.reason} [{self.token}]" if self.reason else "")]
        task = self.task
        if task is None or not self.rounds:
            return "\n".join([*lines, "What you spent: nothing. No answer has left this device."])
        name = "Your region" if self.outcome == "finished" else "Reached so far"
        lines.append(f"{name}: {self.place()} (cell {self.cell}).")
        if self.crowd is not None:
            lines.append(f"Your crowd: {self.crowd} answered for this region, you included.")
        elif self.outcome == "finished":
            lines.append("Your crowd: unknown; this task keeps no crowd, you may be alone.")
        losses = losses_words(self.epsilon - self.trims * task.epsilon, self.epsilon, own=self.own)
        crowd = f" {crowd_words(task, self.crowd)}" if self.outcome == "finished" else ""
        lines.append(f"What you spent: {losses}, if the server followed the protocol.{crowd}")
        if self.moves:
            lines.append(f"You were moved {self.moves} x by TRIM: you are not in this region. Only this device knows.")
        revealed = "this region, its crowd, and in which rounds you answered; these are unprotected by design"
        if self.values:
            revealed += f". Through noise: {'; '.join(self.values)}"
        lines.append(f"What was revealed: {revealed}.")
        lines.append(
            f"Your exposure: if the server lied about everyone else, your crowd may be made up; the loss is at most "
            f"epsilon = {self.exposure:g} (delta = 0) between two positions inside this cell, and for a moved position "
            f"against those inside: {number_of(self.rounds, 'round')} answered."
        )
        if self.checkpoint:
            lines.append(
                f"The transcript's root is {self.checkpoint.hex()}. Everybody who answered the same round must see the "
                "same one."
            )
        return "\n".join(lines)


def _ends(low: float, high: float) -> str:
    """An interval with as many digits as tell its ends apart.

    Examples
    --------
    >>> _ends(-124.5, -114.1), _ends(-116.000048828125, -115.999969482422)
    ('[-124.5, -114.1]', '[-116.0000488, -115.9999695]')
    """
    digits = max(0, math.ceil(2 - math.log10(high - low)))  # hundredths of the side
    return f"[{round(low, digits):.15g}, {round(high, digits):.15g}]"


def crowd_words(task: Task, smallest: int | None) -> str:
    """What a task promised about crowds, and that it was missed if the smallest one is below k."""
    if task.keeps_crowd and smallest is not None and smallest < task.k:
        return f"The crowd of k = {task.k} was missed: too few took part, or some dropped out."
    return crowds_words([(task.k if task.keeps_crowd else 0, task.delta, 1)])[0]


def summarise(contents: Contents, entry: Membership) -> Summary:
    """What a vault knows of one task, for its owner."""
    task, plan, state = pinned_task(entry.task, entry.task_id.hex()), pinned_plan(entry.plan), entry.state
    outcome: Outcome = "cancelled" if entry.over else "unfinished"
    if state.phase in ("finished", "lost"):
        outcome = state.phase
    if entry.refusal:
        outcome = "refused"
    token, _, reason = entry.refusal.partition(": ")
    line = contents.ledger.line(task.id)
    return Summary(
        outcome=outcome, token=token, reason=reason, task=task, cell=state.cell, crowd=state.crowd, moves=state.moves,
        trims=state.trims,
        rounds=state.answered, epsilon=float(line.spent("epsilon")) if line else 0.0,
        exposure=float(line.spent("exposure")) if line else 0.0,
        values=tuple(str(plan.releases[index]) for index, _ in entry.released), checkpoint=entry.checkpoint,
        own=plan.own_words,
    )  # fmt: skip


def enrolment_advice(token: str, detail: str) -> str:
    """Why the server did not enrol the device, and what to do."""
    advice = {
        "bad-token": "the server does not know this token; ask the campaign's administrator for one",
        "token-used": "the token has enrolled someone else. If your vault was wiped, this device is a new participant "
        "and needs a new token",
        "pseudonym-taken": "this participant is enrolled with another key; use the vault it enrolled with",
        "enrolment-closed": "enrolment is over; nobody may join after the first round has begun",
    }
    return advice.get(token, f"the server refused the enrolment: {detail}")
