"""The replay behind :mod:`semilocal.transcript.verify`: follows the events of a transcript one frame at a time.

Each round is judged against what was published before it, so that one fault is named once and not in every later round:
queries follow from the published verdicts, verdicts from the published tallies, tallies from the single reports.

Knows the public events. Trusts neither the file nor the server, and needs memory for one frame and for who took part.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..arrays import Flags, Integers
from ..errors import InvalidInput
from ..hierarchy.base import Cells
from ..protocol.keys import pseudonym
from ..protocol.messages import Closed, Query, ValueClosed, ValueQuery, decode
from ..protocol.plan import Plan, Release
from ..protocol.rule import Frontier, decide, first_frontier, no_frontier
from ..protocol.task import Task
from .checkpoints import Checkpoint, Seal, check_signature, next_head
from .columns import Columns, Kind, kinds_of, read_reports
from .file import END, SEAL, Frame
from .findings import Own, Verification
from .merkle import MerkleLog
from .replay_checks import check_seal, compare_counts, follow, not_ascending, published, tag_of
from .roster import Roster

__all__ = ["Replay"]

_EXAMPLES = 3


class _Asked(NamedTuple):
    """An open round of the partition or of values."""

    round: int
    kind: Kind
    cells: Cells  # of a query; empty for values
    release: Release | None


class Replay:
    """The state between two frames.

    Parameters
    ----------
    secret : bytes, optional
        Of a participant whose reports are collected in ``found.own``.
    """

    def __init__(self, secret: bytes | None = None) -> None:
        self.found = Verification(own=None if secret is None else Own({}, []))
        self._secret = secret
        self.watch = b""  # the pseudonym of the secret's owner
        self.log = MerkleLog()
        self.head = b""
        self.frontier: Frontier = first_frontier()
        self.round = 1  # the next one to be asked
        self.asked: _Asked | None = None
        self.sealed_size = 0
        self.closed_round: int | None = None  # closed and not sealed yet
        self.values_from = 0
        self.value_number = 0
        self.roster = Roster()
        self.regions: dict[int, tuple[int, int]] = {}  # region -> round and cell of the last report that leads to it
        self.small: list[tuple[int, int]] = []
        self._reset_counts()

    def _reset_counts(self) -> None:
        self.responders = np.zeros(0, dtype=np.int64)
        self.tally = np.zeros((0, 0), dtype=np.int64)
        self.counts: dict[tuple[int, int], int] = {}
        self.previous = b""
        self.problems: dict[str, list[str]] = {}
        self.problem_counts: dict[str, int] = {}

    # -- frames and events -----------------------------------------------------------------------------------

    def frame(self, frame: Frame) -> None:
        """Judge one frame."""
        if frame.kind == SEAL:
            self._seal(frame.data)
            return
        if frame.kind == END:
            return
        kinds = kinds_of(frame.data, frame.bounds)
        breaks = np.flatnonzero(np.diff(kinds, prepend=-1) | (kinds == 0))
        for first, last in zip(breaks.tolist(), [*breaks[1:].tolist(), len(kinds)], strict=True):
            bounds = frame.bounds[first : last + 1]
            self._hash(frame.data, bounds)
            if kinds[first]:
                self._reports(frame.data, bounds, "report" if kinds[first] == 1 else "value-report")
            else:
                self._event(frame.data[bounds[0] : bounds[1]])

    def _hash(self, data: bytes, bounds: Integers) -> None:
        sha256 = hashlib.sha256  # leaf_hash, without a call for each of millions
        self.log.extend([sha256(b"\x00" + data[a:b]).digest() for a, b in pairwise(bounds.tolist())])
        self.found.events = self.log.size

    def _event(self, data: bytes) -> None:
        found = self.found
        try:
            tag = tag_of(data)
            if found.task is None:
                found.task = decode(data, Task)
                self.head = found.task.id
                self.watch = b"" if self._secret is None else pseudonym(self._secret, found.task.id)
                return
            if tag == "query":
                self._query(decode(data, Query), data)
            elif tag == "closed":
                self._closed(decode(data, Closed), data)
            elif tag == "plan":
                self._plan(decode(data, Plan))
            elif tag == "value-query":
                self._value_query(decode(data, ValueQuery), data)
            elif tag == "value-closed":
                self._value_closed(decode(data, ValueClosed), data)
            else:
                found.add("unexpected-event", self.round, f"an event {tag!r} is none of a transcript after its first")
        except InvalidInput as error:
            found.add("unreadable-event", self.round, str(error))

    def finish(self) -> None:
        """Judge what is left at the end of the file."""
        found = self.found
        found.participants = len(self.roster)
        if self.asked is not None:
            self._flush_problems(self.asked.round)
        if found.task is None:
            if not any(item.token == "damaged-file" for item in found.differences):
                found.add("unexpected-event", None, "there is no task")
            return
        if self.log.size > self.sealed_size:
            found.add(
                "unsealed-events", None, f"{self.log.size - self.sealed_size} events come after the last checkpoint"
            )
        if len(self.frontier.cells):
            found.notes.append(f"the collection is not finished: round {self.round} would come next")
        elif found.plan is not None and self.value_number < len(found.plan.asked):
            missing = len(found.plan.asked) - self.value_number
            found.notes.append(f"the releases are not finished: {missing} are missing")
        if not found.task.server_key:
            found.notes.append("the task pins no key: checkpoints prove only what somebody else holds of them")
        if not found.task.keeps_crowd:
            found.notes.append(f"this task promises no crowd of k = {found.task.k}")
        elif self.small:
            people = sum(crowd for _, crowd in self.small)
            found.notes.append(
                f"{len(self.small)} regions with {people} of {found.participants} participants hold fewer than k = "
                f"{found.task.k}; allowed with probability delta = {found.task.delta:g} per participant who is never "
                "moved, and by drop-outs after the split"
            )

    # -- rounds of the partition -----------------------------------------------------------------------------

    def _begin(self, asked: _Asked, data: bytes) -> None:
        if self.asked is not None:
            self.found.add("unexpected-event", asked.round, f"round {self.asked.round} was not closed before")
            self._flush_problems(self.asked.round)
        if self.closed_round is not None:
            self.found.add("missing-seal", self.closed_round, "the round has no checkpoint")
            self.closed_round = None
        self._reset_counts()
        self.asked = asked
        if self.found.own is not None:
            self.found.own.messages.append((asked.round, data))

    def _query(self, query: Query, data: bytes) -> None:
        task = self._task()
        cells = np.array(query.cells, dtype=np.uint64)
        if query.task != task.id or query.round != self.round:
            self.found.add("wrong-query", query.round, f"a query of this task for round {self.round} is due")
        if not np.array_equal(cells, self.frontier.cells):
            extra = len(np.setdiff1d(cells, self.frontier.cells))
            left_out = len(np.setdiff1d(self.frontier.cells, cells))
            self.found.add(
                "wrong-query", query.round,
                f"the cells do not follow from the verdicts: {extra} too many, {left_out} missing",
            )  # fmt: skip
            known = np.isin(cells, self.frontier.cells)
            at = np.searchsorted(self.frontier.cells, cells[known])
            trims, expected = np.zeros(len(cells), np.int64), np.full(len(cells), np.nan)
            trims[known], expected[known] = self.frontier.trims[at], self.frontier.expected[at]
            self.frontier = Frontier(cells, trims, expected)
        self._open(task, cells, data)

    def _open(self, task: Task, cells: Cells, data: bytes) -> None:
        self._begin(_Asked(self.round, "report", cells, None), data)
        self.responders = np.zeros(len(cells), dtype=np.int64)
        width = 0 if self.round > task.max_rounds else task.randomizer.fanout
        self.tally = np.zeros((len(cells), width), dtype=np.int64)

    def _closed(self, closed: Closed, data: bytes) -> None:
        task, asked = self._task(), self.asked
        if asked is None or asked.kind != "report":
            self.found.add("unexpected-event", closed.round, "a closing without its query")
            return
        self._end(asked, data)
        if closed.task != task.id or closed.round != asked.round or closed.cells != tuple(asked.cells.tolist()):
            self.found.add("wrong-verdict", asked.round, "the closing is not about the task, round and cells asked for")
            self._next(task, asked, self.responders, self.tally, None)
            return
        responders = np.array(closed.responders, dtype=np.int64)
        for token, what, count in compare_counts(asked.cells, closed, self.responders, self.tally):
            self.found.add(token, asked.round, what, count)
        width = self.tally.shape[1]
        if any(len(row) != width for row in closed.tally):
            self._next(task, asked, self.responders, self.tally, None)
            return
        tally = np.array(closed.tally, dtype=np.int64).reshape(len(asked.cells), width)
        self._next(task, asked, responders, tally, closed)

    def _next(self, task: Task, asked: _Asked, responders: Integers, tally: Integers, closed: Closed | None) -> None:
        """Decide again from what was published, compare, and go on with what was published."""
        self.round = asked.round + 1
        if asked.round > task.max_rounds:
            kept = np.zeros((len(asked.cells), 0), dtype=bool)
            self._settle(task, asked, responders, kept)
            self.frontier = no_frontier()
            if closed is not None and any(closed.kept):
                self.found.add("wrong-verdict", asked.round, "a roll call ends all paths")
            return
        if not task.hierarchy.all_at(asked.cells, asked.round - 1):  # a wrong query: nothing follows from it
            self.frontier = no_frontier()
            return
        ruling = decide(task, self.frontier, responders, tally)
        kept, following = ruling.kept, ruling.frontier
        if closed is not None:
            decided = [tuple(np.flatnonzero(row).tolist()) for row in kept]
            wrong = [row for row, children in enumerate(decided) if children != closed.kept[row]]
            if wrong:
                row = wrong[0]
                self.found.add(
                    "wrong-verdict", asked.round,
                    f"{len(wrong)} verdicts do not follow from their tallies: in cell {int(asked.cells[row])} children "
                    f"{closed.kept[row]} go on, the tally {tuple(tally[row].tolist())} says {decided[row]}",
                    len(wrong),
                )  # fmt: skip
                kept = published(closed, kept.shape[1])
                following = follow(task, self.frontier, kept, ruling.estimates)
        self._settle(task, asked, responders, kept)
        self.frontier = following

    def _settle(self, task: Task, asked: _Asked, responders: Integers, kept: Flags) -> None:
        """Note the paths that end here."""
        if task.rule == "each" and kept.shape[1]:
            rows, numbers = np.nonzero(~kept & task.hierarchy.child_mask(asked.cells))
            left = task.hierarchy.child(asked.cells[rows], numbers)
            self.regions |= {
                cell: (asked.round, parent)
                for cell, parent in zip(left.tolist(), asked.cells[rows].tolist(), strict=True)
            }
            return
        for row in np.flatnonzero(~kept.any(axis=1)).tolist():
            cell, crowd = int(asked.cells[row]), int(responders[row])
            self.regions[cell] = (asked.round, cell)
            if crowd < task.k:
                self.small.append((cell, crowd))

    # -- reports -----------------------------------------------------------------------------------------------

    def _reports(self, data: bytes, bounds: Integers, kind: Kind) -> None:
        task, count = self._task_or_none(), len(bounds) - 1
        self.found.reports += count
        if task is not None and self.asked is None:
            self._imply(task, kind)
        asked = self.asked
        if task is None or asked is None or asked.kind != kind:
            self.found.add("unexpected-event", self.round, f"{count} reports that no open round asks for", count)
            return
        values = kind == "value-report"
        single = values or (asked.round <= task.max_rounds and task.randomizer.words == 1)
        width = None if single else self.tally.shape[1]
        columns = read_reports(data, bounds, kind=kind, task=task.id, round_=asked.round, width=width)
        for _, reason in columns.refused:
            self._problem("bad-report", reason)
        if self.found.own is not None and self.watch in columns.pseudonyms:
            own = self.found.own.reports.setdefault(asked.round, [])
            for place, name in zip(columns.events.tolist(), columns.pseudonyms, strict=True):
                if name == self.watch:
                    own.append(data[bounds[place] : bounds[place + 1]])
        if not len(columns.cells):
            return
        self._one_each(columns)
        who = self._who(columns, asked)
        if values:
            self._count_values(columns, who, asked)
        else:
            self._count(task, columns, who, asked)

    def _imply(self, task: Task, kind: Kind) -> None:
        """Go on with the round that must have been asked, if its query is missing or cannot be read."""
        plan = self.found.plan
        if kind == "report" and len(self.frontier.cells):
            self.found.add("wrong-query", self.round, "the query is missing or cannot be read")
            self._open(task, self.frontier.cells, b"")
        elif kind == "value-report" and plan is not None and self.value_number < len(plan.asked):
            self.found.add("wrong-value-query", self.round, "the query is missing or cannot be read")
            release = plan.releases[plan.asked[self.value_number]]
            self._begin(_Asked(self.round, kind, np.empty(0, dtype=np.uint64), release), b"")

    def _one_each(self, columns: Columns) -> None:
        """Check the order, which also shows repetitions; a repeated report stays in the count, as it was published."""
        names = columns.pseudonyms
        for before, name in not_ascending([self.previous, *names]):
            token = "reported-twice" if before == name else "wrong-order"
            self._problem(token, f"pseudonym {name.hex()} " + ("again" if before == name else "out of order"))
        self.previous = names[-1]

    def _who(self, columns: Columns, asked: _Asked) -> Integers:
        """Index of each participant; -1 for one that did not take part from the first round."""
        if asked.round == 1 and asked.kind == "report":
            self.roster.enter(columns.pseudonyms)
        who = self.roster.find(columns.pseudonyms)
        for problem in self.roster.strangers(columns.pseudonyms, who):
            self._problem(*problem)
        return who

    def _count(self, task: Task, columns: Columns, who: Integers, asked: _Asked) -> None:
        names, cells = columns.pseudonyms, columns.cells
        rows = np.searchsorted(asked.cells, cells)
        rows = np.minimum(rows, max(len(asked.cells) - 1, 0))
        known = asked.cells[rows] == cells if len(asked.cells) else np.zeros(len(cells), dtype=bool)
        for place in np.flatnonzero(~known).tolist():
            self._problem("unknown-cell", f"pseudonym {names[place].hex()} answers for cell {int(cells[place])}")
        parents = np.zeros_like(cells)  # of cells that were not asked about: nobody comes from there
        if asked.round > 1 and task.hierarchy.all_at(asked.cells, asked.round - 1):
            parents[known] = task.hierarchy.parent(cells[known])
        for problem in self.roster.follow(names, who, round_=asked.round, cells=cells, parents=parents):
            self._problem(*problem)
        legal = known & self._legal_answers(task, columns, asked)
        self.responders += np.bincount(rows[legal], minlength=len(asked.cells))
        if self.tally.shape[1]:
            self.tally += task.randomizer.tally(columns.answers[legal], rows[legal].astype(np.int64), len(asked.cells))

    def _legal_answers(self, task: Task, columns: Columns, asked: _Asked) -> Flags:
        answers, randomizer = columns.answers, task.randomizer
        if answers.ndim == 1:
            legal = (answers >= 0) & (answers < randomizer.fanout)
        else:
            legal = np.ones(len(answers), dtype=bool)
            for place, row in enumerate(answers.tolist() if answers.shape[1] else []):
                try:
                    randomizer.check_answer(tuple(row))
                except InvalidInput:
                    legal[place] = False
        for place in np.flatnonzero(~legal).tolist():
            self._problem("bad-answer", f"nobody can have answered what {columns.pseudonyms[place].hex()} did")
        return legal

    # -- values --------------------------------------------------------------------------------------------------

    def _plan(self, plan: Plan) -> None:
        if self.found.plan is not None or self.asked is not None or len(self.frontier.cells):
            self.found.add("unexpected-event", self.round, "a plan comes once, after the partition")
        try:
            plan.check(self._task())
        except InvalidInput as error:
            self.found.add("wrong-plan", self.round, str(error))
        self.found.plan, self.values_from = plan, self.round

    def _value_query(self, query: ValueQuery, data: bytes) -> None:
        plan = self.found.plan
        if plan is None:
            self.found.add("unexpected-event", query.round, "values are asked for without a plan")
            return
        number = self.value_number
        due = plan.asked[number] if number < len(plan.asked) else None
        if (query.task, query.round, query.plan, query.index) != (self._task().id, self.round, plan.digest, due):
            self.found.add("wrong-value-query", self.round, f"release {due} of the pinned plan is due")
        asked = plan.releases[query.index] if query.index < len(plan.releases) else None
        self._begin(_Asked(self.round, "value-report", np.empty(0, dtype=np.uint64), asked), data)

    def _count_values(self, columns: Columns, who: Integers, asked: _Asked) -> None:
        mechanism = asked.release.mechanism if asked.release is not None else None
        alphabet = range(0) if mechanism is None else mechanism.alphabet
        rounds, cells = (column.tolist() for column in self.roster.last(who))
        pairs = zip(columns.cells.tolist(), columns.answers.tolist(), who.tolist(), strict=True)
        for place, (cell, answer, index) in enumerate(pairs):
            if answer not in alphabet:
                self._problem("bad-answer", f"{answer} is no output of the release's mechanism")
            if index >= 0 and self.regions.get(cell) != (rounds[place], cells[place]):
                name = columns.pseudonyms[place].hex()
                self._problem("wrong-region", f"the path of {name} did not end in {cell}")
            self.counts[cell, answer] = self.counts.get((cell, answer), 0) + 1

    def _value_closed(self, closed: ValueClosed, data: bytes) -> None:
        asked, plan = self.asked, self.found.plan
        if asked is None or asked.kind != "value-report" or plan is None:
            self.found.add("unexpected-event", closed.round, "a closing of values without its query")
            return
        self._end(asked, data)
        rows: dict[int, list[tuple[int, int]]] = {}
        for (cell, answer), count in sorted(self.counts.items()):
            rows.setdefault(cell, []).append((answer, count))
        due = plan.asked[self.value_number] if self.value_number < len(plan.asked) else -1
        counted = ValueClosed(
            self._task().id, asked.round, plan.digest, max(due, 0), tuple(rows),
            tuple(tuple(row) for row in rows.values()),
        )  # fmt: skip
        if counted != closed:
            claimed, have = sum(closed.responders), sum(counted.responders)
            if claimed != have:
                token, word = ("missing-report", "missing") if claimed > have else ("extra-report", "too many")
                what = f"{abs(claimed - have)} values {word}: {claimed} were closed, the transcript has {have}"
                self.found.add(token, asked.round, what, abs(claimed - have))
            else:
                self.found.add("wrong-values", asked.round, "the closing does not follow from the values reported")
        self.round, self.value_number = asked.round + 1, self.value_number + 1

    # -- ends and seals ------------------------------------------------------------------------------------------

    def _end(self, asked: _Asked, data: bytes) -> None:
        self._flush_problems(asked.round)
        self.asked = None
        self.closed_round = asked.round
        self.found.rounds += 1
        self.found.closings.append(hashlib.sha256(data).digest())
        if self.found.own is not None:
            self.found.own.messages.append((asked.round, data))

    def _end_without_closing(self, task: Task, asked: _Asked) -> None:
        """Go on with what the reports say, if the closing is missing or cannot be read."""
        self._end(asked, b"")
        token = "wrong-verdict" if asked.kind == "report" else "wrong-values"
        self.found.add(token, asked.round, "the closing is missing or cannot be read")
        if asked.kind == "report":
            self._next(task, asked, self.responders, self.tally, None)
        else:
            self.round, self.value_number = asked.round + 1, self.value_number + 1

    def _seal(self, data: bytes) -> None:
        found, task = self.found, self._task_or_none()
        if task is None:
            found.add("unexpected-event", None, "a checkpoint before the task")
            return
        try:
            seal = decode(data, Seal)
        except InvalidInput as error:
            found.add("wrong-seal", self.closed_round, str(error))
            self.head = next_head(
                self.head, Checkpoint(task.id, self.closed_round or self.round, self.log.size, self.log.root())
            )
            self.closed_round, self.sealed_size = None, self.log.size
            return
        point = seal.checkpoint
        if self.asked is not None:
            self._end_without_closing(task, self.asked)
        round_ = point.round if self.closed_round is None else self.closed_round
        if self.closed_round is None or point.task != task.id or point.round != round_:
            found.add("wrong-seal", round_, f"the checkpoint is for round {point.round}, another task, or comes twice")
        for token, what in check_seal(seal, task, self.head, size=self.log.size, root=self.log.root()):
            found.add(token, round_, what)
        found.signatures += bool(task.server_key and seal.signature and check_signature(seal, task))
        self.head = seal.head
        found.seals.append(seal)
        self.closed_round, self.sealed_size = None, self.log.size

    # -- small things ----------------------------------------------------------------------------------------------

    def _task(self) -> Task:
        assert self.found.task is not None
        return self.found.task

    def _task_or_none(self) -> Task | None:
        return self.found.task

    def _problem(self, token: str, what: str) -> None:
        self.problem_counts[token] = self.problem_counts.get(token, 0) + 1
        examples = self.problems.setdefault(token, [])
        if len(examples) < _EXAMPLES:
            examples.append(what)

    def _flush_problems(self, round_: int) -> None:
        for token, examples in self.problems.items():
            count = self.problem_counts[token]
            more = f" and {count - len(examples)} more" if count > len(examples) else ""
            self.found.add(token, round_, "; ".join(examples) + more, count)
        self.problems, self.problem_counts = {}, {}
