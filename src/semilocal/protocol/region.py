"""What everybody knows about one region, and the public log of regions as a device follows it. From messages alone.

A :class:`RegionLog` has a region's members, what they answered about cuts inside it, and the open question. The same
record is kept by the server for every region, by the verifier, and by a device for the regions on its path. Two numbers
of it matter for the promise (PROOF.md):

- **askable**, F: members of the roster with fewer than A answers about cuts strictly inside the region, who did not
  stay silent when they were last asked;
- **failed**, w: questions whose cut lies strictly inside the region and that did not split it, each as often as it was
  put, counted from its draw on.

A :class:`Path` is one region in one round. Observing the query and following the closing lead to the next one; a split
leads to one per part. Nothing of a device is in it, so devices of one process that are in the same region share it, and
every check that needs no secret is made once. Checks are those of local.md 3: the draw, w and the tail of t are
recomputed from the log; where a region is cut and when a question is given up is the server's affair.

Knows messages. Knows no positions and no policy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec
import numpy as np

from ..errors import InvalidInput, ServerViolation
from ..randomizer.base import Answer
from .estimate import Walls
from .keys import HashChain
from .messages import Closed, Head, Query, Question, Slice, Verdict, encode, seed_of
from .rule import randomizer_for, threshold_holds
from .task import Task


class RegionLog:
    """The public record of the region of codes ``lower`` to before ``upper``."""

    __slots__ = ("answers", "drawn", "failed", "known", "lower", "members", "question", "silent", "tally", "upper")

    def __init__(self, lower: int, upper: int) -> None:
        self.lower, self.upper = lower, upper
        self.members: dict[bytes, bool] = {}  # who announced to be here; true: enrolled late, counted nowhere
        self.known: dict[bytes, bool] = {}  # the same of regions it was cut from: they may still announce this one
        self.silent: set[bytes] = set()  # members who were asked, did not answer, and have not spoken since
        self.answers: dict[bytes, list[tuple[int, Answer]]] = {}  # about cuts strictly inside: first cut, and answer
        self.failed: list[int] = []  # the first cuts of the questions that count in w
        self.question: Question | None = None  # the one that is open or was closed last
        self.drawn: tuple[bytes, ...] = ()  # whom it is put to, in the order of the draw
        self.tally: tuple[int, ...] = ()  # sums of the answers to it so far

    @property
    def region(self) -> tuple[int, int]:
        """Its codes."""
        return self.lower, self.upper

    def holds(self, lower: int, upper: int) -> bool:
        """Whether another region lies inside."""
        return self.lower <= lower and upper <= self.upper

    @property
    def crowd(self) -> int:
        """Members of the roster."""
        return sum(not late for late in self.members.values())

    def askable(self, limit: int, *, late: bool = False) -> list[bytes]:
        """Who may be asked, ascending: members with fewer than ``limit`` answers inside who are not silent.

        Those who enrolled late count only where nothing is decided (``late=True``).
        """
        return sorted(
            name
            for name, enrolled_late in self.members.items()
            if (late or not enrolled_late) and name not in self.silent and len(self.answers.get(name, ())) < limit
        )

    # -- what happens in a round -----------------------------------------------------------------------------

    def ask(self, question: Question, seed: bytes, limit: int) -> None:
        """A question is put: draw its members, unless it is the second portion of one that was drawn before."""
        if self.question is None or question.drawn != self.question.drawn:
            self.drawn = draw(self.askable(limit, late=not question.decides), seed, question.asked)
            self.tally = (0,) * len(question.parts)
            if question.decides:
                self.failed.append(question.cuts[0])
        self.question = question

    @property
    def asked_now(self) -> tuple[bytes, ...]:
        """Who answers in this round."""
        return () if self.question is None else self.drawn[self.question.start : self.question.stop]

    def take(self, reports: Slice | None, *, asked: bool, late: bool) -> None:
        """The reports of a round that name the region, if there are any.

        ``asked``: whether the region had a question in this round. ``late``: whether people who were never seen before
        enrolled after the first round.
        """
        entries = () if reports is None else reports.entries
        awaited = set(self.asked_now) if asked else set()
        self.silent |= awaited
        for entry in entries:
            self.silent.discard(entry.pseudonym)
            if entry.pseudonym not in self.members:
                self.members[entry.pseudonym] = self.known.get(entry.pseudonym, late)
            if entry.answer is not None and entry.pseudonym in awaited:
                assert self.question is not None
                self.answers.setdefault(entry.pseudonym, []).append((self.question.cuts[0], entry.answer))
                self.tally = _added(self.tally, entry.answer)
                awaited.discard(entry.pseudonym)

    def part(self, lower: int, upper: int) -> RegionLog:
        """The record of a part after a split: nobody has announced it yet, walls outside no longer count."""
        out = RegionLog(lower, upper)
        out.known = self.known | self.members
        out.failed = [cut for cut in self.failed if lower < cut < upper]
        for name, said in self.answers.items():
            inside = [(cut, answer) for cut, answer in said if lower < cut < upper]
            if inside:
                out.answers[name] = inside
        return out


def draw(names: list[bytes], seed: bytes, count: int) -> tuple[bytes, ...]:
    """The ``count`` names with the smallest SHA-256(seed ‖ name), in that order."""
    tickets = sorted((hashlib.sha256(seed + name).digest(), name) for name in names)
    return tuple(name for _, name in tickets[:count])


def walls_of(logs: Iterable[RegionLog]) -> Walls:
    """What present members answered about single cuts inside each region."""
    first, cuts, asked, yes = [0], [], [], []
    for log in logs:
        found: dict[int, list[int]] = {}
        for name in log.members:
            for cut, answer in log.answers.get(name, ()):
                if isinstance(answer, int):
                    count = found.setdefault(cut, [0, 0])
                    count[0] += 1
                    count[1] += answer
        for cut in sorted(found):
            cuts.append(cut)
            asked.append(found[cut][0])
            yes.append(found[cut][1])
        first.append(len(cuts))
    counts = (np.array(column, dtype=np.int64) for column in (asked, yes))
    return Walls(np.array(first), np.array(cuts, dtype=np.uint64), *counts)


def _added(tally: tuple[int, ...], answer: Answer) -> tuple[int, ...]:
    if isinstance(answer, tuple):
        return tuple(one + other for one, other in zip(tally, answer, strict=True))
    return tuple(count + (part == answer) for part, count in enumerate(tally))


# -- the log as a device follows it -----------------------------------------------------------------------------------


class Path:
    """A region in one round. It begins with round 1 of the pinned task and the whole domain.

    ``log`` moves on with the path: read it only while the round is open.
    """

    __slots__ = (
        "_checked", "_closed", "_head", "_next", "_preimage", "_seed", "asked", "digest", "log", "partitioned", "query",
        "question", "region", "round", "splits", "task",
    )  # fmt: skip

    def __init__(self, task: Task) -> None:
        self._begin(task, RegionLog(*task.hierarchy.ends), 1, 0, b"", task.chain)

    def _begin(self, task: Task, log: RegionLog, round_: int, splits: int, seed: bytes, preimage: bytes) -> None:
        self.task, self.log, self.region, self.round, self.splits = task, log, log.region, round_, splits
        self.partitioned = False
        self.query: Query | None = None  # of the open round, once it was observed; digest: SHA-256 of its bytes
        self.question: Question | None = None  # the one about this region
        self.asked: frozenset[bytes] = frozenset()  # pseudonyms that the draw names for this round
        self._seed, self._preimage = seed, preimage
        self._closed: Closed | None = None
        self._next: tuple[Path, ...] = ()
        self._head: tuple[Closed, Head | None] | None = None  # of the last closing that was looked at
        self._checked: tuple[Closed, Slice | None] | None = None
        self.digest = b""

    @property
    def is_open(self) -> bool:
        """Whether the closing of the round was not followed yet."""
        return self._closed is None

    # -- the query -----------------------------------------------------------------------------------------------

    def observe(self, query: Query) -> None:
        """Note what the open round asks here; a ServerViolation if it breaks the protocol, and nothing changes."""
        if query is self.query:
            return
        if query.task != self.task.id:
            raise ServerViolation("other-task", "the message belongs to another task than the one pinned")
        if query.round != self.round or self.partitioned:
            token = "skipped-round" if query.round > self.round else "repeated-round"
            raise ServerViolation(token, f"round {query.round} was asked; the open one is {self.round}")
        if self.query is not None:
            if self.query != query:
                raise ServerViolation("changed-query", f"round {query.round} was asked before with other questions")
            return
        question = self._find(query)
        if question is not None:
            if (fault := question_fault(self.task, self.log, question, self.round)) is not None:
                raise ServerViolation(*fault)
            self.log.ask(question, self._seed, self.task.answers)
            self.asked = frozenset(self.log.asked_now)
        self.query, self.question, self.digest = query, question, hashlib.sha256(encode(query)).digest()

    def _find(self, query: Query) -> Question | None:
        """The question about this region; one that overlaps it in part breaks the protocol."""
        lower, upper = self.region
        for question in query.questions:
            if question.lower < upper and lower < question.upper:
                if question.region != (lower, upper):
                    raise ServerViolation("other-region", "a question is about a region that the log does not have")
                return question
        return None

    # -- the closing ---------------------------------------------------------------------------------------------

    def head(self, closed: Closed) -> Head | None:
        """What a closing says about the reports of this region; None if nobody named it."""
        if self._head is None or self._head[0] is not closed:
            named = (head for head in closed.heads if head.region == self.region)
            self._head = closed, next(named, None)
        return self._head[1]

    def check(self, closed: Closed, reports: Slice | None) -> None:
        """Check the closing of the open round, with the region's slice: a ServerViolation if it breaks the protocol."""
        if self._checked is not None and self._checked[0] is closed and self._checked[1] is reports:
            return
        if not self.is_open:
            if closed != self._closed:
                raise ServerViolation("changed-closing", f"round {closed.round} was closed before in another way")
            self._check_slice(closed, reports)
            return
        if closed.task != self.task.id:
            raise ServerViolation("other-task", "the message belongs to another task than the one pinned")
        if closed.round != self.round or self.partitioned:
            token = "skipped-round" if closed.round > self.round else "repeated-round"
            raise ServerViolation(token, f"round {closed.round} was closed; the open one is {self.round}")
        if self.query is None:
            raise ServerViolation("skipped-round", "a round was closed before its query was seen")
        if not HashChain.goes_on(self._preimage, closed.preimage):
            raise ServerViolation("broken-chain", "the preimage does not lead to the one before it")
        self._check_slice(closed, reports)
        verdict = self._verdict(closed)
        if self.question is not None and verdict is not None:
            self._check_verdict(self.question, verdict, reports)
        self._checked = closed, reports

    def close(self, closed: Closed, reports: Slice | None) -> tuple[Path, ...]:
        """Follow a closing that holds; gives the next path, or one per part after a split."""
        self.check(closed, reports)
        if not self.is_open:
            return self._next
        log, verdict = self.log, self._verdict(closed)
        log.take(reports, asked=self.question is not None, late=closed.round > 1)
        logs = [log]
        if self.question is not None and verdict is not None and verdict.outcome == "split":
            logs = [log.part(*part) for part in self.question.parts]
        elif verdict is not None and verdict.outcome == "wall":
            log.question = None
        self._closed = closed
        self._next = tuple(self._following(one, closed, seed_of(closed), len(logs) > 1) for one in logs)
        return self._next

    def _following(self, log: RegionLog, closed: Closed, seed: bytes, split: bool) -> Path:
        path = type(self).__new__(type(self))
        path._begin(self.task, log, self.round + 1, self.splits + split, seed, closed.preimage)
        path.partitioned = closed.finished
        return path

    def _check_slice(self, closed: Closed, reports: Slice | None) -> None:
        head = self.head(closed)
        if (head is None) != (reports is None):
            raise ServerViolation("wrong-slice", "the closing and the reports of the region do not fit together")
        if head is not None and reports is not None:
            named = reports.task == closed.task and reports.round == closed.round and reports.region == self.region
            if not named or len(reports.entries) != head.reports or reports.digest() != head.digest:
                raise ServerViolation("wrong-slice", "the reports of the region are not those of the closing")
            self._check_answers(reports)

    def _check_answers(self, reports: Slice) -> None:
        """Only those who were drawn answer, with an answer that the question has."""
        given = {entry.pseudonym: entry.answer for entry in reports.entries if entry.answer is not None}
        if not given.keys() <= self.asked:
            raise ServerViolation("wrong-slice", "the log has an answer of a participant who was not drawn")
        if given and self.question is not None:
            randomizer = randomizer_for(self.task, len(self.question.parts))
            try:
                for answer in given.values():
                    randomizer.check_answer(answer)
            except InvalidInput as error:
                raise ServerViolation(
                    "wrong-slice", f"the log has an answer that the question does not have: {error}"
                ) from None

    def _verdict(self, closed: Closed) -> Verdict | None:
        assert self.query is not None
        if len(closed.verdicts) != len(self.query.questions):
            raise ServerViolation("wrong-verdict", "a closing has one verdict per question")
        return None if self.question is None else closed.verdicts[self.query.questions.index(self.question)]

    def _check_verdict(self, question: Question, verdict: Verdict, reports: Slice | None) -> None:
        tally = self._tally(reports)
        if tally != verdict.tally:
            raise ServerViolation("wrong-tally", "the published sums are not those of the published answers")
        whole = question.stop == question.asked
        reached = question.decides and whole and all(count >= question.threshold for count in tally)
        if verdict.outcome == "split" and not reached:
            raise ServerViolation("wrong-verdict", "the region was split, but the answers do not reach the threshold")
        if verdict.outcome == "more" and (whole or not question.decides):
            raise ServerViolation("wrong-verdict", "there is no second portion to ask")

    def _tally(self, reports: Slice | None) -> tuple[int, ...]:
        """The sums of the question after this round's answers."""
        trial = RegionLog(*self.region)
        trial.question, trial.drawn, trial.tally = self.log.question, self.log.drawn, self.log.tally
        trial.take(reports, asked=True, late=True)
        return trial.tally


def continues(question: Question, before: Question) -> bool:
    """Whether a question is the second portion of the one before it."""
    if (question.start, question.stop, question.asked) != (before.stop, before.asked, before.asked):
        return False
    return msgspec.structs.replace(question, start=before.start, stop=before.stop) == before


def question_fault(task: Task, log: RegionLog, question: Question, round_: int) -> tuple[str, str] | None:
    """Token and words for what breaks the promise in a question of a round about a region; None if nothing does."""
    if question.drawn == round_:
        askable = len(log.askable(task.answers, late=not question.decides))
        if question.start or question.asked > askable:
            what = f"{question.asked} are asked, from place {question.start} on; {askable} may be, from the first on"
            return "wrong-draw", what
        if question.decides and not threshold_holds(
            task, askable=askable, asked=question.asked, failed=len(log.failed), parts=len(question.parts),
            threshold=question.threshold,
        ):  # fmt: skip
            what = f"{question.threshold} answers of {question.asked} do not show a crowd of {task.k}"
            return "weak-threshold", what
    elif log.question is None or not continues(question, log.question):
        return "wrong-draw", "a second portion does not continue the question before it"
    if not question.decides and (len(question.cuts) != 1 or task.rule != "cut"):
        return "wrong-question", "an estimate is refined by one cut, with rule 'cut' only"
    return None
