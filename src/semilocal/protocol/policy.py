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
from ..geometry.units import at_least, lengths_words, side_unit
from .plan import Plan
from .promise import BETWEEN, loss_words, values_words
from .task import MAX_K, Task

# What protects a person who has set nothing.
MIN_K = 20
MAX_DELTA = 1e-3
MAX_EPSILON = "10"  # of a new vault, exact

_ROUNDING = 1e-12


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What a device's owner allows. Checked when the device joins, before anything is sent.

    Attributes
    ----------
    max_epsilon : float
        Largest loss between two positions of its region (``plan.total_epsilon(task)``: the partition and all
        releases); inf for no limit. It holds against a server that lies, too: inside the region it leads the device to.
    min_k : int
        Smallest crowd that the task must promise.
    max_delta : float
        Largest chance of missing that crowd; 1 for no limit.
    allow_no_crowd, allow_simulation : bool
        Whether to join tasks that keep no crowd (the paper's printed margin), or whose noise or draw is for simulation
        only.
    min_side : tuple of float
        Every region that the device names holds a whole cell with sides at least this long: one number per axis, or one
        for all, in units of the axes (kilometres where they are longitude and latitude; on the sphere those of squares
        of the cell's area, and true sides are up to a fifth shorter); empty for no limit. A server that lies can lead a
        device to the smallest region it is willing to name.
    max_depth : int or None
        Every region holds a whole cell of at most this depth; None for no limit but the task's.
    max_splits : int or None
        How often its region may be cut; None for no limit.
    """

    max_epsilon: float
    min_k: int = MIN_K
    max_delta: float = MAX_DELTA
    allow_no_crowd: bool = False
    allow_simulation: bool = False
    min_side: tuple[float, ...] = ()
    max_depth: int | None = None
    max_splits: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_epsilon", "max_delta", "min_k", "max_depth", "max_splits"):
            msgspec.structs.force_setattr(self, name, plain(getattr(self, name)))
        loss, chance, sides = self.max_epsilon, self.max_delta, self.min_side
        endless = is_number(loss) and loss == math.inf
        require(endless or _is_amount(loss), "max_epsilon", "a number of at least 0, or inf for no limit", loss)
        require(_is_amount(chance) and chance <= 1, "max_delta", "a chance from 0 to 1", chance)
        k = self.min_k
        require(is_integer(k) and 1 <= k <= MAX_K, "min_k", f"an integer from 1 to {MAX_K}", k)
        for name in ("max_depth", "max_splits"):
            most = getattr(self, name)
            allowed = "an integer of at least 0, or None for no limit"
            require(most is None or (is_integer(most) and most >= 0), name, allowed, most)
        for name in ("allow_no_crowd", "allow_simulation"):
            require(isinstance(getattr(self, name), bool), name, "True or False", getattr(self, name))
        if not (isinstance(sides, tuple | list) and all(map(_is_amount, sides))):
            got = ", ".join(map(shown, sides)) if isinstance(sides, tuple | list) else shown(sides)
            raise InvalidInput(f"min_side must be lengths of at least 0, one or one for each axis; got {got}")
        for name in ("max_epsilon", "max_delta"):
            msgspec.structs.force_setattr(self, name, float(getattr(self, name)) + 0.0)  # zero has one sign
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
        out.append(Refusal("no-crowd", reason, "use Task.build, or ask owners to allow no crowd"))
    if task.rule == "cut" and not task.chain and not policy.allow_simulation:
        reason = "the task has no hash chain, so its server could choose who is asked"
        out.append(Refusal("no-chain", reason, "create the task on a server, which adds its chain"))
    if task.k < policy.min_k:
        reason = f"the task promises a crowd of {task.k}; the owner wants {policy.min_k}"
        out.append(Refusal("small-crowd", reason, f"raise k to {policy.min_k}, or ask owners to lower min_k"))
    if not task.delta <= policy.max_delta * (1 + _ROUNDING):
        reason = f"the crowd may fail with probability {task.delta:g}; {policy.max_delta:g} is allowed"
        change = f"lower delta to {policy.max_delta:g}, or ask owners to raise max_delta"
        out.append(Refusal("weak-crowd", reason, change))
    loss = plan.total_epsilon(task)
    if not loss <= policy.max_epsilon * (1 + _ROUNDING):
        words = f"{loss_words(loss)} between {BETWEEN['inside']}{values_words(plan.own_words)}"
        reason = f"the task costs {words}; {policy.max_epsilon:g} is left"
        change = f"lower epsilon or the releases, or ask owners to raise max_epsilon to {loss:g}"
        out.append(Refusal("over-budget", reason, change))
    return out


def foreseen(task: Task, plan: Plan) -> list[Refusal]:
    """What to tell an operator before there are devices: those with default limits would refuse, or some stop early."""
    policy, what = Policy(max_epsilon=float(MAX_EPSILON)), "devices with default limits would refuse"
    found = [
        Refusal(token, f"{what}: {reason}", change) for token, reason, change in refusals(task, plan, policy)
        if token != "no-chain"  # the server will add its chain
    ]  # fmt: skip
    if task.quorum < 1:
        share = f"{100 * task.quorum:g} % of those expected have answered"
        reason = f"devices may be left behind: a round may close when {share}; the others come too late"
        found.append(Refusal("quorum", reason, "set quorum to 1"))
    return found


def check_task(task: Task, plan: Plan, policy: Policy) -> None:
    """Refuse a task that the policy forbids: a ServerViolation with the first reason."""
    for refusal in refusals(task, plan, policy):
        raise ServerViolation(refusal.token, refusal.reason)
    check_sides(policy, task.box.dimensions)
    check_region(task, *task.hierarchy.ends, policy)  # a device that enrols is known to be in the domain


def check_sides(policy: Policy, axes: int) -> None:
    """Refuse limits on sides that are neither one number nor one for each axis."""
    if len(policy.min_side) not in (0, 1, axes):
        raise InvalidInput(f"min_side must have one number, or one for each of the {axes} axes; got {policy.min_side}")


def longer_sides(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    """The longer of two limits on each axis: of (0.5,) and (1.0, 0.1) it is (1.0, 0.5)."""
    if not one or not other:
        return one or other
    if len(one) != len(other) and 1 not in (len(one), len(other)):
        return other  # one of the two does not fit the task, which refuses it
    return tuple(np.maximum(one, other).tolist())


def check_region(task: Task, lower: int, upper: int, policy: Policy, *, splits: int = 0) -> None:
    """Refuse to name a region that is smaller than the owner allows, or cut too often: a ServerViolation."""
    if policy.max_splits is not None and splits > policy.max_splits:
        raise ServerViolation(
            "many-splits", f"the region would be cut {splits} times; the owner allows {policy.max_splits}"
        )
    if not policy.min_side and policy.max_depth is None:
        return
    ends = np.array([lower], dtype=np.uint64), np.array([upper], dtype=np.uint64)
    if policy.max_depth is not None:
        depth = int(task.hierarchy.depth(task.hierarchy.largest_cells(*ends))[0])
        if depth > policy.max_depth:
            raise ServerViolation(
                "deep-region", f"the region's largest cell has depth {depth}; the owner allows {policy.max_depth}"
            )
    found = task.hierarchy.interval_sides(*ends)
    if not at_least(found, policy.min_side)[0]:
        least = np.broadcast_to(np.array(policy.min_side), found[0].shape)
        unit = f" {side_unit(task.box)}".rstrip()
        raise ServerViolation(
            "small-region",
            f"the region's largest cell measures {lengths_words(found[0])}{unit}; the owner names none below "
            f"{lengths_words(least)}{unit}",
        )
