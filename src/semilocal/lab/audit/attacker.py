"""The attacker: knows everybody's position but one, and tells two positions of that one apart by its reports.

``play`` follows one participant, the victim, through many independent plays, side by side. What is asked and
what the answers mean comes from :mod:`semilocal.protocol.rule`, for all plays at once; draws and answers are made
play by play, with the noise of real devices. Only the victim's region is followed, because nothing else depends on it.

The score of a play is the log of how much likelier the victim's answers are at one position than at the other. It is
the best statistic there is (Neyman and Pearson), and it uses nothing but the public transcript.

Knows the protocol's public rules. Uses no knowledge of the victim that an observer does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ...arrays import Floats, Integers
from ...errors import InvalidInput
from ...hierarchy.base import Cells
from ...protocol.estimate import Walls
from ...protocol.rule import Asking, Census, go_on, questions, randomizer_for, refinements, splits
from ...protocol.task import Task
from ...randomizer import DiscreteLaplace, PaperLaplace, RandomizedResponse
from ...randomizer.base import Randomizer
from .bounds import LossBound, bound_by_plays

_PILOT = 400  # plays that show where the victim ends
_BATCH = 2000  # plays side by side
_ROUNDS = 3  # that a question may take: two portions, and the announcement
_COMMON = 0.1  # share of plays that tell a neighbour apart, at least


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring inputs: the same task and others, the victim at one of two positions."""

    task: Task
    others: Floats  # float64[n - 1, d]
    here: tuple[float, ...]
    there: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Plays:
    """Many plays; a row each."""

    lower: Cells  # uint64[runs]: the region that the victim announced last
    upper: Cells
    scores: Floats  # log-likelihood ratio of its answers; -inf if the region does not hold both positions
    crowds: Integers  # how many are in its region, itself included
    cuts: list[tuple[int, ...]]  # lines inside that region that the victim answered about


@dataclass(eq=False)
class _Play:
    """One play: the victim's region and what everybody knows about it. Person 0 is the victim."""

    lower: int
    upper: int
    people: Integers  # members
    booked: Integers  # answers inside, per person
    failed: list[int] = field(default_factory=list)
    asked: list[tuple[int, Integers, Integers]] = field(default_factory=list)  # cut, who, what they said
    score: float = 0.0
    round: int = 1  # that is closed
    ended: bool = False
    done: bool = False


def play(pair: Pair, *, runs: int, rng: np.random.Generator, at: str = "here") -> Plays:
    """Play the protocol with the victim ``at`` "here" or "there"; scores are always "here" over "there"."""
    if at not in ("here", "there"):
        raise InvalidInput(f"at must be 'here' or 'there'; got {at!r}")
    hierarchy = pair.task.hierarchy
    two = hierarchy.codes(np.array([pair.here, pair.there]))
    others = hierarchy.codes(pair.others) if len(pair.others) else np.empty(0, dtype=np.uint64)
    codes = np.concatenate([two[:1] if at == "here" else two[1:], others])
    plays: list[_Play] = []
    for begin in range(0, runs, _BATCH):
        some = [
            _Play(*hierarchy.ends, np.arange(len(codes)), np.zeros(len(codes), dtype=np.int64))
            for _ in range(min(_BATCH, runs - begin))
        ]
        while waiting := [one for one in some if not one.done]:
            _step(pair.task, waiting, codes, two, rng)
        plays += some
    both = [one.lower <= min(two) and max(two) < one.upper for one in plays]
    lower, upper = (np.array([getattr(one, end) for one in plays], dtype=np.uint64) for end in ("lower", "upper"))
    return Plays(
        lower, upper,
        np.where(both, [one.score for one in plays], -np.inf), np.array([len(one.people) for one in plays]),
        [tuple(cut for cut, who, _ in one.asked if 0 in who) for one in plays],
    )  # fmt: skip


def _step(task: Task, plays: list[_Play], codes: Cells, two: Cells, rng: np.random.Generator) -> None:
    """The next question of every play: one that decides, then refinements."""
    for one in plays:
        one.ended |= one.round + _ROUNDS > task.max_rounds
        one.done = one.round >= task.max_rounds
    plays = [one for one in plays if not one.done]
    deciding, ended = ([one for one in plays if one.ended is flag] for flag in (False, True))
    for some, ask in ((deciding, questions), (ended, refinements)):
        if not some:
            continue
        asking = ask(task, _census(task, some))
        for place, row in enumerate(asking.rows.tolist()):
            asked = Asking(*(column[place : place + 1] for column in asking))  # type: ignore[arg-type]
            _question(task, some[row], asked, codes, two, rng)
        for row in set(range(len(some))) - set(asking.rows.tolist()):
            some[row].ended, some[row].done = True, some[row].ended


def _census(task: Task, plays: list[_Play]) -> Census:
    free = [int((one.booked[one.people] < task.answers).sum()) for one in plays]
    first, cuts, asked, yes = [0], [], [], []
    for one in plays:
        if task.rule == "cut":
            found: dict[int, list[int]] = {}
            for cut, _, said in one.asked:
                count = found.setdefault(cut, [0, 0])
                count[0] += len(said)
                count[1] += int(said.sum())
            for cut in sorted(found):
                cuts.append(cut)
                asked.append(found[cut][0])
                yes.append(found[cut][1])
        first.append(len(cuts))
    walls = Walls(np.array(first), np.array(cuts, dtype=np.uint64), np.array(asked, int), np.array(yes, int))
    lower, upper = (np.array([getattr(one, end) for one in plays], dtype=np.uint64) for end in ("lower", "upper"))
    members, failed = (np.array([len(getattr(one, name)) for one in plays]) for name in ("people", "failed"))
    return Census(lower, upper, members, np.array(free), failed, walls)


def _question(task: Task, one: _Play, asking: Asking, codes: Cells, two: Cells, rng: np.random.Generator) -> None:
    """Draw, ask in two portions, judge; the victim's region goes on in its part after a split."""
    cuts = asking.cuts[0][asking.cuts[0] > 0]
    free = one.people[one.booked[one.people] < task.answers]
    who = rng.permutation(free)[: int(asking.asked[0])]
    randomizer = randomizer_for(task, len(cuts) + 1)
    parts = np.searchsorted(cuts, codes[who], side="right")
    reports = randomizer.respond_many(parts, rng)
    portion, decides = int(asking.portion[0]), asking.threshold[0] > 0
    one.round += 1
    if decides and portion < len(who):
        yes = np.array([int(reports[:portion].sum())])
        if not go_on(task, asking, np.array([portion]), yes)[0]:
            who, reports = who[:portion], reports[:portion]
        else:
            one.round += 1
    tally = reports.sum(axis=0) if reports.ndim > 1 else np.bincount(reports, minlength=randomizer.fanout)
    if decides and len(who) == asking.asked[0] and splits(tally[None], asking.threshold)[0]:
        _enter(one, [one.lower, *cuts.tolist(), one.upper], codes)
        return
    if decides:
        one.failed.append(int(cuts[0]))
    one.asked.append((int(cuts[0]), who, reports))
    one.booked[who] += 1
    if 0 in who:
        own = np.searchsorted(cuts, two, side="right").tolist()
        one.score += float(report_scores(randomizer, reports[who == 0], own[0], own[1])[0])


def _enter(one: _Play, edges: list[int], codes: Cells) -> None:
    """Go on in the part that holds the victim; what was asked outside no longer counts."""
    one.round += 1
    place = int(np.searchsorted(edges, int(codes[0]), side="right")) - 1
    one.lower, one.upper = edges[place], edges[place + 1]
    own = codes[one.people]
    one.people = one.people[(own >= one.lower) & (own < one.upper)]
    present = np.zeros(len(codes), dtype=bool)
    present[one.people] = True
    one.failed = [cut for cut in one.failed if one.lower < cut < one.upper]
    one.asked = [
        (cut, who[present[who]], said[present[who]]) for cut, who, said in one.asked if one.lower < cut < one.upper
    ]
    one.booked[:] = 0
    for _, who, _ in one.asked:
        one.booked[who] += 1


def report_scores(randomizer: Randomizer, reports: Integers, here: int, there: int) -> Floats:
    """Log of how much likelier each answer is in part ``here`` than in part ``there``: float64[n]."""
    if here == there:
        return np.zeros(len(reports))
    if isinstance(randomizer, RandomizedResponse):
        true, other = randomizer.probabilities
        gain = float(np.log(true / other))
        return np.asarray(gain * ((reports == here).astype(np.float64) - (reports == there)))
    if isinstance(randomizer, DiscreteLaplace):
        values, weights = randomizer.alphabet
        zero = np.log(np.array([float(weight) for weight in weights]))  # of an entry that is truly 0
        gain_of, first = zero[::-1] - zero, int(values[0])  # y has the weight of 1 - y
        return np.asarray(gain_of[reports[:, here] - first] - gain_of[reports[:, there] - first])
    assert isinstance(randomizer, PaperLaplace)
    entry = reports / randomizer.unit
    gains = (np.abs(entry) - np.abs(entry - 1)) / randomizer.scale
    return np.asarray(gains[:, here] - gains[:, there])


def choose_neighbour(
    task: Task, others: Floats, here: tuple[float, ...], *, rng: np.random.Generator
) -> tuple[float, ...] | None:
    """A second position that is often in the victim's region, on the other side of a line that it answered about.

    Found in plays of its own, so that the choice does not bias the attack that follows. None if there is hardly any.
    """
    plays = play(Pair(task, others, here, here), runs=_PILOT, rng=rng)
    hierarchy = task.hierarchy
    own = int(hierarchy.codes(np.array([here]))[0])
    candidates = np.unique(np.concatenate([rng.permutation(others)[:200], others[:1]]), axis=0)
    codes = hierarchy.codes(candidates)
    useful = np.zeros(len(codes))
    for lower, upper, cuts in zip(plays.lower.tolist(), plays.upper.tolist(), plays.cuts, strict=True):
        inside = (codes >= lower) & (codes < upper)
        apart = sum(((codes >= cut) != (own >= cut)).astype(np.int64) for cut in cuts) if cuts else 0
        useful += inside * apart
    best = int(np.argmax(useful))
    return tuple(candidates[best].tolist()) if useful[best] >= _COMMON * _PILOT else None


def attack(
    pair: Pair, *, runs: int, rng: np.random.Generator, extra: Callable[[int, str], Floats] | None = None
) -> dict[str, LossBound]:
    """Lower bounds on the loss between the two positions, for both directions, each with the stated confidence.

    ``extra`` scores something released after the partition, for a number of plays and a world ("here", "there"); that
    is added to the transcript's score. Keys are "here over there" and "there over here".
    """
    bounds = {}
    for first, second, sign in (("here", "there", 1), ("there", "here", -1)):

        def scores(world: str, sign: int, size: int) -> Floats:
            raw = play(pair, runs=size, rng=rng, at=world).scores
            more = extra(size, world) if extra is not None else 0.0
            return np.where(np.isfinite(raw), sign * (raw + more), -np.inf)

        worlds = (partial(scores, world, sign) for world in (first, second))
        bounds[f"{first} over {second}"] = bound_by_plays(*worlds, runs=runs)
    return bounds
