"""The contract of a hierarchy: a fixed public tree of cells over the domain, chosen before any data is seen.

A **cell** is a number above 0 that means nothing outside its hierarchy. A **code** is a number as well: the place of a
position on a curve through the whole domain. What every hierarchy promises:

1. The root is cell 1 (``ROOT``), has depth 0 and holds every position of the domain.
2. A cell above ``max_depth`` has 1 to ``fanout`` children; how many may differ from cell to cell. They are numbered
   from 0, do not overlap, and together they are the cell. Every path ends at ``max_depth``; a path that has nothing
   left to divide goes on with one child at a time.
3. The codes of a cell are one interval, ``span``. Children have their intervals in the order of their numbers. So the
   positions of a cell are one range of the sorted codes, which is what makes counting fast.
4. Cells of one depth ascend along the curve. So a frontier can be searched, and the children of ascending cells,
   taken in order, ascend again.

So a *region* can be any interval [lower, upper) of codes: a union of few cells, with two ends.

Box trees (:mod:`semilocal.hierarchy.dyadic`) and the sphere (:mod:`semilocal.hierarchy.sphere`) do this with shifts. A
table (:mod:`semilocal.hierarchy.tables`: cuts, areas, a taxonomy) numbers its cells level by level and its leaves along
the tree.

Inside, tallies have one column per child of the widest cell, zero where a cell has no such child. In messages, the row
of a cell has as many numbers as the cell has children. A device must know every hierarchy that a server may send, so a
task on the wire names one of these four.

Knows cells and codes. Knows no participants, reports or randomness.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, as_integer
from ..errors import InvalidInput
from ..geometry import units
from ..geometry.areas import Polygons as Shapes
from ..geometry.box import Box

ROOT = 1
MAX_BITS = 60  # longest path in bits; leaves room for the leading one and for padding to whole levels
Cells = npt.NDArray[np.uint64]
Polygons: TypeAlias = list[list[list[float]]]  # closed rings of one cell or region: counter-clockwise; holes clockwise


class Hierarchy(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """What all hierarchies share; use ``BinaryTree`` or ``Quadtree``, or write one (see the module's promises).

    Arrays of cells and codes are uint64[m]. Numbers that are not cells of the hierarchy raise ``InvalidInput``.
    """

    # -- shape ---------------------------------------------------------------------------------------------

    has_one_fanout: ClassVar[bool] = False  # whether all cells above the deepest level have `fanout` children
    cells_are_boxes: ClassVar[bool] = False  # whether cells are boxes that are halved: then `boxes` says all about them

    if TYPE_CHECKING:  # fields or properties of the subclasses

        @property
        def box(self) -> Box:
            """The domain, or the smallest box around it."""

        @property
        def max_depth(self) -> int:
            """The deepest level; the root has depth 0."""

    @property
    def fanout(self) -> int:
        """The largest number of children of any cell."""
        raise NotImplementedError

    def fanouts(self, cells: npt.ArrayLike) -> Integers:
        """Number of children of each cell: int64[m], 1 to ``fanout``, and 0 at the deepest level."""
        raise NotImplementedError

    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes of the hierarchy (32 bytes)."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).digest()

    # -- cells ---------------------------------------------------------------------------------------------

    def depth(self, cells: npt.ArrayLike) -> Integers:
        """Depth of each cell: int64[m]."""
        raise NotImplementedError

    def parent(self, cells: npt.ArrayLike) -> Cells:
        """Parent of each cell: uint64[m]. The root has none and is refused."""
        raise NotImplementedError

    def number(self, cells: npt.ArrayLike) -> Integers:
        """Which child of its parent each cell is: int64[m]. The root is refused."""
        raise NotImplementedError

    def children(self, cells: npt.ArrayLike) -> Cells:
        """All children of all cells, cell after cell: uint64[sum of fanouts]. Deepest cells are refused."""
        raise NotImplementedError

    # -- positions and codes -------------------------------------------------------------------------------

    def codes(self, points: npt.ArrayLike) -> Cells:
        """Codes of positions float[n, d]: uint64[n]. Positions outside the domain are refused."""
        raise NotImplementedError

    def span(self, cells: npt.ArrayLike) -> tuple[Cells, Cells]:
        """First and last code of each cell, both inclusive: uint64[m], uint64[m]."""
        raise NotImplementedError

    def ancestors(self, codes: Cells, depth: int) -> Cells:
        """The cells of this depth that hold the codes: uint64[n]."""
        raise NotImplementedError

    def locate(self, points: npt.ArrayLike, depth: int) -> Cells:
        """The cells of this depth that hold the positions: uint64[n]."""
        return self.ancestors(self.codes(points), as_integer(depth, "depth", low=0, high=self.max_depth))

    # -- geometry ------------------------------------------------------------------------------------------

    def boxes(self, cells: npt.ArrayLike) -> Floats:
        """Lower and upper corners of the smallest box around each cell: float64[m, 2, d]."""
        raise NotImplementedError

    def middles(self, codes: Cells) -> Floats:
        """The position that stands for each code, the middle of its deepest cell: float64[n, d]."""
        cells = self.ancestors(codes, self.max_depth)
        return self.places(cells, np.full((len(cells), self.box.dimensions), 0.5))

    def places(self, cells: npt.ArrayLike, shares: Floats) -> Floats:
        """The position at these shares of each cell's sides: float64[n, d]; even in the cell if the shares are."""
        lower, upper = self.boxes(cells).transpose(1, 0, 2)
        return np.asarray(np.minimum(lower + (upper - lower) * shares, upper))

    def sides(self, cells: npt.ArrayLike) -> Floats:
        """Lengths of each cell's sides, in km where the axes are longitude and latitude: float64[m, d]."""
        return units.sides(self.boxes(cells), self.box)

    @property
    def smallest_sides(self) -> Floats:
        """Shortest sides of any cell: float64[d]."""
        raise NotImplementedError

    def areas(self, cells: npt.ArrayLike) -> Floats:
        """Areas in km² on a map, else products of the sides in units of the axes: float64[m]."""
        return units.areas(self.boxes(cells), geographic=units.is_map(self.box))

    @property
    def leaves(self) -> dict[str, float]:
        """The position that stands for a leaf, by its label; empty where positions are numbers."""
        return {}

    def check_coordinates(self, function: str) -> None:
        """Refuse a function of the coordinates where positions are labels: their numbers mean nothing."""
        if self.leaves:
            raise InvalidInput(
                f"{function}: positions are labels of {self.box.names[0]!r}, which have no coordinates; ask for "
                "counts, or for the mean of a value of people's own"
            )

    def names(self, cells: npt.ArrayLike) -> list[str]:
        """What cells are called; empty texts if they have no labels."""
        return [""] * len(np.asarray(cells))

    def polygons(self, cells: npt.ArrayLike) -> list[Polygons]:
        """Outlines of cells in two dimensions: closed rings, counter-clockwise, one per part of a cell."""
        corners = (self.boxes(cells) if len(np.asarray(cells)) else np.empty((0, 2, 2))).tolist()
        return [[[[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]] for (x0, y0), (x1, y1) in corners]

    def shares(self, cells: npt.ArrayLike, queries: Floats) -> Floats:
        """Which share of each cell lies in each box float64[q, 2, d]: float64[q, m]."""
        out = np.ones((len(queries), len(np.asarray(cells))))
        for axis, (low, high) in enumerate(self.boxes(cells).transpose(2, 1, 0)):
            begin, end = queries[:, 0, axis, None], queries[:, 1, axis, None]
            out *= np.maximum(np.minimum(end, high) - np.maximum(begin, low), 0.0) / (high - low)
        return out

    def shares_in(self, cells: npt.ArrayLike, polygons: Shapes) -> Floats:
        """Which share of each cell lies in each polygon: float64[q, m]."""
        raise InvalidInput("this hierarchy has no polygons; ask about boxes")

    # -- intervals of codes --------------------------------------------------------------------------------

    @property
    def ends(self) -> tuple[int, int]:
        """The root's first code, and the code after its last."""
        first, last = self.span([ROOT])
        return int(first[0]), int(last[0]) + 1

    def coarsest(self, first: npt.ArrayLike, last: npt.ArrayLike) -> Cells:
        """Of the codes first to last (both inclusive) the one that begins the coarsest cell: uint64[m].

        Cells of smaller depth are coarser; of several, the first. A quadtree counts the halves of its cells as well.
        The root's first code is refused: nothing is cut there.
        """
        lower, upper = checked(self, first, np.asarray(last) + 1)
        if np.any(lower == self.ends[0]):
            raise InvalidInput(f"the root's first code, {self.ends[0]}, cuts nothing; give later codes")
        return self._coarsest(lower, upper - np.uint64(1))

    def _coarsest(self, first: Cells, last: Cells) -> Cells:
        raise NotImplementedError

    def interval_cells(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> tuple[Integers, Cells]:
        """The fewest cells that intervals [lower, upper) consist of, along the curve: int64[m + 1], uint64[c].

        Interval i has the cells first[i] to first[i + 1] - 1. Empty intervals are refused, here and below.
        """
        low, high = checked(self, lower, upper)
        bounds, row, rows, found = np.zeros(len(low) + 1, dtype=np.int64), np.arange(len(low)), [], [low[:0]]
        while len(row):
            found.append(self._longest(low, high))
            rows.append(row)
            low = self.span(found[-1])[1] + np.uint64(1)
            left = low < high
            row, low, high = row[left], low[left], high[left]
        every = np.concatenate([row, *rows])
        np.cumsum(np.bincount(every, minlength=len(bounds) - 1), out=bounds[1:])
        return bounds, np.concatenate(found)[np.argsort(every, kind="stable")]

    def _longest(self, low: Cells, high: Cells) -> Cells:
        """The coarsest cells that begin at ``low`` and end before ``high``: uint64[m]."""
        raise NotImplementedError

    def largest_cells(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Cells:
        """The cell with the most codes inside each interval, the first of several: uint64[m]."""
        first, cells = self.interval_cells(lower, upper)
        begin, end = self.span(cells)
        order = np.lexsort((begin, ~(end - begin), rows_of(first)))  # the one with the most codes first
        return cells[order][first[:-1]]

    def interval_areas(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Floats:
        """Areas of intervals, in the units of ``areas``: float64[m]."""
        first, cells = self.interval_cells(lower, upper)
        return np.asarray(np.bincount(rows_of(first), self.areas(cells), len(first) - 1), dtype=np.float64)

    def interval_boxes(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Floats:
        """Lower and upper corners of the smallest box around each interval's cells: float64[m, 2, d]."""
        first, cells = self.interval_cells(lower, upper)
        if len(first) == 1:
            return np.empty((0, 2, self.box.dimensions))
        low, high = self.boxes(cells).transpose(1, 0, 2)
        return np.stack([np.minimum.reduceat(low, first[:-1]), np.maximum.reduceat(high, first[:-1])], axis=1)

    def wall_lines(self, lower: npt.ArrayLike, cuts: npt.ArrayLike, upper: npt.ArrayLike) -> list[Polygons]:
        """Where the parts of intervals below and above a cut meet, as straight lines from point to point, per interval.

        In one dimension the point, twice; none where cells are not boxes.
        """
        middle = np.asarray(cuts, dtype=np.uint64)
        if self.box.dimensions != 1:
            return [[] for _ in middle]
        return [[[[x], [x]]] for x in self.boxes(self.ancestors(middle, self.max_depth))[:, 0, 0].tolist()]

    def interval_sides(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Floats:
        """Sides of the largest cell inside each interval, in the units of ``sides``: float64[m, d]."""
        return self.sides(self.largest_cells(lower, upper))

    def interval_polygons(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> list[Polygons]:
        """Outlines of intervals, as ``polygons``: the rings of all cells, unless a hierarchy joins them."""
        first, cells = self.interval_cells(lower, upper)
        parts, ends = self.polygons(cells), zip(first[:-1].tolist(), first[1:].tolist(), strict=True)
        return [[ring for part in parts[begin:end] for ring in part] for begin, end in ends]

    def interval_names(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> list[str]:
        """What intervals are called: a short text each, for people."""
        raise NotImplementedError


# -- intervals [lower, upper) of codes ---------------------------------------------


def checked(hierarchy: Hierarchy, lower: npt.ArrayLike, upper: npt.ArrayLike) -> tuple[Cells, Cells]:
    """Ends of intervals: uint64[m], uint64[m]. Refuses those that are empty, or not of the hierarchy's codes."""
    low, high = (np.asarray(side) for side in (lower, upper))
    whole = all(side.dtype.kind in "iu" or not side.size for side in (low, high))
    if low.ndim != 1 or low.shape != high.shape or not whole:
        raise InvalidInput(
            "intervals need as many lower as upper codes, integers; "
            f"got {low.dtype}{low.shape} and {high.dtype}{high.shape}"
        )
    begin, end = hierarchy.ends
    if low.size and not (low.min() >= begin and high.max() <= end and np.all(low < high)):
        raise InvalidInput(f"an interval of codes is not empty and lies within [{begin}, {end})")
    return low.astype(np.uint64, copy=False), high.astype(np.uint64, copy=False)


def rows_of(first: Integers) -> Integers:
    """The interval of each cell, from the first cell of every interval and one more: int64[c]."""
    return np.repeat(np.arange(len(first) - 1), np.diff(first))


# -- paths of bits -----------------------------------------------------------------------------------------------------


class PrefixTree(Hierarchy, frozen=True):
    """A tree whose cells are prefixes of a path of bits; a subclass has ``max_depth`` and ``level_bits``.

    A cell is the path from the root with a leading one: a *locational code* (root 1, child c of v is v * fanout + c).
    So there is one fan-out everywhere, and all arithmetic is shifts.
    """

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
        return depth if isinstance(depth, np.ndarray) else np.full(len(array), depth)

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

    def _longest(self, low: Cells, high: Cells) -> Cells:
        bits = np.minimum(_bit_length(low & (~low + np.uint64(1))), _bit_length(high - low)) - 1
        return low >> (bits // self.level_bits * self.level_bits).astype(np.uint64)

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
