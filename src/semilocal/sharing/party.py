"""One of the two servers, from the accepted reports to the final counts. Leader and helper run the same machine.

    stage      what the server does                                     what it needs to go on
    checking   ``verify_init``: what must agree with the other server   ``verify_next``: the reports that do not agree
    sharing    ``aggregate``: its noisy share of every opened cell's    ``publish``: both shares put together
               number                                                   (``unshard``)
    ...        one level deeper, as the public rule says, until no cell is opened
    counting   ``aggregate``: its noisy share of every final count      ``publish``
               and, if the task asks for a value, of every final sum
    done       ``published``: the transcript, the same on both servers

Rules that are never broken: nothing leaves before the set of rejected reports of the level is fixed, and a level is
fixed once. Noise is derived from the server's secret, the task, the level, the cell and the accepted set: a retry
repeats it, and another set gets other noise. What is published is ``share(server 0) - share(server 1)``, modulo 2^64.

Knows shares, the rule and noise. Knows no peer, HTTP, clock, file or random generator.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from ..arrays import exact
from ..errors import InvalidInput
from ..hierarchy import Cells
from ..pooled.asked import AskedValue
from ..pooled.noise import Words, draw, from_secret
from ..pooled.play import Published
from ..pooled.rule import Level, next_level, root_level
from ..pooled.task import PooledTask
from ..pooled.values import sum_noise, sum_rate
from .verify import LevelShare

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Stage = Literal["checking", "sharing", "counting", "done"]
_SURE = 45.0  # honest numbers are refused with a chance of e^-45
_CELLS = (4.0, 64.0)  # most opened cells of a level: per crowd of the threshold's size, and beside these


class Evaluator(Protocol):
    """One server's reports, wherever they are evaluated; :class:`~semilocal.sharing.verify.Half` is one."""

    @property
    def accepted(self) -> Flags: ...
    @property
    def value_digests(self) -> npt.NDArray[np.uint8]: ...
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
    """One server of a pair: ascending report ids, the same on both, and its half of these reports in the same order."""

    def __init__(
        self, task: PooledTask, server: int, secret: bytes, ids: Sequence[bytes], evaluator: Evaluator,
        asked: AskedValue | None = None,
    ) -> None:  # fmt: skip
        if task.trust != "two-servers":
            raise InvalidInput(f"a pair plays tasks with trust 'two-servers'; got {task.trust!r}")
        if list(ids) != sorted(set(ids)) or len(ids) != len(evaluator.accepted):
            raise InvalidInput("report ids must be ascending, different, and one per report")
        self.task, self.server, self.asked = task, server, asked
        self._secret, self._ids, self._evaluator = secret, tuple(ids), evaluator
        self.stage: Stage = "checking"
        self.levels: list[Level] = []
        self.people = 0
        self._differences: list[Integers] = []
        self._found: LevelShare | None = None
        # Per depth the unsigned sums uint64[m, w] of the level's cells. A report that is rejected later was worth
        # nothing in a cell that was not opened (it would have no opened cell to fail in): these sums stay as they are.
        self._sums: list[npt.NDArray[np.uint64]] = []
        self._final_numbers: Integers | None = None
        self._own: Integers | None = None  # this stage's share, once it was asked for
        self._digest: bytes | None = None  # of the reports that count, once it was asked for

    @property
    def depth(self) -> int:
        """The level that is being checked or shared."""
        return len(self._differences)

    @property
    def counts(self) -> Flags:
        """Which reports count now: bool[n]."""
        return self._evaluator.accepted

    @property
    def accepted(self) -> bytes:
        """Digest of the reports that count now."""
        if self._digest is None:
            self._digest = accepted_digest(list(itertools.compress(self._ids, self.counts.tolist())))
        return self._digest

    def verify_init(self) -> npt.NDArray[np.uint8]:
        """What must be equal on both servers, one row per report: uint8[n, b]."""
        self._expect("checking")
        found = self._expanded()
        return found.tags if self.depth else np.concatenate([self._evaluator.value_digests, found.tags], axis=1)

    def verify_next(self, rejected: Flags) -> None:
        """Fix which reports count at this level, without those whose tags differ; there is no second time."""
        self._expect("checking")
        found, depth = self._expanded(), self.depth
        new = rejected & self._evaluator.accepted
        sums = found.sums
        if new.any():
            sums = sums - self._evaluator.sums_of(new)
            self._evaluator.verify_next(new)
            self._digest = None
        if depth == 0:
            self.people = int(np.count_nonzero(self._evaluator.accepted))
            self.levels.append(root_level(self.task, self.people))
            # Of the root: the number is public; the value is that of both children, for every report that counts.
            root = sums.sum(axis=0, dtype=np.uint64)
            root[0] = self.people if self.server == 0 else 0
            self._sums.append(root[None])
            if not self.levels[0].opened.any():
                self.stage = "counting"
                return
        self._sums.append(sums)
        self.stage = "sharing"

    def aggregate(self) -> Integers:
        """This server's noisy share: int64[m], of the opened cells' differences, or of the final counts and sums."""
        if self._own is None:
            self._own = self._aggregate()
        return self._own

    def _aggregate(self) -> Integers:
        if self.stage == "sharing":
            level = self.levels[-1]
            sums = self._sums[-1][:, 0]
            cells, units = level.cells[level.opened], level.price[level.opened]
            return self._noisy("difference", sums[0::2] - sums[1::2], cells, units)
        self._expect("counting")
        cells, units, shares = self._final()
        counts = self._noisy("count", shares[:, 0], cells, units)
        return counts if self.asked is None else np.concatenate([counts, self._value_sums(self.asked, cells, shares)])

    def _value_sums(self, asked: AskedValue, cells: Cells, shares: npt.NDArray[np.uint64]) -> Integers:
        """Noisy share of the sum of 2 y - lower - upper in each final cell: int64[m]."""
        grid = asked.grid(self.task.hierarchy.boxes(cells))
        both = grid.limits.sum(axis=1).astype(np.uint64)
        noise = derived_sum_noise(self._secret, self.task, self.depth, self.accepted, cells, grid.widths)
        centred = np.uint64(2) * shares[:, 1] - both * shares[:, 0]
        return np.asarray((centred + noise.astype(np.uint64)).astype(np.int64))

    def check(self, numbers: Integers) -> None:
        """Refuse numbers that no honest servers publish at this stage: too large together, or for too many cells."""
        task, people = self.task, self.people
        if self.stage == "sharing":
            level = self.levels[-1]
            check_together(numbers, 1 / (level.price[level.opened] * float(task.unit)), task.noises, people)
            opened, most = int(np.count_nonzero(next_level(task, level, numbers).opened)), _CELLS
            if opened > most[0] * people / task.threshold + most[1]:
                raise InvalidInput(f"they open {opened} cells, more than {people} reports ever do")
            return
        cells, units, _ = self._final()
        counts, sums = split_final(numbers, self.asked)
        check_together(counts, 1 / (units * float(task.unit)), task.noises, people)
        if self.asked is not None and sums is not None:
            widths = self.asked.grid(task.hierarchy.boxes(cells)).widths
            scales = widths / float(sum_rate(exact(task.epsilon), 1, task.max_reports))
            check_together(sums, scales, task.noises, 2 * self.asked.steps * people)

    def publish(self, numbers: Integers) -> None:
        """Take the numbers that both shares give together, and go one level down or end."""
        self._own = None
        if self.stage == "counting":
            due = len(self._final()[0]) * (1 if self.asked is None else 2)
            if numbers.shape != (due,):
                raise InvalidInput(f"there are {due} final numbers; got {len(numbers)}")
            self._final_numbers, self.stage = numbers, "done"
            return
        self._expect("sharing")
        level = self.levels[-1]
        below = next_level(self.task, level, numbers)
        self._differences.append(numbers)
        self.levels.append(below)
        rows = np.flatnonzero(below.opened)
        if not len(rows):
            self.stage = "counting"
            return
        self._evaluator.open(rows)
        self._found, self.stage = None, "checking"

    def published(self) -> Published:
        """The transcript."""
        self._expect("done")
        assert self._final_numbers is not None
        cells, _, _ = self._final()
        counts, value_sums = split_final(self._final_numbers, self.asked)
        opened = tuple(level.cells[level.opened] for level in self.levels if level.opened.any())
        return Published(self.task, self.people, opened, tuple(self._differences), cells, counts, sums=value_sums)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _expect(self, stage: Stage) -> None:
        if self.stage != stage:
            raise InvalidInput(f"this server is {self.stage}, not {stage}")

    def _expanded(self) -> LevelShare:
        if self._found is None:
            self._found = self._evaluator.verify_init()
        return self._found

    def _noisy(
        self, what: Literal["difference", "count"], shares: npt.NDArray[np.uint64], cells: Cells, units: Integers
    ) -> Integers:
        noise = derived_noise(self._secret, self.task, what, self.depth, self.accepted, cells, units)
        return (shares + noise.astype(np.uint64)).astype(np.int64)

    def _final(self) -> tuple[Cells, Integers, npt.NDArray[np.uint64]]:
        """Final cells in the order of the domain, the units left for them, and the exact share of their sums [m, w]."""
        cells = np.concatenate([level.cells[~level.opened] for level in self.levels])
        units = np.concatenate([level.left[~level.opened] for level in self.levels])
        shares = np.concatenate([sums[~level.opened] for level, sums in zip(self.levels, self._sums, strict=True)])
        order = np.argsort(self.task.hierarchy.span(cells)[0])
        return cells[order], units[order], shares[order]
