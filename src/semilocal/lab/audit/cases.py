"""The catalogue: what is claimed, attacked one by one; our own mechanisms, and wrong ones that must be caught.

Each case is a function of the number of plays and a random generator that returns ``Finding``s. A finding holds if the
measured bound does not contradict the claim. Cases marked ``broken`` are wrong on purpose: an audit that lets them pass
is not worth believing.

Knows how to attack. Adjacencies are those of the promise: two positions of one participant inside the region that the
transcript publishes for it, or (pooled tree) two positions anywhere; everybody else stays. Delta is 0 for losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from ...arrays import Floats
from ...geometry.box import Box
from ...protocol.task import Task
from ...randomizer import DiscreteLaplace, PaperLaplace, RandomizedResponse
from ...randomizer.values import best
from ...simulation.simulate import simulate
from ...tabular import markdown
from . import exact
from .attacker import Pair, attack, choose_neighbour
from .bounds import CONFIDENCE, LossBound, loss_lower_bound, share_bounds
from .pooled import TOP, ForgetfulCounter, LoudCounter, attack_pooled, attack_sums, worst_pair, worst_sums

_TOWNS = (10, 4, 2, 1)  # crowds of a town, until the victim is asked about a line in its region
_SLOW = 20  # plays of the protocol are that much fewer: each follows a whole town
_LIARS, _ASKED = 20, 2000  # in a region of so many


@dataclass(frozen=True)
class Finding:
    """One line of the audit."""

    what: str
    kind: Literal["epsilon", "share"]  # a loss (delta 0, between the positions that ``what`` names), or a chance
    claimed: float
    measured: float  # a lower bound with the stated confidence, or exact
    how: str  # confidence and plays, or "exact"
    broken: bool = False  # wrong on purpose: it has to be caught
    upper: float | None = None  # of a share that was sampled

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
    """The task of the audit: our defaults at epsilon = 1 on the unit square."""
    options = {"epsilon": 1.0, **changes}
    return Task.build(Box((0.0, 0.0), (1.0, 1.0)), **options)  # type: ignore[arg-type]


def audit_task(
    task: Task,
    name: str,
    *,
    runs: int,
    rng: np.random.Generator,
    claimed: float | None = None,
    broken: bool = False,
    extra: Callable[[int, str], Floats] | None = None,
) -> list[Finding]:
    """Attack the whole transcript of a task, both directions: two positions inside a region of a crowded town.

    Empty if nobody is asked about places inside a region however small the town is, as in a table of one level.
    ``claimed`` is ``task.epsilon`` if left out; ``extra`` is what is released after the transcript, as for ``attack``.
    """
    low, high = np.array(task.box.lower), np.array(task.box.upper)
    here = tuple((low + 0.45 * (high - low)).tolist())
    for crowds in _TOWNS:
        others = _town(task, rng, crowds)
        there = choose_neighbour(task, others, here, rng=rng)
        if there is not None:
            bounds = attack(Pair(task, others, here, there), runs=max(runs // _SLOW, 1000), rng=rng, extra=extra)
            return [
                Finding(f"{name}, {direction}", "epsilon", claimed or task.epsilon, bound.epsilon, _how(bound), broken)
                for direction, bound in bounds.items()
            ]
    return []


# -- our mechanisms ------------------------------------------------------------------------------------------------


def transcripts(runs: int, rng: np.random.Generator) -> list[Finding]:
    """Whole transcripts of the tasks we offer, and a device without a book: planted."""
    out = audit_task(default_task(), "transcript, default task", runs=runs, rng=rng)
    laplace = msgspec.structs.replace(default_task(rule="all"), randomizer=DiscreteLaplace(1.0, 2))
    for name, task in (
        ("epsilon = 4 (two answers)", default_task(epsilon=4.0)),
        ('rule "all"', default_task(rule="all")),
        ('quadtree, rule "all"', default_task(rule="all", tree="quad")),
        ('discrete Laplace, rule "all"', laplace),
    ):
        out += audit_task(task, f"transcript, {name}", runs=runs // 2, rng=rng)[:1]
    bookless = msgspec.structs.replace(default_task(epsilon=2.0, delta=0.05), answers=3)
    name = "planted: devices without a book, three answers inside"
    return out + audit_task(bookless, name, runs=runs // 2, rng=rng, claimed=2.0, broken=True)[:1]


def values(runs: int, rng: np.random.Generator) -> list[Finding]:
    """Values by themselves, and together with the transcript."""
    mechanism = best(1.0)
    out = [Finding("one value, best mechanism, all outputs", "epsilon", 1.0, exact.value_loss(mechanism), "exact")]
    gain = np.log(np.array(mechanism.probabilities(0.0), float)) - np.log(np.array(mechanism.probabilities(1.0), float))

    def scores(size: int, world: str) -> Floats:
        words = rng.integers(0, 2**64, size=size, dtype=np.uint64)
        outputs = mechanism.release(np.full(size, 0.0 if world == "here" else 1.0), words)
        return np.asarray(gain[np.asarray(outputs) - mechanism.alphabet.start])

    one, other = scores(runs, "here"), scores(runs, "there")
    level = float(gain.max()) - 1e-6
    bound = loss_lower_bound(int((one >= level).sum()), int((other >= level).sum()), runs=runs)
    out.append(_sampled("one value, best mechanism, sampled", 1.0, bound))
    return out + audit_task(default_task(), "transcript and one value", runs=runs, rng=rng, claimed=2.0, extra=scores)


def randomizers(runs: int, rng: np.random.Generator) -> list[Finding]:
    """Single reports, enumerated."""
    cases: dict[str, RandomizedResponse | DiscreteLaplace] = {
        "randomized response, 2 sides": RandomizedResponse(1.0, 2),
        "randomized response, 4 parts": RandomizedResponse(1.0, 4),
        "discrete Laplace, 4 parts": DiscreteLaplace(1.0, 4),
    }
    return [
        Finding(f"one answer, {name}", "epsilon", 1.0, exact.randomizer_loss(randomizer), "exact")
        for name, randomizer in cases.items()
    ]


def crowds(runs: int, rng: np.random.Generator) -> list[Finding]:
    """Bad places for a crowd: k - 1 people beside many, one question and the same cut again and again, exact."""
    task, loose = default_task(), default_task(delta=0.05)
    sizes = np.unique(np.geomspace(2 * task.k, 10**6, 40).astype(int)).tolist()
    worst = max(exact.crowd_test_failure(task, size, min(size, asked)) for size in sizes for asked in (100, 400))
    out = [
        Finding(
            "chance that one question errs, default task, up to 10^6 people", "share", task.delta / 2, worst, "exact"
        )
    ]
    for name, level_of, broken in (
        ("chance of a crowd below k, the same cut until nobody is left, delta = 0.05", None, False),
        ("planted: the same cut again and again, levels that do not fall", lambda delta, failed: delta / 2, True),
        ("planted: the same cut again and again, w as a set of cuts", _as_a_set, True),
    ):
        levels = {} if level_of is None else {"level_of": level_of}
        worst = max(exact.repeated_cut_failure(loose, 5000, asked=asked, **levels) for asked in (80, 100))
        out.append(Finding(name, "share", loose.delta, worst, "exact", broken))
    for tolerated, name in ((_LIARS, f"tolerate_liars={_LIARS}"), (0, "planted: liars who are not tolerated")):
        careful = default_task(tolerate_liars=tolerated)
        chance = exact.liar_pass_chance(careful, _ASKED, _ASKED, honest=task.k - 1, liars=_LIARS)
        what = f"{name}: chance that a side with k - 1 honest people and {_LIARS} liars passes, {_ASKED:,} asked"
        out.append(Finding(what, "share", task.delta / 2, chance, "exact", not tolerated))
    return [*out, _natural_share(loose, min(max(runs // 200, 100), 1000), rng)]


def _as_a_set(delta: float, failed: int) -> float:
    """Levels if w is the number of different cuts: at most one here."""
    return delta / ((min(failed, 1) + 1) * (min(failed, 1) + 2))


# -- wrong on purpose ------------------------------------------------------------------------------------------------


def paper_laplace(runs: int, rng: np.random.Generator) -> list[Finding]:
    """Laplace noise of scale 1 / epsilon on a one-hot vector claims epsilon and costs 2 epsilon."""
    task = Task.paper(Box((0.0, 0.0), (1.0, 1.0)), epsilon=1.0, delta=0.05, k=50)
    name = "planted: Laplace of scale 1/epsilon on each entry"
    return audit_task(task, name, runs=runs // 2, rng=rng, claimed=1.0, broken=True)[:1]


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
    return [_sampled("planted: float + float Laplace noise", 1.0, bound, broken=True)]


def paper_margin(runs: int, rng: np.random.Generator) -> list[Finding]:
    """The printed margin at delta = 1e-6 and a million responders."""
    size, delta, out = 10**6, 1e-6, []
    for name, broken in (("paper", True), ("chernoff", False)):
        randomizer = PaperLaplace(1.0, 4, name)  # type: ignore[arg-type]
        margin = float(randomizer.margin_of([size], delta=delta)[0])
        word = "planted: the printed margin" if broken else "the Chernoff margin"
        what = f"{word}, n = 10^6: chance that a child below k passes"
        out.append(Finding(what, "share", delta, exact.laplace_sum_tail(size, margin), "exact", broken))
    return out


def pooled(runs: int, rng: np.random.Generator) -> list[Finding]:
    """The pooled tree: one person moves anywhere. Half the noise, and budgets that are not reduced, must be seen."""
    what = "pooled tree of epsilon = 2, trust"
    moves = f"one person moves below {TOP} public levels"
    cases = [
        (f'{what} "curator", {moves}', worst_pair("curator"), False),
        (f'{what} "two-servers", {moves}', worst_pair("two-servers"), False),
        ("planted: pooled tree with noise of half the size", worst_pair("curator", counter=LoudCounter), True),
        ("planted: pooled tree, budget not reduced", worst_pair("two-servers", counter=ForgetfulCounter), True),
    ]
    return [
        _sampled(what, pair.claimed, attack_pooled(pair, runs=runs, rng=rng), broken) for what, pair, broken in cases
    ]


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
    return [
        _sampled(what, pair.task.epsilon, attack_sums(pair, runs=runs, rng=rng), broken) for what, pair, broken in cases
    ]


CASES: tuple[Callable[[int, np.random.Generator], list[Finding]], ...] = (
    transcripts, values, randomizers, crowds, paper_laplace, float_noise, paper_margin, pooled, pooled_sums,
)  # fmt: skip


# -- populations -------------------------------------------------------------------------------------------------------


def _town(task: Task, rng: np.random.Generator, crowds: int = _TOWNS[0]) -> Floats:
    """Everybody else: a town in the middle of the domain, so many crowds large."""
    low, high = np.array(task.box.lower), np.array(task.box.upper)
    share = np.clip(rng.normal(0.5, 0.15, (crowds * task.k - 1, len(low))), 0.0, 1.0)
    return np.asarray(np.clip(low + share * (high - low), low, high))


def _natural_share(task: Task, runs: int, rng: np.random.Generator) -> Finding:
    """A participant of a town, drawn again in every play, so that plays are independent."""
    hits = 0
    for _ in range(runs):
        people = _town(task, rng)
        partition = simulate(people, task, rng=rng).partition
        where = partition.locate(people[:1])[0]  # the first is drawn as all others are
        hits += int(partition.crowds[where] < task.k)
    low, high = share_bounds(hits, runs)
    what = "share of a town's participants without a crowd, delta = 0.05"
    return Finding(what, "share", task.delta, low, f"{_percent(CONFIDENCE)}, {runs} plays", upper=high)


def _sampled(what: str, claimed: float, bound: LossBound, broken: bool = False) -> Finding:
    """A loss that was attacked in plays."""
    return Finding(what, "epsilon", claimed, bound.epsilon, _how(bound), broken)


def _how(bound: LossBound) -> str:
    return f"{_percent(bound.confidence)}, {bound.runs} plays per world"


def _percent(confidence: float) -> str:
    digits = max(0, round(-math.log10(1 - confidence)) - 2)
    return f"{100 * confidence:.{digits}f} %"


def finding_table(findings: Sequence[Finding]) -> str:
    """A Markdown table: claimed, measured, verdict."""
    rows = [("what", "claimed", "measured", "verdict", "how")]
    for found in findings:
        claimed, digits = f"at most {found.claimed:.3g}", ".3g"
        if found.kind == "epsilon":
            claimed, digits = f"epsilon = {found.claimed:g}", ".3f"
        measured = f"{'=' if found.how == 'exact' else '>='} {found.measured:{digits}}"
        if found.upper is not None:
            measured += f", at most {found.upper:.3g}"
        rows.append((found.what, claimed, measured, found.verdict, found.how))
    return markdown(rows)
