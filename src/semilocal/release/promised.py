"""What every release carries: the partition it rests on, what it cost, and the promise that follows from both."""

from __future__ import annotations

from ..accounting import Ledger
from ..protocol.partition import Partition
from ..protocol.promise import Guarantee

__all__ = ["Promised"]


class Promised:
    """A release on one partition.

    Attributes
    ----------
    partition : Partition
    spent : Ledger
    simulated : bool
        Whether one program played all participants.
    """

    partition: Partition
    spent: Ledger
    simulated: bool

    @property
    def guarantee(self) -> Guarantee:
        """What is promised; print its ``text()``."""
        return self.spent.guarantee(self.partition, simulated=self.simulated)
