"""A whole crowd plays the local protocol at once: people are ranks in the order of codes, answers are drawn in bulk.

A region is a range of ranks, so a cut is one search, and who is at or above it is a comparison. What the protocol needs
to know of a person is how many answers it has inside its region: one small number each. Answers are kept question by
question, ordered by rank, so that the answers of a region's present members are one range of each question.

Every region plays its next question in the same step, whatever round it is in; rounds are counted per region. What is
asked, how many, and what the answers mean is decided in :mod:`semilocal.protocol.rule`, as for devices. Draws come from
a generator, so this is for simulation only. The order of draws depends on counts alone: sorted codes and a histogram
give the same result.

Knows ranks and answers. Knows no positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Integers
from ..hierarchy.base import Cells
from ..hierarchy.ranks import Ranks
from ..protocol.estimate import Walls
from ..protocol.rule import ROUNDS_OF_A_QUESTION, Asking, Census, go_on, questions, randomizer_for, refinements, splits
from ..protocol.task import Task

__all__ = ["Played", "Splits", "concatenate_ranges", "play"]

_ONE_BY_ONE = 64  # regions: so few are drawn from one after the other
_RANK_BITS = np.uint64(40)
_LOW = (1 << 40) - 1


class Splits(NamedTuple):
    """Every split of a run, in the order of rounds.

    Attributes
    ----------
    rounds : int64[s]
        The round that closed with it.
    lower, cut, upper : uint64[s]
        The region, and where it was cut; with rule "all" one row per cut.
    """

    rounds: Integers
    lower: Cells
    cut: Cells
    upper: Cells


@dataclass(frozen=True, eq=False)
class Played:
    """What came out: the regions in their order, with the ranks of their people and the answers about walls.

    Attributes
    ----------
    lower, upper : uint64[m]
    start, stop : int64[m]
        Ranks of the members: start to before stop.
    walls : Walls
    splits : Splits
    rounds : int
    answers, announcements : int
        Reports of all people with an answer, and without one.
    """

    lower: Cells
    upper: Cells
    start: Integers
    stop: Integers
    walls: Walls
    splits: Splits
    rounds: int
    answers: int
    announcements: int


class _Answers:
    """Answers question by question: a growing list of (question, rank, yes), ordered by question and rank."""

    def __init__(self) -> None:
        self.count = 0
        self._keys = np.empty(1 << 12, dtype=np.uint64)  # question, then rank
        self._yes = np.zeros((1 << 12) + 1, dtype=np.int64)  # how many said yes before each answer
        self.cuts = np.empty(0, dtype=np.uint64)

    def add(self, cuts: Cells, question: Integers, ranks: Integers, yes: Flags) -> tuple[Integers, Integers]:
        """New questions with these cuts; who answered which of them (from 0) and what. Ranges of their answers."""
        number = (question + len(self.cuts)).astype(np.uint64)
        keys = (((number << _RANK_BITS) | ranks.astype(np.uint64)) << np.uint64(1)) | yes
        keys.sort()
        self._reserve(len(keys))
        end = self.count + len(keys)
        self._keys[self.count : end] = keys >> np.uint64(1)
        np.cumsum(keys & np.uint64(1), out=self._yes[self.count + 1 : end + 1])
        self._yes[self.count + 1 : end + 1] += self._yes[self.count]
        counts = np.bincount(question, minlength=len(cuts))
        last = self.count + np.cumsum(counts)
        self.count, self.cuts = end, np.concatenate([self.cuts, cuts])
        return last - counts, last

    def _reserve(self, more: int) -> None:
        size = len(self._keys)
        while size < self.count + more:
            size *= 2
        if size > len(self._keys):
            keys, yes = np.empty(size, dtype=np.uint64), np.empty(size + 1, dtype=np.int64)
            keys[: self.count], yes[: self.count + 1] = self._keys[: self.count], self._yes[: self.count + 1]
            self._keys, self._yes = keys, yes

    def before(self, question: Integers, rank: Integers) -> Integers:
        """The place of the first answer to a question by this rank or a later one: int64[w]."""
        wanted = (question.astype(np.uint64) << _RANK_BITS) | rank.astype(np.uint64)
        return np.searchsorted(self._keys[: self.count], wanted)

    def yes(self, first: Integers, last: Integers) -> Integers:
        """How many of the answers first to before last say yes."""
        return self._yes[last] - self._yes[first]

    def who(self, first: Integers, last: Integers) -> Integers:
        """The ranks that gave the answers in these ranges, one range after the other."""
        places = concatenate_ranges(first, last)
        return (self._keys[places] & np.uint64(_LOW)).astype(np.int64)


class _Open(NamedTuple):
    """Regions in play, in their order, and the questions that left walls in them."""

    lower: Cells
    upper: Cells
    start: Integers
    stop: Integers
    clock: Integers  # the last round that was played there
    ended: Flags
    wall_region: Integers  # row of the region, ascending
    wall_question: Integers
    wall_first: Integers  # answers of present members: first to before last
    wall_last: Integers
    wall_decides: Flags  # whether it counts in w

    def pick(self, chosen: Integers) -> _Open:
        """Some of the regions, in any order, with their walls."""
        new = np.full(len(self.lower), -1)
        new[chosen] = np.arange(len(chosen))
        own = np.flatnonzero(new[self.wall_region] >= 0)
        own = own[np.argsort(new[self.wall_region[own]], kind="stable")]
        return _Open(
            self.lower[chosen], self.upper[chosen], self.start[chosen], self.stop[chosen], self.clock[chosen],
            self.ended[chosen], new[self.wall_region[own]], self.wall_question[own], self.wall_first[own],
            self.wall_last[own], self.wall_decides[own],
        )  # fmt: skip


def play(
    task: Task, ranks: Ranks, rng: np.random.Generator, *, progress: Callable[[int, int], None] | None = None
) -> Played:
    """Play the protocol for everybody.

    Parameters
    ----------
    task : Task
    ranks : Ranks
    rng : numpy.random.Generator
    progress : callable, optional
        Called after every step with its number and the regions in play.
    """
    return _Play(task, ranks, rng).play(progress)


class _Play:
    def __init__(self, task: Task, ranks: Ranks, rng: np.random.Generator) -> None:
        self.task, self.ranks, self.rng = task, ranks, rng
        self.people = len(ranks)
        self.busy = np.zeros(self.people, dtype=np.uint8)  # answers inside one's region
        self.answers = _Answers()
        self.done: list[_Open] = []
        self.splits: list[Splits] = []
        self.rounds, self.given, self.announced = 1, 0, self.people

    def play(self, progress: Callable[[int, int], None] | None) -> Played:
        lower, upper = (np.array([end], dtype=np.uint64) for end in self.task.hierarchy.ends)
        none, empty = np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
        regions = _Open(
            lower, upper, np.zeros(1, dtype=np.int64), np.array([self.people]), np.ones(1, dtype=np.int64),
            np.zeros(1, dtype=bool), none, none, none, none, empty,
        )  # fmt: skip
        step = 0
        ask = self._cut if self.task.rule == "cut" else self._all
        while len(regions.lower):
            regions = ask(regions)
            step += 1
            if progress is not None:
                progress(step, len(regions.lower))
        return self._result()

    # -- rule "cut" ------------------------------------------------------------------------------------------------

    def _cut(self, regions: _Open) -> _Open:
        """One question in every region; the regions of the next step."""
        free = np.flatnonzero(self.busy < self.task.answers)
        first = np.searchsorted(free, regions.start)
        askable = np.searchsorted(free, regions.stop) - first
        census = self._census(regions, askable)
        left = self.task.max_rounds - regions.clock
        may_decide = ~regions.ended & (left >= ROUNDS_OF_A_QUESTION)
        deciding, refining = np.flatnonzero(may_decide), np.flatnonzero(regions.ended)
        asking = questions(self.task, census.rows(deciding))
        chosen = deciding[asking.rows]
        ended = np.ones(len(regions.lower), dtype=bool)
        ended[chosen] = False
        newly = np.flatnonzero(ended & ~regions.ended)
        # A region that ends now is refined at once: nothing was asked of it in this step.
        candidates = np.sort(np.concatenate([refining, newly]))
        self._finish(regions.pick(candidates[left[candidates] < 1]))
        candidates = candidates[left[candidates] >= 1]
        more = refinements(self.task, census.rows(candidates))
        refined = candidates[more.rows]
        self._finish(regions.pick(np.setdiff1d(candidates, refined, assume_unique=True)))
        rows = np.concatenate([chosen, refined])
        return self._answer(regions, ended, asking.with_others(rows, more), free, first, askable)

    def _census(self, regions: _Open, askable: Integers) -> Census:
        count = len(regions.lower)
        failed = np.bincount(regions.wall_region[regions.wall_decides], minlength=count)
        walls = self._walls(regions)
        return Census(regions.lower, regions.upper, regions.stop - regions.start, askable, failed, walls)

    def _walls(self, regions: _Open) -> Walls:
        """Answers of present members, those about equal cuts together."""
        cuts = self.answers.cuts[regions.wall_question]
        order = np.lexsort((cuts, regions.wall_region))
        region, cuts = regions.wall_region[order], cuts[order]
        asked = (regions.wall_last - regions.wall_first)[order]
        yes = self.answers.yes(regions.wall_first, regions.wall_last)[order]
        some = np.flatnonzero(asked > 0)
        region, cuts, asked, yes = region[some], cuts[some], asked[some], yes[some]
        new = np.ones(len(cuts), dtype=bool)
        new[1:] = (region[1:] != region[:-1]) | (cuts[1:] != cuts[:-1])
        begin = np.flatnonzero(new)
        if len(begin) < len(cuts):
            asked, yes = np.add.reduceat(asked, begin), np.add.reduceat(yes, begin)
            region, cuts = region[begin], cuts[begin]
        first = np.searchsorted(region, np.arange(len(regions.lower) + 1))
        return Walls(first, cuts, asked, yes)

    def _answer(
        self, regions: _Open, ended: Flags, asking: Asking, free: Integers, first: Integers, askable: Integers
    ) -> _Open:
        """Draw who is asked, let them answer, judge, and make the next regions."""
        rows = asking.rows
        if not len(rows):
            return regions.pick(rows)
        cuts = asking.cuts[:, 0]
        middle = self.ranks.below(cuts)
        who = self._draw(free, first[rows], askable[rows], asking.asked)
        place = np.repeat(np.arange(len(rows)), asking.asked)
        yes = (who >= middle[place]) ^ (self.rng.random(len(who)) >= self.task.truth)
        last = np.cumsum(asking.asked)
        begin = last - asking.asked
        said = np.concatenate([[0], np.cumsum(yes)])
        decides = asking.threshold > 0
        portions = asking.portion < asking.asked
        go = np.ones(len(rows), dtype=bool)
        early = said[begin + asking.portion] - said[begin]
        two = np.flatnonzero(portions)
        go[two] = go_on(self.task, asking.pick(two), asking.portion[two], early[two])
        total = np.where(go, asking.asked, asking.portion)
        right = said[begin + total] - said[begin]
        split = go & splits(np.stack([total - right, right], axis=1), asking.threshold)
        clock = regions.clock[rows] + 1 + (portions & go)
        self.given += int(total.sum())
        # Answers that left a wall are kept, and count in their people's books.
        kept = (np.arange(len(who)) < np.repeat(begin + total, asking.asked)) & ~split[place]
        walls = np.flatnonzero(~split)
        number = np.cumsum(~split) - 1
        self.busy[who[kept]] += 1
        old = len(self.answers.cuts)
        low, high = self.answers.add(cuts[walls], number[place[kept]], who[kept], yes[kept])
        ends = regions.ended.copy()
        ends[rows] = ended[rows]
        clocks = regions.clock.copy()
        clocks[rows] = clock
        regions = regions._replace(ended=ends, clock=clocks)
        return self._next(regions, rows, cuts, middle, split, walls, old, low, high, decides)

    def _next(
        self, regions: _Open, rows: Integers, cuts: Cells, middle: Integers, split: Flags, walls: Integers, old: int,
        low: Integers, high: Integers, decides: Flags,
    ) -> _Open:  # fmt: skip
        """The regions of the next step: whole ones with a new wall, and the halves of those that were split."""
        count = len(regions.lower)
        state = np.zeros(count, dtype=np.int64)  # 0: no longer in play, 1: whole, 2: split
        state[rows] = 1 + split
        cut_at, middle_at = np.zeros(count, dtype=np.uint64), np.zeros(count, dtype=np.int64)
        cut_at[rows], middle_at[rows] = cuts, middle
        self._note_splits(regions, rows[split], cuts[split])
        # Every region is repeated as often as it has parts; the second part begins at the cut.
        parent = np.repeat(np.arange(count), state)
        new = np.cumsum(state) - state  # row of the first part
        second = np.zeros(len(parent), dtype=bool)
        second[new[state == 2] + 1] = True
        halved = (state == 2)[parent]
        lower = np.where(second, cut_at[parent], regions.lower[parent])
        upper = np.where(halved & ~second, cut_at[parent], regions.upper[parent])
        start = np.where(second, middle_at[parent], regions.start[parent])
        stop = np.where(halved & ~second, middle_at[parent], regions.stop[parent])
        clock = regions.clock[parent] + halved  # everybody announces a side in a round of its own
        # Walls of a split region go with the part that they lie strictly inside; the others free their people.
        own = regions.wall_region
        alive = state[own] > 0
        question = regions.wall_question
        cut, at = self.answers.cuts[question], cut_at[own]
        is_split = state[own] == 2
        to_second = is_split & (cut > at)
        gone = ~alive | (is_split & (cut == at))
        border = regions.wall_first.copy()
        moved = np.flatnonzero(is_split & alive)
        border[moved] = self.answers.before(question[moved], middle_at[own[moved]])
        first = np.where(to_second, border, regions.wall_first)
        last = np.where(is_split & ~to_second, border, regions.wall_last)
        first, last = np.where(gone, regions.wall_last, first), np.where(gone, regions.wall_last, last)
        self._free(regions, alive, first, last)
        keep = np.flatnonzero(~gone)
        region = np.concatenate([new[own[keep]] + to_second[keep], new[rows[walls]]])
        columns = (
            np.concatenate([question[keep], old + np.arange(len(walls))]),
            np.concatenate([first[keep], low]),
            np.concatenate([last[keep], high]),
            np.concatenate([regions.wall_decides[keep], decides[walls]]),
        )
        order = np.argsort(region, kind="stable")
        return _Open(
            lower, upper, start, stop, clock, regions.ended[parent], region[order], *(c[order] for c in columns)
        )

    def _free(self, regions: _Open, alive: Flags, first: Integers, last: Integers) -> None:
        """People whose answers lie outside their region now may be asked again."""
        before = self.answers.who(regions.wall_first[alive], first[alive])
        after = self.answers.who(last[alive], regions.wall_last[alive])
        self.busy[before] -= 1
        self.busy[after] -= 1

    def _draw(self, free: Integers, first: Integers, askable: Integers, asked: Integers) -> Integers:
        """Who is asked, region after region, in the order of the draw. ``free`` is put into another order."""
        if len(first) <= _ONE_BY_ONE:
            rows = zip(first.tolist(), askable.tolist(), asked.tolist(), strict=True)
            chosen = [begin + self.rng.choice(size, count, replace=False) for begin, size, count in rows]
            return np.asarray(free[np.concatenate(chosen)])
        active = np.argsort(-asked, kind="stable")
        most = asked[active]
        for place in range(int(most[0])):  # Fisher and Yates, all regions side by side
            own = active[: int(np.searchsorted(-most, -place))]
            here = first[own] + place
            there = here + (self.rng.random(len(own)) * (askable[own] - place)).astype(np.int64)
            free[here], free[there] = free[there], free[here]
        return free[concatenate_ranges(first, first + asked)]

    # -- rule "all" ------------------------------------------------------------------------------------------------

    def _all(self, regions: _Open) -> _Open:
        """Ask all members of every cell; split those whose children all pass."""
        members = regions.stop - regions.start
        census = Census(
            regions.lower, regions.upper, members, members, np.zeros(len(members), dtype=np.int64),
            Walls.none(len(members)),
        )  # fmt: skip
        asking = questions(self.task, census)
        asking = asking.pick(np.flatnonzero(self.task.max_rounds - regions.clock[asking.rows] >= ROUNDS_OF_A_QUESTION))
        rows = asking.rows
        self._finish(regions.pick(np.setdiff1d(np.arange(len(members)), rows, assume_unique=True)))
        if not len(rows):
            return regions.pick(rows)
        parts = 1 + (asking.cuts > 0).sum(axis=1)
        bounds = np.repeat(regions.stop[rows, None], asking.cuts.shape[1] + 2, axis=1)
        bounds[:, 0] = regions.start[rows]
        at, column = np.nonzero(asking.cuts)
        bounds[at, column + 1] = self.ranks.below(asking.cuts[at, column])
        counts = np.diff(bounds, axis=1)
        split = np.zeros(len(rows), dtype=bool)
        yes = np.zeros(len(rows), dtype=np.int64)
        for width in np.unique(parts).tolist():
            own = np.flatnonzero(parts == width)
            tally = randomizer_for(self.task, width).draw_tally(counts[own, :width], self.rng)
            split[own] = splits(tally, asking.threshold[own])
            yes[own] = tally[:, 1]
        self.given += int(members[rows].sum())
        clock = regions.clock[rows] + 1
        self._end_cells(regions, rows, clock, asking, split, yes)
        chosen = np.flatnonzero(split)
        edges = np.concatenate(
            [regions.lower[rows, None], asking.cuts, np.zeros((len(rows), 1), dtype=np.uint64)], axis=1
        )
        edges[np.arange(len(rows)), parts] = regions.upper[rows]
        child, number = np.nonzero(np.arange(asking.cuts.shape[1] + 1) < parts[chosen, None])
        own = chosen[child]
        self._note_splits(
            regions._replace(clock=_with(regions.clock, rows, clock)), rows[at[split[at]]],
            asking.cuts[at[split[at]], column[split[at]]],
        )  # fmt: skip
        none, empty = np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
        return _Open(
            edges[own, number], edges[own, number + 1], bounds[own, number], bounds[own, number + 1], clock[own] + 1,
            np.zeros(len(own), dtype=bool), none, none, none, none, empty,
        )  # fmt: skip

    def _end_cells(
        self, regions: _Open, rows: Integers, clock: Integers, asking: Asking, split: Flags, yes: Integers
    ) -> None:
        """Cells that did not split end; where answers are yes or no, the last question is a wall."""
        stay = np.flatnonzero(~split)
        ended = regions._replace(clock=_with(regions.clock, rows, clock)).pick(rows[stay])
        plain = self.task.randomizer.words == 1 and self.task.randomizer.fanout == 2
        if plain and len(stay):
            self._cell_walls(ended, asking.cuts[stay, 0], asking.asked[stay], yes[stay])
        else:
            self._finish(ended)

    def _cell_walls(self, ended: _Open, cuts: Cells, asked: Integers, yes: Integers) -> None:
        """Keep one wall per cell as made-up answers: only their sums are read."""
        place = np.repeat(np.arange(len(cuts)), asked)
        nth = np.arange(len(place)) - np.repeat(np.cumsum(asked) - asked, asked)
        old = len(self.answers.cuts)
        low, high = self.answers.add(cuts, place, ended.start[place] + nth, nth < yes[place])
        count = len(cuts)
        self._finish(
            ended._replace(
                wall_region=np.arange(count), wall_question=old + np.arange(count), wall_first=low, wall_last=high,
                wall_decides=np.ones(count, dtype=bool),
            )
        )  # fmt: skip

    # -- the end ---------------------------------------------------------------------------------------------------

    def _note_splits(self, regions: _Open, rows: Integers, cuts: Cells) -> None:
        self.splits.append(Splits(regions.clock[rows], regions.lower[rows], cuts, regions.upper[rows]))
        once = np.unique(rows)
        self.announced += int((regions.stop[once] - regions.start[once]).sum())

    def _finish(self, regions: _Open) -> None:
        self.done.append(regions)
        self.rounds = max(self.rounds, int(regions.clock.max(initial=0)))

    def _result(self) -> Played:
        offsets = np.cumsum([0] + [len(part.lower) for part in self.done]).tolist()
        for place, offset in enumerate(offsets[:-1]):
            self.done[place] = self.done[place]._replace(wall_region=self.done[place].wall_region + offset)
        columns: list[Any] = [np.concatenate(column) for column in zip(*self.done, strict=True)]
        whole = _Open(*columns)
        whole = whole.pick(np.argsort(whole.lower))
        none = np.empty(0, dtype=np.uint64)
        noted = [Splits(np.empty(0, dtype=np.int64), none, none, none), *self.splits]
        rounds, *codes = (np.concatenate(column) for column in zip(*noted, strict=True))
        by_round = np.argsort(rounds, kind="stable")
        lower, cut, upper = (column[by_round].astype(np.uint64) for column in codes)
        return Played(
            whole.lower, whole.upper, whole.start, whole.stop, self._walls(whole),
            Splits(rounds[by_round].astype(np.int64), lower, cut, upper), self.rounds, self.given, self.announced,
        )  # fmt: skip


def _with(column: Integers, rows: Integers, values: Integers) -> Integers:
    out = column.copy()
    out[rows] = values
    return out


def concatenate_ranges(start: npt.NDArray[np.int64], stop: npt.NDArray[np.int64]) -> Integers:
    """All numbers of the ranges start to before stop, one range after the other: int64[sum of lengths].

    Examples
    --------
    >>> concatenate_ranges(np.array([3, 9]), np.array([5, 10])).tolist()
    [3, 4, 9]
    """
    lengths = np.maximum(stop - start, 0)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(start - (ends - lengths), lengths))
