"""The kinds of options that several commands share: how a text becomes a value, and where its help stands.

Knows cyclopts. Options of one idea are the fields of a frozen dataclass with ``@flat``: declared once, with their help,
and passed on whole. What reads a single value takes the text and refuses in words.
"""

from __future__ import annotations

import getpass
import math
import os
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cyclopts import Group, Parameter
from cyclopts.validators import Number
from cyclopts.validators import Path as ExistingPath

from ..arrays import exact
from ..errors import InvalidInput

__all__ = [
    "HIDDEN_HELP", "advanced", "amount", "existing", "file", "flat", "folder", "not_empty", "number", "option", "path",
    "positive", "read_hidden", "server_url", "share", "two_servers", "whole",
]  # fmt: skip

LONGEST = 4096  # characters of a hidden value
MOST = 10**12  # of a whole number, or an amount
Limits = Number | ExistingPath
flat = Parameter(name="*")  # a decorator: the fields of a dataclass are options of the command


def option(
    help: str | None = None, metavar: str | None = None, read: Callable[[str], Any] | Limits | None = None, *,
    dash: bool = False, group: Group | None = None,
) -> Parameter:  # fmt: skip
    """What to put beside a type in ``Annotated``: words for the help, and the reader of the text or its limits.

    With ``dash`` a value may begin with one, as in ``--bounds -1,-1,1,1``.
    """
    settings: dict[str, Any] = {"metavar": metavar, "help": help, "allow_leading_hyphen": dash or None, "group": group}
    if isinstance(read, Number | ExistingPath):
        settings["validator"] = read
    elif dash or read is not None:
        settings["converter"] = lambda _, tokens: (read or _no_option)(tokens[0].value)
    return Parameter(**{name: value for name, value in settings.items() if value is not None})


advanced = partial(option, group=Group("Advanced", sort_key=2))
two_servers = partial(option, group=Group("Two servers (experimental: not reviewed independently)", sort_key=3))


def _no_option(text: str) -> str:
    if text.startswith("--"):
        raise InvalidInput("a value is missing")
    return text


# -- single values -----------------------------------------------------------------------------------------------------


def whole(low: int, high: int = MOST) -> Number:
    """A whole number from low to high."""
    return Number(gte=low, lte=high)


def number(low: float) -> Number:
    """A finite number, at least low."""
    return Number(gte=low, lt=math.inf)


positive, share = Number(gt=0, lt=math.inf), Number(gt=0, lt=1)


def amount(text: str) -> str:
    """A finite number, at least 0, as it was typed: 0.1 is one tenth."""
    if not exact(text) < MOST:
        raise InvalidInput(f"must be below {MOST:,}; got {text!r}")
    return text


def server_url(text: str) -> str:
    """An address of a server, http(s)://host[:port][/path]."""
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise InvalidInput(f"must be http(s)://server[:port]; got {text!r}")
    return text


def not_empty(text: str) -> str:
    """Any text but none: a variable of a script that is not set must not stand for this folder, or for everything."""
    if not text.strip():
        raise InvalidInput("is empty; give it, or leave it out")
    return text


def path(text: str) -> Path:
    """The name of a file or folder."""
    return Path(not_empty(text))


file = partial(option, metavar="FILE", read=path)
existing = partial(option, metavar="FILE", read=ExistingPath(exists=True, dir_okay=False))
folder = partial(option, metavar="FOLDER", read=path)

# -- values that a list of processes must not show ---------------------------------------------------------------------

HIDDEN_HELP = "@FILE reads it from a file, - asks for it"


def read_hidden(text: str | None, *, option: str, variable: str) -> str:
    """A value as the owner gives it: ``@FILE``, ``-`` for a prompt without echo, itself, or the environment; or ""."""
    if text is None:
        text = os.environ.get(variable, "").strip()
        if not text.startswith("@"):
            return text
    if text == "-":
        if sys.stdin.isatty():
            return _line(getpass.getpass(f"{option.lstrip('-')}: "), option, "the prompt")
        return _line(sys.stdin.readline(LONGEST), option, "standard input")
    if text.startswith("@"):
        return _line(_read(Path(text[1:]), option), option, text[1:])
    if not text.strip():
        raise InvalidInput(f"{option}: is empty; give it, or leave {option} out")
    return text


def _read(path: Path, option: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                print(f"warning: {path} can be read by others; run: chmod 600 {path}", file=sys.stderr)
            return file.read(LONGEST)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise InvalidInput(f"{option}: cannot read {path}: {reason}") from None


def _line(text: str, option: str, source: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) != 1:
        raise InvalidInput(f"{option}: {source} must hold one line; it holds {len(lines)}")
    return lines[0]
