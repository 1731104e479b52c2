"""``join`` for a task of two servers: what would be sent and to whom, and the one upload.

Knows words and the order of questions. Nothing here depends on a position but the line that shows it to its owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..device.upload import smallest_words
from ..errors import InvalidInput
from ..sharing.envelope import OVERHEAD, REPORT_ID
from ..sharing.pair import PairTask
from .arguments import describe_position

if TYPE_CHECKING:
    from ..device.vault import Vault

__all__ = ["check_options", "preview", "stored_url"]


def check_options(min_k: int | None, max_delta: float | None) -> None:
    """Refuse limits that a task of two servers cannot keep: an owner who asks for a crowd gets none here."""
    for option, value in (("--min-k", min_k), ("--max-delta", max_delta)):
        if value is not None:
            raise InvalidInput(
                f"{option}: a task of two servers keeps no crowd, because nobody's region is published; leave the "
                "option out to join it"
            )


def preview(pair: PairTask, position: tuple[float, ...]) -> str:
    """What taking part means, and everything that would leave this device; the position is empty if none is needed."""
    shape = pair.shape
    size = shape.public_bytes + 2 * (shape.private_bytes + OVERHEAD) + REPORT_ID
    shared, shows = [], []
    if pair.maps:
        shared.append("position")
        shows.append(f"which cell you are in; the smallest cell measures {smallest_words(pair)}")
    if pair.asked is not None:
        shared.append("value" if pair.asked.own else f"value of {pair.asked.name}")
        shows.append(f"your value ({pair.asked.words}), rounded to one of {pair.asked.steps + 1} steps")
    sent = [
        "a name for this report, made for this task alone, and your token if you have one",
        f"one share of your {' and '.join(shared)} that only {pair.leader.name} can open, and one that only "
        f"{pair.helper.name} can open: each alone is random bytes. Both together show {', and '.join(shows)}",
    ]
    if pair.bucket_depth:
        sent.append(f"your cell of depth {pair.bucket_depth}, in the open")
    hosts = {urlsplit(operator.origin).hostname for operator in (pair.leader, pair.helper)}
    warning = [] if len(hosts) == 2 else [f"WARNING: both operators are on {hosts.pop()}: one person may run both."]
    place = "Your position is not needed, and no place is sent."
    if pair.needs_place:
        leaves = "which leaves this device in two shares only"
        if not pair.maps and pair.asked is not None:
            leaves = f"of which only {pair.asked.name} leaves this device, in two shares"
        place = f"Your position, {leaves}: {describe_position(position, pair.pooled.box)}."
    return "\n".join(
        [
            pair.statement(),
            *warning,
            place,
            f"What would be sent, once, about {size:,} bytes, to {pair.leader.origin}, which passes the second share "
            f"on to {pair.helper.origin}:",
            *(f"  - {line}" for line in sent),
            f"What it costs you: {pair.cost_words}.",
        ]
    )


def stored_url(vault: Vault, server: str) -> str:
    """The task of the only upload for this server that has no receipt yet; empty if there is none, or several."""
    found = []
    for entry in vault.contents.uploads:
        pair = PairTask.from_bytes(entry.task)
        if not entry.receipt and server in (pair.leader.origin, pair.helper.origin):
            found.append(f"{server}/tasks/{entry.task_id.hex()}")
    return found[0] if len(found) == 1 else ""
