"""Trees whose cells are prefixes of a path of bits: one fan-out everywhere, all arithmetic is shifts.

A cell is the path from the root with a leading one: a *locational code* (root 1, child c of v is v * fanout + c). So
depth, parent and children are shifts, and the descendants of a cell are one interval of codes.

Knows integers. Knows no positions and no geometry.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..arrays import Integers
from ..errors import InvalidInput
from .base import Cells, Hierarchy, checked

__all__ = ["MAX_BITS", "PrefixTree", "cell_array"]

MAX_BITS = 60  # longest path in bits; leaves room for the leading one and for padding to whole levels


class PrefixTree(Hierarchy, frozen=True):
    """A tree of bit paths; a subclass has ``max_depth`` and ``level_bits``."""

    has_one_fanout: ClassVar[bool] = True

    @property
    def level_bits(self) -> int:
        """Bits of the path that one level consumes."""
        raise NotImplementedError

    @property
    def fanout(self) -> int:
        return 1 << self.level_bits

    @property
    def path_bits(self) -> int:
        """Bits of the longest path."""
        return self.level_bits * self.max_depth

    def fanouts(self, cells: npt.ArrayLike) -> Integers:
        return np.where(self.depth(cells) < self.max_depth, self.fanout, 0)

    def ancestors(self, codes: Cells, depth: int) -> Cells:
        return codes >> np.uint64(self.path_bits - self.level_bits * depth)

    def depth(self, cells: npt.ArrayLike) -> Integers:
        array = cell_array(cells)
        depth = self._depth(array)
        if isinstance(depth, np.ndarray):
            return depth
        out = np.empty(len(array), dtype=np.int64)
        out.fill(depth)
        return out

    def _depth(self, cells: Cells) -> int | Integers:
        """The depth of all cells, or int64[m] if they differ. Most arrays are a frontier, which has one depth."""
        if not len(cells):
            return 0
        low = high = int(cells[0])  # a device asks about its own cell alone
        if len(cells) > 1:
            low, high = int(np.minimum.reduce(cells)), int(np.maximum.reduce(cells))
        first, last = low.bit_length() - 1, high.bit_length() - 1
        depth: int | Integers
        if first == last:
            depth, odd = divmod(first, self.level_bits)
        elif self.level_bits == 1:
            depth, odd = _bit_length(cells) - 1, 0
        else:
            depth, rest = np.divmod(_bit_length(cells) - 1, self.level_bits)
            odd = int(np.maximum.reduce(rest))
        if low < 1 or last > self.path_bits or odd:
            raise InvalidInput(
                f"some numbers are not cells of a tree with fanout {self.fanout}, depth {self.max_depth}"
            )
        return depth

    def parent(self, cells: npt.ArrayLike) -> Cells:
        array = cell_array(cells)
        if np.any(self.depth(array) == 0):
            raise InvalidInput("the root has no parent")
        return array >> np.uint64(self.level_bits)

    def children(self, cells: npt.ArrayLike) -> Cells:
        array = cell_array(cells)
        depth = self._depth(array)
        if (depth if isinstance(depth, int) else np.maximum.reduce(depth)) == self.max_depth:
            raise InvalidInput(f"cells of depth {self.max_depth} have no children")
        below = array << np.uint64(self.level_bits)
        return (below[:, None] | np.arange(self.fanout, dtype=np.uint64)).ravel()

    def number(self, cells: npt.ArrayLike) -> Integers:
        array = cell_array(cells)
        if np.any(self.depth(array) == 0):
            raise InvalidInput("the root is not a child")
        return (array & np.uint64(self.fanout - 1)).astype(np.int64)

    def span(self, cells: npt.ArrayLike) -> tuple[Cells, Cells]:
        array = cell_array(cells)
        shift = np.asarray(self.path_bits - self.level_bits * self._depth(array), dtype=np.uint64)
        return array << shift, ((array + np.uint64(1)) << shift) - np.uint64(1)

    # -- intervals of codes --------------------------------------------------------------------------------

    def _coarsest(self, first: Cells, last: Cells) -> Cells:
        # The code with the most zeros at its end: below the highest bit in which the ends differ it has none but zeros.
        below = (np.uint64(1) << (_bit_length((first - np.uint64(1)) ^ last) - 1).astype(np.uint64)) - np.uint64(1)
        return np.asarray(last & ~below)

    def interval_cells(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> tuple[Integers, Cells]:
        low, high = checked(self, lower, upper)
        size = len(low)
        row, rows, found = np.arange(size), [np.empty(0, dtype=np.int64)], [low[:0]]
        while len(row):  # the longest cell that begins where the last one ended
            bits = np.minimum(_bit_length(low & (~low + np.uint64(1))), _bit_length(high - low)) - 1
            shift = (bits // self.level_bits * self.level_bits).astype(np.uint64)
            rows.append(row)
            found.append(low >> shift)
            low = low + (np.uint64(1) << shift)
            left = low < high
            row, low, high = row[left], low[left], high[left]
        every = np.concatenate(rows)
        first = np.append(0, np.cumsum(np.bincount(every, minlength=size)))
        return first, np.concatenate(found)[np.argsort(every, kind="stable")]

    def largest_cells(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Cells:
        low, high = checked(self, lower, upper)
        level = (_bit_length(high - low) - 1) // self.level_bits
        cells = np.zeros_like(low)
        for fewer in (1, 0):  # one that is as long as the interval may not fit in; of half the length, one does
            shift = np.maximum((level - fewer) * self.level_bits, 0).astype(np.uint64)
            found = (low + ((np.uint64(1) << shift) - np.uint64(1))) >> shift
            cells = np.where((found + np.uint64(1)) << shift <= high, found, cells)
        return cells

    def interval_names(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> list[str]:
        """From where to where on the curve, as digits (hexadecimal) behind a point: "0-8" is the first half."""
        low, high = checked(self, lower, upper)
        begin, end = self.ends
        digits = -(-self.path_bits // 4)

        def text(code: int) -> str:
            place = (code - begin) << (4 * digits - self.path_bits)
            return f"{place:0{digits}x}".rstrip("0") or "0" if code < end else "end"

        return [f"{text(one)}-{text(other)}" for one, other in zip(low.tolist(), high.tolist(), strict=True)]


def cell_array(cells: npt.ArrayLike) -> Cells:
    array: npt.NDArray[Any] = np.asarray(cells)
    kind = array.dtype.kind
    if array.ndim != 1 or (array.size and kind not in "iu") or (kind == "i" and (array < 0).any()):
        raise InvalidInput(f"cells must be a one-dimensional array of integers above 0; got {array.dtype}{array.shape}")
    return array.astype(np.uint64, copy=False)


def _bit_length(array: Cells) -> Integers:
    """Bits needed for each number below 2^63: the exponent of a float that cannot be rounded up to the next one."""
    half = array >> np.uint64(1)
    half &= array
    half ^= array  # the number without ones that follow a one
    bits = half.astype(np.float64).view(np.int64)
    bits >>= 52
    bits -= 1022
    return bits
