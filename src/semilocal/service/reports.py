"""From the bytes of a report to the row that a store takes: every check that needs no database.

Knows the protocol's messages. Knows no HTTP: refusals are tokens with a reason.
"""

from __future__ import annotations

import hashlib
import re

from ..errors import DeviceViolation, InvalidInput
from ..protocol.curator import Curator
from ..protocol.messages import PSEUDONYM_BYTES, decode_report
from .rounds import report_head
from .stores.base import Incoming

__all__ = ["REPORT_BYTES", "check_report", "verifier_of"]

REPORT_BYTES = 4096
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
    awaited = False
    if curator is not None:
        curator.check(report)
        awaited = curator.awaits(report)
    head = len(report_head(task, round_, type(report)))
    return Incoming(task, round_, pseudonym, verifier, body[head + PSEUDONYM_BYTES :], awaited)
