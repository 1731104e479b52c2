"""One of the two servers and one tree, from the accepted reports to the final counts. Leader and helper run the same.

When what is due is for :mod:`.machine` to say. Rules that are never broken: nothing leaves before the set of rejected
reports of the level is fixed, and a level is fixed once. Noise is derived from the server's secret, the task, the
level, the cell and the accepted set: a retry repeats it, and another set gets other noise. What is published is
``share(server 0) - share(server 1)``, modulo 2^64.

Knows shares, the rule and noise. Knows no peer, HTTP, clock, file or random generator.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Integers, exact
from ..errors import InvalidInput
from ..hierarchy import Cells
from ..pooled.asked import AskedValue
from ..pooled.noise import Words, draw, from_secret
from ..pooled.play import Level, Published, next_level, root_level
from ..pooled.task import PooledTask
from ..pooled.values import sum_noise, sum_rate
from .verify import LevelShare, Tags

_SURE = 45.0  # honest numbers are refused with a chance of e^-45
_CELLS = (4.0, 64.0)  # most opened cells of a level: per crowd of the threshold's size, and beside these


class Evaluator(Protocol):
    """One server's reports, wherever they are evaluated; :class:`~semilocal.sharing.verify.Half` is one."""

    def verify_init(self) -> LevelShare: ...
    def sums_of(self, reports: Flags) -> npt.NDArray[np.uint64]: ...
    def verify_next(self, rejected: Flags) -> None: ...
    def open(self, rows: Integers) -> None: ...


def accepted_digest(ids: Sequence[bytes]) -> bytes:
    """SHA-256 of the sorted ids of the accepted reports."""
    return hashlib.sha256(b"".join(sorted(ids))).digest()


def derived_noise(
    secret: bytes, task: PooledTask, what: Literal["difference", "count"], depth: int, accepted: bytes, cells: Cells,
    units: Integers,
) -> Integers:  # fmt: skip
    """A server's noise: int64[m]. The same arguments give the same numbers.

    ``accepted`` is the digest of the set that the numbers are about; ``units`` are of the path's budget.
    """
    return draw(task.unit, units, _words(secret, task, what, depth, accepted, cells))


def derived_sum_noise(
    secret: bytes, task: PooledTask, depth: int, accepted: bytes, cells: Cells, widths: Integers
) -> Integers:
    """A server's noise for the sums of a value, int64[m], by the width of each cell's grid.

    The loss of all of them together is the task's epsilon.
    """
    words = _words(secret, task, "value", depth, accepted, cells)
    return sum_noise(widths, exact(task.epsilon), task.max_reports, words)


def _words(secret: bytes, task: PooledTask, what: str, depth: int, accepted: bytes, cells: Cells) -> Words:
    context = task.id + what.encode().ljust(16, b"\0") + depth.to_bytes(4, "big") + accepted
    return from_secret(secret, context, cells)


def split_final(numbers: Integers, asked: AskedValue | None) -> tuple[Integers, Integers | None]:
    """Final counts and final sums of what both servers exchange at the end; no sums if no value is asked."""
    if asked is None:
        return numbers, None
    half = len(numbers) // 2
    return numbers[:half], numbers[half:]


def unshard(first: Integers, second: Integers) -> Integers:
    """The published numbers from server 0's and server 1's shares: int64[m]."""
    if first.shape != second.shape:
        raise InvalidInput(f"shares must have the same length; got {len(first)} and {len(second)}")
    return (first.astype(np.uint64) - second.astype(np.uint64)).astype(np.int64)


def check_together(numbers: Integers, scales: npt.NDArray[np.float64], noises: int, most: int) -> None:
    """Refuse noisy numbers of disjoint cells that no people and noise give, but for a chance of ``e^-45``.

    Without noise their absolute values add up to ``most`` at most. Those of discrete Laplace noise of scales b_i add up
    to more than ``2 ln 2 sum(b_i) + 2 max(b_i) t`` with a chance of ``e^-t`` (Chernoff's bound at 1 / (2 max(b_i))).
    Each number has ``noises`` draws of its scale.
    """
    if not len(numbers):
        return
    limit = most + 2 * math.log(2) * noises * scales.sum() + 2 * _SURE * scales.max()
    found = np.abs(numbers.astype(np.float64)).sum()
    if found > limit:
        raise InvalidInput(f"those of {len(numbers)} cells add up to {found:.4g}, more than {limit:.4g}")


class Party:
    """One server's part in one tree.

    ``ids`` are of its reports, ascending, the same on both servers; ``half`` evaluates this server's half of them, in
    the same order. A tree without a half is one whose numbers are stored: it follows them, and has no shares.
    """

    def __init__(
        self, task: PooledTask, server: int, secret: bytes, ids: Sequence[bytes],
        half: Callable[[], Evaluator] | None, asked: AskedValue | None = None, *, bucket: int = 1,
    ) -> None:  # fmt: skip
        self.task, self.server, self.ids, self.asked, self.bucket = task, server, ids, asked, bucket
        self._secret, self._make = secret, half
        self.counts: Flags = np.ones(len(ids), dtype=bool)  # which reports count now
        self.is_fixed = False  # whether that is fixed for this level
        self.rejected: list[int] = []  # reports, per level that is fixed
        self.levels: list[Level] = []
        self.people = 0
        self._differences: list[Integers] = []
        self._found: LevelShare | None = None
        # Per depth the unsigned sums uint64[m, w] of the level's cells. A report that is rejected later was worth
        # nothing in a cell that was not opened (it would have no opened cell to fail in): these sums stay as they are.
        self._sums: list[npt.NDArray[np.uint64]] = []
        self._own: Integers | None = None  # this level's share, once it was asked for
        self._digest: bytes | None = None  # of the reports that count, once it was asked for

    @property
    def is_known(self) -> bool:
        """Whether its numbers are stored."""
        return self._make is None

    @property
    def depth(self) -> int:
        """The level that is being checked or shared."""
        return len(self._differences)

    @property
    def opened(self) -> int:
        """How many cells of the level are opened; 0 when only final counts are left."""
        return int(np.count_nonzero(self.levels[-1].opened))

    @property
    def finals(self) -> int:
        """How many final numbers there are."""
        return len(self._final[0]) * (1 if self.asked is None else 2)

    @property
    def accepted(self) -> bytes:
        """Digest of the reports that count now."""
        if self._digest is None:
            self._digest = accepted_digest(list(itertools.compress(self.ids, self.counts.tolist())))
        return self._digest

    def verify_init(self) -> Tags:
        """Tags of the level: uint8[n, b]. Reports that were rejected before have zeros: they are not named again."""
        tags = self._expanded().tags
        return tags if self.counts.all() else np.where(self.counts[:, None], tags, np.uint8(0))

    def verify_next(self, rejected: Flags) -> None:
        """Fix which reports count at this level, without those whose tags differ; there is no second time."""
        if self.is_fixed:
            raise InvalidInput("which reports count at this level is fixed")
        new = rejected & self.counts
        sums = None if self.is_known else self._expanded().sums
        if new.any():
            self.counts, self._digest = self.counts & ~new, None
            if sums is not None:
                sums = sums - self._half.sums_of(new)
                self._half.verify_next(new)
        self.rejected.append(int(np.count_nonzero(new)))
        if not self.levels:
            self.people = int(np.count_nonzero(self.counts))
            self.levels.append(root_level(self.task, self.people))
            if sums is not None:
                # Of the root: the number is public; the value is that of both children, for every report that counts.
                root = sums.sum(axis=0, dtype=np.uint64)
                root[0] = self.people if self.server == 0 else 0
                self._sums.append(root[None])
        if sums is not None and self.opened:
            self._sums.append(sums)
        self.is_fixed = True

    def aggregate(self) -> Integers:
        """This server's noisy share of the opened cells' differences: int64[m]; none if the root is final."""
        self._expect_fixed()
        if self._own is None and self.opened:
            level, sums = self.levels[-1], self._sums[-1][:, 0]
            cells, units = level.cells[level.opened], level.price[level.opened]
            self._own = self._noisy("difference", sums[0::2] - sums[1::2], cells, units)
        return np.empty(0, dtype=np.int64) if self._own is None else self._own

    def publish(self, numbers: Integers) -> None:
        """Take the differences that both shares give together, and go one level down."""
        self._expect_fixed()
        below = next_level(self.task, self.levels[-1], numbers)
        self._differences.append(numbers)
        self.levels.append(below)
        self._own, self._found = None, None
        rows = np.flatnonzero(below.opened)
        if len(rows):
            self.is_fixed = False
            if not self.is_known:
                self._half.open(rows)

    def aggregate_final(self) -> Integers:
        """This server's noisy share of the final counts, then of the final sums: int64[m]."""
        self._expect_fixed()
        if self._own is None:
            cells, units, order = self._final
            shares = np.concatenate([sums[~level.opened] for level, sums in zip(self.levels, self._sums, strict=True)])
            shares = shares[order]
            self._own = self._noisy("count", shares[:, 0], cells, units)
            if self.asked is not None:
                self._own = np.concatenate([self._own, self._value_sums(self.asked, cells, shares)])
        return self._own

    def finish(self, numbers: Integers) -> Published:
        """The transcript, from the final numbers that both shares give together."""
        if len(numbers) != self.finals:
            raise InvalidInput(f"there are {self.finals} final numbers; got {len(numbers)}")
        counts, value_sums = split_final(numbers, self.asked)
        opened = tuple(level.cells[level.opened] for level in self.levels if level.opened.any())
        differences = tuple(self._differences)
        return Published(self.task, self.people, opened, differences, self._final[0], counts, sums=value_sums)

    def check(self, numbers: Integers) -> None:
        """Refuse numbers that no honest servers publish now: too large together, or for too many cells."""
        task, people = self.task, self.people
        if self.opened:
            level = self.levels[-1]
            check_together(numbers, 1 / (level.price[level.opened] * float(task.unit)), task.noises, people)
            opened, most = int(np.count_nonzero(next_level(task, level, numbers).opened)), _CELLS
            if opened > most[0] * people / task.threshold + most[1]:
                raise InvalidInput(f"they open {opened} cells, more than {people} reports ever do")
            return
        cells, units, _ = self._final
        counts, sums = split_final(numbers, self.asked)
        check_together(counts, 1 / (units * float(task.unit)), task.noises, people)
        if self.asked is not None and sums is not None:
            widths = self.asked.grid(task.hierarchy.boxes(cells)).widths
            scales = widths / float(sum_rate(exact(task.epsilon), 1, task.max_reports))
            check_together(sums, scales, task.noises, 2 * self.asked.steps * people)

    # -- inside ----------------------------------------------------------------------------------------------------

    @cached_property
    def _half(self) -> Evaluator:
        assert self._make is not None, "a tree whose numbers are stored has no shares"
        return self._make()

    def _expect_fixed(self) -> None:
        if not self.is_fixed:
            raise InvalidInput("nothing leaves before it is fixed which reports count at this level")

    def _expanded(self) -> LevelShare:
        if self._found is None:
            self._found = self._half.verify_init()
        return self._found

    def _noisy(
        self, what: Literal["difference", "count"], shares: npt.NDArray[np.uint64], cells: Cells, units: Integers
    ) -> Integers:
        noise = derived_noise(self._secret, self.task, what, self.depth, self.accepted, cells, units)
        return (shares + noise.astype(np.uint64)).astype(np.int64)

    def _value_sums(self, asked: AskedValue, cells: Cells, shares: npt.NDArray[np.uint64]) -> Integers:
        """Noisy share of the sum of 2 y - lower - upper in each final cell: int64[m]."""
        grid = asked.grid(self.task.hierarchy.boxes(cells))
        both = grid.limits.sum(axis=1).astype(np.uint64)
        noise = derived_sum_noise(self._secret, self.task, self.depth, self.accepted, cells, grid.widths)
        centred = np.uint64(2) * shares[:, 1] - both * shares[:, 0]
        return np.asarray((centred + noise.astype(np.uint64)).astype(np.int64))

    @property
    def _final(self) -> tuple[Cells, Integers, Integers]:
        """Final cells in the order of the domain, the units left for them, and their places level by level."""
        cells = np.concatenate([level.cells[~level.opened] for level in self.levels])
        units = np.concatenate([level.left[~level.opened] for level in self.levels])
        order = np.argsort(self.task.hierarchy.span(cells)[0])
        return cells[order], units[order], order
