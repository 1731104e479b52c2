"""The device's machine: one participant, sans-IO, for the whole campaign.

    receives              if all checks hold
    Query, observed       notes what is asked in the region of its place; refuses what breaks the protocol
    Query, answered       a report: its answer if it was drawn; its region if the log does not have it there, or takes
                          it for silent; else nothing
    Closed and a Slice    follows the log: members, answers, walls, splits
    ValueQuery            a value, once per release

A device that was away reads the log from round 1, with ``observe`` and ``close``, and goes on. Anything that breaks the
protocol is a ``ServerViolation`` and changes nothing. Rules of a device (local.md 3):

1. Its region never grows, and it speaks once a round, in growing rounds only. Noise is derived from (secret, task,
   round, region, cut): the same question gets the same bytes.
2. It answers only if the public draw names it, and never has more than A answers inside its region, whatever the server
   says: its **book** of answers is its own, and must be kept before a report is sent.
3. It trusts no threshold: it recomputes F, w and the tail of t from the log. It announces a side only if that held and,
   where it answered, if its own answer is in the log.
4. It refuses a question before answering it if *either* part would be below its owner's limits. So refusing is a
   function of the public log, and silence does not tell the side.

``state`` is what a vault must keep. The rest follows from the public log.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left

import msgspec
import numpy.typing as npt

from ..arrays import as_floats
from ..errors import InvalidInput, ServerViolation
from .clip import unit_value
from .keys import SECRET_BYTES, nonce, pseudonym, report_entropy, value_entropy
from .messages import (
    AnyReport,
    Closed,
    Query,
    Question,
    Region,
    Report,
    Slice,
    ValueClosed,
    ValueQuery,
    ValueReport,
    encode,
)
from .plan import Plan
from .policy import Policy, check_region, check_task
from .region import Path, RegionLog
from .rule import randomizer_for
from .task import Task


class Booked(msgspec.Struct, frozen=True, array_like=True):
    """An answer that was given: the round, and the cuts it was about."""

    round: int
    cuts: tuple[int, ...]


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What a participant must not forget. Kept before a report is sent."""

    region: Region | None = None  # the last region it announced
    round: int = 0  # the last round it reported in; 0 before the first
    question: bytes = b""  # SHA-256 of the query of that round
    book: tuple[Booked, ...] = ()  # every answer it gave
    splits: int = 0  # how often its region was cut since the beginning
    values: tuple[tuple[int, bytes], ...] = ()  # releases of the plan it answered, and SHA-256 of the query
    stopped: str = ""  # why it takes part no longer; empty while it does


class Participant:
    """One participant of a campaign.

    Parameters
    ----------
    task : Task
        Pinned: messages of any other task are refused.
    point : array_like, shape (d,)
        The private position. It never leaves.
    secret : bytes
        32 bytes from the operating system's randomness, kept by the device.
    policy : Policy
        What the owner allows.
    plan : Plan, optional
        Pinned with the task: the releases it will answer; none if left out.
    value : float, optional
        The owner's own number, if the plan asks for one. It leaves through noise only.
    state : State, optional
        To go on after a restart; then read the log from round 1.
    path : Path, optional
        Round 1 of the task, shared by participants of one process: what is public is checked once for all of them.

    Raises
    ------
    ServerViolation
        If the policy does not allow the task and the plan.
    InvalidInput
        If the value is outside its public range, missing, or not asked for.
    """

    def __init__(
        self, task: Task, point: npt.ArrayLike, secret: bytes, policy: Policy, *, plan: Plan | None = None,
        value: float | None = None, state: State | None = None, path: Path | None = None,
    ) -> None:  # fmt: skip
        if len(secret) != SECRET_BYTES:
            raise InvalidInput(f"secret must be {SECRET_BYTES} bytes; got {len(secret)}")
        plan = Plan(task.id) if plan is None else plan
        try:
            plan.check(task)
        except InvalidInput as error:
            raise ServerViolation("bad-plan", str(error)) from None
        check_task(task, plan, policy)
        plan.check_value(value)
        self.task, self.plan, self.policy = task, plan, policy
        self.pseudonym = pseudonym(secret, task.id)
        self.state = State() if state is None else state
        self._secret = secret
        self._position = as_floats(point, "the position", infinite=True).reshape(1, -1)
        self._code = int(task.hierarchy.codes(self._position)[0])
        self._value = value
        self.path = Path(task) if path is None else path
        self._lost = 0  # the question (round of its draw) whose log lacks its answer
        self._refused: ServerViolation | None = None  # why its owner's limits stopped it
        self._stayed = 1  # members of the last region it announced, when that was split

    # -- what the owner may see ------------------------------------------------------------------------------

    @property
    def region(self) -> Region | None:
        """The last region it announced, codes lower to before upper; None before the first report."""
        return self.state.region

    @property
    def log(self) -> RegionLog:
        """What everybody knows about the region of its place."""
        return self.path.log

    @property
    def round(self) -> int:
        """The open one."""
        return self.path.round

    @property
    def partitioned(self) -> bool:
        """Whether the partition is finished."""
        return self.path.partitioned

    @property
    def members(self) -> int:
        """How many participants of the roster the log shows in its region, itself included if counted.

        Of a device that stopped at a split: when it was split.
        """
        return self.log.crowd if self.state.region in (None, self.path.region) else self._stayed

    @property
    def answered(self) -> int:
        """How many questions it answered."""
        return len(self.state.book)

    @property
    def lines(self) -> tuple[int, ...]:
        """The cuts inside its region that it answered about, ascending, with multiplicity."""
        lower, upper = self.state.region or self.log.region
        return tuple(sorted(cut for booked in self.state.book for cut in booked.cuts if lower < cut < upper))

    @property
    def inside(self) -> int:
        """How many of its answers are about cuts strictly inside its region: what they cost is at most this times e."""
        return self._booked(*(self.state.region or self.log.region))

    @property
    def spent(self) -> float:
        """Loss so far between two positions of its region: its answers inside it, and its values."""
        given = sum(self.plan.releases[index].epsilon for index, _ in self.state.values)
        return self.inside * self.task.randomizer.epsilon + float(given)

    def _booked(self, lower: int, upper: int) -> int:
        return sum(any(lower < cut < upper for cut in booked.cuts) for booked in self.state.book)

    # -- rounds of the partition -------------------------------------------------------------------------------

    def observe(self, query: Query) -> None:
        """Note what the open round asks in the region of its place.

        Raises :class:`ServerViolation` if the query breaks the protocol; nothing changes then.
        """
        self.path.observe(query)
        question = self.path.question
        if question is not None and question.decides and not self.state.stopped:
            self._check_parts(question)

    def answer(self, query: Query) -> Report | None:
        """The report for the open round, if it has something to say. Keep ``state`` before sending it.

        The same query always gives byte-identical reports. Raises :class:`ServerViolation` if the query breaks the
        protocol; the state does not change then.
        """
        before = self.state.stopped
        self.observe(query)
        path = self.path
        if self._refused is not None and not before:
            raise self._refused
        if self.state.stopped or not path.is_open:
            return None
        home = self.state.region
        if home is not None and not (home[0] <= path.region[0] and path.region[1] <= home[1]):
            raise ServerViolation("grown-region", "the log leads to a region that is not inside the one it announced")
        again = query.round == self.state.round
        if query.round < self.state.round or (again and (path.digest, path.region) != (self.state.question, home)):
            raise ServerViolation(
                "repeated-round", f"it reported in round {self.state.round} already, to another query"
            )
        question = path.question
        if again:
            return self._report(query.round, self._answered_to(query.round))
        free = self._booked(*path.region) < self.task.answers
        asked = free and self.pseudonym in path.asked
        heard = self.pseudonym in path.log.members and not (free and self.pseudonym in path.log.silent)
        if not asked and heard:
            return None
        booked = (Booked(query.round, question.cuts),) if asked and question is not None else ()
        self.state = msgspec.structs.replace(
            self.state, region=path.region, round=query.round, question=path.digest, book=self.state.book + booked,
            splits=path.splits,
        )  # fmt: skip
        return self._report(query.round, question if asked else None)

    def _answered_to(self, round_: int) -> Question | None:
        """The open round's question, if its book has an answer to it."""
        return self.path.question if any(booked.round == round_ for booked in self.state.book) else None

    def _check_parts(self, question: Question) -> None:
        """Stop, for good, at a question of which either part is below the owner's limits: silence tells no side.

        A device that was away stops at the same question when it reads the log. Splits that it reported of are counted
        even if a server shows another log after a restart.
        """
        splits = max(self.path.splits, self.state.splits if self.round > self.state.round else 0)
        try:
            for lower, upper in question.parts:
                check_region(self.task, lower, upper, self.policy, splits=splits + 1)
        except ServerViolation as error:
            self._refused = error
            self.state = msgspec.structs.replace(self.state, stopped=str(error))

    def _report(self, round_: int, question: Question | None) -> Report:
        lower, upper = self.path.region
        answer = None
        if question is not None:
            part = sum(self._code >= cut for cut in question.cuts)
            randomizer = randomizer_for(self.task, len(question.parts))
            entropy = report_entropy(
                self._secret, self.task.id, round_, (lower, upper), question.cuts, randomizer.words
            )
            answer = randomizer.respond(part, entropy)
        return Report(
            self.task.id, round_, self.pseudonym, lower, upper, answer, nonce(self._secret, self.task.id, round_)
        )

    # -- closings ------------------------------------------------------------------------------------------------

    def wanted(self, closed: Closed) -> Region | None:
        """The region whose slice it needs to follow a closing; None if nobody named the region of its place."""
        return None if self.path.head(closed) is None else self.path.region

    def close(self, closed: Closed, reports: Slice | None) -> None:
        """Follow the closing of the open round, with the slice of the region of its place.

        Raises :class:`ServerViolation` if it breaks the protocol; nothing changes then.
        """
        path = self.path
        path.check(closed, reports)
        self._check_own(reports)
        following = path.close(closed, reports)
        if len(following) > 1 and self.state.region == path.region:
            self._stayed = path.log.crowd
        self.path = next(one for one in following if one.region[0] <= self._code < one.region[1])
        question = path.question
        if len(following) > 1 and question is not None and self._lost == question.drawn:
            # then nobody may say that it was counted: it keeps the region it has
            self.state = msgspec.structs.replace(self.state, stopped="a split left out the answer it had given")

    def _check_own(self, reports: Slice | None) -> None:
        """The log has what it sent, or nothing: an answer that was lost counts for neither side."""
        question = self._answered_to(self.round)
        entries = () if reports is None else reports.entries  # ascending by pseudonym
        place = bisect_left(entries, self.pseudonym, key=lambda entry: entry.pseudonym)
        own = entries[place] if place < len(entries) else None
        if own is None or own.pseudonym != self.pseudonym:
            if question is not None:
                self._lost = question.drawn
            return
        sent = self._report(self.round, question)
        if self.round > self.state.round or (own.answer, own.nonce) != (sent.answer, sent.nonce):
            raise ServerViolation("changed-report", "the log has another report under its name than the one it sent")

    # -- rounds of values ----------------------------------------------------------------------------------------

    def value(self, query: ValueQuery) -> ValueReport | None:
        """The value for one release; None if its region is not asked, or the log does not have it there.

        Keep ``state`` before sending it.

        Raises :class:`ServerViolation` if the query is not of the pinned plan, or asks before the partition is
        finished.
        """
        region = self.state.region
        if self.state.stopped or region is None:
            return None
        if query.task != self.task.id or query.plan != self.plan.digest:
            raise ServerViolation("other-plan", "the query belongs to another task or plan than the one pinned")
        if not self.partitioned or query.round < self.round:
            raise ServerViolation("too-early", "values are asked for before the partition is finished")
        if query.index not in self.plan.asked:
            raise ServerViolation("not-planned", f"the plan has no release {query.index} that asks for a value")
        clip = next((one for one in query.clips if one.region == region), None)
        if clip is None or self.pseudonym not in self.log.members:  # its announcement was lost: it would not be counted
            return None
        digest = hashlib.sha256(encode(query)).digest()
        given = dict(self.state.values)
        if given.get(query.index, digest) != digest:
            raise ServerViolation("changed-query", f"release {query.index} was asked before in another way")
        release = self.plan.releases[query.index]
        assert release.mechanism is not None
        own = self._value if release.own else float(release.build()(self._position)[0])
        assert own is not None
        unit = unit_value(own, clip.low, clip.high)
        word = value_entropy(self._secret, self.task.id, self.plan.digest, query.index, region)
        answer = release.mechanism.release_one(unit, word)
        if query.index not in given:
            self.state = msgspec.structs.replace(
                self.state, round=query.round, values=(*self.state.values, (query.index, digest))
            )
        return ValueReport(self.task.id, query.round, self.pseudonym, *region, answer)

    def receive(self, message: Query | ValueQuery) -> AnyReport | None:
        """The report to a query of either kind."""
        return self.value(message) if isinstance(message, ValueQuery) else self.answer(message)

    def check_counted(self, closed: ValueClosed, report: ValueReport) -> None:
        """Refuse a closing of values that does not count the value that was given."""
        counts = dict(zip(closed.regions, closed.counts, strict=True)).get(report.region, ())
        if report.answer not in dict(counts):
            raise ServerViolation("not-counted", "the closing does not count a value that was given")
