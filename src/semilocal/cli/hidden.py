"""Values that a list of processes must not show: from a file, a prompt or the environment.

Knows the terminal, files and the environment.
"""

from __future__ import annotations

import getpass
import os
import stat
import sys
from pathlib import Path

from ..errors import InvalidInput

__all__ = ["HIDDEN_HELP", "read_hidden"]

HIDDEN_HELP = "@FILE reads it from a file, - asks for it"
LONGEST = 4096


def read_hidden(text: str | None, *, option: str, variable: str) -> str:
    """A value as the owner wants to give it.

    Parameters
    ----------
    text : str or None
        ``@FILE``, ``-`` for a prompt without echo, or the value itself; None takes the environment variable.
    option, variable : str
        Names, for messages and the environment.

    Returns
    -------
    str
        Empty if it was not given at all.
    """
    if text is None:
        return os.environ.get(variable, "").strip()
    if text == "-":
        return _ask(option) if sys.stdin.isatty() else _line(sys.stdin.readline(LONGEST), option, "standard input")
    if text.startswith("@"):
        return _line(_read(Path(text[1:]), option), option, text[1:])
    if not text.strip():
        raise InvalidInput(f"{option}: is empty; give it, or leave {option} out")
    return text


def _ask(option: str) -> str:
    return _line(getpass.getpass(f"{option.lstrip('-')}: "), option, "the prompt")


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
