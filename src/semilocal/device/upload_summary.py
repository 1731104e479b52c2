"""What a device tells its owner about its upload to two servers.

Knows numbers and words. Neither the secret nor the position is in it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import msgspec

from ..arrays import short_repr
from ..sharing.pair import PairTask
from ..sharing.wire import Receipt
from .vault import Contents, PairUpload

__all__ = ["UploadSummary", "summarise_upload"]

_WORDS = {
    "uploaded": "You have uploaded. Nothing more will be asked.",
    "refused": "This device refused to go on.",
    "unfinished": "The upload is not acknowledged yet; start again to send the same bytes.",
}


class UploadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Where one upload stands.

    Attributes
    ----------
    outcome : {"uploaded", "refused", "unfinished"}
    token, reason : str
        Which check failed and why, if the device refused something; empty otherwise.
    task : PairTask or None
        None if not even the task could be accepted.
    epsilon : float
        What the ledger booked: the loss between any two positions anywhere in the domain; 0 if nothing was sealed.
    receipt : Receipt or None
        Signed by the leader.
    """

    outcome: Literal["uploaded", "refused", "unfinished"]
    token: str = ""
    reason: str = ""
    task: PairTask | None = None
    epsilon: float = 0.0
    receipt: Receipt | None = None

    __repr__ = short_repr

    def text(self) -> str:
        """All of it, in plain words."""
        lines = [_WORDS[self.outcome] + (f" Reason: {self.reason} [{self.token}]" if self.reason else "")]
        if self.task is None or not self.epsilon:
            return "\n".join([*lines, "What you spent: nothing. Nothing has left this device."])
        if self.receipt is not None:
            lines.append(
                f"Receipt of {self.task.leader.name}, signed: upload {self.receipt.digest.hex()}. It is in the vault."
            )
        lines += self.task.spent_lines
        return "\n".join(lines)


def summarise_upload(contents: Contents, entry: PairUpload) -> UploadSummary:
    """What a vault knows of one upload, for its owner."""
    pair = PairTask.from_bytes(entry.task)
    line = contents.ledger.line(pair.id)
    token, _, reason = entry.refusal.partition(": ")
    return UploadSummary(
        outcome="uploaded" if entry.receipt else "refused" if entry.refusal else "unfinished",
        token=token,
        reason=reason,
        task=pair,
        epsilon=float(Fraction(line.spent)) if line else 0.0,
        receipt=Receipt.from_bytes(entry.receipt) if entry.receipt else None,
    )
