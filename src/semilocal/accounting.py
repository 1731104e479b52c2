"""The ledger: what was spent, on what, under which promise.

Basic composition in exact arithmetic: losses add up. The chance that a crowd fails is kept apart from the losses. A
ledger is a frozen value; spending returns a new one, or refuses to exceed its cap.

Knows numbers and words. Knows no positions and no mechanisms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from .arrays import exact
from .errors import BudgetExceeded, InvalidInput
from .protocol.task import Task

__all__ = ["Entry", "Ledger"]

INSIDE = "inside your region"
_ROUNDING = Fraction(1, 10**12)


@dataclass(frozen=True)
class Entry:
    """One expense.

    Attributes
    ----------
    what : str
        What it was spent on.
    epsilon : Fraction
        Loss of a participant who was never moved.
    per_move : Fraction
        What every move adds.
    max_moves : int
        The most moves anybody can have had.
    delta : Fraction
        Chance, per participant, that the promised crowd fails.
    adjacency : str
        Between which two worlds the loss is measured.
    """

    what: str
    epsilon: Fraction
    per_move: Fraction = Fraction(0)
    max_moves: int = 0
    delta: Fraction = Fraction(0)
    adjacency: str = INSIDE

    def loss(self, moves: int) -> Fraction:
        """Loss of a participant who was moved that often."""
        if not 0 <= moves <= self.max_moves:
            raise InvalidInput(f"moves must be from 0 to {self.max_moves}; got {moves}")
        return self.epsilon + moves * self.per_move

    @property
    def worst(self) -> Fraction:
        """Bound on the loss for everybody."""
        return self.epsilon + self.max_moves * self.per_move


@dataclass(frozen=True)
class Ledger:
    """Expenses of the same people, in order.

    Parameters
    ----------
    entries : tuple of Entry
    cap : number, optional
        The most that anybody may lose in all (the worst case counts); spending more is refused.

    Examples
    --------
    >>> from semilocal import Box
    >>> task = Task.build(Box((0,), (1,)), epsilon=0.1, delta=1e-6, k=20, max_trims=2)
    >>> ledger = Ledger.of(task).spend("mean of x", 0.2)
    >>> ledger.epsilon, ledger.epsilon_worst
    (Fraction(3, 10), Fraction(1, 2))
    """

    entries: tuple[Entry, ...] = ()
    cap: Fraction | None = None

    @classmethod
    def of(cls, task: Task, *, cap: float | Fraction | None = None) -> Ledger:
        """The ledger after a run of a task."""
        return cls(cap=None if cap is None else exact(cap)).partition(task)

    def partition(self, task: Task) -> Ledger:
        """Spend what a run of the task costs."""
        report = exact(task.epsilon)
        what = f'partition, rule "{task.rule}", k = {task.k}'
        crowd = exact(task.delta) if task.keeps_crowd else Fraction(1)
        return self._add(Entry(what, report, report if task.max_trims else Fraction(0), task.max_trims, crowd))

    def spend(self, what: str, epsilon: float | Fraction) -> Ledger:
        """Spend epsilon inside the region on a release."""
        loss = exact(epsilon)
        if loss < 0:
            raise InvalidInput(f"epsilon must not be negative; got {epsilon!r}")
        return self._add(Entry(what, loss))

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
        if self.cap is not None and after.epsilon_worst > self.cap * (1 + _ROUNDING):
            raise BudgetExceeded(
                f"{entry.what} would bring the worst-case loss {INSIDE} to epsilon = {float(after.epsilon_worst):g} "
                f"(delta = {float(after.delta):g} for the crowd); "
                f"{float(self.epsilon_worst):g} is spent and the cap is {float(self.cap):g}"
            )
        return after

    @property
    def epsilon(self) -> Fraction:
        """Loss inside the region of a participant who was never moved."""
        return sum((entry.epsilon for entry in self.entries), Fraction(0))

    @property
    def epsilon_worst(self) -> Fraction:
        """Bound on the loss inside the region for everybody."""
        return sum((entry.worst for entry in self.entries), Fraction(0))

    @property
    def delta(self) -> Fraction:
        """Chance, per participant who was never moved, that a promised crowd failed; at most 1."""
        return min(sum((entry.delta for entry in self.entries), Fraction(0)), Fraction(1))

    def loss(self, moves: int) -> Fraction:
        """Loss of a participant who was moved ``moves`` times in each run (or as often as that run can move)."""
        most = max((entry.max_moves for entry in self.entries), default=0)
        if not 0 <= moves <= most:
            raise InvalidInput(f"moves must be from 0 to {most}; got {moves}")
        return sum((entry.loss(min(moves, entry.max_moves)) for entry in self.entries), Fraction(0))

    def __str__(self) -> str:
        rows = [("spent on", "never moved", "worst case", "delta (crowd)", "adjacency")]
        rows += [_row(e.what, e.epsilon, e.worst, e.delta, e.adjacency) for e in self.entries]
        rows.append(_row("total", self.epsilon, self.epsilon_worst, self.delta, INSIDE))
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        lines.insert(-1, lines[1])
        return "\n".join(lines)

    def sentences(self) -> str:
        """The same in words."""
        parts = [
            f"A participant who was never moved has lost epsilon = {float(self.epsilon):g} {INSIDE}; nobody has lost "
            f"more than {float(self.epsilon_worst):g}."
        ]
        parts += [
            f"{e.what}: {float(e.epsilon):g}" + (f" and {float(e.per_move):g} per move" if e.per_move else "") + "."
            for e in self.entries
        ]
        parts.append(
            f"The promise of a crowd fails with probability at most delta = {float(self.delta):g} for a participant "
            "who was never moved."
        )
        if self.cap is not None:
            parts.append(f"The cap is {float(self.cap):g}; {float(self.cap - self.epsilon_worst):g} is left.")
        return " ".join(parts)


_Row: TypeAlias = tuple[str, str, str, str, str]


def _row(
    what: str, epsilon: Fraction, worst: Fraction, delta: Fraction, adjacency: str
) -> tuple[str, str, str, str, str]:
    return (what, f"{float(epsilon):g}", f"{float(worst):g}", f"{float(delta):g}", adjacency)
