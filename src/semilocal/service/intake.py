"""The short way of a report: from the request's bytes to the writer's queue, past ASGI and the router.

Nearly all requests are reports. One that is sound as far as this worker can tell is queued right here and answered when
it is on disk. Everything else is given back and takes the ordinary way (:func:`.routes.device.put_report`), which runs
the same checks and puts refusals into words.

Knows paths, headers and campaigns. Knows no sockets.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple, Protocol

from ..errors import DeviceViolation
from .http import problem_of, refused_by_store
from .reports import REPORT_BYTES, check_report, verifier_of
from .routes.table import Context
from .stores.base import Outcome

__all__ = ["Address", "Connection", "Intake"]

_PATH = re.compile(rb"/tasks/([0-9a-f]{64})/rounds/([1-9][0-9]{0,5})/reports/([0-9a-f]{32})\Z")
_ACKNOWLEDGED = b"content-type: application/json\r\ncontent-length: 77\r\ncache-control: no-store\r\n"


class Address(NamedTuple):
    """What a request's line and headers say about a report."""

    task: bytes
    round: int
    pseudonym: bytes
    key: bytes


class Connection(Protocol):
    """Who sent a report and waits for the answer."""

    def answer(self, status: int, head: bytes, body: bytes) -> None:
        """Send an answer; ``head`` are whole lines. Nothing happens if the sender has gone."""


class Intake:
    """Takes reports past the application.

    Parameters
    ----------
    context : Context
        What the application's handlers work with.
    """

    def __init__(self, context: Context) -> None:
        self._service, self._metrics, self._by_key = context.service, context.metrics, context.by_key

    def address(self, url: bytes, headers: list[tuple[bytes, bytes]]) -> Address | None:
        """Whether a PUT of this may take the short way; headers as they came."""
        match = _PATH.match(url)
        if match is None:
            return None
        key, size = b"", b""
        for header, value in headers:
            name = header.lower()
            if name == b"authorization":
                key = value
            elif name == b"content-length":
                size = value
            elif name == b"expect":  # the sender waits to be asked for the body
                return None
        if not size.isdigit() or len(size) > 4 or int(size) > REPORT_BYTES:
            return None
        task, round_, pseudonym = match.groups()
        return Address(bytes.fromhex(task.decode()), int(round_), bytes.fromhex(pseudonym.decode()), key)

    def take(self, address: Address, body: bytes, connection: Connection) -> bool:
        """Queue a report, to be answered when it is on disk; False, and nothing is done, if it must go the long way."""
        task, round_, pseudonym, key = address
        service = self._service
        live = service.known(task)
        if live is None or not live.takes(round_) or service.writer.full:
            return False
        verifier = verifier_of(key)
        if verifier is None:
            return False
        try:
            item = check_report(body, task, round_, pseudonym, verifier, live.curator)
        except DeviceViolation:
            return False
        if not self._by_key.allow(key, service.monotonic()):
            return False

        def done(outcome: Outcome | Exception) -> None:
            if outcome == "stored" or outcome == "again":
                self._metrics.judged(outcome)
                status = 201 if outcome == "stored" else 200
                self._metrics.answered(status)
                digest = hashlib.sha256(body).hexdigest()
                connection.answer(status, _ACKNOWLEDGED, b'{"digest":"%b"}' % digest.encode())
            else:
                self._refuse(task, outcome, connection)

        service.writer.submit(item, done)
        return True

    def _refuse(self, task: bytes, outcome: Outcome | Exception, connection: Connection) -> None:
        if isinstance(outcome, Exception):
            problem = problem_of(outcome)
        else:
            self._metrics.judged(outcome)
            problem = refused_by_store(outcome)
        self._metrics.refused(task, problem.token)
        self._metrics.answered(problem.status)
        connection.answer(problem.status, problem.head, problem.body)
