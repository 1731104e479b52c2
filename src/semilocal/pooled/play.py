"""The tree of published numbers: a public rule says which cells are opened, and a counter is asked until none is left.

To open a cell is to publish the noisy **difference** of the numbers of reports in its two children. The rule goes down
level by level and keeps for every cell

- ``size``: its estimated reports. The root's is exact, N. With the difference D of its parent (size n), a child's is
  (n + D) / 2 or (n - D) / 2; where |D| > n both are moved to where they agree, weighted by their variances;
- ``variance`` of that estimate;
- ``unevenness``: estimate of E[(D / n)^2] from the differences on its path, newer ones counting twice as much;
- ``left``: units of the path's budget that are left.

A cell is opened if ``reach * sqrt(unevenness) >= threshold``, where ``reach = size + sd / 2``: if the difference that
is to be expected, or cannot be ruled out, stands out of the noise. So a large even cell stays whole, and a small
crowd beside a large one is not lost in the noise of its parent. Opening costs ``opening_share * sqrt(threshold /
reach)`` of the path's budget: the noise of a difference grows like the square root of the cell's size. It costs at
least ``1 / (8 max_depth)`` of it, so that the noise of the largest cells has a limit. All that is left of a path's
budget goes into the count of its final cell.

Only operations that IEEE 754 rounds in one way (+ - * / sqrt and comparisons) and integers decide, cell by cell, so
everybody who replays the published numbers gets the same tree.

What comes out is :class:`Published`, all that anybody gets to see: the task, the number of reports, per level the
opened cells and their noisy differences, the final cells and their noisy counts. :func:`replay` drives the same loop
with a transcript in place of a counter, so nothing is decided twice; it refuses a transcript that does not follow the
rule.

Knows published numbers only. Knows no counts, noise or positions: a counter holds them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, short_repr
from ..errors import InvalidInput
from ..hierarchy.dyadic import ROOT, Cells
from ..protocol.promise import Mark
from .task import UNITS, PooledTask

_Item = TypeVar("_Item", bound=np.generic)

DOUBT = 0.5  # standard deviations that a cell's estimate is given the benefit of
FORGET = 0.5  # what a difference counts against that of the next level
CHEAPEST = 8  # a path that opens a cell on every level at the least price spends an eighth of its budget
EVENEST = 0.1  # least unevenness assumed: the differences seen so far say little about smaller cells
MAX_NUMBER = 2**62


@dataclass(frozen=True, eq=False)
class Level:
    """Cells of one depth whose parents were opened, in the order of their codes; siblings stand side by side."""

    depth: int
    cells: Cells  # uint64[m]
    size: Floats  # float64[m], estimated reports, as the rule sees them, and the variance of that
    variance: Floats  # float64[m]
    unevenness: Floats  # float64[m], estimate of E[(D / n)^2] on the path, and what it counts
    weight: Floats  # float64[m]
    left: Integers  # int64[m], units of the path's budget left before the cell is asked about
    price: Integers  # int64[m], units that opening costs; 0 for cells that are not opened

    @property
    def opened(self) -> npt.NDArray[np.bool_]:
        """Which cells are opened: bool[m]. The others are final."""
        return self.price > 0


class Counter(Protocol):
    """Counts with noise: memory, an engine, or two servers together."""

    @property
    def people(self) -> int:
        """Accepted reports, exactly; public."""

    def differences(self, depth: int, cells: Cells, units: Integers) -> Integers:
        """Reports in child 0 less those in child 1 of each cell, with the noise that ``units`` buy: int64[m]."""

    def counts(self, cells: Cells, units: Integers) -> Integers:
        """Reports in each cell, with the noise that ``units`` buy: int64[m]."""


@dataclass(frozen=True, eq=False)
class Tree:
    """The refined hierarchy: a function of what was published."""

    task: PooledTask
    people: int
    levels: tuple[Level, ...]  # from the root down
    differences: tuple[Integers, ...]  # int64[opened], of the opened cells of each level that has any
    cells: Cells  # uint64[m], the final cells, in the order of the domain: they cover it without overlap
    units: Integers  # int64[m], what each final count was bought with: all that was left of its path's budget
    counts: Integers  # int64[m], their published noisy counts

    __repr__ = short_repr

    @cached_property
    def first_codes(self) -> Cells:
        """First deepest cell of each final cell, ascending: uint64[m]. What lies between two belongs to the first."""
        return self.task.hierarchy.span(self.cells)[0]

    @cached_property
    def final_places(self) -> list[Integers]:
        """Per level, where its final cells stand in ``cells``: int64[final]."""
        final = [level.cells[~level.opened] for level in self.levels]
        begin = np.concatenate(final)
        rank = np.empty(len(begin), dtype=np.int64)
        rank[np.argsort(self.task.hierarchy.span(begin)[0])] = np.arange(len(begin))
        return np.split(rank, np.cumsum([len(cells) for cells in final])[:-1])

    def find(self, points: npt.ArrayLike) -> Integers:
        """Which final cell holds each point: int64[n]."""
        codes = self.task.hierarchy.codes(points)
        return np.asarray(np.searchsorted(self.first_codes, codes, side="right") - 1, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Published:
    """All that anybody gets to see; everything else is computed from it."""

    task: PooledTask
    people: int
    opened: tuple[Cells, ...]  # uint64[m], opened cells per level
    differences: tuple[Integers, ...]  # int64[m], their noisy differences
    cells: Cells  # uint64[f], final cells, in the order of the domain
    counts: Integers  # int64[f], their noisy counts
    sums: Integers | None = None  # int64[f], their noisy sums of a value (`pooled.values`), if the task asks for one
    # Set if a seeded generator made the noise, or one program played two servers. The bytes tell that two servers were
    # played; that their noise was seeded, they tell with the seed alone.
    mark: Mark | None = None

    __repr__ = short_repr

    @property
    def simulated(self) -> bool:
        """Whether it has a mark."""
        return self.mark is not None

    @cached_property
    def tree(self) -> Tree:
        """What :func:`replay` gives, found once; known already where :func:`play` made this."""
        return replay(self)

    def to_bytes(self) -> bytes:
        """Canonical bytes."""
        return msgspec.msgpack.encode(
            _Record(
                task=self.task,
                people=self.people,
                opened=tuple(tuple(level.tolist()) for level in self.opened),
                differences=tuple(tuple(level.tolist()) for level in self.differences),
                cells=tuple(self.cells.tolist()),
                counts=tuple(self.counts.tolist()),
                simulated=self.simulated,
                sums=msgspec.UNSET if self.sums is None else tuple(self.sums.tolist()),
                seed=msgspec.UNSET if self.mark is None or self.mark.seed is None else self.mark.seed,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Published:
        """Read what :meth:`to_bytes` wrote; refuses everything else. :func:`replay` checks that it follows the rule."""
        try:
            record = msgspec.msgpack.decode(data, type=_Record)
            seed = None if isinstance(record.seed, msgspec.UnsetType) else record.seed
            seeded = seed is not None or record.task.trust == "curator"
            out = cls(
                record.task,
                record.people,
                tuple(np.array(level, dtype=np.uint64) for level in record.opened),
                tuple(np.array(level, dtype=np.int64) for level in record.differences),
                np.array(record.cells, dtype=np.uint64),
                np.array(record.counts, dtype=np.int64),
                None if isinstance(record.sums, msgspec.UnsetType) else np.array(record.sums, dtype=np.int64),
                Mark(seeded=seeded, seed=seed) if record.simulated else None,
            )
        except (msgspec.DecodeError, ValueError, RecursionError, OverflowError) as error:
            raise InvalidInput(f"these bytes are not a published tree: {error}") from None
        if seed is not None and not record.simulated:
            raise InvalidInput("a published tree with a seed must be marked as simulated")
        if out.to_bytes() != data:
            raise InvalidInput("these bytes are not the canonical bytes of a published tree")
        return out


class _Record(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="pooled-tree-2", forbid_unknown_fields=True
):
    task: PooledTask
    people: int
    opened: tuple[tuple[int, ...], ...]
    differences: tuple[tuple[int, ...], ...]
    cells: tuple[int, ...]
    counts: tuple[int, ...]
    simulated: bool
    sums: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET  # transcripts without values do not name them
    seed: int | msgspec.UnsetType = msgspec.UNSET  # real ones have none


def play(task: PooledTask, counter: Counter, *, mark: Mark | None = None) -> Published:
    """Refine the hierarchy with a counter's noisy numbers.

    The result is ``task.epsilon``-differentially private for any change of one person's position (pure), if the
    counter's noise is what it says. It is marked if that came from a seeded generator, or one program plays both
    servers.
    """
    tree = _grow(task, counter)
    opened = tuple(level.cells[level.opened] for level in tree.levels if level.opened.any())
    published = Published(task, tree.people, opened, tree.differences, tree.cells, tree.counts, mark=mark)
    published.__dict__["tree"] = tree
    return published


def replay(published: Published) -> Tree:
    """The tree that the published numbers give; refuses a transcript whose cells do not follow the rule."""
    replayed = _Replayed(published)
    tree = _grow(published.task, replayed)
    if replayed.used != len(published.opened) or len(published.opened) != len(published.differences):
        raise InvalidInput(
            f"the rule opens cells on {replayed.used} levels, but the transcript has numbers for "
            f"{len(published.opened)} and {len(published.differences)}"
        )
    if published.sums is not None and _numbers(published.sums, "sums").shape != tree.cells.shape:
        raise InvalidInput(f"there are {len(tree.cells)} final cells; got {len(published.sums)} sums")
    return tree


def unrefined(task: PooledTask, people: int) -> Tree:
    """The tree of which nothing was asked: one cell, the whole domain, whose count is public."""
    root = root_level(task, people)
    root = replace(root, price=np.zeros_like(root.price))
    return Tree(task, people, (root,), (), root.cells, root.left, np.array([people], dtype=np.int64))


def _grow(task: PooledTask, counter: Counter) -> Tree:
    people = counter.people
    if not 0 <= people < MAX_NUMBER:
        raise InvalidInput(f"the number of reports must not be negative; got {people}")
    levels = [root_level(task, people)]
    differences = []
    while (opened := levels[-1].opened).any():
        last = levels[-1]
        found = _numbers(counter.differences(last.depth, last.cells[opened], last.price[opened]), "differences")
        differences.append(found)
        levels.append(next_level(task, last, found))
    final = np.concatenate([level.cells[~level.opened] for level in levels])
    left = np.concatenate([level.left[~level.opened] for level in levels])
    order = np.argsort(task.hierarchy.span(final)[0])
    cells, units = final[order], left[order]
    counts = _numbers(counter.counts(cells, units), "counts")
    if counts.shape != cells.shape:
        raise InvalidInput(f"there are {len(cells)} final cells; got {len(counts)} counts")
    return Tree(task, people, tuple(levels), tuple(differences), cells, units, counts)


def _numbers(found: Integers, name: str) -> Integers:
    array = np.asarray(found)
    if array.dtype != np.int64 or array.ndim != 1 or (np.abs(array) > MAX_NUMBER).any():
        raise InvalidInput(f"{name} must be int64[m], at most {MAX_NUMBER}; got {array.dtype}{array.shape}")
    return array


class _Replayed:
    """A counter that reads from a transcript."""

    def __init__(self, published: Published) -> None:
        self.people = published.people
        self.used = 0
        self._published = published

    def differences(self, depth: int, cells: Cells, units: Integers) -> Integers:
        published = self._published
        if depth >= min(len(published.opened), len(published.differences)):
            raise InvalidInput(f"the rule opens cells on level {depth}, but the transcript ends above it")
        _same(published.opened[depth], cells, f"level {depth}")
        self.used += 1
        return published.differences[depth]

    def counts(self, cells: Cells, units: Integers) -> Integers:
        _same(self._published.cells, cells, "the final cells")
        return self._published.counts


def _same(given: Cells, expected: Cells, where: str) -> None:
    if given.shape != expected.shape or (given != expected).any():
        raise InvalidInput(
            f"{where}: the transcript's cells are not those that the rule gives for the numbers before them"
        )


# -- the rule ----------------------------------------------------------------------------------------------------------


def root_level(task: PooledTask, people: int) -> Level:
    """The level that holds the root alone; ``people`` is the public number of accepted reports."""
    one, root = np.ones(1), np.array([ROOT], dtype=np.uint64)
    return _priced(
        task, Level(0, root, people * one, 0 * one, 0.5 * one, one, np.array([UNITS]), np.zeros(1, np.int64))
    )


def next_level(task: PooledTask, level: Level, differences: Integers) -> Level:
    """The children of the cells that were opened, from their published noisy differences int64[opened]."""
    opened = level.opened
    if differences.shape != (int(np.count_nonzero(opened)),) or differences.dtype != np.int64:
        raise InvalidInput(
            f"level {level.depth} opened {np.count_nonzero(opened)} cells; got differences "
            f"{differences.dtype}{differences.shape}"
        )
    size, variance, price = level.size[opened], level.variance[opened], level.price[opened]
    difference = differences.astype(np.float64)
    noise = difference_noise(task, price)
    away = np.abs(difference)
    beyond = away > size
    agreed = np.maximum((size * noise + away * variance) / (variance + noise), 0.0)
    size = np.where(beyond, agreed, size)
    kept = np.where(beyond, np.sign(difference) * agreed, difference)
    after = (variance + noise) / 4  # a child that is cut at the ends of its parent is not certain
    after = np.where(beyond, np.maximum(variance * noise / (variance + noise), after), after)

    reach = np.maximum(_reach(level.size[opened], variance), 1.0)
    seen = np.minimum(np.maximum((difference * difference - noise - size) / (reach * reach), -1.0), 1.0)
    doubt = noise / (reach * reach)
    counts = 1 / (0.25 + 3 * doubt * doubt)
    before = FORGET * level.weight[opened]
    weight = before + counts
    unevenness = (before * level.unevenness[opened] + counts * seen) / weight

    parents = level.cells[opened]
    children = task.hierarchy.children(parents) if len(parents) else parents
    size = siblings((size + kept) / 2, (size - kept) / 2)
    after, unevenness, weight = np.repeat([after, unevenness, weight], 2, axis=1)
    left = np.repeat(level.left[opened] - price, 2)
    return _priced(task, Level(level.depth + 1, children, size, after, unevenness, weight, left, 0 * left))


def difference_noise(task: PooledTask, units: Integers) -> Floats:
    """Variance of the noise of numbers by the units they cost, as the rule takes it (2 / e^2 per noise)."""
    rate = units * (task.path_budget / (UNITS * task.max_reports))
    return 2.0 * task.noises / (rate * rate)


def _priced(task: PooledTask, level: Level) -> Level:
    """The level with its prices, and 0 for cells that stay whole."""
    reach = _reach(level.size, level.variance)
    share = task.opening_share * np.sqrt(task.threshold / np.maximum(reach, task.threshold))
    least = max(UNITS // (CHEAPEST * task.hierarchy.max_depth), 1)
    price = np.maximum((share * UNITS).astype(np.int64), least)
    expected = reach * np.sqrt(np.minimum(np.maximum(level.unevenness, EVENEST), 1.0))  # difference of the children
    opens = (expected >= task.threshold) & (price < level.left)
    if level.depth == task.hierarchy.max_depth:
        opens[:] = False
    if not task.hierarchy.has_one_fanout:
        opens &= task.hierarchy.fanouts(level.cells) == 2
    return replace(level, price=np.where(opens, price, 0))


def _reach(size: Floats, variance: Floats) -> Floats:
    return np.asarray(size + DOUBT * np.sqrt(variance))


def siblings(first: npt.NDArray[_Item], second: npt.NDArray[_Item]) -> npt.NDArray[_Item]:
    """First and second children, in turn: [2m]."""
    return np.stack((first, second), axis=1).ravel()
