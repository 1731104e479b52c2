"""Functions that know their range over a box.

Knows how to evaluate a function at points and to bound it on boxes. Knows no data: a range comes from the function
and the box alone, because a range guessed from the data would reveal something about the data.

A range holds every value that the function returns for a point of the closed box, to the last bit. The built-in
functions evaluate a bound with the same operations in the same order as a value; subtraction, multiplication,
addition and division round monotonically, so a value cannot get past its bound. Where that argument fails (``exp``,
callables of the user) the range is a few units in the last place wider.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import msgspec
import numpy as np
import numpy.typing as npt

from .arrays import (
    Floats,
    as_boxes,
    as_index,
    as_number,
    as_numbers,
    as_points,
    as_ranges,
    as_values,
    finite,
    is_integer,
    plain,
    shown,
)
from .errors import InvalidInput
from .geometry.box import Box

_SLACK = 8  # units in the last place


@runtime_checkable
class BoundedFunction(Protocol):
    """A real function of points that knows its range over boxes."""

    @property
    def name(self) -> str:
        """How to call it in tables and messages."""

    def __call__(self, points: npt.ArrayLike) -> Floats:
        """Return the values at points float[n, d] as float[n]."""

    def range_over(self, boxes: npt.ArrayLike) -> Floats:
        """Return lower and upper bounds, float[m, 2], over boxes float[m, 2, d] (lower and upper corners)."""


def coordinate(axis: int) -> BoundedFunction:
    """Return the function that picks one coordinate.

    Examples
    --------
    >>> latitude = coordinate(1)
    >>> latitude([[4.5, 50.8]]).tolist()
    [50.8]
    >>> latitude.range_over([[[4.0, 50.0], [5.0, 51.0]]]).tolist()
    [[50.0, 51.0]]
    """
    axis = plain(axis)
    if not is_integer(axis) or axis < 0:
        raise InvalidInput(f"axis must be 0, 1, …, one of the axes of the domain; got {shown(axis)}")
    return _Coordinate(axis)


def squared_norm(center: Sequence[float] | None = None) -> BoundedFunction:
    """Return the squared Euclidean distance to ``center`` (the origin if left out).

    Examples
    --------
    >>> squared_norm().range_over([[[-10.0, -10.0], [10.0, 10.0]]]).tolist()
    [[0.0, 200.0]]
    """
    return _SquaredNorm(as_numbers(center, "center"))


def gaussian_bump(sigma: float, center: Sequence[float] | None = None) -> BoundedFunction:
    """Return exp(-‖x - center‖² / (2 sigma²)); the center is the origin if left out.

    Examples
    --------
    >>> gaussian_bump(2.0)([[0.0, 0.0], [2.0, 0.0]]).round(4).tolist()
    [1.0, 0.6065]
    """
    width = as_number(sigma, "sigma")
    if not (width > 0 and 0 < 2 * width * width < math.inf):
        raise InvalidInput(f"sigma must be positive, with a square that is a normal number; got {sigma!r}")
    return _GaussianBump(width, as_numbers(center, "center"))


def linear(weights: Sequence[float], intercept: float = 0.0) -> BoundedFunction:
    """Return the weighted sum of the coordinates plus the intercept.

    Examples
    --------
    >>> linear([2.0, -1.0], intercept=0.5).range_over([[[0.0, 0.0], [1.0, 3.0]]]).tolist()
    [[-2.5, 2.5]]
    """
    numbers = as_numbers(weights, "weights")
    if not numbers:
        raise InvalidInput(f"weights must hold one number per axis; got {weights!r}")
    return _Linear(numbers, as_number(intercept, "intercept"))


def indicator(box: Box) -> BoundedFunction:
    """Return the function that is 1 inside the box, its boundary included, and 0 elsewhere; its mean is a share.

    Examples
    --------
    >>> inside = indicator(Box((0, 0), (1, 1)))
    >>> inside([[1.0, 0.5], [1.1, 0.5]]).tolist()
    [1.0, 0.0]
    >>> inside.range_over([[[0.2, 0.2], [0.3, 0.3]], [[0.5, 0.5], [2.0, 2.0]]]).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    if not isinstance(box, Box):
        raise InvalidInput(f"indicator takes a Box, such as Box((0, 0), (1, 1)); got {shown(box)}")
    return _Indicator(box)


def function(
    evaluate: Callable[[Floats], npt.ArrayLike],
    range_over_boxes: Callable[[Floats], npt.ArrayLike],
    *,
    name: str | None = None,
) -> BoundedFunction:
    """Return your own function, with your own bounds.

    Parameters
    ----------
    evaluate : callable
        Takes points float[n, d], returns finite values float[n].
    range_over_boxes : callable
        Takes boxes float[m, 2, d], returns finite bounds float[m, 2], lower and upper, that hold on each closed box.
        They are widened by 8 units in the last place, for rounding. A value that leaves them is refused later.
    name : str, optional
        The name of ``evaluate`` if left out.

    Examples
    --------
    >>> def product(points):
    ...     return points[:, 0] * points[:, 1]
    >>> def bounds(boxes):
    ...     corners = boxes[:, :, None, 0] * boxes[:, None, :, 1]
    ...     return np.stack([corners.min(axis=(1, 2)), corners.max(axis=(1, 2))], axis=1)
    >>> area = function(product, bounds)
    >>> area.range_over([[[0.0, 1.0], [2.0, 3.0]]]).round(6).tolist()
    [[-0.0, 6.0]]
    """
    for candidate, what in ((evaluate, "evaluate"), (range_over_boxes, "range_over_boxes")):
        if not callable(candidate):
            raise InvalidInput(f"{what} must be callable; got {candidate!r}")
    return _Custom(evaluate, range_over_boxes, name or _name_of(evaluate))


def as_function(f: Any) -> BoundedFunction:
    """Return f if it knows its range over boxes; refuse anything else, with an example of what to pass.

    Examples
    --------
    >>> as_function(coordinate(0)).name
    'coordinate(0)'
    """
    # isinstance(f, BoundedFunction) asks the same, and takes as long as a small release.
    if callable(f) and hasattr(f, "range_over") and hasattr(f, "name") and not isinstance(f, type):
        return cast(BoundedFunction, f)
    raise InvalidInput(
        f"f must know its range over a box, because a range is never guessed from the data; got {_name_of(f)}. Pass "
        "for example functions.squared_norm(), functions.coordinate(0), functions."
        "function(f, range_over_boxes)"
    )


def check_values(
    f: BoundedFunction, points: npt.ArrayLike, boxes: npt.ArrayLike, *, of: npt.ArrayLike | None = None
) -> tuple[Floats, Floats]:
    """Evaluate f at points and make sure that every value is in the range that f states for the point's box.

    Parameters
    ----------
    points : array_like, shape (n, d)
    boxes : array_like, shape (m, 2, d)
        Lower and upper corners.
    of : int array_like, shape (n,), optional
        Which of the boxes each point is in. Left out, there is one box per point, or a single one for all.

    Returns
    -------
    values, ranges : float64[n], float64[m, 2]
        With ``ranges[of[i], 0] <= values[i] <= ranges[of[i], 1]``.

    Raises
    ------
    InvalidInput
        If a value leaves its range, with the first such point; if a point is not in its box.
    """
    checked = as_function(f)
    places, cells = as_points(points), as_boxes(boxes)
    if cells.shape[2] != places.shape[1]:
        raise InvalidInput(f"points have {places.shape[1]} coordinates and boxes {cells.shape[2]}")
    index = as_index(of, points=len(places), boxes=len(cells))
    inside = np.ones(len(places), dtype=bool)
    for axis in range(places.shape[1]):
        column = places[:, axis]
        inside &= (column >= cells[index, 0, axis]) & (column <= cells[index, 1, axis])
    if not inside.all():
        first = int(np.argmin(inside))
        raise InvalidInput(
            f"{np.count_nonzero(~inside)} of {len(places)} points are not in their box, the first at index {first}: "
            f"{places[first].tolist()} is not in {cells[index[first]].tolist()}; pass the box that holds the point"
        )
    values = as_values(checked(places), count=len(places), name=checked.name)
    ranges = as_ranges(checked.range_over(cells), count=len(cells), name=checked.name)
    within = (values >= ranges[index, 0]) & (values <= ranges[index, 1])
    if not within.all():
        first = int(np.argmin(within))
        raise InvalidInput(
            f"{np.count_nonzero(~within)} of {len(places)} values of {checked.name} leave the range stated for their "
            f"box, the first at index {first}: {values[first]} at {places[first].tolist()} is not in "
            f"{ranges[index[first]].tolist()}, the range over {cells[index[first]].tolist()}; correct the range"
        )
    return values, ranges


class _Coordinate(msgspec.Struct, frozen=True, tag="coordinate"):
    axis: int

    @property
    def name(self) -> str:
        return f"coordinate({self.axis})"

    def __call__(self, points: npt.ArrayLike) -> Floats:
        return self._column(as_points(points))

    def range_over(self, boxes: npt.ArrayLike) -> Floats:
        return self._column(as_boxes(boxes))

    def _column(self, array: Floats) -> Floats:
        if self.axis >= array.shape[-1]:
            raise InvalidInput(f"{self.name} needs at least {self.axis + 1} dimensions; got {array.shape[-1]}")
        return array[..., self.axis].copy()


class _SquaredNorm(msgspec.Struct, frozen=True, tag="squared-norm"):
    center: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        return f"squared_norm({list(self.center) if self.center else ''})"

    def __call__(self, points: npt.ArrayLike) -> Floats:
        return finite(self.of(np.abs(self.offsets(as_points(points)))), self.name)

    def range_over(self, boxes: npt.ArrayLike) -> Floats:
        offsets = self.offsets(as_boxes(boxes))
        # On each axis the center is below the box, above it, or at distance 0.
        near = np.maximum(np.maximum(offsets[:, 0], -offsets[:, 1]), 0.0)
        far = np.maximum(-offsets[:, 0], offsets[:, 1])
        return finite(np.stack([self.of(near), self.of(far)], axis=1), self.name)

    def offsets(self, array: Floats) -> Floats:
        if not self.center:
            return array
        if len(self.center) != array.shape[-1]:
            raise InvalidInput(f"{self.name} takes {len(self.center)} dimensions; got {array.shape[-1]}")
        with np.errstate(over="ignore"):  # refused by the caller
            return np.asarray(array - np.array(self.center))

    @staticmethod
    def of(distances: Floats) -> Floats:
        total = np.zeros(len(distances))
        with np.errstate(over="ignore"):  # refused by the caller
            for axis in range(distances.shape[1]):
                total += distances[:, axis] * distances[:, axis]
        return total


class _GaussianBump(msgspec.Struct, frozen=True, tag="gaussian-bump"):
    sigma: float
    center: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        return f"gaussian_bump({self.sigma:g}{f', {list(self.center)}' if self.center else ''})"

    def __call__(self, points: npt.ArrayLike) -> Floats:
        return self._height(_SquaredNorm(self.center)(points))

    def range_over(self, boxes: npt.ArrayLike) -> Floats:
        near, far = _SquaredNorm(self.center).range_over(boxes).T
        wide = _outward(np.stack([self._height(far), self._height(near)], axis=1))
        return np.clip(wide, 0.0, 1.0)

    def _height(self, squares: Floats) -> Floats:
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp(-(squares / (2 * self.sigma * self.sigma))))


class _Linear(msgspec.Struct, frozen=True, tag="linear"):
    weights: tuple[float, ...]
    intercept: float = 0.0

    @property
    def name(self) -> str:
        return f"linear({list(self.weights)}{f', {self.intercept:g}' if self.intercept else ''})"

    def __call__(self, points: npt.ArrayLike) -> Floats:
        array = self._fitting(as_points(points))
        return self._sum([_times(array[:, axis], weight) for axis, weight in enumerate(self.weights)])

    def range_over(self, boxes: npt.ArrayLike) -> Floats:
        array = self._fitting(as_boxes(boxes))
        ends = [np.sort(_times(array[:, :, axis], weight), axis=1) for axis, weight in enumerate(self.weights)]
        return np.stack([self._sum([end[:, side] for end in ends]) for side in (0, 1)], axis=1)

    def _fitting(self, array: Floats) -> Floats:
        if array.shape[-1] != len(self.weights):
            raise InvalidInput(f"{self.name} takes {len(self.weights)} dimensions; got {array.shape[-1]}")
        return array

    def _sum(self, terms: list[Floats]) -> Floats:
        total = np.full(len(terms[0]), self.intercept)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            for term in terms:  # one after the other: the order decides the rounding
                total += term
        return finite(total, self.name)


class _Indicator(msgspec.Struct, frozen=True, tag="indicator"):
    box: Box

    @property
    def name(self) -> str:
        return f"indicator({self.box})"

    def __call__(self, points: npt.ArrayLike) -> Floats:
        array = self._fitting(as_points(points))
        inside = (array >= self.box.lower) & (array <= self.box.upper)
        return np.asarray(inside.all(axis=1), dtype=np.float64)

    def range_over(self, boxes: npt.ArrayLike) -> Floats:
        array = self._fitting(as_boxes(boxes))
        covered = (array[:, 0] >= self.box.lower) & (array[:, 1] <= self.box.upper)
        touched = (array[:, 1] >= self.box.lower) & (array[:, 0] <= self.box.upper)
        return np.stack([covered.all(axis=1), touched.all(axis=1)], axis=1).astype(np.float64)

    def _fitting(self, array: Floats) -> Floats:
        if array.shape[-1] != self.box.dimensions:
            raise InvalidInput(f"{self.name} takes {self.box.dimensions} dimensions; got {array.shape[-1]}")
        return array


class _Custom(msgspec.Struct, frozen=True):
    evaluate: Callable[[Floats], npt.ArrayLike]
    bounds: Callable[[Floats], npt.ArrayLike]
    name: str

    def __call__(self, points: npt.ArrayLike) -> Floats:
        array = _read_only(as_points(points))
        return as_values(self.evaluate(array), count=len(array), name=self.name)

    def range_over(self, boxes: npt.ArrayLike) -> Floats:
        array = _read_only(as_boxes(boxes))
        return _outward(as_ranges(self.bounds(array), count=len(array), name=self.name))


def _read_only(array: Floats) -> Floats:
    view = array.view()
    view.flags.writeable = False
    return view


def _times(array: Floats, weight: float) -> Floats:
    with np.errstate(over="ignore"):  # refused by the caller
        return np.asarray(array * weight)


def _outward(ranges: Floats) -> Floats:
    slack = _SLACK * np.spacing(np.abs(ranges).max(axis=1, keepdims=True, initial=0.0))
    return np.asarray(ranges + slack * np.array([-1.0, 1.0]))


def _name_of(f: Any) -> str:
    return str(getattr(f, "__name__", type(f).__name__))
