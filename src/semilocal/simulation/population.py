"""A whole crowd plays the local protocol at once: people are ranks in the order of codes, answers are drawn in bulk.

A region is a range of ranks, so a cut is one search, and who is at or above it is a comparison. What the protocol needs
to know of a person is how many answers it has inside its region: one small number each. Answers are kept question by
question, ordered by rank, so that the answers of a region's present members are one range of each question. What is
done in a step depends on the number of regions and answers, not on the number of people.

Every region plays its next question in the same step, whatever round it is in; rounds are counted per region. What is
asked, how many, and what the answers mean is decided in :mod:`semilocal.protocol.rule`, as for devices. Draws come from
a generator, so this is for simulation only. The order of draws depends on counts alone: sorted codes and a histogram
give the same result.

Knows ranks and answers. Knows no positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Integers
from ..hierarchy.base import Cells
from ..hierarchy.ranks import Ranks
from ..protocol.estimate import Walls
from ..protocol.rule import ROUNDS_OF_A_QUESTION, Asking, Census, go_on, questions, randomizer_for, refinements, splits
from ..protocol.task import Task

__all__ = ["Played", "Splits", "concatenate_ranges", "play"]

_TOGETHER = 1 << 18  # people: draws from so many are made side by side
_Numbers: TypeAlias = npt.NDArray[np.signedinteger[Any]]  # of four bytes, if that is enough
_WORD_BITS = np.uint64(40)  # a rank and an answer


class Splits(NamedTuple):
    """Every split of a run, in the order of rounds."""

    rounds: Integers  # int64[s], the round that closed with it
    lower: Cells  # uint64[s], the region, and where it was cut; with rule "all" one row per cut
    cut: Cells  # uint64[s]
    upper: Cells  # uint64[s]


@dataclass(frozen=True, eq=False)
class Played:
    """What came out: the regions in their order, with the ranks of their people and the answers about walls."""

    lower: Cells  # uint64[m]
    upper: Cells  # uint64[m]
    start: Integers  # int64[m], ranks of the members: start to before stop
    stop: Integers  # int64[m]
    walls: Walls
    splits: Splits
    rounds: int
    answers: int  # reports of all people with an answer, and without one
    announcements: int


class _Answers:
    """Answers question by question, ordered by rank: a question's are one range, those of present members a part of it.

    A word is a rank and, in its last bit, what was said.
    """

    def __init__(self, people: int) -> None:
        self._count = 0
        self._words = np.empty(1 << 12, dtype=np.uint32 if people < 1 << 31 else np.uint64)
        self._yes = np.zeros((1 << 12) + 1, dtype=self._words.dtype)  # how many said yes before each answer

    def add(self, question: Integers, ranks: _Numbers, yes: Flags, questions: int) -> tuple[Integers, Integers]:
        """Who answered which of so many new questions, and what. Ranges of their answers."""
        keys = (question.astype(np.uint64) << _WORD_BITS) | (ranks.astype(np.uint64) << np.uint64(1)) | yes
        keys.sort()
        begin, self._count = self._count, self._count + len(keys)
        if self._count > len(self._words):
            size = max(self._count, len(self._words) * 3 // 2)
            self._words.resize(size, refcheck=False)
            self._yes.resize(size + 1, refcheck=False)
        own = slice(begin, self._count)
        self._words[own] = keys & ((np.uint64(1) << _WORD_BITS) - np.uint64(1))
        np.cumsum(keys & np.uint64(1), out=self._yes[begin + 1 : self._count + 1])
        self._yes[begin + 1 : self._count + 1] += self._yes[begin]
        counts = np.bincount(question, minlength=questions)
        last = begin + np.cumsum(counts)
        return last - counts, last

    def before(self, first: Integers, last: Integers, rank: Integers) -> Integers:
        """In each of these ranges, the place of the first answer of this rank or a later one: int64[w]."""
        low, high, wanted = first.copy(), last.copy(), rank << 1
        while len(some := np.flatnonzero(low < high)):
            middle = (low[some] + high[some]) >> 1
            smaller = self._words[middle] < wanted[some]
            low[some], high[some] = np.where(smaller, middle + 1, low[some]), np.where(smaller, high[some], middle)
        return low

    def yes(self, first: Integers, last: Integers) -> Integers:
        """How many of the answers first to before last say yes."""
        return (self._yes[last] - self._yes[first]).astype(np.int64)

    def who(self, first: Integers, last: Integers) -> Integers:
        """The ranks that gave the answers in these ranges, one range after the other."""
        return np.asarray(self._words[concatenate_ranges(first, last)], dtype=np.int64) >> 1


class _Open(NamedTuple):
    """Regions in play, in their order, and the questions that left walls in them."""

    lower: Cells
    upper: Cells
    start: Integers
    stop: Integers
    clock: Integers  # the last round that was played there
    ended: Flags
    full: Integers  # members who may not be asked
    wall_region: Integers  # row of the region; walls are ordered by region and cut
    wall_cut: Cells
    wall_first: Integers  # answers of present members: first to before last
    wall_last: Integers
    wall_decides: Flags  # whether it counts in w

    @classmethod
    def without_walls(cls, lower: Cells, upper: Cells, start: Integers, stop: Integers, clock: Integers) -> _Open:
        """Regions in which nothing was asked."""
        none, codes = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)
        some = np.zeros(len(lower), dtype=np.int64)
        return cls(lower, upper, start, stop, clock, some > 0, some, none, codes, none, none, none > 0)

    def pick(self, chosen: Integers) -> _Open:
        """Some of the regions, ascending, with their walls."""
        new = np.full(len(self.lower), -1)
        new[chosen] = np.arange(len(chosen))
        own = np.flatnonzero(new[self.wall_region] >= 0)
        columns: list[Any] = [column[chosen] for column in self[:7]]
        columns.append(new[self.wall_region[own]])
        return _Open(*columns, *(column[own] for column in self[8:]))


class _Ended(NamedTuple):
    """Regions of which nothing more is asked."""

    lower: Cells
    upper: Cells
    start: Integers
    stop: Integers
    walls: Walls


def play(
    task: Task, ranks: Ranks, rng: np.random.Generator, *, progress: Callable[[int, int], None] | None = None
) -> Played:
    """Play the protocol for everybody. After every step ``progress`` gets its number and the regions in play."""
    return _Play(task, ranks, rng).play(progress)


class _Play:
    def __init__(self, task: Task, ranks: Ranks, rng: np.random.Generator) -> None:
        self.task, self.ranks, self.rng = task, ranks, rng
        self.people = len(ranks)
        self.busy = np.zeros(self.people, dtype=np.uint8)  # answers inside one's region
        self.answers = _Answers(self.people)
        self.done: list[_Ended] = []
        self.splits: list[Splits] = []
        self.rounds, self.given, self.announced = 1, 0, self.people

    def play(self, progress: Callable[[int, int], None] | None) -> Played:
        lower, upper = (np.array([end], dtype=np.uint64) for end in self.task.hierarchy.ends)
        regions = _Open.without_walls(lower, upper, np.array([0]), np.array([self.people]), np.array([1]))
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
        census = self._census(regions)
        left = self.task.max_rounds - regions.clock
        deciding, refining = ~regions.ended & (left >= ROUNDS_OF_A_QUESTION), np.flatnonzero(regions.ended)
        rows = np.flatnonzero(deciding)
        asking = questions(self.task, census.rows(rows))
        chosen = rows[asking.rows]
        ended = np.ones(len(regions.lower), dtype=bool)
        ended[chosen] = False
        newly = np.flatnonzero(ended & ~regions.ended)
        # A region that ends now is refined at once: nothing was asked of it in this step.
        candidates = np.sort(np.concatenate([refining, newly]))
        candidates = candidates[left[candidates] >= 1]
        more = refinements(self.task, census.rows(candidates))
        rows = np.concatenate([chosen, candidates[more.rows]])
        over = np.ones(len(regions.lower), dtype=bool)
        over[rows] = False
        self._finish(regions.pick(np.flatnonzero(over)))
        order = np.argsort(rows)
        asking = asking.with_others(rows, more).pick(order)
        return self._answer(regions._replace(ended=ended), asking, census.askable[rows[order]])

    def _census(self, regions: _Open) -> Census:
        count, members = len(regions.lower), regions.stop - regions.start
        failed = np.bincount(regions.wall_region[regions.wall_decides], minlength=count)
        walls = self._walls(regions)
        return Census(regions.lower, regions.upper, members, members - regions.full, failed, walls)

    def _walls(self, regions: _Open) -> Walls:
        """Answers of present members, those about equal cuts together."""
        some = np.flatnonzero(regions.wall_last > regions.wall_first)
        begin, end = regions.wall_first[some], regions.wall_last[some]
        region, cuts, asked, yes = (
            regions.wall_region[some],
            regions.wall_cut[some],
            end - begin,
            self.answers.yes(begin, end),
        )
        new = np.ones(len(cuts), dtype=bool)
        new[1:] = (region[1:] != region[:-1]) | (cuts[1:] != cuts[:-1])
        begin = np.flatnonzero(new)
        if len(begin) < len(cuts):
            asked, yes = np.add.reduceat(asked, begin), np.add.reduceat(yes, begin)
            region, cuts = region[begin], cuts[begin]
        first = np.searchsorted(region, np.arange(len(regions.lower) + 1))
        return Walls(first, cuts, asked, yes)

    def _answer(self, regions: _Open, asking: Asking, askable: Integers) -> _Open:
        """Draw who is asked, let them answer, judge, and make the next regions."""
        rows = asking.rows
        if not len(rows):
            return regions.pick(rows)
        cuts = asking.cuts[:, 0]
        middle = self.ranks.below(cuts)
        start, stop = regions.start[rows], regions.stop[rows]
        who, place, yes = self._said(start, stop, askable, asking.portion, middle)
        right = np.bincount(place[yes], minlength=len(rows))
        most, first = self.task.answers, who
        self.busy[first] += most  # nobody is asked twice
        more = asking.asked - asking.portion
        go = more == 0
        two = np.flatnonzero(~go)
        go[two] = go_on(self.task, asking.pick(two), asking.portion[two], right[two])
        more *= go
        later = self._said(start, stop, askable - asking.portion, more, middle)
        who, place, yes = (np.concatenate(columns) for columns in zip((who, place, yes), later, strict=True))
        self.busy[first] -= most - 1
        self.busy[later[0]] += 1
        right += np.bincount(later[1][later[2]], minlength=len(rows))
        total = asking.portion + more
        split = go & splits(np.stack([total - right, right], axis=1), asking.threshold)
        clocks = regions.clock.copy()
        clocks[rows] += 1 + (more > 0)
        self.given += int(total.sum())
        # Answers that left a wall are kept; the others lie outside of everybody's region now.
        kept = ~split[place]
        self.busy[who[~kept]] -= 1
        own, place = who[kept], place[kept]
        full = regions.full.copy()
        now_full = self.busy[own] >= most
        full[rows] += np.bincount(place[now_full], minlength=len(rows))
        number = np.cumsum(~split) - 1
        low, high = self.answers.add(number[place], own, yes[kept], int(number[-1]) + 1)
        regions = regions._replace(clock=clocks, full=full)
        stay = np.flatnonzero(~split)
        parts = self._parts(regions, rows, cuts, middle, split)
        new = np.searchsorted(parts.lower, regions.lower[rows[stay]])
        return _with_walls(parts, new, cuts[stay], low, high, asking.threshold[stay] > 0)

    def _parts(self, regions: _Open, rows: Integers, cuts: Cells, middle: Integers, split: Flags) -> _Open:
        """The regions of the next step: whole ones, and the halves of those that were split."""
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
        own, cut = regions.wall_region, regions.wall_cut
        at, is_split = cut_at[own], state[own] == 2
        to_second = is_split & (cut > at)
        gone = (state[own] == 0) | (is_split & (cut == at))
        first, last = regions.wall_first.copy(), regions.wall_last.copy()
        moved = np.flatnonzero(is_split)
        border = self.answers.before(first[moved], last[moved], middle_at[own[moved]])
        second_ones = to_second[moved]
        first[moved[second_ones]], last[moved[~second_ones]] = border[second_ones], border[~second_ones]
        first[gone & is_split] = last[gone & is_split]
        for begin, end in ((regions.wall_first, first), (last, regions.wall_last)):
            # People whose answers lie outside their region now may be asked again.
            np.subtract.at(self.busy, self.answers.who(begin[moved], end[moved]), 1)
        keep = np.flatnonzero(~gone)
        region, inside = new[own[keep]] + to_second[keep], halved[new[own[keep]]]
        full = np.where(halved, self._full(region[inside], first[keep[inside]], last[keep[inside]], len(parent)),
                        regions.full[parent])  # fmt: skip
        return _Open(
            lower, upper, start, stop, clock, regions.ended[parent], full, region, cut[keep], first[keep], last[keep],
            regions.wall_decides[keep],
        )  # fmt: skip

    def _full(self, region: Integers, first: Integers, last: Integers, regions: int) -> Integers:
        """How many members have as many answers as they may give, from the answers in the walls of each region."""
        counts = last - first
        if (most := self.task.answers) > 1:
            passed = np.concatenate([[0], np.cumsum(self.busy[self.answers.who(first, last)] >= most)])
            ends = np.cumsum(counts)
            counts = passed[ends] - passed[ends - counts]
        return np.bincount(region, counts, minlength=regions).astype(np.int64) // most

    # -- draws -----------------------------------------------------------------------------------------------------

    def _said(
        self, start: Integers, stop: Integers, free: Integers, count: Integers, middle: Integers
    ) -> tuple[_Numbers, _Numbers, Flags]:
        """Draw so many of each region's free members: who they are, which region it is, and what they say."""
        who = self._draw(start, stop, free, count)
        place = np.repeat(np.arange(len(count), dtype=np.int32), count)
        return who, place, (who >= middle.astype(who.dtype)[place]) ^ (self.rng.random(len(who)) >= self.task.truth)

    def _draw(self, start: Integers, stop: Integers, free: Integers, count: Integers) -> _Numbers:
        """Who is asked, region after region."""
        out: _Numbers = np.empty(int(count.sum()), dtype=np.int32 if self.people < 1 << 31 else np.int64)
        ends = np.cumsum(count)
        row = 0
        while row < len(start):  # regions whose people lie together
            after = max(row + 1, int(np.searchsorted(stop, start[row] + _TOGETHER, side="right")))
            low, rows = int(start[row]), slice(row, after)
            own = out[ends[row] - count[row] : ends[after - 1]]
            if stop[row] - low > _TOGETHER:
                own[:] = self._draw_few(low, int(stop[row]), int(count[row]))
            elif len(own):
                people = np.flatnonzero(self.busy[low : stop[after - 1]] < self.task.answers)
                first = np.searchsorted(people, start[rows] - low)
                own[:] = people[self._choose(first, free[rows], count[rows], len(people))] + low
            row = after
        return out

    def _draw_few(self, start: int, stop: int, count: int) -> Integers:
        """The same in a region of very many people: most of those who are drawn are free, and no one twice."""
        chosen = np.empty(0, dtype=np.int64)
        while len(chosen) < count:
            more = self.rng.integers(start, stop, count)
            chosen = np.concatenate([chosen, more[self.busy[more] < self.task.answers]])
            chosen = chosen[np.sort(np.unique(chosen, return_index=True)[1])]
        return chosen[:count]

    def _choose(self, first: Integers, size: Integers, count: Integers, places: int) -> npt.NDArray[np.int32]:
        """So many different places of each range, drawn by lot."""
        taken, owner = np.zeros(places, dtype=bool), np.empty(places, dtype=np.int32)
        most = 2 * count > size  # fewer lots decide who is not asked
        lots = np.where(most, size - count, count)
        begin, width = np.repeat(first.astype(np.int32), lots), np.repeat(size.astype(np.int32), lots)
        out, waiting = np.empty(len(begin), dtype=np.int32), np.arange(len(begin), dtype=np.int32)
        # A lot is drawn again until its place is its own. All places are treated alike, so all choices are as likely.
        while len(waiting):
            place = (self.rng.random(len(waiting)) * width).astype(np.int32)
            place += begin
            owner[place[::-1]] = waiting[::-1]  # of several lots the first has it
            good = (owner[place] == waiting) & ~taken[place]
            mine = place[good]
            out[waiting[good]] = mine
            taken[mine] = True
            again = ~good
            waiting, begin, width = waiting[again], begin[again], width[again]
        if not most.any():
            return out
        chosen, other = np.empty(int(count.sum()), dtype=np.int32), np.repeat(most, count)
        there = concatenate_ranges(first[most], first[most] + size[most])
        chosen[~other], chosen[other] = out[~np.repeat(most, lots)], there[~taken[there]]
        return chosen

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
        return _Open.without_walls(
            edges[own, number], edges[own, number + 1], bounds[own, number], bounds[own, number + 1], clock[own] + 1
        )

    def _end_cells(
        self, regions: _Open, rows: Integers, clock: Integers, asking: Asking, split: Flags, yes: Integers
    ) -> None:
        """Cells that did not split end; where answers are yes or no, the last question is a wall."""
        stay = np.flatnonzero(~split)
        ended = regions._replace(clock=_with(regions.clock, rows, clock)).pick(rows[stay])
        if self.task.randomizer.words == 1 and self.task.randomizer.fanout == 2:
            walls = Walls(np.arange(len(stay) + 1), asking.cuts[stay, 0], asking.asked[stay], yes[stay])
        else:
            walls = Walls.none(len(stay))
        self._finish(ended, walls)

    # -- the end ---------------------------------------------------------------------------------------------------

    def _note_splits(self, regions: _Open, rows: Integers, cuts: Cells) -> None:
        self.splits.append(Splits(regions.clock[rows], regions.lower[rows], cuts, regions.upper[rows]))
        once = np.unique(rows)
        self.announced += int((regions.stop[once] - regions.start[once]).sum())

    def _finish(self, regions: _Open, walls: Walls | None = None) -> None:
        walls = self._walls(regions) if walls is None else walls
        self.done.append(_Ended(regions.lower, regions.upper, regions.start, regions.stop, walls))
        self.rounds = max(self.rounds, int(regions.clock.max(initial=0)))

    def _result(self) -> Played:
        lower, upper, start, stop = (np.concatenate(column) for column in list(zip(*self.done, strict=True))[:4])
        order = np.argsort(lower)
        counts = np.concatenate([np.diff(part.walls.first) for part in self.done])
        told: list[Any] = [np.concatenate([part.walls[column] for part in self.done]) for column in (1, 2, 3)]
        walls = Walls(np.concatenate([[0], np.cumsum(counts)]), *told).rows(order)
        none = np.empty(0, dtype=np.uint64)
        noted = [Splits(np.empty(0, dtype=np.int64), none, none, none), *self.splits]
        rounds, *codes = (np.concatenate(column) for column in zip(*noted, strict=True))
        by_round = np.argsort(rounds, kind="stable")
        low, cut, high = (column[by_round].astype(np.uint64) for column in codes)
        return Played(
            lower[order], upper[order], start[order], stop[order], walls,
            Splits(rounds[by_round].astype(np.int64), low, cut, high), self.rounds, self.given, self.announced,
        )  # fmt: skip


def _with_walls(
    regions: _Open, region: Integers, cuts: Cells, first: Integers, last: Integers, decides: Flags
) -> _Open:
    """The regions with one more wall in some of them (ascending), put where its cut belongs, behind equal ones."""
    count = len(regions.lower)
    new, at = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.uint64)
    new[region], at[region] = 1, cuts
    own = regions.wall_region
    later = (new[own] > 0) & (regions.wall_cut > at[own])
    old_place = np.arange(len(own)) + (np.cumsum(new) - new)[own] + later
    walls = np.bincount(own, minlength=count)
    smaller = walls - np.bincount(own[later], minlength=count)
    new_place = (np.cumsum(walls) - walls + smaller)[region] + np.arange(len(region))
    columns: list[Any] = []
    for old, more in zip(regions[7:], (region, cuts, first, last, decides), strict=True):
        column = np.empty(len(own) + len(region), dtype=old.dtype)
        column[old_place], column[new_place] = old, more
        columns.append(column)
    return _Open(*regions[:7], *columns)


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
