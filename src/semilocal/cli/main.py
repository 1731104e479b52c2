"""The command line: ``semilocal COMMAND``, also ``python -m semilocal COMMAND``.

Knows how errors are printed. :mod:`semilocal.cli.catalogue` lists the commands and the exit codes,
:mod:`semilocal.cli.parser` reads the words.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import Any, TextIO

from ..errors import MissingExtra, SemilocalError, printable
from .catalogue import BAD_INPUT, DONE, STOPPED

MOST_MESSAGE = 2000  # characters
_VERSION = sys.modules["semilocal"].__version__  # loaded before any of its modules


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return an exit code of ``EXIT_CODES``. Errors are one line on stderr."""
    write_every_letter(sys.stdout, sys.stderr)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)  # ours: each is for the person at the terminal
            warnings.showwarning = _Warnings()
            if argv is None:
                # Loading modules leaves nothing half done, and Python loses a Ctrl-C that comes in the callback that
                # ends the loading of each: until there is a command to run, the process ends at once.
                catches = signal.getsignal(signal.SIGINT) is signal.default_int_handler
                if catches:
                    signal.signal(signal.SIGINT, signal.SIG_DFL)
                gc.disable()  # modules are not garbage: collecting would only cost time, now and at the end
                call = read_words(sys.argv[1:])
                gc.freeze()
                gc.enable()
                if catches:
                    signal.signal(signal.SIGINT, signal.default_int_handler)
            else:
                call = read_words(argv)
            return int(call() or DONE)
    except SemilocalError as error:
        return _refuse(str(error))
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        from ..io.files import NO_ROOM

        what = f"{error.filename}: " if error.filename else ""
        advice = "make room, or write elsewhere" if error.errno in NO_ROOM else "check the path and its permissions"
        return _refuse(f"{what}{error.strerror or error}; {advice}")
    except KeyboardInterrupt:
        print("semilocal: stopped", file=sys.stderr)
        return STOPPED


def write_every_letter(*streams: TextIO) -> None:
    """Let streams take every letter: files and pipes get UTF-8, a terminal a code for what it cannot show."""
    for stream in streams:
        if isinstance(stream, TextIOWrapper):  # a test or a notebook may have put something else there
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def read_words(words: Sequence[str]) -> Callable[[], Any]:
    """What the words ask for, ready to be called."""
    try:
        from .parser import parse
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("semilocal"):
            raise
        raise MissingExtra(str(error.name), "cli") from None
    return parse(words, _VERSION)


def _refuse(message: str) -> int:
    print("semilocal: error:", printable(" ".join(message.split()), most=MOST_MESSAGE), file=sys.stderr)
    return BAD_INPUT


class _Warnings:
    """Shows each warning, and the same words once."""

    def __init__(self) -> None:
        self._shown: set[str] = set()

    def __call__(self, message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in self._shown:
            self._shown.add(str(message))
            print(f"semilocal: warning: {printable(str(message), most=MOST_MESSAGE)}", file=sys.stderr)
