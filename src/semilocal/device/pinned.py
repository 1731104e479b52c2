"""What a device reads from the server and holds on to: task, plan, closings, checkpoint, and what they cost.

Knows how to check bytes against what was pinned, and how to sum up. Decides nothing.
"""

from __future__ import annotations

import hashlib
import re
from fractions import Fraction
from functools import lru_cache

import msgspec

from ..arrays import exact
from ..errors import InvalidInput, ServerViolation
from ..protocol.messages import Closed, ValueClosed, ValueReport, decode
from ..protocol.plan import Plan
from ..protocol.promise import promise
from ..protocol.task import Task
from ..transcript.checkpoints import Checkpoint
from .channel import Answer, Channel
from .summary import Outcome, Summary
from .vault import Membership, Vault

__all__ = [
    "check_counted",
    "cost",
    "enrolment_advice",
    "only_task",
    "pinned_plan",
    "pinned_task",
    "read_checkpoint",
    "read_closed",
    "read_value_closed",
    "spent",
    "split_url",
    "summarise",
    "worst_case",
]

_TASK_URL = re.compile(r"(?P<server>https?://.*?)(?:/tasks/(?P<task>[0-9a-f]{64}))?/?")


def split_url(url: str) -> tuple[str, str]:
    """Server and task id (empty if the URL names none).

    Examples
    --------
    >>> split_url("https://here.example/")
    ('https://here.example', '')
    """
    match = _TASK_URL.fullmatch(url)
    if match is None:
        raise InvalidInput(f"url must be http(s)://server or http(s)://server/tasks/{{64 hex digits}}; got {url!r}")
    return match["server"].rstrip("/"), match["task"] or ""


def worst_case(task: Task, plan: Plan) -> tuple[Fraction, Fraction]:
    """The most that joining can cost inside the region, and against a server that lies."""
    values = sum((exact(release.epsilon) for release in plan.releases), Fraction(0))
    return (1 + task.max_trims) * exact(task.epsilon) + values, task.max_rounds * exact(task.epsilon) + values


def spent(entry: Membership, task: Task, plan: Plan) -> tuple[Fraction, Fraction]:
    """Loss so far inside the region, and against a server that lies."""
    values = sum((exact(plan.releases[index].epsilon) for index, _ in entry.released), Fraction(0))
    answered = entry.state.answered
    # TRIMs on the path, which are public; the number of own moves would show in which tasks are joined next
    reports = 1 + entry.state.trims if answered else 0
    # a roll call tells nothing about the place inside the cell
    return reports * exact(task.epsilon) + values, min(answered, task.max_rounds) * exact(task.epsilon) + values


def cost(task: Task, plan: Plan) -> str:
    """What joining may cost, in words."""
    return promise(task, plan).sentence().rstrip(".")


@lru_cache(maxsize=64)
def pinned_task(data: bytes, name: str) -> Task:
    """The task in these bytes, whose SHA-256 must be the id that was asked for."""
    if hashlib.sha256(data).hexdigest() != name:
        raise ServerViolation("other-task", "the task's bytes do not have the id that was asked for")
    return decode(data, Task)


@lru_cache(maxsize=64)
def pinned_plan(data: bytes) -> Plan:
    """The plan in these bytes."""
    return decode(data, Plan)


def read_closed(data: bytes) -> tuple[Closed, bytes]:
    """A closing and its SHA-256."""
    return decode(data, Closed), hashlib.sha256(data).digest()


def read_value_closed(data: bytes) -> tuple[ValueClosed, bytes]:
    """A closing of a round of values and its SHA-256."""
    return decode(data, ValueClosed), hashlib.sha256(data).digest()


def read_checkpoint(data: bytes) -> Checkpoint:
    """A checkpoint."""
    return decode(data, Checkpoint)


def check_counted(closed: ValueClosed, report: ValueReport) -> None:
    """A report that was acknowledged must be in the published counts."""
    rows = dict(zip(closed.cells, closed.counts, strict=True))
    if closed.round != report.round or dict(rows.get(report.cell, ())).get(report.answer, 0) < 1:
        raise ServerViolation("not-counted", "the closing does not count a value that was acknowledged")


def enrolment_advice(answer: Answer) -> str:
    """Why the server did not enrol the device, and what to do."""
    advice = {
        "bad-token": "the server does not know this token; ask whoever runs the campaign for one",
        "token-used": "the token has enrolled someone else. If your vault was wiped, this device is a new participant "
        "and needs a new token",
        "pseudonym-taken": "this participant is enrolled with another key; use the vault it enrolled with",
        "enrolment-closed": "enrolment is over; nobody may join after the first round has begun",
    }
    return advice.get(answer.token, f"the server refused the enrolment: {answer.detail}")


async def only_task(channel: Channel) -> str:
    """Id of the one task of a server that enrols; asks for a clear word if there is none or more than one."""
    answer = await channel.send("GET", "/tasks")
    try:
        tasks = msgspec.json.decode(answer.body, type=list[dict[str, object]])
        names = [str(task["task"]) for task in tasks if task.get("phase") == "enrolling"]
    except (msgspec.DecodeError, KeyError, ValueError, RecursionError):
        raise ServerViolation("malformed", f"{channel.url} does not list its tasks") from None
    if len(names) != 1 or not re.fullmatch("[0-9a-f]{64}", names[0]):
        found = ", ".join(f"{channel.url}/tasks/{name}" for name in names) or "none"
        raise InvalidInput(f"{channel.url} must have one task that enrols; got {found}. Give the URL of the task")
    return names[0]


def summarise(vault: Vault, entry: Membership) -> Summary:
    """What a vault knows of one task, for its owner."""
    task, plan, state = pinned_task(entry.task, entry.task_id.hex()), pinned_plan(entry.plan), entry.state
    outcome: Outcome = "cancelled" if entry.over else "unfinished"
    if state.phase in ("finished", "lost"):
        outcome = state.phase
    if entry.refusal:
        outcome = "refused"
    token, _, reason = entry.refusal.partition(": ")
    line = vault.contents.ledger.line(task.id)
    return Summary(
        outcome=outcome, token=token, reason=reason, task=task, cell=state.cell, crowd=state.crowd, moves=state.moves,
        trims=state.trims,
        rounds=state.answered, epsilon=float(line.spent("epsilon")) if line else 0.0,
        exposure=float(line.spent("exposure")) if line else 0.0,
        values=tuple(str(plan.releases[index]) for index, _ in entry.released), checkpoint=entry.checkpoint,
    )  # fmt: skip
