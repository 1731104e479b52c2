"""What a map shows: regions with their people and the pieces inside them, at the end or after every round.

A region of the local protocol and a cell of a pooled tree are both intervals of codes, and are drawn alike. Nobody is
moved, so at any earlier moment a region held the people of the final regions inside it.

Knows finished partitions and public records. Knows no participants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Floats, Integers, short_repr
from ..geometry.box import Box
from ..geometry.places import PLACES
from ..geometry.units import is_map
from ..hierarchy.base import Cells, Hierarchy
from ..hierarchy.tables import TableTree
from ..pooled.estimate import PooledPartition
from ..protocol.estimate import Walls, estimate
from ..protocol.partition import Partition
from ..protocol.task import Task
from ..simulation.population import Splits

OPEN, REGION = 0, 1  # something may still be decided there; a region
NORMAL = 1.959963984540054  # two-sided 95 %
_DIGITS = 6  # of degrees: 0.1 m
_COLUMNS = ("lower", "upper", "boxes", "area", "state", "crowd", "half")
_SIDES = (("x0", 0, 0), ("y0", 0, 1), ("x1", 1, 0), ("y1", 1, 1))
MOST_LABELS = 2000  # that a list on a page offers


class Piece(NamedTuple):
    """A part of a region between lines that members answered about: its codes, and how many people they tell of."""

    lower: int
    upper: int
    people: float


@dataclass(frozen=True, eq=False)
class Rows:
    """Regions of a map."""

    names: tuple[str, ...]
    lower: Cells  # uint64[m], codes lower to before upper
    upper: Cells
    boxes: Floats  # float64[m, 2, d], smallest boxes around them
    area: Floats  # float64[m], in km² on a map, else in units of the axes
    state: Integers  # int64[m], OPEN or REGION
    crowd: Floats  # float64[m], members, exact; of pooled cells, estimated
    half: Floats  # float64[m], half the width of the 95 % interval of the noise; 0 where ``crowd`` is exact
    pieces: tuple[list[Piece], ...]  # what is estimated inside each; empty where nothing was asked

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.lower)

    def take(self, rows: Integers) -> Rows:
        """Some of the rows."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        names, pieces = (tuple(each[row] for row in rows.tolist()) for each in (self.names, self.pieces))
        return Rows(names, pieces=pieces, **columns)

    @staticmethod
    def join(parts: Sequence[Rows]) -> Rows:
        """All rows of one or more."""
        columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
        names = tuple(name for part in parts for name in part.names)
        pieces = tuple(each for part in parts for each in part.pieces)
        return Rows(names, pieces=pieces, **columns)

    def to_json(self, tree: Hierarchy) -> dict[str, list[Any]]:
        """Columns, ready for JSON; one dimension is drawn as a strip from 0 to 1.

        ``half`` is half the width of the 95 % interval. ``rings`` are outlines x, y, x, y, … in two dimensions, null
        for boxes; ``pieces`` per region its parts, each with its people, area and outlines.
        """
        boxes = on_a_strip(self.boxes)
        columns: dict[str, list[Any]] = {
            **{name: boxes[:, end, axis].tolist() for name, end, axis in _SIDES},
            "area": [float(f"{area:.4g}") for area in self.area.tolist()],
            "state": self.state.tolist(), "crowd": np.round(self.crowd, 1).tolist(),
            "half": [float(f"{half:.3g}") for half in self.half.tolist()],
            "pieces": self._pieces_json(tree),
        }  # fmt: skip
        if tree.leaves:
            columns["label"] = list(self.names)
        if tree.box.dimensions == 2 and any(rings := _outlines(tree, self.lower, self.upper, self.boxes)):
            columns["rings"] = rings
        return columns

    def _pieces_json(self, tree: Hierarchy) -> list[list[Any]]:
        every = [piece for pieces in self.pieces for piece in pieces]
        if not every:
            return [[] for _ in self.pieces]
        lower, upper = (np.array([piece[end] for piece in every], dtype=np.uint64) for end in (0, 1))
        boxes, areas = tree.interval_boxes(lower, upper), tree.interval_areas(lower, upper)
        drawn = _outlines(tree, lower, upper, boxes)
        corners = on_a_strip(boxes).tolist()
        found = iter(
            {
                "people": round(piece.people, 1),
                "area": float(f"{area:.4g}"),
                "rings": rings or [[x, y, u, y, u, v, x, v, x, y]],
            }
            for piece, area, rings, ((x, y), (u, v)) in zip(every, areas, drawn, corners, strict=True)
        )
        return [[next(found) for _ in pieces] for pieces in self.pieces]


def on_a_strip(boxes: Floats) -> Floats:
    """Boxes float64[m, 2, d] with a second axis from 0 to 1 if they have one."""
    if boxes.shape[2] > 1:
        return boxes
    return np.concatenate([boxes, np.broadcast_to([[0.0], [1.0]], boxes.shape)], axis=2)


def _outlines(tree: Hierarchy, lower: Cells, upper: Cells, boxes: Floats) -> list[list[list[float]] | None]:
    """Outlines of intervals as x, y, x, y, …; None for boxes."""
    if tree.box.dimensions != 2:
        return [None] * len(lower)
    outlines = tree.interval_polygons(lower, upper)
    plain = tree.cells_are_boxes
    return [
        None
        if plain and len(rings) == 1 and len(rings[0]) == 5
        else [np.round(ring, _DIGITS).ravel().tolist() for ring in rings]
        for rings in outlines
    ]


def region_rows(
    task: Task, lower: Cells, upper: Cells, members: Integers, *, state: Integers, walls: Walls | None = None
) -> Rows:
    """Rows of regions of the local protocol, with their pieces if the answers of their members are given."""
    tree = task.hierarchy
    crowd = np.asarray(members, dtype=np.float64)
    return Rows(
        tuple(tree.interval_names(lower, upper)), lower, upper, tree.interval_boxes(lower, upper),
        tree.interval_areas(lower, upper), state, crowd, np.zeros(len(crowd)),
        tuple([] for _ in crowd) if walls is None else _pieces(task, lower, upper, members, walls),
    )  # fmt: skip


def _pieces(task: Task, lower: Cells, upper: Cells, members: Integers, walls: Walls) -> tuple[list[Piece], ...]:
    """The parts of every region between its lines, with the people that the answers tell of."""
    joint = estimate(lower, upper, walls, task.truth).share if task.rule == "cut" else None
    out = []
    for row, (start, stop) in enumerate(pairwise(walls.first.tolist())):
        edges = [int(lower[row]), *walls.cuts[start:stop].tolist(), int(upper[row])]
        if joint is None:
            above = np.minimum.accumulate([1.0, *(walls.yes[start:stop] / np.maximum(walls.asked[start:stop], 1)), 0.0])
            share = -np.diff(above)
        else:
            share = joint[start + row : stop + row + 1]
        people = (share * members[row]).tolist()
        out.append(
            [Piece(*ends, each) for ends, each in zip(pairwise(edges), people, strict=True)] if stop > start else []
        )
    return tuple(out)


def partition_rows(partition: Partition | PooledPartition) -> Rows:
    """The map of a finished partition."""
    if isinstance(partition, Partition):
        return region_rows(
            partition.task, partition.lower, partition.upper, partition.crowds,
            state=np.full(len(partition), REGION), walls=partition.walls,
        )  # fmt: skip
    tree, cells = partition.task.hierarchy, partition.cells
    first, last = tree.span(cells)
    crowd = np.asarray(partition.crowds, dtype=np.float64)
    names = tree.names(cells) if tree.leaves else [str(cell) for cell in cells.tolist()]
    return Rows(
        tuple(names), first, last + np.uint64(1), tree.boxes(cells), tree.areas(cells), np.full(len(cells), REGION),
        crowd, NORMAL * partition.stderr, tuple([] for _ in cells),
    )  # fmt: skip


def split_rows(partition: Partition, splits: Splits) -> list[Rows]:
    """The map after every round in which a region was cut: regions that go on (OPEN), and those that end there."""
    final = partition_rows(partition)
    before = np.concatenate([[0], np.cumsum(partition.crowds)])
    edges = np.append(partition.lower, partition.upper[-1:])
    root = partition.task.hierarchy.ends
    cuts = np.array(root, dtype=np.uint64)
    out, ended = [], np.zeros(len(partition), dtype=bool)
    for number in np.unique(splits.rounds).tolist():
        cuts = np.union1d(cuts, splits.cut[splits.rounds == number])
        lower, upper = cuts[:-1], cuts[1:]
        whole = np.isin(partition.lower, lower) & np.isin(partition.upper, upper)
        whole &= upper[np.minimum(np.searchsorted(lower, partition.lower), len(lower) - 1)] == partition.upper
        rows = np.flatnonzero(~np.isin(lower, partition.lower[whole]))
        crowd = before[np.searchsorted(edges, upper[rows])] - before[np.searchsorted(edges, lower[rows])]
        going = region_rows(partition.task, lower[rows], upper[rows], crowd, state=np.full(len(rows), OPEN))
        out.append(Rows.join([going, final.take(np.flatnonzero(whole & ~ended))]))
        ended |= whole
    return out or [final]


def area_unit(box: Box) -> str:
    """What densities are counted per."""
    return "km²" if is_map(box) else "unit area"


def _places(box: Box, tree: Hierarchy | None) -> dict[str, list[float]]:
    """Named places inside a domain: west, south, east, north. Those of a tree of labels lie on one axis."""
    if isinstance(tree, TableTree) and tree.labels and len(tree.all_labels) <= MOST_LABELS:
        cuts = tree.boxes(tree.cells_of(tree.all_labels))[:, :, 0].tolist()
        return {label: [low, 0.0, high, 1.0] for label, (low, high) in zip(tree.all_labels, cuts, strict=True)}
    if not is_map(box):
        return {}
    whole = (*box.lower, *box.upper)
    return {
        name: list(place)
        for name, place in PLACES.items()
        if place != whole and np.all(np.array(place[:2]) >= box.lower) and np.all(np.array(place[2:]) <= box.upper)
    }


def domain_json(box: Box, tree: Hierarchy | None = None) -> dict[str, Any]:
    """The domain as the map takes it; the labels of a tree are places in it."""
    places = _places(box, tree)
    return {
        "lower": list(box.lower), "upper": list(box.upper), "names": list(box.names),
        "geographic": is_map(box), "unit": area_unit(box), "places": places,
        "labelled": bool(places) and not is_map(box),
    }  # fmt: skip
