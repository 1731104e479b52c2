"""The exceptions and warnings of semilocal, all of them; and text from elsewhere, made safe to show in a message.

::

    SemilocalError
    ├── InvalidInput          an argument is not what the function takes (also a ValueError)
    │   └── OutsideDomain     points outside the box, or not finite
    ├── ProtocolError
    │   ├── ServerViolation   a device refuses what the server sent
    │   └── DeviceViolation   the server refuses what a device sent
    ├── BudgetExceeded        a ledger refuses to spend more than its cap
    ├── MissingExtra          an optional dependency is not installed (also an ImportError)
    ├── EngineFailed          DuckDB or Spark could not finish: no space, cancelled, lost
    ├── VaultError            a device's vault cannot be opened
    ├── Lost                  one request got no response; the device tries again
    ├── Unreachable           the server gave a device no usable answer for too long
    ├── Refused               the server refuses a request, with a token of service.problems
    ├── PeerAway              the other server of a pair is away, or refuses a step
    ├── EvaluationFailed      a server of a pair cannot evaluate some reports now
    ├── StoreUnavailable      the server's database does not answer now
    ├── SchemaMismatch        the server's database has another schema version
    ├── Overloaded            the server's queue of writes is full
    ├── DamagedFile           a transcript file cannot be read
    └── Unavailable           a server does not give what a transcript needs

    NoCrowdWarning            a result holds a region with fewer than k participants
    WeakWarning               an epsilon that promises next to nothing, or too few people for it
    OutsideWarning            areas that are asked about reach outside the domain

Every message says what was given, what is allowed, and what to do. How the server answers a refused request
(status, token) is a table of its own: ``service.problems``. A server, a transcript or a client may put anything into a
name or a reason: sequences that move the cursor, hide a line or turn the direction of writing, and megabytes of it.
``printable`` is for all of that.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


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
    """An optional dependency is not installed; without ``extra`` it is in none of ours."""

    def __init__(self, package: str, extra: str = "") -> None:
        what = f"'semilocal[{extra}]'" if extra else package
        super().__init__(f"this needs {package}; install it with: pip install {what}")


def optional(name: str, extra: str = "") -> Any:
    """A module that may be missing, loaded when it is used; else what to install."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtra(name.split(".")[0], extra) from None


class EngineFailed(SemilocalError):
    """An engine could not finish: its disk or memory is full, it was cancelled, or it was lost."""


class VaultError(SemilocalError):
    """A vault cannot be opened: it is in use, readable by others, or damaged."""


class Lost(SemilocalError):
    """No response: the connection failed, ended or took too long. The request may have arrived or not."""


class Unreachable(SemilocalError):
    """The server gave no usable answer for too long. Nothing is lost: the vault knows where to continue."""


class Refused(SemilocalError):
    """The server refuses a request.

    Parameters
    ----------
    token : str
        One of ``service.problems.PROBLEMS``.
    reason : str
        For a person.
    wait : int, optional
        Seconds after which to ask once more.
    """

    def __init__(self, token: str, reason: str, *, wait: int | None = None) -> None:
        super().__init__(reason)
        self.token, self.wait = token, wait


class PeerAway(SemilocalError):
    """The other server of a pair did not do what was asked; nothing is lost, the same request is sent again later.

    Parameters
    ----------
    reason : str
        For a person.
    refuses : bool
        Whether it answered, and waiting alone will not change what it says.
    """

    def __init__(self, reason: str, *, refuses: bool = False) -> None:
        super().__init__(reason)
        self.refuses = refuses


class EvaluationFailed(SemilocalError):
    """A server of a pair cannot evaluate a part of its reports now; the pair waits, and its operator is told why."""


class StoreUnavailable(SemilocalError):
    """The database does not answer now; nothing was promised, try again."""


class SchemaMismatch(SemilocalError):
    """The database has another schema version than this program."""


class Overloaded(SemilocalError):
    """The queue is full, or the service is shutting down."""


class DamagedFile(SemilocalError):
    """A transcript file cannot be read: it was damaged, cut off, or is none."""


class Unavailable(SemilocalError):
    """The server does not give what a transcript needs."""


class NoCrowdWarning(UserWarning):
    """A region holds fewer than k participants."""


class WeakWarning(UserWarning):
    """An epsilon that promises next to nothing, or too few people for it to tell much."""


class OutsideWarning(UserWarning):
    """Areas that are asked about reach outside the domain: nobody there was asked."""


MOST_NAMES = 20  # of columns in one message
# A name that is a number, or holds one with decimals: a file without a line of names has somebody's row in its place.
_CELL = re.compile(r"[-+]?\d+([._]\d+)?|.*\d[.,]\d.*", re.DOTALL)
MOST = 300  # characters of one value
MOST_LINES = 20_000  # characters of a text with several lines
_SPACES = re.compile("[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+")
# C0, DEL, C1; marks and overrides of direction; invisible spaces and joiners of nothing; halves of pairs; tags
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)


def printable(text: str, *, most: int = MOST, lines: bool = False) -> str:
    """The text without control characters and overrides of direction, cut if it is long.

    Parameters
    ----------
    text : str
    most : int
        Characters that are kept; a longer text says how many it had.
    lines : bool
        Keep line breaks. Without it, the result is one line.

    Examples
    --------
    >>> printable("a\\x1b[2Jb\\nc\\u202ed")
    'a[2Jb cd'
    >>> printable("aaaa", most=2)
    'aa… (4 characters)'
    """
    kept = text[: most + 1]
    if lines:
        kept = "\n".join(_HIDDEN.sub("", _SPACES.sub(" ", line)) for line in kept.replace("\r\n", "\n").split("\n"))
    else:
        kept = _HIDDEN.sub("", _SPACES.sub(" ", kept))
    return kept if len(text) <= most else f"{kept[:most]}… ({len(text):,} characters)"


def listed_columns(names: Sequence[object]) -> str:
    """The names of columns, for a message; not if they look like somebody's row.

    Examples
    --------
    >>> listed_columns(["lon", "lat"])
    "'lon', 'lat'"
    >>> listed_columns(["anna", "13.3777", "52.5162"])
    '3 columns that are not listed, because numbers stand where names should be: is there a first line with names?'
    """
    if any(isinstance(name, str) and _CELL.fullmatch(name.strip()) for name in names):
        return (
            f"{len(names)} columns that are not listed, because numbers stand where names should be: is there a first "
            "line with names?"
        )
    shown = ", ".join(repr(name) for name in names[:MOST_NAMES])
    return shown + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


def is_plain(text: str) -> bool:
    """Whether a text has no control characters and no overrides of direction.

    Examples
    --------
    >>> is_plain("longitude"), is_plain("a\\x7f")
    (True, False)
    """
    return _HIDDEN.search(text) is None


def outside_level() -> int:
    """The ``stacklevel`` of a warning that names the line of whoever called semilocal."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "semilocal":
        level, frame = level + 1, frame.f_back
    return level
