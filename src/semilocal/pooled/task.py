"""The pooled task: everything public about one collection whose regions nobody ever learns.

The counts of a public binary hierarchy are published with noise, level by level, only where people are. Each path from
the root to a final cell has the budget ``epsilon / 2``, cut into ``UNITS`` equal units, so that every sum of budgets is
a sum of integers.

A person who moves from x to y changes the difference of the smallest common cell w by two, one difference of every
opened cell below w on either path by one, and two final counts by one. Each path spends all that was left at w, no
more: the loss is ``epsilon * left(w) / UNITS``, exactly, and 0 inside one final cell (PROOF.md).

Knows parameters and the promise. Knows no state of a run and no data.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal

import msgspec

from ..arrays import is_integer, is_number, require, shown
from ..errors import InvalidInput
from ..geometry.box import Box
from ..geometry.units import at_least, lengths_words, side_unit
from ..hierarchy import BinaryTree, Halved, SphereTree, TableTree
from ..hierarchy.tables import in_twos
from ..protocol.promise import Guarantee, Mark, marked
from ..protocol.task import Identified, check_alone, read_canonical

Trust = Literal["curator", "two-servers"]

UNITS = 1024  # equal parts of a path's budget
MAX_LEVELS = 40
MAX_EPSILON = 100.0
MAX_REPORTS = 1000
# A round number on a flat optimum, chosen on three datasets, checked on the fourth.
_CROWD = 12.0  # a cell is opened when its expected difference is this many times the noise scale of a whole path budget
_TICK_BITS = 20  # default resolution: 2**20 slices per axis, as far as 40 levels reach


class PooledTask(
    Identified, frozen=True, kw_only=True, tag_field="type", tag="pooled-task", forbid_unknown_fields=True
):
    """One collection with plain differential privacy; use :meth:`build`."""

    hierarchy: Halved  # the public tree, at most two children per cell, at most 40 levels
    epsilon: float  # the loss for any change of one person's position, anywhere in the domain (pure, delta = 0)
    # Who adds noise. A curator adds one draw to every published number; two servers add one each, and either alone is
    # enough for the promise
    trust: Trust
    max_reports: int = 1  # how many one person may send. The noise grows by it, and the promise is per person
    threshold: float  # smallest expected difference between a cell's children, in reports, for which it is opened
    opening_share: float = 0.125  # largest share of a path's budget that opening one cell may cost
    label: str = ""  # for people; part of the task's id

    def __post_init__(self) -> None:
        good = isinstance(self.hierarchy, BinaryTree | SphereTree | TableTree) and self.hierarchy.fanout == 2
        require(good, "hierarchy", "a tree with at most two children per cell, such as BinaryTree", self.hierarchy)
        depth = self.hierarchy.max_depth
        require(depth <= MAX_LEVELS, "max_depth", f"an integer from 1 to {MAX_LEVELS}", depth)
        _check(self.epsilon, self.trust, self.max_reports)
        good = is_number(self.threshold) and 0 < self.threshold <= 2**53
        require(good, "threshold", "a number of reports above 0", self.threshold)
        good = is_number(self.opening_share) and 1 / UNITS <= self.opening_share <= 0.5
        require(good, "opening_share", f"a share from {1 / UNITS:g} to 0.5", self.opening_share)
        require(isinstance(self.label, str), "label", "a text", self.label)
        for name in ("epsilon", "threshold", "opening_share"):  # 1 and 1.0 must have the same bytes
            msgspec.structs.force_setattr(self, name, float(getattr(self, name)))

    @classmethod
    def build(
        cls,
        box: Box | None = None,
        *,
        epsilon: float,
        trust: Trust,
        hierarchy: Halved | None = None,
        resolution: float | tuple[float, ...] | None = None,
        max_depth: int | None = None,
        max_reports: int = 1,
        label: str = "",
    ) -> PooledTask:
        """A task with the usual rule; its threshold follows from epsilon, the number of noises and max_reports.

        Parameters
        ----------
        box, epsilon, trust, max_reports, label
            As of the class: the public domain, and loss for any change of one person's position anywhere in it.
        hierarchy : BinaryTree, SphereTree or TableTree, optional
            The public tree, instead of ``box``, ``resolution`` and ``max_depth``. A table is taken in twos
            (:func:`semilocal.hierarchy.tables.in_twos`).
        resolution : float or one per axis, optional
            No cell gets a side shorter than this, in units of the axes, or in kilometres where they are longitude and
            latitude, anywhere in the box; at most half of it. Without it, 2**-20 of the box or 40 levels, whichever is
            coarser.
        max_depth : int, optional
            The deepest level, instead of ``resolution``.

        Examples
        --------
        >>> task = PooledTask.build(Box((0, 0), (1, 1)), epsilon=2.0, trust="curator", resolution=0.01)
        >>> task.hierarchy.max_depth, task.noises, task.threshold
        (12, 1, 12.0)
        """
        _check(epsilon, trust, max_reports)
        if hierarchy is None:
            require(isinstance(box, Box), "box", "a semilocal.Box", box)
            assert box is not None
            hierarchy = _tree_for(box, resolution, max_depth)
        else:
            check_alone(hierarchy, box=box, resolution=resolution, max_depth=max_depth)
            if isinstance(hierarchy, TableTree) and hierarchy.fanout > 2:
                hierarchy = in_twos(hierarchy)
        noise_scale = math.sqrt(2 if trust == "two-servers" else 1) * max_reports / (epsilon / 2)
        return cls(
            hierarchy=hierarchy, epsilon=epsilon, trust=trust, max_reports=max_reports,
            threshold=_CROWD * noise_scale, label=label,
        )  # fmt: skip

    # -- what it is ----------------------------------------------------------------------------------------

    @classmethod
    def from_bytes(cls, data: bytes) -> PooledTask:
        """The task that these canonical bytes stand for; refuses all others."""
        return read_canonical(data, msgspec.msgpack.Decoder(cls), "pooled task")

    @property
    def box(self) -> Box:
        """The domain."""
        return self.hierarchy.box

    # -- what it costs -------------------------------------------------------------------------------------

    @property
    def noises(self) -> int:
        """Independent draws of noise in every published number: one per party that adds noise."""
        return 2 if self.trust == "two-servers" else 1

    @property
    def path_budget(self) -> float:
        """Loss of one whole path: half of epsilon. Also the loss if one person is added or removed, but for the
        number of people, which is public."""
        return self.epsilon / 2

    @property
    def unit(self) -> Fraction:
        """Loss of one unit of the path's budget for a change of one published number by one report, exactly."""
        return Fraction(self.epsilon) / (2 * UNITS * self.max_reports)


def _tree_for(box: Box, resolution: float | tuple[float, ...] | None, max_depth: int | None) -> BinaryTree:
    if resolution is not None and max_depth is not None:
        raise InvalidInput("give resolution or max_depth, not both: each of them fixes the smallest cell")
    if max_depth is None:
        max_depth = _default_depth(box) if resolution is None else _depth_for(box, resolution)
    return BinaryTree(box, max_depth)


def _default_depth(box: Box) -> int:
    """The deepest level, at most 40, whose cells floats can tell apart, with as many halvings on every axis."""
    step = box.dimensions
    for depth in range(min(MAX_LEVELS, _TICK_BITS * step) // step * step, 0, -step):
        try:
            BinaryTree(box, depth)
        except InvalidInput:
            continue
        return depth
    return 1


def _depth_for(box: Box, resolution: Any) -> int:
    """Most levels that leave every side of every cell at least as long as the resolution, at most 40."""
    least = tuple(resolution) if hasattr(resolution, "__iter__") else (resolution,)
    if len(least) not in (1, box.dimensions) or not all(is_number(side) and 0 < side < math.inf for side in least):
        raise InvalidInput(
            f"resolution must be a length above 0, or one per axis ({box.dimensions}); got {shown(resolution)}"
        )
    for depth in range(_default_depth(box), box.dimensions - 1, -box.dimensions):
        if at_least([BinaryTree(box, depth).smallest_sides], least)[0]:
            return depth
    halves = lengths_words(BinaryTree(box, box.dimensions).smallest_sides)
    raise InvalidInput(
        f"resolution must be at most half of the box on every axis; the halves of {box} measure "
        f"{halves} {side_unit(box)}".rstrip()
        + f" and the resolution is {shown(resolution)}"
    )


def _check(epsilon: Any, trust: Any, reports: Any) -> None:
    good = is_number(epsilon) and 1e-6 <= epsilon <= MAX_EPSILON
    require(good, "epsilon", f"a number above 0, from 1e-6 to {MAX_EPSILON:g}", epsilon)
    require(trust in ("curator", "two-servers"), "trust", "'curator' or 'two-servers'", trust)
    good = is_integer(reports) and 1 <= reports <= MAX_REPORTS
    require(good, "max_reports", f"an integer from 1 to {MAX_REPORTS}", reports)


def guarantee(
    task: PooledTask, *, releases: tuple[tuple[str, float], ...] = (), mark: Mark | None = None, area: str = "domain"
) -> Guarantee:
    """The promise of a task whose positions lie in an ``area``.

    ``releases`` are what else is published about the same reports, with its loss for any change of one person's
    position, near or far; half of it if a person is added or removed.
    """
    more = sum(loss for _, loss in releases)
    return Guarantee.plain(
        task.trust,
        task.epsilon + more,
        ladder=(("in the same final cell", more), (f"anywhere in the {area}", task.epsilon + more)),
        releases=releases,
        rows=task.max_reports,
        **marked(mark),
        about=f"Domain: {task.box}. Counts of a public tree of cells, at most {task.hierarchy.max_depth} levels.",
        notes=(presence_note(task.path_budget + more / 2),),
    )


def presence_note(loss: float, reports: str = "the number of reports") -> str:
    """What is lost if a person takes part or not, in words: their number is public, exactly."""
    return (
        f"If one person is added or removed: epsilon = {loss:g} (delta = 0) for everything but {reports}, which is "
        "public."
    )


# msgspec builds what it knows of a type at its first use, and two threads that do so at once crash: do it here.
msgspec.msgpack.Decoder(PooledTask)
