"""The value a participant gives: the position it acts from, and f there, scaled to the range of f over its region.

One answer for devices, simulations and planners to both questions:

- cells are half-open, and so is the region that a participant was moved into: it acts from the nearest point that is
  *in* the region, which is the double just below an upper edge (unless that is the upper edge of the domain);
- where f is constant on a region there is nothing to tell, and the scaled value is 1/2.

Knows cells, functions and doubles. Knows no participants and no noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..errors import InvalidInput, ServerViolation
from ..functions import BoundedFunction, check_values
from .keys import value_entropy
from .messages import ValueQuery, ValueReport
from .plan import Plan, Release
from .task import Task

__all__ = ["UnitValues", "nearest_inside", "unit_values"]


def nearest_inside(task: Task, points: Floats, boxes: Floats) -> Floats:
    """The points of half-open cells that are nearest to the given points: float64[n, d].

    A point that is in its cell comes back unchanged.

    Parameters
    ----------
    points : float64[n, d]
    boxes : float64[n, 2, d]
        The box of a cell for each point, as ``task.hierarchy.boxes`` gives it.

    Examples
    --------
    >>> from semilocal import Box, Task
    >>> task = Task.build(Box((0,), (1,)), epsilon=1.0, delta=0.05, k=20)
    >>> nearest_inside(task, np.array([[0.9], [0.9]]), task.hierarchy.boxes([2, 3])).tolist()
    [[0.49999999999999994], [0.9]]
    """
    upper = boxes[:, 1]
    last = np.where(upper == task.box.upper, upper, np.nextafter(upper, -np.inf))
    return np.clip(points, boxes[:, 0], last)


class UnitValues(NamedTuple):
    """Values of f at points, scaled to [0, 1] by the range of f over their boxes.

    Attributes
    ----------
    unit : float64[n]
    low, width : float64[n]
        The range that each was scaled by: f = low + unit * width.
    """

    unit: Floats
    low: Floats
    width: Floats


def unit_values(f: BoundedFunction, points: Floats, boxes: Floats, *, of: npt.ArrayLike | None = None) -> UnitValues:
    """Scale f at points to the unit interval; 1/2 where f is constant on the box.

    Parameters
    ----------
    points : float64[n, d]
    boxes : float64[m, 2, d]
    of : int[n], optional
        Which box each point is in; one box per point if left out.

    Examples
    --------
    >>> from semilocal.functions import coordinate
    >>> boxes = np.array([[[0.0, 0.0], [0.5, 1.0]]])
    >>> unit_values(coordinate(0), np.array([[0.125, 0.3]]), boxes).unit.tolist()
    [0.25]
    """
    checked = check_values(f, points, boxes, of=of)
    ranges = checked.ranges if of is None else checked.ranges[np.asarray(of)]
    low, width = ranges[:, 0], ranges[:, 1] - ranges[:, 0]
    unit = np.divide(checked.values - low, width, out=np.full(len(low), 0.5), where=width > 0)
    return UnitValues(np.clip(unit, 0.0, 1.0, out=unit), low, width)  # the division may round past an end


def check_value_query(query: ValueQuery, plan: Plan, *, first_round: int) -> Release:
    """The release that a query asks for, or a refusal.

    Parameters
    ----------
    query : ValueQuery
    plan : Plan
        The pinned one.
    first_round : int
        The round after the partition's last one.

    Raises
    ------
    ServerViolation
        Tokens "other-task", "other-plan", "unknown-release", "skipped-round".
    """
    if query.task != plan.task:
        raise ServerViolation("other-task", "the message belongs to another task than the one pinned")
    if query.plan != plan.digest:
        raise ServerViolation("other-plan", "the query belongs to another plan than the one pinned")
    if query.index not in plan.asked:
        raise ServerViolation("unknown-release", f"the plan asks for no value with index {query.index}")
    if query.round != first_round + plan.asked.index(query.index):
        raise ServerViolation("skipped-round", f"release {query.index} is not asked in round {query.round}")
    return plan.releases[query.index]


def respond_value(
    query: ValueQuery, plan: Plan, *, task: Task, secret: bytes, pseudonym: bytes, region: int, point: npt.ArrayLike,
    first_round: int,
) -> ValueReport:  # fmt: skip
    """The report of a participant that ended in ``region``; the same query gives the same bytes.

    Parameters
    ----------
    point : array_like, shape (d,)
        The position it acts from. One that a TRIM moved acts from the nearest point of its region; passing the true
        position gives the same, because it is moved into the region here.

    Raises
    ------
    ServerViolation
        If the query is not the pinned plan's.
    """
    release = check_value_query(query, plan, first_round=first_round)
    mechanism = release.mechanism
    assert mechanism is not None
    boxes = task.hierarchy.boxes(np.array([region], dtype=np.uint64))
    acting = nearest_inside(task, np.asarray(point, dtype=np.float64).reshape(1, -1), boxes)
    unit = float(unit_values(release.build(), acting, boxes).unit[0])
    entropy = value_entropy(secret, plan.task, plan.digest, query.index, region, mechanism.words)
    return ValueReport(query.task, query.round, pseudonym, region, mechanism.release_one(unit, entropy))


def check_value_report(report: ValueReport, release: Release) -> None:
    """Refuse an answer that no participant can have given.

    Raises
    ------
    InvalidInput
    """
    assert release.mechanism is not None
    if report.answer not in release.mechanism.alphabet:
        raise InvalidInput(f"an answer is an integer of {release.mechanism.alphabet}; got {report.answer}")
