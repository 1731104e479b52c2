"""Options that are not typed: from environment variables, and from ``semilocal.toml``.

    SEMILOCAL_COUNTS_EPSILON=1      the option --epsilon of counts
    [counts]                        the same, in the file
    epsilon = 1

What is typed wins over the environment, and the environment over the file. The file is ``semilocal.toml`` in the
working folder, or the one that ``SEMILOCAL_CONFIG`` names. Secrets in a file that others can read are refused.
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from cyclopts import App
from cyclopts.argument import ArgumentCollection
from cyclopts.config import Dict, Env

from ..errors import InvalidInput

__all__ = ["CONFIG", "PREFIX", "READ_ELSEWHERE", "SECRETS", "Environment", "read_settings"]

CONFIG = "SEMILOCAL_CONFIG"
PREFIX = "SEMILOCAL_"
DEFAULT_FILE = "semilocal.toml"
SECRETS = frozenset({"token", "admin-token", "position"})
# Variables without the name of a command that are read where they are needed: they may be called like an option.
READ_ELSEWHERE = frozenset(
    PREFIX + name
    for name in (
        "ACCESS_LOG", "ADMIN_HASH", "ADMIN_TOKEN", "DATA", "DB", "LOG_LEVEL", "MORE_ROUTES", "POSITION", "SIGNING_KEY",
        "TOKEN", "VALUE",
    )
)  # fmt: skip


class Environment(Env):
    """Variables that begin with the name of the command.

    A name that fits no option is refused, and so is an option's name without that of the command.
    """

    def __call__(self, app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        """Give the options of a command that have a variable."""
        prefix = self._prefix(commands)
        if not commands:
            return
        known = {self._convert_argument(commands, one): one for one in arguments if one.parse}
        without_command = {PREFIX + full.removeprefix(prefix): full for full in known}
        for name in os.environ:
            if name in without_command and name not in READ_ELSEWHERE:
                raise InvalidInput(f"{name}: names no command; write {without_command[name]}, or unset it")
            if name.startswith(prefix) and name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                advice = f"did you mean {near[0]}?" if near else "unset it"
                raise InvalidInput(f"{name}: {' '.join(commands)} has no such option; {advice}")
        super().__call__(app, commands, arguments)


def read_settings(commands: Collection[str]) -> Dict | None:
    """The options in the file of settings; None if there is none.

    Raises
    ------
    InvalidInput
        If the file was named but is missing, is not TOML, has a section that is not a command, or holds a secret
        and can be read by others.
    """
    named = os.environ.get(CONFIG, "")
    path = Path(named or DEFAULT_FILE)
    if not named and not path.is_file():
        return None
    import tomllib  # seldom needed

    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            document = tomllib.load(file)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}; check {CONFIG}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: is not TOML: {error}") from None
    for name, section in document.items():
        if name not in commands or not isinstance(section, dict):
            raise InvalidInput(
                f"{path}: [{name}] is not a section with options of a command; take one of {', '.join(commands)}"
            )
    secret = next(_secrets(document), None)
    if secret is not None and mode & 0o077:
        raise InvalidInput(f"{path}: holds {secret} and can be read by others; run: chmod 600 {path}")
    return Dict(document, source=str(path))


def _secrets(section: dict[str, Any]) -> Iterator[str]:
    """The names of secrets in a section and in its parts."""
    for name, value in section.items():
        if isinstance(value, dict):
            yield from _secrets(value)
        elif name.replace("_", "-") in SECRETS:
            yield name
