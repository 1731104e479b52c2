"""The catalogue: what is claimed, attacked one by one; our own mechanisms, and wrong ones that must be caught.

Each case is a function of the number of plays and a random generator that returns ``Finding``s. A finding holds if the
measured bound does not contradict the claim. Cases marked ``broken`` are wrong on purpose: an audit that lets them pass
is not worth believing.

Knows how to attack. Adjacencies are those of the promise: two positions of one participant inside the region that the
transcript publishes for it, a moved position against one inside, or (pooled tree) two positions anywhere; everybody
else stays. Delta is 0 for losses.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..arrays import Floats
from ..geometry.box import Box
from ..protocol.messages import Query
from ..protocol.participant import Participant, Policy
from ..protocol.task import Task
from ..randomizer import DiscreteLaplace, PaperLaplace, RandomizedResponse
from ..randomizer.values.mechanisms import best
from ..simulation.simulate import simulate
from .attacker import Pair, attack, choose_neighbour, play
from .bounds import CONFIDENCE, LossBound, loss_lower_bound, share_bounds
from .exact import crowd_test_failure, laplace_sum_tail, randomizer_loss, value_loss
from .outputs import COMMANDS, SHARED, differing, equal_worlds
from .pooled import TOP, ForgetfulCounter, LoudCounter, attack_pooled, worst_pair
from .sums import attack_sums, worst_sums

__all__ = ["CASES", "Finding", "audit_moved", "audit_task", "default_task"]


_TOWNS = (40, 10, 3, 1)  # crowds of a town, until regions have parts
_CROWDS = (40, 400, 4000)  # in a corner, until TRIMs move a victim in the opposite one
_PILOT = 200  # plays that show whether they do


@dataclass(frozen=True)
class Finding:
    """One line of the audit.

    Attributes
    ----------
    what : str
    kind : {"epsilon", "share"}
        A loss (delta 0, between the positions that ``what`` names), or a chance.
    claimed, measured : float
        ``measured`` is a lower bound with the stated confidence, or exact.
    how : str
        Confidence and plays, or "exact".
    broken : bool
        Whether it is wrong on purpose and has to be caught.
    upper : float or None
        For shares that were sampled: the upper bound.
    """

    what: str
    kind: Literal["epsilon", "share"]
    claimed: float
    measured: float
    how: str
    broken: bool = False
    upper: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the claim is not contradicted. Exact figures may differ by rounding."""
        return self.measured <= self.claimed * (1 + 1e-9)

    @property
    def verdict(self) -> str:
        """For a person."""
        if self.broken:
            return "MISSED" if self.holds else "caught"
        return "holds" if self.holds else "BROKEN"


def default_task(**changes: object) -> Task:
    """The task of the audit: our defaults at epsilon = 1, k = 50, delta = 1e-6 on the unit square."""
    options = {"epsilon": 1.0, "delta": 1e-6, "k": 50, **changes}
    return Task.build(Box((0.0, 0.0), (1.0, 1.0)), **options)  # type: ignore[arg-type]


def audit_task(
    task: Task, name: str, *, runs: int, rng: np.random.Generator, claimed: float | None = None, broken: bool = False
) -> list[Finding]:
    """Attack the whole transcript of a task, both directions: two positions inside a region of a crowded town.

    Empty if a region has no parts however small the town is, as with rule "each" on a table of one level.

    Parameters
    ----------
    claimed : float, optional
        The claim, if it is not ``task.epsilon``.
    """
    here = _inside(task, 0.45)
    for crowds in _TOWNS:
        others = _town(task, rng, crowds)
        there = choose_neighbour(task, others, here, rng=rng)
        if there is not None:
            bounds = attack(Pair(task, others, here, there), runs=runs, rng=rng)
            return [
                Finding(f"{name}, {direction}", "epsilon", claimed or task.epsilon, bound.epsilon, _how(bound), broken)
                for direction, bound in bounds.items()
            ]
    return []


def audit_moved(task: Task, *, runs: int, rng: np.random.Generator) -> list[Finding]:
    """Attack the whole transcript of a task: a moved position over one inside the region it was moved to.

    Everybody else is in one corner, the victim in the opposite one, so that TRIMs move it round after round. Empty if
    the task moves nobody, or not even with thousands of crowds in the corner.
    """
    for crowds in _CROWDS if task.rule == "trim" and task.max_trims else ():
        others = np.tile(_inside(task, 0.0), (crowds * task.k, 1))
        pair = Pair(task, others, _inside(task, 1.0), _inside(task, 0.0))
        if np.isfinite(play(pair, runs=_PILOT, rng=rng).claimed("moved")).mean() > 0.5:
            bound = attack(pair, runs=runs, rng=rng, claim="moved", trims=task.max_trims)["here over there"]
            what = f"transcript, moved against inside, up to {task.max_trims} TRIMs"
            return [Finding(what, "epsilon", task.epsilon_worst, bound.epsilon, _how(bound))]
    return []


# -- our mechanisms ------------------------------------------------------------------------------------------------


def transcripts(runs: int, rng: np.random.Generator) -> list[Finding]:
    """Whole transcripts of the tasks we offer."""
    out = audit_task(default_task(), 'transcript, default task (rule "trim"), inside pair', runs=runs, rng=rng)
    fewer = max(runs // 4, 1000)
    for name, task in (('rule "all"', default_task(rule="all")), ("quadtree", default_task(tree="quad"))):
        out += audit_task(task, f"transcript, {name}, inside pair", runs=fewer, rng=rng)[:1]
    slow = default_task(randomizer="discrete-laplace")  # its tallies take a hundred draws per cell
    return out + audit_task(slow, "transcript, discrete Laplace, inside pair", runs=max(runs // 20, 1000), rng=rng)[:1]


def moved(runs: int, rng: np.random.Generator) -> list[Finding]:
    """A moved position against one inside: (1 + T) reports with accounting "core", the epsilon of "uniform"."""
    out = []
    for accounting, claim in (("core", 2.0), ("uniform", 1.0)):
        scale = 1 if accounting == "core" else 12  # a quarter of the loss per report needs more people
        task = Task.build(
            Box((0.0,), (1.0,)), epsilon=1.0, delta=0.05, k=150 * scale, max_rounds=2, max_depth=8,
            accounting=accounting, max_trims=None if accounting == "core" else 3,  # type: ignore[arg-type]
        )  # fmt: skip
        others = np.concatenate([np.full(100 * scale, 0.1), np.full(300 * scale, 0.4)])[:, None]
        bounds = attack(Pair(task, others, (0.9,), (0.1,)), runs=runs // 2, rng=rng, claim="moved", trims=1)
        name = f'transcript, moved against inside, T = 1, accounting "{accounting}"'
        out += [Finding(name, "epsilon", claim, bound.epsilon, _how(bound)) for bound in bounds.values()]
    return out + _two_moved(runs // 2, rng) + _sixteen_trims(runs // 2, rng)


def _two_moved(runs: int, rng: np.random.Generator) -> list[Finding]:
    """0.9 is moved by the first TRIM, 0.1 by a second one after two SPLITs, which 0.9 follows with a chance of 1/4."""
    task = Task.build(Box((0.0,), (1.0,)), epsilon=1.0, delta=0.05, k=150, max_rounds=4, max_depth=8)
    others = np.repeat([0.02, 0.15, 0.3, 0.45], [900, 900, 900, 900])[:, None]
    bounds = attack(Pair(task, others, (0.1,), (0.9,)), runs=runs, rng=rng, claim="nothing", trims=2)
    bound = bounds["here over there"]
    name = 'planted: "(1 + own moves) reports" for two moved positions'
    return [Finding(name, "epsilon", 2.0, bound.epsilon, _how(bound), broken=True)]


def _sixteen_trims(runs: int, rng: np.random.Generator) -> list[Finding]:
    """Everybody in one corner, the victim in the opposite one: sixteen TRIMs move it, round after round."""
    task = Task.build(Box((0.0,), (1.0,)), epsilon=0.5, delta=0.05, k=20, max_depth=20)
    pair = Pair(task, np.zeros((4_000, 1)), (0.99,), (0.0,))
    bound = attack(pair, runs=max(runs // 2, 1000), rng=rng, claim="moved", trims=task.max_trims)["here over there"]
    what = f"transcript, moved {task.max_trims} times against never moved, epsilon = 0.5 inside"
    return [
        Finding(what, "epsilon", task.epsilon_worst, bound.epsilon, _how(bound)),
        Finding('planted: "never moved: epsilon" against a moved position', "epsilon", task.epsilon, bound.epsilon,
                _how(bound), broken=True),
    ]  # fmt: skip


def values(runs: int, rng: np.random.Generator) -> list[Finding]:
    """Values by themselves, and together with the transcript."""
    mechanism = best(1.0)
    out = [Finding("one value, best mechanism, all outputs", "epsilon", 1.0, value_loss(mechanism), "exact")]
    gain = np.log(np.array(mechanism.probabilities(0.0), float)) - np.log(np.array(mechanism.probabilities(1.0), float))

    def scores(size: int, world: str) -> Floats:
        words = rng.integers(0, 2**64, size=(size, mechanism.words), dtype=np.uint64)
        outputs = mechanism.release(np.full(size, 0.0 if world == "here" else 1.0), words)
        return np.asarray(gain[np.asarray(outputs) - mechanism.alphabet.start])

    one, other = scores(runs, "here"), scores(runs, "there")
    level = float(gain.max()) - 1e-6
    bound = loss_lower_bound(int((one >= level).sum()), int((other >= level).sum()), runs=runs)
    out.append(Finding("one value, best mechanism, sampled", "epsilon", 1.0, bound.epsilon, _how(bound)))
    task = default_task()
    others, here = _town(task, rng), _inside(task, 0.45)
    there = choose_neighbour(task, others, here, rng=rng)
    assert there is not None  # regions of a box are never leaves
    pair = Pair(task, others, here, there)
    for direction, both in attack(pair, runs=runs // 2, rng=rng, extra=scores).items():
        out.append(
            Finding(f"transcript and one value, inside pair, {direction}", "epsilon", 2.0, both.epsilon, _how(both))
        )
    return out


def randomizers(runs: int, rng: np.random.Generator) -> list[Finding]:
    """Single reports, enumerated."""
    out = []
    for name, randomizer in (
        ("randomized response, 2 children", RandomizedResponse(1.0, 2)),
        ("randomized response, 4 children", RandomizedResponse(1.0, 4)),
        ("discrete Laplace, 4 children", DiscreteLaplace(1.0, 4)),
    ):
        out.append(Finding(f"one report, {name}", "epsilon", 1.0, randomizer_loss(randomizer), "exact"))
    return out


def crowds(runs: int, rng: np.random.Generator) -> list[Finding]:
    """Bad places for a crowd: k - 1 in a child of a large cell, or in the corner opposite to everybody else's."""
    task = default_task()
    sizes = np.unique(np.geomspace(task.k, 10**6, 60).astype(int)).tolist()
    worst = max(crowd_test_failure(task, size) for size in sizes)
    what = "chance that one crowd test errs, default task, n up to 10^6"
    out = [Finding(what, "share", task.delta_test, worst, "exact")]
    loose = default_task(delta=0.05)
    out.append(_crowd_share(loose, "chance of a region below k, default at delta = 0.05", max(runs // 4, 1000), rng))
    out.append(_natural_share(loose, min(max(runs // 200, 100), 1000), rng))
    what = "chance of a region below k, opposite corners, 16 TRIMs, delta = 0.02"
    out.append(_corner_share(what, 0.02, 0.02, max(runs // 20, 1000), rng))
    what = "planted: every test of a path may err with delta, opposite corners"
    return [*out, _corner_share(what, 0.02 * 17, 0.02, max(runs // 20, 1000), rng, broken=True)]


def published(runs: int, rng: np.random.Generator) -> list[Finding]:
    """Everything that commands write, in two worlds with equal transcripts; planted: shares of moved participants."""
    pairs = [equal_worlds(rng) for _ in range(min(max(runs // 50_000, 1), 4))]
    leaky = (*COMMANDS[0], "--public-data")
    found = [differing((*COMMANDS, leaky), worlds) for worlds in pairs]
    shares = [sum(map(bool, ways)) / len(pairs) for ways in zip(*found, strict=True)]
    method = f"{len(pairs)} pairs of worlds"
    out = []
    for command, share in zip(COMMANDS, shares[:-1], strict=True):
        words = [word for word in command if word not in SHARED]
        what = f"semilocal {' '.join(words)}: writes more than the transcript tells"
        out.append(Finding(what, "share", 0.0, share, method))
    what = "planted: semilocal partition that prints the share of moved participants"
    return [*out, Finding(what, "share", 0.0, shares[-1], method, broken=True)]


# -- wrong on purpose ------------------------------------------------------------------------------------------------


def paper_laplace(runs: int, rng: np.random.Generator) -> list[Finding]:
    """Laplace noise of scale 1 / epsilon on a one-hot vector claims epsilon and costs 2 epsilon."""
    task = Task.paper(Box((0.0, 0.0), (1.0, 1.0)), epsilon=1.0, delta=0.05, k=50)
    name = "planted: Laplace of scale 1/epsilon on each entry"
    return audit_task(task, name, runs=max(runs // 8, 1000), rng=rng, claimed=1.0, broken=True)[:1]


def no_crowd(runs: int, rng: np.random.Generator) -> list[Finding]:
    """Rule "each" leaves the sparse behind, alone."""
    task = default_task(rule="each", delta=0.05)
    return [_crowd_share(task, 'planted: rule "each", chance of a region below k', max(runs // 20, 1000), rng, True)]


def retries(runs: int, rng: np.random.Generator) -> list[Finding]:
    """A question asked three times: our devices give the same bytes, a wrong one draws fresh noise."""
    task = Task.build(Box((0.0,), (1.0,)), epsilon=1.0, delta=0.05, k=20)
    size = min(runs, 2000)
    policy = Policy(max_epsilon=100.0, max_delta=task.delta)
    query = Query(task.id, 1, (1,))

    def all_low(where: float, fresh: bool) -> int:
        hits = 0
        for _ in range(size):
            secret = rng.bytes(32)
            answers = set()
            for attempt in range(3):
                key = hashlib.sha256(secret + bytes([attempt])).digest() if fresh else secret
                report = Participant(task, [where], key, policy).receive(query)
                assert report is not None
                answers.add(report.answer)
            hits += answers == {0}
        return hits

    out = []
    for fresh, name in ((False, "one question asked three times, device"), (True, "planted: fresh noise on a retry")):
        bound = loss_lower_bound(all_low(0.1, fresh), all_low(0.9, fresh), runs=size)
        out.append(Finding(name, "epsilon", 1.0, bound.epsilon, _how(bound), broken=fresh))
    return out


def float_noise(runs: int, rng: np.random.Generator) -> list[Finding]:
    """Laplace noise in floats (Mironov 2012): some outputs are reachable from 0 and not from 1."""

    def outputs(value: float) -> Floats:
        uniform = rng.random(runs)
        sign = np.where(rng.random(runs) < 0.5, -1.0, 1.0)
        return np.asarray(value - sign * np.log1p(-uniform))

    def too_fine(y: Floats) -> int:
        # 1 + noise is rounded to the spacing of floats near 1 before it cancels; 0 + noise keeps all its bits.
        return int((((y - 1.0) + 1.0 != y) & (np.abs(y) < 0.5)).sum())

    bound = loss_lower_bound(too_fine(outputs(0.0)), too_fine(outputs(1.0)), runs=runs)
    return [Finding("planted: float + float Laplace noise", "epsilon", 1.0, bound.epsilon, _how(bound), broken=True)]


def paper_margin(runs: int, rng: np.random.Generator) -> list[Finding]:
    """The printed margin at delta = 1e-6 and a million responders."""
    size, delta, out = 10**6, 1e-6, []
    for name, broken in (("paper", True), ("chernoff", False)):
        randomizer = PaperLaplace(1.0, 4, name)  # type: ignore[arg-type]
        margin = float(randomizer.margin_of([size], delta=delta)[0])
        word = "planted: the printed margin" if broken else "the Chernoff margin"
        what = f"{word}, n = 10^6: chance that a child below k passes"
        out.append(Finding(what, "share", delta, laplace_sum_tail(size, margin), "exact", broken))
    return out


def pooled(runs: int, rng: np.random.Generator) -> list[Finding]:
    """The pooled tree: one person moves anywhere. Half the noise, and budgets that are not reduced, must be seen."""
    trusts: tuple[Literal["curator", "two-servers"], ...] = ("curator", "two-servers")
    cases = [
        (
            f'pooled tree of epsilon = 2, trust "{trust}", one person moves below {TOP} public levels',
            worst_pair(trust),
            False,
        )
        for trust in trusts
    ]
    cases += [
        ("planted: pooled tree with noise of half the size", worst_pair("curator", counter=LoudCounter), True),
        ("planted: pooled tree, budget not reduced", worst_pair("two-servers", counter=ForgetfulCounter), True),
    ]
    out = []
    for what, pair, broken in cases:
        bound = attack_pooled(pair, runs=runs, rng=rng)
        out.append(Finding(what, "epsilon", pair.claimed, bound.epsilon, _how(bound), broken))
    return out


def pooled_sums(runs: int, rng: np.random.Generator) -> list[Finding]:
    """Means: one sum over everybody, or one per cell. Half the noise, and sums around 0, must be seen."""
    cases = [
        ('mean over all, trust "curator", one person moves anywhere', worst_sums("curator"), False),
        ('mean over all, trust "two-servers", one person moves anywhere', worst_sums("two-servers"), False),
        ('means per cell, trust "curator", one person moves to another cell', worst_sums("curator", cells=2), False),
        ("planted: mean over all with noise of half the size", worst_sums("two-servers", louder=2), True),
        ("planted: means per cell with noise of half the size", worst_sums("curator", cells=2, louder=2), True),
        ("planted: means per cell, sums not from the middle", worst_sums("curator", cells=2, centred=False), True),
    ]
    out = []
    for what, pair, broken in cases:
        bound = attack_sums(pair, runs=runs, rng=rng)
        out.append(Finding(what, "epsilon", pair.task.epsilon, bound.epsilon, _how(bound), broken))
    return out


CASES: tuple[Callable[[int, np.random.Generator], list[Finding]], ...] = (
    transcripts, moved, values, randomizers, crowds, published, paper_laplace, no_crowd, retries, float_noise,
    paper_margin, pooled, pooled_sums,
)  # fmt: skip


# -- populations -------------------------------------------------------------------------------------------------------


def _town(task: Task, rng: np.random.Generator, crowds: int = _TOWNS[0]) -> Floats:
    """Everybody else: a town in the middle of the domain, so many crowds large."""
    low, high = np.array(task.box.lower), np.array(task.box.upper)
    share = np.clip(rng.normal(0.5, 0.15, (crowds * task.k - 1, len(low))), 0.0, 1.0)
    return np.asarray(np.clip(low + share * (high - low), low, high))


def _inside(task: Task, share: float) -> tuple[float, ...]:
    low, high = np.array(task.box.lower), np.array(task.box.upper)
    return tuple(float(x) for x in low + share * (high - low))


def _crowd_share(task: Task, name: str, runs: int, rng: np.random.Generator, broken: bool = False) -> Finding:
    """k - 1 participants, the victim among them, in a child of a cell with forty crowds."""
    near = np.full((task.k - 2, 2), 0.9)
    many = np.column_stack([rng.random(39 * task.k) * 0.5, rng.random(39 * task.k)])
    pair = Pair(task, np.concatenate([near, many]), (0.9, 0.9), (0.9, 0.9))
    hits = int((play(pair, runs=runs, rng=rng).crowds < task.k).sum())
    low, high = share_bounds(hits, runs)
    return Finding(name, "share", task.delta, low, f"{_percent(CONFIDENCE)}, {runs} plays", broken, high)


def _corner_share(
    name: str, delta: float, claimed: float, runs: int, rng: np.random.Generator, broken: bool = False
) -> Finding:
    """Everybody in one corner, k - 1 in the opposite one: they are moved again and again, and every test can err."""
    line = Box((0.0,), (1.0,))
    task = Task.build(line, epsilon=0.7, delta=delta, k=15, max_trims=16, max_depth=28, max_visitors=1.0)
    others = np.repeat([[1.0], [0.0]], [task.k - 2, 1500], axis=0)
    plays = play(Pair(task, others, (1.0,), (1.0,)), runs=runs, rng=rng.spawn(1)[0])
    hits = int((plays.crowds < task.k).sum())
    low, high = share_bounds(hits, runs)
    return Finding(name, "share", claimed, low, f"{_percent(CONFIDENCE)}, {runs} plays", broken, high)


def _natural_share(task: Task, runs: int, rng: np.random.Generator) -> Finding:
    """A participant of a town, drawn again in every play, so that plays are independent."""
    hits = 0
    for _ in range(runs):
        run = simulate(_town(task, rng), task, rng=rng)
        who = int(rng.integers(len(run.regions)))
        hits += int(run.partition.crowds[run.regions[who]] < task.k)
    low, high = share_bounds(hits, runs)
    what = "share of a town's participants without a crowd, delta = 0.05"
    return Finding(what, "share", task.delta, low, f"{_percent(CONFIDENCE)}, {runs} plays", upper=high)


def _how(bound: LossBound) -> str:
    return f"{_percent(bound.confidence)}, {bound.runs} plays per world"


def _percent(confidence: float) -> str:
    digits = max(0, round(-math.log10(1 - confidence)) - 2)
    return f"{100 * confidence:.{digits}f} %"
