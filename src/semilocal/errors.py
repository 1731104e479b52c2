"""The exceptions and warnings of semilocal.

::

    SemilocalError
    ├── InvalidInput          an argument is not what the function takes (also a ValueError)
    │   └── OutsideDomain     points outside the box, or not finite
    ├── ProtocolError
    │   ├── ServerViolation   a device refuses what the server sent
    │   └── DeviceViolation   the server refuses what a device sent
    ├── BudgetExceeded        a ledger refuses to spend more than its cap
    ├── MissingExtra          an optional dependency is not installed (also an ImportError)
    └── near what raises them
        ├── device.disk.VaultError, device.channel.Unreachable
        ├── service.store.StoreUnavailable, SchemaMismatch, service.writer.Overloaded
        ├── transcript_file.DamagedFile, transcript_download.Unavailable
        └── experiments.download.DownloadFailed, ChecksumMismatch

    NoCrowdWarning            a result holds a region with fewer than k participants

Every message says what was given, what is allowed, and what to do.
"""

from __future__ import annotations


class SemilocalError(Exception):
    """Base of all errors that semilocal raises on purpose."""


class InvalidInput(SemilocalError, ValueError):
    """An argument is not what the function takes."""


class OutsideDomain(InvalidInput):
    """Some points lie outside the domain or are not finite."""


class ProtocolError(SemilocalError):
    """A message does not follow the protocol.

    Parameters
    ----------
    token : str
        A stable identifier of the check that failed, such as ``"skipped-round"``; the test vectors and the
        wire errors use it.
    reason : str
        What happened, for a person.
    """

    def __init__(self, token: str, reason: str) -> None:
        super().__init__(f"{reason} [{token}]")
        self.token = token
        self.reason = reason


class ServerViolation(ProtocolError):
    """A device refuses a message of the server."""


class DeviceViolation(ProtocolError):
    """The server refuses a message of a device."""


class BudgetExceeded(SemilocalError):
    """Spending would exceed the cap of a ledger."""


class MissingExtra(SemilocalError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}; install it with: pip install 'semilocal[{extra}]'")


class NoCrowdWarning(UserWarning):
    """A region holds fewer than k participants."""
