"""The attacker: knows everybody's position but one, and tells two positions of that one apart by its reports.

``play`` follows one participant, the victim, through many independent plays of the protocol. Plays with the same
verdicts so far are played together: everybody else's part of a tally is drawn at once, the victim's report is drawn by
itself, with the code of real devices, and the verdicts come from :mod:`semilocal.protocol.rule`.

The score of a play is the log of how much likelier the victim's reports are at one position than at the other. It is
the best statistic there is (Neyman and Pearson), and it uses nothing but the public transcript.

Knows the protocol's public rules. Uses no knowledge of the victim that an observer does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ..arrays import Flags, Floats, Integers
from ..errors import InvalidInput
from ..hierarchy.base import Cells
from ..protocol.rule import Frontier, decide
from ..protocol.task import Task
from ..randomizer import DiscreteLaplace, PaperLaplace, RandomizedResponse
from .bounds import CONFIDENCE, LossBound, loss_lower_bound, sharpest_event

__all__ = ["Claim", "Pair", "Plays", "attack", "choose_neighbour", "play", "report_scores"]


Claim = Literal["inside", "moved", "nothing"]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring inputs: the same task and others, the victim at one of two positions."""

    task: Task
    others: Floats  # float64[n - 1, d]
    here: tuple[float, ...]
    there: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Plays:
    """Many plays.

    Attributes
    ----------
    regions : uint64[runs]
        Where the victim's path ended.
    scores : float64[runs]
        Log-likelihood ratio of its reports, first position over second; -inf if the region does not contain both (for a
        moved position: if it would not have come there).
    moves : int64[runs, 2]
        How often the victim was, or would have been, moved at the two positions.
    crowds: int64[runs]
        How many are in its region, itself included.
    trims : int64[runs]
        T: TRIMs on the path of its region.
    """

    regions: Cells
    scores: Floats
    moves: Integers
    crowds: Integers
    trims: Integers

    def claimed(self, claim: Claim, *, trims: int | None = None) -> Floats:
        """Scores of plays in which something is claimed about the two positions; -inf for the others.

        Parameters
        ----------
        claim : {"inside", "moved", "nothing"}
            Both positions lie inside the published region; the first was moved and the second lies inside; both were
            moved, about which nothing is claimed.
        trims : int, optional
            Only plays with at most so many TRIMs on the path.
        """
        here, there = (self.moves > 0).T
        chosen = {"inside": ~here & ~there, "moved": here & ~there, "nothing": here & there}[claim]
        if trims is not None:
            chosen = chosen & (self.trims <= trims)
        return np.where(chosen, self.scores, -np.inf)


def play(pair: Pair, *, runs: int, rng: np.random.Generator, at: str = "here") -> Plays:
    """Play the protocol ``runs`` times with the victim at one of the two positions.

    Parameters
    ----------
    pair : Pair
    at : {"here", "there"}
        Where the victim is. Scores are always "here" over "there".
    """
    if at not in ("here", "there"):
        raise InvalidInput(f"at must be 'here' or 'there'; got {at!r}")
    task = pair.task
    codes = task.hierarchy.codes(np.array([pair.here, pair.there]))
    others = task.hierarchy.codes(pair.others) if len(pair.others) else np.empty(0, dtype=np.uint64)
    out = Plays(
        np.zeros(runs, dtype=np.uint64), np.zeros(runs), np.zeros((runs, 2), np.int64), np.zeros(runs, np.int64),
        np.zeros(runs, np.int64),
    )  # fmt: skip
    world = 0 if at == "here" else 1
    start = _Node(1, 1, others, codes, np.arange(runs), np.zeros(runs), 0, np.nan, np.zeros(2, np.int64), True)
    waiting = [start]
    while waiting:
        waiting += _step(task, waiting.pop(), world, out, rng)
    return out


@dataclass(frozen=True, eq=False)
class _Node:
    """Plays with the same verdicts so far on the victim's path."""

    round: int
    cell: int
    others: Cells  # deepest cells of everybody else in the cell
    codes: Cells  # uint64[2]: of the victim at the two positions
    runs: Integers
    scores: Floats
    trims: int
    expected: float
    moves: Integers  # int64[2]
    together: bool  # whether both positions would have come here


def _step(task: Task, node: _Node, world: int, out: Plays, rng: np.random.Generator) -> list[_Node]:
    """One round of all plays of a node."""
    if node.round > task.max_rounds:
        _end(node, node.runs, node.scores, _End(node.cell, node.together, len(node.others) + 1), out)
        return []
    hierarchy, randomizer, size = task.hierarchy, task.randomizer, len(node.runs)
    fanout, depth = hierarchy.fanout, node.round - 1
    children = hierarchy.child_of(node.codes, depth)
    counts = np.bincount(hierarchy.child_of(node.others, depth), minlength=fanout)
    reports = randomizer.respond_many(np.full(size, children[world]), rng)
    tally = randomizer.draw_tally(np.tile(counts, (size, 1)), rng)
    tally = tally + randomizer.tally(reports, np.arange(size), size)
    scores = node.scores + report_scores(task, reports, int(children[0]), int(children[1]))
    frontier = Frontier(
        np.full(size, node.cell, dtype=np.uint64), np.full(size, node.trims), np.full(size, node.expected)
    )
    ruling = decide(task, frontier, np.full(size, len(node.others) + 1), tally)
    patterns, which = np.unique(ruling.kept, axis=0, return_inverse=True)
    following = []
    for number, kept in enumerate(patterns):
        chosen = np.flatnonzero(which.ravel() == number)
        if not kept.any() and task.rule != "each":
            end = _End(node.cell, node.together, len(node.others) + 1)
            _end(node, node.runs[chosen], scores[chosen], end, out)
            continue
        after = _after(task, node, kept, world, children)
        if isinstance(after, _End):
            _end(node, node.runs[chosen], scores[chosen], after, out)
            continue
        # The estimate of the victim's cell steers only the published code's margin; plays differ in it a little.
        expected = ruling.estimates[chosen, int(hierarchy.number([after.cell])[0])]
        groups = [np.arange(len(chosen))] if task.size_from == "responders" else [
            np.flatnonzero(np.rint(expected) == value) for value in np.unique(np.rint(expected))
        ]  # fmt: skip
        for group in groups:
            rows = chosen[group]
            following.append(
                _Node(
                    node.round + 1, after.cell, after.others, after.codes, node.runs[rows], scores[rows], after.trims,
                    float(np.mean(expected[group])), after.moves, after.together,
                )
            )  # fmt: skip
    return following


class _End(NamedTuple):
    """A region, whether it holds both positions, and its crowd."""

    region: int
    together: bool
    crowd: int


@dataclass(frozen=True, eq=False)
class _Moved:
    """Where plays go on."""

    cell: int
    others: Cells
    codes: Cells
    trims: int
    moves: Integers
    together: bool


def _after(task: Task, node: _Node, kept: Flags, world: int, children: Integers) -> _Moved | _End:
    """Where everybody goes under a verdict, or where the victim's path ends."""
    hierarchy, depth = task.hierarchy, node.round - 1
    codes, others, moves, trims = node.codes.copy(), node.others, node.moves.copy(), node.trims
    if task.rule == "each":
        if not kept[children[world]]:
            crowd = 1 + int((hierarchy.child_of(others, depth) == children[world]).sum())
            together = node.together and bool(children[0] == children[1])
            return _End(int(hierarchy.child([node.cell], children[world])[0]), together, crowd)
    elif not kept.all():
        trims += 1
        for position in (0, 1):
            if not kept[children[position]]:
                moves[position] += 1
        codes = _move(task, codes, node.cell, kept)
        others = _move(task, others, node.cell, kept)
    ends = hierarchy.child_of(codes, depth)
    child = int(ends[world])
    inside = others[hierarchy.child_of(others, depth) == child]
    together = node.together and bool(ends[0] == ends[1])
    return _Moved(int(hierarchy.child([node.cell], child)[0]), inside, codes, trims, moves, together)


def _move(task: Task, codes: Cells, cell: int, kept: Flags) -> Cells:
    child = task.hierarchy.child_of(codes, int(task.hierarchy.depth([cell])[0]))
    out = codes.copy()
    away = ~kept[child]
    if away.any():
        count = int(away.sum())
        out[away] = task.hierarchy.nearest(
            codes[away], np.full(count, cell, dtype=np.uint64), np.tile(kept, (count, 1))
        )
    return out


def _end(node: _Node, runs: Integers, scores: Floats, end: _End, out: Plays) -> None:
    out.regions[runs], out.crowds[runs], out.moves[runs] = end.region, end.crowd, node.moves
    out.trims[runs] = node.trims
    out.scores[runs] = scores if end.together else -np.inf


def report_scores(task: Task, reports: Integers, here: int, there: int) -> Floats:
    """Log of how much likelier each report is in child ``here`` than in child ``there``: float64[n]."""
    randomizer = task.randomizer
    if here == there:
        return np.zeros(len(reports))
    if isinstance(randomizer, RandomizedResponse):
        true, other = randomizer.probabilities
        gain = float(np.log(true / other))
        return np.asarray(gain * ((reports == here).astype(np.float64) - (reports == there)))
    if isinstance(randomizer, DiscreteLaplace):
        values, weights = randomizer.alphabet
        zero = np.log(np.array([float(weight) for weight in weights]))  # of an entry that is truly 0
        one = zero[::-1]  # y has the weight of 1 - y
        first = int(values[0])
        gain_of = one - zero
        return np.asarray(gain_of[reports[:, here] - first] - gain_of[reports[:, there] - first])
    assert isinstance(randomizer, PaperLaplace)
    entry = reports / randomizer.unit
    distance: Callable[[Floats], Floats] = lambda y: (np.abs(y) - np.abs(y - 1)) / randomizer.scale  # noqa: E731
    return np.asarray(distance(entry[:, here]) - distance(entry[:, there]))


def choose_neighbour(
    task: Task, others: Floats, here: tuple[float, ...], *, rng: np.random.Generator, runs: int = 2000
) -> tuple[float, ...]:
    """A second position in the region that the victim most often ends in, in another child than the first.

    Found in plays of its own, so that the choice does not bias the attack that follows.
    """
    plays = play(Pair(task, others, here, here), runs=runs, rng=rng)
    hierarchy = task.hierarchy
    cells, counts = np.unique(plays.regions, return_counts=True)
    depths = hierarchy.depth(cells)
    inner = depths < min(task.max_rounds, hierarchy.max_depth)
    if not inner.any():
        raise InvalidInput("the victim always ends in a cell of the last round, which nobody is asked about")
    cell = cells[inner][np.argmax(counts[inner])]
    depth = int(hierarchy.depth(np.array([cell]))[0])
    own = int(hierarchy.child_of(hierarchy.codes(np.array([here])), depth)[0])
    siblings = hierarchy.children(np.array([cell]))
    target = siblings[(own + 1) % len(siblings)]
    box = hierarchy.boxes(np.array([target]))[0]
    return tuple(float(x) for x in box.mean(axis=0))


def attack(
    pair: Pair, *, runs: int, rng: np.random.Generator, claim: Claim = "inside", trims: int | None = None,
    confidence: float = CONFIDENCE, extra: Callable[[int, str], Floats] | None = None,
) -> dict[str, LossBound]:  # fmt: skip
    """Lower bounds on the loss: for both directions separately, or for the one that is claimed.

    Parameters
    ----------
    pair : Pair
    runs : int
        Plays per world for the bound; a fifth as many again are played to choose the event.
    claim, trims
        Use only transcripts about which this is claimed; see :meth:`Plays.claimed`. With "moved" the first position of
        the pair is the moved one, and only its direction is claimed.
    extra : callable, optional
        Scores of something released after the partition, for a number of plays and a world ("here", "there"); they are
        added to the transcript's.

    Returns
    -------
    dict
        ``{"here over there": …, "there over here": …}``; with "moved" the first alone. The event is chosen on plays of
        its own, so each bound holds with the stated confidence.
    """
    bounds = {}
    directions = (("here", "there", 1), ("there", "here", -1))
    for first, second, sign in directions[:1] if claim == "moved" else directions:

        def scores(world: str, size: int, sign: int = sign) -> Floats:
            played = play(pair, runs=size, rng=rng, at=world)
            raw = played.claimed(claim, trims=trims)
            more = extra(size, world) if extra is not None else 0.0
            return np.where(np.isfinite(raw), sign * (raw + more), -np.inf)

        pilot = max(runs // 5, 1000)
        threshold = sharpest_event(scores(first, pilot), scores(second, pilot))
        hits = int((scores(first, runs) >= threshold).sum())
        misses = int((scores(second, runs) >= threshold).sum())
        bounds[f"{first} over {second}"] = loss_lower_bound(hits, misses, runs=runs, confidence=confidence)
    return bounds
