"""refusals.json: for every check of a device, and of a server, a message that it must refuse.

A story is an honest campaign as one device sees it. A refusal is a place in a story and a step that lies there. Every
vector is tried on the machines while it is made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
from vector_common import CHAIN, OPEN, TASKS, Json, Region, plain, secret, slices_of, token_of
from vector_plays import one_play, play_list

from semilocal.protocol.curator import Curator
from semilocal.protocol.messages import (
    AnyQuery,
    AnyReport,
    Clip,
    Closed,
    Entry,
    Query,
    Question,
    Report,
    Slice,
    ValueClosed,
    ValueQuery,
    ValueReport,
    decode,
    decode_closed,
    decode_report,
    encode,
)  # fmt: skip
from semilocal.protocol.participant import Participant, State
from semilocal.protocol.plan import Plan, Release
from semilocal.protocol.policy import Policy
from semilocal.protocol.task import Task
from semilocal.protocol.thresholds import level, threshold
from semilocal.randomizer.values import TwoPoint

__all__ = ["make_refusals"]

PEOPLE = 60
Change = msgspec.structs.replace


class Step(NamedTuple):
    """What a device is given: a query to answer or only to observe, a closing and a slice, or values."""

    kind: str  # "answer", "observe", "close", "value", "counted"
    message: AnyQuery | Closed | ValueClosed
    reports: Slice | None = None

    def told(self) -> Json:
        """For the file."""
        return [self.kind, encode(self.message).hex(), None if self.reports is None else encode(self.reports).hex()]

    def give(self, device: Participant, last: AnyReport | None = None) -> AnyReport | None:
        """Give it to a device; ``last`` is its last value."""
        if isinstance(self.message, Closed):
            return device.close(self.message, self.reports)  # type: ignore[func-returns-value]
        if isinstance(self.message, ValueClosed):
            assert isinstance(last, ValueReport)
            return device.check_counted(self.message, last)  # type: ignore[func-returns-value]
        if self.kind == "observe":
            assert isinstance(self.message, Query)
            return device.observe(self.message)  # type: ignore[func-returns-value]
        return device.receive(self.message)


class Story:
    """An honest campaign as one device sees it; the others say the truth, and a third of them are near it."""

    def __init__(self, name: str, task: Task, plan: Plan | None = None) -> None:
        self.name, self.task, self.point = name, task, [0.95 if name == "all" else 0.3]
        self.plan = Plan(task.id) if plan is None else plan
        self.secret = secret(f"story {name}")
        self.steps: list[Step] = []
        # before each step: region, question, F and w
        self.seen: list[tuple[Region, Question | None, int, int]] = []
        device, curator = self.device(), Curator(task, plan, chain=CHAIN)
        spread = [(number + 0.5) / PEOPLE if number % 3 else 0.29 + 0.0005 * number for number in range(PEOPLE)]
        points = [[x] * task.box.dimensions for x in spread]
        codes = {
            hashlib.sha256(f"{name} {number}".encode()).digest()[:16]: int(code)
            for number, code in enumerate(task.hierarchy.codes(points))
        }
        while (query := curator.query()) is not None:
            if isinstance(query, ValueQuery):
                self._add(Step("value", query), device)
                report = device.value(query)
                closed = curator.close([] if report is None else [report])
                assert isinstance(closed, ValueClosed)
                self._add(Step("counted", closed), device)
                continue
            self._add(Step("answer", query), device)
            own = device.answer(query)
            reports = [] if own is None else [own]
            for who, code in codes.items():
                region = next(one for one in curator.logs if one[0] <= code < one[1])
                question = next((one for one in query.questions if one.region == region), None)
                drawn = question is not None and who in curator.asked_now(region)
                if drawn or curator.home.get(who) != region:
                    answer = self._truth(question, code) if drawn and question is not None else None
                    reports.append(Report(task.id, query.round, who, *region, answer, who))
            closed = curator.close(reports)
            assert isinstance(closed, Closed)
            step = Step("close", closed, slices_of(reports).get(device.log.region))
            self._add(step, device)
            step.give(device)

    def _add(self, step: Step, device: Participant) -> None:
        log, question = device.log, None
        if isinstance(step.message, Query):
            question = next((one for one in step.message.questions if one.region == log.region), None)
        elif isinstance(step.message, Closed):
            question = self.seen[-1][1]
        late = question is not None and not question.decides
        self.seen.append((log.region, question, len(log.askable(self.task.answers, late=late)), len(log.failed)))
        self.steps.append(step)

    def _truth(self, question: Question, code: int) -> int | tuple[int, ...]:
        part = sum(code >= cut for cut in question.cuts)
        return part if self.task.randomizer.words == 1 else tuple(int(i == part) for i in range(len(question.parts)))

    def device(self, policy: Policy = OPEN, state: State | None = None) -> Participant:
        """The device before the first step."""
        return Participant(self.task, self.point, self.secret, policy, plan=self.plan, state=state)

    def at(self, kind: str, good: Callable[[Question | None, Any], bool] = lambda _, __: True) -> int:
        """The first step of a kind for whose question and message something holds."""
        rows = enumerate(zip(self.steps, self.seen, strict=True))
        return next(i for i, (step, seen) in rows if step.kind == kind and good(seen[1], step.message))

    def told(self) -> Json:
        """For the file."""
        return {
            "task": plain(self.task), "bytes": self.task.to_bytes().hex(), "plan": encode(self.plan).hex(),
            "point": self.point, "secret": self.secret.hex(), "steps": [step.told() for step in self.steps],
        }  # fmt: skip


@cache
def story(name: str) -> Story:
    """The story of a task; "values" is that of "cut" with a plan."""
    if name != "values":
        return Story(name, TASKS[name])
    task = TASKS["cut"]
    releases = (
        Release("mean", TwoPoint(1.0), "coordinate", (0.0,)), Release("counts"),
        Release("values", TwoPoint(1.0), "linear", (1.0, 2.0)),
    )  # fmt: skip
    return Story(name, task, Plan(task.id, releases))


class Lie(NamedTuple):
    """A step that is refused at a place of a story."""

    name: str
    token: str
    why: str
    story: str
    after: int
    step: Step
    policy: Policy = OPEN
    state: State | None = None
    stops: bool = False


def make_refusals() -> Json:
    """Everything that must be refused."""
    lies = list(lie_list())
    return {
        "about": "Stories are honest campaigns as one device sees them; steps are [kind, message, slice]. Each refusal "
        "is a step that lies after so many steps of a story. joining: tasks and plans that a policy forbids. reports: "
        "what a server refuses in a round of a play.",
        "tasks": {name: {"task": plain(task), "bytes": task.to_bytes().hex()} for name, task in TASKS.items()},
        "joining": list(joining_list()),
        "stories": {name: story(name).told() for name in sorted({lie.story for lie in lies})},
        "messages": [refused(lie) for lie in lies],
        "reports": [refused_report(*entry) for entry in report_list()],
    }


# -- joining -----------------------------------------------------------------------------------------------------


def joining_list() -> Iterator[Json]:
    """Tasks and plans that a policy forbids."""
    strict: dict[str, Any] = {"max_epsilon": 6.0, "min_k": 1, "max_delta": 0.2}
    mean = Release("mean", TwoPoint(2.0), "coordinate", (0.0,))
    for name, token, why, task, policy, releases in (
        ("floats", "simulation-only", "noise in floats", "simulation", strict, ()),
        ("printed-margin", "no-crowd", "no crowd is kept", "printed-margin", strict | {"allow_simulation": True}, ()),
        ("no-chain", "no-chain", "the server could choose who is asked", "no-chain", strict, ()),
        ("small-k", "small-crowd", "k = 3, 5 is wanted", "cut", strict | {"min_k": 5}, ()),
        ("large-delta", "weak-crowd", "delta = 0.05, 0.04 is allowed", "cut", strict | {"max_delta": 0.04}, ()),
        ("large-epsilon", "over-budget", "epsilon = 5, 4.9 is left", "cut", strict | {"max_epsilon": 4.9}, ()),
        ("epsilon-with-values", "over-budget", "5 for the partition, 2 for a mean", "cut", strict, (mean,)),
        ("small-domain", "small-region", "the domain has a side of 1", "cut", strict | {"min_side": [1.5]}, ()),
        ("plan-of-another-axis", "bad-plan", "the domain has one axis", "cut", strict | {"max_epsilon": 9.0},
         (Release("mean", TwoPoint(2.0), "coordinate", (1.0,)),)),
    ):  # fmt: skip
        plan = Plan(TASKS[task].id, releases)
        limits = msgspec.convert(policy, Policy)
        found = token_of(lambda task=task, limits=limits, plan=plan: Participant(  # type: ignore[misc]
            TASKS[task], [0.3], bytes(32), limits, plan=plan))  # fmt: skip
        assert found == token, (name, found)
        told = plain(limits)
        yield {"name": name, "token": token, "why": why, "task": task, "policy": told, "plan": encode(plan).hex()}
    plan = Plan(bytes(32))
    yield {"name": "plan-of-another-task", "token": "bad-plan", "why": "the id is not the pinned one", "task": "cut",
           "policy": plain(OPEN), "plan": encode(plan).hex()}  # fmt: skip


# -- lies of a server --------------------------------------------------------------------------------------------


def asked(told: Story, at: int, question: Question) -> Step:
    """The query of a step with another question about the device's region."""
    query, old = told.steps[at].message, told.seen[at][1]
    assert isinstance(query, Query)
    rest = [one for one in query.questions if one != old]
    return Step("answer", Change(query, questions=tuple(sorted([*rest, question], key=lambda one: one.lower))))


def closed(told: Story, at: int, entries: tuple[Entry, ...] | None = None, **verdict: Any) -> Step:
    """The closing of a step with another verdict, or with other entries and a hash that fits them."""
    kind, message, reports = told.steps[at]
    assert isinstance(message, Closed)
    query, region, question = told.steps[at - 1].message, *told.seen[at][:2]
    assert isinstance(query, Query)
    if question is not None and verdict:
        place = query.questions.index(question)
        rows = list(message.verdicts)
        rows[place] = Change(rows[place], **verdict)
        message = Change(message, verdicts=tuple(rows))
    if entries is not None:
        assert reports is not None
        reports = Change(reports, entries=entries)
        heads = tuple(
            Change(head, reports=len(entries), digest=reports.digest()) if (head.lower, head.upper) == region else head
            for head in message.heads
        )
        message = Change(message, heads=heads)
    return Step(kind, message, reports)


def lie_list() -> Iterator[Lie]:
    """All lies, in the order of section 12 of the text."""
    cut, everybody, values = story("cut"), story("all"), story("values")
    yield from query_lies(cut)
    yield from threshold_lies(cut, everybody)
    yield from closing_lies(cut)
    yield from verdict_lies(cut)
    yield from laplace_lies(story("laplace"))
    yield from policy_lies(cut)
    yield from value_lies(values)


def query_lies(told: Story) -> Iterator[Lie]:
    """Queries that do not fit the log."""
    first, after = told.steps[0], told.at("answer", lambda q, m: m.round == 2)
    query = told.steps[after].message
    yield Lie("query-of-another-task", "other-task", "the id is not the pinned one", "cut", 0,
              Step("answer", Change(first.message, task=bytes(32))))  # fmt: skip
    yield Lie("query-skips-a-round", "skipped-round", "round 2 before round 1", "cut", 0, Step("answer", query))
    yield Lie("query-repeats-a-round", "repeated-round", "round 1 again after its closing", "cut", after, first)
    last = told.at("close", lambda q, m: m.finished)
    yield Lie("query-after-the-end", "skipped-round", "the partition is finished", "values", story("values").at(
        "close", lambda q, m: m.finished) + 1, Step("answer", Query(told.task.id, last, ())))  # fmt: skip
    other = Change(query, questions=())
    yield Lie("query-changed-after-the-answer", "changed-query", "the same round with other questions", "cut",
              after + 1, Step("answer", other))  # fmt: skip
    question = told.seen[after][1]
    assert question is not None
    half = Change(question, upper=question.upper - 1)
    yield Lie("question-about-a-part-of-the-region", "other-region", "the log has no such region", "cut", after,
              asked(told, after, half))  # fmt: skip
    behind = told.at("answer", lambda q, m: q is not None and q.region != question.region)
    yield Lie("question-about-the-region-before-the-split", "other-region", "it was cut", "cut", behind, Step(
        "answer", Change(told.steps[behind].message, questions=(Change(question, drawn=query.round),))))  # fmt: skip
    people = told.seen[after][2]
    yield Lie("more-are-asked-than-may-be", "wrong-draw", "F + 1 are asked", "cut", after,
              asked(told, after, Change(question, asked=people + 1)))  # fmt: skip
    yield Lie("question-begins-with-the-second-of-the-draw", "wrong-draw", "start is 1", "cut", after,
              asked(told, after, Change(question, start=1)))  # fmt: skip
    yield Lie("second-portion-of-nothing", "wrong-draw", "there was no first portion", "cut", after,
              asked(told, after, Change(question, drawn=1)))  # fmt: skip
    more = told.at("answer", lambda q, m: q is not None and q.drawn < m.round)
    second = told.seen[more][1]
    assert second is not None
    for name, why, changed in (
        ("at-another-cut", "the cut moved", Change(second, cuts=(second.cuts[0] + 1,))),
        ("with-another-threshold", "one less", Change(second, threshold=second.threshold - 1)),
        ("to-more-people", "one more", Change(second, asked=second.asked + 1, stop=second.stop + 1)),
        ("to-fewer-people", "fewer than the first portion had", Change(second, asked=1, start=0, stop=1)),
        ("that-leaves-somebody-out", "one was never asked", Change(second, start=second.start + 1)),
        ("that-is-not-all", "one is left", Change(second, stop=second.stop - 1)),
    ):
        yield Lie(f"second-portion-{name}", "wrong-draw", why, "cut", more, asked(told, more, changed))
    refining = told.at("answer", lambda q, m: q is not None and not q.decides)
    third = told.seen[refining][1]
    assert third is not None
    cuts = (*third.cuts, third.cuts[0] + 1) if third.cuts[0] + 1 < third.upper else (third.cuts[0] - 1, *third.cuts)
    yield Lie("estimate-refined-by-two-cuts", "wrong-question", "one cut at a time", "cut", refining,
              asked(told, refining, Change(third, cuts=cuts)))  # fmt: skip
    state = State(region=question.parts[0], round=1, question=bytes(32))
    yield Lie("log-that-was-written-anew", "grown-region", "the device announced half of this region", "cut", after,
              told.steps[after], state=state)  # fmt: skip
    state = State(region=question.region, round=query.round, question=bytes(32))
    yield Lie("another-query-after-a-restart", "repeated-round", "it reported to another query", "cut", after,
              told.steps[after], state=state)  # fmt: skip
    state = State(region=question.region, round=query.round + 1, question=bytes(32))
    yield Lie("log-that-was-set-back", "repeated-round", "it reported in a later round", "cut", after,
              told.steps[after], state=state)  # fmt: skip


def threshold_lies(told: Story, everybody: Story) -> Iterator[Lie]:
    """Thresholds that show no crowd."""
    task = told.task
    after = told.at("answer", lambda q, m: q is not None)
    question = told.seen[after][1]
    assert question is not None
    yield Lie("threshold-one-too-small", "weak-threshold", "t - 1", "cut", after,
              asked(told, after, Change(question, threshold=question.threshold - 1)))  # fmt: skip
    portion = threshold(told.seen[after][2], question.stop, task.k, task.randomizer.epsilon, task.delta / 2)
    yield Lie("threshold-of-the-first-portion", "weak-threshold", "t is for all that are asked", "cut", after,
              asked(told, after, Change(question, threshold=portion)))  # fmt: skip
    cuts = (question.cuts[0], question.cuts[0] + 1)
    yield Lie("three-parts-with-rule-cut", "weak-threshold", "one cut at a time", "cut", after,
              asked(told, after, Change(question, cuts=cuts)))  # fmt: skip
    yield from weak_for_liars()
    for at, (_, later, people, failed) in enumerate(told.seen):
        if told.steps[at].kind == "answer" and later is not None and later.decides and later.drawn == _round(told, at):
            forgotten = threshold(people, later.asked, task.k, task.randomizer.epsilon, level(task.delta, 0))
            if failed and forgotten < later.threshold:
                yield Lie("threshold-that-forgets-walls", "weak-threshold", "for w = 0", "cut", at,
                          asked(told, at, Change(later, threshold=forgotten)))  # fmt: skip
                break
    else:
        raise AssertionError("no question after a wall")
    after = everybody.at("answer", lambda q, m: q is not None)
    question = everybody.seen[after][1]
    assert question is not None
    yield Lie("all-threshold-one-too-small", "weak-threshold", "t - 1", "all", after,
              asked(everybody, after, Change(question, threshold=question.threshold - 1)))  # fmt: skip
    yield Lie("all-but-one-are-asked", "weak-threshold", "rule all asks everybody", "all", after, asked(
        everybody, after, Change(question, asked=question.asked - 1, stop=question.stop - 1)))  # fmt: skip
    walls = [at for at, (_, one, _, failed) in enumerate(everybody.seen)
             if one is None and failed and everybody.steps[at].kind == "answer"]  # fmt: skip
    lower, upper = everybody.seen[walls[0]][0]
    again = Question(lower, upper, (lower + 1,), 1, 0, 1, _round(everybody, walls[0]), 1)
    yield Lie("all-ask-a-second-time", "wrong-draw", "everybody has answered", "all", walls[0],
              asked(everybody, walls[0], again))  # fmt: skip


def weak_for_liars() -> Iterator[Lie]:
    """Weak thresholds where two may lie: a liar adds one answer for sure, an honest person only with probability p."""
    for name in ("liars", "all-liars"):
        told = story(name)
        place = told.at("answer", lambda q, m: q is not None)
        question = told.seen[place][1]
        assert question is not None
        for fewer, which, why in (
            (2, "weak-threshold-with-liars", "for k, without two answers more"),
            (1, "liars-as-a-larger-crowd", "for k + 2: one answer fewer than for k and two more"),
        ):
            changed = Change(question, threshold=question.threshold - fewer)
            yield Lie(f"{told.task.rule}-{which}", "weak-threshold", why, name, place, asked(told, place, changed))


def _round(told: Story, at: int) -> int:
    message = told.steps[at].message
    return int(message.round)


def closing_lies(told: Story) -> Iterator[Lie]:
    """Closings and slices that do not fit."""
    first = told.at("close", lambda q, m: q is not None)
    message, reports = told.steps[first].message, told.steps[first].reports
    assert isinstance(message, Closed)
    assert reports is not None
    yield Lie("closing-of-another-task", "other-task", "the id is not the pinned one", "cut", first,
              Step("close", Change(message, task=bytes(32)), reports))  # fmt: skip
    yield Lie("closing-skips-a-round", "skipped-round", "a later round", "cut", first,
              Step("close", Change(message, round=message.round + 1), reports))  # fmt: skip
    yield Lie("closing-before-the-query", "skipped-round", "the query was not seen", "cut", first - 1,
              told.steps[first])  # fmt: skip
    yield Lie("closing-repeats-a-round", "repeated-round", "round 1 again", "cut", first, told.steps[1])
    for name, why, preimage in (
        ("another-preimage", "it does not hash to the one before", bytes(32)),
        ("no-preimage", "the task has a chain", b""),
        ("the-preimage-of-the-round-before", "each is given once", CHAIN.preimage(message.round - 1)),
    ):
        lie = Step("close", Change(message, preimage=preimage), reports)
        yield Lie(f"closing-with-{name}", "broken-chain", why, "cut", first, lie)
    yield Lie("slice-withheld", "wrong-slice", "the closing has one", "cut", first, Step("close", message))
    yield Lie("slice-of-nothing", "wrong-slice", "the closing has none", "cut", first,
              Step("close", Change(message, heads=()), reports))  # fmt: skip
    yield Lie("slice-without-a-report", "wrong-slice", "the closing counts one more", "cut", first,
              Step("close", message, Change(reports, entries=reports.entries[1:])))  # fmt: skip
    flipped = tuple(_flip(entry) for entry in reports.entries)
    yield Lie("slice-with-other-answers", "wrong-slice", "it has another hash", "cut", first,
              Step("close", message, Change(reports, entries=flipped)))  # fmt: skip
    yield Lie("slice-of-another-round", "wrong-slice", "round 1", "cut", first,
              Step("close", message, Change(reports, round=1)))  # fmt: skip
    silent = told.at("close", lambda q, m: m.round > 1 and _own(told, m) is None and q is not None)
    message, reports = told.steps[silent].message, told.steps[silent].reports
    question = told.seen[silent][1]
    assert reports is not None
    assert question is not None
    stranger = Entry(b"\xff" * 16, 0, bytes(16))
    yield Lie("answer-of-somebody-who-was-not-drawn", "wrong-slice", "a stranger answers", "cut", silent,
              closed(told, silent, (*reports.entries, stranger)))  # fmt: skip
    wrong = tuple(Change(entry, answer=2) if entry.answer == 1 else entry for entry in reports.entries)
    yield Lie("answer-that-the-question-does-not-have", "wrong-slice", "part 2 of two", "cut", silent,
              closed(told, silent, wrong))  # fmt: skip
    vector = tuple(Change(entry, answer=(1, 0, 0)) if entry.answer == 1 else entry for entry in reports.entries)
    yield Lie("answer-that-is-a-vector", "wrong-slice", "randomized response is one number", "cut", silent,
              closed(told, silent, vector))  # fmt: skip
    own_name = told.device().pseudonym
    forged = tuple(sorted((*reports.entries, Entry(own_name, None, bytes(16))), key=lambda entry: entry.pseudonym))
    yield Lie("report-under-its-name", "changed-report", "it sent nothing in this round", "cut", silent,
              closed(told, silent, forged))  # fmt: skip
    spoke = told.at("close", lambda q, m: m.round > 1 and _own(told, m) is not None and q is not None)
    mine = told.steps[spoke].reports
    assert mine is not None
    others = tuple(Change(entry, nonce=bytes(16)) if entry.pseudonym == own_name else entry for entry in mine.entries)
    yield Lie("its-report-with-another-nonce", "changed-report", "not what it sent", "cut", spoke,
              closed(told, spoke, others))  # fmt: skip
    changed = tuple(_flip(entry) if entry.pseudonym == own_name else entry for entry in mine.entries)
    place = _verdict(told, spoke)
    own = next(entry.answer for entry in mine.entries if entry.pseudonym == own_name)
    assert isinstance(own, int)
    tally = tuple(count - (part == own) + (part != own) for part, count in enumerate(place))
    yield Lie("its-answer-turned-round", "changed-report", "and counted on the other side", "cut", spoke,
              closed(told, spoke, changed, tally=tally))  # fmt: skip


def _flip(entry: Entry) -> Entry:
    return entry if not isinstance(entry.answer, int) else Change(entry, answer=1 - entry.answer)


def _own(told: Story, message: Closed) -> Entry | None:
    """The device's entry in the slice of a closing."""
    reports = next(step.reports for step in told.steps if step.message is message)
    name = told.device().pseudonym
    return next((one for one in (() if reports is None else reports.entries) if one.pseudonym == name), None)


def _verdict(told: Story, at: int) -> tuple[int, ...]:
    query, message, question = told.steps[at - 1].message, told.steps[at].message, told.seen[at][1]
    assert isinstance(query, Query)
    assert isinstance(message, Closed)
    assert question is not None
    return message.verdicts[query.questions.index(question)].tally


def verdict_lies(told: Story) -> Iterator[Lie]:
    """Sums and verdicts that do not follow from the answers."""
    first = told.at("close", lambda q, m: q is not None)
    tally = _verdict(told, first)
    yield Lie("tally-with-one-more", "wrong-tally", "the answers do not add up to it", "cut", first,
              closed(told, first, tally=(tally[0] + 1, *tally[1:])))  # fmt: skip
    yield Lie("tally-of-three-parts", "wrong-tally", "the question has two", "cut", first,
              closed(told, first, tally=(*tally, 0)))  # fmt: skip
    message = told.steps[first].message
    assert isinstance(message, Closed)
    yield Lie("closing-without-verdicts", "wrong-verdict", "one per question", "cut", first,
              Step("close", Change(message, verdicts=()), told.steps[first].reports))  # fmt: skip
    early = told.at("close", lambda q, m: q is not None and q.stop < q.asked)
    yield Lie("split-after-the-first-portion", "wrong-verdict", "not all were asked", "cut", early,
              closed(told, early, outcome="split"))  # fmt: skip
    wall = told.at("close", lambda q, m: q is not None and q.decides and q.stop == q.asked and min(
        _tally(told, m)) < q.threshold)  # fmt: skip
    yield Lie("split-below-the-threshold", "wrong-verdict", "one side has too few answers", "cut", wall,
              closed(told, wall, outcome="split"))  # fmt: skip
    yield Lie("more-after-everybody-was-asked", "wrong-verdict", "there is no second portion", "cut", wall,
              closed(told, wall, outcome="more"))  # fmt: skip
    refining = told.at("close", lambda q, m: q is not None and not q.decides)
    yield Lie("split-where-nothing-is-decided", "wrong-verdict", "the question only refines", "cut", refining,
              closed(told, refining, outcome="split"))  # fmt: skip


def _tally(told: Story, message: Closed) -> tuple[int, ...]:
    return _verdict(told, next(at for at, step in enumerate(told.steps) if step.message is message))


def laplace_lies(told: Story) -> Iterator[Lie]:
    """Vectors as answers."""
    at = told.at("close", lambda q, m: q is not None)
    reports = told.steps[at].reports
    assert reports is not None
    name = told.device().pseudonym
    for why, answer in (("one-number", 1), ("three-numbers", (1, 0, 0)), ("beyond-the-noise", (10**6, 0))):
        entries = tuple(entry if entry.pseudonym == name else Change(entry, answer=answer) for entry in reports.entries)
        yield Lie(f"laplace-answers-of-{why}", "wrong-slice", why.replace("-", " "), "laplace", at,
                  closed(told, at, entries))  # fmt: skip


def policy_lies(told: Story) -> Iterator[Lie]:
    """Legal questions that the owner's limits forbid: the device stops for good."""
    after = told.at("answer", lambda q, m: q is not None)
    for name, token, why, changes in (
        ("region-too-small", "small-region", "no half has a side of 0.6", {"min_side": (0.6,)}),
        ("region-too-deep", "deep-region", "halves have depth 1", {"max_depth": 0}),
        ("cut-once-too-often", "many-splits", "none is allowed", {"max_splits": 0}),
    ):
        policy = Change(OPEN, **changes)
        yield Lie(name, token, why, "cut", after, told.steps[after], policy=policy, stops=True)


def value_lies(told: Story) -> Iterator[Lie]:
    """Queries for values that are not planned, and values that are not counted."""
    at = told.at("value")
    query = told.steps[at].message
    assert isinstance(query, ValueQuery)
    yield Lie("value-query-of-another-task", "other-plan", "the id is not the pinned one", "values", at,
              Step("value", Change(query, task=bytes(32))))  # fmt: skip
    yield Lie("value-query-of-another-plan", "other-plan", "the digest is not the pinned one", "values", at,
              Step("value", Change(query, plan=bytes(32))))  # fmt: skip
    yield Lie("value-query-before-the-end", "too-early", "the partition goes on", "values", at - 2,
              Step("value", query))  # fmt: skip
    yield Lie("value-query-of-an-earlier-round", "too-early", "round 1", "values", at,
              Step("value", Change(query, round=1)))  # fmt: skip
    yield Lie("value-query-of-counts", "not-planned", "counts ask for nothing", "values", at,
              Step("value", Change(query, index=1)))  # fmt: skip
    yield Lie("value-query-beyond-the-plan", "not-planned", "there are three releases", "values", at,
              Step("value", Change(query, index=3)))  # fmt: skip
    clips = tuple(Clip(clip.lower, clip.upper, clip.low, clip.high + 1) for clip in query.clips)
    yield Lie("value-query-with-another-range", "changed-query", "two values could be compared", "values", at + 1,
              Step("value", Change(query, clips=clips)))  # fmt: skip
    counted = told.steps[at + 1].message
    assert isinstance(counted, ValueClosed)
    turned = tuple(tuple((1 - output, count) for output, count in row) for row in counted.counts)
    yield Lie("value-not-counted", "not-counted", "another output was counted", "values", at + 1,
              Step("counted", Change(counted, counts=turned)))  # fmt: skip


def refused(lie: Lie) -> Json:
    """The vector of a lie, tried out."""
    told = story(lie.story)
    device = told.device(lie.policy, lie.state)
    last: AnyReport | None = None
    for step in told.steps[: lie.after]:
        if lie.state is None:
            last = step.give(device, last) or last
        else:  # it reads the log
            Step("observe" if step.kind == "answer" else step.kind, step.message, step.reports).give(device)
    before = device.state
    for _ in range(1 if lie.stops else 2):
        found = token_of(lambda: lie.step.give(device, last))
        assert found == lie.token, (lie.name, found, lie.token)
    assert (device.state == before) != lie.stops, lie.name
    then = None
    if lie.state is None and not lie.stops:
        then = told.steps[lie.after].give(device, last)
    out = {
        "name": lie.name, "token": lie.token, "why": lie.why, "story": lie.story, "after": lie.after,
        "step": lie.step.told(), "policy": plain(lie.policy), "state": None, "stops": lie.stops,
        "then": None if then is None else encode(then).hex(),
    }  # fmt: skip
    if lie.state is not None:
        region = lie.state.region
        assert region is not None
        out["state"] = {"region": list(map(str, region)), "round": lie.state.round, "question": bytes(32).hex()}
    return out


# -- reports that a server refuses -------------------------------------------------------------------------------


@cache
def played(name: str) -> Json:
    """A campaign of plays.json."""
    return one_play(next(play for play in play_list() if play.name == name))


def report_list() -> Iterator[tuple[str, str, str, str, int, AnyReport, AnyReport]]:
    """Name, token, what is wrong, play, round, a legal report, and the one that is refused."""

    def legal(play: str, number: int, good: Callable[[Any], bool] = lambda report: True) -> Any:
        rows = played(play)["rounds"][number - 1]["reports"]
        return next(report for _, data in rows if good(report := decode_report(bytes.fromhex(data))))

    cut, values = "cut-binary-1d", "values-own-1d"
    first, second = (legal(cut, number) for number in (1, 2))
    asked = legal(cut, 2, lambda report: report.answer is not None)
    for name, token, why, bad in (
        ("report-of-another-task", "other-task", "another id", Change(second, task=bytes(32))),
        ("report-of-another-round", "other-round", "round 1", first),
        ("report-of-a-value", "wrong-kind", "the partition goes on", ValueReport(
            second.task, 2, second.pseudonym, second.lower, second.upper, 0)),
        ("report-of-no-region", "unknown-region", "not a region now", Change(second, upper=second.upper - 1)),
        ("answer-of-somebody-not-drawn", "not-drawn", "a stranger", Change(asked, pseudonym=bytes(16))),
        ("answer-of-part-two", "bad-answer", "there are two parts", Change(asked, answer=2)),
        ("report-twice", "reported-twice", "under one pseudonym", Change(asked, nonce=bytes(16))),
    ):  # fmt: skip
        yield name, token, why, cut, 2, asked, bad
    number = next(row["round"] for row in played(cut)["rounds"] if len(_regions(row)) > 1)
    report = legal(cut, number)
    other = next(region for region in _regions(played(cut)["rounds"][number - 1]) if region != report.region)
    after = next(
        row["round"] for row in played(cut)["rounds"][number:]
        if any(decode_report(bytes.fromhex(data)).region == report.region for _, data in row["reports"])
    )  # fmt: skip
    yield ("report-of-the-other-side", "other-region", "it announced another one before", cut, after,
           legal(cut, after, lambda one: one.region == report.region),
           Change(report, round=after, lower=other[0], upper=other[1], answer=None))  # fmt: skip
    rounds = played(values)["rounds"]
    number = next(row["round"] for row in rounds if bytes.fromhex(row["query"])[2:13] == b"value-query")
    value = legal(values, number)
    yield "value-beyond-the-outputs", "bad-answer", "not an output", values, number, value, Change(value, answer=10**6)
    yield ("value-of-another-region", "other-region", "it announced another one", values, number, value,
           Change(value, pseudonym=bytes(16)))  # fmt: skip
    yield ("report-among-values", "wrong-kind", "a round of values", values, number, value, Report(
        value.task, number, value.pseudonym, value.lower, value.upper, None, bytes(16)))  # fmt: skip


def _regions(row: Json) -> set[Region]:
    return {decode_report(bytes.fromhex(data)).region for _, data in row["reports"]}


def replayed(play: Json, number: int) -> Curator:
    """A server before the round of a play."""
    task, plan = decode(bytes.fromhex(play["bytes"]), Task), decode(bytes.fromhex(play["plan"]), Plan)
    events: list[Any] = []
    for row in play["rounds"][: number - 1]:
        events += [decode_report(bytes.fromhex(data)) for _, data in row["reports"]]
        events.append(decode_closed(bytes.fromhex(row["closed"])))
    return Curator.replay(task, events, plan, chain=CHAIN)


def refused_report(name: str, token: str, why: str, play: str, number: int, legal: AnyReport, bad: AnyReport) -> Json:
    """The vector of a report, tried out."""
    curator = replayed(played(play), number)

    def take() -> None:
        curator.check(bad)
        curator.close([legal, bad])

    curator.check(legal)
    found = token_of(take)
    assert found == token, (name, found)
    return {
        "name": name, "token": token, "why": why, "play": play, "round": number, "legal": encode(legal).hex(),
        "report": encode(bad).hex(),
    }  # fmt: skip
