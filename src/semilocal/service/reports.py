"""From the bytes of a report to the row that a store takes: every check that needs no database.

Knows the protocol's messages. Knows no HTTP: refusals are tokens with a reason.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from ..errors import DeviceViolation, InvalidInput
from ..protocol.curator import Curator
from ..protocol.messages import decode_report
from .stores.base import Incoming

__all__ = ["REPORT_BYTES", "Sound", "check_report", "verifier_of"]

REPORT_BYTES = 4096
_MAX_CELL = 2**62  # what a database's integer holds, and more than any hierarchy has
_encode = msgspec.msgpack.Encoder().encode
_KEY = re.compile(rb"[Bb]earer ([0-9a-f]{64})\Z")


def verifier_of(header: bytes) -> bytes | None:
    """SHA-256 of the key in an Authorization header; None if there is no key of the right form."""
    match = _KEY.match(header)
    return None if match is None else hashlib.sha256(bytes.fromhex(match[1].decode())).digest()


def check_report(
    body: bytes, task: bytes, round_: int, pseudonym: bytes, verifier: bytes, curator: Curator | None
) -> Incoming:
    """A report as the store takes it; without a curator the round is closed, and only stored bytes matter.

    Raises
    ------
    DeviceViolation
        With the token of the reason.
    """
    try:
        report = decode_report(body)
    except InvalidInput as error:
        raise DeviceViolation("not-canonical", str(error)) from None
    if report.task != task:
        raise DeviceViolation("other-task", "the task in the body is not the one in the path")
    if report.round != round_:
        raise DeviceViolation("other-round", f"the body is for round {report.round}, the path for round {round_}")
    if report.pseudonym != pseudonym:
        raise DeviceViolation("other-pseudonym", "the pseudonym in the body is not the one in the path")
    if report.cell >= _MAX_CELL:
        raise DeviceViolation("unknown-cell", "no hierarchy has such a cell")
    before, cell = (0, 0) if curator is None else curator.check(report)
    return Incoming(task, round_, pseudonym, verifier, report.cell, _encode(report.answer), before, cell)


class Sound:
    """Remembers what the checks of a round made of cell and answer: :func:`check_report`, once per kind of report.

    A report's bytes are a head that all reports of the round share, the pseudonym, and a tail with cell and answer. The
    checks treat every pseudonym alike, so reports with one head and one tail are sound together. One of these belongs
    to one open round, and only to that. Memory is bounded.

    Parameters
    ----------
    most : int
        Tails that are remembered; long ones never are.
    """

    __slots__ = ("_head", "_most", "_tails")

    def __init__(self, most: int = 4096) -> None:
        self._head, self._most = b"", most
        self._tails: dict[bytes, tuple[int, bytes, int, int]] = {}

    def __len__(self) -> int:
        return len(self._tails)

    def check(
        self, body: bytes, task: bytes, round_: int, pseudonym: bytes, verifier: bytes, curator: Curator
    ) -> Incoming:
        """What :func:`check_report` returns or raises."""
        head = self._head
        if head and body.startswith(head + pseudonym):
            found = self._tails.get(body[len(head) + len(pseudonym) :])
            if found is not None:
                return Incoming(task, round_, pseudonym, verifier, *found)
        item = check_report(body, task, round_, pseudonym, verifier, curator)
        self._remember(body, item)
        return item

    def _remember(self, body: bytes, item: Incoming) -> None:
        tail = _encode(item.cell) + item.answer
        if len(tail) > 64 or len(self._tails) >= self._most:
            return
        head = body[: len(body) - len(tail) - len(item.pseudonym)]
        if head + item.pseudonym + tail == body and head == (self._head or head):
            self._head = head
            self._tails[tail] = item[4:]
