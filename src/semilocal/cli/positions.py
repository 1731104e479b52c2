"""Which number of a position belongs to which axis of a task.

People write positions as latitude, longitude; maps and tables often hold longitude first. Knows the names of axes and
says what it did. Knows no participants.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Floats
from ..errors import InvalidInput
from ..geometry.box import Box
from ..io.points import read_points

__all__ = ["describe", "parse_position", "points_for"]

LATITUDE = frozenset({"lat", "latitude"})
LONGITUDE = frozenset({"lon", "lng", "long", "longitude"})


def parse_position(text: str, box: Box) -> tuple[float, ...]:
    """A position in the order of the box's axes.

    ``name=number,…`` in any order, or numbers alone: latitude, longitude if the two axes are named so (in whichever
    order the task has them), else in the order of the axes.

    Raises
    ------
    InvalidInput
        If it cannot be read.
    OutsideDomain
        If it lies outside the box.

    Examples
    --------
    >>> bay = Box((-123, 37), (-121, 38), names=("longitude", "latitude"))
    >>> parse_position("37.77,-122.42", bay)
    (-122.42, 37.77)
    >>> parse_position("longitude=-122.42,latitude=37.77", bay)
    (-122.42, 37.77)
    """
    parts = [part.strip() for part in text.split(",")]
    example = ",".join(f"{name}=…" for name in box.names)
    if len(parts) != box.dimensions:
        raise InvalidInput(f"position must have {box.dimensions} numbers, such as {example}; got {text!r}")
    named = [part.partition("=") for part in parts]
    if all(sign for _, sign, _ in named):
        given = {name.strip(): _number(value, text) for name, _, value in named}
        if set(given) != set(box.names):
            raise InvalidInput(f"position must name the axes {', '.join(box.names)} once each; got {text!r}")
        position = tuple(given[name] for name in box.names)
    else:
        numbers = [_number(part, text) for part in parts]
        position = tuple(numbers[place] for place in _places(box))
    _check(position, box)
    return position


def describe(position: tuple[float, ...], box: Box) -> str:
    """Which axis gets which number.

    Examples
    --------
    >>> describe((-122.42, 37.77), Box((-123, 37), (-121, 38), names=("longitude", "latitude")))
    'longitude = -122.42, latitude = 37.77'
    """
    return ", ".join(f"{name} = {number:.10g}" for name, number in zip(box.names, position, strict=True))


def points_for(path: str, box: Box, *, drop_outside: bool = False) -> tuple[Floats, str]:
    """Positions of a file in the order of the box's axes, float64[n, d], and what was done.

    Columns with the names of the axes are taken; else, in two dimensions, the columns for longitude and latitude (or
    x and y), longitude first unless the axes say otherwise.
    """
    try:
        table = read_points(path, columns=list(box.names))
        points = np.asarray(table.points)
    except InvalidInput:
        if box.dimensions != 2:
            raise
        table = read_points(path)
        points = np.asarray(table.points)
        if _geographic(box) and box.names[0].lower() in LATITUDE:
            points = points[:, ::-1]
    inside = ((points >= box.lower) & (points <= box.upper)).all(axis=1)
    said = f"{len(points):,} positions from the columns {', '.join(table.names)}"
    if drop_outside and not inside.all():
        said += f"; {int(np.count_nonzero(~inside)):,} outside the domain were dropped, as asked for"
        points = points[inside]
    return box.check(points), said


def _places(box: Box) -> list[int]:
    """Which of the numbers given goes to each axis."""
    if _geographic(box):
        return [0 if name.lower() in LATITUDE else 1 for name in box.names]
    return list(range(box.dimensions))


def _geographic(box: Box) -> bool:
    names = [name.lower() for name in box.names]
    return len(names) == 2 and any(n in LATITUDE for n in names) and any(n in LONGITUDE for n in names)


def _check(position: tuple[float, ...], box: Box) -> None:
    try:
        box.check([position])
    except InvalidInput as error:
        example = ",".join(f"{name}=…" for name in box.names)
        kind = type(error)
        raise kind(
            f"the position {describe(position, box)} is not inside the task's domain {box}. If numbers went to the "
            f"wrong axes, name them: --position {example}"
        ) from None


def _number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"position must be numbers with commas between; got {whole!r}") from None
