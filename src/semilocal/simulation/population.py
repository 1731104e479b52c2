"""A whole crowd plays the local protocol at once: people are ranks in the order of codes, answers are drawn in bulk.

A region is a range of ranks, so a cut is one search, and who is at or above it is a comparison. What the protocol needs
to know of a person is how many answers it has inside its region: one small number each. Answers are kept question by
question, ordered by rank, so that the answers of a region's present members are one range of each question. What is
done in a step depends on the number of regions and answers, not on the number of people. Counts per piece in place of
people would follow the same law for one answer each; for two the pairs of walls would count, and these are as many as
the people.

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

from ..arrays import Flags, Integers, ranges
from ..hierarchy.base import Cells
from ..hierarchy.ranks import Ranks
from ..protocol.estimate import Walls
from ..protocol.rule import ROUNDS_OF_A_QUESTION, Asking, Census, go_on, questions, randomizer_for, refinements, splits
from ..protocol.task import Task

_TOGETHER = 1 << 18  # people whose draws are made side by side, and answers that are looked at
_Numbers: TypeAlias = npt.NDArray[np.signedinteger[Any]]  # of four bytes, if that is enough
_WORD_BITS = np.uint64(40)  # a rank and an answer
_WORD = (np.uint64(1) << _WORD_BITS) - np.uint64(1)


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
    wall_first: Integers  # answers of present members: words first to before last
    wall_last: Integers
    wall_yes: Integers  # how many of them say yes
    wall_decides: Flags  # whether it counts in w

    @classmethod
    def without_walls(cls, lower: Cells, upper: Cells, start: Integers, stop: Integers, clock: Integers) -> _Open:
        """Regions in which nothing was asked."""
        none, codes = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)
        some = np.zeros(len(lower), dtype=np.int64)
        return cls(lower, upper, start, stop, clock, some > 0, some, none, codes, none, none, none, none > 0)

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
        # Answers question by question, ordered by rank, so that those of present members are a range of a question's. A
        # word is a rank and, in its last bit, what was said.
        self.words: _Numbers = np.empty(0, dtype=np.int32 if self.people < 1 << 30 else np.int64)
        self.count = 0  # of the words
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
        region, cuts, yes = regions.wall_region[some], regions.wall_cut[some], regions.wall_yes[some]
        asked = (regions.wall_last - regions.wall_first)[some]
        new = np.ones(len(cuts), dtype=bool)
        new[1:] = (region[1:] != region[:-1]) | (cuts[1:] != cuts[:-1])
        begin = np.flatnonzero(new)
        if len(begin) < len(cuts):
            asked, yes = np.add.reduceat(asked, begin), np.add.reduceat(yes, begin)
            region, cuts = region[begin], cuts[begin]
        return Walls(np.searchsorted(region, np.arange(len(regions.lower) + 1)), cuts, asked, yes)

    def _answer(self, regions: _Open, asking: Asking, askable: Integers) -> _Open:
        """Ask all questions, region after region, and make the next regions."""
        rows = asking.rows
        if not len(rows):
            return regions.pick(rows)
        regions = self._tidied(regions)
        cuts = asking.cuts[:, 0]
        middle, start, stop = self.ranks.below(cuts), regions.start[rows], regions.stop[rows]
        judged, row = [], 0
        while row < len(rows):  # regions whose people lie together: all that is looked up stays in the cache
            after = max(row + 1, int(np.searchsorted(stop, start[row] + _TOGETHER, side="right")))
            part = np.arange(row, after)
            judged.append(self._ask(asking.pick(part), start[part], stop[part], askable[part], middle[part]))
            row = after
        rounds, answers, yes, full, split = (np.concatenate(column) for column in zip(*judged, strict=True))
        clocks, fulls = regions.clock.copy(), regions.full.copy()
        clocks[rows] += rounds
        fulls[rows] += full
        stay = np.flatnonzero(~split)
        last = self.count - int(answers[stay].sum()) + np.cumsum(answers[stay])
        parts = self._parts(regions._replace(clock=clocks, full=fulls), rows, cuts, middle, split)
        new = np.searchsorted(parts.lower, regions.lower[rows[stay]])
        return _with_walls(parts, new, (cuts[stay], last - answers[stay], last, yes[stay], asking.threshold[stay] > 0))

    def _ask(
        self, asking: Asking, start: Integers, stop: Integers, free: Integers, middle: Integers
    ) -> tuple[Integers, Integers, Integers, Integers, Flags]:
        """Draw who is asked, let them answer, and judge.

        Of each region the rounds it took, the answers, those that say yes, how many members may not be asked any more
        because of it, and whether it is split. Answers that leave a wall are kept, in the order of regions and ranks.
        """
        most, count = self.task.answers, len(start)
        who, place, said = self._said(start, stop, free, asking.portion, middle)
        yes = np.bincount(place[said], minlength=count)
        more = asking.asked - asking.portion
        go = more == 0
        if not go.all():
            two = np.flatnonzero(~go)
            go[two] = go_on(self.task, asking.pick(two), asking.portion[two], yes[two])
            more *= go
            self.busy[who] += most  # nobody is asked twice
            later = self._said(start, stop, free - asking.portion, more, middle)
            self.busy[who] -= most
            yes += np.bincount(later[1][later[2]], minlength=count)
            who, place, said = (np.concatenate(pair) for pair in zip((who, place, said), later, strict=True))
        total = asking.portion + more
        self.given += int(total.sum())
        split = go & splits(np.stack([total - yes, yes], axis=1), asking.threshold)
        # Answers that left a wall are kept; the others lie outside of everybody's region now.
        if split.any():
            kept = ~split[place]
            who, place, said = who[kept], place[kept], said[kept]
        self.busy[who] += 1
        full = np.bincount(place if most == 1 else place[self.busy[who] >= most], minlength=count)
        keys = place.astype(np.uint64) << _WORD_BITS
        keys |= who.astype(np.uint64) << np.uint64(1)
        keys |= said
        keys.sort()
        end = self.count + len(keys)
        if end > len(self.words):
            self.words.resize(end + end // 8, refcheck=False)
        self.words[self.count : end] = keys & _WORD
        self.count = end
        return 1 + (more > 0), total, yes, full, split

    def _tidied(self, regions: _Open) -> _Open:
        """The same with answers side by side, if many that were given are no longer needed."""
        sizes = regions.wall_last - regions.wall_first
        last = np.cumsum(sizes)
        live = int(last[-1]) if len(last) else 0
        if self.count < live + live // 4 + _TOGETHER:
            return regions
        order = np.argsort(regions.wall_first)  # so that nothing is written over before it was read
        last[order] = np.cumsum(sizes[order])
        first = last - sizes
        for some in _portions(sizes[order]):
            walls = order[some]
            moved = self.words[ranges(regions.wall_first[walls], sizes[walls])]
            self.words[first[walls[0]] : first[walls[0]] + len(moved)] = moved
        self.count = live
        self.words.resize(live + live // 8, refcheck=False)
        return regions._replace(wall_first=first, wall_last=last)

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
        region = new[own] + to_second
        first, last, yes = (column.copy() for column in regions[9:12])
        full = np.where(halved, 0, regions.full[parent])
        moved = np.flatnonzero(is_split)
        for some in _portions((last - first)[moved]):
            walls = moved[some]
            words = self.words[ranges(first[walls], (last - first)[walls])]
            place = np.repeat(np.arange(len(walls), dtype=np.int32), (last - first)[walls])
            who = words >> 1
            kept = (who >= middle_at[own[walls]].astype(who.dtype)[place]) == to_second[walls][place]
            kept &= ~gone[walls][place]
            np.subtract.at(self.busy, who[~kept], 1)  # they may be asked again
            place, who = place[kept], who[kept]
            left = np.bincount(place, minlength=len(walls))
            yes[walls] = np.bincount(place[(words[kept] & 1) > 0], minlength=len(walls))
            first[walls] = np.where(to_second[walls], last[walls] - left, first[walls])
            last[walls] = first[walls] + left
            busy = place[self.busy[who] >= self.task.answers]
            full += np.bincount(region[walls[busy]], minlength=len(parent))
        full = np.where(halved, full // self.task.answers, full)
        keep = np.flatnonzero(~gone)
        kept_walls: list[Any] = [column[keep] for column in (region, cut, first, last, yes, regions.wall_decides)]
        return _Open(lower, upper, start, stop, clock, regions.ended[parent], full, *kept_walls)

    # -- draws -----------------------------------------------------------------------------------------------------

    def _said(
        self, start: Integers, stop: Integers, free: Integers, count: Integers, middle: Integers
    ) -> tuple[_Numbers, _Numbers, Flags]:
        """Draw so many of each region's free members: who they are, which region it is, and what they say."""
        who = self._draw(start, stop, free, count)
        place = np.repeat(np.arange(len(count), dtype=np.int32), count)
        return who, place, (who >= middle.astype(who.dtype)[place]) ^ (self.rng.random(len(who)) >= self.task.truth)

    def _draw(self, start: Integers, stop: Integers, free: Integers, count: Integers) -> _Numbers:
        """Who is asked, region after region: ranks of free members, nobody twice."""
        low, high = int(start[0]), int(stop[-1])
        if high - low > _TOGETHER:  # one region of very many people: most of those who are drawn are free
            chosen = np.empty(0, dtype=np.int64)
            while len(chosen) < count[0]:
                more = self.rng.integers(low, high, int(count[0]))
                chosen = np.concatenate([chosen, more[self.busy[more] < self.task.answers]])
                chosen = chosen[np.sort(np.unique(chosen, return_index=True)[1])]
            return chosen[: count[0]]
        people = np.flatnonzero(self.busy[low:high] < self.task.answers)
        chosen = people[self._choose(np.searchsorted(people, start - low), free, count, len(people))]
        chosen += low
        return chosen

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
        there = ranges(first[most], size[most])
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
        clock = regions.clock.copy()
        clock[rows] += 1
        regions = regions._replace(clock=clock)
        self._end_cells(regions, rows, asking, split, yes)
        chosen = np.flatnonzero(split)
        edges = np.concatenate(
            [regions.lower[rows, None], asking.cuts, np.zeros((len(rows), 1), dtype=np.uint64)], axis=1
        )
        edges[np.arange(len(rows)), parts] = regions.upper[rows]
        child, number = np.nonzero(np.arange(asking.cuts.shape[1] + 1) < parts[chosen, None])
        own = chosen[child]
        at, column = at[split[at]], column[split[at]]
        self._note_splits(regions, rows[at], asking.cuts[at, column])
        return _Open.without_walls(
            edges[own, number], edges[own, number + 1], bounds[own, number], bounds[own, number + 1],
            clock[rows[own]] + 1,
        )  # fmt: skip

    def _end_cells(self, regions: _Open, rows: Integers, asking: Asking, split: Flags, yes: Integers) -> None:
        """Cells that did not split end; where answers are yes or no, the last question is a wall."""
        stay = np.flatnonzero(~split)
        if self.task.randomizer.words == 1 and self.task.randomizer.fanout == 2:
            walls = Walls(np.arange(len(stay) + 1), asking.cuts[stay, 0], asking.asked[stay], yes[stay])
        else:
            walls = Walls.none(len(stay))
        self._finish(regions.pick(rows[stay]), walls)

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


def _with_walls(regions: _Open, region: Integers, others: tuple[npt.NDArray[Any], ...]) -> _Open:
    """The regions with one more wall in some of them (ascending), put where its cut belongs, behind equal ones."""
    count = len(regions.lower)
    at = np.zeros(count, dtype=np.uint64)
    at[region] = others[0]
    below = np.bincount(regions.wall_region[regions.wall_cut <= at[regions.wall_region]], minlength=count)
    place = np.searchsorted(regions.wall_region, region) + below[region]
    columns = (np.insert(old, place, more) for old, more in zip(regions[7:], (region, *others), strict=True))
    return _Open(*regions[:7], *columns)


def _portions(sizes: Integers) -> list[Integers]:
    """Rows of ranges, in order, so many together that they have a limited length in all."""
    whole = np.cumsum(sizes)
    return np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(whole // _TOGETHER)) + 1) if len(sizes) else []
