"""Both theorems by enumeration: every transcript of a few people, and the exact chance that a crowd fails.

Theorem 1. ``transcripts`` plays whole campaigns with the real server and real devices. Only the noise is replaced: an
answer is a choice, and all choices are tried. One person, the victim, is played at every place at once, by devices with
the same secret: a device whose reports differ from the published ones is at a place that the transcript rules out.

Theorem 2. ``crowd_failure`` follows one region as devices do (:class:`Path`), under any public rule for cuts. Draws and
noise are summed up, not sampled. Answers say nothing to the rules here, so only who was drawn matters; people at one
place are alike.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from fractions import Fraction
from itertools import product
from math import comb
from typing import Any, NamedTuple
from unittest import mock

import msgspec
import numpy as np

from semilocal import Box, Task
from semilocal.errors import ServerViolation
from semilocal.protocol import curator as curator_module
from semilocal.protocol import region as path_module
from semilocal.protocol import region as region_module
from semilocal.protocol import rule as rule_module
from semilocal.protocol.curator import Curator
from semilocal.protocol.messages import Closed, Entry, Head, Query, Question, Report, Slice, Verdict
from semilocal.protocol.participant import Participant
from semilocal.protocol.policy import Policy
from semilocal.protocol.region import Path, RegionLog
from semilocal.protocol.rule import Asking, Census

ANYTHING = Policy(max_epsilon=100.0, min_k=1, max_delta=1.0, allow_simulation=True)
Region = tuple[int, int]


def line(bits: int, **options: Any) -> Task:
    """A task on an interval of 2^bits places; their codes are ``2**bits`` to before ``2**(bits + 1)``."""
    return Task.build(Box((0.0,), (1.0,)), max_depth=bits, **{"k": 2, "delta": 0.4, **options})


def place_of(task: Task, code: int) -> tuple[float]:
    """A point with this code."""
    lower, upper = task.hierarchy.ends
    return ((code - lower + 0.5) / (upper - lower),)


# -- Theorem 1 ---------------------------------------------------------------------------------------------------------


class Choices:
    """Answers every question of a play: the given choices first, then 0 each time; or at random."""

    def __init__(self, given: Sequence[int] = (), rng: np.random.Generator | None = None) -> None:
        self.given, self.taken, self.options, self._rng = given, list[int](), list[int](), rng

    def __call__(self, options: int) -> int:
        number = len(self.taken)
        if self._rng is not None:
            chosen = int(self._rng.integers(options))
        else:
            chosen = self.given[number] if number < len(self.given) else 0
        self.taken.append(chosen)
        self.options.append(options)
        return chosen

    def following(self) -> list[int] | None:
        """The choices of the next play; None after the last."""
        taken = list(self.taken)
        while taken:
            if taken[-1] + 1 < self.options[len(taken) - 1]:
                return [*taken[:-1], taken[-1] + 1]
            taken.pop()
        return None


class Told(NamedTuple):
    """What one transcript says about the victim.

    Attributes
    ----------
    region : (int, int)
        The last one it announced.
    cuts : tuple of int
        All cuts it answered about.
    weights : dict of int to Fraction
        How likely its part of the transcript is from each place that can give it, up to a common factor.
    """

    region: Region
    cuts: tuple[int, ...]
    weights: dict[int, Fraction]


class Scripted(Participant):
    """A device whose answers are chosen."""

    said: dict[int, int]
    choices: Choices

    def _report(self, round_: int, question: Question | None) -> Report:
        report = super()._report(round_, question)
        if question is None:
            return report
        if round_ not in self.said:
            self.said[round_] = self.choices(len(question.parts))
        return msgspec.structs.replace(report, answer=self.said[round_])


class Setting(NamedTuple):
    """A tiny campaign.

    Attributes
    ----------
    task : Task
    others : tuple of int
        Codes of the other people.
    victim : int
        Where the victim really is.
    late : tuple of int
        Codes of people who enrol in round 3.
    share : float
        Share of the askable that is drawn.
    losses : bool
        Whether reports of the victim may be lost on the way, or it may be away for a round: choices as well.
    policy : Policy
        The victim's.
    kind : type
        Of the victim's devices.
    """

    task: Task
    others: tuple[int, ...]
    victim: int
    late: tuple[int, ...] = ()
    share: float = 1.0
    losses: bool = False
    policy: Policy = ANYTHING
    kind: type[Scripted] = Scripted


@contextmanager
def tiny_rule(share: float = 1.0) -> Iterator[None]:
    """Every region with two free members is cut in the middle, then beside it, and so on; one answer a side passes."""

    def ask(task: Task, census: Census) -> Asking:
        rows = np.flatnonzero((census.askable >= 2) & (census.upper - census.lower > 1))
        lower, length = census.lower[rows], (census.upper - census.lower)[rows]
        cuts = (
            lower
            + np.uint64(1)
            + (length // np.uint64(2) - np.uint64(1) + census.failed[rows].astype(np.uint64)) % (length - np.uint64(1))
        )
        asked = np.maximum((census.askable[rows] * share).astype(np.int64), 2)
        nothing = np.zeros(len(rows))
        return Asking(rows, cuts[:, None], asked, (asked + 1) // 2, np.ones(len(rows), np.int64), nothing, nothing)

    with (
        mock.patch.object(curator_module, "questions", ask),
        mock.patch.object(curator_module, "refinements", lambda task, census: ask(task, census.rows(np.empty(0, int)))),
        mock.patch.object(curator_module, "go_on", return_value=np.array([True])),
        mock.patch.object(path_module, "threshold_holds", return_value=True),
    ):
        yield


def transcripts(setting: Setting, *, plays: int | None = None, seed: int = 1) -> Iterator[Told]:
    """What every transcript tells about the victim; or some, at random, if there are too many."""
    rng = np.random.default_rng(seed)
    if plays is not None:
        for _ in range(plays):
            yield _play(setting, Choices(rng=rng))
        return
    given: list[int] | None = []
    while given is not None:
        choices = Choices(given)
        yield _play(setting, choices)
        given = choices.following()


def _play(setting: Setting, choices: Choices) -> Told:
    task = setting.task
    codes = range(*task.hierarchy.ends)
    said: dict[int, int] = {}
    path = Path(task)  # what is public is checked once for all
    victims = {code: _device(setting, path, code, 0, said, choices) for code in codes}
    others = [_device(setting, path, code, 1 + row, {}, choices) for row, code in enumerate(setting.others)]
    late = [_device(setting, path, code, 100 + row, {}, choices) for row, code in enumerate(setting.late)]
    weights = {code: Fraction(1) for code in codes}
    cuts: list[int] = []
    server = Curator(task)
    log: list[tuple[Query, Closed, dict[Region, Slice]]] = []
    while not server.partitioned:
        query = server.query()
        assert isinstance(query, Query)
        if query.round == 3:
            for device in late:
                for asked, done, shown in log:
                    device.observe(asked)
                    device.close(done, shown.get(device.log.region))
            others += late
        reports = [report for device in others if (report := device.answer(query)) is not None]
        there = choices(2) == 0 if setting.losses and query.round > 1 else True
        report = _victims_report(query, setting.victim, victims, weights, cuts) if there else _away(query, victims)
        if report is not None and not (setting.losses and query.round > 1 and choices(2) == 1):
            reports.append(report)
        closed = server.close(reports)
        assert isinstance(closed, Closed)
        slices = {part.region: part for part in server.slices}
        log.append((query, closed, slices))
        for device in [*others, *victims.values()]:
            device.close(closed, slices.get(device.log.region))
    region = victims[setting.victim].region
    assert region is not None
    return Told(region, tuple(cuts), {code: weights[code] for code in victims})


def _device(setting: Setting, path: Path, code: int, number: int, said: dict[int, int], choices: Choices) -> Scripted:
    kind, policy = (setting.kind, setting.policy) if number == 0 else (Scripted, ANYTHING)
    device = kind(setting.task, place_of(setting.task, code), bytes([number]) * 32, policy, path=path)
    device.said, device.choices = said, choices
    return device


def _away(query: Query, victims: dict[int, Scripted]) -> Report | None:
    for device in victims.values():
        device.observe(query)
    return None


def _victims_report(
    query: Query, victim: int, victims: dict[int, Scripted], weights: dict[int, Fraction], cuts: list[int]
) -> Report | None:
    """What the victim sends; places that would send something else are dropped."""
    sent = {code: _answer(device, query) for code, device in victims.items()}
    report = sent[victim]
    for code in [code for code, one in sent.items() if one != report]:
        del victims[code]
    if report is None or report.answer is None:
        return report
    question = next(iter(victims.values())).path.question
    assert question is not None
    assert isinstance(report.answer, int)
    cuts += question.cuts
    true, other = next(iter(victims.values())).task.randomizer.weights  # type: ignore[union-attr]
    for code in victims:
        weights[code] *= true if sum(code >= cut for cut in question.cuts) == report.answer else other
    return report


def _answer(device: Scripted, query: Query) -> Report | None:
    try:
        return device.answer(query)
    except ServerViolation:
        return None


def between(one: int, other: int, cuts: Sequence[int]) -> int:
    """How many of the cuts lie between two places."""
    return sum(min(one, other) < cut <= max(one, other) for cut in cuts)


# -- Theorem 2 ---------------------------------------------------------------------------------------------------------


class World(NamedTuple):
    """People of a line, and a public rule for cuts that wants one of them to be alone.

    Attributes
    ----------
    task : Task
    people : dict of int to int
        Roster members at each code.
    victim : int
        The code whose people are looked at.
    rule : callable
        From the public log of the region of that place to a cut and the number asked, or None: the region ends.
    late : dict of int to int
        People at each code who announce after the first round.
    silent : dict of int to int
        How many members at each code do not answer when they are asked for the first time, before the rule begins.
    loses : bool
        Whether the server drops the answers for which the verdict is best, after seeing them.
    """

    task: Task
    people: dict[int, int]
    victim: int
    rule: Callable[[RegionLog, int], tuple[int, int] | None]
    late: dict[int, int] = {}  # noqa: RUF012
    silent: dict[int, int] = {}  # noqa: RUF012
    loses: bool = False


def crowd_failure(world: World) -> float:
    """Chance that a split puts the victim with fewer than k of the roster, summed over all draws and all noise."""
    task, everybody = world.task, world.people | {}
    names = {_name(code, row): code for code, count in everybody.items() for row in range(count)}
    newcomers = {_name(code, 1000 + row): code for code, count in world.late.items() for row in range(count)}
    path = _after_round(Path(task), None, names, {})
    if newcomers:
        path = _after_round(path, None, newcomers, {})
    if world.silent:
        quiet = {name for name, code in names.items() if name[15] < world.silent.get(code, 0)}
        asked = Question(*path.region, (path.region[0] + 1,), len(quiet), 0, len(quiet), path.round, 0)
        with _drawn(sorted(quiet)):
            path = _after_round(path, asked, {}, {})
    return _failure(world, path, names | newcomers, {}, {})


def _name(code: int, row: int) -> bytes:
    return code.to_bytes(8, "big") + row.to_bytes(8, "big")


def _failure(
    world: World, path: Path, places: dict[bytes, int], known: dict[object, float], tests: dict[object, list[bool]]
) -> float:
    task, log = world.task, path.log
    askable = log.askable(task.answers)
    free: dict[tuple[int, int], list[bytes]] = {}  # by place and by number of answers: those are alike
    for name in askable:
        free.setdefault((places[name], len(log.answers.get(name, ()))), []).append(name)
    key = (path.region, tuple(sorted(log.failed)), tuple(sorted((kind, len(names)) for kind, names in free.items())))
    if key in known:
        return known[key]
    choice = world.rule(log, len(askable))
    threshold = None if choice is None else least_threshold(task, log, len(askable), choice[1])
    if choice is None or threshold is None:
        return 0.0
    cut, asked = choice
    question = Question(*path.region, (cut,), asked, 0, asked, path.round, threshold)
    side = (path.region[0], cut) if world.victim < cut else (cut, path.region[1])
    dangerous = sum(count for code, count in world.people.items() if side[0] <= code < side[1]) < task.k
    total = 0.0
    test = (len(askable), len(log.failed), asked, threshold, path.region)  # all that the verdict may depend on
    if test not in tests:
        tests[test] = [_accepted(world, path, question, askable[:asked], yes) for yes in range(asked + 1)]
    accepted = tests[test]
    for drawn in product(*(range(len(names) + 1) for names in free.values())):
        if sum(drawn) != asked:
            continue
        weight = 1.0 / comb(len(askable), asked)
        for names, count in zip(free.values(), drawn, strict=True):
            weight *= comb(len(names), count)
        who = [name for names, count in zip(free.values(), drawn, strict=True) for name in names[:count]]
        passes = _passing(task, accepted, sum(places[name] >= cut for name in who))
        if passes and dangerous:
            total += weight * passes
        elif passes:
            following = _follow(world, path, question, who, "split")
            total += weight * passes * _failure(world, following, places, known, tests)
        if passes < 1.0:
            following = _follow(world, path, question, who, "wall")
            total += weight * (1.0 - passes) * _failure(world, following, places, known, tests)
    known[key] = total
    return total


def least_threshold(task: Task, log: RegionLog, askable: int, asked: int) -> int | None:
    """The smallest one that devices accept."""
    holds = vars(path_module)["threshold_holds"]  # what devices use, patched or not
    numbers = {"askable": askable, "asked": asked, "failed": len(log.failed), "parts": 2}
    candidates = range(1, asked // 2 + 1)
    row = bisect_left(candidates, True, key=lambda t: bool(holds(task, threshold=t, **numbers)))
    return candidates[row] if row < len(candidates) else None


def _copied(path: Path) -> Path:
    """A path of its own, which may move on while the other stays."""
    out, log = copy(path), copy(path.log)
    log.members, log.silent, log.failed = dict(log.members), set(log.silent), list(log.failed)
    log.answers = {name: list(said) for name, said in log.answers.items()}
    out.log = log
    return out


def _drawn(who: Sequence[bytes]) -> Any:
    """A draw that gives these."""

    def draw(names: list[bytes], seed: bytes, count: int) -> tuple[bytes, ...]:
        return tuple(who)

    return mock.patch.object(region_module, "draw", draw)


def _passing(task: Task, accepted: Sequence[bool], above: int) -> float:
    """Chance, over the noise, that devices accept a split, if so many of the asked are above the cut."""
    p, q = task.randomizer.probabilities  # type: ignore[union-attr]
    law = np.convolve(binomial(above, p), binomial(len(accepted) - 1 - above, q))  # of "at the cut or above"
    return float(law[np.array(accepted)].sum())


def _accepted(world: World, path: Path, question: Question, who: list[bytes], yes: int) -> bool:
    """Whether devices accept a split after so many answers "at the cut or above", or after some of them were lost."""
    no = question.asked - yes
    tallies = product(range(no + 1), range(yes + 1)) if world.loses else [(no, yes)]
    return any(_split_holds(path, question, who, one, other) for one, other in tallies)


def _split_holds(path: Path, question: Question, who: list[bytes], no: int, yes: int) -> bool:
    trial = _copied(path)
    answers = [0] * no + [1] * yes
    try:
        with _drawn(who):
            _after_round(trial, question, {}, dict(zip(who, answers, strict=False)), "split", path.region[0])
    except ServerViolation:
        return False
    return True


def binomial(size: int, chance: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    counts = np.arange(size + 1)
    ways = np.array([float(comb(size, count)) for count in counts])
    return np.asarray(ways * chance**counts * (1.0 - chance) ** (size - counts))


def _follow(world: World, path: Path, question: Question, who: list[bytes], outcome: str) -> Path:
    """The path after a round in which the drawn answer so that the outcome follows, and announce after a split.

    A server that loses answers publishes none after a failure: the round was aborted.
    """
    t = question.threshold
    answers = {name: int(outcome == "split" and row < t) for row, name in enumerate(sorted(who))}
    if world.loses and outcome == "wall":
        answers = {}
    with _drawn(who):
        following = _after_round(_copied(path), question, {}, answers, outcome, world.victim)
    if outcome == "split":
        lower, upper = following.region
        inside = {name: code for name, code in _located(path).items() if lower <= code < upper}
        following = _after_round(following, None, inside, {})
    return following


def _located(path: Path) -> dict[bytes, int]:
    return {name: int.from_bytes(name[:8], "big") for name in path.log.members}


def _after_round(
    path: Path, question: Question | None, announcing: dict[bytes, int], answers: dict[bytes, int],
    outcome: str = "wall", victim: int = 0,
) -> Path:  # fmt: skip
    """The path after a round with these announcements and answers."""
    task = path.task
    path.observe(Query(task.id, path.round, () if question is None else (question,)))
    entries = [Entry(name, None, bytes(16)) for name in announcing]
    entries += [Entry(name, answer, bytes(16)) for name, answer in answers.items()]
    reports = None
    heads: tuple[Head, ...] = ()
    if entries:
        reports = Slice(task.id, path.round, *path.region, tuple(sorted(entries, key=lambda entry: entry.pseudonym)))
        heads = (Head(*path.region, len(entries), reports.digest()),)
    yes = sum(answers.values())
    verdicts = () if question is None else (Verdict(outcome, (len(answers) - yes, yes)),)  # type: ignore[arg-type]
    parts = path.close(Closed(task.id, path.round, heads, verdicts, b"", False), reports)
    return next(one for one in parts if len(parts) == 1 or one.region[0] <= victim < one.region[1])


# -- planted bugs -----------------------------------------------------------------------------------------------------


def levels_that_do_not_fall() -> AbstractContextManager[object]:
    """Planted: every question has the level of the first."""
    return mock.patch.object(rule_module, "level", lambda delta, failed: delta / 2)


def aborted_not_counted() -> AbstractContextManager[object]:
    """Planted: a question that nobody answered does not count."""
    take = RegionLog.take

    def forgetful(log: RegionLog, reports: Slice | None, *, asked: bool, late: bool) -> None:
        take(log, reports, asked=asked, late=late)
        if asked and reports is None and log.failed:
            log.failed.pop()

    return mock.patch.object(RegionLog, "take", forgetful)


def late_members_counted() -> AbstractContextManager[object]:
    """Planted: who enrols late counts in a crowd."""
    take = RegionLog.take

    def welcoming(log: RegionLog, reports: Slice | None, *, asked: bool, late: bool) -> None:
        take(log, reports, asked=asked, late=False)

    return mock.patch.object(RegionLog, "take", welcoming)
