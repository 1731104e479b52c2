"""The command line: ``semilocal COMMAND``, also ``python -m semilocal COMMAND``.

Knows the list of commands, how errors are printed, and the exit codes. A command is a module of ``cli.commands`` with
``add_arguments(parser)`` and ``run(args)``, loaded when it is called, so that help is fast and needs no extra.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from ..errors import InvalidInput, MissingExtra, SemilocalError, printable
from .exits import BAD_INPUT, DONE, EXIT_CODES, FOUND_MEANS, STOPPED

__all__ = ["COMMANDS", "join_negative_numbers", "main"]

MOST_MESSAGE = 2000  # characters
_VERSION = sys.modules["semilocal"].__version__  # loaded before any of its modules
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "partition": "cut the domain into regions that each hold a crowd",
        "counts": "how many people are in boxes, with intervals",
        "mean": "the mean of a function of the positions, with its error",
        "points": "each position replaced by the middle of its region",
        "demo": "partition, mean and counts on a public sample; --live or --two-servers with devices over HTTP",
        "plan": "what to expect of a task before anybody is asked",
        "serve": "run the collection server",
        "campaign": "create, list, show, start or close campaigns on a server",
        "tokens": "make one-time enrolment tokens for a campaign",
        "results": "write what a finished campaign publishes, or count in boxes",
        "join": "take part in a campaign with one position",
        "swarm": "run many simulated devices in a campaign, for tests",
        "transcript": "download the transcript of a campaign",
        "verify": "replay a transcript and name everything that does not follow",
        "audit": "attack what is promised: lower bounds on the true loss",
        "reproduce": "make the figures of the paper",
        "data": "datasets of the experiments: origin, terms, what is on disk",
    }
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return an exit code of ``exits.EXIT_CODES``. Errors are one line on stderr."""
    given = join_negative_numbers(list(sys.argv[1:] if argv is None else argv))
    try:
        args = _parser(given).parse_args(given)
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)  # ours: each is for the person at the terminal
            warnings.showwarning = _show_warning
            return int(args.run(args) or DONE)
    except SemilocalError as error:
        return _refuse(str(error))
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        return _refuse(f"{what}{error.strerror or error}; check the path and its rights")
    except KeyboardInterrupt:
        print("semilocal: stopped", file=sys.stderr)
        return STOPPED


def join_negative_numbers(words: Sequence[str]) -> list[str]:
    """Join ``--option -1,2`` to ``--option=-1,2``: argparse would take the number for an option."""
    out: list[str] = []
    for word in words:
        if re.match(r"-\.?\d", word) and out and re.fullmatch(r"--[a-z][a-z-]*", out[-1]):
            out[-1] += f"={word}"
        else:
            out.append(word)
    return out


class _Parser(argparse.ArgumentParser):
    """Refuses in one line, like everything else here."""

    def error(self, message: str) -> NoReturn:
        raise InvalidInput(f"{message}; see: {self.prog} --help")


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    codes = "; ".join(f"{code} {words}" for code, words in EXIT_CODES.items())
    parser = _Parser(
        prog="semilocal",
        description="Where a crowd is, at a resolution that follows its density, and what that costs everybody in it.",
        epilog=f"Exit codes: {codes}.",
    )
    parser.add_argument("--version", action="version", version=f"semilocal {_VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    wanted = next((word for word in given if not word.startswith("-")), "")
    for name, words in COMMANDS.items():
        found = f" It ends with 1 if {FOUND_MEANS[name]}." if name in FOUND_MEANS else ""
        command = commands.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.{found}")
        if name == wanted:
            _load(name, command)
    return parser


def _load(name: str, parser: argparse.ArgumentParser) -> None:
    try:
        module = importlib.import_module(f"semilocal.cli.commands.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("semilocal"):
            raise
        raise MissingExtra(str(error.name), "all") from None
    if run := getattr(module, "run", None):  # else its sub-commands have their own
        parser.set_defaults(run=run)
    module.add_arguments(parser)


def _refuse(message: str) -> int:
    print("semilocal: error:", printable(" ".join(message.split()), most=MOST_MESSAGE), file=sys.stderr)
    return BAD_INPUT


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"semilocal: warning: {printable(str(message), most=MOST_MESSAGE)}", file=sys.stderr)
