"""Verification: replays a transcript and names everything that does not follow.

    what is checked        tokens of differences
    the file               damaged-file, unreadable-event, unexpected-event, unsealed-events
    queries                wrong-query, wrong-draw, weak-threshold
    reports                reported-twice, wrong-order, other-task, other-round, unknown-region, other-region,
                           not-drawn, bad-answer
    slices and sums        missing-report, extra-report, wrong-slice (as many reports, others), wrong-tally
    verdicts               wrong-verdict, broken-chain (the server's part of the draws)
    where and when         other-choice: the rule would have chosen otherwise; no promise depends on it
    values                 wrong-plan, wrong-value-query, wrong-values
    the mark               simulated
    checkpoints            missing-seal, wrong-seal, wrong-size, wrong-root, wrong-chain, not-signed, bad-signature
    another transcript     other-history

The curator is played over the events, and compared. Regions below k are noted, not counted as differences: the promise
allows them with probability delta.

Each round is judged against what was published before it: queries, draws and thresholds follow from the closings
before, verdicts and sums from the reports. A round that does not follow is the last one that is looked at, to its
checkpoint: nothing is known of what comes after it, and one fault is named once.

Knows the public events. Trusts neither the file nor the server, and needs memory for one frame, one round's reports and
who took part.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from ..errors import DamagedFile, DeviceViolation, InvalidInput
from ..protocol.curator import Curator
from ..protocol.keys import HashChain
from ..protocol.messages import (
    AnyClosed,
    AnyQuery,
    AnyReport,
    Closed,
    Entry,
    Query,
    Question,
    Region,
    Report,
    Seal,
    Slice,
    ValueClosed,
    ValueQuery,
    ValueReport,
    Verdict,
    decode,
    decode_event,
    seed_of,
)
from ..protocol.plan import Plan
from ..protocol.region import question_fault
from ..protocol.task import Task
from ..words import number_of
from .checkpoints import MerkleLog, next_head, signature_fault
from .file import END, MARK, SEAL, Frame, Simulation, read_frames

_EXAMPLES = 3


@dataclass
class Difference:
    """Something that does not follow, once or several times."""

    token: str  # which check failed
    round: int | None  # none if it concerns no single round
    examples: list[str]  # for a person; the first few
    count: int = 1

    @property
    def what(self) -> str:
        """The examples, and how many more there are."""
        more = self.count - len(self.examples)
        return "; ".join(self.examples) + (f" and {more} more" if more else "")

    def __str__(self) -> str:
        where = "" if self.round is None else f"round {self.round}: "
        return f"{where}{self.what} [{self.token}]"


@dataclass(eq=False)
class Verification:
    """What was checked, what is different, and what else an owner should know."""

    task: Task | None = None
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rounds: int = 0
    reports: int = 0
    events: int = 0
    participants: int = 0
    seals: list[Seal] = field(default_factory=list)
    signatures: int = 0
    closings: list[bytes] = field(default_factory=list)  # SHA-256 of every closing
    plan: Plan | None = None
    simulation: Simulation | None = None  # what the file is marked as

    @property
    def sound(self) -> bool:
        """Whether nothing is different."""
        return not self.differences

    def add(self, token: str, round_: int | None, what: str) -> None:
        """Note a difference; more of its kind in the same round are counted, and the first few are told."""
        for one in reversed(self.differences):
            if one.round != round_:
                break
            if one.token == token:
                one.count += 1
                one.examples += [what] if len(one.examples) < _EXAMPLES else []
                return
        self.differences.append(Difference(token, round_, [what]))

    def lines(self) -> list[str]:
        """For a person: what it is, what was checked, every difference, and notes; without a task nothing was."""
        marked = [] if self.simulation is None else [self.simulation.words]
        if self.task is None:
            return marked + difference_lines(self.differences)
        checked = [
            f"{number_of(self.rounds, 'round')} with {number_of(self.reports, 'report')} of "
            f"{number_of(self.participants, 'participant')}: draws made again, answers counted again, thresholds and "
            "verdicts decided again",
            "one report per participant and round, each inside the region that the participant announced before",
            f"{number_of(self.events, 'event')} under {number_of(len(self.seals), 'checkpoint')} in one chain, "
            f"{self.signatures:,} of them signed with the key that the task pins",
        ]
        out = [*marked, "Checked:", *(f"  {line}" for line in checked), *difference_lines(self.differences)]
        return out + [f"Note: {note}" for note in self.notes]


def difference_lines(differences: Sequence[Difference]) -> list[str]:
    """For a person: how many there are, and each of them."""
    count = len(differences)
    found = f"{number_of(count, 'difference')}:" if count else "No difference."
    return [found, *(f"  {difference}" for difference in differences)]


# -- verification -----------------------------------------------------------------------------------------------------


def verify_file(path: str | os.PathLike[str]) -> Verification:
    """Verify a transcript file."""
    with Path(path).open("rb") as stream:
        return verify_stream(stream)


def verify_stream(stream: BinaryIO) -> Verification:
    """As :func:`verify_file`, from an open binary stream."""
    replay = Replay()
    found = replay.found
    try:
        for frame in read_frames(stream):
            replay.frame(frame)
            if replay.over:
                break
    except DamagedFile as error:
        found.add("damaged-file", None, str(error))
    replay.finish()
    return found


def compare_histories(one: Verification, other: Verification) -> list[Difference]:
    """Where two transcripts of the same task part: a server that shows two histories.

    One may be longer than the other; up to the last round that both have, they must have the same chain of checkpoints.
    """
    if one.task is None or other.task is None or one.task.id != other.task.id:
        return [Difference("other-history", None, ["the two transcripts are about different tasks"])]
    for here, there in zip(one.seals, other.seals, strict=False):
        if here.head != there.head:
            both = " Both are signed: that proves it." if here.signature and there.signature else ""
            what = f"two histories: the checkpoints of the two transcripts are different from here on.{both}"
            return [Difference("other-history", here.checkpoint.round, [what])]
    if one.simulation != other.simulation:
        return [Difference("other-history", None, ["the two transcripts do not have the same mark of a simulation"])]
    return []


# -- the replay -------------------------------------------------------------------------------------------------------


class Finding(NamedTuple):
    """A difference: its token, and what it is for a person."""

    token: str
    what: str

    @property
    def breaks(self) -> bool:
        """Whether the round does not follow from what was published before."""
        return self.token != "other-choice"


class Witness(Curator):
    """The public state of a campaign after its published messages, as long as they follow."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._seed = b""
        self._other: set[Region] = set()  # where another question was put than the rule's
        self._claimed: dict[Region, Verdict] = {}
        self._found: list[Finding] = []

    def ask(self, query: Query) -> list[Finding]:
        """Go on with a published query of the open round, unless it breaks the promise; what is different."""
        faults = [fault for question in query.questions if (fault := self._fault(question)) is not None]
        if faults:
            return faults
        own = {question.region: question for question in self._open}
        self._other = {one.region for one in query.questions if own.get(one.region) != one}
        left = own.keys() - {one.region for one in query.questions}
        self._open = query.questions
        super()._put(self._open, self._seed)
        if not self._other and not left:
            return []
        lower, upper = min(self._other or left)
        what = (
            f"{len(self._other)} questions are put elsewhere or to another number of members than the rule says, and "
            f"{len(left)} are left out (codes {lower} to {upper}); this touches no promise"
        )
        return [Finding("other-choice", what)]

    def _put(self, questions: Iterable[Question], seed: bytes) -> None:
        """Nothing is drawn before the query is published."""
        self._seed = seed

    def _fault(self, question: Question) -> Finding | None:
        """What breaks the promise in a question: what every device of the region refuses."""
        log = self.logs.get(question.region)
        if log is None:
            fault: tuple[str, str] | None = ("wrong-query", "it is not a region")
        else:
            fault = question_fault(self.task, log, question, self.round)
        if fault is None:
            return None
        where = f"a question about codes {question.lower} to {question.upper}"
        return Finding(fault[0].replace("wrong-question", "wrong-query"), f"{where}: {fault[1]}")

    def end(self, closed: Closed, reports: Sequence[Report]) -> list[Finding]:
        """Go on with a published closing and the reports that it counts; what is different."""
        if len(closed.verdicts) != len(self._open):
            return [Finding("wrong-verdict", "the closing does not have one verdict per question")]
        if not HashChain.goes_on(self._preimage, closed.preimage):
            what = "the preimage does not lead to the one before it: the server chose its part of the draw"
            return [Finding("broken-chain", what)]
        asked, self._found = self._open, []
        self._claimed = {one.region: said for one, said in zip(asked, closed.verdicts, strict=True)}
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

    def _verdict(self, question: Question) -> Verdict:
        """The published verdict, if it can be one."""
        tally, said = self.logs[question.region].tally, self._claimed[question.region]
        whole = question.stop == question.asked
        unknown = question.region in self._other and not whole  # the rule does not know it
        own = Verdict("wall", tally) if unknown else super()._verdict(question)
        where = f"codes {question.lower} to {question.upper}"
        if said.tally != tally:
            what = f"{where} was closed with {said.tally}, the answers add up to {tally}"
        elif said.outcome == own.outcome or (unknown and said.outcome == "more"):
            return said
        elif "split" in (said.outcome, own.outcome) or whole:
            what = f"{where}: {said.outcome} does not follow from {tally} with threshold {question.threshold}"
        else:
            what = f"{where}: the question is {_WORDS[said.outcome]}, the rule says otherwise; this touches no promise"
            self._found.append(Finding("other-choice", what))
            return said
        self._found.append(Finding("wrong-tally" if said.tally != tally else "wrong-verdict", what))
        return own


_WORDS = {"wall": "given up", "more": "not given up"}


class Replay:
    """The state between two frames; ``over`` says that nothing more is looked at."""

    def __init__(self) -> None:
        self.found = Verification()
        self.over = False
        self._curator: Witness | None = None
        self._at: Literal["between", "open", "closed"] = "between"  # rounds, in one, or before its checkpoint
        self._wrong = False  # whether something in this round does not follow
        self._lost = False  # whether the rest of its events mean nothing
        self._reports: dict[bytes, AnyReport] = {}  # of the open round, those that belong to it, by pseudonym
        self._named: dict[Region, list[Report]] = {}  # all of the open round that could be read
        self._previous = b""  # the pseudonym of the last report
        self._log = MerkleLog()
        self._head = b""
        self._sealed_size = 0

    # -- frames and events -----------------------------------------------------------------------------------

    def frame(self, frame: Frame) -> None:
        """Judge one frame."""
        if frame.kind == SEAL:
            self._seal(*frame.events)
        elif frame.kind == MARK:
            self._mark(*frame.events)
        elif frame.kind != END:
            self._log.add(frame.events)
            self.found.events = self._log.size
            for data in frame.events:
                if not self._lost:
                    self._event(data)

    @property
    def _round(self) -> int | None:
        """The round whose checkpoint comes next."""
        return None if self._curator is None else len(self.found.seals) + 1

    def _note(self, token: str, what: str) -> None:
        """A difference in this round, which is the last one."""
        self.found.add(token, self._round, what)
        self._wrong = True

    def _lose(self, token: str, what: str) -> None:
        """A difference after which the events of this round mean nothing."""
        self._note(token, what)
        self._lost = True

    def _judge(self, findings: Iterable[Finding]) -> None:
        for one in findings:
            self.found.add(one.token, self._round, one.what)
            self._wrong |= one.breaks

    def _mark(self, data: bytes) -> None:
        try:
            self.found.simulation = Simulation.from_bytes(data)
        except InvalidInput as error:
            self.found.add("unreadable-event", None, str(error))

    def _event(self, data: bytes) -> None:
        curator = self._curator
        try:
            event = decode_event(data)
        except InvalidInput as error:
            self._lose("unreadable-event", str(error))
            return
        if curator is None:
            if isinstance(event, Task):
                self._begin_task(event)
            else:
                self._lose("unexpected-event", f"the first event must be the task, not {type(event).__name__}")
        elif self._at == "closed":
            self._lose("missing-seal", "the round has no checkpoint")
            self.over = True
        elif isinstance(event, Report | ValueReport):
            self._report(curator, event)
        elif isinstance(event, Closed | ValueClosed):
            self._close(curator, event, data)
        elif self._at == "open" or isinstance(event, Task):
            self._lose("unexpected-event", f"a {type(event).__name__} does not belong here")
        elif isinstance(event, Query):
            self._query(curator, event)
        elif isinstance(event, ValueQuery):
            self._value_query(curator, event)
        else:
            self._plan(curator, event)

    def _begin_task(self, task: Task) -> None:
        self.found.task = task
        self._curator, self._head = Witness(task), task.id
        if self.found.simulation is not None and task.server_key:
            what = "the file is marked as a simulation, but its task pins a server's key: a campaign has no such mark"
            self.found.add("simulated", None, what)

    def finish(self) -> None:
        """Judge what is left at the end of the file."""
        found, curator = self.found, self._curator
        if curator is None:
            if found.sound:
                found.add("unexpected-event", None, "there is no task")
            return
        found.participants = len(curator.home)
        if self.over:
            found.notes.append(f"what follows round {len(found.seals)} was not looked at")
        elif self._log.size > max(self._sealed_size, 1):  # the task alone is what there is before round 1 is closed
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
            self._lose("unexpected-event", "the partition is finished: nothing is left to ask about")
        elif query.task != curator.task.id or query.round != due:
            self._lose("wrong-query", f"a query of this task for round {due} is due")
        else:
            self._judge(curator.ask(query))
            self._begin_round(query)

    def _plan(self, curator: Witness, plan: Plan) -> None:
        if self.found.plan is not None or not curator.partitioned:
            self._lose("unexpected-event", "a plan comes once, after the partition")
            return
        try:
            plan.check(curator.task)
        except InvalidInput as error:
            self._lose("wrong-plan", str(error))
            return
        self.found.plan = curator.plan = plan

    def _value_query(self, curator: Witness, query: ValueQuery) -> None:
        due = curator.query()
        if not isinstance(due, ValueQuery):
            what = "the partition is not finished" if due is not None else "no plan asks for this value"
            self._lose("unexpected-event", f"a query for a value, but {what}")
        elif query != due:
            what = f"release {due.index} of the published plan is due, in all regions, clipped as the partition says"
            self._lose("wrong-value-query", what)
        else:
            self._begin_round(query)

    def _begin_round(self, query: AnyQuery) -> None:
        self._at, self._previous, self._reports, self._named = "open", b"", {}, {}
        self._lost = self._wrong

    # -- reports -----------------------------------------------------------------------------------------------

    def _report(self, curator: Witness, report: AnyReport) -> None:
        self.found.reports += 1
        if self._at != "open" or isinstance(report, ValueReport) != curator.partitioned:
            self._lose("unexpected-event", "a report that no open round asks for")
            return
        name = report.pseudonym
        twice = name == self._previous or name in self._reports
        if not self._previous < name:
            token, word = ("reported-twice", "again") if twice else ("wrong-order", "out of order")
            self._note(token, f"pseudonym {name.hex()} {word}")
        self._previous = name
        if isinstance(report, Report):
            self._named.setdefault(report.region, []).append(report)
        if twice:
            return
        try:
            curator.check(report)
        except DeviceViolation as error:
            self._note(error.token, f"pseudonym {name.hex()}: {error.reason}")
            return
        self._reports[name] = report

    # -- closings ----------------------------------------------------------------------------------------------

    def _close(self, curator: Witness, closed: AnyClosed, data: bytes) -> None:
        if self._at != "open" or isinstance(closed, ValueClosed) != curator.partitioned:
            self._lose("unexpected-event", "a closing without its query")
            return
        self._at = "closed"
        self.found.rounds += 1
        self.found.closings.append(hashlib.sha256(data).digest())
        if (closed.task, closed.round) != (curator.task.id, curator.round):
            self._lose("wrong-verdict", "the closing is not about the task and round asked for")
            return
        slices = self._slices(closed)
        if isinstance(closed, ValueClosed):
            counted = curator.close(tuple(self._reports.values()))
            assert isinstance(counted, ValueClosed)
            self._judge(compare_values(closed, counted))
        else:
            self._judge(compare_heads(closed, slices))
            if not self._wrong:
                self._judge(curator.end(closed, [one for one in self._reports.values() if isinstance(one, Report)]))

    def _slices(self, closed: AnyClosed) -> dict[Region, Slice]:
        """The slices of the round, as its reports say."""
        out = {}
        for region, reports in self._named.items():
            entries = {one.pseudonym: Entry(one.pseudonym, one.answer, one.nonce) for one in reversed(reports)}
            out[region] = Slice(closed.task, closed.round, *region, tuple(entries[name] for name in sorted(entries)))
        return out

    def _seal(self, data: bytes) -> None:
        """Judge the checkpoint of a round; after one that did not follow, nothing more is looked at."""
        found, curator, number = self.found, self._curator, self._round
        if curator is None:
            found.add("unexpected-event", None, "a checkpoint before the task")
            self.over = True
            return
        if self._at == "open" and not self._wrong:
            token = "wrong-values" if curator.partitioned else "wrong-verdict"
            self._note(token, "the closing is missing or cannot be read")
        task = curator.task
        try:
            seal = decode(data, Seal)
        except InvalidInput as error:
            found.add("wrong-seal", number, str(error))
            self.over = True
            return
        point = seal.checkpoint
        self.over = self._wrong
        if (self._at == "between" and not self._wrong) or point.task != task.id or point.round != number:
            found.add("wrong-seal", number, f"the checkpoint is for round {point.round}, another task, or comes twice")
            self.over = True
        if point.size != self._log.size:
            found.add("wrong-size", number, f"the checkpoint is over {point.size} events; there are {self._log.size}")
        elif point.root != self._log.root():
            found.add("wrong-root", number, "the checkpoint's root is not that of the events before it")
        if seal.head != next_head(self._head, point):
            found.add("wrong-chain", number, "the checkpoint does not continue the one before")
        fault = signature_fault(seal, task)
        if fault is not None:
            found.add(fault[0], number, fault[1])
        found.signatures += fault is None and bool(seal.signature)
        found.seals.append(seal)
        self._at, self._head, self._sealed_size = "between", seal.head, self._log.size


# -- single checks of the replay: pure functions of what was published and what was counted --------------------------


def compare_heads(closed: Closed, slices: Mapping[Region, Slice]) -> Iterator[Finding]:
    """Differences between the heads of a closing and the reports of the round."""
    claimed = {(head.lower, head.upper): head for head in closed.heads}
    less, more, other = 0, 0, 0
    for region in sorted(claimed.keys() | slices.keys()):
        head, part = claimed.get(region), slices.get(region)
        said, have = 0 if head is None else head.reports, 0 if part is None else len(part.entries)
        less, more = less + max(0, said - have), more + max(0, have - said)
        other += said == have and head is not None and part is not None and head.digest != part.digest()
    yield from _counted(less, more)
    if other:
        yield Finding("wrong-slice", f"{other} slices do not have the hash that the closing says")


def compare_values(closed: ValueClosed, counted: ValueClosed) -> Iterator[Finding]:
    """Differences between a closing of values and the one that follows from its reports."""
    more = sum(closed.responders) - sum(counted.responders)
    yield from _counted(max(0, more), max(0, -more))
    if not more and closed != counted:
        yield Finding("wrong-values", "the closing does not follow from the values reported")


def _counted(less: int, more: int) -> Iterator[Finding]:
    if less:
        yield Finding("missing-report", f"{less} reports missing: the closing counts them, the transcript does not")
    if more:
        yield Finding("extra-report", f"{more} reports too many: the closing does not count them")
