"""What a device tells its owner at the end: region, crowd, what it answered or uploaded, and what was revealed.

Knows numbers and words. Neither the secret nor the position is in it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

import msgspec
import numpy as np

from ..arrays import short_repr
from ..protocol.promise import losses_words, participant_sentence
from ..protocol.task import Task
from ..sharing.pair import PairTask
from ..sharing.wire import Receipt
from .vault import Contents, Membership, PairUpload, pinned_plan, pinned_task

Outcome = Literal["finished", "stopped", "cancelled", "refused", "unfinished", "uploaded"]

_WORDS: dict[Outcome, str] = {
    "finished": "You have a region.",
    "stopped": "You have a region, and this device says no more.",
    "cancelled": "The campaign was cancelled.",
    "refused": "This device refused to go on.",
    "unfinished": "The campaign goes on; start again to follow it.",
    "uploaded": "You have uploaded. Nothing more will be asked.",
}
_NOT_SENT = "The upload is not acknowledged yet; start again to send the same bytes."


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a device's part in a task."""

    outcome: Outcome  # "stopped": the owner's limits, or an answer that got lost, ended its part; it keeps its region
    token: str = ""  # which check failed, if the device refused something
    reason: str = ""  # why, also if it stopped
    task: Task | PairTask | None = None  # None if not even the task could be accepted
    region: tuple[int, int] | None = None  # the last one that it announced: codes lower to before upper
    members: int | None = None  # how many of the roster were in it at the end; None before
    answered: int = 0  # questions
    lines: tuple[int, ...] = ()  # the cuts inside its region that it answered about
    late: bool = False  # whether it enrolled after the first round, and is counted nowhere
    epsilon: float = 0.0  # what the ledger booked: answers inside the region and values, or the upload
    given: float = 0.0  # the part of the values in it
    values: tuple[str, ...] = ()  # those that were released, in words
    own: str = ""  # the owner's own value that the plan asks for, and its range, in words
    checkpoint: bytes = b""  # root of the transcript as the server published it
    receipt: Receipt | None = None  # of an upload to two servers, signed by the leader

    __repr__ = short_repr

    def place(self) -> str:
        """The region: its labels if it has some, else the box around it."""
        assert isinstance(self.task, Task)
        assert self.region is not None
        return interval_words(self.task, *self.region)

    def text(self) -> str:
        """All of it, in plain words."""
        task, region = self.task, self.region
        why = f" Reason: {self.reason}" if self.reason else ""
        said = _NOT_SENT if isinstance(task, PairTask) and self.outcome == "unfinished" else _WORDS[self.outcome]
        lines = [said + why + (f" [{self.token}]" if self.token else "")]
        if isinstance(task, PairTask) and self.epsilon:
            if self.receipt is not None:
                sent = self.receipt.digest.hex()
                lines.append(f"Receipt of {task.leader.name}, signed: upload {sent}. It is in the vault.")
            return "\n".join([*lines, *task.spent_lines])
        if not isinstance(task, Task) or region is None:
            return "\n".join([*lines, "What you spent: nothing. No report has left this device."])
        lines.append(f"Your region: {self.place()} (codes {region[0]} to {region[1] - 1}).")
        if self.lines:
            sides = [
                f"between {interval_words(task, region[0], cut)} and {interval_words(task, cut, region[1])}"
                for cut in sorted(set(self.lines))
            ]
            lines.append(f"{'Lines' if len(sides) > 1 else 'The line'} you answered about here: {'; '.join(sides)}.")
        if self.members is not None:
            lines.append(
                participant_sentence(
                    task, members=self.members, answered=self.answered, inside=len(self.lines), late=self.late,
                    values=self.given,
                )
            )  # fmt: skip
        lines.append(f"What you spent: {losses_words(self.epsilon, own=self.own)}, also if the server lies.")
        if self.values:
            lines.append(f"Given through noise: {'; '.join(self.values)}.")
        if self.checkpoint:
            lines.append(
                f"The transcript's root is {self.checkpoint.hex()}. Everybody who followed the same round must see the "
                "same one."
            )
        return "\n".join(lines)


def interval_words(task: Task, lower: int, upper: int) -> str:
    """A region in words: its labels if cells have some, else the box around it."""
    ends = np.array([lower], dtype=np.uint64), np.array([upper], dtype=np.uint64)
    tree = task.hierarchy
    if not tree.cells_are_boxes and (name := tree.interval_names(*ends)[0]):
        return name
    low, high = tree.interval_boxes(*ends)[0]
    return " × ".join(f"{name} {_ends(a, b)}" for name, a, b in zip(task.box.names, low, high, strict=True))


def _ends(low: float, high: float) -> str:
    """An interval with as many digits as tell its ends apart.

    Examples
    --------
    >>> _ends(-124.5, -114.1), _ends(-116.000048828125, -115.999969482422)
    ('[-124.5, -114.1]', '[-116.0000488, -115.9999695]')
    """
    digits = max(0, math.ceil(2 - math.log10(high - low)))  # hundredths of the side
    return f"[{round(low, digits):.15g}, {round(high, digits):.15g}]"


def summarise(contents: Contents, entry: Membership) -> Summary:
    """What a vault knows of one task, for its owner."""
    task, plan, state = pinned_task(entry.task, entry.task_id.hex()), pinned_plan(entry.plan), entry.state
    token, _, reason = entry.refusal.partition(": ")
    outcome: Outcome = "unfinished"
    if entry.refusal:
        outcome = "refused"
    elif state.stopped:
        outcome, reason = "stopped", state.stopped
    elif entry.over:
        outcome = "cancelled" if entry.members is None else "finished"
    line = contents.ledger.line(task.id)
    region = state.region or task.hierarchy.ends
    given = [plan.releases[index] for index, _ in state.values]
    return Summary(
        outcome=outcome, token=token, reason=reason, task=task, region=state.region, members=entry.members,
        answered=len(state.book), late=entry.reported[:1] != (1,),
        lines=tuple(sorted(cut for booked in state.book for cut in booked.cuts if region[0] < cut < region[1])),
        epsilon=float(Fraction(line.spent)) if line else 0.0, given=float(sum(release.epsilon for release in given)),
        values=tuple(map(str, given)), checkpoint=entry.checkpoint, own=plan.own_words,
    )  # fmt: skip


def summarise_upload(contents: Contents, entry: PairUpload) -> Summary:
    """What a vault knows of one upload, for its owner."""
    pair = PairTask.from_bytes(entry.task)
    line = contents.ledger.line(pair.id)
    token, _, reason = entry.refusal.partition(": ")
    return Summary(
        outcome="uploaded" if entry.receipt else "refused" if entry.refusal else "unfinished",
        token=token,
        reason=reason,
        task=pair,
        epsilon=float(Fraction(line.spent)) if line else 0.0,
        receipt=Receipt.from_bytes(entry.receipt) if entry.receipt else None,
    )


ADVICE = {
    "bad-token": "the server does not know this token; ask the campaign's administrator for one",
    "token-used": "the token was used by somebody else, or by this device before its vault was wiped: it is a new "
    "participant then, and needs a new token",
    "pseudonym-taken": "this participant is enrolled with another key; use the vault it enrolled with",
    "enrolment-closed": "enrolment is over: the partition is finished, or the campaign is full",
}  # what to do when the server refuses an enrolment or an upload, by its token
