"""What a device's owner allows, and what to change where that forbids a task.

Knows tasks, plans and limits. Knows no positions and no state of a run.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import msgspec
import numpy as np

from ..arrays import is_integer, is_number, plain, require, shown
from ..errors import InvalidInput, ServerViolation
from ..geometry.sides import at_least, lengths_words, side_unit
from ..hierarchy.base import ROOT
from .plan import Plan
from .promise_words import losses_words
from .task import MAX_K, Task

__all__ = [
    "MAX_DELTA",
    "MAX_EPSILON",
    "MAX_EXPOSURE",
    "MIN_K",
    "Policy",
    "Refusal",
    "check_cell",
    "check_sides",
    "check_task",
    "foreseen",
    "longer_sides",
    "refusals",
    "stops_early",
]

# What protects a person who has set nothing.
MIN_K = 20
MAX_DELTA = 1e-3
MAX_EXPOSURE = 50.0
MAX_EPSILON = "10"  # of a new vault, exact

_ROUNDING = 1e-12


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What a device's owner allows. Checked when the device joins, before anything is sent.

    Attributes
    ----------
    max_epsilon : float
        Largest loss of a moved position against any inside its region (``plan.total_epsilon(task)``: (1 + max_trims)
        reports and all releases), if the server follows the protocol; inf for no limit.
    max_exposure : float or None
        Largest loss against a server that lies: rounds answered times the loss of a report, and the releases. None:
        no limit but the task's number of rounds and the plan.
    min_k : int
        Smallest crowd that the task must promise.
    max_delta : float
        Largest chance of missing that crowd; 1 for no limit.
    allow_no_crowd, allow_simulation : bool
        Whether to join tasks that keep no crowd (as with rule "each"), or whose noise is for simulation only.
    min_side : tuple of float
        Sides of the smallest cell that the device ever names: one number per axis, or one for all, in units of the
        axes (kilometres where they are longitude and latitude; on the sphere those of squares of the cell's area, and
        true sides are up to a fifth shorter); empty for no limit. A server that lies can lead a device to the smallest
        cell it is willing to name.
    """

    max_epsilon: float
    max_exposure: float | None = MAX_EXPOSURE
    min_k: int = MIN_K
    max_delta: float = MAX_DELTA
    allow_no_crowd: bool = False
    allow_simulation: bool = False
    min_side: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("max_epsilon", "max_exposure", "max_delta", "min_k"):
            msgspec.structs.force_setattr(self, name, plain(getattr(self, name)))
        loss, exposure, chance, sides = self.max_epsilon, self.max_exposure, self.max_delta, self.min_side
        endless = is_number(loss) and loss == math.inf
        require(endless or _is_amount(loss), "max_epsilon", "a number of at least 0, or inf for no limit", loss)
        require(
            exposure is None or _is_amount(exposure), "max_exposure", "a number of at least 0, or None for no limit",
            exposure,
        )  # fmt: skip
        require(_is_amount(chance) and chance <= 1, "max_delta", "a chance from 0 to 1", chance)
        k = self.min_k
        require(is_integer(k) and 1 <= k <= MAX_K, "min_k", f"an integer from 1 to {MAX_K}", k)
        for name in ("allow_no_crowd", "allow_simulation"):
            allowed = getattr(self, name)
            require(isinstance(allowed, bool), name, "True or False", allowed)
        if not (isinstance(sides, tuple | list) and all(map(_is_amount, sides))):
            got = ", ".join(map(shown, sides)) if isinstance(sides, tuple | list) else shown(sides)
            raise InvalidInput(f"min_side must be lengths of at least 0, one or one for each axis; got {got}")
        for name in ("max_epsilon", "max_exposure", "max_delta"):
            if (amount := getattr(self, name)) is not None:
                msgspec.structs.force_setattr(self, name, float(amount) + 0.0)  # zero has one sign
        msgspec.structs.force_setattr(self, "min_side", tuple(float(side) + 0.0 for side in sides))


def _is_amount(value: object) -> bool:
    """Whether it is a number of at least 0 that a float holds."""
    return is_number(value) and 0 <= value <= sys.float_info.max


class Refusal(NamedTuple):
    """Why a device with some policy would refuse a task, or stop early, and what to change."""

    token: str
    reason: str
    change: str


def refusals(task: Task, plan: Plan, policy: Policy) -> list[Refusal]:
    """Everything in a task and its plan that a policy forbids; empty if a device may join.

    Each comparison is written as "not within", so that a limit that is not a number refuses.
    """
    out = []
    if task.randomizer.simulation_only and not policy.allow_simulation:
        out.append(Refusal("simulation-only", "the task's noise is in floats, for simulation only", "use Task.build"))
    if not task.keeps_crowd and not policy.allow_no_crowd:
        reason = "the task keeps no crowd: it may show where a participant is, alone"
        out.append(Refusal("no-crowd", reason, 'take rule "trim" or "all", or ask owners to allow no crowd'))
    if task.k < policy.min_k:
        reason = f"the task promises a crowd of {task.k}; the owner wants {policy.min_k}"
        out.append(Refusal("small-crowd", reason, f"raise k to {policy.min_k}, or ask owners to lower min_k"))
    if not task.delta <= policy.max_delta * (1 + _ROUNDING):
        reason = f"the crowd may fail with probability {task.delta:g}; {policy.max_delta:g} is allowed"
        change = f"lower delta to {policy.max_delta:g}, or ask owners to raise max_delta"
        out.append(Refusal("weak-crowd", reason, change))
    worst = plan.total_epsilon(task)
    if not worst <= policy.max_epsilon * (1 + _ROUNDING):
        losses = losses_words(task.epsilon + plan.epsilon, worst, own=plan.own_words)
        reason = f"the task may cost {losses}; {policy.max_epsilon:g} is left"
        change = f"lower epsilon, max_trims or the releases, or ask owners to raise max_epsilon to {worst:g}"
        out.append(Refusal("over-budget", reason, change))
    return out


def stops_early(task: Task, plan: Plan, policy: Policy) -> list[Refusal]:
    """What would make a device that joined stop before the last round that the task allows: its limit, or a quorum."""
    out = []
    if policy.max_exposure is not None:
        answers = int((policy.max_exposure - plan.epsilon) * (1 + _ROUNDING) / task.epsilon)
        if answers < task.max_rounds:
            reason = (
                f"the limit on exposure, {policy.max_exposure:g}, allows {max(answers, 0)} of {task.max_rounds} answers"
            )
            change = f"lower epsilon or max_rounds, or ask owners to raise max_exposure to {_exposure(task, plan):g}"
            out.append(Refusal("over-exposure", reason, change))
    if task.quorum < 1:
        reason = f"a round may close when {100 * task.quorum:g} % of those expected have answered; the others are out"
        reason += f", and a region may then hold fewer than {task.k}" if task.keeps_crowd else ""
        out.append(Refusal("quorum", reason, "set quorum to 1"))
    return out


def foreseen(task: Task, plan: Plan) -> list[Refusal]:
    """What to tell an operator before there are devices: those with default limits would refuse, or some stop early."""
    policy = Policy(max_epsilon=float(MAX_EPSILON))
    kinds = (
        ("devices with default limits would refuse", refusals(task, plan, policy)),
        ("devices might stop before they have a region", stops_early(task, plan, policy)),
    )
    return [Refusal(token, f"{what}: {reason}", change) for what, found in kinds for token, reason, change in found]


def _exposure(task: Task, plan: Plan) -> float:
    return task.max_rounds * task.epsilon + plan.epsilon


def check_task(task: Task, plan: Plan, policy: Policy) -> None:
    """Refuse a task that the policy forbids.

    Raises
    ------
    ServerViolation
    """
    for refusal in refusals(task, plan, policy):
        raise ServerViolation(refusal.token, refusal.reason)
    check_sides(policy, task.box.dimensions)
    check_cell(task, ROOT, policy)  # a device that enrols is known to be in the domain


def check_sides(policy: Policy, axes: int) -> None:
    """Refuse limits on sides that are neither one number nor one for each axis."""
    if len(policy.min_side) not in (0, 1, axes):
        raise InvalidInput(f"min_side must have one number, or one for each of the {axes} axes; got {policy.min_side}")


def longer_sides(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    """The longer of two limits on each axis.

    Examples
    --------
    >>> longer_sides((0.5,), (1.0, 0.1)), longer_sides((), (2.0,))
    ((1.0, 0.5), (2.0,))
    """
    if not one or not other:
        return one or other
    if len(one) != len(other) and 1 not in (len(one), len(other)):
        return other  # one of the two does not fit the task, which refuses it
    return tuple(np.maximum(one, other).tolist())


def check_cell(task: Task, cell: int, policy: Policy) -> None:
    """Refuse to name a cell that is smaller than the owner allows.

    Raises
    ------
    ServerViolation
    """
    if not policy.min_side:
        return
    found = task.hierarchy.sides(np.array([cell], dtype=np.uint64))
    if not at_least(found, policy.min_side)[0]:
        least = np.broadcast_to(np.array(policy.min_side), found[0].shape)
        unit = f" {side_unit(task.box)}".rstrip()
        raise ServerViolation(
            "small-cell",
            f"the cell measures {lengths_words(found[0])}{unit}; the owner names none below "
            f"{lengths_words(least)}{unit}",
        )
