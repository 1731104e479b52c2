"""The attacker: knows everybody's position but one, and tells two positions of that one apart by its reports.

``play`` follows one participant, the victim, through many independent plays of the protocol. Plays with the same
verdicts so far are played together: everybody else's part of a tally is drawn at once, the victim's report is drawn by
itself, with the code of real devices, and the verdicts come from :mod:`semilocal.protocol.rule`. A
participant who was moved is in each child with the same chance, as on devices.

The score of a play is the log of how much likelier the victim's reports are at one position than at the other. It is
the best statistic there is (Neyman and Pearson), and it uses nothing but the public transcript.

Knows the protocol's public rules. Uses no knowledge of the victim that an observer does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from ..arrays import Flags, Floats, Integers
from ..errors import InvalidInput
from ..hierarchy.base import Cells
from ..protocol.rule import decide, frontier_at
from ..protocol.task import Task
from ..randomizer import DiscreteLaplace, PaperLaplace, RandomizedResponse
from .bounds import LossBound, bound_by_plays

__all__ = ["Claim", "Pair", "Plays", "attack", "choose_neighbour", "play", "report_scores"]


Claim = Literal["inside", "moved", "nothing"]
_PILOT = 2000  # plays that show where the victim ends


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
    moved : bool[runs, 2]
        Whether the victim was, or would have been, moved at the two positions.
    crowds: int64[runs]
        How many are in its region, itself included.
    trims : int64[runs]
        T: TRIMs on the path of its region.
    """

    regions: Cells
    scores: Floats
    moved: Flags
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
            Only plays with at most this many TRIMs on the path.
        """
        here, there = self.moved.T
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
        np.zeros(runs, dtype=np.uint64), np.zeros(runs), np.zeros((runs, 2), bool), np.zeros(runs, np.int64),
        np.zeros(runs, np.int64),
    )  # fmt: skip
    world = 0 if at == "here" else 1
    start = _Node(
        1, 1, others, np.zeros(runs, np.int64), codes, np.zeros(2, bool), np.arange(runs), np.zeros(runs), 0, np.nan,
        np.zeros(runs), np.zeros(runs), True,
    )  # fmt: skip
    waiting = [start]
    while waiting:
        waiting += _step(task, waiting.pop(), world, out, rng)
    return out


@dataclass(frozen=True, eq=False)
class _Node:
    """Plays with the same verdicts so far on the victim's path, and the same cells on it."""

    round: int
    cell: int
    others: Cells  # codes of everybody else in the cell who was never moved
    drifting: Integers  # int64[plays]: how many of the others in the cell were moved
    codes: Cells  # uint64[2]: of the two positions
    moved: Flags  # bool[2]: whether each would have been moved
    runs: Integers
    scores: Floats
    trims: int
    expected: float
    visitors: Floats  # float64[plays]: expected in the cell, from what is public
    doubt: Floats  # float64[plays]: the variance of their number
    together: bool  # whether both positions could have come here


def _step(task: Task, node: _Node, world: int, out: Plays, rng: np.random.Generator) -> list[_Node]:
    """One round of all plays of a node."""
    everybody = np.arange(len(node.runs))
    if node.round > task.max_rounds:
        _end(node, everybody, node.scores, node.cell, node.drifting + len(node.others) + 1, out)
        return []
    hierarchy, randomizer, size = task.hierarchy, task.randomizer, len(node.runs)
    fanout, depth = hierarchy.fanout, node.round - 1
    own = hierarchy.child_of(node.codes, depth)
    child = rng.integers(0, fanout, size) if node.moved[world] else np.full(size, own[world])
    fixed = np.bincount(hierarchy.child_of(node.others, depth), minlength=fanout)
    drift = rng.multinomial(node.drifting, np.full(fanout, 1 / fanout))
    reports = randomizer.respond_many(child, rng)
    tally = randomizer.draw_tally(fixed + drift, rng) + randomizer.tally(reports, np.arange(size), size)
    cells = np.full(size, node.cell, dtype=np.uint64)
    frontier = frontier_at(cells, trims=node.trims, expected=node.expected, visitors=node.visitors, doubt=node.doubt)
    ruling = decide(task, frontier, node.drifting + len(node.others) + 1, tally)
    visitors, doubt = np.zeros(ruling.kept.shape), np.zeros(ruling.kept.shape)
    visitors[ruling.kept], doubt[ruling.kept] = ruling.frontier.visitors, ruling.frontier.doubt
    # Log of how likely each report is in each child, up to a constant.
    likely = np.stack([report_scores(task, reports, place, 0) for place in range(fanout)], axis=1)
    patterns, which = np.unique(ruling.kept, axis=0, return_inverse=True)
    following = []
    for number, kept in enumerate(patterns):
        chosen = np.flatnonzero(which.ravel() == number)
        if not kept.any() and task.rule != "each":
            scores = node.scores[chosen] + _gain(node, own, likely[chosen], kept, None)
            _end(node, chosen, scores, node.cell, node.drifting[chosen] + len(node.others) + 1, out)
            continue
        arrives = child[chosen]
        away = ~kept[arrives]
        if task.rule == "each":
            _leave(task, node, chosen[away], child, likely, fixed, own, out)
            chosen, arrives = chosen[~away], arrives[~away]
        else:
            arrives = np.where(away, rng.choice(np.flatnonzero(kept), len(arrives)), arrives)
        for goal in np.unique(arrives).tolist():
            rows = chosen[arrives == goal]
            leaving = (fixed + drift[rows])[:, ~kept].sum(axis=1) if task.rule != "each" else np.zeros(len(rows), int)
            comes = drift[rows, goal] + rng.binomial(leaving, 1 / max(int(kept.sum()), 1))
            known = ruling.estimates[rows, goal], visitors[rows, goal], doubt[rows, goal]
            following += _after(task, node, rows, kept, goal, comes, likely[rows], own, known)
    return following


def _after(
    task: Task, node: _Node, rows: Integers, kept: Flags, goal: int, drifting: Integers, likely: Floats, own: Integers,
    known: tuple[Floats, Floats, Floats],
) -> list[_Node]:  # fmt: skip
    """The nodes of plays that go on in one child; ``known`` are its estimate, visitors and doubt in each play."""
    expected, visitors, doubt = known
    hierarchy, trim = task.hierarchy, task.rule != "each" and not kept.all()
    fits = [node.moved[i] or own[i] == goal or (trim and not kept[own[i]]) for i in (0, 1)]
    together = node.together and all(fits)
    gain = _gain(node, own, likely, kept, goal) if together else np.zeros(len(rows))
    moved = node.moved | (~kept[own] if trim else False)
    inside = node.others[hierarchy.child_of(node.others, node.round - 1) == goal]
    cell = int(hierarchy.child([node.cell], goal)[0])
    # The estimate of the victim's cell steers only the published code's margin; plays differ in it a little.
    near = np.rint(expected) if task.size_from == "estimate" else np.zeros(len(rows))
    return [
        _Node(
            node.round + 1, cell, inside, drifting[near == value], node.codes, np.asarray(moved),
            node.runs[rows][near == value], (node.scores[rows] + gain)[near == value], node.trims + trim,
            float(np.mean(expected[near == value])), visitors[near == value], doubt[near == value],
            together,
        )
        for value in np.unique(near)
    ]  # fmt: skip


def _leave(
    task: Task, node: _Node, rows: Integers, child: Integers, likely: Floats, fixed: Integers, own: Integers, out: Plays
) -> None:
    """Rule "each": the victim's child failed and is its region at once."""
    if len(rows):
        place = int(child[rows[0]])
        scores = node.scores[rows] + likely[rows, own[0]] - likely[rows, own[1]]
        if own[0] != own[1]:
            scores[:] = -np.inf
        region = int(task.hierarchy.child([node.cell], place)[0])
        _end(node, rows, scores, region, np.full(len(rows), fixed[place] + 1), out)


def _gain(node: _Node, own: Integers, likely: Floats, kept: Flags, goal: int | None) -> Floats:
    """Log of how much likelier a report and the way into a child are "here" than "there": float64[n].

    A moved participant is in every child with the same chance. Without a goal the path ends.
    """
    logs = []
    for moved, place in zip(node.moved.tolist(), own.tolist(), strict=True):
        if goal is None:
            weights = np.full(likely.shape[1], 1 / likely.shape[1]) if moved else np.eye(likely.shape[1])[place]
        else:
            into = np.where(kept, 0.0, 1 / kept.sum())  # chance of being moved into the goal from each child
            into[goal] = 1.0
            weights = into / likely.shape[1] if moved else np.where(np.arange(likely.shape[1]) == place, into, 0.0)
        logs.append(np.log(np.exp(likely) @ weights))
    return np.asarray(logs[0] - logs[1])


def _end(node: _Node, rows: Integers, scores: Floats, region: int, crowds: Integers, out: Plays) -> None:
    runs = node.runs[rows]
    out.regions[runs], out.crowds[runs], out.moved[runs], out.trims[runs] = region, crowds, node.moved, node.trims
    out.scores[runs] = scores if node.together else -np.inf


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
    task: Task, others: Floats, here: tuple[float, ...], *, rng: np.random.Generator
) -> tuple[float, ...] | None:
    """A second position in the region that the victim most often ends in, in another child than the first.

    Found in plays of its own, so that the choice does not bias the attack that follows. None if the victim mostly ends
    in a region that is not divided further, such as a leaf of a table: nobody is asked about places inside those.
    """
    plays = play(Pair(task, others, here, here), runs=_PILOT, rng=rng)
    hierarchy = task.hierarchy
    cells, counts = np.unique(plays.regions, return_counts=True)
    depths = hierarchy.depth(cells)
    inner = depths < min(task.max_rounds, hierarchy.max_depth)
    inner[inner] = hierarchy.fanouts(cells[inner]) > 1
    if 2 * counts[inner].sum() < _PILOT:
        return None
    cell = cells[inner][np.argmax(counts[inner])]
    depth = int(hierarchy.depth(np.array([cell]))[0])
    own = int(hierarchy.child_of(hierarchy.codes(np.array([here])), depth)[0])
    siblings = hierarchy.children(np.array([cell]))
    target = siblings[(own + 1) % len(siblings)]
    box = hierarchy.boxes(np.array([target]))[0]
    return tuple(float(x) for x in box.mean(axis=0))


def attack(
    pair: Pair, *, runs: int, rng: np.random.Generator, claim: Claim = "inside", trims: int | None = None,
    extra: Callable[[int, str], Floats] | None = None,
) -> dict[str, LossBound]:  # fmt: skip
    """Lower bounds on the loss: for both directions separately, or for the one that is claimed.

    Parameters
    ----------
    pair : Pair
    runs : int
        As for :func:`semilocal.audit.bounds.bound_by_plays`.
    claim, trims
        Use only transcripts about which this is claimed; see :meth:`Plays.claimed`. With "moved" the first position of
        the pair is the moved one, and only its direction is claimed.
    extra : callable, optional
        Scores of something released after the partition, for a number of plays and a world ("here", "there"); they are
        added to the transcript's.

    Returns
    -------
    dict
        ``{"here over there": …, "there over here": …}``; with "moved" the first alone. Each bound holds
        with the stated confidence.
    """
    bounds = {}
    directions = (("here", "there", 1), ("there", "here", -1))
    for first, second, sign in directions[:1] if claim == "moved" else directions:

        def scores(world: str, sign: int, size: int) -> Floats:
            played = play(pair, runs=size, rng=rng, at=world)
            raw = played.claimed(claim, trims=trims)
            more = extra(size, world) if extra is not None else 0.0
            return np.where(np.isfinite(raw), sign * (raw + more), -np.inf)

        worlds = (partial(scores, world, sign) for world in (first, second))
        bounds[f"{first} over {second}"] = bound_by_plays(*worlds, runs=runs)
    return bounds
