"""Checks of what goes into and comes out of functions with known ranges.

Knows shapes, dtypes and finiteness. Knows no function. Every check returns an array that is safe to use, or raises
:class:`~semilocal.errors.InvalidInput` with what was allowed, what came and where.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .errors import InvalidInput

__all__ = [
    "Flags",
    "Floats",
    "Integers",
    "Words",
    "as_boxes",
    "as_floats",
    "as_index",
    "as_number",
    "as_numbers",
    "as_points",
    "as_ranges",
    "as_values",
    "finite",
]

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]  # random words, cells
Flags: TypeAlias = npt.NDArray[np.bool_]


def as_points(points: npt.ArrayLike) -> Floats:
    """Return points as float[n, d], or refuse them."""
    array = as_floats(points, "points")
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidInput(f"points must have shape (n, d); got {array.shape}")
    return array


def as_boxes(boxes: npt.ArrayLike) -> Floats:
    """Return boxes as float[m, 2, d] with lower <= upper, or refuse them."""
    array = as_floats(boxes, "boxes")
    if array.ndim != 3 or array.shape[1] != 2 or array.shape[2] == 0:
        raise InvalidInput(f"boxes must have shape (m, 2, d), lower and upper corners; got {array.shape}")
    if not (array[:, 0] <= array[:, 1]).all():
        first = int(np.argmax((array[:, 0] > array[:, 1]).any(axis=1)))
        raise InvalidInput(f"boxes need lower <= upper on every axis; box {first} is {array[first].tolist()}")
    return array


def as_values(values: Any, *, count: int, name: str) -> Floats:
    """Return what a function gave for ``count`` points as finite float[count], or refuse it."""
    array = as_floats(values, f"values of {name}", kinds="fiub")
    if array.shape != (count,):
        raise InvalidInput(f"{name} must return one value per point, shape ({count},); got {array.shape}")
    return array


def as_ranges(ranges: Any, *, count: int, name: str) -> Floats:
    """Return what a function gave as its range over ``count`` boxes as finite float[count, 2], or refuse it."""
    array = as_floats(ranges, f"ranges of {name}", kinds="fiub")
    if array.shape != (count, 2):
        raise InvalidInput(f"the range of {name} must be lower and upper, shape ({count}, 2); got {array.shape}")
    if not (array[:, 0] <= array[:, 1]).all():
        first = int(np.argmax(array[:, 0] > array[:, 1]))
        raise InvalidInput(f"the range of {name} needs lower <= upper; for box {first} it is {array[first].tolist()}")
    return array


def as_index(of: npt.ArrayLike | None, *, points: int, boxes: int) -> Integers:
    """Return which box each point is in, int[points]; without ``of``, one box each or one for all."""
    if of is None:
        if boxes not in (1, points):
            raise InvalidInput(f"give one box per point, a single box, or of=; got {points} points and {boxes} boxes")
        return np.zeros(points, dtype=np.int64) if boxes == 1 else np.arange(points)
    index = np.asarray(of)
    if index.shape != (points,) or index.dtype.kind not in "iu":
        raise InvalidInput(f"of must hold one integer per point, shape ({points},); got {index.dtype} {index.shape}")
    if points and not (index.min() >= 0 and index.max() < boxes):
        raise InvalidInput(f"of must be in [0, {boxes}); got values from {index.min()} to {index.max()}")
    return index.astype(np.int64)


def as_floats(values: Any, what: str, *, kinds: str = "fiu") -> Floats:
    """Return finite float64 of any shape, or refuse it."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in kinds and array.size:
            raise ValueError(f"dtype {array.dtype}")
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} must be an array of numbers: {error}") from None
    return finite(array, what)


def finite(array: Floats, what: str) -> Floats:
    """Return the array if all of it is finite."""
    good = np.isfinite(array)
    if not good.all():
        first = np.unravel_index(int(np.argmin(good)), array.shape)
        raise InvalidInput(
            f"{what} must be finite; {np.count_nonzero(~good)} of {array.size} are not, the first at index "
            f"{tuple(int(i) for i in first)}: {array[first]}"
        )
    return array


def as_numbers(values: Any, name: str) -> tuple[float, ...]:
    """Return a tuple of finite numbers, one per axis; empty for None."""
    if values is None:
        return ()
    array = as_floats(values, name)
    if array.ndim != 1 or not len(array):
        raise InvalidInput(f"{name} must hold one number per axis; got {values!r}")
    return tuple(array.tolist())


def as_number(value: Any, name: str) -> float:
    """Return one finite number."""
    array = as_floats(value, name)
    if array.ndim:
        raise InvalidInput(f"{name} must be one number; got {value!r}")
    return float(array)
