"""Stopping with one signal: the wish is remembered, and obeyed where nothing is half done.

Python raises ``KeyboardInterrupt`` wherever it happens to be. In a callback, and one runs after every module that is
loaded, nobody can catch it: it is printed, and the program goes on. Between storing the hash of a token and showing the
token it would leave a server that nobody can administer. Knows signals. Knows no server.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """The wish to stop, by Ctrl-C or SIGTERM, inside a ``with`` statement; the first thing of a command.

    SIGTERM ends the statement as if it had come to its end; Ctrl-C is still ``KeyboardInterrupt``.
    """

    def __init__(self) -> None:
        self._wish: int | None = None
        self._before: dict[int, Any] = {}
        self._tell: Callable[[int], None] = lambda _: None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # others cannot have handlers
            handlers = {number: signal.getsignal(number) for number in SIGNALS}
            self._before = {number: one for number, one in handlers.items() if one is not signal.SIG_IGN}  # nohup
        self._catch()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        return kind is KeyboardInterrupt and self._wish == signal.SIGTERM

    def check(self) -> None:
        """Stop here if that is wished."""
        if self._wish is not None:
            raise KeyboardInterrupt

    def hand_over(self, tell: Callable[[int], None]) -> None:
        """Stop here if that is wished; from now on ``tell`` gets the signal, too, whatever handlers there were.

        It runs in a signal handler: it may set or append something, and must take no lock.
        """
        self._tell = tell
        self._catch()
        self.check()

    def _catch(self) -> None:
        for number in self._before:
            signal.signal(number, self._remember)

    def _remember(self, number: int, _: FrameType | None) -> None:
        self._wish = number
        self._tell(number)
