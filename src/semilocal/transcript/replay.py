"""The replay behind :mod:`semilocal.transcript.verify`: plays the curator over a transcript's events, and compares.

Each round is judged against what was published before it, so that one fault is named once and not in every later round:
queries, draws and thresholds follow from the closings before, verdicts and sums from the reports. What breaks the
promise is told apart from what does not: *where* a region is cut and *when* a question or the partition is given up is
the server's choice, and another choice than the rule's is named ``other-choice``.

Knows the public events. Trusts neither the file nor the server, and needs memory for one frame, one round's reports and
who took part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, assert_never

import msgspec

from ..errors import DeviceViolation, InvalidInput, ServerViolation
from ..protocol.curator import Curator
from ..protocol.keys import HashChain, pseudonym
from ..protocol.messages import (
    AnyClosed,
    AnyQuery,
    AnyReport,
    Closed,
    Entry,
    Query,
    Question,
    Report,
    Slice,
    ValueClosed,
    ValueQuery,
    ValueReport,
    Verdict,
    decode,
    decode_event,
    encode,
    seed_of,
)
from ..protocol.participant import Participant, Policy
from ..protocol.path import continues
from ..protocol.plan import Plan
from ..protocol.rule import threshold_holds
from ..protocol.task import Task
from ..words import number_of
from .checkpoints import Checkpoint, Seal, check_signature, next_head, signature_fault
from .file import END, MARK, SEAL, Frame, Simulation
from .findings import Own, Problems, Verification
from .merkle import MerkleLog

__all__ = ["Finding", "OwnReports", "Replay", "check_seal", "compare_heads", "compare_values", "not_ascending"]

_LOST = ("other-task", "other-round", "wrong-kind", "unknown-region", "other-region")  # reports that change nothing


Region = tuple[int, int]


class Finding(NamedTuple):
    """A difference: its token, what it is for a person, and how often it is there."""

    token: str
    what: str
    times: int = 1


class Witness(Curator):
    """The public state of a campaign after its published messages."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._seed = b""
        self._asked: tuple[Question, ...] = ()  # as published
        self._other: set[Region] = set()  # where another question was put than the rule's
        self._claimed: dict[Region, Verdict] = {}
        self._sure: set[Region] = set()  # whose reports are those that were published
        self._found: list[Finding] = []

    @property
    def expected_questions(self) -> tuple[Question, ...]:
        """What the rule asks in the open round."""
        return self._open

    def ask(self, query: Query) -> list[Finding]:
        """Go on with a published query of the open round; what is different."""
        own = {question.region: question for question in self._open}
        found = []
        for question in query.questions:
            fault = self._fault(question)
            if fault is not None:
                found.append(fault)
                own.pop(question.region, None)
        others = [one for one in query.questions if one.region in self.logs and own.get(one.region) != one]
        self._other = {question.region for question in others}
        safe = [one for one in others if self._fault(one) is None]
        left = own.keys() - {one.region for one in query.questions}
        if safe or left:
            example = safe[0].region if safe else min(left)
            found.append(
                Finding(
                    "other-choice",
                    f"{len(safe)} questions are put elsewhere or to another number of members than the rule says, and "
                    f"{len(left)} are left out (codes {example[0]} to {example[1]}); this touches no promise",
                    len(safe) + len(left),
                )
            )
        self._asked = query.questions
        self._open = tuple(one for one in query.questions if one.region in self.logs)
        super()._put(self._open, self._seed)
        return found

    def _put(self, questions: Iterable[Question], seed: bytes) -> None:
        """Nothing is drawn before the query is published."""
        self._seed = seed

    def _fault(self, question: Question) -> Finding | None:
        """What breaks the promise in a question: what every device of the region refuses."""
        where = f"in codes {question.lower} to {question.upper}"
        log = self.logs.get(question.region)
        if log is None:
            return Finding("wrong-query", f"something is asked {where}, which is not a region")
        if not question.decides and len(question.cuts) != 1:
            return Finding("wrong-query", f"a refinement {where} has {len(question.cuts)} cuts")
        if question.drawn != self.round:
            if log.question is None or not continues(question, log.question):
                return Finding("wrong-draw", f"a second portion {where} does not continue a question")
            return None
        askable = len(log.askable(self.task.answers, late=not question.decides))
        if question.start or question.asked > askable:
            return Finding("wrong-draw", f"{question.asked} members are asked {where}; {askable} may be")
        if question.decides and not threshold_holds(
            self.task, askable=askable, asked=question.asked, failed=len(log.failed), parts=len(question.parts),
            threshold=question.threshold,
        ):  # fmt: skip
            what = f"{question.threshold} answers of {question.asked} {where} do not show a crowd of {self.task.k}"
            return Finding("weak-threshold", what)
        return None

    def end(self, closed: Closed, reports: Sequence[Report], sure: set[Region]) -> list[Finding]:
        """Go on with a published closing and the reports that belong to the round; what is different.

        Sums are compared in the regions only whose slices are surely the published ones.
        """
        self._found, self._sure, self._claimed = [], sure, {}
        if len(closed.verdicts) == len(self._asked):
            self._claimed = {one.region: said for one, said in zip(self._asked, closed.verdicts, strict=True)}
        else:
            self._found.append(Finding("wrong-verdict", "the closing does not have one verdict per question"))
        if not HashChain.goes_on(self._preimage, closed.preimage):
            what = "the preimage does not lead to the one before it: the server chose its part of the draw"
            self._found.append(Finding("broken-chain", what))
        asked = self._open
        own = self._close(reports, closed.preimage)
        if own.finished != closed.finished:
            said, rule = ("ends", "would go on") if closed.finished else ("goes on", "would end")
            what = f"the partition {said}, the rule {rule}; this touches no promise"
            self._found.append(Finding("other-choice", what))
        for question, verdict in zip(asked, own.verdicts, strict=True):
            if verdict.outcome == "wall":
                self.logs[question.region].question = None
        self.partitioned = closed.finished
        self._seed = seed_of(closed)
        return self._found

    def go_on(self, reports: Sequence[Report]) -> None:
        """Go on without a closing: as the rule says."""
        self._found, self._sure, self._claimed = [], set(), {}
        self._close(reports, self._preimage)

    def _verdict(self, question: Question) -> Verdict:
        """The published verdict, if it can be one."""
        tally = self.logs[question.region].tally
        unknown = question.region in self._other and question.stop < question.asked
        own = Verdict("wall", tally) if unknown else super()._verdict(question)
        said = self._claimed.get(question.region)
        if said is None:
            return own
        where = f"codes {question.lower} to {question.upper}"
        if said.tally != tally and question.region in self._sure:
            what = f"{where} was closed with {said.tally}, the answers add up to {tally}"
            self._found.append(Finding("wrong-tally", what))
        if len(said.tally) == len(tally):
            self.logs[question.region].tally = said.tally  # the second portion is added to what was published
        if said.outcome == own.outcome or (unknown and said.outcome == "more"):
            return Verdict(said.outcome, tally)
        whole = question.stop == question.asked
        if "split" in (said.outcome, own.outcome) or whole:
            reached = said.tally == tally or question.region not in self._sure
            if reached:  # else the sums say it already
                what = f"{where}: {said.outcome} does not follow from {tally} with threshold {question.threshold}"
                self._found.append(Finding("wrong-verdict", what))
            return own if said.outcome == "more" and whole else Verdict(said.outcome, tally)
        what = f"{where}: the question is {_WORDS[said.outcome]}, the rule says otherwise; this touches no promise"
        self._found.append(Finding("other-choice", what))
        return Verdict(said.outcome, tally)


_WORDS = {"wall": "given up", "more": "not given up"}


class Replay:
    """The state between two frames.

    ``own`` are participants who want to know what the transcript holds under their name; the one of this task is
    picked.
    """

    def __init__(self, own: Sequence[Own] | None = None) -> None:
        self.found = Verification()
        self.own: OwnReports | None = None
        self._owners = own
        self._curator: Witness | None = None
        self._open = False  # whether a round is asked for and not closed
        self._reports: list[AnyReport] = []  # of the open round, those that belong to it
        self._named: dict[tuple[int, int], list[Report]] = {}  # all of the open round that could be read
        self._problems = Problems()
        self._previous = b""  # the pseudonym of the last report
        self._log = MerkleLog()
        self._head = b""
        self._sealed_size = 0
        self._closed_round: int | None = None  # closed and not sealed yet

    # -- frames and events -----------------------------------------------------------------------------------

    def frame(self, frame: Frame) -> None:
        """Judge one frame."""
        if frame.kind == SEAL:
            self._seal(frame.data)
        elif frame.kind == MARK:
            self._mark(frame.data)
        elif frame.kind != END:
            for data in frame.events():
                self._log.add([data])
                self._event(data)
            self.found.events = self._log.size

    def _mark(self, data: bytes) -> None:
        try:
            self.found.simulation = Simulation.from_bytes(data)
        except InvalidInput as error:
            self.found.add("unreadable-event", None, str(error))

    def _event(self, data: bytes) -> None:
        curator = self._curator
        number = None if curator is None else curator.round
        try:
            event = decode_event(data)
        except InvalidInput as error:
            self.found.add("unreadable-event", number, str(error))
            return
        if isinstance(event, Report | ValueReport):
            self._report(event)
        elif curator is None:
            if isinstance(event, Task):
                self._begin_task(event)
            else:
                what = f"the first event must be the task, not {type(event).__name__}"
                self.found.add("unexpected-event", None, what)
        elif isinstance(event, Query):
            self._query(curator, event)
        elif isinstance(event, ValueQuery):
            self._value_query(curator, event)
        elif isinstance(event, Closed | ValueClosed):
            self._close(curator, event, data)
        elif isinstance(event, Plan):
            self._plan(curator, event)
        elif isinstance(event, Task):
            self.found.add("unexpected-event", number, "a second task does not belong here")
        else:
            assert_never(event)

    def _begin_task(self, task: Task) -> None:
        self.found.task = task
        self._curator, self._head = Witness(task), task.id
        if self.found.simulation is not None and task.server_key:
            what = "the file is marked as a simulation, but its task pins a server's key: a campaign has no such mark"
            self.found.add("simulated", None, what)
        owner = next((own for own in self._owners or () if own.task == task.id), None)
        if owner is not None:
            self.own = OwnReports(task, owner)

    def _note(self, round_: int, findings: Iterable[Finding]) -> None:
        for token, what, count in findings:
            self.found.add(token, round_, what, count)

    def finish(self) -> None:
        """Judge what is left at the end of the file."""
        found, curator = self.found, self._curator
        if curator is None:
            self._problems.report(found, None)
            if not any(item.token == "damaged-file" for item in found.differences):
                found.add("unexpected-event", None, "there is no task")
            return
        found.participants = len(curator.home)
        self._problems.report(found, curator.round)
        if self._log.size > max(self._sealed_size, 1):  # the task alone is what there is before round 1 is closed
            left = self._log.size - self._sealed_size
            found.add("unsealed-events", None, f"{number_of(left, 'event')} after the last checkpoint")
        if not curator.partitioned:
            found.notes.append(f"the collection is not finished: round {curator.round} would come next")
        elif not curator.finished:
            missing = len(curator.plan.asked) - curator.values
            found.notes.append(f"the releases are not finished: {missing} are missing")
        task = curator.task
        if not task.server_key:
            found.notes.append("the task pins no key: checkpoints prove only what somebody else holds of them")
        if not task.chain:
            found.notes.append("the task has no hash chain: the server has no part in the draws")
        small = [log.crowd for log in curator.logs.values() if 0 < log.crowd < task.k]
        if not task.keeps_crowd:
            found.notes.append(f"this task promises no crowd of k = {task.k}")
        elif small:
            found.notes.append(
                f"{number_of(len(small), 'region')} with {sum(small):,} of "
                f"{number_of(found.participants, 'participant')} {'holds' if len(small) == 1 else 'hold'} fewer than k "
                f"= {task.k}; allowed with probability delta = {task.delta:g} per participant, and where members did "
                "not announce their side after a split"
            )

    # -- queries and the plan ----------------------------------------------------------------------------------

    def _query(self, curator: Witness, query: Query) -> None:
        due = curator.round
        if curator.partitioned:
            self.found.add("unexpected-event", query.round, "the partition is finished: nothing is left to ask about")
            return
        if query.task != curator.task.id or query.round != due:
            self.found.add("wrong-query", due, f"a query of this task for round {due} is due")
        self._begin_round(curator)
        self._note(due, curator.ask(msgspec.structs.replace(query, task=curator.task.id, round=due)))
        self._show(query)

    def _plan(self, curator: Witness, plan: Plan) -> None:
        if self.found.plan is not None or self._open or not curator.partitioned:
            self.found.add("unexpected-event", curator.round, "a plan comes once, after the partition")
        try:
            plan.check(curator.task)
        except InvalidInput as error:
            self.found.add("wrong-plan", curator.round, str(error))
        self.found.plan = curator.plan = plan

    def _value_query(self, curator: Witness, query: ValueQuery) -> None:
        due = curator.query()
        if not isinstance(due, ValueQuery):
            what = "the partition is not finished" if due is not None else "no plan asks for this value"
            self.found.add("unexpected-event", query.round, f"a query for a value, but {what}")
            return
        if query != due:
            self.found.add(
                "wrong-value-query", curator.round,
                f"release {due.index} of the published plan is due, in all regions, clipped as the partition says",
            )  # fmt: skip
        self._begin_round(curator)
        self._show(query)

    def _begin_round(self, curator: Witness) -> None:
        if self._open:
            self.found.add("unexpected-event", curator.round, "the round is asked for twice")
            self._problems.report(self.found, curator.round)
        if self._closed_round is not None:
            self.found.add("missing-seal", self._closed_round, "the round has no checkpoint")
            self._closed_round = None
        self._open, self._previous, self._reports, self._named = True, b"", [], {}

    def _show(self, query: AnyQuery) -> None:
        if self.own is not None:
            self.own.ask(query)

    # -- reports -----------------------------------------------------------------------------------------------

    def _report(self, report: AnyReport) -> None:
        curator = self._curator
        self.found.reports += 1
        if curator is None or curator.finished or isinstance(report, ValueReport) != curator.partitioned:
            self._problems.add("unexpected-event", "a report that no open round asks for")
            return
        if not self._open:
            token = "wrong-value-query" if curator.partitioned else "wrong-query"
            self.found.add(token, curator.round, "the query is missing or cannot be read")
            self._begin_round(curator)
            if not curator.partitioned:
                curator.ask(Query(curator.task.id, curator.round, curator.expected_questions))
        name = report.pseudonym
        for before, after in not_ascending([self._previous, name]):
            token, word = ("reported-twice", "again") if before == after else ("wrong-order", "out of order")
            self._problems.add(token, f"pseudonym {after.hex()} {word}")
        twice = name == self._previous
        self._previous = name
        if self.own is not None and name == self.own.pseudonym:
            self.own.report(report)
        if isinstance(report, Report):
            self._named.setdefault(report.region, []).append(report)
        if twice:
            return
        try:
            curator.check(report)
        except DeviceViolation as error:
            self._problems.add(error.token, f"pseudonym {name.hex()}: {error.reason}")
            if error.token in _LOST:
                return
            if isinstance(report, Report):  # it says at least where it is
                report = msgspec.structs.replace(report, answer=None)
            else:
                return
        self._reports.append(report)

    # -- closings ----------------------------------------------------------------------------------------------

    def _close(self, curator: Witness, closed: AnyClosed, data: bytes) -> None:
        number = curator.round
        if not self._open or isinstance(closed, ValueClosed) != curator.partitioned:
            self.found.add("unexpected-event", closed.round, "a closing without its query")
            return
        self._end(number, data)
        if (closed.task, closed.round) != (curator.task.id, number):
            self.found.add("wrong-verdict", number, "the closing is not about the task and round asked for")
            self._go_on(curator)
            return
        slices = self._slices(curator.task.id, number)
        if isinstance(closed, ValueClosed):
            counted = curator.close(self._reports)
            assert isinstance(counted, ValueClosed)
            self._note(number, compare_values(closed, counted))
        else:
            self._note(number, compare_heads(closed, slices))
            heads = {(head.lower, head.upper): head for head in closed.heads}
            sure = {
                region for region in curator.logs
                if (heads[region].digest if region in heads else b"")
                == (slices[region].digest() if region in slices else b"")
            }  # fmt: skip
            reports = [report for report in self._reports if isinstance(report, Report)]
            self._note(number, curator.end(closed, reports, sure))
        if self.own is not None:
            self._note(number, self.own.close(closed, slices))

    def _slices(self, task: bytes, number: int) -> dict[tuple[int, int], Slice]:
        """The slices of the round, as its reports say."""
        out = {}
        for region, reports in self._named.items():
            entries = {one.pseudonym: Entry(one.pseudonym, one.answer, one.nonce) for one in reversed(reports)}
            out[region] = Slice(task, number, *region, tuple(entries[name] for name in sorted(entries)))
        return out

    def _go_on(self, curator: Witness) -> None:
        """Go on without a closing, with what the reports say."""
        if curator.partitioned:
            curator.close(self._reports)
        else:
            curator.go_on([report for report in self._reports if isinstance(report, Report)])
        if self.own is not None:
            self.own.close(None, {})

    def _end(self, number: int, data: bytes) -> None:
        self._problems.report(self.found, number)
        self._open, self._closed_round = False, number
        self.found.rounds += 1
        self.found.closings.append(hashlib.sha256(data).digest())

    def _seal(self, data: bytes) -> None:
        found, curator = self.found, self._curator
        if curator is None:
            found.add("unexpected-event", None, "a checkpoint before the task")
            return
        task = curator.task
        try:
            seal = decode(data, Seal)
        except InvalidInput as error:
            found.add("wrong-seal", self._closed_round, str(error))
            number = self._closed_round or curator.round
            self._head = next_head(self._head, Checkpoint(task.id, number, self._log.size, self._log.root()))
            self._closed_round, self._sealed_size = None, self._log.size
            return
        if self._open:
            number = curator.round
            self._end(number, b"")
            token = "wrong-values" if curator.partitioned else "wrong-verdict"
            found.add(token, number, "the closing is missing or cannot be read")
            self._go_on(curator)
        point = seal.checkpoint
        round_ = point.round if self._closed_round is None else self._closed_round
        if self._closed_round is None or point.task != task.id or point.round != round_:
            found.add("wrong-seal", round_, f"the checkpoint is for round {point.round}, another task, or comes twice")
        for token, what in check_seal(seal, task, self._head, size=self._log.size, root=self._log.root()):
            found.add(token, round_, what)
        found.signatures += bool(task.server_key and seal.signature and check_signature(seal, task))
        self._head = seal.head
        found.seals.append(seal)
        self._closed_round, self._sealed_size = None, self._log.size


# -- single checks of the replay: pure functions of what was published and what was counted --------------------------


def compare_heads(closed: Closed, slices: Mapping[tuple[int, int], Slice]) -> Iterator[Finding]:
    """Differences between the heads of a closing and the reports of the round."""
    claimed = {(head.lower, head.upper): head for head in closed.heads}
    less, more, other = 0, 0, 0
    for region in sorted(claimed.keys() | slices.keys()):
        head, part = claimed.get(region), slices.get(region)
        said, have = 0 if head is None else head.reports, 0 if part is None else len(part.entries)
        less, more = less + max(0, said - have), more + max(0, have - said)
        other += said == have and head is not None and part is not None and head.digest != part.digest()
    if less:
        yield Finding(
            "missing-report", f"{less} reports missing: the closing counts them, the transcript does not", less
        )
    if more:
        yield Finding("extra-report", f"{more} reports too many: the closing does not count them", more)
    if other:
        yield Finding("wrong-slice", f"{other} slices do not have the hash that the closing says", other)


def compare_values(closed: ValueClosed, counted: ValueClosed) -> Iterator[Finding]:
    """Differences between a closing of values and the one that follows from its reports."""
    if closed == counted:
        return
    more = sum(closed.responders) - sum(counted.responders)
    if more:
        token, word = ("missing-report", "missing") if more > 0 else ("extra-report", "too many")
        have = sum(counted.responders)
        what = f"{abs(more)} values {word}: {have + more} were closed, the transcript has {have}"
        yield Finding(token, what, abs(more))
    else:
        yield Finding("wrong-values", "the closing does not follow from the values reported")


def check_seal(seal: Seal, task: Task, head: bytes, *, size: int, root: bytes) -> Iterator[tuple[str, str]]:
    """Faults of a seal over events with this size and root, after the chain's head: token and words."""
    point = seal.checkpoint
    if point.size != size:
        yield "wrong-size", f"the checkpoint is over {point.size} events; there are {size}"
    elif point.root != root:
        yield "wrong-root", "the checkpoint's root is not that of the events before it"
    if seal.head != next_head(head, point):
        yield "wrong-chain", "the checkpoint does not continue the one before"
    fault = signature_fault(seal, task)
    if fault is not None:
        yield fault


def not_ascending(names: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Neighbours of which the second does not come after the first; an empty name comes before all."""
    for before, name in pairwise(names):
        if not before < name:
            yield before, name


# -- a participant who reads a transcript: whether it holds what its device sent, and no more ------------------------


_EVERYTHING = Policy(
    max_epsilon=float("inf"), min_k=1, max_delta=1.0, allow_no_crowd=True, allow_simulation=True
)  # fmt: skip


class OwnReports:
    """Follows a transcript as one device, with what it kept."""

    def __init__(self, task: Task, own: Own) -> None:
        self.own, self.pseudonym = own, pseudonym(own.secret, task.id)
        self._device: Participant | None = Participant(
            task, own.position, own.secret, _EVERYTHING, plan=own.plan, value=own.value
        )
        self._query: AnyQuery | None = None
        self._mine: list[AnyReport] = []
        self.there, self.sent = 0, 0

    def ask(self, query: AnyQuery) -> None:
        """A round was opened."""
        self._query, self._mine = query, []

    def report(self, report: AnyReport) -> None:
        """A report under its name."""
        self._mine.append(report)

    def close(self, closed: AnyClosed | None, slices: Mapping[tuple[int, int], Slice]) -> list[Finding]:
        """The round was closed; what is different. Without a closing nothing can be followed any more."""
        query, self._query = self._query, None
        self.there += bool(self._mine)
        if query is None:
            return []
        found: list[Finding] = []
        try:
            found += self._compare(query)
            if isinstance(closed, Closed) and self._device is not None:
                self._device.close(closed, slices.get(self._device.log.region))
        except ServerViolation as error:
            self._device = None
            found.append(Finding("device-refuses", f"your device would refuse this: {error.reason}"))
        if closed is None:
            self._device = None
        return found

    def _compare(self, query: AnyQuery) -> list[Finding]:
        device, theirs = self._device, [encode(report) for report in self._mine]
        sends = query.round in self.own.reported
        self.sent += sends
        if device is not None and isinstance(query, Query):
            device.observe(query)
        if not sends:
            never = "a report under your name that your device never sent"
            return [Finding("foreign-report", never, len(theirs))] if theirs else []
        mine = None if device is None else device.receive(query)
        if not theirs:
            return [Finding("own-report-missing", "your report is not in the transcript")]
        if device is not None and (mine is None or encode(mine) not in theirs):
            return [Finding("own-report-changed", "the transcript has another report under your name")]
        more = len(theirs) - 1
        return [Finding("foreign-report", f"{number_of(more, 'more report')} under your name", more)] if more else []

    @property
    def note(self) -> str:
        """How many reports there are under its name."""
        return (
            f"under your name: {number_of(self.there, 'report')}; your vault knows of {self.sent} rounds it reported in"
        )
