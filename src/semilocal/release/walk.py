"""One walk from shapes to numbers: which share of each leaf a question takes, its answer and its error.

A question walks down the rows of the tree. A row that it does not meet is left, one that it holds is taken whole, one
that it cuts is opened, and of a leaf it takes a share of each part. On the way up two halves make their parent: a
division that is taken evenly adds no error. So a question costs about as much as its edge is long in leaves. Where many
boxes are asked about at once, rows that one side of a box cuts are looked up instead (:class:`Lines`): it costs about
as much as its corners are deep.

Rows are seen by the smallest box around them. Where cells are no boxes the hierarchy gives the shares of all parts, and
a row is an interval of them.

People lie evenly in a part. That they do not is the leaf's overdispersion (tree.py).

Knows a tree of counts and shapes. Knows no protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, Integers, on_all_cores, ranges
from ..geometry.areas import NOT_ROUNDED, Areas, Asked, Boxes, Lattice, Polygons
from .answers import CountAnswers
from .tree import CountTree

_GROUP = 4  # children of the root, or groups of them, that are seen as one
_MOST_QUESTIONS = 1 << 12  # in a batch
_PAIRS_AT_ONCE = 1 << 18  # of questions and rows, about: calls of NumPy and misses of the cache cost alike
_LEAVES_AT_ONCE = 1 << 11  # whose parts are measured: they stay in the cache
_MANY = 1 << 14  # boxes that are worth tables of rows
_NUMBERS_AT_ONCE = 1 << 22  # shares in a batch where a hierarchy gives all
_FEWEST_LEAVES = 32  # of a row that has a table
_FLAT = 1e-300  # against a division by zero
_AT_ONCE = 1 << 13  # entries of tables that are asked for
_WHOLE = 1.0 - 1e-9  # shares of the parts of a leaf add up to 1 but for rounding


@dataclass(frozen=True, eq=False)
class _Listed:
    """Questions as the shares that they take of all parts."""

    shares: Floats  # float64[q, c]
    meets: npt.NDArray[np.int32]  # int32[q, c + 1], how many parts before each one a question meets
    holds: npt.NDArray[np.int32]  # int32[q, c + 1], and how many it holds
    row: Integers  # int64[m], the question that is seen from each place

    @staticmethod
    def of(shares: Floats) -> _Listed:
        """From the shares of all parts."""
        passed = np.zeros((2, len(shares), shares.shape[1] + 1), dtype=np.int32)
        for some, out in zip((shares > 0.0, shares >= 1.0), passed, strict=True):
            np.cumsum(some, axis=1, out=out[:, 1:])
        return _Listed(shares, passed[0], passed[1], np.arange(len(shares)))

    def __len__(self) -> int:
        return len(self.row)

    def take(self, rows: Integers) -> _Listed:
        """Some of them."""
        return _Listed(self.shares, self.meets, self.holds, self.row[rows])

    def within(self, shapes: Integers) -> tuple[_Listed, Flags, Flags]:
        """Themselves, and whether they meet and hold an interval of parts each, int64[m, 2, 1]."""
        begin, end = shapes[:, :, 0].T
        meets, holds = (passed[self.row, end] - passed[self.row, begin] for passed in (self.meets, self.holds))
        return self, meets > 0, holds == end - begin

    def covered(self, shapes: Integers) -> Floats:
        """Share of one part each that they take."""
        return np.asarray(self.shares[self.row, shapes[:, 0, 0]])


class _Level(NamedTuple):
    """Pairs of questions and rows of one depth: int64[m] each."""

    question: Integers
    node: Integers
    share: Floats  # float64[m], what the question takes; that of opened rows is found on the way up
    opened: Integers  # int64[k], pairs whose rows are opened; their children are the next level, in this order


@dataclass(frozen=True, eq=False)
class TreeWalk:
    """A tree of counts, ready for questions.

    Its nodes are the root, groups of the root's children, groups of groups, and the tree's other rows: n of them.
    """

    tree: CountTree
    shapes: npt.NDArray[Any]  # [n, 2, d], the smallest box around each, measured by the lattice; or interval of parts
    parts: npt.NDArray[Any]  # [c, 2, d], the same for the parts of leaves
    begin: Integers  # int64[n], first child of each node; of leaves, parts
    number: Integers  # int64[n], and how many it has
    leaf: Flags
    top: int  # depth of the root's children, below the groups
    people: Floats  # float64[n], as all that follow
    plain: Floats
    first_weight: Floats  # by which a row hands its error to its first child
    apart: Floats  # variance of a row for taking all of one child and nothing of the other
    error: Floats  # of children of the root, and the sums of those in each group; 0 for the root
    rest: Floats  # the same
    # Inside a leaf of which a share s is taken, divided by s (1 - s): its own variance, and the standard error that
    # leaves have in common (right for half of a leaf; a line near its edge leans less).
    even: Floats
    clumps: Floats

    @staticmethod
    def of(tree: CountTree, lattice: Lattice = NOT_ROUNDED) -> TreeWalk:
        """Find the shapes of all rows, and group the children of the root."""
        parts, shapes, first_part = _shapes(tree, lattice)
        first, inner = tree.first[:-1], np.diff(tree.first) > 0
        one = first[1:][inner[1:]]
        weight, apart = np.zeros((2, len(tree)))
        weight[1:][inner[1:]] = tree.weight[one]
        apart[1:][inner[1:]] = tree.rest[one + 1] ** 2 * tree.error[one] + tree.rest[one] ** 2 * tree.error[one + 1]
        begin, number = first.copy(), np.diff(tree.first)
        begin[tree.leaves], number[tree.leaves] = first_part[:-1], np.diff(first_part)
        clumps = tree.clumped * np.maximum(tree.squares - tree.people, 0.0)
        even = tree.people + clumps
        # Groups, from the children of the root upwards; the sums of a group stand before those of what it has.
        below = slice(int(tree.first[0]), int(tree.first[1]))
        sums = np.stack([tree.people, tree.plain, tree.error, tree.rest])
        groups, around = [sums[:, below]], [shapes[below]]
        sizes: list[Integers] = []
        while groups[0].shape[1] > _GROUP:
            count = groups[0].shape[1]
            starts = np.arange(0, count, _GROUP)
            sizes.insert(0, np.diff(starts, append=count))
            groups.insert(0, np.add.reduceat(groups[0], starts, axis=1))
            around.insert(0, _around(around[0], starts))
        above = sum(len(size) for size in sizes)
        begin[inner] += above
        counts = np.concatenate([*sizes, np.empty(0, dtype=np.int64)])
        if above:
            number[0] = len(sizes[0])
            begin[0] = 1
        starts = 1 + (len(sizes[0]) if sizes else 0) + np.cumsum(counts) - counts

        def joined(of_rows: npt.NDArray[Any], of_groups: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return np.concatenate([of_rows[:1], of_groups, of_rows[1:]])

        root = np.array([tree.people[0], tree.plain[0], 0.0, 0.0])[:, None]
        people, plain, error, rest = np.concatenate([root, *groups[:-1], sums[:, 1:]], axis=1)
        none = np.zeros(above)
        return TreeWalk(
            tree, np.concatenate([shapes[:1], *around[:-1], shapes[1:]]), parts, joined(begin, starts),
            joined(number, counts), joined(~inner, none > 0), int(inner[0]) * len(groups), people, plain,
            joined(weight, none), joined(apart, none), error, rest, joined(even, none),
            joined(2.0 * np.sqrt(tree.lean * clumps), none),
        )  # fmt: skip

    def query(self, asked: Asked) -> CountAnswers:
        """People in boxes float64[q, 2, d] or in polygons."""
        hierarchy, cells, lines = self.tree.hierarchy, self.tree.parts.cells, None
        if hierarchy.cells_are_boxes:
            areas: Areas = asked if isinstance(asked, Polygons) else Boxes(asked)
            lines = self.lines if isinstance(areas, Boxes) and len(areas) >= _MANY else None
            edges = 1.0 if lines else len(cells) ** (1.0 - 1.0 / hierarchy.box.dimensions)
            most = min(_MOST_QUESTIONS, int(1 + _PAIRS_AT_ONCE / edges))
            groups = [group for batch in areas.batches() for group in _split(batch, most)] if len(areas) else []
        else:
            groups = _split(np.arange(len(asked)), max(1, _NUMBERS_AT_ONCE // len(cells)))

        def work(rows: Integers) -> Floats:
            if hierarchy.cells_are_boxes:
                return self._sums(areas.take(rows), len(rows), lines)
            taken = asked.take(rows) if isinstance(asked, Polygons) else asked[rows]
            shares = (
                hierarchy.shares_in(cells, taken) if isinstance(taken, Polygons) else hierarchy.shares(cells, taken)
            )
            return self._sums(_Listed.of(shares), len(rows))

        out = np.zeros((5, len(asked)))
        for rows, part in zip(groups, on_all_cores(work, groups), strict=True):
            out[:, rows] = part
        return self._answers(out)

    @cached_property
    def lines(self) -> Lines | None:
        """Tables of rows that one line cuts; None where limits are summed over regions that a box meets."""
        if self.tree.unbiased is None:
            return None

        def ask(boxes: Boxes, rows: Integers, lines: Lines) -> Floats:
            sums, levels = self._down(boxes, rows, lines, 0)
            return np.stack([*sums, levels[0].share])

        return Lines.of(self.tree, self.parts, len(self.people) - len(self.tree), ask)

    def rows(self, rows: Integers) -> CountAnswers:
        """People in rows of the tree."""
        tree = self.tree
        value, noise = tree.people[rows], tree.noise[rows]
        plain = tree.plain[rows]
        most = np.where(noise > 0, tree.total, value)
        return self._answers(np.stack([value, plain, np.zeros(len(rows)), noise, most]))

    def _sums(self, areas: Any, number: int, lines: Lines | None = None) -> Floats:
        """What :meth:`_answers` takes, of some areas: float64[5, q]."""
        sums, levels = self._down(areas, np.zeros(number, dtype=np.int64), lines, self.top)
        people, plain, uneven, variance, common = sums
        most = np.zeros(number)
        if self.tree.plain is self.tree.people:
            plain = people
        if self.tree.unbiased is None:
            most = self._met(levels, number)
        variance += self._of_tops(levels[: self.top + 1], number)
        return np.stack([people, plain, uneven + common**2, np.maximum(variance, 0.0), most])

    def _down(self, areas: Any, node: Integers, lines: Lines | None, top: int) -> tuple[Floats, list[_Level]]:
        """Go down from one node for each area, and up again to the depth ``top``: sums of areas, and all pairs.

        The sums are float64[5, q]: people, unbiased people, the variances by uneven people and by noise, and the
        standard errors that lean together.
        """
        number = len(node)
        sums, question, levels = np.zeros((5, number)), np.arange(number), list[_Level]()
        people, plain, uneven, variance, common = sums
        while len(question):
            areas, meets, holds = areas.within(self.shapes.take(node, axis=0))
            share, leaf = holds.astype(np.float64), self.leaf.take(node)
            cut = meets & ~holds
            if lines is not None:
                one, told = self._of_lines(areas, node, np.flatnonzero(cut & lines.has(node)), lines)
                cut[one] = False
            ends, opened = np.flatnonzero(cut & leaf), np.flatnonzero(cut & ~leaf)
            own, at = question.take(ends), node.take(ends)
            for some in _split(ends, _LEAVES_AT_ONCE):
                share[some] = self._of_parts(areas.take(some), node.take(some))
            left = share[ends] * (1.0 - share[ends])
            uneven += np.bincount(own, self.even.take(at) * left, minlength=number)
            if self.tree.lean:
                common += np.bincount(own, self.clumps.take(at) * left, minlength=number)
            some = np.flatnonzero(share > 0.0)
            own, at, taken = question.take(some), node.take(some), share.take(some)
            people += np.bincount(own, self.people.take(at) * taken, minlength=number)
            if self.tree.plain is not self.tree.people:
                plain += np.bincount(own, self.plain.take(at) * taken, minlength=number)
            if lines is not None:
                share[one] = told[5]
                for total, part in zip(sums, told[:5], strict=True):
                    total += np.bincount(question.take(one), part, minlength=number)
            levels.append(_Level(question, node, share, opened))
            at = node.take(opened)
            begin = self.begin.take(at)
            if len(levels) > top:  # two children each
                pair, node = np.repeat(opened, 2), np.repeat(begin, 2)
                node[1::2] += 1
            else:
                pair, node = np.repeat(opened, self.number[at]), ranges(begin, self.number[at])
            question, areas = question.take(pair), areas.take(pair)
        for depth in range(len(levels) - 2, top - 1, -1):
            level, below = levels[depth], levels[depth + 1].share
            own, at = level.question.take(level.opened), level.node.take(level.opened)
            apart = below[::2] - below[1::2]
            level.share[level.opened] = below[1::2] + self.first_weight.take(at) * apart
            apart *= apart
            variance += np.bincount(own, self.apart.take(at) * apart, minlength=number)
        return sums, levels

    def _of_lines(self, areas: Boxes, node: Integers, tried: Integers, lines: Lines) -> tuple[Integers, Floats]:
        """Which of the pairs that are tried one side cuts; their part of the sums, and the share: float64[6, m]."""
        at = node.take(tried)
        one, axis, place, low = areas.take(tried).lines_in(self.shapes.take(at, axis=0))
        at = at.take(one)
        told = lines.below(at, axis, place)
        for part, whole in ((0, self.people.take(at)), (1, self.plain.take(at)), (5, 1.0)):
            told[part] = np.where(low, whole - told[part], told[part])
        return tried.take(one), told

    def _of_parts(self, areas: Any, leaves: Integers) -> Floats:
        """Share of one leaf each that areas take, by its parts: float64[m]."""
        number = self.number.take(leaves)
        part = ranges(self.begin.take(leaves), number)
        share = areas.take(np.repeat(np.arange(len(leaves)), number)).covered(self.parts.take(part, axis=0))
        share *= self.tree.parts.share.take(part)
        share = np.add.reduceat(share, np.cumsum(number) - number)
        return np.where(share > _WHOLE, 1.0, share)

    def _met(self, levels: list[_Level], number: int) -> Floats:
        """People of all children of the root that questions meet: float64[q]."""
        out, met = np.zeros(number), np.empty(0, dtype=bool)
        for depth in range(len(levels) - 1, -1, -1):
            question, node, share, opened = levels[depth]
            below, met = met, share > 0.0
            if depth >= self.top:
                met[opened] = below[::2] | below[1::2]
            if depth <= self.top:
                out += np.bincount(question[met], self.people[node[met]], minlength=number)
        return out

    def _of_tops(self, levels: list[_Level], number: int) -> Floats:
        """Variance by errors of the children of the root, which all of them take: float64[q]."""
        all_errors = float(self.tree.error[self.tree.first[0] : self.tree.first[1]].sum())
        if not all_errors:
            return np.zeros(number)
        square, plain, mean = np.zeros((3, number))
        for question, node, share, _ in levels:
            error = self.error[node] * share
            square += np.bincount(question, error * share, minlength=number)
            plain += np.bincount(question, error, minlength=number)
            mean += np.bincount(question, self.rest[node] * share, minlength=number)
        # The sum of error (share - mean)^2; children that are not taken err as well.
        return np.asarray(square - 2.0 * mean * plain + mean**2 * all_errors)

    def _answers(self, sums: Floats) -> CountAnswers:
        """From numbers, unbiased numbers, both variances and limits: float64[5, q]."""
        value, plain, uneven, noise, most = sums
        total, variance = float(np.rint(self.tree.total)), uneven + noise
        if self.tree.unbiased is None:
            most, noise, plain = np.minimum(most, total), np.zeros(len(value)), np.where(variance > 0, plain, value)
        else:
            most = np.full(len(value), total)
        exact = (variance == 0) & (value == plain)
        value = np.where(exact, np.rint(value), value)  # a sum of fractions is off by a rounding error
        return CountAnswers(value, np.sqrt(variance), plain=plain, most=most, noise=noise)


def _split(rows: Integers, most: int) -> list[Integers]:
    """Pieces of at most so many."""
    return [rows[start : start + most] for start in range(0, len(rows), most)]


def _shapes(tree: CountTree, lattice: Lattice) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Integers]:
    """Shapes of the parts and of all rows of the tree, and the first part of each leaf: int64[l + 1]."""
    cells = tree.parts.cells
    if tree.hierarchy.cells_are_boxes:
        parts: npt.NDArray[Any] = np.ascontiguousarray(lattice.measure(tree.hierarchy.boxes(cells)))
    else:
        parts = np.stack([np.arange(len(cells)), np.arange(1, len(cells) + 1)], axis=1)[:, :, None]
    first_part = np.searchsorted(tree.parts.piece, np.arange(len(tree.leaves) + 1))
    shapes = np.empty((len(tree), *parts.shape[1:]), dtype=parts.dtype)
    shapes[tree.leaves] = _around(parts, first_part[:-1])
    ends = [0, 1]
    while ends[-1] > ends[-2]:  # the children of consecutive rows are consecutive
        ends.append(int(tree.first[ends[-1]]))
    for begin, end in zip(ends[-3::-1], ends[-2:0:-1], strict=True):
        inner = begin + np.flatnonzero(tree.first[begin:end] < tree.first[begin + 1 : end + 1])
        if len(inner):
            children = shapes[tree.first[begin] : tree.first[end]]
            shapes[inner] = _around(children, tree.first[inner] - tree.first[begin])
    return parts, shapes, first_part


def _around(shapes: npt.NDArray[Any], starts: Integers) -> npt.NDArray[Any]:
    """The smallest shape around each run of consecutive ones."""
    lower, upper = np.minimum.reduceat(shapes[:, 0], starts), np.maximum.reduceat(shapes[:, 1], starts)
    return np.stack([lower, upper], axis=1)


@dataclass(frozen=True, eq=False)
class Lines:
    """Rows of a tree that one line cuts, tabulated for each axis: what lies below the line, by where it cuts.

    Most rows that a box cuts are cut by one of its sides alone. What they add to an answer is a function of one place
    then. Between two edges of cells the shares of all leaves are straight in the place. So people and shares are
    straight, errors are quadratic, and the answers of the walk at all edges and half way between them give the whole
    function. Rows are tabulated from the deepest upwards: a table is made of those of the row's children.
    """

    number: Integers  # int64[n], of each row that has tables; -1 for others: small rows have none
    dimensions: int
    edges: Floats  # float64[r], where cells begin and end along any axis, ascending
    keys: Integers  # int64[e], number of the row, axis and edge of each entry as one number, ascending
    # float64[e, 10]. Below the edge: people, unbiased people, variances by uneven people and by noise, the error in
    # common, and the share that the row hands up; the three errors half way to the next edge; the edge
    entries: Floats

    @staticmethod
    def of(tree: CountTree, parts: Floats, shift: int, ask: Callable[[Boxes, Integers, Lines], Floats]) -> Lines:
        """Tabulate a tree whose leaves have the ``parts`` float64[c, 2, d].

        ``shift`` is by how much rows below the root come later among those that are asked about. ``ask`` gives the
        first six numbers of an entry for boxes in one row each: float64[6, q].
        """
        dimensions, edges = parts.shape[2], np.unique(parts)
        ends = np.searchsorted(tree.lower[tree.leaves], np.stack([tree.lower, tree.upper]))
        rows = 1 + np.flatnonzero((ends[1] - ends[0] >= _FEWEST_LEAVES)[1:])
        number = np.full(len(tree), -1)
        number[rows] = np.arange(len(rows))
        home, parent = tree.leaves.copy(), tree.parent
        while len(small := np.flatnonzero((number[home] < 0) & (home > 0))):
            home[small] = parent[home[small]]
        own = number[home][tree.parts.piece]
        inside = own >= 0
        own, size = own[inside] * dimensions, len(edges)
        keys = [
            (own + axis) * size + np.searchsorted(edges, parts[inside, side, axis])
            for axis in range(dimensions)
            for side in (0, 1)
        ]
        found, above = [_distinct(keys)], number[parent[rows]]
        while len(found[-1]):  # edges inside a row are edges inside the row above
            row, rest = np.divmod(found[-1], dimensions * size)
            up = above[row]
            found.append(_distinct([(up * dimensions * size + rest)[up >= 0]]))
        every = _distinct(found)
        row, axis, entries = every // size // dimensions, every // size % dimensions, np.empty((len(every), 10))
        entries[:, 9] = edges[every % size]
        lines = Lines(np.full(shift + len(tree), -1), dimensions, edges, every, entries)

        def fill(some: slice) -> None:
            entry = np.arange(some.start, some.stop)
            place = entries[entry, 9]
            corners = np.full((2, len(entry), 2, dimensions), np.inf)
            corners[:, :, 0] = -np.inf
            half = (place + entries[np.minimum(entry + 1, len(entries) - 1), 9]) / 2.0
            corners[:, np.arange(len(entry)), 1, axis[some]] = place, half
            boxes = Boxes(corners.reshape(-1, 2, dimensions))
            told = ask(boxes, np.tile(shift + rows[row[some]], 2), lines).reshape(6, 2, -1)
            entries[some, :6], entries[some, 6:9] = told[:, 0].T, told[2:5, 1].T

        depth = tree.level[rows]
        for deep in range(int(depth.max(initial=0)), 0, -1):
            same = np.flatnonzero(depth == deep)
            if len(same):
                begin, end = np.searchsorted(row, [same[0], same[-1] + 1])
                on_all_cores(fill, [slice(at, min(at + _AT_ONCE, end)) for at in range(begin, end, _AT_ONCE)])
                lines.number[shift + rows[same]] = same
        return lines

    def has(self, rows: Integers) -> Flags:
        """Whether rows have tables."""
        return np.asarray(self.number.take(rows) >= 0)

    def below(self, rows: Integers, axis: Integers, place: Floats) -> Floats:
        """What lies below one line inside each row, as the first six numbers of an entry: float64[6, m]."""
        edge = np.searchsorted(self.edges, place, side="right")
        key = (self.number.take(rows) * self.dimensions + axis) * len(self.edges) + edge
        entry = np.searchsorted(self.keys, key) - 1
        low, high = (self.entries.take(entry + after, axis=0).T for after in (0, 1))
        part, half = ((at - low[9]) / (high[9] - low[9]) for at in (place, (low[9] + high[9]) / 2.0))
        rise = high[:6] - low[:6]
        out = low[:6] + part * rise
        bend = part * (1.0 - part) / np.maximum(half * (1.0 - half), _FLAT)  # half is off where edges almost meet
        out[2:5] += bend * (low[6:9] - (low[2:5] + half * rise[2:5]))
        return np.asarray(out)


def _distinct(numbers: list[Integers]) -> Integers:
    """All numbers once, ascending; runs of ascending ones are sorted fast."""
    joined = np.concatenate(numbers)
    joined.sort(kind="stable")
    return np.asarray(joined[np.append(True, joined[1:] != joined[:-1])[: len(joined)]])
