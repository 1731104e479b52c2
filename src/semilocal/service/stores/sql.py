"""What the stores on SQL databases share: every statement and every rule that is the same on both, once.

What differs is in ``dialect``. Knows SQL. Knows no HTTP; outcomes are decided by ``judge``.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import msgspec

from ...errors import InvalidInput
from ..campaign import ENDED, Campaign, Phase, Status
from .dialect import Applied, Cursor, Enrolment, Incoming, Item, Outcome, ReportRow, StoreDialect, What
from .judge import judge_enrolments, judge_reports
from .pairs import PairTables

__all__ = ["LockedCampaign", "SQLStore"]

C = TypeVar("C")

# Made here, before there are threads: msgspec builds what it knows about a type at its first use, and crashes the
# process if two threads do so at the same moment.
_read_campaign = msgspec.msgpack.Decoder(Campaign).decode
_RECEIVED = "(SELECT CAST(coalesce(sum(received), 0) AS BIGINT) FROM counters n WHERE n.campaign = c.id AND n.round = "
_STATUS = (
    f"SELECT c.task, c.phase, c.round, c.closed, {_RECEIVED} c.round), c.needed, c.deadline, {_RECEIVED} 0) "
    "FROM campaigns c "
)
_CREATE = (
    "INSERT INTO campaigns (task, body, phase, round, closed, needed, deadline, fold) "
    "VALUES (?, ?, 'enrolling', 0, 0, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_COUNT = (
    "INSERT INTO counters (campaign, round, worker, received) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (campaign, round, worker) DO UPDATE SET received = counters.received + excluded.received"
)
_WRITE = "INSERT INTO settings VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_ROUND = (
    "SELECT r.pseudonym, r.body FROM reports r JOIN campaigns c ON c.id = r.campaign WHERE c.task = ? AND r.round = ?"
)
_CLOSE = "UPDATE rounds SET closed = ?, checkpoint = ?, seal = ? WHERE campaign = ? AND round = ? AND closed IS NULL"
_MOVE = "UPDATE campaigns SET phase = ?, round = ?, closed = ?, needed = ?, deadline = ?, fold = ? WHERE id = ?"


class SQLStore(StoreDialect[C]):
    """A store on a SQL database.

    Parameters
    ----------
    worker : str
        Name of this process in the counters, different for every process on one database.

    Attributes
    ----------
    url : str
        What ``open_store`` opens it with.
    gather : float
        Seconds that a writer should wait for more when it has little to write.
    """

    url: str
    gather = 0.0

    def __init__(self, *, worker: str) -> None:
        super().__init__()
        self._worker = worker
        self._numbers: dict[bytes, int] = {}
        self.pairs = PairTables(self)
        try:
            self._migrate()
        except BaseException:
            self.close()
            raise

    # -- campaigns ---------------------------------------------------------------------------------------------

    def check_writing(self) -> None:
        """Write something; raise ``StoreUnavailable`` if that fails."""
        self.set_setting("written", secrets.token_bytes(8))

    def setting(self, key: str) -> bytes | None:
        """A stored value."""
        found = self._read("SELECT value FROM settings WHERE key = ?", key)
        return bytes(found[0][0]) if found else None

    def first_setting(self, key: str, value: bytes) -> bytes:
        """Store a value unless there is one; the stored value."""
        if self.setting(key) is None:
            with self._writing() as connection:
                self._run(connection, "INSERT INTO settings VALUES (?, ?) ON CONFLICT DO NOTHING", key, value)
        found = self.setting(key)
        assert found is not None
        return found

    def set_setting(self, key: str, value: bytes | None) -> None:
        """Store a value in place of the one before; None removes it."""
        with self._writing() as connection:
            if value is None:
                self._run(connection, "DELETE FROM settings WHERE key = ?", key)
            else:
                self._run(connection, _WRITE, key, value)

    def create(self, campaign: Campaign, *, needed: int | None, deadline: int | None) -> bool:
        """Add a campaign in phase "enrolling"; False if its task is there already."""
        body = msgspec.msgpack.encode(campaign)
        with self._writing() as connection:
            return self._run(connection, _CREATE, campaign.task.id, body, needed, deadline, b"").rowcount == 1

    def statuses(self, *, active: bool = False) -> dict[bytes, Status]:
        """Where all campaigns stand, in the order of creation; only those that have not ended if ``active``."""
        where = f"WHERE c.phase NOT IN {ENDED}" if active else ""
        return {row[0]: Status(*row[1:]) for row in self._read(f"{_STATUS} {where} ORDER BY c.id")}

    def campaign(self, task: bytes) -> Campaign | None:
        """The campaign of a task."""
        rows = self._read("SELECT body FROM campaigns WHERE task = ?", task)
        return _read_campaign(rows[0][0]) if rows else None

    def status(self, task: bytes) -> Status | None:
        """Where a campaign stands."""
        rows = self._read(f"{_STATUS} WHERE c.task = ?", task)
        return Status(*rows[0][1:]) if rows else None

    def add_tokens(self, task: bytes, hashes: Sequence[bytes]) -> None:
        """Add one-time tokens."""
        with self._writing() as connection:
            number = self._number(connection, task)
            if number is None:
                raise InvalidInput("tokens belong to a campaign; there is none with this task")
            self._insert_tokens(connection, number, hashes)

    def message(self, task: bytes, round_: int, what: What) -> bytes | None:
        """A stored message of a round."""
        sql = f"SELECT r.{what} FROM rounds r JOIN campaigns c ON c.id = r.campaign WHERE c.task = ? AND r.round = ?"
        rows = self._read(sql, task, round_)
        return rows[0][0] if rows else None

    def reports(self, task: bytes, round_: int, *, after: bytes, limit: int) -> list[ReportRow]:
        """A page of reports by ascending pseudonym."""
        sql = f"{_ROUND} AND r.pseudonym > ? ORDER BY r.pseudonym LIMIT ?"
        return [ReportRow(*row) for row in self._read(sql, task, round_, after, limit)]

    def reports_like(self, task: bytes, round_: int, prefix: bytes) -> list[ReportRow]:
        """The reports of a round whose bodies begin with some bytes, by ascending pseudonym."""
        sql = f"{_ROUND} AND substr(r.body, 1, {len(prefix)}) = ? ORDER BY r.pseudonym"
        return [ReportRow(*row) for row in self._read(sql, task, round_, prefix)]

    def _number(self, connection: C, task: bytes) -> int | None:
        """Row number of a campaign; it never changes."""
        if task not in self._numbers:
            row = self._run(connection, "SELECT id FROM campaigns WHERE task = ?", task).fetchone()
            if row is None:
                return None
            self._numbers[task] = row[0]
        return self._numbers[task]

    # -- what participants send --------------------------------------------------------------------------------

    def apply(self, batch: Sequence[Item]) -> Applied:
        """Judge and store a batch in one transaction."""
        items = _alike(batch)
        return (self._store_sound(items) if items else None) or self._judge_all(batch)

    def _judge_all(self, batch: Sequence[Item]) -> Applied:
        """Look up and judge every item by itself, and store what is good."""
        outcomes: list[Outcome] = ["no-such-task"] * len(batch)
        groups: dict[bytes, list[int]] = {}
        for place, item in enumerate(batch):
            groups.setdefault(item.task, []).append(place)
        full = set()
        with self._writing() as connection:
            numbers = {task: number for task in groups if (number := self._number(connection, task)) is not None}
            # All workers lock campaigns in the same order, so that they never wait for each other in a circle.
            for task, number in sorted(numbers.items(), key=lambda pair: pair[1]):
                places = groups[task]
                judged, is_full = self._apply_to(connection, number, [batch[place] for place in places])
                for place, outcome in zip(places, judged, strict=True):
                    outcomes[place] = outcome
                if is_full:
                    full.add(task)
        return Applied(outcomes, full)

    def _apply_to(self, connection: C, number: int, items: list[Item]) -> tuple[list[Outcome], bool]:
        """Outcomes of one campaign's items, and whether its open round may be full."""
        enrolments = [item for item in items if isinstance(item, Enrolment)]
        campaign = self._campaign(connection, number) if enrolments else None
        # Places are given out by one worker at a time, so that nobody gets one beyond the capacity.
        self._hold(connection, number, alone=campaign is not None and campaign.capacity is not None)
        sql = "SELECT phase, round, closed FROM campaigns WHERE id = ?"
        phase, round_, closed = self._run(connection, sql, number).fetchone()
        reports = [item for item in items if isinstance(item, Incoming)]
        of_reports = iter(self._add_reports(connection, number, phase, closed, reports))
        of_enrolments = iter(self._add_participants(connection, number, campaign, enrolments) if campaign else ())
        outcomes = [next(of_reports if isinstance(item, Incoming) else of_enrolments) for item in items]
        counts: dict[int, int] = {}
        for item, outcome in zip(items, outcomes, strict=True):
            if outcome == "stored" and (isinstance(item, Enrolment) or item.awaited):
                added = item.round if isinstance(item, Incoming) else 0
                counts[added] = counts.get(added, 0) + 1
        for added, received in counts.items():
            self._count(connection, number, added, received)
        if round_ not in counts:
            return outcomes, False
        status = self._status(connection, number)
        return outcomes, status.needed is not None and status.received >= status.needed

    def _count(self, connection: C, number: int, round_: int, received: int) -> None:
        self._run(connection, _COUNT, number, round_, self._worker, received)

    def _status(self, connection: C, number: int) -> Status:
        return Status(*self._run(connection, f"{_STATUS} WHERE c.id = ?", number).fetchone()[1:])

    def _campaign(self, connection: C, number: int) -> Campaign:
        (body,) = self._run(connection, "SELECT body FROM campaigns WHERE id = ?", number).fetchone()
        return _read_campaign(body)

    def _add_reports(
        self, connection: C, number: int, phase: Phase, closed: int, items: list[Incoming]
    ) -> list[Outcome]:
        while items:
            found = self._find_reports(connection, number, items)
            outcomes = judge_reports(items, found, phase=phase, closed=closed)
            new = [item for item, outcome in zip(items, outcomes, strict=True) if outcome == "stored"]
            if not new or self._insert_reports(connection, number, new):
                return outcomes
        return []

    def _add_participants(
        self, connection: C, number: int, campaign: Campaign, items: list[Enrolment]
    ) -> list[Outcome]:
        status = self._status(connection, number)
        while True:
            found = self._find_participants(connection, number, items)
            outcomes = judge_enrolments(items, found, campaign=campaign, phase=status.phase, enrolled=status.enrolled)
            new = [item for item, outcome in zip(items, outcomes, strict=True) if outcome == "stored"]
            if not new or self._insert_participants(connection, number, new):
                return outcomes

    # -- rounds ------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self, task: bytes) -> Iterator[LockedCampaign[C] | None]:
        """A transaction that holds the campaign alone: others wait. None if there is no such task."""
        with self._writing() as connection:
            number = self._number(connection, task)
            if number is None:
                yield None
                return
            self._hold(connection, number, alone=True)
            (fold,) = self._run(connection, "SELECT fold FROM campaigns WHERE id = ?", number).fetchone()
            campaign, status = self._campaign(connection, number), self._status(connection, number)
            yield LockedCampaign(self, connection, number, campaign, status, fold)


def _alike(batch: Sequence[Item]) -> list[Incoming] | None:
    """The batch, if it holds reports of one round, each by another pseudonym."""
    first = batch[0] if batch else None
    if not isinstance(first, Incoming):
        return None
    key = (first.task, first.round)
    items = [item for item in batch if isinstance(item, Incoming) and (item.task, item.round) == key]
    return items if len({item.pseudonym for item in items}) == len(batch) else None


class LockedCampaign(Generic[C]):
    """One campaign inside a transaction that holds it alone."""

    def __init__(
        self, store: SQLStore[C], connection: C, number: int, campaign: Campaign, status: Status, fold: bytes
    ) -> None:
        self.campaign, self.status, self.fold = campaign, status, fold
        self._store, self._connection, self._number = store, connection, number

    def _run(self, sql: str, *values: Any) -> Cursor:
        return self._store._run(self._connection, sql, *values)

    def query(self, round_: int) -> bytes | None:
        """Query of a round."""
        return self._message("query", round_)

    def seal(self, round_: int) -> bytes | None:
        """Seal of a closed round."""
        return self._message("seal", round_)

    def _message(self, what: What, round_: int) -> bytes | None:
        row = self._run(f"SELECT {what} FROM rounds WHERE campaign = ? AND round = ?", self._number, round_).fetchone()
        return row[0] if row else None

    def closings(self) -> Iterator[bytes]:
        """Closings of all closed rounds in order."""
        sql = "SELECT closed FROM rounds WHERE campaign = ? AND closed IS NOT NULL ORDER BY round"
        return (row[0] for row in self._run(sql, self._number).fetchall())

    def reports(self, round_: int) -> Iterator[ReportRow]:
        """Reports of a round by ascending pseudonym, as a stream."""
        sql = "SELECT pseudonym, body FROM reports WHERE campaign = ? AND round = ? ORDER BY pseudonym"
        return (ReportRow(*row) for row in self._store._stream(self._connection, sql, self._number, round_))

    def close_round(self, round_: int, closed: bytes, checkpoint: bytes, seal: bytes) -> None:
        """Write what closes the open round."""
        if self._run(_CLOSE, closed, checkpoint, seal, self._number, round_).rowcount != 1:
            raise InvalidInput(f"round {round_} is not open")

    def open_round(self, round_: int, query: bytes) -> None:
        """Write the query of the next round."""
        self._run("INSERT INTO rounds (campaign, round, query) VALUES (?, ?, ?)", self._number, round_, query)

    def move(
        self, phase: Phase, *, round_: int, closed: int, needed: int | None, deadline: int | None, fold: bytes
    ) -> None:
        """Write where the campaign stands."""
        self._run(_MOVE, phase, round_, closed, needed, deadline, fold, self._number)
