"""The budget of a device: what its tasks may cost at most, and what they have cost, in exact fractions.

The loss is that between two positions of the device's region: its answers about cuts inside it, and its values. It
holds against a server that lies, too. What a task costs may fall while it runs, because a region that is cut has fewer
answers inside. The worst case is reserved when the device joins; at the end the task is settled, and what was not spent
is free again. Losses of several tasks add up (basic composition); the sum speaks of two positions that no task's region
tells apart.

Knows amounts, and what a participant has spent. Knows no files or clocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import msgspec

from ..arrays import exact
from ..errors import BudgetExceeded, InvalidInput
from ..protocol.participant import Participant
from ..protocol.plan import Plan
from ..protocol.promise import INSIDE
from ..protocol.task import Task

Amount = float | str | Fraction
_WORDS = f"epsilon (delta = 0; between {INSIDE}, or with two servers between any two in the domain or bucket)"


class Reservation(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One task in the ledger. Amounts are fractions in text ("9/2"), so that nothing is rounded."""

    task: bytes
    reserved: str  # the most it can cost
    spent: str = "0"
    settled: bool = False  # whether it is over: then only what was spent counts


class Budget(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """All tasks of a device, and the owner's cap on their sum. Every method returns a new budget.

    Examples
    --------
    >>> budget = Budget("10").reserve(bytes(32), 9.0)
    >>> budget.left
    Fraction(1, 1)
    >>> budget.spend(bytes(32), 2.0).settle(bytes(32)).left
    Fraction(8, 1)
    """

    max_epsilon: str | None = None
    lines: tuple[Reservation, ...] = ()

    @property
    def charged(self) -> Fraction:
        """What all tasks together may cost or have cost."""
        return sum((Fraction(line.spent if line.settled else line.reserved) for line in self.lines), Fraction(0))

    @property
    def left(self) -> Fraction | None:
        """What may still be reserved; None for no cap."""
        return None if self.max_epsilon is None else Fraction(self.max_epsilon) - self.charged

    def line(self, task: bytes) -> Reservation | None:
        """The line of a task, or None."""
        return next((line for line in self.lines if line.task == task), None)

    def with_cap(self, max_epsilon: Amount | None) -> Budget:
        """The budget with another cap; raises ``BudgetExceeded`` if more than that is reserved or spent already."""
        cap = None if max_epsilon is None else str(exact(max_epsilon))
        return Budget(cap, self.lines)._checked("the tasks joined before")

    def reserve(self, task: bytes, worst: Amount) -> Budget:
        """Reserve the worst case of a task, or raise ``BudgetExceeded``; the same one again changes nothing."""
        line = Reservation(task, str(exact(worst)))
        before = self.line(task)
        if before is not None:
            if before.reserved != line.reserved:
                raise InvalidInput("this task is in the ledger with another worst case; a task is joined only once")
            return self
        return Budget(self.max_epsilon, (*self.lines, line))._checked("joining this task")

    def spend(self, task: bytes, total: Amount) -> Budget:
        """Record what a task costs as things stand; raises ``BudgetExceeded`` if that is more than was reserved."""
        line, cost = self._open_line(task), exact(total)
        if cost > Fraction(line.reserved):
            raise BudgetExceeded(
                f"epsilon {float(cost):g} is more than the {float(Fraction(line.reserved)):g} reserved for this task "
                "when it was joined; nothing more is sent"
            )
        return self._replaced(msgspec.structs.replace(line, spent=str(cost)))

    def settle(self, task: bytes) -> Budget:
        """Close the line of a task: what was reserved and not spent is free again. Settling twice changes nothing."""
        line = self.line(task)
        if line is not None and line.settled:
            return self
        return self._replaced(msgspec.structs.replace(self._open_line(task), settled=True))

    def cancel(self, task: bytes) -> Budget:
        """Take back the reservation of a task that was never answered; anything else is settled, not cancelled."""
        if Fraction(self._open_line(task).spent):
            raise InvalidInput("this task was answered: it can be settled, not cancelled")
        return Budget(self.max_epsilon, tuple(old for old in self.lines if old.task != task))

    def _open_line(self, task: bytes) -> Reservation:
        line = self.line(task)
        if line is None or line.settled:
            raise InvalidInput("nothing is reserved for this task" if line is None else "this task is settled")
        return line

    def _replaced(self, line: Reservation) -> Budget:
        return Budget(self.max_epsilon, tuple(line if old.task == line.task else old for old in self.lines))

    def _checked(self, what: str) -> Budget:
        if self.max_epsilon is not None and self.charged > Fraction(self.max_epsilon):
            raise BudgetExceeded(
                f"{what} would bring the {_WORDS} reserved and spent to {float(self.charged):g}; the cap of this vault "
                f"is {float(Fraction(self.max_epsilon)):g}. Wait until other tasks are settled, or raise the cap"
            )
        return self


def worst_case(task: Task, plan: Plan) -> Fraction:
    """The most that joining can cost: A answers inside the region, and all releases."""
    return task.answers * exact(task.randomizer.epsilon) + _sum(plan, range(len(plan.releases)))


def spent(participant: Participant) -> Fraction:
    """As ``participant.spent``, in exact fractions."""
    each = exact(participant.task.randomizer.epsilon)
    return participant.inside * each + _sum(participant.plan, (index for index, _ in participant.state.values))


def _sum(plan: Plan, indices: Iterable[int]) -> Fraction:
    return sum((exact(plan.releases[index].epsilon) for index in indices), Fraction(0))
