"""From words to a call: the commands as cyclopts sees them, and its refusals in one line.

An option can stand in the environment: ``SEMILOCAL_COUNTS_EPSILON=1`` is ``--epsilon`` of counts; what is typed wins. A
command is a function with typed parameters in a module of ``cli.commands``, loaded when it is called, so that help is
fast and needs no extra.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_origin

from cyclopts import App, CycloptsError, Group, Parameter, exceptions
from cyclopts.argument import ArgumentCollection
from cyclopts.config import Env

from ..errors import InvalidInput, MissingExtra
from .catalogue import COMMANDS, EXIT_CODES, GROUPS, Command

ABOUT = "Where a crowd is, at a resolution that follows its density, and what that costs everybody in it."


class Environment(Env):
    """Variables that begin with the name of the command; one that fits no option is refused."""

    def __call__(self, app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        """Give the options of a command that have a variable."""
        options = {self._convert_argument(commands, argument) for argument in arguments if argument.parse}
        for name in sorted(os.environ):
            if commands and name.startswith(self._prefix(commands)) and name not in options:
                near = difflib.get_close_matches(name, options, n=1)
                advice = f"did you mean {near[0]}?" if near else "unset it"
                raise InvalidInput(f"{name}: {' '.join(commands)} has no such option; {advice}")
        super().__call__(app, commands, arguments)


def build_app(version: str, *, quick: bool = False) -> App:
    """The program; no module of a command is loaded.

    With ``quick`` it runs commands, without help and completion, whose modules take a while to load.
    """
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
        config=Environment("SEMILOCAL_", show=False),
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
    )
    for place, (title, commands) in enumerate(GROUPS.items()):
        group = Group(title, sort_key=place)
        for row, (name, command) in enumerate(commands.items()):
            shown: dict[str, Any] = {"group": group, "sort_key": row}
            if not command.actions:
                _add(app, name, command, **shown)
                continue
            shown["help_prologue"] = _examples([each.examples[0] for each in command.actions.values()])
            several = App(name=name, help=command.about, group_commands=Group("Commands", sort_key=0), **shown)
            for action, each in command.actions.items():
                _add(several, action, each)
            app.command(several)
    if not quick:
        app.register_install_completion_command(help="Teach your shell to complete commands and options.")
    return app


def _add(app: App, name: str, command: Command, **shown: Any) -> None:
    found = {"help_epilogue": f"It ends with 1 if {command.found}."} if command.found else {}
    place = f"semilocal.cli.commands.{command.place}"
    app.command(place, name=name, help=command.about, help_prologue=_examples(command.examples), **found, **shown)


def _examples(lines: Sequence[str]) -> str:
    return "\n".join(["Examples:" if lines[1:] else "Example:", *(f"  {line}" for line in lines)])


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
        known = [] if isinstance(error, exceptions.UnknownCommandError) else given[:1]
        named = error.command_chain or ([word for word in known if word in COMMANDS])
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


def _in_words(error: CycloptsError) -> str:
    """What does not fit. Values that may be a position are not repeated."""
    if isinstance(error, exceptions.UnknownCommandError):  # without loading the commands, as cyclopts would
        wrong = (error.unused_tokens or [""])[0]
        commands = [name for name in error.app or () if not name.startswith("-")]
        near = difflib.get_close_matches(wrong, commands, n=1)
        advice = f"did you mean {near[0]}?" if near else f"take one of {', '.join(commands)}"
        return f"there is no command {wrong!r}; {advice}"
    words = str(error).rstrip(".")
    if isinstance(error, exceptions.MissingArgumentError | exceptions.CoercionError) and error.argument is not None:
        about = error.argument.parameter.help or error.argument.field_info.help
        if isinstance(error, exceptions.CoercionError) and get_origin(error.target_type) is Literal:
            return f"{words}: {about}"
        if isinstance(error, exceptions.MissingArgumentError) and "Did you mean" not in words:
            return f"{error.argument.name} is missing{f': {about}' if about else ''}"
    if isinstance(error, exceptions.UnknownOptionError | exceptions.UnusedCliTokensError):
        return re.sub(r"-*\.?\d[^'\s]*", "a number", words)
    return words
