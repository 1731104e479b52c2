"""Box trees: every cell is halved, one axis after the other or all axes at once, along a Hilbert curve.

Theory of operation. Every axis is cut into 2**b equal slices at the deepest level; a point becomes one slice
number (a *tick*) per axis. Interleaving the bits of the ticks, axis 0 first, gives a path on a grid, and
a table turns it into a path along a curve that never jumps (below). A cell is a prefix of that path
with a leading one: a *locational code* (root 1, child c of v is v * fanout + c). ``BinaryTree`` takes one bit per
level, ``Quadtree`` one bit per axis, so both use the same integers:

- depth, parent and children are shifts; the descendants of a cell are one interval of codes;
- all points of a cell are one range of the sorted codes (what makes the simulation fast);
- codes that follow each other are neighbours, so every interval of codes is one connected region;
- which axis halves a cell, and whether its first half is the lower one, is up to the curve.

A cell is half-open, ``lower <= x < upper`` per axis, and its edges are the floats
``lower + (upper - lower) * (i / 2**b)`` of its axis; the last cell of an axis also holds the upper edge of the
domain. So every valid point is in exactly one cell of every depth, and is inside the box that ``boxes`` returns.

The curve is a Hilbert curve in any number of dimensions, some levels per look-up in a table. A *path* has
d bits per level, the highest level first. On the *grid* the d bits of a level are one bit of every tick, axis 0 first.
Along the *curve* they are d halvings, one after the other, so every prefix of a path, of any length, is a box. A state
says how the curve runs through a box: the axis that is halved first, a, and for every axis whether the curve runs
downwards (its flip). Step j of the level halves axis a + j (mod d):

    w_j = w_(j-1) xor (bit of the axis's tick) xor (flip of the axis),    w_(-1) = 0

which is a Gray code: parts that follow each other are neighbours. Read w = w_0 w_1 ... w_(d-1) as a number. In part w
the curve goes on like this. u is w - 1 with the last bit cleared (0 for w = 0): the axis of step j is flipped once more
if bits j - 1 and j of u differ. t is the number of ones at the end of w, or of w - 1 if w is even (0 for w = 0): the
axis of step d - 1 - (t mod d) is now halved first. The whole domain has a = 0 and no flips.

A level with w = 0 takes a one step down and flips nothing. So paths of different lengths are followed together,
right-aligned with zeros in front, each from the state from which its zeros lead to a = 0.

The curve through a part is the curve through the whole, from another state: its *turn*, the number a * 2**d + flips.
Flips at the start mirror the whole grid.

Knows the geometry of cells. Knows no participants, reports or randomness.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, Integers, Words, cut_repr, is_integer, on_all_cores, shown
from ..errors import InvalidInput
from ..geometry import outline, units
from ..geometry.box import Box
from .base import MAX_BITS, ROOT, Cells, Polygons, PrefixTree, cell_array, rows_of

__all__ = ["MAX_BITS", "ROOT", "BinaryTree", "BoxTree", "Cells", "Quadtree"]

_LARGEST = 1 << 17  # entries of a table of several levels of the curve: it stays in the cache
_DIGIT = 11  # bits interleaved per table look-up: 2**11 words stay in the first-level cache
_CHUNK = 1 << 16  # points: fewer calls weigh more than a smaller cache
_AT_ONCE = 1 << 17  # points that one thread takes
_SMALLEST = 2.0**-900
_ULPS = 4  # the narrowest cell must be this many float spacings wide, so that its edges are distinct


class BoxTree(PrefixTree, frozen=True, omit_defaults=True):
    """A tree of boxes within a box; use ``BinaryTree`` or ``Quadtree``.

    Parameters
    ----------
    box : Box
        The domain, 1 to 8 dimensions.
    max_depth : int
        The deepest level; the root has depth 0. Paths have at most 60 bits.
    turn : int
        How the curve runs through the box (see the module): not 0 for a part of a larger tree.
    """

    box: Box
    max_depth: int
    turn: int = 0

    cells_are_boxes: ClassVar[bool] = True

    __repr__ = cut_repr

    def __post_init__(self) -> None:
        if not isinstance(self.box, Box):
            raise InvalidInput(f"box must be a semilocal.Box; got {shown(self.box)}")
        if not is_integer(self.max_depth) or self.max_depth < 1:
            raise InvalidInput(f"max_depth must be an integer of at least 1; got {shown(self.max_depth)}")
        if self.path_bits > MAX_BITS:
            most = MAX_BITS // self.level_bits
            raise InvalidInput(f"max_depth must be at most {most} for this tree; got {self.max_depth}")
        turns = self.box.dimensions << self.box.dimensions if self.box.dimensions > 1 else 1
        if not is_integer(self.turn) or not 0 <= self.turn < turns:
            raise InvalidInput(f"turn must be an integer from 0 to {turns - 1} for this box; got {shown(self.turn)}")
        for name, low, high in zip(self.box.names, self.box.lower, self.box.upper, strict=True):
            spacing = float(np.spacing(max(abs(low), abs(high))))
            if (high - low) * 0.5**self.tick_bits < _ULPS * spacing:
                raise InvalidInput(
                    f"cells of depth {self.max_depth} are narrower than floats can tell on axis {name!r} "
                    f"[{low}, {high}]; choose a smaller max_depth or a wider box"
                )

    # -- shape ---------------------------------------------------------------------------------------------

    @property
    def tick_bits(self) -> int:
        """Bits of a tick: every axis has 2**tick_bits slices at the deepest level."""
        return -(-self.path_bits // self.box.dimensions)

    # -- points to cells -----------------------------------------------------------------------------------

    def ticks(self, points: npt.ArrayLike) -> Integers:
        """Slice numbers of points: int64[n, d] in [0, 2**tick_bits). Refuses points outside the domain."""
        checked = self.box.check(points)
        out = np.empty(checked.shape, dtype=np.int64)
        for axis, column in enumerate(checked.T):
            self._ticks(axis, column, np.empty((2, len(checked))), out[:, axis])
        return out

    def codes(self, points: npt.ArrayLike) -> Cells:
        array = self.box.shaped(points)
        out = np.empty(len(array), dtype=np.uint64)

        def work(begin: int) -> bool:
            spare = np.empty((5, min(_CHUNK, len(array))))
            return all(
                self._codes(array[start : start + _CHUNK], spare, out[start : start + _CHUNK])
                for start in range(begin, min(begin + _AT_ONCE, len(array)), _CHUNK)
            )

        if not all(on_all_cores(work, range(0, len(array), _AT_ONCE))):
            self.box.check(array)  # says what is wrong
        return out

    def _codes(self, points: Floats, spare: Floats, out: Cells) -> bool:
        """Fill in the paths of float64[n, d]; False if a point is outside. ``spare`` is float64[5, n]."""
        place, whole, tick, grid, _ = spare[:, : len(points)]
        words = spare[:, : len(points)].view(np.uint64)
        for axis, column in enumerate(points.T):
            if not self._ticks(axis, column, (place, whole), tick.view(np.int64)):
                return False
            self._interleave(axis, tick.view(np.int64), words[:2], grid.view(np.uint64))
        self._along_curve(grid.view(np.uint64), words[:2], out)
        out |= np.uint64(1 << self.path_bits)
        return True

    def _ticks(self, axis: int, column: Floats, spare: Floats | tuple[Floats, Floats], out: Integers) -> bool:
        """Fill in the ticks of one axis; False if a number is outside, or none. ``spare`` is float64[2, n]."""
        low, high, slices = self.box.lower[axis], self.box.upper[axis], 1 << self.tick_bits
        place, whole = spare
        place[:] = column
        if len(place) and not (place.min() >= low and place.max() <= high):
            return False
        place -= low
        scale = slices / (high - low)
        if _SMALLEST < scale < 1.0 / _SMALLEST:
            place *= scale
        else:  # the scale of the narrowest and widest boxes is not a number that floats can tell well
            place /= high - low
            place *= slices
        out[:] = np.floor(place, out=whole)
        place -= whole
        # The product may be off by one slice; near the ends of a slice, where rounding could matter, the edges decide.
        near_edge = slices * (2.0**-51 + 2.0 * float(np.spacing(max(abs(low), abs(high)))) / (high - low))
        if len(place) and (place.min() <= near_edge or place.max() >= 1.0 - near_edge):
            near = np.flatnonzero((place <= near_edge) | (place >= 1.0 - near_edge))
            own, ticks = column[near], np.minimum(out[near], slices - 1)
            ticks -= own < self._edge(axis, ticks)
            ticks += (own >= self._edge(axis, ticks + 1)) & (ticks < slices - 1)
            out[near] = ticks
        return True

    def _edge(self, axis: int, tick: Integers) -> Floats:
        low, high = self.box.lower[axis], self.box.upper[axis]
        return np.asarray(low + (high - low) * (tick * 0.5**self.tick_bits), dtype=np.float64)

    def _end(self, axis: int, tick: Integers) -> Floats:
        """Upper edge of the slice before; the last one is that of the domain."""
        return np.where(tick == 1 << self.tick_bits, self.box.upper[axis], self._edge(axis, tick))

    def interleave(self, ticks: Integers) -> Cells:
        """Deepest cells from ticks: int64[n, d] to uint64[n]."""
        spare, (grid, out) = np.empty((2, 2, len(ticks)), dtype=np.uint64)
        for axis, column in enumerate(ticks.T):
            self._interleave(axis, column, spare, grid)
        self._along_curve(grid, spare, out)
        out |= np.uint64(1 << self.path_bits)
        return np.asarray(out, dtype=np.uint64)

    def _interleave(self, axis: int, tick: Integers, spare: Words, out: Words) -> None:
        """Put the bits of one axis into paths on the grid; the first axis begins them. ``spare`` is uint64[2, n]."""
        size, tables = _spread_tables(self.box.dimensions, self.tick_bits)
        digit, part = spare[0].view(np.int64), spare[1]
        for place, table in enumerate(tables[axis]):
            np.right_shift(tick, size * place, out=digit)
            if place + 1 < len(tables[axis]):
                digit &= (1 << size) - 1
            if axis == place == 0:
                table.take(digit, out=out, mode="clip")
            else:
                out |= table.take(digit, out=part, mode="clip")

    def _along_curve(self, grid: Words, spare: Words, out: Words) -> None:
        """Turn paths on the grid into paths of the tree, which may end within a level."""
        along_curve(grid, self.box.dimensions, self.tick_bits, out, spare, self.turn)
        if beyond := self.box.dimensions * self.tick_bits - self.path_bits:
            out >>= np.uint64(beyond)

    # -- cells to boxes ------------------------------------------------------------------------------------

    def tick_bounds(self, cells: npt.ArrayLike) -> tuple[Integers, Integers]:
        """First and last tick (both inclusive) of each cell on each axis: int64[m, d], int64[m, d]."""
        array, dimensions = cell_array(cells), self.box.dimensions
        bits = self.level_bits * self.depth(array)
        path = array ^ (np.uint64(1) << bits.astype(np.uint64))
        shift = self.tick_bits - -(-bits // dimensions)
        ends = ends_on_grid(path, bits, dimensions, self.turn)
        lower, upper = (_gather(grid, dimensions, self.tick_bits) << shift for grid in ends)
        return lower.T, (upper + (np.int64(1) << shift) - 1).T

    def boxes(self, cells: npt.ArrayLike) -> Floats:
        array = cell_array(cells)
        lower, upper = out = np.empty((2, self.box.dimensions, len(array)))  # every side stays in one piece

        def work(start: int) -> None:
            first, last = self.tick_bounds(array[start : start + _CHUNK])
            part = slice(start, start + _CHUNK)
            for axis in range(self.box.dimensions):
                lower[axis, part] = self._edge(axis, first[:, axis])
                upper[axis, part] = self._end(axis, last[:, axis] + 1)

        on_all_cores(work, range(0, len(array), _CHUNK))
        return np.moveaxis(out, 2, 0)

    @property
    def smallest_sides(self) -> Floats:
        """Shortest sides of any cell: float64[d]. A degree of longitude counts where it is shortest in the domain."""
        dimensions = self.box.dimensions
        axes = range(dimensions)
        widths = np.where(np.arange(dimensions) < self.path_bits, 1, 2)  # slices: the first level is alike in all cells
        ends = [(0, (1 << self.tick_bits) - width) for width in widths.tolist()]
        ticks = np.stack(np.meshgrid(*ends), axis=-1).reshape(-1, dimensions)
        lower = np.stack([*map(self._edge, axes, ticks.T)], axis=1)
        upper = np.stack([*map(self._end, axes, (ticks + widths).T)], axis=1)
        return np.asarray(units.sides(np.stack([lower, upper], axis=1), self.box).min(axis=0))

    def interval_polygons(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> list[Polygons]:
        """One outline per interval, in two dimensions: the outer ring, then holes, without points on straight lines."""
        if self.box.dimensions != 2:
            raise InvalidInput(f"outlines need two dimensions; got {self.box.dimensions}")
        first, cells = self.interval_cells(lower, upper)
        if len(cells) == len(first) - 1:  # one cell each
            return self.polygons(cells)
        begin, last = self.tick_bounds(cells)
        found = outline.rings(rows_of(first), begin, last + 1)
        return found.of(np.stack([*map(self._end, (0, 1), found.points.T)], axis=1))

    def wall_lines(self, lower: npt.ArrayLike, cuts: npt.ArrayLike, upper: npt.ArrayLike) -> list[Polygons]:
        if self.box.dimensions != 2:
            return super().wall_lines(lower, cuts, upper)
        (left, below), (right, above) = self.interval_cells(lower, cuts), self.interval_cells(cuts, upper)
        region = np.concatenate([rows_of(left), rows_of(right)])
        begin, last = self.tick_bounds(np.concatenate([below, above]))
        second = np.arange(len(region)) >= len(below)
        found = outline.borders(region, second, begin, last + 1)
        return [np.stack([self._end(axis, pieces[:, :, axis]) for axis in (0, 1)], axis=2).tolist() for pieces in found]


class BinaryTree(BoxTree, frozen=True, tag="binary"):
    """Halves one axis after the other, axis 0 first: two children per cell.

    Examples
    --------
    >>> tree = BinaryTree(Box((0, 0), (1, 1)), max_depth=4)
    >>> tree.locate([[0.1, 0.9]], 2).tolist(), tree.boxes([5]).tolist()
    ([5], [[[0.0, 0.5], [0.5, 1.0]]])
    """

    @property
    def level_bits(self) -> int:
        """Bits of the path that one level consumes."""
        return 1

    def deeper(self, levels: int) -> BinaryTree:
        """The same tree with more levels; refused if floats cannot tell such cells apart."""
        return BinaryTree(self.box, self.max_depth + levels, self.turn)

    def below(self, cell: int) -> BinaryTree:
        """The part of the tree below a cell, as a tree of its own: a path in it goes on where that of the cell ends.

        The depth of the cell is a multiple of the dimensions.
        """
        dimensions, cells = self.box.dimensions, np.array([cell], dtype=np.uint64)
        levels, begun = divmod(int(self.depth(cells)[0]), dimensions)
        if begun:
            raise InvalidInput(f"a part begins at a depth that is a multiple of {dimensions}; cell {cell} does not")
        lower, upper = self.boxes(cells)[0].tolist()
        depth = levels * dimensions
        turn = turn_below(cell ^ 1 << depth, levels, dimensions, self.turn)
        return BinaryTree(Box(tuple(lower), tuple(upper), self.box.names), self.max_depth - depth, turn)

    def halvings(self, cells: npt.ArrayLike) -> tuple[Integers, Flags]:
        """The axis on which each cell is halved, and whether its first half is the upper one: int64[m], bool[m]."""
        array = cell_array(cells)
        bits = self.depth(array)
        path = array ^ (np.uint64(1) << bits.astype(np.uint64))
        axis, upper = next_halving(path, bits, self.box.dimensions, self.turn)
        return axis, upper == 1

    def beside(self, cells: Cells) -> list[Cells]:
        """The cells of the same depth beside the first and beside the second half; at the edge, the cell itself.

        They touch the cell at the two ends of the axis that is halved next. They have its size; where a level is begun
        they may be longer on one axis and shorter on another.
        """
        shift = (self.path_bits - self.depth(cells)).astype(np.uint64)
        axis, upper = self.halvings(cells)
        ticks, last = self.tick_bounds(cells)
        row = np.arange(len(cells))
        before, after = ticks[row, axis] - 1, last[row, axis] + 1
        out = []
        for place in (np.where(upper, after, before), np.where(upper, before, after)):
            inside = (place >= 0) & (place < 1 << self.tick_bits)
            ticks[row, axis] = np.where(inside, place, 0)
            out.append(np.where(inside, self.interleave(ticks) >> shift, cells))
        return out


class Quadtree(BoxTree, frozen=True, tag="quad"):
    """Halves every axis at once: 2**d children per cell.

    Examples
    --------
    >>> tree = Quadtree(Box((0, 0), (1, 1)), max_depth=2)
    >>> tree.fanout, tree.children([1]).tolist()
    (4, [4, 5, 6, 7])
    """

    @property
    def level_bits(self) -> int:
        """Bits of the path that one level consumes."""
        return self.box.dimensions


@lru_cache(maxsize=16)
def _spread_tables(dimensions: int, tick_bits: int) -> tuple[int, list[list[Words]]]:
    """How many bits of a tick are looked up at once, and for each axis the tables from them to bits of a path."""
    size = -(-tick_bits // -(-tick_bits // _DIGIT))
    index = np.arange(1 << size, dtype=np.uint64)
    tables = [[np.zeros_like(index) for _ in range(0, tick_bits, size)] for _ in range(dimensions)]
    for bit in range(dimensions * tick_bits):
        place, within = divmod(bit // dimensions, size)
        digit_bit = (index >> np.uint64(within)) & np.uint64(1)
        tables[dimensions - 1 - bit % dimensions][place] |= digit_bit << np.uint64(bit)
    return size, tables


def _gather(grid: Words, dimensions: int, tick_bits: int) -> Integers:
    """The ticks of all axes, from paths on the grid: int64[d, m]."""
    table, together = _gather_table(dimensions), _DIGIT // dimensions * dimensions
    out = np.zeros((dimensions, len(grid)), dtype=np.int64)
    for axis, tick in enumerate(out):
        own = grid >> np.uint64(dimensions - 1 - axis)
        for low in range(0, dimensions * tick_bits, together):
            digit = (own >> np.uint64(low)) & np.uint64((1 << together) - 1)
            tick |= table.take(digit.astype(np.int64)) << (low // dimensions)
    return out


@lru_cache(maxsize=8)
def _gather_table(stride: int) -> Integers:
    """Table that moves bit i * stride of an index to bit i, and drops the others."""
    index = np.arange(1 << (_DIGIT // stride * stride))
    table = np.zeros_like(index)
    for bit in range(_DIGIT // stride):
        table |= ((index >> (bit * stride)) & 1) << bit
    table.flags.writeable = False
    return table


# -- the Hilbert curve -------------------------------------------------------------------------------------------------


class _Curve(NamedTuple):
    """Tables for d axes. A state is the number a * 2**d + flips, axis 0 highest."""

    levels: int  # per look-up
    to_curve: Words  # uint64[states * 2**bits], by state and bits on the grid: the state behind, and bits on the curve
    to_grid: Words  # the way back
    begun: Words  # uint64[states * 2**d, 2], by state and a leading one with the bits of a begun level: least, free
    halving: Integers  # int64[states * 2**d, 2], the same rows: the axis that is halved next; 1 if upper half first


def along_curve(paths: Words, dimensions: int, levels: int, out: Words, spare: Words, turn: int = 0) -> None:
    """Fill in ``out``, the paths along the curve of ``paths`` of so many levels on the grid, with ``spare`` uint64[2,
    n] to work in.
    """
    if dimensions == 1:
        out[:] = paths
    else:
        curve = _curve(dimensions)
        grid = paths ^ _mirror(turn, dimensions, levels) if turn else paths
        _follow(grid, curve.to_curve, dimensions, curve.levels, levels, levels, out, spare, turn >> dimensions)


def ends_on_grid(paths: Words, bits: Integers, dimensions: int, turn: int = 0) -> tuple[Words, Words]:
    """Paths on the grid of the lowest and the highest corner of the box of each path: uint64[m], uint64[m].

    They have as many levels as the path has or begins. ``bits`` are the lengths of the paths.
    """
    whole, rest = np.divmod(bits, dimensions)
    grid, row = _behind(paths, whole, rest, dimensions, turn)
    inside = rest > 0
    least, free = np.where(inside, _curve(dimensions).begun[row].T, np.uint64(0))
    grid <<= np.where(inside, dimensions, 0).astype(np.uint64)
    grid |= least
    if turn:
        levels = (whole + inside).astype(np.uint64)
        known = (np.uint64(1) << np.uint64(dimensions) * levels) - np.uint64(1)
        grid ^= _mirror(turn, dimensions, int(levels.max(initial=0))) & known & ~free
    return grid, grid | free


def next_halving(paths: Words, bits: Integers, dimensions: int, turn: int = 0) -> tuple[Integers, Integers]:
    """The axis on which the box of each path is halved, and 1 if its first half is the upper one: int64[m] each."""
    _, row = _behind(paths, *np.divmod(bits, dimensions), dimensions, turn)
    axis, upper = _curve(dimensions).halving[row].T
    return axis, upper ^ (turn >> (dimensions - 1 - axis) & 1)


def turn_below(path: int, levels: int, dimensions: int, turn: int = 0) -> int:
    """How the curve runs through the part at the end of a path of so many levels."""
    whole, rest = np.array([[levels], [0]])
    _, row = _behind(np.array([path], dtype=np.uint64), whole, rest, dimensions, turn)
    return int(row[0] >> dimensions) ^ turn & ((1 << dimensions) - 1)


def _behind(paths: Words, whole: Integers, rest: Integers, dimensions: int, turn: int) -> tuple[Words, Integers]:
    """The whole levels of paths on the grid, and the row of ``begun`` for what follows them."""
    curve, length = _curve(dimensions), rest.astype(np.uint64)
    above = paths >> length
    grid, spare = np.empty_like(above), np.empty((2, len(above)), dtype=np.uint64)
    most = int(whole.max(initial=0))
    _follow(above, curve.to_grid, dimensions, curve.levels, most, whole, grid, spare, turn >> dimensions)
    state = spare[1] >> np.uint64(dimensions * curve.levels)
    begun = (paths ^ (above << length)) | (np.uint64(1) << length)
    return grid, ((state << np.uint64(dimensions)) | begun).astype(np.int64)


def _follow(
    paths: Words, table: Words, dimensions: int, together: int, most: int, own: int | Integers, out: Words,
    spare: Words, first: int,
) -> None:  # fmt: skip
    """Look up the levels of paths, ``together`` at a time. The states behind them are left in ``spare[1]``, shifted.

    ``most`` is the largest number of levels, ``own`` that of each path. ``first`` is the axis that is halved first.
    """
    index, found = spare
    looks = -(-most // together)
    bits = np.uint64(dimensions * together)
    low = (np.uint64(1) << bits) - np.uint64(1)
    start = (first + looks * together - own) % dimensions
    found[:] = np.asarray(start, dtype=np.uint64) << (np.uint64(dimensions) + bits)
    out[:] = 0
    for look in reversed(range(looks)):
        np.right_shift(paths, np.uint64(look) * bits, out=index)
        index &= low
        index |= found
        table.take(index.view(np.int64), out=found, mode="clip")
        np.bitwise_and(found, low, out=index)
        out <<= bits
        out |= index
        found ^= index


def _mirror(turn: int, dimensions: int, levels: int) -> np.uint64:
    """The flips of a turn on every level of a path on the grid."""
    flips = turn & ((1 << dimensions) - 1)
    return np.uint64(sum(flips << dimensions * level for level in range(levels)))


@lru_cache(maxsize=8)
def _curve(dimensions: int) -> _Curve:
    d, parts = dimensions, 1 << dimensions
    state, w = np.arange(d * parts)[:, None], np.arange(parts)[None, :]
    first, flips = state >> d, state & (parts - 1)
    axes = [(first + step) % d for step in range(d)]  # of the steps
    gray = w ^ (w >> 1)
    grid = np.broadcast_to(flips, (len(state), parts)).copy()  # the bits on the grid of part w
    after = grid.copy()  # its flips
    u = np.maximum(w - 1, 0) & ~1
    turned = u ^ (u >> 1)
    for step, axis in enumerate(axes):
        grid ^= ((gray >> (d - 1 - step)) & 1) << (d - 1 - axis)
        after ^= ((turned >> (d - 1 - step)) & 1) << (d - 1 - axis)
    odd = np.where(w > 0, w - 1 + w % 2, 0)
    ones = sum((odd + 1) % (1 << count) == 0 for count in range(1, d + 1)) * (w > 0)
    after |= (first + d - 1 - ones % d) % d << d
    levels = 1
    while len(state) << (d * (levels + 1)) <= _LARGEST:
        levels += 1
    to_grid = _several(after, grid, d, levels)
    ahead = np.argsort(grid, axis=1)
    to_curve = _several(np.take_along_axis(after, ahead, axis=1), ahead, d, levels)

    begun, halving = np.zeros((2, len(state) * parts, 2), dtype=np.int64)
    for length in range(d):
        for part in range(1 << length):
            row = np.arange(len(state)) * parts + (1 << length) + part
            inside = grid[:, part << (d - length) : (part + 1) << (d - length)]
            begun[row, 0] = np.bitwise_and.reduce(inside, axis=1)
            begun[row, 1] = np.bitwise_or.reduce(inside, axis=1) ^ begun[row, 0]
            axis = axes[length][:, 0]
            halving[row, 0] = axis
            halving[row, 1] = (inside[:, 0] >> (d - 1 - axis)) & 1
    return _Curve(levels, to_curve, to_grid, begun.astype(np.uint64), halving)


def _several(after: Integers, bits: Integers, dimensions: int, levels: int) -> Words:
    """One table of several levels, from that of one, by state and bits: the state behind, and the bits found."""
    states, found = after, bits
    for _ in range(levels - 1):
        found = ((found << dimensions)[:, :, None] | bits[states]).reshape(len(after), -1)
        states = after[states].reshape(len(after), -1)
    table = ((states << (dimensions * levels)) | found).ravel().astype(np.uint64)
    table.flags.writeable = False
    return table
