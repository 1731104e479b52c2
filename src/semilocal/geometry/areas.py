"""What is asked about, as a walk down a tree sees it: boxes or polygons, seen from cells.

Knows shapes and the domain. Knows no counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias

import numpy as np

from ..arrays import Flags, Floats, Integers, as_boxes
from ..errors import InvalidInput
from ..words import number_of
from .box import Box
from .polygons import Polygons

__all__ = ["Areas", "Asked", "Boxes", "as_areas", "outside_words"]

_BOXES_AT_ONCE = 1 << 10  # working arrays stay in the processor's cache
Asked: TypeAlias = Floats | Polygons  # float64[q, 2, d], or polygons in the plane


class Areas(Protocol):
    """m areas, each seen from one cell; :class:`Boxes` and :class:`semilocal.geometry.polygons.Polygons`."""

    def __len__(self) -> int: ...

    def batches(self) -> Iterator[Integers]:
        """Numbers of all areas, in groups of bounded size and near each other."""

    def take(self, rows: Integers) -> Self:
        """Some of them: int64[k]."""

    def within(self, boxes: Floats) -> tuple[Self, Flags, Flags]:
        """What is left of them in one box each, float64[m, 2, d]; whether they meet it, and hold all of it."""

    def share(self, boxes: Floats) -> Floats:
        """Share of one box each, float64[m, 2, d], that the areas cover after :meth:`within`: float64[m]."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes along the axes.

    Attributes
    ----------
    corners : float64[2, d, m]
        Lower and upper; sides may be infinite.
    """

    corners: Floats

    def __len__(self) -> int:
        return int(self.corners.shape[2])

    @staticmethod
    def of(boxes: Floats) -> Boxes:
        """From float64[m, 2, d]."""
        return Boxes(np.ascontiguousarray(boxes.transpose(1, 2, 0)))

    def batches(self) -> Iterator[Integers]:
        """Numbers of all boxes, by their first side: neighbours open the same cells, which stay in the cache."""
        nearby = np.argsort(self.corners[0, 0])
        yield from (nearby[start : start + _BOXES_AT_ONCE] for start in range(0, len(nearby), _BOXES_AT_ONCE))

    def take(self, rows: Integers) -> Boxes:
        """Some of them."""
        return Boxes(self.corners.take(rows, axis=2))

    def within(self, boxes: Floats) -> tuple[Boxes, Flags, Flags]:
        """The boxes themselves; whether they meet one box each, and hold all of it."""
        meets, holds = np.ones((2, len(self)), dtype=bool)
        for axis, (lower, upper) in enumerate(self.corners.transpose(1, 0, 2)):
            start, stop = boxes[:, 0, axis], boxes[:, 1, axis]
            meets &= (lower < stop) & (upper > start)
            holds &= (lower <= start) & (upper >= stop)
        return self, meets, holds

    def share(self, boxes: Floats) -> Floats:
        """Share of one box each that is covered."""
        share = np.ones(len(self))
        for axis, (lower, upper) in enumerate(self.corners.transpose(1, 0, 2)):
            begin, end = boxes[:, 0, axis], boxes[:, 1, axis]
            share *= np.maximum(np.minimum(upper, end) - np.maximum(lower, begin), 0.0) / (end - begin)
        return share


def as_areas(areas: Any, box: Box) -> Asked:
    """Boxes float64[q, 2, d] or polygons in the order of the domain's axes, or a refusal.

    Parameters
    ----------
    areas : array_like of shape (q, 2, d), or polygons
        Polygons as :func:`semilocal.geometry.shapes.as_polygons` takes them.
    box : Box
        The domain.
    """
    from .shapes import as_polygons, has_shapes

    if isinstance(areas, Polygons) or has_shapes(areas):
        if box.dimensions != 2:
            raise InvalidInput(f"polygons need two dimensions; the domain has {box.dimensions}; ask about boxes")
        return areas if isinstance(areas, Polygons) else as_polygons(areas, box)
    strange = _strange(areas)
    if strange:
        raise InvalidInput(
            f"areas are boxes, numbers of the shape (q, 2, {box.dimensions}) with lower and upper corners, or "
            f"polygons; got {strange}: leave it out, or give its corners"
        )
    return as_boxes(areas, dimensions=box.dimensions, infinite=True)


def outside_words(areas: Any, box: Box) -> str:
    """What to know about areas that reach outside the domain, and what to do; empty if none does.

    An infinite side means as far as the domain goes. Parameters are those of :func:`as_areas`.
    """
    asked = as_areas(areas, box)
    reaching = np.flatnonzero(_reach_outside(asked, box))
    if not len(reaching):
        return ""
    some = (asked if isinstance(asked, Polygons) else Boxes.of(asked)).take(reaching)
    domain = np.broadcast_to([box.lower, box.upper], (len(reaching), 2, box.dimensions))
    parts = int(np.count_nonzero(some.within(domain)[1]))
    apart = len(reaching) - parts
    found = [f"{apart:,} altogether (the count is 0)"] * (apart > 0)
    found += [f"{parts:,} in part (only the part inside is counted)"] * (parts > 0)
    verb = "reaches" if len(reaching) == 1 else "reach"
    return (
        f"{len(reaching):,} of {number_of(len(asked), 'area')} {verb} outside the domain {box}, where nobody was "
        f"asked: {', '.join(found)}. Check their units and the order of their axes, cut them to the domain, or "
        "leave them out"
    )


def _reach_outside(asked: Asked, box: Box) -> Flags:
    """Whether areas have a finite corner outside the domain: bool[q]."""
    if isinstance(asked, Polygons):
        beyond = ((asked.points < box.lower) | (asked.points > box.upper)).any(axis=1)
        out = np.zeros(len(asked), dtype=bool)
        out[asked.corner_owners[beyond]] = True
        return out
    beyond = np.isfinite(asked) & ((asked < box.lower) | (asked > box.upper))
    return np.asarray(beyond.any(axis=(1, 2)))


def _strange(areas: Any) -> str:
    """The first entry that is not an area at all, in words; empty if there is none."""
    if areas is None:
        return "None"
    if not isinstance(areas, list | tuple):
        return ""
    numbers = (list, tuple, np.ndarray, int, float, np.number)
    places = (
        place for place, area in enumerate(areas) if not isinstance(area, numbers) and not hasattr(area, "__array__")
    )
    place = next(places, None)
    if place is None:
        return ""
    return f"{'None' if areas[place] is None else type(areas[place]).__name__} in place {place}"
