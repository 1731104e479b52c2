"""The whole population at once: the protocol's rounds on sorted cell codes.

Points become deepest cells once and are sorted once. A cell of the frontier is a range of the sorted codes, and a
round is a search for the children's boundaries plus one draw per cell. The few participants that a TRIM moves live in
a side array with their new codes, so nothing is sorted again.

The verdicts come from :mod:`semilocal.protocol.rule`, as they do for real devices and servers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, Integers, sort_with_order
from ..errors import InvalidInput, NoCrowdWarning
from ..hierarchy.base import ROOT, Cells
from ..protocol.keys import SECRET_BYTES, pseudonym, report_entropy
from ..protocol.moves import move_codes
from ..protocol.partition import Partition, Trims
from ..protocol.rule import Frontier, decide, first_frontier, no_frontier
from ..protocol.task import Task
from .run import LOST, Reports, Round, Run

__all__ = ["simulate"]

Detail = Literal["tallies", "reports"]


def simulate(
    points: npt.ArrayLike,
    task: Task,
    *,
    rng: np.random.Generator | None = None,
    detail: Detail = "tallies",
    dropout: float = 0.0,
    secrets: Sequence[bytes] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """Play the protocol for a whole population.

    Parameters
    ----------
    points : array_like, shape (n, d)
        One position per participant, inside the task's box.
    task : Task
    rng : numpy.random.Generator
        Source of randomness; not needed if ``secrets`` are given and nobody drops out.
    detail : {"tallies", "reports"}
        ``"tallies"`` draws each cell's sum at once, with the distribution that single reports would give;
        ``"reports"`` draws one report per participant and round.
    dropout : float
        Chance, per participant and round, of being lost for good. Independent of the position, as the promise needs.
    secrets : sequence of bytes, optional
        One secret per participant: reports are derived from them exactly as devices do (``detail="reports"`` only).
    progress : callable, optional
        Called after every round with the round and the number of cells in the next one.

    Returns
    -------
    Run

    Warns
    -----
    NoCrowdWarning
        If there are fewer than k participants in all: the only region is the whole domain, without a crowd.

    Examples
    --------
    >>> from semilocal import Box, Task
    >>> rng = np.random.default_rng(7)
    >>> task = Task.build(Box((0, 0), (1, 1)), epsilon=1.0, delta=0.01, k=50)
    >>> run = simulate(rng.random((20_000, 2)), task, rng=rng)
    >>> bool(run.partition.crowds.sum() == 20_000), run.partition.crowds.min() >= 50
    (True, np.True_)
    """
    _check_arguments(task, rng, detail, dropout, secrets)
    ranks = _Ranks.of(points, task)
    size = len(ranks.codes)
    if secrets is not None and len(secrets) != size:
        raise InvalidInput(f"secrets must be one per participant: {size}; got {len(secrets)}")
    if size < task.k:
        what = (
            "no region has a crowd" if task.rule == "each" else "the only region is the whole domain, without a crowd"
        )
        warnings.warn(f"{size} participants are fewer than k = {task.k}: {what}", NoCrowdWarning, stacklevel=2)
    play = _Play(task, ranks, rng, detail, dropout, secrets)
    while len(play.frontier.cells):
        play.round()
        if progress is not None:
            progress(len(play.rounds), len(play.frontier.cells))
    return play.finish()


@dataclass(frozen=True, eq=False)
class _Ranks:
    """Participants in the order of their deepest cells."""

    codes: Cells  # ascending
    participants: npt.NDArray[np.integer]  # who has each rank

    @staticmethod
    def of(points: npt.ArrayLike, task: Task) -> _Ranks:
        first, last = task.hierarchy.span([ROOT])
        return _Ranks(*sort_with_order(task.hierarchy.codes(points), int(first[0]), int(last[0])))


class _Play:
    """The state of a simulation between two rounds."""

    def __init__(
        self, task: Task, ranks: _Ranks, rng: np.random.Generator | None, detail: Detail, dropout: float,
        secrets: Sequence[bytes] | None,
    ) -> None:  # fmt: skip
        self.task, self.ranks, self.rng, self.detail, self.dropout = task, ranks, rng, detail, dropout
        self.secrets = secrets
        size = len(ranks.codes)
        self.rounds: list[Round] = []
        self.frontier: Frontier = first_frontier()
        self.start, self.stop = np.zeros(1, dtype=np.int64), np.full(1, size, dtype=np.int64)
        self.present: Flags | None = np.ones(size, dtype=bool) if dropout else None
        self.moves = np.zeros(size, dtype=np.int16)
        # Participants that were moved: who, their new deepest cell, and the row of the frontier they are in.
        self.side_who = np.empty(0, dtype=np.int64)
        self.side_code = np.empty(0, dtype=np.uint64)
        self.side_row = np.empty(0, dtype=np.int64)
        self.leaves: list[_Leaves] = []
        self.leaf_count = 0
        self.settled: list[tuple[Integers, Integers]] = []  # moved participants and their leaf
        self.trims: list[Trims] = []

    def round(self) -> None:
        """Ask, count, decide, and move on."""
        task, cells = self.task, self.frontier.cells
        number = len(self.rounds) + 1
        depth = number - 1
        if self.dropout:
            self._drop_out()
        roll_call = number > task.max_rounds
        if roll_call:
            bounds = np.stack([self.start, self.stop], axis=1)
            counts = self._count(bounds, np.zeros(len(self.side_row), dtype=np.int64), 1)
        else:
            bounds = self._child_bounds()
            side_child = task.hierarchy.child_of(self.side_code, depth)
            counts = self._count(bounds, side_child, task.randomizer.fanout)
        responders = counts.sum(axis=1)
        reports = self._collect(number, roll_call) if self.detail == "reports" else None
        if roll_call:
            tally = np.empty((len(cells), 0), dtype=np.int64)
            kept = np.zeros((len(cells), 0), dtype=bool)
            self.rounds.append(Round(number, cells, responders, tally, kept, reports))
            self._stop(np.arange(len(cells)), responders, np.full((len(cells), task.randomizer.fanout), np.nan))
            self._next(no_frontier(), self.start[:0], self.stop[:0])
            return
        if reports is None:
            assert self.rng is not None
            tally = task.randomizer.draw_tally(counts, self.rng)
        else:
            tally = task.randomizer.tally(reports.answers, reports.rows, len(cells))
        ruling = decide(task, self.frontier, responders, tally)
        self.rounds.append(Round(number, cells, responders, tally, ruling.kept, reports))
        kept_any, kept_all = np.any(ruling.kept, axis=1), np.all(ruling.kept, axis=1)
        if task.rule == "each":
            self._expose(bounds, counts, ruling.kept)
        else:
            stopped = np.flatnonzero(~kept_any)
            self._stop(stopped, responders[stopped], ruling.estimates[stopped])
            trimmed = np.flatnonzero(kept_any & ~kept_all)
            if len(trimmed):
                self.trims.append(
                    Trims(cells[trimmed], ruling.kept[trimmed], ruling.estimates[trimmed], responders[trimmed])
                )
                self._move_from_ranges(trimmed, bounds, ruling.kept)
                self._move_aside(depth, ruling.kept, kept_any)
        next_row = np.cumsum(ruling.kept.ravel()).reshape(ruling.kept.shape) - 1
        self.side_row = next_row[self.side_row, task.hierarchy.child_of(self.side_code, depth)]
        rows, children = np.nonzero(ruling.kept)
        self._next(ruling.frontier, bounds[rows, children], bounds[rows, children + 1])

    def finish(self) -> Run:
        """Assign every participant its region."""
        task, size = self.task, len(self.ranks.codes)
        leaves = _Leaves.join(self.leaves, task.randomizer.fanout)
        order = np.argsort(task.hierarchy.span(leaves.cells)[0])
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        by_start = order[leaves.stop[order] > leaves.start[order]]
        edges = np.stack([leaves.start[by_start], leaves.stop[by_start]], axis=1).ravel()
        lengths = np.diff(edges, prepend=0, append=size)
        labels = np.full(len(lengths), LOST, dtype=np.int32)
        labels[1::2] = place[by_start]
        by_rank = np.repeat(labels, lengths)
        if self.present is not None:
            by_rank[~self.present] = LOST
        regions = np.empty(size, dtype=np.int32)
        regions[self.ranks.participants] = by_rank
        for who, leaf in self.settled:
            regions[who] = np.where(leaf == LOST, LOST, place[leaf])
        partition = Partition(
            task, leaves.cells[order], leaves.crowds[order], leaves.estimates[order], leaves.trims[order],
            Trims.join(self.trims, task.randomizer.fanout),
        )  # fmt: skip
        run = Run(task, partition, regions, self.moves, tuple(self.rounds))
        if self.secrets is None:
            return run
        secrets = self.secrets
        return Run(task, partition, regions, self.moves, run.rounds, lambda who: pseudonym(secrets[who], task.id))

    # -- counting ------------------------------------------------------------------------------------------

    def _child_bounds(self) -> Integers:
        """Ranks where each child begins, and where the cell ends: int64[m, fanout + 1]."""
        hierarchy = self.task.hierarchy
        bounds = np.empty((len(self.start), hierarchy.fanout + 1), dtype=np.int64)
        bounds[:, 0], bounds[:, -1] = self.start, self.stop
        first = hierarchy.span(hierarchy.children(self.frontier.cells))[0].reshape(len(bounds), -1)
        inner = np.searchsorted(self.ranks.codes, first[:, 1:].ravel()).reshape(len(first), -1)
        # A trimmed path leaves gaps: its range may begin after, or end before, a child's own codes.
        bounds[:, 1:-1] = np.clip(inner, self.start[:, None], self.stop[:, None])
        return bounds

    def _count(self, bounds: Integers, side_child: Integers, width: int) -> Integers:
        if self.present is None:
            counts = np.diff(bounds, axis=1)
        else:
            running = np.concatenate([[0], np.cumsum(self.present)])
            counts = np.diff(running[bounds], axis=1)
        if len(side_child):
            counts = counts + np.bincount(self.side_row * width + side_child, minlength=counts.size).reshape(
                counts.shape
            )
        return counts

    def _collect(self, number: int, roll_call: bool) -> Reports:
        """One report per participant of the frontier."""
        task, randomizer = self.task, self.task.randomizer
        ranks = _concatenate_ranges(self.start, self.stop)
        rows = np.repeat(np.arange(len(self.start)), self.stop - self.start)
        if self.present is not None:
            rows, ranks = rows[self.present[ranks]], ranks[self.present[ranks]]
        who = np.concatenate([self.ranks.participants[ranks].astype(np.int64), self.side_who])
        rows = np.concatenate([rows, self.side_row])
        if roll_call:
            return Reports(who, rows, np.empty((len(who), 0), dtype=np.int64))
        child = task.hierarchy.child_of(np.concatenate([self.ranks.codes[ranks], self.side_code]), number - 1)
        if self.secrets is None:
            assert self.rng is not None
            return Reports(who, rows, randomizer.respond_many(child, self.rng))
        cells = self.frontier.cells[rows].tolist()
        entropy = b"".join(
            report_entropy(self.secrets[person], task.id, number, cell, randomizer.words)
            for person, cell in zip(who.tolist(), cells, strict=True)
        )
        words = np.frombuffer(entropy, dtype=">u8").astype(np.uint64).reshape(len(who), randomizer.words)
        return Reports(who, rows, randomizer.answers(child, words))

    def _drop_out(self) -> None:
        assert self.present is not None
        assert self.rng is not None
        ranks = _concatenate_ranges(self.start, self.stop)
        self.present[ranks[self.rng.random(len(ranks)) < self.dropout]] = False
        stays = self.rng.random(len(self.side_who)) >= self.dropout
        lost = self.side_who[~stays]
        self.settled.append((lost, np.full(len(lost), LOST)))
        self.side_who, self.side_code, self.side_row = (
            self.side_who[stays], self.side_code[stays], self.side_row[stays],
        )  # fmt: skip

    # -- going on ------------------------------------------------------------------------------------------

    def _next(self, frontier: Frontier, start: Integers, stop: Integers) -> None:
        self.frontier, self.start, self.stop = frontier, start, stop

    def _stop(self, rows: Integers, crowds: Integers, estimates: Floats) -> None:
        """Make rows of the frontier regions; settle the moved participants in them and take those off the side."""
        leaf_of = np.full(len(self.start), LOST, dtype=np.int64)
        leaf_of[rows] = self.leaf_count + np.arange(len(rows))
        self._add_leaves(
            _Leaves(
                self.frontier.cells[rows],
                self.start[rows],
                self.stop[rows],
                crowds,
                estimates,
                self.frontier.trims[rows],
            )
        )
        leaf = leaf_of[self.side_row]
        done = leaf != LOST
        self.settled.append((self.side_who[done], leaf[done]))
        self.side_who, self.side_code, self.side_row = (
            self.side_who[~done], self.side_code[~done], self.side_row[~done],
        )  # fmt: skip

    def _expose(self, bounds: Integers, counts: Integers, kept: Flags) -> None:
        """Rule "each": failing children are regions at once."""
        rows, children = np.nonzero(~kept)
        cells = self.task.hierarchy.child(self.frontier.cells[rows], children)
        nothing = np.full((len(rows), kept.shape[1]), np.nan)
        crowds = counts[rows, children]
        self._add_leaves(
            _Leaves(
                cells, bounds[rows, children], bounds[rows, children + 1], crowds, nothing, self.frontier.trims[rows]
            )
        )

    def _add_leaves(self, leaves: _Leaves) -> None:
        self.leaves.append(leaves)
        self.leaf_count += len(leaves.cells)

    def _move_from_ranges(self, trimmed: Integers, bounds: Integers, kept: Flags) -> None:
        """Take everybody in a trimmed child out of the ranges, to the side."""
        local, children = np.nonzero(~kept[trimmed])
        rows = trimmed[local]
        first, last = bounds[rows, children], bounds[rows, children + 1]
        ranks = _concatenate_ranges(first, last)
        rows = np.repeat(rows, last - first)
        if self.present is not None:
            rows, ranks = rows[self.present[ranks]], ranks[self.present[ranks]]
        who = self.ranks.participants[ranks].astype(np.int64)
        codes = move_codes(self.task, self.ranks.codes[ranks], self.frontier.cells[rows], kept[rows])
        self.moves[who] += 1
        self.side_who = np.concatenate([self.side_who, who])
        self.side_code = np.concatenate([self.side_code, codes])
        self.side_row = np.concatenate([self.side_row, rows])

    def _move_aside(self, depth: int, kept: Flags, kept_any: Flags) -> None:
        """Move those again who were on the side already and are in a trimmed child."""
        child = self.task.hierarchy.child_of(self.side_code, depth)
        again = np.flatnonzero(~kept[self.side_row, child] & kept_any[self.side_row])
        rows = self.side_row[again]
        self.side_code[again] = move_codes(self.task, self.side_code[again], self.frontier.cells[rows], kept[rows])
        self.moves[self.side_who[again]] += 1


@dataclass(frozen=True, eq=False)
class _Leaves:
    """Regions as they are found."""

    cells: Cells
    start: Integers
    stop: Integers
    crowds: Integers
    estimates: Floats
    trims: Integers

    @staticmethod
    def join(parts: list[_Leaves], fanout: int) -> _Leaves:
        return _Leaves(
            np.concatenate([part.cells for part in parts]),
            np.concatenate([part.start for part in parts]),
            np.concatenate([part.stop for part in parts]),
            np.concatenate([part.crowds for part in parts]),
            np.concatenate([part.estimates for part in parts]).reshape(-1, fanout),
            np.concatenate([part.trims for part in parts]),
        )


def _concatenate_ranges(start: Integers, stop: Integers) -> Integers:
    """start[0] … stop[0] - 1, start[1] … stop[1] - 1, and so on."""
    lengths = stop - start
    offsets = np.cumsum(lengths) - lengths
    return np.repeat(start - offsets, lengths) + np.arange(int(lengths.sum()))


def _check_arguments(
    task: Task, rng: np.random.Generator | None, detail: str, dropout: float, secrets: Sequence[bytes] | None
) -> None:
    if detail not in ("tallies", "reports"):
        raise InvalidInput(f"detail must be 'tallies' or 'reports'; got {detail!r}")
    if not isinstance(task, Task):
        raise InvalidInput(f"task must be a semilocal.Task, such as Task.build(box, …); got {task!r}")
    if not isinstance(dropout, int | float) or not 0.0 <= dropout < 1.0:
        raise InvalidInput(f"dropout must be a share from 0 to below 1; got {dropout!r}")
    if secrets is not None and detail != "reports":
        raise InvalidInput("secrets derive single reports: use detail='reports'")
    if secrets is not None and any(len(secret) != SECRET_BYTES for secret in secrets):
        raise InvalidInput(f"every secret must be {SECRET_BYTES} bytes")
    if rng is None and (secrets is None or dropout):
        raise InvalidInput("rng is needed: pass numpy.random.default_rng(seed)")
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise InvalidInput(f"rng must be a numpy.random.Generator; got {rng!r}")
