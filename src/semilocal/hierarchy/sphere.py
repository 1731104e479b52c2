"""The whole Earth in cells of equal area, without poles or a date line: HEALPix, refined one bit at a time.

The sphere is twelve *faces* of equal area, the squares of HEALPix (Górski et al. 2005, "HEALPix: a framework for
high-resolution discretization and fast analysis of data distributed on the sphere"). A face has coordinates x (to the
north-east) and y (to the north-west) from 0 to 1; equal areas of it are equal areas of the sphere. Latitude grows with
x + y, longitude with x - y. Faces 0 to 3 touch the north pole at (1, 1), 4 to 7 lie on the equator, 8 to 11 touch the
south pole at (0, 0). Longitudes on faces are *unwrapped*: within 45 degrees of the middle of their face, -45 to 360.

A quarter q of the globe holds the faces q (north), 4 + q (equator) and 8 + q (south). The path of a position is first

    q, two bits        which quarter
    0 0, 0 1 or 1      north, equator or south: a quarter is first divided into two faces and one

and goes on with the bits of its place on the face, y and x in turn, the highest first. So every split below a quarter
halves an area exactly, and the cells that end after an x are the pixels of HEALPix in its nested order: those of order
o have depth 4 + 2 o (3 + 2 o in the south).

A position near an edge of a cell (within about 1e-12 degrees) may fall on either side of it: sines are rounded.

Knows cells on the globe. Knows no participants, reports or randomness.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, Integers, is_integer
from ..errors import InvalidInput
from ..geometry.areas import Polygons as Shapes
from ..geometry.box import Box
from ..geometry.units import RADIUS_KM
from .base import Cells, Polygons, PrefixTree, cell_array

MAX_SPHERE_DEPTH = 52  # cells of 0.4 m; doubles tell their edges apart
_LEAST_DEPTH = 4  # the faces
FACES = 12
FACE_KM = 6519.62  # side of a square with the area of a face, on a sphere with the mean radius of the Earth

_ROW = np.array([2.0, 3.0, 4.0]).repeat(4)  # x + y at the equator is 1, 0 + 1, 1 less: see on_earth
_MIDDLE = np.array([1.0, 3.0, 5.0, 7.0, 0.0, 2.0, 4.0, 6.0, 1.0, 3.0, 5.0, 7.0])  # longitude, in units of 45 degrees
_WORLD = Box((-180.0, -90.0), (180.0, 90.0), names=("longitude", "latitude"))
_FACE_KM2 = 4.0 * np.pi * RADIUS_KM**2 / FACES
_SAMPLES = 256  # places in which a cell that a query cuts is looked at
_GOLDEN = 0.6180339887498949  # spreads them evenly along every line
_STRAIGHT = 1 / 64  # of a face: edges of such cells, about 100 km, look straight
_EDGE_PARTS = 8  # straight pieces per edge of a polygon
_ROUNDING = 1e-9  # degrees by which boxes are wider than their cells, so that rounding leaves nobody outside
_PAIRS_AT_ONCE = 1 << 14


class OnFace(NamedTuple):
    """Places on faces: int64[n], float64[n], float64[n]; x and y from 0 to 1."""

    face: Integers
    x: Floats
    y: Floats


def on_face(points: Floats) -> OnFace:
    """Where positions float64[n, 2], longitude and latitude in degrees, lie on the faces."""
    longitude, latitude = points[:, 0], np.radians(points[:, 1])
    height = np.sin(latitude)
    turn = np.mod(longitude, 360.0) / 90.0
    turn[turn >= 4.0] = 0.0  # a tiny negative longitude rounds up to a whole turn
    turn[longitude == 180.0] = np.nextafter(2.0, 0.0)  # the eastern end of the domain, not its western one
    # Between the polar caps, edges of faces are straight lines in longitude and height.
    up, down = (0.5 + turn) - 0.75 * height, (0.5 + turn) + 0.75 * height
    first, second = np.floor(up).astype(np.int64), np.floor(down).astype(np.int64)
    face = np.where(first == second, 4 + first % 4, np.where(first < second, first % 4, 8 + second % 4))
    x, y = down - second, 1.0 - (up - first)
    # In the caps, meridians are straight lines through the pole.
    cap = np.flatnonzero(np.abs(height) > 2.0 / 3.0)
    quarter = turn[cap].astype(np.int64)
    along = turn[cap] - quarter
    away = np.minimum(np.cos(latitude[cap]) * np.sqrt(3.0 / (1.0 + np.abs(height[cap]))), 1.0)
    north = height[cap] > 0
    face[cap] = np.where(north, quarter, 8 + quarter)
    x[cap] = np.where(north, 1.0 - (1.0 - along) * away, along * away)
    y[cap] = np.where(north, 1.0 - along * away, (1.0 - along) * away)
    return OnFace(face, np.clip(x, 0.0, 1.0), np.clip(y, 0.0, 1.0))


def on_earth(face: Integers, x: Floats, y: Floats) -> Floats:
    """Longitude (unwrapped) and latitude in degrees of places on faces: float64[n, 2].

    At a pole, which has every longitude, it is that of the middle of the face.
    """
    row = _ROW[face] - x - y
    away = np.minimum(np.minimum(row, 4.0 - row), 1.0)  # below 1 in the caps; 0 at the poles
    polar = 90.0 - np.degrees(2.0 * np.arcsin(away / np.sqrt(6.0)))
    between = np.degrees(np.arcsin(np.clip((2.0 - row) * (2.0 / 3.0), -1.0, 1.0)))
    latitude = np.where(row < 1.0, polar, np.where(row > 3.0, -polar, between))
    aside = np.divide(x - y, away, out=np.zeros_like(away), where=away > 0)
    return np.stack([45.0 * (_MIDDLE[face] + np.clip(aside, -1.0, 1.0)), latitude], axis=1)


def wrapped(longitude: Floats) -> Floats:
    """Longitudes from -180 up to below 180, or 180 itself where 180 was given."""
    return np.asarray(np.where(longitude > 180.0, longitude - 360.0, longitude))


class _Patches(NamedTuple):
    """Rectangles on faces that cells consist of: one for a cell on a face, one per face for a larger one."""

    row: Integers  # int64[p], of the cell
    face: Integers  # int64[p]
    lower: Floats  # float64[p, 2]: x, y
    upper: Floats


class SphereTree(PrefixTree, frozen=True, tag="sphere"):
    """The whole Earth, positions in degrees of longitude (-180 to 180) and latitude; two children per cell.

    Parameters
    ----------
    max_depth : int
        The deepest level, 4 to 52. Cells of depth 40 are about 25 m wide.

    Examples
    --------
    >>> tree = SphereTree(20)
    >>> berlin = tree.locate([[13.4, 52.5]], 14)
    >>> tree.pixels(berlin)
    (array([5]), array([740]))
    >>> tree.areas(berlin).round(1).tolist()
    [41509.3]
    """

    max_depth: int

    def __post_init__(self) -> None:
        if not is_integer(self.max_depth) or not _LEAST_DEPTH <= self.max_depth <= MAX_SPHERE_DEPTH:
            raise InvalidInput(
                f"max_depth of a sphere must be an integer from {_LEAST_DEPTH} to {MAX_SPHERE_DEPTH}; "
                f"got {self.max_depth!r}"
            )

    # -- shape ---------------------------------------------------------------------------------------------

    @property
    def box(self) -> Box:
        return _WORLD

    @property
    def level_bits(self) -> int:
        """Bits of the path that one level consumes."""
        return 1

    # -- positions to cells --------------------------------------------------------------------------------

    def codes(self, points: npt.ArrayLike) -> Cells:
        return self._codes(*on_face(self.box.check(points)))

    def _codes(self, face: Integers, x: Floats, y: Floats) -> Cells:
        bits = -(-(self.max_depth - 3) // 2)
        north, east = (_apart(np.minimum(side * 2.0**bits, 2.0**bits - 1.0).astype(np.uint64)) for side in (y, x))
        start, used = _starts()
        path = (start[face] << np.uint64(2 * bits)) | (north << np.uint64(1)) | east
        return path >> (used[face] + 2 * bits - self.max_depth).astype(np.uint64)

    # -- cells to places -----------------------------------------------------------------------------------

    def _squares(self, cells: Cells) -> tuple[Flags, Integers, list[Cells], list[Integers]]:
        """Which cells lie on one face; the face, the ticks of y and x, and how many bits each has."""
        depth = self.depth(cells)
        start, used = _starts()
        south = (depth >= 3) & (cells >> np.maximum(depth - 3, 0).astype(np.uint64) & np.uint64(1)).astype(bool)
        above = np.where(south, 3, 4)
        whole = depth >= above
        head = cells >> np.maximum(depth - above, 0).astype(np.uint64)
        face = np.zeros(len(cells), dtype=np.int64)
        for number in range(FACES):
            face[whole & (above == used[number]) & (head == start[number])] = number
        rest = np.where(whole, depth - above, 0)
        widths = [(rest + 1) // 2, rest // 2]
        ticks = [np.zeros(len(cells), dtype=np.uint64) for _ in widths]
        for step in range(int(rest.max(initial=0))):
            active = step < rest
            bit = (cells >> np.maximum(rest - 1 - step, 0).astype(np.uint64)) & np.uint64(1)
            ticks[step % 2] = np.where(active, (ticks[step % 2] << np.uint64(1)) | bit, ticks[step % 2])
        return whole, face, ticks, widths

    def _patches(self, cells: npt.ArrayLike) -> _Patches:
        array = cell_array(cells)
        whole, face, (y, x), (y_bits, x_bits) = self._squares(array)
        lower = np.stack([x * 0.5**x_bits, y * 0.5**y_bits], axis=1)
        upper = np.stack([(x + np.uint64(1)) * 0.5**x_bits, (y + np.uint64(1)) * 0.5**y_bits], axis=1)
        rows = [np.flatnonzero(whole)]
        faces = [face[whole]]
        for number in range(FACES):
            start, used = _starts()
            depth = self.depth(array)
            inside = ~whole & (start[number] >> np.maximum(used[number] - depth, 0).astype(np.uint64) == array)
            rows.append(np.flatnonzero(inside))
            faces.append(np.full(len(rows[-1]), number))
        row = np.concatenate(rows)
        order = np.argsort(row, kind="stable")
        row = row[order]
        return _Patches(row, np.concatenate(faces)[order], lower[row], upper[row])

    def boxes(self, cells: npt.ArrayLike) -> Floats:
        """The smallest boxes around cells: float64[m, 2, 2]; a cell across the date line has every longitude."""
        row, face, lower, upper = self._patches(cells)
        # Longitude is least in the western corner (0, 1) of a square, latitude in the southern one (0, 0).
        west, east = (on_earth(face, *side)[:, 0] for side in ((lower[:, 0], upper[:, 1]), (upper[:, 0], lower[:, 1])))
        south, north = (on_earth(face, side[:, 0], side[:, 1])[:, 1] for side in (lower, upper))
        beyond = west >= 180.0
        west, east = np.where(beyond, west - 360.0, west), np.where(beyond, east - 360.0, east)
        across = east > 180.0
        west, east = np.where(across, -180.0, west), np.where(across, 180.0, east)
        out = np.empty((int(row.max(initial=-1)) + 1, 2, 2))
        out[:, 0], out[:, 1] = np.inf, -np.inf
        np.minimum.at(out[:, 0], row, np.stack([west, south], axis=1) - _ROUNDING)
        np.maximum.at(out[:, 1], row, np.stack([east, north], axis=1) + _ROUNDING)
        return np.clip(out, self.box.lower, self.box.upper)

    def places(self, cells: npt.ArrayLike, shares: Floats) -> Floats:
        """The position at these shares of each cell's two sides: float64[n, 2]; even in the cell if the shares are.

        A cell of several faces has them side by side.
        """
        row, face, lower, upper = self._patches(cells)
        parts = np.bincount(row)
        along = shares[:, 0] * parts
        which = np.minimum(along.astype(np.int64), parts - 1)
        chosen = np.cumsum(parts) - parts + which
        face, lower, upper = face[chosen], lower[chosen], upper[chosen]
        x, y = (lower + np.stack([along - which, shares[:, 1]], axis=1) * (upper - lower)).T
        out = on_earth(face, x, y)
        out[:, 0] = wrapped(out[:, 0])
        return out

    def sides(self, cells: npt.ArrayLike) -> Floats:
        """Sides in km along x and y, a face being a square of its area: float64[m, 2]; a face's for larger cells."""
        row, _, lower, upper = self._patches(cells)
        out = np.empty((int(row.max(initial=-1)) + 1, 2))
        out[row] = FACE_KM * (upper - lower)
        return out

    @property
    def smallest_sides(self) -> Floats:
        """Sides of the deepest cells in the south, where faces are one level higher: float64[2]."""
        return np.asarray(self.sides(self.codes([[0.0, -90.0]]))[0])

    def areas(self, cells: npt.ArrayLike) -> Floats:
        row, _, lower, upper = self._patches(cells)
        return np.asarray(_FACE_KM2 * np.bincount(row, np.prod(upper - lower, axis=1)))

    def polygons(self, cells: npt.ArrayLike) -> list[Polygons]:
        """Outlines in degrees; some cells, as those across the date line, have parts.

        Edges are in 8 straight pieces, or in one where they bend by less than 1/200 of a side.
        """
        row, face, lower, upper = self._patches(cells)
        out: list[Polygons] = [[] for _ in range(len(np.asarray(cells)))]
        for index, rings in zip(row.tolist(), _outlines(face, lower, upper), strict=True):
            out[index] += rings
        return out

    def shares(self, cells: npt.ArrayLike, queries: Floats) -> Floats:
        """Which share of each cell's area lies in each box of degrees: float64[q, m].

        0 and 1 are exact. A cell that a box cuts is looked at in 256 even places, so its share is off by about 1/100.
        """
        array = cell_array(cells)
        boxes = self.boxes(array)
        meets = np.ones((len(queries), len(array)), dtype=bool)
        holds = meets.copy()
        for axis in range(2):
            begin, end = queries[:, 0, axis, None], queries[:, 1, axis, None]
            low, high = boxes[None, :, 0, axis], boxes[None, :, 1, axis]
            edge = self.box.upper[axis]
            meets &= (begin < high) & (end > low)
            holds &= (begin <= low) & ((end >= high) | (end >= edge))
        out = (meets & holds).astype(np.float64)
        query, cell = np.nonzero(meets & ~holds)
        if not len(query):
            return out
        needed, at = np.unique(cell, return_inverse=True)
        places, weights = self._samples(array[needed])
        for start in range(0, len(query), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            corners, found = queries[query[part]], places[at[part]]
            top = np.where(corners[:, 1] >= self.box.upper, np.inf, corners[:, 1])
            inside = ((found >= corners[:, 0, None]) & (found < top[:, None])).all(axis=2)
            out[query[part], cell[part]] = (inside * weights[at[part]]).sum(axis=1)
        return out

    def shares_in(self, cells: npt.ArrayLike, polygons: Shapes) -> Floats:
        array = cell_array(cells)
        boxes, out = self.boxes(array), np.zeros((len(polygons), len(array)))
        for number in range(len(polygons)):
            one = polygons.take(np.array([number]))
            low, high = one.bounds[0]
            near = np.flatnonzero(((boxes[:, 0] <= high) & (boxes[:, 1] >= low)).all(axis=1))
            if len(near):
                places, weights = self._samples(array[near])
                inside = one.contain(places.reshape(-1, 2)).reshape(weights.shape)
                out[number, near] = (inside * weights).sum(axis=1)
        return out

    def _samples(self, cells: Cells) -> tuple[Floats, Floats]:
        """Even places in cells and their weights: float64[m, s, 2] and float64[m, s]."""
        row, face, lower, upper = self._patches(cells)
        steps = np.arange(_SAMPLES) + 0.5
        grid = np.stack([steps / _SAMPLES, steps * _GOLDEN % 1.0], axis=1)[None]
        spots = lower[:, None] + grid * (upper - lower)[:, None]
        flat = on_earth(np.repeat(face, grid.shape[1]), *spots.reshape(-1, 2).T)
        flat[:, 0] = wrapped(flat[:, 0])
        per_cell = np.bincount(row, minlength=len(cells))
        most = int(per_cell.max(initial=1))
        places = np.zeros((len(cells), most, grid.shape[1], 2))
        weights = np.zeros((len(cells), most, grid.shape[1]))
        slot = np.arange(len(row)) - (np.cumsum(per_cell) - per_cell)[row]
        places[row, slot] = flat.reshape(len(row), -1, 2)
        weights[row, slot] = 1.0 / (grid.shape[1] * per_cell[row])[:, None]
        return places.reshape(len(cells), -1, 2), weights.reshape(len(cells), -1)

    # -- relations -----------------------------------------------------------------------------------------

    def beside(self, cells: Cells) -> list[Cells]:
        """The cells of the same size before and after on the axis that is halved next, on the same face.

        At the edge of a face, and above the faces, the cell itself.
        """
        row, face, lower, upper = self._patches(cells)
        one = np.flatnonzero(np.bincount(row)[row] == 1)  # those on one face
        place, size, each = (lower + upper)[one] / 2, (upper - lower)[one], np.arange(len(one))
        axis = (size[:, 0] <= size[:, 1]).astype(np.int64)  # y before x
        shift = (self.max_depth - self.depth(cells[row[one]])).astype(np.uint64)
        out = []
        for step in (-1, 1):
            found, beside = cells.copy(), place.copy()
            beside[each, axis] += step * size[each, axis]
            inside = ((beside > 0.0) & (beside < 1.0)).all(axis=1)
            found[row[one[inside]]] = (self._codes(face[one], *beside.T) >> shift)[inside]
            out.append(found)
        return out

    def deeper(self, levels: int) -> SphereTree:
        """The same tree with more levels."""
        return msgspec.structs.replace(self, max_depth=self.max_depth + levels)

    def pixels(self, cells: npt.ArrayLike) -> tuple[Integers, Integers]:
        """Order and nested index of the HEALPix pixels that cells are; -1 where a cell is none: int64[m], int64[m]."""
        whole, face, (y, x), (y_bits, x_bits) = self._squares(cell_array(cells))
        index = face.astype(np.uint64) << (2 * x_bits).astype(np.uint64) | _apart(y) << np.uint64(1) | _apart(x)
        good = whole & (x_bits == y_bits)
        return np.where(good, x_bits, -1), np.where(good, index.astype(np.int64), -1)


def _starts() -> tuple[Cells, Integers]:
    """The cell of each face, and its depth: uint64[12], int64[12]."""
    quarter = 4 + np.arange(4, dtype=np.uint64)  # a leading one and two bits
    north, south = quarter << np.uint64(2), (quarter << np.uint64(1)) + np.uint64(1)
    return np.concatenate([north, north + np.uint64(1), south]), np.array([4, 4, 3]).repeat(4)


def _apart(numbers: Cells) -> Cells:
    """Move bit i of numbers of at most 32 bits to bit 2 i."""
    for shift, mask in (
        (16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F), (2, 0x3333333333333333),
        (1, 0x5555555555555555),
    ):  # fmt: skip
        numbers = (numbers | (numbers << np.uint64(shift))) & np.uint64(mask)
    return numbers


def _outlines(face: Integers, lower: Floats, upper: Floats) -> list[Polygons]:
    """Rectangles of faces as rings in degrees, counter-clockwise; two where one crosses the date line."""
    steps, flat = np.arange(_EDGE_PARTS) / _EDGE_PARTS, np.zeros(_EDGE_PARTS)
    x, y = np.concatenate([steps, flat + 1, 1 - steps, flat]), np.concatenate([flat, steps, flat + 1, 1 - steps])
    places = lower[:, None] + np.stack([x, y], axis=1) * (upper - lower)[:, None]
    rings = on_earth(np.repeat(face, places.shape[1]), *places.reshape(-1, 2).T).reshape(places.shape)
    polar = ((face < 4) & (upper == 1.0).all(axis=1)) | ((face >= 8) & (lower == 0.0).all(axis=1))
    rings[(rings[:, :, 0] >= 180.0).all(axis=1) & ~polar, :, 0] -= 360.0
    corners, middles = rings[:, ::_EDGE_PARTS], rings[:, _EDGE_PARTS // 2 :: _EDGE_PARTS]
    bend = np.abs((corners + np.roll(corners, -1, axis=1)) / 2 - middles).max(axis=(1, 2), initial=0.0)
    straight = ((upper - lower).max(axis=1) <= _STRAIGHT) & (bend <= np.ptp(corners, axis=1).max(axis=1) / 200) & ~polar
    out = []
    for number, short in enumerate(straight.tolist()):
        points: list[list[float]] = (corners[number] if short else rings[number]).tolist()
        if polar[number]:  # the pole has the longitude of each of the two edges that meet there
            pole = 2 * _EDGE_PARTS if face[number] < 4 else 0
            after, latitude = points[pole + 1][0], points[pole][1]
            points[pole : pole + 1] = [[90.0 * int(face[number] % 4) * 2 + 90.0 - after, latitude], [after, latitude]]
        west = _cut(points, 1.0) if min(point[0] for point in points) < 180.0 else []
        east = _cut(points, -1.0) if max(point[0] for point in points) > 180.0 else []
        parts = [west, [[longitude - 360.0, latitude] for longitude, latitude in east]]
        out.append([[*part, part[0]] for part in parts if part])
    return out


def _cut(ring: list[list[float]], side: float) -> list[list[float]]:
    """The part of a ring on one side of longitude 180."""
    out = []
    for (a, b), (c, d) in zip(ring, ring[1:] + ring[:1], strict=True):
        if side * (180.0 - a) >= 0:
            out.append([a, b])
        if (180.0 - a) * (180.0 - c) < 0:
            out.append([180.0, b + (d - b) * (180.0 - a) / (c - a)])
    return out
