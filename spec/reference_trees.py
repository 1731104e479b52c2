"""The other hierarchies of the second client, from sections 4.2 and 4.3 of spec/protocol.md: the sphere and tables.

Plain integers and the standard library, as in ``reference_client.py``, which has the box trees.
"""

from __future__ import annotations

import math
from typing import Any

FACE_KM = 6519.62


class Sphere:
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

    def child_weights(self, cell: int) -> list[int]:
        """How moved people fall on the children (10)."""
        return [1, 1]

    def child_cell(self, cell: int, child: int) -> int:
        """A child of a cell."""
        return 2 * cell + child

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

    def move(self, cell: int, kept: list[int], word: int) -> int:
        """The code after a TRIM (11)."""
        below = 2 ** (self.max_depth - (len(bin(cell)) - 3) - 1)
        place, within = divmod(word * len(kept) * below >> 64, below)
        return int((2 * cell + kept[place]) * below + within)

    def middle(self, code: int) -> list[float]:
        """The position that stands for a code (11)."""
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


class Table:
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

    def child_weights(self, cell: int) -> list[int]:
        """How moved people fall on the children (10): the leaves of each."""
        places = [self.place(self.child_cell(cell, child)) for child in range(self.width(cell))]
        spans = [self.levels[depth][index] for depth, index in places]
        return [last - first + 1 for first, last in spans]

    def child_cell(self, cell: int, child: int) -> int:
        """A child of a cell."""
        depth, index = self.place(cell)
        return int(self.starts[depth + 1] + sum(self.widths[depth][:index]) + child)

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

    def move(self, cell: int, kept: list[int], word: int) -> int:
        """The leaf after a TRIM (11)."""
        leaves: list[int] = []
        for child in kept:
            depth, index = self.place(self.child_cell(cell, child))
            first, last = self.levels[depth][index]
            leaves += range(first, last + 1)
        return leaves[word * len(leaves) >> 64]

    def middle(self, code: int) -> list[float]:
        """The position that stands for a leaf (11)."""
        low, high = self.edges[code], self.edges[code + 1]
        return [low + (high - low) * 0.5]
