"""What a map shows after every round: the cells of the round, and the regions where paths ended before.

A round asks about every open cell, so a frame is made of two parts: all rows of its own round, and the rows of earlier
rounds that are no longer open. With the rows of each round, any moment can be shown.
Knows closed rounds and finished partitions. Knows no participants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Floats, Integers, short_repr
from ..geometry.box import Box
from ..geometry.earth import is_map
from ..geometry.places import PLACES
from ..hierarchy.base import Cells, Hierarchy
from ..hierarchy.table import TableTree
from ..pooled.partition import PooledPartition
from ..protocol.partition import Partition
from ..protocol.rule import PlayedRound
from ..protocol.task import Task
from .verdicts import NORMAL, child_spread, stop_reasons, trim_reasons

__all__ = ["OPEN", "REGION", "TRIMMED", "Rows", "area_unit", "domain_json", "frame", "partition_rows", "round_rows"]

OPEN, REGION, TRIMMED = 0, 1, 2  # a cell that is asked about next; a region; a part whose participants were moved
_RING_DIGITS = 6  # of degrees: 0.1 m
MOST_LABELS = 2000  # that a list on a page offers


@dataclass(frozen=True, eq=False)
class Rows:
    """Cells of a map.

    Attributes
    ----------
    cells : uint64[m]
    boxes : float64[m, 2, d]
    area : float64[m]
        In km² on a map, else in units of the axes.
    depth : int64[m]
    state : int64[m]
        OPEN, REGION or TRIMMED.
    crowd : float64[m]
        Participants published in the cell: exact for regions of the rules "all" and "trim", else estimated.
    low, high : float64[m]
        95 % interval of the noise; equal to ``crowd`` where it is exact.
    reason : tuple of str
        Why it is what it is; empty for open cells.
    """

    cells: Cells
    boxes: Floats
    area: Floats
    depth: Integers
    state: Integers
    crowd: Floats
    low: Floats
    high: Floats
    reason: tuple[str, ...]

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.cells)

    def take(self, rows: Integers) -> Rows:
        """Some of the rows."""
        return Rows(
            self.cells[rows], self.boxes[rows], self.area[rows], self.depth[rows], self.state[rows], self.crowd[rows],
            self.low[rows], self.high[rows], tuple(self.reason[row] for row in rows.tolist()),
        )  # fmt: skip

    @staticmethod
    def join(parts: Sequence[Rows]) -> Rows:
        """All rows of one or more."""
        return Rows(
            np.concatenate([part.cells for part in parts]), np.concatenate([part.boxes for part in parts]),
            np.concatenate([part.area for part in parts]),
            np.concatenate([part.depth for part in parts]), np.concatenate([part.state for part in parts]),
            np.concatenate([part.crowd for part in parts]), np.concatenate([part.low for part in parts]),
            np.concatenate([part.high for part in parts]), tuple(text for part in parts for text in part.reason),
        )  # fmt: skip

    def to_json(self, tree: Hierarchy) -> dict[str, list[Any]]:
        """Columns, ready for JSON; one dimension is drawn as a strip from 0 to 1.

        Cells that have labels come with ``label``, cells that are not boxes with ``rings``: outlines x, y, x, y, ….
        """
        boxes = self.boxes
        if tree.box.dimensions == 1:
            boxes = np.concatenate([boxes, np.broadcast_to([[0.0], [1.0]], boxes.shape)], axis=2)
        return {
            "cell": [str(cell) for cell in self.cells.tolist()],
            "x0": boxes[:, 0, 0].tolist(), "y0": boxes[:, 0, 1].tolist(),
            "x1": boxes[:, 1, 0].tolist(), "y1": boxes[:, 1, 1].tolist(),
            "area": [float(f"{area:.6g}") for area in self.area.tolist()],
            "depth": self.depth.tolist(), "state": self.state.tolist(),
            **{name: np.round(getattr(self, name), 1).tolist() for name in ("crowd", "low", "high")},
            "reason": list(self.reason), **_more(tree, self.cells),
        }  # fmt: skip


def _more(tree: Hierarchy, cells: Cells) -> dict[str, list[Any]]:
    """Labels and true outlines, where a tree has them."""
    labels = tree.names(cells)
    found: dict[str, list[Any]] = {"label": labels} if any(labels) else {}
    if not tree.cells_are_boxes and tree.box.dimensions == 2:
        found["rings"] = [
            [np.round(ring, _RING_DIGITS).ravel().tolist() for ring in rings] for rings in tree.outlines(cells)
        ]
    return found


def round_rows(task: Task, played: PlayedRound) -> Rows:
    """The cells that a closed round leaves: regions, trimmed parts, and the cells that are asked about next."""
    ruling, hierarchy = played.ruling, task.hierarchy
    spread = child_spread(task, played)
    estimates = np.maximum(ruling.estimates, 0.0)
    exposed = task.rule == "each" and bool(played.tally.shape[1])
    rows, numbers = np.nonzero(ruling.kept) if ruling.kept.shape[1] else (np.empty(0, np.int64), np.empty(0, np.int64))
    parts = [_children(task, rows, numbers, played, OPEN, estimates, spread.low, spread.high, [""] * len(rows))]
    ended = ruling.ended
    if exposed:
        left = hierarchy.number(ended.cells)
        texts = trim_reasons(task, played, ended.rows, left, spread)
        parts.append(_children(task, ended.rows, left, played, REGION, estimates, spread.low, spread.high, texts))
    else:
        crowds = played.responders[ended.rows].astype(np.float64)
        texts = stop_reasons(task, played, ended.rows, spread)
        parts.append(_rows(task, ended.cells, REGION, crowds, crowds, crowds, texts))
    off = np.zeros_like(ruling.kept) if exposed or not ruling.kept.shape[1] else ~ruling.kept & ruling.trimmed[:, None]
    rows, numbers = np.nonzero(off & hierarchy.child_mask(played.cells)) if off.shape[1] else (rows[:0], numbers[:0])
    texts = trim_reasons(task, played, rows, numbers, spread)
    parts.append(_children(task, rows, numbers, played, TRIMMED, estimates, spread.low, spread.high, texts))
    return Rows.join(parts)


def _children(
    task: Task, rows: Integers, numbers: Integers, played: PlayedRound, state: int, crowd: Floats, low: Floats,
    high: Floats, texts: Sequence[str],
) -> Rows:  # fmt: skip
    cells = task.hierarchy.child(played.cells[rows], numbers) if len(rows) else np.empty(0, dtype=np.uint64)
    return _rows(task, cells, state, crowd[rows, numbers], low[rows, numbers], high[rows, numbers], texts)


def _rows(task: Task, cells: Cells, state: int, crowd: Floats, low: Floats, high: Floats, texts: Sequence[str]) -> Rows:
    tree = task.hierarchy
    states = np.full(len(cells), state, dtype=np.int64)
    boxes, area = tree.boxes(cells), tree.areas(cells)
    return Rows(cells, boxes, area, tree.depth(cells), states, crowd, low, high, tuple(texts))


def frame(rounds: Sequence[Rows], number: int) -> Rows:
    """The whole map after a round: rows of that round, and what ended before. They cover the domain.

    Parameters
    ----------
    rounds : sequence of Rows
        From :func:`round_rows`, in order from round 1.
    number : int
        From 1.
    """
    before = [rows.take(np.flatnonzero(rows.state != OPEN)) for rows in rounds[: number - 1]]
    return Rows.join([*before, rounds[number - 1]])


def partition_rows(partition: Partition | PooledPartition) -> Rows:
    """The map of a finished partition, without reasons; refused where its crowds are not public."""
    partition = partition if isinstance(partition, PooledPartition) else partition.to_publish()
    task, crowds = partition.task, np.asarray(partition.crowds, dtype=np.float64)
    hierarchy = task.hierarchy
    low, high = crowds, crowds
    if isinstance(partition, PooledPartition):
        half = NORMAL * partition.stderr
        low, high = np.maximum(crowds - half, 0.0), crowds + half
    trimmed = partition.trimmed_cells
    cells, zeros = np.concatenate([partition.cells, trimmed]), np.zeros(len(trimmed))
    states = np.repeat([REGION, TRIMMED], [len(partition.cells), len(trimmed)])
    crowds, low, high = (np.concatenate([column, zeros]) for column in (crowds, low, high))
    boxes, area = hierarchy.boxes(cells), hierarchy.areas(cells)
    return Rows(cells, boxes, area, hierarchy.depth(cells), states, crowds, low, high, ("",) * len(cells))


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
