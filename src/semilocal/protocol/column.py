"""Values that belong to people, not to places, with a public range.

A simulation or a curator plays many participants and has a value for every row; a device has its own. The range is
public and comes from the person who asks: one taken from the data would reveal something about it. Knows no positions
and no noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, as_boxes, as_number, short_repr, shown
from ..errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Column:
    """One value per row; takes the place of a function of the position. Use :func:`read_column`."""

    name: str
    values: Floats  # float64[n]: from ``low`` to ``high``
    low: float  # the public range
    high: float
    # whether the values lie with the rows, in a column of this name, and are read with them; ``values`` is empty
    stored: bool = False

    __repr__ = short_repr

    def __call__(self, points: npt.ArrayLike) -> Floats:
        """The values; the points must be the rows of the column, in their order."""
        self.fits(len(np.asarray(points)))
        return self.values

    def fits(self, rows: int) -> None:
        """Refuse another number of rows."""
        if rows != len(self.values) and not self.stored:
            raise InvalidInput(f"{self.name} has {len(self.values)} values; got {rows} points")

    def range_over(self, boxes: npt.ArrayLike) -> Floats:
        """The public range, for every box: float64[m, 2]."""
        return np.tile(np.array([self.low, self.high]), (len(as_boxes(boxes)), 1))

    def rows(self, which: npt.NDArray[Any]) -> Column:
        """The column of some rows."""
        return self.holding(self.values[which])

    def holding(self, values: Floats) -> Column:
        """The same column with these values, which are inside the range."""
        return Column(self.name, values, self.low, self.high)


def read_column(values: npt.ArrayLike, range: Sequence[float] | None, *, name: str = "value") -> Column:
    """A column from numbers float[n], one per row; refuses a value outside the public range, with its row.

    ``range`` is the smallest and largest value that anybody can have. Take it from what the value means, not from the
    data.
    """
    low, high = as_range(range, name)
    if np.ma.is_masked(values):
        raise InvalidInput(f"{name}: some values are masked; remove these rows first")
    array: npt.NDArray[Any] = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "fiub":
        raise InvalidInput(f"{name} must be numbers, one per row; got {array.dtype} of shape {array.shape}")
    numbers = array.astype(np.float64)
    good = (numbers >= low) & (numbers <= high)  # false for NaN
    if not good.all():
        missing = int(np.count_nonzero(np.isnan(numbers)))
        bad = int(np.count_nonzero(~good))
        refuse_values(name, low, high, rows=len(good), bad=bad, missing=missing, first=int(np.argmin(good)))
    return Column(name, numbers, low, high)


def stored_column(name: str, range: Sequence[float] | None) -> Column:
    """A column that is read with the rows; they say whether all values are inside the public range."""
    return Column(name, np.empty(0), *as_range(range, name), stored=True)


def refuse_values(name: str, low: float, high: float, *, rows: int, bad: int, missing: int, first: int = -1) -> None:
    """Refuse a column if some values are outside the public range or missing (``bad``, of which ``missing`` are).

    ``first`` is the row of the first bad one, from 0, if it is known. What stands there is somebody's: not repeated.
    """
    if bad:
        what = "are missing or outside" if missing else "are outside"
        where = f", the first in row {first:,}" if first >= 0 else ""
        raise InvalidInput(
            f"{name}: {bad:,} of {rows:,} values {what} the public range {low:g} to {high:g}{where}; remove these "
            "rows, cut their values, or state a wider range (the noise grows with it)"
        )


def as_range(range: Any, name: str) -> tuple[float, float]:
    """Return (low, high) with low < high, both finite, or refuse it."""
    if range is None:
        raise InvalidInput(
            f"{name} needs its public range, such as range=(0, 100): the smallest and largest value that anybody can "
            "have. It is never taken from the data, because that would reveal something about them"
        )
    try:
        low, high = range
    except (TypeError, ValueError):
        got = range if isinstance(range, tuple) else shown(range)
        raise InvalidInput(f"range must be two numbers, smallest and largest; got {got}") from None
    low, high = as_number(low, "range"), as_number(high, "range")
    if not (low < high and np.isfinite(high - low)):
        raise InvalidInput(f"range must be two numbers, the smallest first; got {range!r}")
    return low, high


def own_value(f: object) -> str:
    """What people's own value is, with its range, in words; empty for a function of the position."""
    return f"{f.name} from {f.low:g} to {f.high:g}" if isinstance(f, Column) else ""
