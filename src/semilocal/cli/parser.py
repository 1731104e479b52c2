"""From words to a call: the commands as cyclopts sees them, and its refusals in our words.

Knows cyclopts. A command is a function with typed parameters in a module of ``cli.commands``, loaded when it is called,
so that help is fast and needs no extra.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from cyclopts import App, CycloptsError, Parameter
from cyclopts.argument import Argument
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from ..errors import InvalidInput, MissingExtra
from .exits import EXIT_CODES, FOUND_MEANS
from .settings import PREFIX, Environment, read_settings

__all__ = ["build_app", "join_negative_numbers", "parse"]

ABOUT = "Where a crowd is, at a resolution that follows its density, and what that costs everybody in it."
WITH_ACTIONS = frozenset({"campaign", "data", "tokens"})  # their modules hold an app with one function per action


def build_app(commands: Mapping[str, str], version: str, *, quick: bool = False) -> App:
    """The program: every command by its name and one line of help; no module of a command is loaded.

    With ``quick`` it runs commands, without help and completion, whose modules take a while to load.
    """
    codes = "; ".join(f"{code} {words}" for code, words in EXIT_CODES.items())
    settings = read_settings(commands)
    app = App(
        name="semilocal",
        help=ABOUT,
        help_epilogue=f"Exit codes: {codes}.",
        help_format="plaintext",
        help_formatter=None if quick or sys.stdout.isatty() else "plain",
        version=f"semilocal {version}",
        version_format="plaintext",
        default_parameter=Parameter(negative="", allow_repeating=True, show_default=_shown_default),
        config=[Environment(PREFIX, show=False), *([] if settings is None else [settings])],
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
    )
    for place, (name, words) in enumerate(commands.items()):
        path = f"semilocal.cli.commands.{name}"
        if name in WITH_ACTIONS:
            app.command(f"{path}:app", name=name, help=words, sort_key=place)
            continue
        found = f"It ends with 1 if {FOUND_MEANS[name]}." if name in FOUND_MEANS else None
        app.command(f"{path}:run", name=name, help=words, sort_key=place, help_format="markdown", help_epilogue=found)
    if not quick:
        app.register_install_completion_command(help="Teach your shell to complete commands and options.")
    return app


def _shown_default(value: Any) -> str | None:
    return None if value in (False, None, (), "") else f"{value:g}" if isinstance(value, float) else str(value)


def parse(words: Sequence[str], commands: Mapping[str, str], version: str) -> Callable[[], Any]:
    """What the words ask for, ready to be called.

    Raises
    ------
    InvalidInput
        If they do not fit, with what was given, what is allowed and what to do.
    MissingExtra
        If the command needs a package that is not installed.
    """
    tokens = join_negative_numbers(words)
    helping = bool({"--help", "-h"} & set(tokens))
    app = build_app(commands, version, quick=bool(tokens) and tokens[0] in commands and not helping)
    if helping and not sys.stdout.isatty():
        from rich.console import Console

        app.console = Console(width=10_000)  # one line per option: a file has no width
    try:
        function, bound, _ = app.parse_args(tokens)
    except UnknownCommandError as error:
        raise InvalidInput(_unknown_command(error, app, tokens)) from None
    except CycloptsError as error:
        raise InvalidInput(f"{_in_words(error)}; see: {_program(error, tokens)} --help") from None
    except ImportError as error:
        cause = error.__cause__ if isinstance(error.__cause__, ModuleNotFoundError) else error
        package = (cause.name or "").split(".")[0]
        if isinstance(cause, MissingExtra) or package in ("", "semilocal"):
            raise
        raise MissingExtra(package, "all") from None
    if getattr(function, "__name__", "") == "help_print" and not helping:
        program = " ".join(["semilocal", *tokens])
        raise InvalidInput(f"COMMAND is missing; see: {program} --help")
    return lambda: function(*bound.args, **bound.kwargs)


def join_negative_numbers(words: Sequence[str]) -> list[str]:
    """Join ``--option -1,2`` to ``--option=-1,2``, and ``--option -`` likewise: they are values, not options."""
    out: list[str] = []
    for word in words:
        if re.match(r"-(\.?\d|$)", word) and out and re.fullmatch(r"--[a-z][a-z-]*", out[-1]):
            out[-1] += f"={word}"
        else:
            out.append(word)
    return out


def _in_words(error: CycloptsError) -> str:
    """What does not fit. Values that may be a position are not repeated."""
    if isinstance(error, CoercionError) and error.token is not None and error.msg is not None:
        source = "" if error.token.source in ("", "cli", "env") else f"{error.token.source}: "
        return f"{source}{_name(error)}: {error.msg}"
    if isinstance(error, CoercionError) and error.token is not None and get_origin(error.target_type) is Literal:
        *names, last = map(str, get_args(error.target_type))
        return f"{_name(error)}: must be {', '.join(names)} or {last}; got {error.token.value!r}"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        argument = _required(error.argument)
        name = argument.name
        words = error.root_input_tokens or ()
        if any(word in argument.names for word in words):
            return f"{name}: a value is missing"
        near = _near(name, [word.split("=")[0] for word in words if word.startswith("--")])
        return f"{name} is missing" + (f"; did you mean {name} instead of {near}?" if near else "")
    if isinstance(error, UnknownOptionError):
        name = (error.token.keyword or error.token.value).split("=")[0]
        source = "" if error.token.source in ("", "cli") else f"{error.token.source}: "
        spelling = [spelling for one in error.argument_collection if one.parse for spelling in one.names]
        near = _near(name if name.startswith("-") else f"--{name.strip('[]')}", spelling)
        what = _hide_numbers(name)
        return f"{source}there is no option {what}" + (f"; did you mean {near}?" if near else "")
    if isinstance(error, UnusedCliTokensError):
        extra = " ".join(_hide_numbers(word) for word in error.unused_tokens or ())
        return f"unexpected words: {extra}"
    return str(error).rstrip(".")


def _required(argument: Argument) -> Argument:
    """The first option of a group that must be given and is not; the argument itself if it is not a group."""
    for child in argument.children:
        found = _required(child)
        if found.required and not found.tokens and not found.children:
            return found
    return argument


def _name(error: CoercionError) -> str:
    """What the person typed, or the name of the argument."""
    if error.token is not None and error.token.keyword:
        return error.token.keyword
    assert error.argument is not None
    return error.argument.name


def _near(name: str, names: Sequence[str]) -> str:
    spelled = {one.lstrip("-"): one for one in names}  # dashes are alike in all of them
    return next((spelled[one] for one in difflib.get_close_matches(name.lstrip("-"), spelled, n=1)), "")


def _hide_numbers(word: str) -> str:
    return "a number" if re.match(r"-?\.?\d", word) else word


def _program(error: CycloptsError, given: Sequence[str]) -> str:
    return " ".join(["semilocal", *(error.command_chain or [word for word in given[:1] if not word.startswith("-")])])


def _unknown_command(error: UnknownCommandError, app: App, given: Sequence[str]) -> str:
    """Without loading the commands, as cyclopts would."""
    wrong = (error.unused_tokens or [""])[0]
    place = error.app if error.app is not None else app
    commands = [name for name in place if not name.startswith("-")]
    near = _near(wrong, commands)
    advice = f"did you mean {near}?" if near else f"take one of {', '.join(commands)}"
    program = " ".join(["semilocal", *given[: given.index(wrong)]]) if wrong in given else "semilocal"
    return f"there is no command {wrong!r}; {advice}; see: {program} --help"
