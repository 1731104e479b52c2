"""A curator that follows what was published, whether or not the rule would have chosen it, and says what is different.

Each round is judged against what was published before it, so one fault is named once. What breaks the promise is told
apart from what does not: *where* a region is cut and *when* a question or the partition is given up is the server's
choice, and another choice than the rule's is named ``other-choice``.

Knows the machine of the protocol. Knows no files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..protocol.curator import Curator
from ..protocol.keys import HashChain
from ..protocol.messages import Closed, Query, Question, Report, Verdict, seed_of
from ..protocol.path import continues
from ..protocol.rule import threshold_holds
from ..protocol.task import Task

__all__ = ["Finding", "Witness"]

Region = tuple[int, int]


class Finding(NamedTuple):
    """A difference: its token, what it is for a person, and how often it is there."""

    token: str
    what: str
    times: int = 1


class Witness(Curator):
    """The public state of a campaign after its published messages.

    Parameters
    ----------
    task : Task
    """

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

        Parameters
        ----------
        sure : set of (int, int)
            Regions whose slices are the published ones: only there sums are compared.
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
