"""The hierarchies of the second client, from section 4 of spec/protocol.md: boxes, the sphere and tables.

Plain integers and the standard library, as in ``reference_client.py``.
"""

from __future__ import annotations

import math
from typing import Any

FACE_KM = 6519.62
LONGITUDE, LATITUDE = ("lon", "lng", "long", "longitude"), ("lat", "latitude")


class Intervals:
    """What intervals of codes [lower, upper) are in all of them: ``span`` and ``children`` of cells say it."""

    def span(self, cell: int) -> tuple[int, int]:
        """First code of a cell, and the code after its last."""
        raise NotImplementedError

    def children(self, cell: int) -> list[int]:
        """All children of a cell."""
        raise NotImplementedError

    def sides(self, cell: int) -> list[float]:
        """Lengths of the sides."""
        raise NotImplementedError

    @property
    def ends(self) -> tuple[int, int]:
        """First code of the root, and the code after its last."""
        return self.span(1)

    def interval_cells(self, lower: int, upper: int) -> list[int]:
        """The fewest cells that an interval consists of, along the curve."""

        def inside(cell: int) -> list[int]:
            first, after = self.span(cell)
            if lower <= first and after <= upper:
                return [cell]
            if after <= lower or upper <= first:
                return []
            return [found for child in self.children(cell) for found in inside(child)]

        return inside(1)

    def largest_cell(self, lower: int, upper: int) -> int:
        """The cell with the most codes inside an interval, the first of several."""

        def size(cell: int) -> int:
            first, after = self.span(cell)
            return after - first

        return max(self.interval_cells(lower, upper), key=size)

    def interval_sides(self, lower: int, upper: int) -> list[float]:
        """Sides of the largest cell inside an interval."""
        return self.sides(self.largest_cell(lower, upper))


class Boxes(Intervals):
    """A box tree along a Hilbert curve (4.1)."""

    def __init__(self, hierarchy: dict[str, Any]) -> None:
        self.lower, self.upper = hierarchy["box"]["lower"], hierarchy["box"]["upper"]
        self.names = hierarchy["box"]["names"]
        self.axes = len(self.lower)
        self.max_depth = hierarchy["max_depth"]
        self.level_bits = 1 if hierarchy["kind"] == "binary" else self.axes
        self.fanout = 2**self.level_bits
        self.path_bits = self.level_bits * self.max_depth
        self.tick_bits = -(-self.path_bits // self.axes)

    def edge(self, axis: int, tick: int) -> float:
        """Lower edge of a slice."""
        low, high = self.lower[axis], self.upper[axis]
        return float(low + (high - low) * (tick * 2.0**-self.tick_bits))

    def ticks(self, point: list[float]) -> list[int]:
        """Slice numbers, by bisection on the edges."""
        out = []
        for axis, x in enumerate(point):
            low, high = 0, 2**self.tick_bits
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self.edge(axis, middle) <= x else (low, middle)
            out.append(low)
        return out

    def code(self, ticks: list[int]) -> int:
        """Deepest cell."""
        code, curve = 1, Curve(self.axes)
        for step in range(self.path_bits):
            upper = ticks[curve.axis] >> (self.tick_bits - 1 - step // self.axes) & 1
            code = 2 * code + curve.enter(upper)
        return code

    def bounds(self, cell: int) -> list[tuple[int, int]]:
        """First and last tick on each axis."""
        ranges, curve = [(0, 2**self.tick_bits)] * self.axes, Curve(self.axes)
        for bit in bin(cell)[3:]:
            axis = curve.axis
            low, high = ranges[axis]
            middle = (low + high) // 2
            ranges[axis] = (middle, high) if curve.follow(int(bit)) else (low, middle)
        return [(low, high - 1) for low, high in ranges]

    def code_of(self, point: list[float]) -> int:
        """Deepest cell of a position."""
        return self.code(self.ticks(point))

    def width(self, cell: int) -> int:
        """Number of children."""
        return int(self.fanout)

    def has_depth(self, cell: int, depth: int) -> bool:
        """Whether a cell has this depth."""
        return bool(cell >> self.level_bits * depth == 1)

    def child_cell(self, cell: int, child: int) -> int:
        """A child of a cell."""
        return int(cell * self.fanout + child)

    def children(self, cell: int) -> list[int]:
        """All children of a cell."""
        return [self.child_cell(cell, child) for child in range(self.fanout)]

    def child(self, code: int, depth: int) -> int:
        """Which child of its ancestor of this depth a code lies in."""
        return int(code // self.fanout ** (self.max_depth - depth - 1) % self.fanout)

    def span(self, cell: int) -> tuple[int, int]:
        """First code of a cell, and the code after its last."""
        below = self.path_bits - (cell.bit_length() - 1)
        return cell << below, (cell + 1) << below

    def box(self, cell: int) -> tuple[list[float], list[float]]:
        """Lower and upper corner."""
        lower, upper = [], []
        for axis, (first, last) in enumerate(self.bounds(cell)):
            lower.append(self.edge(axis, first))
            upper.append(self.upper[axis] if last + 1 == 2**self.tick_bits else self.edge(axis, last + 1))
        return lower, upper

    def sides(self, cell: int) -> list[float]:
        """Lengths of the sides; in kilometres where the axes are longitude and latitude (4.4)."""
        lower, upper = self.box(cell)
        out = [high - low for low, high in zip(lower, upper, strict=True)]
        names = [name.lower() for name in self.names]
        kinds = ["latitude" if n in LATITUDE else "longitude" if n in LONGITUDE else "" for n in names]
        if sorted(kinds) == ["latitude", "longitude"]:
            axis = kinds.index("latitude")
            out = [length * 111.32 for length in out]
            out[1 - axis] *= math.cos(math.radians((lower[axis] + upper[axis]) / 2))
        return out

    def middle(self, code: int) -> list[float]:
        """The position that stands for a code."""
        return [low + (high - low) * 0.5 for low, high in zip(*self.box(code), strict=True)]


class Curve:
    """A walk down the Hilbert curve, one halving at a time (4.1)."""

    def __init__(self, axes: int) -> None:
        self.axes = axes
        self.first = 0  # the axis that is halved first on this level
        self.flipped = [0] * axes  # 1 for the axes on which the curve runs downwards
        self.bits: list[int] = []  # of the path, on this level

    @property
    def axis(self) -> int:
        """The axis that is halved next."""
        return (self.first + len(self.bits)) % self.axes

    @property
    def second_is_upper(self) -> int:
        """1 if the second half on the curve is the upper one."""
        before = self.bits[-1] if self.bits else 0
        return 1 ^ self.flipped[self.axis] ^ before

    def enter(self, upper: int) -> int:
        """Go into the lower (0) or upper (1) half; the bit of the path is returned."""
        bit = int(upper == self.second_is_upper)
        self.follow(bit)
        return bit

    def follow(self, bit: int) -> int:
        """Go into the first (0) or second (1) half on the curve; 1 is returned if it is the upper one."""
        upper = self.second_is_upper if bit else 1 - self.second_is_upper
        self.bits.append(bit)
        if len(self.bits) == self.axes:
            self._next_level()
        return upper

    def _next_level(self) -> None:
        part = int("".join(map(str, self.bits)), 2)
        axes = [(self.first + step) % self.axes for step in range(self.axes)]
        even = max(part - 1, 0) // 2 * 2
        for step, axis in enumerate(axes):
            here, above = (even >> (self.axes - 1 - step + more) & 1 for more in (0, 1))
            self.flipped[axis] ^= here ^ above
        odd = part if part % 2 else max(part - 1, 0)
        ones = len(bin(odd)) - len(bin(odd).rstrip("1")) if odd else 0
        self.first = axes[self.axes - 1 - ones % self.axes]
        self.bits = []


class Sphere(Intervals):
    """The whole Earth, twelve faces, one bit per level (4.2)."""

    axes = 2
    fanout = 2

    def __init__(self, hierarchy: dict[str, Any]) -> None:
        self.max_depth: int = hierarchy["max_depth"]

    def code_of(self, point: list[float]) -> int:
        """Deepest cell."""
        face, x, y = on_face(*point)
        bits = -(-(self.max_depth - 3) // 2)
        ticks = [min(int(side * 2**bits), 2**bits - 1) for side in (y, x)]
        code, used = face_cell(face)
        for step in range(self.max_depth - used):
            code = code << 1 | ticks[step % 2] >> (bits - 1 - step // 2) & 1
        return code

    def width(self, cell: int) -> int:
        """Number of children."""
        return 2

    def child_cell(self, cell: int, child: int) -> int:
        """A child of a cell."""
        return 2 * cell + child

    def children(self, cell: int) -> list[int]:
        """All children of a cell."""
        return [2 * cell, 2 * cell + 1]

    def span(self, cell: int) -> tuple[int, int]:
        """First code of a cell, and the code after its last."""
        below = self.max_depth - (cell.bit_length() - 1)
        return cell << below, (cell + 1) << below

    def child(self, code: int, depth: int) -> int:
        """Which child of its ancestor of this depth a code lies in."""
        return code >> (self.max_depth - depth - 1) & 1

    def has_depth(self, cell: int, depth: int) -> bool:
        """Whether a cell has this depth."""
        return cell >> depth == 1

    def square(self, cell: int) -> tuple[int, list[float], list[float]] | None:
        """Face, lower and upper (x, y) of a cell on one face; None for a larger one."""
        path = bin(cell)[3:]
        for face in range(12):
            start = bin(face_cell(face)[0])[3:]
            if path.startswith(start):
                rest = path[len(start) :]
                low = [0.0, 0.0]
                size = [1.0, 1.0]
                for step, bit in enumerate(rest):
                    axis = 1 - step % 2
                    size[axis] /= 2
                    low[axis] += size[axis] * int(bit)
                return face, low, [a + b for a, b in zip(low, size, strict=True)]
        return None

    def sides(self, cell: int) -> list[float]:
        """Sides in kilometres (10)."""
        found = self.square(cell)
        if found is None:
            return [FACE_KM, FACE_KM]
        _, low, high = found
        return [FACE_KM * (b - a) for a, b in zip(low, high, strict=True)]

    def middle(self, code: int) -> list[float]:
        """The position that stands for a code."""
        found = self.square(code)
        assert found is not None
        face, low, high = found
        return on_earth(face, (low[0] + high[0]) / 2, (low[1] + high[1]) / 2)


def face_cell(face: int) -> tuple[int, int]:
    """The cell that a face is, and its depth."""
    quarter = 4 + face % 4
    return (2 * quarter + 1, 3) if face >= 8 else (4 * quarter + face // 4, 4)


def on_face(longitude: float, latitude: float) -> tuple[int, float, float]:
    """Face, x and y of a position."""
    height = math.sin(math.radians(latitude))
    turn = math.nextafter(2.0, 0.0) if longitude == 180 else (longitude % 360) / 90
    turn = 0.0 if turn >= 4 else turn
    if abs(height) <= 2 / 3:
        up, down = 0.5 + turn - 0.75 * height, 0.5 + turn + 0.75 * height
        first, second = math.floor(up), math.floor(down)
        face = 4 + first % 4 if first == second else first % 4 if first < second else 8 + second % 4
        return face, down - second, 1 - (up - first)
    quarter = int(turn)
    along = turn - quarter
    away = min(math.cos(math.radians(latitude)) * math.sqrt(3 / (1 + abs(height))), 1.0)
    if height > 0:
        return quarter, 1 - (1 - along) * away, 1 - along * away
    return 8 + quarter, along * away, (1 - along) * away


def on_earth(face: int, x: float, y: float) -> list[float]:
    """Longitude and latitude of a place on a face."""
    row = face // 4 + 2 - x - y
    away = min(row, 4 - row, 1.0)
    polar = 90 - math.degrees(2 * math.asin(away / math.sqrt(6)))
    latitude = polar if row < 1 else -polar if row > 3 else math.degrees(math.asin((2 - row) * 2 / 3))
    middle = 2 * (face % 4) + (0 if 4 <= face < 8 else 1)
    longitude = 45 * (middle + ((x - y) / away if away > 0 else 0.0))
    return [longitude - 360 if longitude > 180 else longitude, latitude]


class Table(Intervals):
    """A tree of one axis given by its edges and numbers of children (4.3)."""

    axes = 1

    def __init__(self, hierarchy: dict[str, Any]) -> None:
        self.edges: list[float] = hierarchy["edges"]
        self.widths: list[list[int]] = hierarchy["widths"]
        self.max_depth = len(self.widths)
        self.fanout = max(max(row) for row in self.widths)
        # Level by level: first and last leaf of every cell.
        spans = [(leaf, leaf) for leaf in range(len(self.edges) - 1)]
        levels = [spans]
        for row in reversed(self.widths):
            above, at = [], 0
            for width in row:
                above.append((levels[0][at][0], levels[0][at + width - 1][1]))
                at += width
            levels.insert(0, above)
        self.levels = levels
        self.starts = [1]
        for level in levels:
            self.starts.append(self.starts[-1] + len(level))

    def place(self, cell: int) -> tuple[int, int]:
        """Depth, and index in the level."""
        for depth, start in enumerate(self.starts[:-1]):
            if start <= cell < self.starts[depth + 1]:
                return depth, cell - start
        raise ValueError(cell)

    def has_depth(self, cell: int, depth: int) -> bool:
        """Whether a cell has this depth."""
        return bool(depth <= self.max_depth and self.starts[depth] <= cell < self.starts[depth + 1])

    def code_of(self, point: list[float]) -> int:
        """The leaf."""
        return sum(edge <= point[0] for edge in self.edges[1:-1])

    def width(self, cell: int) -> int:
        """Number of children."""
        depth, index = self.place(cell)
        return int(self.widths[depth][index])

    def child_cell(self, cell: int, child: int) -> int:
        """A child of a cell."""
        depth, index = self.place(cell)
        return int(self.starts[depth + 1] + sum(self.widths[depth][:index]) + child)

    def children(self, cell: int) -> list[int]:
        """All children of a cell."""
        return [self.child_cell(cell, child) for child in range(self.width(cell))]

    def span(self, cell: int) -> tuple[int, int]:
        """First leaf of a cell, and the leaf after its last."""
        depth, index = self.place(cell)
        first, last = self.levels[depth][index]
        return first, last + 1

    def child(self, code: int, depth: int) -> int:
        """Which child of its ancestor of this depth a leaf lies in."""
        cell = next(i for i, (a, b) in enumerate(self.levels[depth]) if a <= code <= b)
        below = next(i for i, (a, b) in enumerate(self.levels[depth + 1]) if a <= code <= b)
        return int(below - sum(self.widths[depth][:cell]))

    def box(self, cell: int) -> tuple[list[float], list[float]]:
        """Lower and upper end."""
        depth, index = self.place(cell)
        first, last = self.levels[depth][index]
        return [self.edges[first]], [self.edges[last + 1]]

    def sides(self, cell: int) -> list[float]:
        """The length."""
        (low,), (high,) = self.box(cell)
        return [high - low]

    def middle(self, code: int) -> list[float]:
        """The position that stands for a leaf."""
        low, high = self.edges[code], self.edges[code + 1]
        return [low + (high - low) * 0.5]


AnyTree = Boxes | Sphere | Table


def tree_of(hierarchy: dict[str, Any]) -> AnyTree:
    """The hierarchy of a task."""
    kinds: dict[str, type[AnyTree]] = {"sphere": Sphere, "table": Table}
    return kinds.get(hierarchy["kind"], Boxes)(hierarchy)
