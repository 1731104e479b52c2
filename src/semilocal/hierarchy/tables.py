"""Ways to build a table tree: cut points, labels, balanced cuts of public counts, and the same tree in twos.

What is refused names the row, the cut or the label: overlaps, gaps, a level that does not refine the one above.

Knows lists of numbers and labels. Knows no participants: everything here is public before anybody is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, as_floats
from ..errors import InvalidInput
from .table import MAX_LABEL, TableTree

__all__ = ["balanced", "from_cuts", "from_labels", "in_twos"]


def from_cuts(name: str, levels: Sequence[Sequence[float]]) -> TableTree:
    """A tree of one axis from the edges on every level, the coarsest first.

    Parameters
    ----------
    name : str
        Of the axis.
    levels : sequence of sequence of float
        All edges of each level below the root, both ends included, ascending. Every level has all edges of the one
        above and the same ends.

    Examples
    --------
    >>> tree = from_cuts("age", [[0, 18, 65, 120], [0, 6, 18, 40, 65, 80, 120]])
    >>> tree.widths, tree.max_depth
    (((3,), (2, 2, 2)), 2)
    """
    rows = [tuple(float(edge) for edge in level) for level in levels]
    if not rows or any(len(row) < 2 for row in rows):
        raise InvalidInput("every level needs at least its two ends; got " + repr([len(row) for row in rows]))
    for depth, row in enumerate(rows, start=1):
        for low, high in pairwise(row):
            if not low < high:
                word = "twice" if low == high else f"after {low:g}: the parts overlap"
                raise InvalidInput(f"level {depth}: {high:g} stands {word}; edges must ascend")
    fanouts: list[tuple[int, ...]] = []
    above: tuple[float, ...] = (rows[0][0], rows[0][-1])
    for depth, row in enumerate(rows, start=1):
        missing = sorted(set(above) - set(row))
        if missing or row[0] != above[0] or row[-1] != above[-1]:
            wrong = f"it has no edge at {missing[0]:g}" if missing else f"it reaches from {row[0]:g} to {row[-1]:g}"
            raise InvalidInput(
                f"level {depth} does not refine the level above: {wrong}; parts would overlap or leave a gap"
            )
        place = {edge: number for number, edge in enumerate(row)}
        fanouts.append(tuple(place[high] - place[low] for low, high in pairwise(above)))
        above = row
    return TableTree(name, rows[-1], tuple(fanouts))


def from_labels(name: str, paths: Sequence[Sequence[str]]) -> TableTree:
    """A tree of labels from the path of every leaf, such as chapter, group and code.

    Parameters
    ----------
    name : str
        What the labels are; also the label of the root.
    paths : sequence of sequence of str
        From the coarsest label to the leaf, one row per leaf. Rows of one branch stand together. Shorter paths end
        early.

    Examples
    --------
    >>> tree = from_labels("ICD", [("IX", "I20-I25", "I21"), ("IX", "I20-I25", "I25"), ("X", "J18")])
    >>> tree.widths, tree.labels[1]
    (((2,), (1, 1), (2, 1)), ('IX', 'X'))
    """
    rows = [tuple(str(label) for label in path) for path in paths]
    for number, path in enumerate(rows):
        if not path or any(not 0 < len(label) <= MAX_LABEL for label in path):
            raise InvalidInput(f"row {number}: {path!r} must hold labels of 1 to {MAX_LABEL} characters")
    deepest = max(map(len, rows), default=0)
    full = [path + (path[-1],) * (deepest - len(path)) for path in rows]
    labels: list[tuple[str, ...]] = [(name,)]
    fanouts: list[tuple[int, ...]] = []
    starts = [0, len(full)]
    for depth in range(deepest):
        level: list[str] = []
        sizes: list[int] = []
        bounds = [0]
        owner: dict[str, tuple[str, ...]] = {}
        for begin, end in pairwise(starts):
            before = len(level)
            for number in range(begin, end):
                label = full[number][depth]
                if number == begin or label != full[number - 1][depth]:
                    _check_new(label, full[number], rows[number], depth, number, owner)
                    level.append(label)
                    if number:
                        bounds.append(number)
                elif depth == deepest - 1:
                    raise InvalidInput(f"row {number}: {label!r} stands twice; every leaf needs one row")
            sizes.append(len(level) - before)
        starts = sorted({*bounds, len(full)})
        labels.append(tuple(level))
        fanouts.append(tuple(sizes))
    edges = tuple(float(edge) for edge in range(len(full) + 1))
    return TableTree(name, edges, tuple(fanouts), tuple(labels))


def _check_new(
    label: str,
    path: tuple[str, ...],
    given: tuple[str, ...],
    depth: int,
    number: int,
    owner: dict[str, tuple[str, ...]],
) -> None:
    """Refuse a label that another branch has already."""
    if label in owner:
        raise InvalidInput(
            f"row {number}: {label!r} also stands under {' > '.join(owner[label]) or 'another branch'}; the rows of "
            "one branch must stand together, and no label may be in two branches"
        )
    owner[label] = path[:depth]
    if depth < len(given) and label in given[:depth]:
        raise InvalidInput(f"row {number}: {label!r} is its own part; a path names each level once")


def balanced(name: str, edges: npt.ArrayLike, counts: npt.ArrayLike, *, levels: int, fanout: int = 2) -> TableTree:
    """Cuts that divide public counts evenly on every level, such as those of a census.

    Parameters
    ----------
    name : str
        Of the axis.
    edges : array_like, shape (n + 1,)
        Ends of the parts that were counted, ascending. Cuts fall on these edges only.
    counts : array_like, shape (n,)
        People in each part, from public data: never from the people who are asked.
    levels : int
        How often a part is divided.
    fanout : int
        Into how many parts.

    Examples
    --------
    >>> tree = balanced("income", [0, 10, 20, 30, 50, 100], [50, 30, 10, 5, 5], levels=2)
    >>> tree.boxes(tree.children([1])).ravel().tolist()
    [0.0, 10.0, 10.0, 100.0]
    """
    ends, people = as_floats(edges, "edges"), as_floats(counts, "counts")
    if ends.ndim != 1 or people.shape != (len(ends) - 1,) or (people < 0).any():
        raise InvalidInput(f"counts must be {len(ends) - 1} numbers of at least 0, one between two edges each")
    passed = np.concatenate([[0.0], np.cumsum(people)])
    rows: list[list[float]] = []
    cuts = [0, len(people)]
    for _ in range(levels):
        finer = {cuts[0], cuts[-1]}
        for begin, end in pairwise(cuts):
            wanted = passed[begin] + (passed[end] - passed[begin]) * np.arange(1, fanout) / fanout
            finer.update(_nearest(passed, begin, end, wanted.tolist()))
            finer.update((begin, end))
        if len(finer) == len(cuts):
            break  # every part is one of those that were counted
        cuts = sorted(finer)
        rows.append([float(ends[cut]) for cut in cuts])
    return from_cuts(name, rows)


def _nearest(passed: Floats, begin: int, end: int, wanted: list[float]) -> list[int]:
    """Inner places between two others where the running count is nearest to what is wanted."""
    inner = passed[begin + 1 : end]
    if not len(inner):
        return []
    return [begin + 1 + int(np.argmin(np.abs(inner - number))) for number in wanted]


def in_twos(tree: TableTree) -> TableTree:
    """The same leaves and cells with at most two children each: children in more than two are put together in groups.

    A pooled tree refines halves. Cells in between have labels such as "A to C". Every cell has two children until a
    leaf is reached; from there it goes on with one.

    Examples
    --------
    >>> in_twos(from_cuts("x", [[0, 1, 2, 3]])).widths
    ((2,), (1, 2))
    """
    index = tree._index
    level: list[tuple[int, int, str]] = [(0, len(tree.edges) - 2, tree.name)]
    groups: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    names = tree.names(np.arange(1, int(index.starts[-1])))
    for cell in range(1, int(index.starts[-2])):
        below = range(int(index.child[cell]), int(index.child[cell] + index.fanout[cell]))
        if len(below) > 1:
            parts = [(int(index.first[b]), int(index.last[b]), names[b - 1]) for b in below]
            groups[int(index.first[cell]), int(index.last[cell])] = parts
    labels: list[tuple[str, ...]] = [(tree.name,)]
    fanouts: list[tuple[int, ...]] = []
    while any(first < last for first, last, _ in level):
        following: list[tuple[int, int, str]] = []
        sizes = []
        for first, last, label in level:
            parts = _halves(groups, first, last) if first < last else [(first, last, label)]
            following += parts
            sizes.append(len(parts))
        fanouts.append(tuple(sizes))
        labels.append(tuple(label for _, _, label in following))
        level = following
    return TableTree(tree.name, tree.edges, tuple(fanouts), tuple(labels) if tree.labels else ())


def _halves(
    groups: dict[tuple[int, int], list[tuple[int, int, str]]], first: int, last: int
) -> list[tuple[int, int, str]]:
    """Two halves of a group of cells, by their numbers of leaves; what they consist of is noted for the next level."""
    parts = groups[first, last]
    sizes = np.cumsum([end - begin + 1 for begin, end, _ in parts])
    cut = 1 + int(np.argmin(np.abs(sizes[:-1] - sizes[-1] / 2)))
    out = []
    for half in (parts[:cut], parts[cut:]):
        whole = half[0][0], half[-1][1]
        if len(half) > 1:
            groups[whole] = half
        out.append((*whole, half[0][2] if len(half) == 1 else f"{half[0][2]} to {half[-1][2]}"))
    return out
