"""The budget of a device: what its tasks may cost at most, and what they have cost, in exact fractions.

Two accounts, both about the place inside the region:

    epsilon     the loss if the server followed the protocol: (1 + T) reports, T the TRIMs on the path, and values
    exposure    the loss against a server that lied about everything: every report counts

The worst case of a task is reserved when the device joins, because stopping half-way would reveal where it is. At the
end the task is settled, and what was not spent is free again. Losses of several tasks add up (basic composition);
the sum speaks of two positions that no task's region tells apart.

Knows amounts, and what a participant has spent. Knows no files or clocks.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import msgspec

from ..arrays import exact
from ..errors import BudgetExceeded, InvalidInput
from ..protocol.participant import Participant
from ..protocol.plan import Plan
from ..protocol.promise_words import MOVED
from ..protocol.task import Task

__all__ = ["Budget", "Reservation", "spent", "worst_case"]

Account = Literal["epsilon", "exposure"]
Amount = float | str | Fraction
_WORDS: dict[Account, str] = {
    "epsilon": f"epsilon (delta = 0; for {MOVED}, or with two servers between any two in the domain or bucket)",
    "exposure": "exposure (epsilon, delta = 0; between two positions inside the cells that you named)",
}


class Reservation(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One task in the ledger. Amounts are fractions in text ("9/2"), so that nothing is rounded.

    Attributes
    ----------
    task : bytes
        The task's id.
    reserved_epsilon, reserved_exposure : str
        The most it can cost.
    spent_epsilon, spent_exposure : str
        What it has cost so far.
    settled : bool
        Whether it is over: then only what was spent counts.
    """

    task: bytes
    reserved_epsilon: str
    reserved_exposure: str
    spent_epsilon: str = "0"
    spent_exposure: str = "0"
    settled: bool = False

    def reserved(self, account: Account) -> Fraction:
        """The most it can cost."""
        return Fraction(self.reserved_epsilon if account == "epsilon" else self.reserved_exposure)

    def spent(self, account: Account) -> Fraction:
        """What it has cost so far."""
        return Fraction(self.spent_epsilon if account == "epsilon" else self.spent_exposure)

    def charge(self, account: Account) -> Fraction:
        """What counts against the cap."""
        return self.spent(account) if self.settled else self.reserved(account)


class Budget(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """All tasks of a device, and the owner's caps on their sums. Every method returns a new budget.

    Attributes
    ----------
    max_epsilon, max_exposure : str or None
        Caps; None for no cap.
    lines : tuple of Reservation

    Examples
    --------
    >>> budget = Budget("10").reserve(bytes(32), epsilon=9.0, exposure=40.0)
    >>> budget.left("epsilon")
    Fraction(1, 1)
    >>> budget.spend(bytes(32), epsilon=2.0, exposure=14.0).settle(bytes(32)).left("epsilon")
    Fraction(8, 1)
    """

    max_epsilon: str | None = None
    max_exposure: str | None = None
    lines: tuple[Reservation, ...] = ()

    def cap(self, account: Account) -> Fraction | None:
        """The owner's cap on the account; None for no cap."""
        cap = self.max_epsilon if account == "epsilon" else self.max_exposure
        return None if cap is None else Fraction(cap)

    def charged(self, account: Account) -> Fraction:
        """What all tasks together may cost or have cost."""
        return sum((line.charge(account) for line in self.lines), Fraction(0))

    def left(self, account: Account) -> Fraction | None:
        """What may still be reserved; None for no cap."""
        cap = self.cap(account)
        return None if cap is None else cap - self.charged(account)

    def line(self, task: bytes) -> Reservation | None:
        """The line of a task, or None."""
        return next((line for line in self.lines if line.task == task), None)

    def with_caps(self, max_epsilon: Amount | None, max_exposure: Amount | None) -> Budget:
        """The budget with other caps.

        Raises
        ------
        BudgetExceeded
            If more than that is reserved or spent already.
        """
        epsilon = None if max_epsilon is None else str(exact(max_epsilon))
        exposure = None if max_exposure is None else str(exact(max_exposure))
        return Budget(epsilon, exposure, self.lines)._checked("the tasks joined before")

    def reserve(self, task: bytes, *, epsilon: Amount, exposure: Amount) -> Budget:
        """Reserve the worst case of a task; the same reservation again changes nothing.

        Raises
        ------
        BudgetExceeded
            If a cap would be exceeded.
        """
        line = Reservation(task, str(exact(epsilon)), str(exact(exposure)))
        before = self.line(task)
        if before is not None:
            if (before.reserved_epsilon, before.reserved_exposure) != (
                line.reserved_epsilon,
                line.reserved_exposure,
            ):
                raise InvalidInput("this task is in the ledger with another worst case; a task is joined only once")
            return self
        return Budget(self.max_epsilon, self.max_exposure, (*self.lines, line))._checked("joining this task")

    def spend(self, task: bytes, *, epsilon: Amount, exposure: Amount) -> Budget:
        """Record what a task has cost so far; both amounts are totals and can only grow.

        Raises
        ------
        BudgetExceeded
            If that is more than was reserved.
        """
        line = self._open_line(task)
        totals: dict[Account, Fraction] = {"epsilon": exact(epsilon), "exposure": exact(exposure)}
        for account, total in totals.items():
            if total < line.spent(account):
                raise InvalidInput(f"{account} spent cannot fall from {line.spent(account)} to {total}")
            if total > line.reserved(account):
                raise BudgetExceeded(
                    f"{account} {float(total):g} is more than the {float(line.reserved(account)):g} reserved for this "
                    "task when it was joined; nothing more is sent"
                )
        spent = msgspec.structs.replace(
            line, spent_epsilon=str(totals["epsilon"]), spent_exposure=str(totals["exposure"])
        )
        return self._replaced(spent)

    def settle(self, task: bytes) -> Budget:
        """Close the line of a task: what was reserved and not spent is free again. Settling twice changes nothing."""
        line = self.line(task)
        if line is not None and line.settled:
            return self
        return self._replaced(msgspec.structs.replace(self._open_line(task), settled=True))

    def cancel(self, task: bytes) -> Budget:
        """Take back the reservation of a task that was never answered; anything else is settled, not cancelled."""
        line = self._open_line(task)
        if line.spent("epsilon") or line.spent("exposure"):
            raise InvalidInput("this task was answered: it can be settled, not cancelled")
        return Budget(self.max_epsilon, self.max_exposure, tuple(old for old in self.lines if old.task != task))

    def _open_line(self, task: bytes) -> Reservation:
        line = self.line(task)
        if line is None or line.settled:
            raise InvalidInput("nothing is reserved for this task" if line is None else "this task is settled")
        return line

    def _replaced(self, line: Reservation) -> Budget:
        lines = tuple(line if old.task == line.task else old for old in self.lines)
        return Budget(self.max_epsilon, self.max_exposure, lines)

    def _checked(self, what: str) -> Budget:
        accounts: tuple[Account, ...] = ("epsilon", "exposure")
        for account in accounts:
            cap, charged = self.cap(account), self.charged(account)
            if cap is not None and charged > cap:
                raise BudgetExceeded(
                    f"{what} would bring the {_WORDS[account]} reserved and spent to {float(charged):g}; the cap of "
                    f"this vault is {float(cap):g}. Wait until other tasks are settled, or raise the cap"
                )
        return self


def worst_case(task: Task, plan: Plan) -> tuple[Fraction, Fraction]:
    """The most that joining can cost: (1 + max_trims) reports and all releases; and against a server that lies."""
    values = sum((exact(release.epsilon) for release in plan.releases), Fraction(0))
    return (1 + task.max_trims) * exact(task.epsilon) + values, task.max_rounds * exact(task.epsilon) + values


def spent(participant: Participant) -> tuple[Fraction, Fraction]:
    """As ``participant.spent`` and ``participant.exposure``, in exact fractions."""
    task, state = participant.task, participant.state
    released = participant.released.indices
    values = sum((exact(participant.plan.releases[index].epsilon) for index in released), Fraction(0))
    # TRIMs on the path, which are public; the number of own moves would show in which tasks are joined next
    reports = 1 + state.trims if state.answered else 0
    # a roll call tells nothing about the place inside the cell
    return reports * exact(task.epsilon) + values, min(state.answered, task.max_rounds) * exact(task.epsilon) + values
