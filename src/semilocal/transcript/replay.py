"""The replay behind :mod:`semilocal.transcript.verify`: plays the curator over a transcript's events, and compares.

Each round is judged against what was published before it, so that one fault is named once and not in every later round:
queries follow from the published verdicts, verdicts from the published tallies, tallies from the single reports.

Knows the public events. Trusts neither the file nor the server, and needs memory for one frame and for who took part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ..arrays import Integers
from ..errors import InvalidInput
from ..protocol.curator import Curator, closing, padded
from ..protocol.keys import pseudonym
from ..protocol.messages import (
    Closed,
    Query,
    Report,
    ValueClosed,
    ValueQuery,
    ValueReport,
    decode,
    decode_event,
)
from ..protocol.plan import Plan
from ..protocol.rule import Frontier, PlayedRound, frontier_at, proceed
from ..protocol.tally import RoundTally
from ..protocol.task import Task
from ..words import number_of
from .checkpoints import Checkpoint, Seal, check_signature, next_head
from .columns import Columns, read_reports, report_runs
from .file import END, MARK, SEAL, Frame
from .findings import Own, OwnEvents, Problems, Verification
from .mark import Simulation
from .merkle import MerkleLog
from .replay_checks import check_seal, compare_counts, compare_values, not_ascending, published
from .roster import Roster

__all__ = ["Replay"]


class Replay:
    """The state between two frames.

    Parameters
    ----------
    own : sequence of Own, optional
        Participants who want to know what the transcript holds under their name; the one of this task is picked.
    """

    def __init__(self, own: Sequence[Own] | None = None) -> None:
        self.found = Verification()
        self.own: Own | None = None
        self._owners = own
        self._watch = b""  # the owner's pseudonym
        self._curator: Curator | None = None
        self._tally: RoundTally | None = None  # of the open round
        self._problems = Problems()
        self._previous = b""  # the pseudonym of the last report
        self._roster = Roster()
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
            for kind, first, last in report_runs(frame.data, frame.bounds):
                bounds = frame.bounds[first : last + 1]
                self._hash(frame.data, bounds)
                if kind is None:
                    self._event(frame.data[bounds[0] : bounds[1]])
                else:
                    self._reports(frame.data, bounds, kind)

    def _mark(self, data: bytes) -> None:
        try:
            self.found.simulation = Simulation.from_bytes(data)
        except InvalidInput as error:
            self.found.add("unreadable-event", None, str(error))

    def _hash(self, data: bytes, bounds: Integers) -> None:
        sha256 = hashlib.sha256  # leaf_hash, without a call for each of millions
        self._log.extend([sha256(b"\x00" + data[a:b]).digest() for a, b in pairwise(bounds.tolist())])
        self.found.events = self._log.size

    def _event(self, data: bytes) -> None:
        number = None if self._curator is None else self._curator.round
        try:
            event = decode_event(data)
        except InvalidInput as error:
            self.found.add("unreadable-event", number, str(error))
            return
        if self._curator is None:
            if isinstance(event, Task):
                self._begin_task(event)
            else:
                self.found.add(
                    "unexpected-event", None, f"the first event must be the task, not {type(event).__name__}"
                )
        elif isinstance(event, Query):
            self._query(self._curator, event, data)
        elif isinstance(event, ValueQuery):
            self._value_query(self._curator, event, data)
        elif isinstance(event, Closed):
            self._closed(self._curator, event, data)
        elif isinstance(event, ValueClosed):
            self._value_closed(self._curator, event, data)
        elif isinstance(event, Plan):
            self._plan(self._curator, event)
        else:
            self.found.add("unexpected-event", number, f"a {type(event).__name__} does not belong here")

    def _begin_task(self, task: Task) -> None:
        self.found.task = task
        self._curator, self._head = Curator(task), task.id
        if self.found.simulation is not None and task.server_key:
            what = "the file is marked as a simulation, but its task pins a server's key: a campaign has no such mark"
            self.found.add("simulated", None, what)
        if self._owners is not None:
            self.own = next((own for own in self._owners if own.task == task.id), None)
        if self.own is not None:
            self.found.own = OwnEvents({}, [])
            self._watch = pseudonym(self.own.secret, task.id)

    def finish(self) -> None:
        """Judge what is left at the end of the file."""
        found, curator = self.found, self._curator
        found.participants = len(self._roster)
        if curator is None:
            if not any(item.token == "damaged-file" for item in found.differences):
                found.add("unexpected-event", None, "there is no task")
            return
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
        small = [size for size in _crowds(curator) if size < task.k]
        if not task.keeps_crowd:
            found.notes.append(f"this task promises no crowd of k = {task.k}")
        elif small:
            found.notes.append(
                f"{number_of(len(small), 'region')} with {sum(small):,} of "
                f"{number_of(found.participants, 'participant')} {'holds' if len(small) == 1 else 'hold'} fewer than k "
                f"= {task.k}; allowed with probability delta = {task.delta:g} per participant who is never moved, and "
                "by drop-outs after the split"
            )

    # -- queries and the plan ----------------------------------------------------------------------------------

    def _query(self, curator: Curator, query: Query, data: bytes) -> None:
        frontier, due = curator.frontier, curator.round
        if self.found.plan is not None:
            self.found.add("unexpected-event", query.round, "the partition is finished: nothing is left to ask about")
            return
        if query.task != curator.task.id or query.round != due:
            self.found.add("wrong-query", due, f"a query of this task for round {due} is due")
        cells = np.array(query.cells, dtype=np.uint64)
        if not np.array_equal(cells, frontier.cells):
            extra, left_out = (len(np.setdiff1d(*pair)) for pair in ((cells, frontier.cells), (frontier.cells, cells)))
            what = f"the cells do not follow from the verdicts: {extra} too many, {left_out} missing"
            self.found.add("wrong-query", due, what)
            if len(cells) and curator.task.hierarchy.all_at(query.cells, due - 1):
                curator.frontier = _among(frontier, query.cells)
        if not curator.partitioned:
            self._open(curator, data)

    def _plan(self, curator: Curator, plan: Plan) -> None:
        if self.found.plan is not None or self._tally is not None or not curator.partitioned:
            self.found.add("unexpected-event", curator.round, "a plan comes once, after the partition")
        try:
            plan.check(curator.task)
        except InvalidInput as error:
            self.found.add("wrong-plan", curator.round, str(error))
        self.found.plan = curator.plan = plan

    def _value_query(self, curator: Curator, query: ValueQuery, data: bytes) -> None:
        due = curator.query()
        if not isinstance(due, ValueQuery):
            what = "the partition is not finished" if due is not None else "no plan asks for this value"
            self.found.add("unexpected-event", query.round, f"a query for a value, but {what}")
            return
        if query != due:
            self.found.add("wrong-value-query", curator.round, f"release {due.index} of the published plan is due")
        self._open(curator, data)

    def _open(self, curator: Curator, data: bytes) -> None:
        if self._tally is not None:
            self.found.add("unexpected-event", curator.round, "the round is asked for twice")
            self._problems.report(self.found, curator.round)
        if self._closed_round is not None:
            self.found.add("missing-seal", self._closed_round, "the round has no checkpoint")
            self._closed_round = None
        self._tally, self._previous = curator.tally(), b""
        if self.found.own is not None:
            self.found.own.messages.append((curator.round, data))

    # -- reports -----------------------------------------------------------------------------------------------

    def _reports(self, data: bytes, bounds: Integers, kind: type[Report | ValueReport]) -> None:
        curator, count = self._curator, len(bounds) - 1
        self.found.reports += count
        if curator is None or curator.finished or (kind is ValueReport) != curator.partitioned:
            number = None if curator is None else curator.round
            self.found.add(
                "unexpected-event", number, f"{number_of(count, 'report')} that no open round asks for", count
            )
            return
        if self._tally is None:
            token = "wrong-query" if kind is Report else "wrong-value-query"
            self.found.add(token, curator.round, "the query is missing or cannot be read")
            self._open(curator, b"")
        tally = self._tally
        assert tally is not None
        columns = read_reports(data, bounds, kind=kind, task=curator.task.id, round_=curator.round, width=tally.width)
        for _, reason in columns.refused:
            self._problems.add("bad-report", reason)
        self._note_own(curator.round, data, bounds, columns)
        if not len(columns.cells):
            return
        self._one_each(columns)
        who = self._who(curator, columns)
        rows = tally.rows(columns.cells)
        legal = tally.legal(columns.answers, rows)
        if kind is Report:
            self._check_paths(curator, columns, who, rows)
        else:
            self._check_regions(curator, columns, who, rows)
        for place in np.flatnonzero(~legal).tolist():
            self._problems.add("bad-answer", f"nobody can have answered what {columns.pseudonyms[place].hex()} did")
        good = legal & (rows >= 0)
        tally.count(rows[good], columns.answers[good])

    def _note_own(self, number: int, data: bytes, bounds: Integers, columns: Columns) -> None:
        if self.found.own is None or self._watch not in columns.pseudonyms:
            return
        mine = self.found.own.reports.setdefault(number, [])
        for place, name in zip(columns.events.tolist(), columns.pseudonyms, strict=True):
            if name == self._watch:
                mine.append(data[bounds[place] : bounds[place + 1]])

    def _one_each(self, columns: Columns) -> None:
        """Check the order, which also shows repetitions; a repeated report stays in the count, as it was published."""
        names = columns.pseudonyms
        for before, name in not_ascending([self._previous, *names]):
            token, word = ("reported-twice", "again") if before == name else ("wrong-order", "out of order")
            self._problems.add(token, f"pseudonym {name.hex()} {word}")
        self._previous = names[-1]

    def _who(self, curator: Curator, columns: Columns) -> Integers:
        """Index of each participant; -1 for one that did not take part from the first round."""
        if curator.round == 1:
            self._roster.enter(columns.pseudonyms)
        who = self._roster.find(columns.pseudonyms)
        for problem in self._roster.strangers(columns.pseudonyms, who):
            self._problems.add(*problem)
        return who

    def _check_paths(self, curator: Curator, columns: Columns, who: Integers, rows: Integers) -> None:
        names, cells = columns.pseudonyms, columns.cells
        for place in np.flatnonzero(rows < 0).tolist():
            self._problems.add("unknown-cell", f"pseudonym {names[place].hex()} answers for cell {int(cells[place])}")
        parents = np.zeros(len(cells), dtype=np.uint64)
        if curator.round > 1:
            asked = rows >= 0
            parents[asked] = curator.task.hierarchy.parent(curator.frontier.cells)[rows[asked]]
        for problem in self._roster.follow(names, who, round_=curator.round, cells=cells, parents=parents):
            self._problems.add(*problem)

    def _check_regions(self, curator: Curator, columns: Columns, who: Integers, rows: Integers) -> None:
        """Everybody must give a value for the region in which its path ended."""
        regions = curator.regions
        rounds, cells = self._roster.last(who)
        ended = (rows >= 0) & (regions.rounds[rows] == rounds) & (regions.last[rows] == cells)
        for place in np.flatnonzero((who >= 0) & ~ended).tolist():
            name, cell = columns.pseudonyms[place].hex(), int(columns.cells[place])
            self._problems.add("wrong-region", f"the path of {name} did not end in {cell}")

    # -- closings ----------------------------------------------------------------------------------------------

    def _closed(self, curator: Curator, closed: Closed, data: bytes) -> None:
        tally, number = self._tally, curator.round
        if tally is None or curator.partitioned:
            self.found.add("unexpected-event", closed.round, "a closing without its query")
            return
        self._end(number, data)
        if (closed.task, closed.round) != (curator.task.id, number) or closed.cells != tuple(tally.cells.tolist()):
            self.found.add("wrong-verdict", number, "the closing is not about the task, round and cells asked for")
            curator.step(*tally.close())
            return
        for token, what, count in compare_counts(closed, *tally.close(), curator.widths):
            self.found.add(token, number, what, count)
        try:
            played = curator.judge(closed.responders, padded(curator.task, closed))
        except InvalidInput:  # no set of reports adds up to what was published: named above
            played = curator.judge(*tally.close())
        curator.take(self._compare_verdicts(curator.task, played, closed))

    def _compare_verdicts(self, task: Task, played: PlayedRound, closed: Closed) -> PlayedRound:
        """The round with the verdicts that were published, whether or not they follow."""
        kept = closing(task, played).kept
        wrong = [row for row, children in enumerate(kept) if children != closed.kept[row]]
        if not wrong:
            return played
        row = wrong[0]
        self.found.add(
            "wrong-verdict", played.number,
            f"{len(wrong)} verdicts do not follow from their tallies: in cell {int(played.cells[row])} children "
            f"{closed.kept[row]} go on, the tally {closed.tally[row]} says {kept[row]}", len(wrong),
        )  # fmt: skip
        if not played.kept.shape[1]:  # a roll call ends all paths, whatever is published
            return played
        mask = published(closed, played.kept.shape[1]) & task.hierarchy.child_mask(played.cells)
        return replace(played, ruling=proceed(task, played.frontier, mask, played.ruling.estimates, played.responders))

    def _value_closed(self, curator: Curator, closed: ValueClosed, data: bytes) -> None:
        tally, number = self._tally, curator.round
        if tally is None or not curator.partitioned:
            self.found.add("unexpected-event", closed.round, "a closing of values without its query")
            return
        self._end(number, data)
        counted = curator.close(*tally.close())
        assert isinstance(counted, ValueClosed)
        for token, what, count in compare_values(closed, counted):
            self.found.add(token, number, what, count)

    def _end(self, number: int, data: bytes) -> None:
        self._problems.report(self.found, number)
        self._tally, self._closed_round = None, number
        self.found.rounds += 1
        self.found.closings.append(hashlib.sha256(data).digest())
        if self.found.own is not None:
            self.found.own.messages.append((number, data))

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
        if self._tally is not None:  # go on with what the reports say
            tally, number = self._tally, curator.round
            self._end(number, b"")
            token = "wrong-values" if curator.partitioned else "wrong-verdict"
            found.add(token, number, "the closing is missing or cannot be read")
            curator.close(*tally.close())
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


def _among(frontier: Frontier, cells: Sequence[int]) -> Frontier:
    """A frontier of other cells, with what is known of those that were due."""
    row_of = {int(cell): row for row, cell in enumerate(frontier.cells)}
    rows = [row_of.get(cell) for cell in cells]
    trims = [0 if row is None else int(frontier.trims[row]) for row in rows]
    expected = [np.nan if row is None else float(frontier.expected[row]) for row in rows]
    visitors = [0.0 if row is None else float(frontier.visitors[row]) for row in rows]
    doubt = [0.0 if row is None else float(frontier.doubt[row]) for row in rows]
    return frontier_at(cells, trims=trims, expected=expected, visitors=visitors, doubt=doubt)


def _crowds(curator: Curator) -> list[int]:
    """The crowds of the regions found so far; none with rule "each", where they are not public."""
    if not curator.task.tells_crowds:
        return []
    return [size for played in curator.rounds for size in played.responders[played.ruling.ended.rows].tolist()]
