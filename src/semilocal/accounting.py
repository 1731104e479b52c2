"""The ledger: what was spent on which release, under which promise.

Losses add up (basic composition, in exact fractions). Crowds do not: the same people in several partitions may share
all their regions with fewer than k, so chances of a missing crowd are listed, never added. A ledger is a frozen value;
spending returns a new one, or refuses to exceed its cap.

Knows numbers; the words are those of protocol/promise.py. Knows no positions and no mechanisms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from .arrays import exact
from .errors import BudgetExceeded, InvalidInput
from .pooled.task import PooledTask
from .protocol.partition import Partition
from .protocol.promise import BETWEEN, Guarantee, crowd_words, losses_words, marked, promise, several_words
from .protocol.task import Task
from .words import number_of

_ROUNDING = Fraction(1, 10**12)


@dataclass(frozen=True)
class Entry:
    """One expense.

    Attributes
    ----------
    what : str
        What it was spent on.
    epsilon : Fraction
        Loss between any two places of one's region, both ways (delta 0); see ``anywhere`` and ``bucket``.
    k : int
        The crowd that a partition promises; 0 for none.
    delta : Fraction
        Chance, for every participant, that a split put it with fewer than k; 1 if no crowd is promised.
    task : bytes
        Id of a partition's task; empty for a release.
    anywhere : bool
        Whether ``epsilon`` bounds the loss for any change of one person's position, not only inside a region.
    rows : int
        Rows that one person has in this crowd; the losses are for all of them together.
    own : str
        The value of their own that people gave, and its range, in words; empty for functions of the position.
    bucket : bool
        Whether ``epsilon`` bounds the loss for any change of position inside the public bucket that a person named.
    """

    what: str
    epsilon: Fraction
    k: int = 0
    delta: Fraction = Fraction(0)
    task: bytes = b""
    anywhere: bool = False
    rows: int = 1
    own: str = ""
    bucket: bool = False


@dataclass(frozen=True, repr=False)
class Ledger:
    """Expenses of the same people, in order.

    Parameters
    ----------
    entries : tuple of Entry
    cap : number, optional
        The most that ``epsilon`` may be; spending more is refused.

    Examples
    --------
    >>> from semilocal import Box
    >>> ledger = Ledger.of(Task.build(Box((0,), (1,)), epsilon=0.1)).spend("mean of x", 0.2)
    >>> ledger.epsilon
    Fraction(3, 10)
    """

    entries: tuple[Entry, ...] = ()
    cap: Fraction | None = None

    @classmethod
    def of(cls, task: Task, *, cap: float | Fraction | None = None) -> Ledger:
        """The ledger of a run of a task."""
        return cls(cap=None if cap is None else exact(cap)).partition(task)

    def partition(self, task: Task) -> Ledger:
        """Spend what a run of the task costs."""
        what = f'partition, rule "{task.rule}", k = {task.k}'
        crowd = (task.k, exact(task.delta)) if task.keeps_crowd else (0, Fraction(1))
        return self._add(Entry(what, exact(task.epsilon), *crowd, task.id))

    def pooled(self, task: PooledTask) -> Ledger:
        """Spend what a pooled task costs: its epsilon is for any change of one person's position."""
        return self.spend(f'counts, trust "{task.trust}"', task.epsilon, anywhere=True)

    def settle(self, partition: Partition) -> Ledger:
        """The ledger after the run: where fewer than k took part, they are the crowd.

        Of several runs of the same task the last one is meant.

        Raises
        ------
        InvalidInput
            If people were asked for the partition, and the ledger does not say so.
        """
        self._check_holds(partition)
        entries = list(self.entries)
        for row in reversed(range(len(entries))):
            if entries[row].task == partition.task.id:
                entries[row] = replace(entries[row], k=min(entries[row].k, partition.people))
                break
        return replace(self, entries=tuple(entries))

    def spend(
        self, what: str, epsilon: float | Fraction, *, anywhere: bool = False, own: str = "", bucket: bool = False
    ) -> Ledger:
        """Spend epsilon on a release: between any two places of one's region, or ``anywhere`` in the domain.

        With ``bucket`` it is inside the public bucket that a person named. ``own`` is the value of their own that
        people give, if it is of that.
        """
        loss = exact(epsilon)
        if loss < 0:
            raise InvalidInput(f"epsilon must not be negative; got {epsilon!r}")
        return self._add(Entry(what, loss, anywhere=anywhere, own=own, bucket=bucket))

    def times(self, rows: int) -> Ledger:
        """What a person lost who took part as several participants: the last step. The cap grows with it.

        Examples
        --------
        >>> Ledger().spend("mean", 0.5).times(3).epsilon
        Fraction(3, 2)
        """
        if rows == 1:
            return self
        entries = [
            replace(one, epsilon=rows * one.epsilon, delta=min(rows * one.delta, Fraction(1)), rows=rows * one.rows)
            for one in self.entries
        ]
        return Ledger(tuple(entries), None if self.cap is None else rows * self.cap)

    def __add__(self, other: Ledger) -> Ledger:
        """Expenses of the same people in both ledgers; the stricter cap holds."""
        caps = [ledger.cap for ledger in (self, other) if ledger.cap is not None]
        total = replace(self, cap=min(caps, default=None))
        for entry in other.entries:
            total = total._add(entry)
        return total

    def _add(self, entry: Entry) -> Ledger:
        after = replace(self, entries=(*self.entries, entry))
        # A float such as 0.7 / 3 is rounded before it comes here; that must not make three of them exceed 0.7.
        if self.cap is not None and after.epsilon > self.cap * (1 + _ROUNDING):
            raise BudgetExceeded(
                f"{entry.what}: {float(self.epsilon):g} is spent and the cap is {float(self.cap):g}; the total "
                f"would be {after._losses()}"
            )
        return after

    @property
    def epsilon(self) -> Fraction:
        """Loss between any two places in every region and bucket published for a person, both ways (delta 0)."""
        return sum((entry.epsilon for entry in self.entries), Fraction(0))

    @property
    def epsilon_anywhere(self) -> Fraction | None:
        """Loss for any change of one person's position (delta 0); None if it is unbounded, because regions are public
        or somebody's noise was scaled to them."""
        return self.epsilon if all(entry.anywhere for entry in self.entries) else None

    @property
    def rows(self) -> int:
        """The most rows that one person has in an expense; losses are for all of them together. See :meth:`times`."""
        return max((entry.rows for entry in self.entries), default=1)

    @property
    def delta(self) -> Fraction:
        """Largest chance that a single partition's crowd is missing. Crowds do not compose: this is not a sum."""
        return max((entry.delta for entry in self.entries), default=Fraction(0))

    @property
    def _has_regions(self) -> bool:
        return not all(entry.anywhere or entry.bucket for entry in self.entries)

    def _check_holds(self, partition: Partition) -> None:
        if _was_asked(partition) and not any(entry.task == partition.task.id for entry in self.entries):
            raise InvalidInput(
                "the ledger does not hold the run of this partition, which has its price: begin with Ledger.of(task), "
                "or add it with ledger.partition(task)"
            )

    def guarantee(self, partition: Partition) -> Guarantee:
        """What the releases on one partition promise.

        Where nothing was asked but the values (one region, the whole domain), that is plain local privacy.
        """
        self._check_holds(partition)
        tasks = [entry.task for entry in self.entries if entry.task]
        rows = next((entry.rows for entry in self.entries if entry.task), self.rows)
        releases = tuple((entry.what, float(entry.epsilon / rows)) for entry in self.entries if not entry.task)
        if not tasks:
            loss = float(self.epsilon / rows)
            return Guarantee.plain("nobody", loss, releases=releases, **marked(partition.mark)).times(rows)
        if tasks != [partition.task.id]:
            raise InvalidInput(f"a promise is for one partition; this ledger has {len(tasks)}: use sentences()")
        members = partition.crowds[partition.crowds > 0]
        one = promise(
            partition.task, releases, participants=partition.people, mark=partition.mark,
            smallest=int(members.min()) if len(members) else 0,
        )  # fmt: skip
        return one.times(rows)

    def __str__(self) -> str:
        rows = [("spent on", "epsilon", "delta (crowd)")]
        rows += [
            (one.what, f"{float(one.epsilon):g}", f"{float(one.delta):g}" if one.delta else "") for one in self.entries
        ]
        rows.append(("total", f"{float(self.epsilon):g}", ""))
        if self.entries and not self._has_regions:  # no crowds
            rows = [(what, epsilon, "") for what, epsilon, _ in rows]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines.insert(1, "  ".join("-" * width for width in widths if width))
        lines.insert(-1, lines[1])
        return "\n".join([*lines, self.sentences()])

    def __repr__(self) -> str:
        return f"Ledger({number_of(len(self.entries), 'expense')}: {self.sentences()})"

    def _losses(self) -> str:
        """The totals in words."""
        if self.entries and self.epsilon_anywhere is not None:
            return losses_words(float(self.epsilon_anywhere), own=_own(self.entries), between=BETWEEN["anywhere"])
        own, buckets = _own(self.entries), sum(bool(entry.bucket) for entry in self.entries)
        partitions = sum(bool(entry.task) for entry in self.entries)
        regions = max(partitions, 1) if self._has_regions or not self.entries else 0
        words = losses_words(float(self.epsilon), own=own, between=several_words(regions, buckets))
        plain = [entry for entry in self.entries if entry.anywhere]
        loss = float(sum(entry.epsilon for entry in plain))
        anywhere = losses_words(loss, own=_own(plain), between=BETWEEN["anywhere"])
        return f"{words}; of this, {anywhere}" if loss else words

    def sentences(self) -> str:
        """The totals in words, each with its adjacency and delta."""
        parts = [self._losses() + "."]
        crowds = [
            f"{crowd_words(entry.k, float(entry.delta), entry.rows)}." if entry.k else "No crowd is promised."
            for entry in self.entries
            if entry.task
        ]
        if len(crowds) > 1:
            crowds.append("Crowds do not compose: fewer than k may share all of a participant's regions.")
        parts += crowds
        if self.cap is not None:
            parts.append(f"The cap is {float(self.cap):g}; {float(self.cap - self.epsilon):g} is left.")
        return " ".join(parts)


def _own(entries: Iterable[Entry]) -> str:
    """People's own values, each once."""
    return " and ".join(dict.fromkeys(entry.own for entry in entries if entry.own))


def _was_asked(partition: Partition) -> bool:
    """Whether anybody was asked where they are; if not, the only region is the whole domain, without walls.

    Rule "all" asks everybody as soon as there is a crowd, and keeps no walls of noise that is not randomized response.
    """
    task = partition.task
    return (
        len(partition) > 1 or len(partition.walls.cuts) > 0 or (task.rule == "all" and partition.people >= task.crowd)
    )
