"""Arrays and numbers: the types that all modules use, and the checks of what comes in.

Knows shapes, dtypes and finiteness. Knows no domain, function or mechanism. Every check returns a value that is safe
to use, or raises :class:`~semilocal.errors.InvalidInput` with what was allowed, what came and where.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from threading import Thread
from typing import Any, TypeAlias, TypeGuard, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from .errors import InvalidInput

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]
Flags: TypeAlias = npt.NDArray[np.bool_]
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


# -- one number ----------------------------------------------------------------------------------------------------


def is_integer(value: object) -> TypeGuard[int]:
    """Whether it is an int of Python's own, which every codec writes, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is an int or a float, and no bool; it may be infinite or NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def plain(value: _Item) -> _Item:
    """A number of NumPy as Python's own; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def require(good: bool, name: str, allowed: str, got: Any) -> None:
    """Refuse a setting with its name, what is allowed, and what was given."""
    if not good:
        raise InvalidInput(f"{name} must be {allowed}; got {shown(got)}")


def check_generator(rng: np.random.Generator | None, *, needed: bool = False) -> None:
    """Refuse anything but a generator of random numbers; None is fine where none is needed."""
    if not isinstance(rng, np.random.Generator) and (needed or rng is not None):
        raise InvalidInput(f"rng must be a numpy.random.Generator; got {shown(rng)}")


def as_integer(value: Any, name: str, *, low: int, high: int | None = None) -> int:
    """Return an integer, NumPy's too, from ``low`` to ``high``."""
    whole = is_integer(value) or isinstance(value, np.integer)
    if not whole or value < low or (high is not None and value > high):
        allowed = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise InvalidInput(f"{name} must be an integer {allowed}; got {shown(value)}")
    return int(value)


def as_number(value: Any, name: str, *, positive: bool = False) -> float:
    """Return one finite number, NumPy's too."""
    array = as_floats(value, name, kinds="fiub", infinite=True)
    good = array.ndim == 0 and not isinstance(value, bool | np.bool_) and bool(np.isfinite(array))
    if not good or (positive and not array > 0):
        raise InvalidInput(f"{name} must be a {'positive' if positive else 'finite'} number; got {shown(value)}")
    return float(array)


@lru_cache(maxsize=256, typed=True)
def exact(number: float | str | Fraction) -> Fraction:
    """Return an amount that is spent, as people read it: 0.1 is one tenth, not the nearest binary fraction.

    Examples
    --------
    >>> 3 * exact(0.1) == exact("0.3")
    True
    """
    try:
        if isinstance(number, bool) or (not isinstance(number, str | Fraction) and not math.isfinite(number)):
            raise ValueError
        value = Fraction(number) if isinstance(number, str | Fraction | int) else Fraction(repr(float(number)))
    except (ValueError, TypeError, ZeroDivisionError):
        raise InvalidInput(f"an amount must be a finite number; got {shown(number)}") from None
    if value < 0:
        raise InvalidInput(f"an amount must not be negative; got {number!r}")
    return value


# -- arrays of any meaning -----------------------------------------------------------------------------------------


def as_floats(values: Any, what: str, *, kinds: str = "fiu", infinite: bool = False) -> Floats:
    """Return float64 of any shape, or refuse it; what is not finite passes with ``infinite=True``."""
    try:
        array = np.asarray(values)
        if np.ma.is_masked(values):  # the array has what the mask hides
            raise ValueError("some of them are masked; remove these first")
        if array.dtype.kind not in kinds and array.size:
            raise ValueError(f"dtype {array.dtype}; convert it first, for instance with .astype(float)")
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        ragged = "inhomogeneous" in str(error)  # numpy's word
        why = "some parts have more numbers than others" if ragged else error
        raise InvalidInput(f"{what} must be an array of numbers: {why}") from None
    return array if infinite else finite(array, what)


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


def as_column(values: Any, name: str, count: int) -> Floats:
    """Return finite float64[count], or refuse it."""
    array = as_floats(values, name)
    if array.shape != (count,):
        raise InvalidInput(f"{name} must have shape ({count},); got {array.shape}")
    return array


def as_integers(values: Any, name: str, shape: tuple[int, ...], *, limit: int) -> Integers:
    """Return int64 of this shape, each below the limit in absolute value; nothing is rounded or reshaped."""
    try:
        array: npt.NDArray[Any] = np.asarray(values)
    except ValueError as error:
        raise InvalidInput(f"{name} must be integers of shape {shape}: {error}") from None
    if array.shape != shape or (array.size and array.dtype.kind not in "iu"):
        raise InvalidInput(f"{name} must be integers of shape {shape}; got {array.dtype} of shape {array.shape}")
    if array.size and not -limit < array.min() <= array.max() < limit:
        raise InvalidInput(f"{name} must be below {limit} in absolute value")
    return array.astype(np.int64)


def as_numbers(values: Any, name: str) -> tuple[float, ...]:
    """Return a tuple of finite numbers, one per axis; empty for None."""
    if values is None:
        return ()
    array = as_floats(values, name)
    if array.ndim != 1 or not len(array):
        raise InvalidInput(f"{name} must hold one number per axis; got {shown(values)}")
    return tuple(array.tolist())


# -- points, boxes, values of functions ----------------------------------------------------------------------------


def as_points(points: npt.ArrayLike) -> Floats:
    """Return finite points as float64[n, d], or refuse them."""
    array = as_floats(points, "points")
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidInput(f"points must have shape (n, d); got {array.shape}")
    return array


def as_boxes(boxes: npt.ArrayLike, *, dimensions: int | None = None, infinite: bool = False) -> Floats:
    """Return boxes as float64[m, 2, d] with lower <= upper, or refuse them."""
    array = as_floats(boxes, "boxes", infinite=infinite)
    fits = array.ndim == 3 and array.shape[1] == 2 and array.shape[2] > 0
    if not fits or (dimensions is not None and array.shape[2] != dimensions):
        d = "d" if dimensions is None else dimensions
        raise InvalidInput(f"boxes must have shape (m, 2, {d}), lower and upper corners; got {array.shape}")
    ordered = (array[:, 0] <= array[:, 1]).all(axis=1)  # false for NaN as well
    if not ordered.all():
        first = int(np.argmin(ordered))
        raise InvalidInput(f"boxes need lower <= upper on every axis, no NaN; box {first} is {array[first].tolist()}")
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


_ARROW_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}  # integers have NumPy's names


def arrow_values(column: Any) -> npt.NDArray[Any]:
    """Numbers of a pyarrow Array or ChunkedArray without gaps, in its own type. Its ``to_numpy`` would load pandas."""
    if column.null_count:
        raise ValueError(f"{column.null_count} values are missing")
    dtype = np.dtype(_ARROW_FLOATS.get(str(column.type), str(column.type)))  # its to_pandas_dtype may load pandas too
    chunks = [chunk for chunk in getattr(column, "chunks", [column]) if len(chunk)]
    parts = [np.frombuffer(one.buffers()[1], dtype=dtype)[one.offset : one.offset + len(one)] for one in chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype=dtype), *parts])


def ranges(starts: Integers, sizes: Integers) -> Integers:
    """Runs of numbers from each start on, each of its own length, one after another.

    Examples
    --------
    >>> ranges(np.array([3, 9]), np.array([2, 1])).tolist()
    [3, 4, 9]
    """
    ends = np.cumsum(sizes)
    return np.asarray(np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - sizes), sizes))


def on_all_cores(work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """Do independent pieces of work in threads: NumPy lets others run while it is busy with a large array.

    The results are in the order of the items. The first exception is raised when all pieces are done or dropped.

    Examples
    --------
    >>> on_all_cores(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    threads = min(_cores(), len(items), _MOST_THREADS)
    if threads < 2:
        return [work(item) for item in items]
    found: dict[int, _Result] = {}
    wrong: dict[int, BaseException] = {}
    waiting = deque(enumerate(items))

    def run() -> None:
        while not wrong:
            try:
                number, item = waiting.popleft()
            except IndexError:
                return
            try:
                found[number] = work(item)
            except BaseException as error:
                wrong[number] = error

    others = [Thread(target=run) for _ in range(threads - 1)]  # this thread works, too
    for thread in others:
        thread.start()
    run()
    for thread in others:
        thread.join()
    if wrong:
        raise wrong[min(wrong)]
    return [found[number] for number in range(len(items))]


def sort_on_all_cores(values: npt.NDArray[Any]) -> None:
    """Sort in place: divided by size first, then every part by itself."""
    parts = min(_cores(), _MOST_THREADS, len(values) // _SORTED_ALONE)
    if parts < 2:
        values.sort()
        return
    edges = [len(values) * part // parts for part in range(parts + 1)]
    values.partition(edges[1:-1])
    on_all_cores(lambda part: values[edges[part] : edges[part + 1]].sort(), range(parts))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_MOST_THREADS = 8
_SORTED_ALONE = 1 << 18  # fewer numbers are not worth a thread
_LONGEST_REPR = 480  # characters


def short_repr(value: Any) -> str:
    """A short repr for frozen values: numbers as they are, arrays and containers by type and size, others by type.

    To be assigned as ``__repr__``. It shows no element of an array, no bytes and no long text, so a value that holds
    positions or secrets does not print them in a traceback or a log.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Found:
    ...     count: int
    ...     points: Floats
    ...     __repr__ = short_repr
    >>> Found(3, np.zeros((3, 2)))
    Found(count=3, points=float64[3, 2])
    """
    names: Any = getattr(value, "__struct_fields__", None) or getattr(value, "__dataclass_fields__", ())
    text = ", ".join(f"{name}={shown(getattr(value, name))}" for name in names)
    return f"{type(value).__name__}({text if len(text) <= _LONGEST_REPR else text[:_LONGEST_REPR] + '…'})"


def cut_repr(value: Any) -> str:
    """The usual repr of a struct with settings, cut where it is long. To be assigned as ``__repr__``."""
    text = msgspec.Struct.__repr__(value)
    return text if len(text) <= _LONGEST_REPR else f"{text[:_LONGEST_REPR]}…)"


def shown(value: Any) -> str:
    """What a message shows of something that it refuses: numbers and short text; of arrays and others type and size."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if value is None or isinstance(value, bool | int | float | np.number):
        return repr(value)
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:39] + "…")
    return f"{type(value).__name__}[{len(value)}]" if hasattr(value, "__len__") else type(value).__name__
