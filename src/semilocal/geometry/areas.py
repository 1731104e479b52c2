"""What is asked about, as a walk down a tree sees it: boxes or polygons, seen from cells.

Knows shapes and the domain. Knows no counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..arrays import Flags, Floats, Integers, as_boxes
from ..errors import InvalidInput
from ..words import number_of
from .box import Box
from .places import as_box
from .polygons import Polygons
from .units import is_geographic, latitude_first

__all__ = ["Areas", "Asked", "Boxes", "area_names", "as_areas", "outside_words"]

_BOXES_AT_ONCE = 1 << 10  # working arrays stay in the processor's cache
Asked: TypeAlias = Floats | Polygons  # float64[q, 2, d], or polygons in the plane


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes along the axes: lower and upper ``corners``, float64[m, 2, d]; sides may be infinite."""

    corners: Floats

    def __len__(self) -> int:
        return len(self.corners)

    def batches(self) -> Iterator[Integers]:
        """Numbers of all boxes, by their first side: neighbours open the same cells, which stay in the cache."""
        nearby = np.argsort(self.corners[:, 0, 0])
        yield from (nearby[start : start + _BOXES_AT_ONCE] for start in range(0, len(nearby), _BOXES_AT_ONCE))

    def take(self, rows: Integers) -> Boxes:
        """Some of them."""
        return Boxes(self.corners.take(rows, axis=0))

    def within(self, boxes: Floats) -> tuple[Boxes, Flags, Flags]:
        """The boxes themselves; whether they meet one box each, and hold all of it."""
        meets, holds = np.ones((2, len(self)), dtype=bool)
        for lower, upper, start, stop in self._sides(boxes):
            meets &= lower < stop
            meets &= upper > start
            holds &= lower <= start
            holds &= upper >= stop
        return self, meets, holds

    def lines_in(self, boxes: Floats) -> tuple[Integers, Integers, Floats, Flags]:
        """Of those that meet one box each, with one side inside it: which, its axis, its place, and if it is lower."""
        inside, axes = self.corners > boxes, boxes.shape[2]
        inside[:, 1] = self.corners[:, 1] < boxes[:, 1]
        sides, places = (each.reshape(len(each), 2 * axes) for each in (inside, self.corners))
        one = np.flatnonzero(np.count_nonzero(sides, axis=1) == 1)
        side = sides[one].argmax(axis=1)
        return one, side % axes, places[one, side], side < axes

    def covered(self, boxes: Floats) -> Floats:
        """Share of one box each that is covered."""
        share = np.ones(len(self))
        for lower, upper, start, stop in self._sides(boxes):
            side = np.minimum(upper, stop)
            side -= np.maximum(lower, start)
            np.maximum(side, 0.0, out=side)
            share *= np.divide(side, stop - start, out=side)
        return share

    def _sides(self, boxes: Floats) -> Iterator[tuple[Floats, Floats, Floats, Floats]]:
        """Along each axis: where these and other boxes begin and end."""
        for axis in range(boxes.shape[2]):
            yield self.corners[:, 0, axis], self.corners[:, 1, axis], boxes[:, 0, axis], boxes[:, 1, axis]


Areas: TypeAlias = Boxes | Polygons  # m of them, each seen from one cell


def as_areas(areas: Any, box: Box) -> Asked:
    """Boxes float64[q, 2, d] or polygons in the order of the domain's axes, or a refusal.

    ``areas`` are numbers of that shape, names of places, one box or its 2d numbers (see
    :func:`semilocal.geometry.places.as_box`), or polygons (see :func:`semilocal.geometry.shapes.as_polygons`).
    """
    from .shapes import as_polygons, has_shapes

    if names := area_names(areas):
        areas = [_corners(name, box) for name in names]
    elif isinstance(areas, Box):
        areas = [[areas.lower, areas.upper]]
    if isinstance(areas, Polygons) or has_shapes(areas):
        if box.dimensions != 2:
            raise InvalidInput(f"polygons need two dimensions; the domain has {box.dimensions}; ask about boxes")
        return areas if isinstance(areas, Polygons) else as_polygons(areas, box)
    d = box.dimensions
    bounds = [areas] if _are_bounds(areas, d) else areas
    several = isinstance(bounds, list | tuple) or (isinstance(bounds, np.ndarray) and bounds.ndim == 2)
    if several and len(bounds) and all(_are_bounds(each, d) for each in bounds):
        areas = [[each[:d], each[d:]] for each in bounds]
    return as_boxes(areas, dimensions=d, infinite=True)


def _are_bounds(given: Any, d: int) -> bool:
    """Whether this is the 2d numbers of one box, lower corner first."""
    if isinstance(given, np.ndarray):
        return bool(given.shape == (2 * d,))
    if not isinstance(given, list | tuple) or len(given) != 2 * d:
        return False
    return not any(isinstance(each, list | tuple | np.ndarray) for each in given)


def area_names(areas: Any) -> tuple[str, ...]:
    """The names of places, or bounds as text, that are asked about; none if it is anything else."""
    texts = [areas] if isinstance(areas, str) else areas if isinstance(areas, list | tuple) else []
    return tuple(texts) if all(isinstance(text, str) for text in texts) else ()


def _corners(name: str, box: Box) -> Floats:
    """The corners float64[2, d] of a place or of bounds as text, in the order of the domain's axes."""
    found = as_box(name)
    if "," not in name and not is_geographic(box):
        raise InvalidInput(
            f"{name!r} is in degrees, and the axes of the domain are {' and '.join(map(repr, box.names))}; call them "
            "longitude and latitude if they are degrees, or ask about corners"
        )
    corners = np.array([found.lower, found.upper])
    return corners[:, ::-1] if "," not in name and latitude_first(box) else corners


def outside_words(areas: Any, box: Box) -> str:
    """What to know about areas that reach outside the domain, and what to do; empty if none does.

    An infinite side means as far as the domain goes. Parameters are those of :func:`as_areas`.
    """
    asked = as_areas(areas, box)
    corners = asked.bounds if isinstance(asked, Polygons) else asked
    beyond = np.isfinite(corners) & ((corners < box.lower) | (corners > box.upper))
    reaching = np.flatnonzero(beyond.any(axis=(1, 2)))
    if not len(reaching):
        return ""
    some = (asked if isinstance(asked, Polygons) else Boxes(asked)).take(reaching)
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
