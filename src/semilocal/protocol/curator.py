"""The server's machine: rounds, questions, draws and verdicts, sans-IO.

    round       who reports                                                    what closes it
    1           everybody: who reports is on the roster                        the first questions
    partition   drawn members answer; members of a region that was split,      split, wall, or more (the second portion)
                and who was away, announce their region
    values      everybody with a region gives one value, per release           the counts of outputs

A region goes through: announced -> asked (first portion) -> asked (rest) -> split, or a wall and asked again elsewhere
-> ended, and its free members refine the estimate -> done. The state is a function of the task, the plan and the events
so far: server, simulation, replay and verifier drive this class. Everything about what is asked is in
:mod:`.rule`. Knows reports. Knows no clock, database or positions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec
import numpy as np

from ..errors import DeviceViolation, InvalidInput
from .clip import clips
from .estimate import Walls
from .keys import HashChain
from .messages import (
    AnyClosed,
    AnyQuery,
    AnyReport,
    Clip,
    Closed,
    Entry,
    Event,
    Head,
    Query,
    Question,
    Region,
    Report,
    Slice,
    ValueClosed,
    ValueQuery,
    ValueReport,
    Verdict,
    seed_of,
)
from .partition import Away, Partition
from .plan import Plan, Release
from .region import RegionLog, walls_of
from .rule import ROUNDS_OF_A_QUESTION, Asking, Census, go_on, questions, randomizer_for, refinements, splits
from .task import Task


class Curator:
    """Plays a task as the server.

    Parameters
    ----------
    task : Task
    plan : Plan, optional
        The releases that follow the partition; none if left out.
    chain : HashChain, optional
        The server's part of the draws; needed where the task has a chain, unless closings are only followed.
    """

    def __init__(self, task: Task, plan: Plan | None = None, *, chain: HashChain | None = None) -> None:
        self.task = task
        self.plan = Plan(task.id) if plan is None else plan
        self.plan.check(task)
        if chain is not None and chain.end != task.chain:
            raise InvalidInput("the hash chain is not the one that the task ends with")
        self._chain = chain
        self._preimage = task.chain  # the last one that was given away
        self.round = 1
        self.values = 0  # rounds of values that are closed
        self.partitioned = False
        self.slices: tuple[Slice, ...] = ()  # of the last closing
        root = task.hierarchy.ends
        self.logs: dict[Region, RegionLog] = {root: RegionLog(*root)}  # of the regions that are not split
        self.above: dict[Region, RegionLog] = {}  # of those that were: who never announced a side is still there
        self.home: dict[bytes, Region] = {}  # the last region that each participant announced
        self._announcing: dict[Region, RegionLog] = {}  # new parts, and the region they were split from
        self._open: tuple[Question, ...] = ()
        self._drawn: dict[Region, frozenset[bytes]] = {}  # who answers the open questions
        self._asking: dict[Region, tuple[Asking, int]] = {}  # what the rule knew when it put the question
        self._finishing: set[Region] = set()  # ended regions: nothing is decided there any more

    # -- the open round ---------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether all rounds are closed."""
        return self.partitioned and self.values == len(self.plan.asked)

    @property
    def release(self) -> Release | None:
        """The release that the open round asks for; None in the partition and at the end."""
        return None if not self.partitioned or self.finished else self.plan.releases[self.plan.asked[self.values]]

    def query(self) -> AnyQuery | None:
        """The open round's query; None when finished."""
        if self.finished:
            return None
        if not self.partitioned:
            return Query(self.task.id, self.round, self._open)
        return ValueQuery(self.task.id, self.round, self.plan.digest, self.plan.asked[self.values], self._clips())

    def _clips(self) -> tuple[Clip, ...]:
        release = self.release
        assert release is not None
        ranges = clips(self.partition, release.build(), release.epsilon)
        lower, upper = self.partition.lower.tolist(), self.partition.upper.tolist()
        return tuple(Clip(*row) for row in zip(lower, upper, *ranges.T.tolist(), strict=True))

    @property
    def expected(self) -> int | None:
        """How many reports the open round waits for; None in round 1, where only enrolment tells."""
        if self.round == 1:
            return None
        if self.partitioned:
            return len(self.home) - sum(len(log.members) for log in self.above.values())
        asked = sum(question.stop - question.start for question in self._open)
        return asked + sum(len(log.members) for log in {id(log): log for log in self._announcing.values()}.values())

    @property
    def announcing(self) -> tuple[Region, ...]:
        """The regions that the last closing split: their members announce a part in the open round."""
        return tuple({log.region: None for log in self._announcing.values()})

    def parts_of(self, region: Region) -> tuple[Region, ...]:
        """The parts that a region was split into by the last closing, ascending."""
        return tuple(sorted(part for part, log in self._announcing.items() if log.region == region))

    def awaits(self, report: AnyReport) -> bool:
        """Whether a report that belongs to the open round is one of the ``expected``; others close no round."""
        if self.round == 1 or self.partitioned:
            return True
        split = self._announcing.get(report.region)
        announces = split is not None and report.pseudonym in split.members
        return announces or report.pseudonym in self._drawn.get(report.region, ())

    def ended(self, region: Region) -> bool:
        """Whether nothing is decided any more in a region."""
        return self.partitioned or region in self._finishing

    def asked_now(self, region: Region) -> tuple[bytes, ...]:
        """Who is drawn to answer in the open round, in one region."""
        return self.logs[region].asked_now if region in self._drawn else ()

    def check(self, report: AnyReport) -> None:
        """Refuse a report that does not belong to the open round.

        Raises
        ------
        DeviceViolation
            Tokens "other-task", "other-round", "wrong-kind", "unknown-region", "other-region", "not-drawn",
            "bad-answer".
        """
        if report.task != self.task.id:
            raise DeviceViolation("other-task", "the report belongs to another task")
        if self.finished or report.round != self.round:
            now = "the task is finished" if self.finished else f"the open round is {self.round}"
            raise DeviceViolation("other-round", f"the report is for round {report.round}; {now}")
        if isinstance(report, ValueReport) != self.partitioned:
            kind = "a ValueReport" if self.partitioned else "a Report"
            raise DeviceViolation("wrong-kind", f"round {self.round} takes {kind}")
        log = self.logs.get(report.region)
        if log is None:
            raise DeviceViolation("unknown-region", f"codes {report.lower} to {report.upper} are not a region now")
        home = self.home.get(report.pseudonym)
        if isinstance(report, ValueReport):
            self._check_value(report, home)
        else:
            self._check_report(report, log, home)

    def _check_report(self, report: Report, log: RegionLog, home: Region | None) -> None:
        if home is not None and not (home[0] <= report.lower and report.upper <= home[1]):
            raise DeviceViolation("other-region", f"the participant announced codes {home[0]} to {home[1]} before")
        if report.answer is None:
            return
        if home != report.region or report.pseudonym not in self._drawn.get(report.region, ()):
            raise DeviceViolation("not-drawn", "an answer came from a participant who was not drawn for the question")
        assert log.question is not None
        try:
            randomizer_for(self.task, len(log.question.parts)).check_answer(report.answer)
        except InvalidInput as error:
            raise DeviceViolation("bad-answer", str(error)) from None

    def _check_value(self, report: ValueReport, home: Region | None) -> None:
        release = self.release
        assert release is not None
        assert release.mechanism is not None
        if home != report.region:
            raise DeviceViolation("other-region", "a value came from a participant who did not announce this region")
        outputs = release.mechanism.alphabet
        if report.answer not in outputs:
            raise DeviceViolation("bad-answer", f"an answer is an integer of {outputs}; got {report.answer}")

    # -- closing ----------------------------------------------------------------------------------------------

    def close(self, reports: Sequence[AnyReport]) -> AnyClosed:
        """Close the open round with its reports and open the next one; returns what is published.

        Raises :class:`DeviceViolation` if a pseudonym reports twice, or a report does not belong to the round; nothing
        changes then.
        """
        if self.finished:
            raise InvalidInput("the task is finished; there is no round to close")
        self._check_all(reports)
        if self.partitioned:
            return self._close_values([report for report in reports if isinstance(report, ValueReport)])
        if self.task.chain and self._chain is None:
            raise InvalidInput("the task has a hash chain: give it to the Curator")
        preimage = b"" if self._chain is None else self._chain.preimage(self.round)
        return self._close([report for report in reports if isinstance(report, Report)], preimage)

    def _check_all(self, reports: Sequence[AnyReport]) -> None:
        if len({report.pseudonym for report in reports}) != len(reports):
            raise DeviceViolation("reported-twice", "a pseudonym has more than one report in this round")
        for report in reports:
            self.check(report)

    def follow(self, closed: AnyClosed, reports: Sequence[AnyReport]) -> None:
        """Go on with a closing that was published, and its reports.

        Refuses one that does not close the open round, or does not follow from the reports. The curator is of no use
        then.
        """
        if self.finished or closed.task != self.task.id or closed.round != self.round:
            raise InvalidInput(f"a closing of round {closed.round} does not belong to this task's round {self.round}")
        if isinstance(closed, ValueClosed) != self.partitioned:
            wanted = "values" if self.partitioned else "the partition"
            raise InvalidInput(f"round {self.round} is one of {wanted}; got a closing of the other kind")
        self._check_all(reports)
        if isinstance(closed, ValueClosed):
            own: AnyClosed = self._close_values([report for report in reports if isinstance(report, ValueReport)])
        else:
            if not HashChain.goes_on(self._preimage, closed.preimage):
                raise InvalidInput(f"the closing of round {closed.round} has a preimage that is not of the hash chain")
            own = self._close([report for report in reports if isinstance(report, Report)], closed.preimage)
        if own != closed:
            raise InvalidInput(f"the closing of round {closed.round} does not follow from its reports")

    @classmethod
    def replay(
        cls, task: Task, events: Iterable[Event], plan: Plan | None = None, *, chain: HashChain | None = None
    ) -> Curator:
        """The curator after some events (reports and closings, in order); closings that do not follow are refused."""
        curator = cls(task, plan, chain=chain)
        reports: list[AnyReport] = []
        for event in events:
            if isinstance(event, Report | ValueReport):
                reports.append(event)
            elif isinstance(event, Closed | ValueClosed):
                curator.follow(event, reports)
                reports = []
        return curator

    def _close(self, reports: Sequence[Report], preimage: bytes) -> Closed:
        named: dict[Region, list[Report]] = {}
        for report in sorted(reports, key=lambda one: one.pseudonym):
            named.setdefault(report.region, []).append(report)
        self.slices = tuple(
            Slice(
                self.task.id, self.round, *region,
                tuple(Entry(one.pseudonym, one.answer, one.nonce) for one in named[region]),
            )
            for region in sorted(named)
        )  # fmt: skip
        asked = {question.region for question in self._open}
        late = self.round > 1
        for part in self.slices:
            self._announce(part)
            self.logs[part.region].take(part, asked=part.region in asked, late=late)
        for region in asked - named.keys():
            self.logs[region].take(None, asked=True, late=late)
        verdicts = tuple(map(self._verdict, self._open))
        self._announcing = {}
        pending = {}
        for question, verdict in zip(self._open, verdicts, strict=True):
            if verdict.outcome == "split":
                self._split(question)
            elif verdict.outcome == "more":
                pending[question.region] = question
        following = self._next(pending)
        finished = (not following and not self._announcing) or self.round >= self.task.max_rounds
        heads = tuple(Head(*part.region, len(part.entries), part.digest()) for part in self.slices)
        closed = Closed(self.task.id, self.round, heads, verdicts, preimage, finished)
        self._preimage = preimage
        self.round += 1
        self.partitioned = finished
        self._open = () if finished else following
        self._put(self._open, seed_of(closed))
        return closed

    def _put(self, questions: Iterable[Question], seed: bytes) -> None:
        """Open the round: draw the members that each question is put to."""
        self._drawn = {}
        for question in questions:
            log = self.logs[question.region]
            log.ask(question, seed, self.task.answers)
            self._drawn[question.region] = frozenset(log.asked_now)

    def _announce(self, part: Slice) -> None:
        """Move members who announce a new region out of the one they were in."""
        for entry in part.entries:
            home = self.home.get(entry.pseudonym)
            if home is not None and home != part.region:
                del self.above[home].members[entry.pseudonym]
            self.home[entry.pseudonym] = part.region

    def _verdict(self, question: Question) -> Verdict:
        tally = self.logs[question.region].tally
        if question.stop < question.asked:
            asking, row = self._asking[question.region]
            more = go_on(self.task, asking.pick(np.array([row])), np.array([sum(tally)]), np.array([tally[1]]))[0]
            return Verdict("more" if more else "wall", tally)
        split = splits(np.array([tally]), np.array([question.threshold]))[0]
        return Verdict("split" if split else "wall", tally)

    def _split(self, question: Question) -> None:
        log = self.logs.pop(question.region)
        log.question = None
        self.above[question.region] = log
        for part in question.parts:
            self.logs[part] = log.part(*part)
            self._announcing[part] = log

    def _next(self, pending: dict[Region, Question]) -> tuple[Question, ...]:
        """The next round's questions: second portions, new questions, and refinements of ended regions."""
        number = self.round + 1
        out = [msgspec.structs.replace(one, start=one.stop, stop=one.asked) for one in pending.values()]
        waiting = [region for region in self.logs if region not in pending and region not in self._announcing]
        deciding = [region for region in waiting if region not in self._finishing]
        if self.round + ROUNDS_OF_A_QUESTION > self.task.max_rounds:
            self._finishing |= set(deciding)
            deciding = []
        if deciding:
            asking = questions(self.task, self._census(deciding))
            out += self._questions(deciding, asking, number)
            self._finishing |= {deciding[row] for row in set(range(len(deciding))) - set(asking.rows.tolist())}
        ended = [region for region in waiting if region in self._finishing]
        if ended and number <= self.task.max_rounds:
            out += self._questions(ended, refinements(self.task, self._census(ended, late=True)), number)
        return tuple(sorted(out, key=lambda question: question.lower))

    def _census(self, regions: list[Region], *, late: bool = False) -> Census:
        logs = [self.logs[region] for region in regions]
        limit = self.task.answers
        return Census(
            np.array([log.lower for log in logs], dtype=np.uint64),
            np.array([log.upper for log in logs], dtype=np.uint64),
            np.array([log.crowd for log in logs], dtype=np.int64),
            np.array([len(log.askable(limit, late=late)) for log in logs], dtype=np.int64),
            np.array([len(log.failed) for log in logs], dtype=np.int64),
            walls_of(logs),
        )

    def _questions(self, regions: list[Region], asking: Asking, number: int) -> list[Question]:
        out = []
        columns = (asking.rows, asking.cuts, asking.asked, asking.portion, asking.threshold)
        for place, (row, cuts, asked, portion, t) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            lower, upper = regions[row]
            self._asking[lower, upper] = asking, place
            out.append(Question(lower, upper, tuple(cut for cut in cuts if cut), asked, 0, portion, number, t))
        return out

    # -- what comes out -----------------------------------------------------------------------------------------

    @cached_property
    def partition(self) -> Partition:
        """The regions, when the partition is finished; refused before that."""
        if not self.partitioned:
            raise InvalidInput("the partition is not finished: there are open questions")
        logs = [self.logs[region] for region in sorted(self.logs)]
        left = [log for _, log in sorted(self.above.items()) if log.members]
        plain = self.task.randomizer.words == 1 and self.task.randomizer.fanout == 2
        return Partition(
            self.task,
            np.array([log.lower for log in logs], dtype=np.uint64),
            np.array([log.upper for log in logs], dtype=np.uint64),
            np.array([log.crowd for log in logs], dtype=np.int64),
            np.array([len(log.members) - log.crowd for log in logs], dtype=np.int64),
            walls_of(logs) if plain else Walls.none(len(logs)),
            Away(
                np.array([log.lower for log in left], dtype=np.uint64),
                np.array([log.upper for log in left], dtype=np.uint64),
                np.array([log.crowd for log in left], dtype=np.int64),
            ),
        )

    def _close_values(self, reports: Sequence[ValueReport]) -> ValueClosed:
        counts: dict[Region, Counter[int]] = {}
        for report in reports:
            counts.setdefault(report.region, Counter())[report.answer] += 1
        regions = tuple(sorted(counts))
        closed = ValueClosed(
            self.task.id, self.round, self.plan.digest, self.plan.asked[self.values], regions,
            tuple(tuple(sorted(counts[region].items())) for region in regions),
        )  # fmt: skip
        self.values += 1
        self.round += 1
        return closed
