"""From words to a call: the commands as cyclopts sees them, its settings, and its refusals in one line.

    SEMILOCAL_COUNTS_EPSILON=1      the option --epsilon of counts
    [counts]                        the same, in semilocal.toml or the file that SEMILOCAL_CONFIG names
    epsilon = 1

What is typed wins over the environment, and the environment over the file. A command is a function with typed
parameters in a module of ``cli.commands``, loaded when it is called, so that help is fast and needs no extra.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from cyclopts import App, CycloptsError, Group, Parameter
from cyclopts.argument import Argument, ArgumentCollection
from cyclopts.config import Env, Toml
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from ..errors import InvalidInput, MissingExtra
from .catalogue import ACTIONS, COMMANDS, EXIT_CODES, GROUPS, Command

__all__ = ["CONFIG", "READ_ELSEWHERE", "build_app", "parse"]

ABOUT = "Where a crowd is, at a resolution that follows its density, and what that costs everybody in it."
CONFIG = "SEMILOCAL_CONFIG"
PREFIX = "SEMILOCAL_"
SECRETS = frozenset({"token", "admin-token", "position"})
# Variables without the name of a command that are read where they are needed: they may be called like an option.
READ_ELSEWHERE = frozenset(
    PREFIX + name
    for name in (
        "ADMIN_HASH", "ADMIN_TOKEN", "DATA", "DB", "LOG_LEVEL", "MORE_ROUTES", "POSITION", "SIGNING_KEY",
        "TOKEN", "VALUE",
    )
)  # fmt: skip
_ALMOST = 0.9  # of two names that are spelled nearly the same


def build_app(version: str, *, quick: bool = False) -> App:
    """The program; no module of a command is loaded.

    With ``quick`` it runs commands, without help and completion, whose modules take a while to load.
    """
    named = os.environ.get(CONFIG, "")
    codes = "; ".join(f"{code} {words}" for code, words in EXIT_CODES.items())
    app = App(
        name="semilocal",
        help=ABOUT,
        help_epilogue=f"Exit codes: {codes}.",
        help_format="plaintext",
        help_formatter=None if quick or sys.stdout.isatty() else "plain",
        group_commands=Group("More", sort_key=len(GROUPS)),
        version=f"semilocal {version}",
        version_format="plaintext",
        default_parameter=Parameter(negative="", allow_repeating=True, show_default=_shown_default),
        config=[Environment(PREFIX, show=False), SettingsFile(named or "semilocal.toml", must_exist=bool(named))],
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
    )
    groups = {name: Group(name, sort_key=place) for place, name in enumerate(GROUPS)}
    for place, (name, command) in enumerate(COMMANDS.items()):
        shown: dict[str, Any] = {"group": groups[command.group], "sort_key": place}
        if name not in ACTIONS:
            _add(app, name, command, f"{name}:run", **shown)
            continue
        several = App(name=name, help=command.about, group_commands=Group("Commands", sort_key=0), **shown)
        for action, each in ACTIONS[name].items():
            _add(several, action, each, f"{name}:run_{action}")
        app.command(several)
    if not quick:
        app.register_install_completion_command(help="Teach your shell to complete commands and options.")
    return app


def _add(app: App, name: str, command: Command, place: str, **shown: Any) -> None:
    examples = "\n".join(
        ["Examples:" if command.examples[1:] else "Example:", *(f"  {line}" for line in command.examples)]
    )
    found = {"help_epilogue": f"It ends with 1 if {command.found}."} if command.found else {}
    app.command(
        f"semilocal.cli.commands.{place}", name=name, help=command.about, help_prologue=examples, **found, **shown
    )


def _shown_default(value: Any) -> str | None:
    return None if value in (False, None, (), "") else f"{value:g}" if isinstance(value, float) else str(value)


def parse(words: Sequence[str], version: str) -> Callable[[], Any]:
    """What the words ask for, ready to be called.

    Raises
    ------
    InvalidInput
        If they do not fit, with what was given, what is allowed and what to do.
    MissingExtra
        If the command needs a package that is not installed.
    """
    given = list(words)
    helping = bool({"--help", "-h"} & set(given))
    app = build_app(version, quick=bool(given) and given[0] in COMMANDS and not helping)
    if helping and not sys.stdout.isatty():
        from rich.console import Console

        app.console = Console(width=10_000)  # one line per option: a file has no width
    try:
        function, bound, _ = app.parse_args(given)
    except CycloptsError as error:
        named = error.command_chain or ([] if given[0].startswith("-") else given[:1])
        raise InvalidInput(f"{_in_words(error)}; see: {' '.join(['semilocal', *named])} --help") from None
    except ImportError as error:
        cause = error.__cause__ if isinstance(error.__cause__, ModuleNotFoundError) else error
        package = (cause.name or "").split(".")[0]
        if isinstance(cause, MissingExtra) or package in ("", "semilocal"):
            raise
        raise MissingExtra(package, "all") from None
    if getattr(function, "__name__", "") == "help_print" and not helping:
        raise InvalidInput(f"COMMAND is missing; see: {' '.join(['semilocal', *given])} --help")
    return lambda: function(*bound.args, **bound.kwargs)


# -- refusals ----------------------------------------------------------------------------------------------------------


def _in_words(error: CycloptsError) -> str:
    """What does not fit. Values that may be a position are not repeated."""
    if isinstance(error, CoercionError) and error.token is not None and error.argument is not None and error.msg:
        source = "" if error.token.source in ("", "cli", "env") else f"{error.token.source}: "
        return f"{source}{error.token.keyword or error.argument.name}: {error.msg}"
    if isinstance(error, CoercionError) and error.token is not None and get_origin(error.target_type) is Literal:
        *names, last = map(str, get_args(error.target_type))
        name = error.token.keyword or error.token.value
        return f"{name}: must be {', '.join(names)} or {last}; got {error.token.value!r}: {_help(error.argument)}"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        return _missing(error)
    if isinstance(error, UnknownOptionError):
        name = (error.token.keyword or error.token.value).split("=")[0]
        source = "" if error.token.source in ("", "cli") else f"{error.token.source}: "
        options = [spelling for one in error.argument_collection if one.parse for spelling in one.names]
        near = difflib.get_close_matches(f"--{name.strip('-[]')}", options, n=1)
        return f"{source}there is no option {_hide_numbers(name)}{f'; did you mean {near[0]}?' if near else ''}"
    if isinstance(error, UnusedCliTokensError):
        return f"unexpected words: {' '.join(map(_hide_numbers, error.unused_tokens or ()))}"
    if isinstance(error, UnknownCommandError):  # without loading the commands, as cyclopts would
        wrong = (error.unused_tokens or [""])[0]
        commands = [name for name in error.app or () if not name.startswith("-")]
        near = difflib.get_close_matches(wrong, commands, n=1)
        advice = f"did you mean {near[0]}?" if near else f"take one of {', '.join(commands)}"
        return f"there is no command {wrong!r}; {advice}"
    return str(error).rstrip(".")


def _missing(error: MissingArgumentError) -> str:
    """Which option is missing, and its help; or its value."""
    assert error.argument is not None
    name, given = error.argument.name, error.root_input_tokens or ()
    if any(word in error.argument.names for word in given):
        return f"{name}: a value is missing"
    words = [word.split("=")[0] for word in given if word.startswith("--")]
    near = [word for word in difflib.get_close_matches(name, words, n=1) if word not in error.argument.names]
    if near:
        return f"{name} is missing; did you mean {name} instead of {near[0]}?"
    text = _help(error.argument)
    return f"{name} is missing: {text}" if text else f"{name} is missing"


def _help(argument: Argument | None) -> str:
    return "" if argument is None else argument.parameter.help or argument.field_info.help or ""


def _hide_numbers(word: str) -> str:
    return "a number" if re.match(r"-?\.?\d", word) else word


# -- settings ----------------------------------------------------------------------------------------------------------


class Environment(Env):
    """Variables that begin with the name of the command.

    A name that fits no option is refused, and so is an option's name without the whole name of the command. One that
    is almost that of an option, and of no command, is warned about: it may belong to another program.
    """

    def __call__(self, app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        """Give the options of a command that have a variable."""
        if not commands:
            return
        options = {self._convert_argument(commands, argument) for argument in arguments if argument.parse}
        whole = self._prefix(commands)
        partly = [self._prefix(commands[:words]) for words in range(len(commands))]
        without_command = {short + full.removeprefix(whole): full for full in options for short in partly}
        of_commands = tuple(f"{PREFIX}{name.upper()}_" for name in COMMANDS)
        for name in sorted(os.environ):
            if not name.startswith(PREFIX) or name in options | READ_ELSEWHERE | {CONFIG}:
                continue
            if name in without_command:
                raise InvalidInput(f"{name}: names no command; write {without_command[name]}, or unset it")
            near = difflib.get_close_matches(name, options, n=1)
            if name.startswith(whole):
                advice = f"did you mean {near[0]}?" if near else "unset it"
                raise InvalidInput(f"{name}: {' '.join(commands)} has no such option; {advice}")
            near = difflib.get_close_matches(name, options, n=1, cutoff=_ALMOST)
            if near and not name.startswith(of_commands):
                warnings.warn(f"{name} is not used; did you mean {near[0]}?", UserWarning, stacklevel=2)
        super().__call__(app, commands, arguments)


class SettingsFile(Toml):
    """The file of settings. Whatever command runs, a file with secrets that others can read is refused."""

    def _load_config(self, path: Path) -> dict[str, Any]:
        try:
            document = super()._load_config(path)
        except ValueError as error:
            raise CycloptsError(msg=f"{path.name}: is not TOML: {error}") from None
        for name, section in document.items():
            if name not in COMMANDS or not isinstance(section, dict):
                allowed = ", ".join(COMMANDS)
                raise CycloptsError(msg=f"{path.name}: [{name}] is not a section of a command; take one of {allowed}")
        if stat.S_IMODE(path.stat().st_mode) & 0o077 and (secret := next(_secrets(document), None)):
            raise CycloptsError(
                msg=f"{path.name}: holds {secret} and can be read by others; run: chmod 600 {path.name}"
            )
        return document


def _secrets(section: dict[str, Any]) -> Iterator[str]:
    """The names of secrets in a section and in its parts."""
    for name, value in section.items():
        if isinstance(value, dict):
            yield from _secrets(value)
        elif name.replace("_", "-") in SECRETS:
            yield name
