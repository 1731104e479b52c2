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

from ..errors import InvalidInput

__all__ = [
    "HIDDEN_HELP", "advanced", "amount", "existing", "existing_file", "file", "flat", "folder", "not_empty", "number",
    "option", "path", "positive", "read_hidden", "server_url", "share", "two_servers", "whole",
]  # fmt: skip

LONGEST = 4096  # characters of a hidden value
flat = Parameter(name="*")  # a decorator: the fields of a dataclass are options of the command


def option(
    help: str | None = None, metavar: str | None = None, read: Callable[[str], Any] | None = None, *,
    dash: bool = False, group: Group | None = None,
) -> Parameter:  # fmt: skip
    """What to put beside a type in ``Annotated``: words for the help, and the reader of the text.

    With ``dash`` a value may begin with one, as in ``--bounds -1,-1,1,1``.
    """
    settings: dict[str, Any] = {"metavar": metavar, "help": help, "allow_leading_hyphen": dash or None, "group": group}
    if dash:
        read = _no_option
    if read is not None:
        settings["converter"] = lambda _, tokens: read(tokens[0].value)
    return Parameter(**{name: value for name, value in settings.items() if value is not None})


advanced = partial(option, group=Group("Advanced", sort_key=2))
two_servers = partial(option, group=Group("Two servers (experimental: not reviewed independently)", sort_key=3))


def _no_option(text: str) -> str:
    if text.startswith("--"):
        raise InvalidInput("a value is missing")
    return text


# -- single values -----------------------------------------------------------------------------------------------------


def whole(low: int, high: int = 10**12) -> Callable[[str], int]:
    """A whole number from low to high."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            top = f" to {high:,}" if high < 10**12 or value > high else " up"
            raise InvalidInput(f"must be a whole number from {low}{top}; got {text!r}")
        return value

    return read


def number(low: float = -math.inf, high: float = math.inf, *, above: bool = False) -> Callable[[str], float]:
    """A finite number from low to high; with ``above`` neither of them."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or not low <= value <= high or (above and value in (low, high)):
            wanted = f" above {low:g}" if above else f", at least {low:g}"
            wanted = f" between {low:g} and {high:g}" if math.isfinite(high) else wanted
            raise InvalidInput(f"must be a finite number{wanted}; got {text!r}")
        return value

    return read


def amount(text: str) -> str:
    """A finite number, at least 0, as it was typed: 0.1 is one tenth."""
    return text if number(0)(text) else "0"


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


def existing_file(text: str) -> Path:
    """A file that is there."""
    named = path(text)
    if named.is_dir():
        raise InvalidInput(f"{text} is a folder; give the name of a file")
    if not named.is_file():
        what = "is a device or a pipe; give a file" if named.exists() else "no such file; check the path"
        raise InvalidInput(f"{text}: {what}")
    return named


positive, share = number(0, above=True), number(0, 1, above=True)
file = partial(option, metavar="FILE", read=path)
existing = partial(option, metavar="FILE", read=existing_file)
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
